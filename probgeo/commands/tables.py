"""Tables of numbers as users have them: .csv files, with or without a header, and .npy files."""

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

Row = list[str]


class InputError(ValueError):
    """A mistake in the input, shown as one line without a traceback."""


@dataclass(frozen=True)
class Table:
    """Points (P, D), all finite, and the names of their D columns; notes say how they were read."""

    values: np.ndarray
    columns: tuple[str, ...]
    notes: tuple[str, ...] = ()

    def take(self, rows: np.ndarray) -> "Table":
        return replace(self, values=self.values[rows])

    def only(self, columns: np.ndarray) -> "Table":
        return Table(self.values[:, columns], tuple(self.columns[k] for k in columns), self.notes)

    def without_constants(self) -> "Table":
        """Without columns that are the same in every row, and with a note about those."""
        varies = np.ptp(self.values, axis=0) > 0
        if not varies.any():
            return self
        told = (
            f"left out: column {self.columns[k]!r}, which is {self.values[0, k]:g} in every row"
            for k in np.flatnonzero(~varies)
        )
        return replace(self.only(np.flatnonzero(varies)), notes=(*self.notes, *told))


def read_table(path: str | Path, header: bool | None = None) -> Table:
    """The points in a .csv or .npy file, one a row.

    Whether the first line of a .csv names the columns is found out, unless `header` says so.
    """
    path = Path(path)
    readers = {".csv": _read_csv, ".npy": _read_npy}
    if path.suffix.lower() not in readers:
        raise InputError(f"{path} must be a .csv or a .npy file, got the suffix {path.suffix!r}")
    check_there(path)
    table = readers[path.suffix.lower()](path, header)
    if not len(table.values):
        raise InputError(f"{path} has no points")
    bad = np.flatnonzero(~np.isfinite(table.values).all(axis=1))
    if bad.size:
        rows = f"row{'s' * (bad.size > 1)} {', '.join(map(str, bad[:5]))}"
        more = f" and {bad.size - 5} more" if bad.size > 5 else ""
        raise InputError(
            f"{path} has missing, NaN or infinite values in {rows}{more} "
            "(counted from 0, without the header): remove these rows or fill them in"
        )
    return table


def write_table(path: Path, columns: Sequence[str], rows: Iterable[Iterable[Any]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(rows)


def check_there(path: Path) -> None:
    if path.is_dir():
        raise InputError(f"{path} is a folder, not a file")
    if not path.exists():
        raise InputError(f"there is no file {path}")


def _read_npy(path: Path, header: bool | None) -> Table:
    if header:
        raise InputError(f"--header is for .csv files, {path} has no line of names")
    try:
        values = np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise InputError(f"{path} is not an array of numbers in NumPy's format: {error}") from error
    if not isinstance(values, np.ndarray) or values.dtype.kind not in "biuf":
        raise InputError(f"{path} must hold real numbers, got {getattr(values, 'dtype', type(values).__name__)}")
    if values.ndim != 2 or values.shape[1] == 0:
        raise InputError(f"{path} must hold one point a row, shape (P, D), got {values.shape}")
    return Table(values.astype(float), _numbered(values.shape[1]))


def _read_csv(path: Path, header: bool | None) -> Table:
    lines, rows = _cells(path)
    shown = ", ".join(cell or "(no name)" for cell in rows[0][:5]) + ", ..." * (len(rows[0]) > 5)
    columns, notes = _numbered(len(rows[0])), []
    if header or (header is None and _is_header(rows)):
        names, lines, rows = rows[0], lines[1:], rows[1:]
        columns = tuple(name.lstrip("# ") or number for name, number in zip(names, columns, strict=True))
        notes.append(f"header: {shown}{'' if header else ' (--no-header if that is a point)'}")
        if len(names) > 1 and not names[0] and [row[0] for row in rows] == _indices(len(rows)):
            notes.append("left out: the first column, which has no name and counts the rows")
            rows, columns = [row[1:] for row in rows], columns[1:]
    elif header is None:
        notes.append(f"no header: the first point is {shown}")
    values = np.empty((len(rows), len(columns)))
    for k, d in np.ndindex(values.shape):
        number = _number(rows[k][d])
        if number is None:
            raise InputError(_about_text(path, columns[d], lines[k], rows[k][d]))
        values[k, d] = number
    return Table(values, columns, tuple(notes))


def _cells(path: Path) -> tuple[list[int], list[Row]]:
    """Line numbers (for messages) and cells of all lines that are not empty."""
    try:
        text = path.read_text(encoding="utf-8-sig")  # spreadsheets put a mark at the beginning
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not a text file in UTF-8") from error
    first = text.lstrip().partition("\n")[0]
    delimiter = next((mark for mark in (";", "\t") if mark in first), ",")
    try:
        reader = csv.reader(io.StringIO(text), delimiter=delimiter, strict=True)
        found = [(reader.line_num, [cell.strip() for cell in row]) for row in reader]
    except csv.Error as error:
        raise InputError(f"{path} is not a .csv file: {error}") from error
    found = [(line, row) for line, row in found if any(row)]
    if not found:
        raise InputError(f"{path} is empty")
    width = len(found[0][1])
    for line, row in found:
        if len(row) != width:
            raise InputError(f"{path} has {len(row)} columns in line {line}, {width} in the first")
    return [line for line, _ in found], [row for _, row in found]


def _is_header(rows: list[Row]) -> bool:
    """Whether the first row names columns: text above a number, or nothing but text.

    Text above text may be data, about which there will be a complaint. Pandas names columns without names 0, 1, 2, ...,
    and its index not at all.
    """
    first, *others = rows
    names = first[1:] if not first[0] else first
    # a single 0 may well be a point, unless all that follows has a decimal point
    sure = len(first) > 1 or all("." in row[0] for row in others)
    if names == _indices(len(names)) and sure and others and others[0] != first:
        return True
    text = np.array([[_is_text(cell) for cell in row] for row in rows[:2]])
    return bool(text[0].all() or (text[0] & ~text[-1]).any())


def _is_text(cell: str) -> bool:
    return _number(cell.replace(",", ".")) is None


def _about_text(path: Path, column: str, line: int, cell: str) -> str:
    if not _is_text(cell):
        return (
            f"{path} has decimal commas, {cell!r} in line {line}: write {cell.replace(',', '.')} "
            "(pandas: read_csv(..., sep=';', decimal=',') and to_csv)"
        )
    if not any(_is_text(part) for part in cell.split()):
        return (
            f"{path} has numbers that are separated by spaces in line {line}: "
            "columns must be separated by commas, semicolons or tabs"
        )
    return f"column {column!r} of {path} holds text, {cell!r} in line {line}: all columns must be numbers"


def _indices(count: int) -> Row:
    return [str(k) for k in range(count)]


def _number(cell: str) -> float | None:
    """NaN for an empty cell, None for text."""
    try:
        return float(cell) if cell else np.nan
    except ValueError:
        return None


def _numbered(count: int) -> tuple[str, ...]:
    return tuple(f"x{d + 1}" for d in range(count))
