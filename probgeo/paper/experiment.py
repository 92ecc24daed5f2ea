"""What an experiment is given, and what it hands back."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
from matplotlib.figure import Figure

T = TypeVar("T")
Verdict = Literal["agrees", "partly", "disagrees", "not tested"]

SCIPY = "#e69f00"  # colour of the classical solver

# one column of a page is 3.4 inches wide, the page 7
STYLE: Any = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "legend.fontsize": 7,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "axes.linewidth": 0.6,
    "figure.constrained_layout.use": True,
    "pdf.fonttype": 42,
}


@dataclass(frozen=True)
class Settings:
    """How large an experiment is to be.

    quick : fewer points, the same code.
    tiny : as few as make sense, for tests.
    """

    quick: bool = False
    seed: int = 0
    tiny: bool = False

    def choose(self, full: T, quick: T, tiny: T | None = None) -> T:
        """One of three sizes."""
        if self.tiny:
            return quick if tiny is None else tiny
        return quick if self.quick else full

    @property
    def rng(self) -> np.random.Generator:
        return np.random.default_rng(self.seed)


class Progress:
    """A bar over the steps of one experiment; this one shows nothing."""

    def over(self, steps: Iterable[T], what: str) -> Iterable[T]:
        """The steps, counted."""
        return steps

    def say(self, what: str) -> None:
        """What is being done now."""


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, in our words, and what was measured of it."""

    paper: str
    measured: str
    verdict: Verdict
    why: str = ""


@dataclass
class Outcome:
    """What one experiment found.

    figures : by the name of the file, without suffix.
    movies : by the same, functions that write one to a path.
    numbers : all that was measured.
    settings : what it was measured with.
    """

    figures: dict[str, Figure]
    numbers: dict[str, Any]
    settings: dict[str, Any]
    claims: list[Claim] = field(default_factory=list)
    movies: dict[str, Callable[[Path], None]] = field(default_factory=dict)
