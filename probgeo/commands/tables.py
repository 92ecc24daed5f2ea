"""Tables of numbers as users have them: .csv files, with or without a header, and .npy files."""

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

SHOWN = 5  # rows named in a message


class InputError(ValueError):
    """What a user can put right: shown as one line, without a traceback."""


@dataclass(frozen=True)
class Table:
    """Points (P, D), all finite, and the names of their D columns."""

    values: np.ndarray
    columns: tuple[str, ...]


def read_table(path: str | Path) -> Table:
    """The points in a .csv or .npy file, one a row."""
    path = Path(path)
    readers = {".csv": _read_csv, ".npy": _read_npy}
    if path.suffix.lower() not in readers:
        raise InputError(f"{path} must be a .csv or a .npy file, got the suffix {path.suffix!r}")
    check_there(path)
    table = readers[path.suffix.lower()](path)
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


def _read_npy(path: Path) -> Table:
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


def _read_csv(path: Path) -> Table:
    try:
        text = path.read_text(encoding="utf-8-sig")  # spreadsheets put a mark at the beginning
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not a text file in UTF-8") from error
    first = text.lstrip().partition("\n")[0]
    delimiter = next((mark for mark in (";", "\t") if mark in first), ",")
    try:
        # the number of the line, for messages, and its cells; empty lines are left out
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
    columns = _numbered(width)
    if _is_header([row for _, row in rows[:2]]):
        columns = tuple(
            name.lstrip("# ") or name_by_number
            for name, name_by_number in zip(rows[0][1], columns, strict=True)
        )
        unnamed = not rows[0][1][0]
        rows = rows[1:]
        if unnamed and [row[0] for _, row in rows] == [str(k) for k in range(len(rows))]:
            raise InputError(
                f"the first column of {path} has no name and counts the rows: remove it "
                "(pandas: to_csv(..., index=False))"
            )
    values = np.empty((len(rows), width))
    for k, (line, row) in enumerate(rows):
        for d, cell in enumerate(row):
            number = _number(cell)
            if number is None:
                comma = _number(cell.replace(",", ".")) is not None
                raise InputError(
                    f"column {columns[d]!r} of {path} holds text, {cell!r} in line {line}: "
                    + ("write 1.5, not 1,5" if comma else "all columns must be numbers")
                )
            values[k, d] = number
    return Table(values, columns)


def _is_header(rows: list[list[str]]) -> bool:
    """Whether the first row names columns: text above a number, or nothing but text.

    Text above text may be data, about which there will be a complaint. Pandas names columns without
    names 0, 1, 2, ...
    """
    counted = [str(k) for k in range(len(rows[0]))]
    if len(counted) > 1 and len(rows) > 1 and rows[0] == counted != rows[1]:
        return True
    text = np.array([[_number(cell) is None for cell in row] for row in rows])
    return bool(text[0].all() or (len(rows) > 1 and (text[0] & ~text[1]).any()))


def _number(cell: str) -> float | None:
    """NaN for an empty cell, None for text."""
    try:
        return float(cell) if cell else np.nan
    except ValueError:
        return None


def _numbered(count: int) -> tuple[str, ...]:
    return tuple(f"x{d + 1}" for d in range(count))


def _rows(bad: np.ndarray) -> str:
    first = ", ".join(str(k) for k in bad[:SHOWN])
    more = f" and {bad.size - SHOWN} more" if bad.size > SHOWN else ""
    return f"row {first}" if bad.size == 1 else f"rows {first}{more}"
