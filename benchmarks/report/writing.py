"""Tables, numbers and verdicts, in Markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

OURS = "probgeo"
SPECTRAL = "spectral fixed point"


def table(header: Sequence[str], rows: Sequence[Sequence[object]], words: int = 1) -> str:
    """A table whose first columns hold words, the others numbers."""
    rules = [":---"] * words + ["---:"] * (len(header) - words)
    return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in (header, rules, *rows))


def number(value: float | None, form: str = ".3g") -> str:
    return "-" if value is None or not np.isfinite(value) else format(value, form)


def milliseconds(seconds: float | None) -> str:
    return number(None if seconds is None else 1e3 * seconds)


def listed(names: Sequence[str]) -> str:
    """One, two and three.

    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def two_digits(value: float) -> str:
    """Two digits that count, without powers of ten for the large ones.

    >>> two_digits(342.0), two_digits(0.0912), two_digits(2.0)
    ('340', '0.091', '2')
    """
    return f"{float(f'{value:.1e}'):g}"


def named(solver: str) -> str:
    """A solver in a sentence: libraries have names, methods have articles."""
    return f"the {solver}" if solver == SPECTRAL else solver


def factor(ratio: float, solver: str) -> str:
    """Our time over theirs in words."""
    other = named(solver)
    if ratio >= 1:
        return f"takes {two_digits(ratio)} times as long as {other}"
    return f"is {two_digits(1 / ratio)} times faster than {other}"


def reason(error: Exception) -> str:
    """What an error says, in one line and without the paths of this machine.

    >>> reason(ImportError("no name 'a' in 'b' (/home/b.py)"))
    "ImportError: no name 'a' in 'b'"
    """
    said = " ".join(f"{type(error).__name__}: {error}".splitlines()[:1])
    return re.sub(r"\s*\(?['\"]?/[^\s)]*\)?", "", said).replace("|", "/")[:200]


def verdict(by_problem: dict[str, float], other: str) -> str:
    """What the ratios of our time to theirs amount to."""
    known = {name: r for name, r in by_problem.items() if np.isfinite(r)}
    if not known:
        return f"With {named(other)} there is no problem on which both reach this error."
    middle = float(np.exp(np.mean(np.log(list(known.values())))))
    text = f"{OURS} {factor(middle, other)}"
    if len(known) > 1:
        least, most = min(known.values()), max(known.values())
        text += f" (geometric mean over {len(known)} problems; by problem "
        text += f"{two_digits(least)} to {two_digits(most)} times its time)"
    missing = [name for name in by_problem if name not in known]
    return text + (f"; no comparison on {listed(missing)}." if missing else ".")


def broken(rows: Sequence[dict]) -> str:
    """Which solvers could not be run, and what they said."""
    found = {row["solver"]: row["broken"] for row in rows if "broken" in row}
    return "\n".join(f"- {name} could not be run: `{why}`." for name, why in found.items())
