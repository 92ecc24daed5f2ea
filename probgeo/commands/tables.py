"""Tables of numbers as users have them: .csv files, with or without a header, and .npy files."""

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np


class InputError(ValueError):
    """What a user can put right: shown as one line, without a traceback."""


@dataclass(frozen=True)
class Table:
    """Points (P, D), all finite, and the names of their D columns; notes say how they were read."""

    values: np.ndarray
    columns: tuple[str, ...]
    notes: tuple[str, ...] = ()

    def take(self, rows: np.ndarray) -> "Table":
        """Some of the points."""
        return replace(self, values=self.values[rows])

    def without_constants(self) -> "Table":
        """The columns that say something, and a note about the others."""
        varies = np.ptp(self.values, axis=0) > 0
        if varies.all() or not varies.any():
            return self
        told = (
            f"left out: column {self.columns[k]!r}, which is {self.values[0, k]:g} in every row"
            for k in np.flatnonzero(~varies)
        )
        kept = tuple(self.columns[k] for k in np.flatnonzero(varies))
        return Table(self.values[:, varies], kept, (*self.notes, *told))


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
        raise InputError(
            f"{path} has missing, NaN or infinite values in {_rows(bad)} "
            "(counted from 0, without the header): remove these rows or fill them in"
        )
    return table


def write_table(path: Path, columns: Sequence[str], rows: Iterable[Iterable[Any]]) -> None:
    """A .csv file with a header."""
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
        kind = getattr(values, "dtype", type(values).__name__)
        raise InputError(f"{path} must hold real numbers, got {kind}")
    if values.ndim != 2 or values.shape[1] == 0:
        raise InputError(f"{path} must hold one point a row, shape (P, D), got {values.shape}")
    return Table(values.astype(float), _numbered(values.shape[1]))


def _read_csv(path: Path, header: bool | None) -> Table:
    rows = _cells(path)
    width, notes = len(rows[0][1]), []
    columns = _numbered(width)
    if _is_header([row for _, row in rows]) if header is None else header:
        columns = tuple(
            name.lstrip("# ") or name_by_number for name, name_by_number in zip(rows[0][1], columns, strict=True)
        )
        unnamed = not rows[0][1][0]
        other = "" if header else " (--no-header if that is a point)"
        notes.append(f"header: {', '.join(_first(rows[0][1]))}{other}")
        rows = rows[1:]
        if width > 1 and unnamed and [row[0] for _, row in rows] == _counted(len(rows)):
            notes.append("left out: the first column, which has no name and counts the rows")
            rows, columns = [(line, row[1:]) for line, row in rows], columns[1:]
    elif header is None:
        notes.append(f"no header: the first point is {', '.join(_first(rows[0][1]))}")
    values = np.empty((len(rows), len(columns)))
    for k, (line, row) in enumerate(rows):
        for d, cell in enumerate(row):
            number = _number(cell)
            if number is None:
                raise InputError(_about_text(path, columns[d], line, cell))
            values[k, d] = number
    return Table(values, columns, tuple(notes))


def _cells(path: Path) -> list[tuple[int, list[str]]]:
    """Number of the line, for messages, and cells of every row; empty lines are left out."""
    try:
        text = path.read_text(encoding="utf-8-sig")  # spreadsheets put a mark at the beginning
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not a text file in UTF-8") from error
    first = text.lstrip().partition("\n")[0]
    delimiter = next((mark for mark in (";", "\t") if mark in first), ",")
    try:
        reader = csv.reader(io.StringIO(text), delimiter=delimiter, strict=True)
        rows = [(reader.line_num, [cell.strip() for cell in row]) for row in reader]
    except csv.Error as error:
        raise InputError(f"{path} is not a .csv file: {error}") from error
    rows = [(line, row) for line, row in rows if any(row)]
    if not rows:
        raise InputError(f"{path} is empty")
    width = len(rows[0][1])
    for line, row in rows:
        if len(row) != width:
            raise InputError(f"{path} has {len(row)} columns in line {line}, {width} in the first")
    return rows


def _is_header(rows: list[list[str]]) -> bool:
    """Whether the first row names columns: text above a number, or nothing but text.

    Text above text may be data, about which there will be a complaint. Pandas names columns without
    names 0, 1, 2, ..., and its index not at all.
    """
    first, others = rows[0], rows[1:]
    names = first[1:] if not first[0] else first
    if names == _counted(len(names)) and others and others[0] != first:
        # a single 0 may well be a point, unless all that follows has a decimal point
        sure = len(first) > 1 or all("." in row[0] for row in others)
        if sure:
            return True
    text = np.array([[_is_text(cell) for cell in row] for row in rows[:2]])
    return bool(text[0].all() or (len(rows) > 1 and (text[0] & ~text[1]).any()))


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


def _counted(count: int) -> list[str]:
    return [str(k) for k in range(count)]


def _first(cells: list[str], most: int = 5) -> list[str]:
    shown = [cell or "(no name)" for cell in cells[:most]]
    return shown + ["..."] * (len(cells) > most)


def _number(cell: str) -> float | None:
    """NaN for an empty cell, None for text."""
    try:
        return float(cell) if cell else np.nan
    except ValueError:
        return None


def _numbered(count: int) -> tuple[str, ...]:
    return tuple(f"x{d + 1}" for d in range(count))


def _rows(bad: np.ndarray, most: int = 5) -> str:
    first = ", ".join(str(k) for k in bad[:most])
    more = f" and {bad.size - most} more" if bad.size > most else ""
    return f"row {first}" if bad.size == 1 else f"rows {first}{more}"
