"""What an experiment takes and returns, and what several of them draw in the same way."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.animation import FuncAnimation, PillowWriter
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from probgeo import kernels, plot, solvers

T = TypeVar("T")
Verdict = Literal["agrees", "partly", "disagrees", "not tested"]

SCIPY = "#e69f00"  # colour of the classical solver
TIMES = np.linspace(0.0, 1.0, 101)  # at which curves are drawn and compared
ITERATIONS = 5  # of the paper's descent to a mean, Eq. 5

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
    """How large an experiment is to be: quick has fewer points, tiny as few as make sense, for tests."""

    quick: bool = False
    seed: int = 0
    tiny: bool = False

    def choose(self, full: T, quick: T, tiny: T | None = None) -> T:
        """One of three sizes; without a tiny one, quick is used."""
        if self.tiny and tiny is not None:
            return tiny
        return quick if self.quick or self.tiny else full

    @property
    def rng(self) -> np.random.Generator:
        return np.random.default_rng(self.seed)


@dataclass(frozen=True)
class Claim:
    """What the paper says, in our words, and what was measured."""

    paper: str
    measured: str
    verdict: Verdict
    why: str = ""


def verdict(*right: bool) -> Verdict:
    """The verdict on a claim, from whether each of its parts is right."""
    return "agrees" if all(right) else "partly" if any(right) else "disagrees"


@dataclass
class Outcome:
    """What one experiment found.

    figures : by the name of the file, without suffix.
    numbers : all that was measured.
    settings : what it was measured with.
    movies : as figures, functions that write one to a path.
    """

    figures: dict[str, Figure]
    numbers: dict[str, Any]
    settings: dict[str, Any]
    claims: list[Claim] = field(default_factory=list)
    movies: dict[str, Callable[[Path], None]] = field(default_factory=dict)


def paper_solver(X: np.ndarray, lengthscale: float = 0.25, n_points: int = 20, refinements: int = 50) -> solvers.Dense:
    """The solver of the paper as it is used there: V from the ends, shaped by the data."""
    kernel = kernels.SquaredExponential(lengthscale)
    return solvers.Dense(kernel, n_points, refinements=refinements, V="ends", S=np.cov(X.T))


def cpu_seconds(function: Callable, *args: Any) -> float:
    """CPU time of a call, all threads together."""
    start = time.process_time()
    function(*args)
    return time.process_time() - start


def draw_classical(ax: Axes, solutions: Iterable[Any]) -> None:
    """Draw the solutions by SciPy that converged, on top of ours."""
    for solution in solutions:
        if solution.success:
            ax.plot(*solution.sol(TIMES)[:2], "--", color=SCIPY, linewidth=1.2, zorder=4)


def explain_curves(ax: Axes, where: Any) -> None:
    """A legend of means, samples and SciPy."""
    lines = (("mean", "-"), ("samples", "-"), ("SciPy", "--"))
    handles = [ax.plot([], [], style, color=plot.COLOURS.get(name, SCIPY), label=name)[0] for name, style in lines]
    ax.legend(handles=handles, loc=where, frameon=False)


def movie(draw: Callable[[np.ndarray, int], None], frames: int, panels: int, height: float) -> Callable[[Path], None]:
    """A function that writes an animation to a path; `draw` fills the empty panels of a frame."""

    def write(path: Path) -> None:
        figure, axes = plt.subplots(1, panels, figsize=(3.4, height), squeeze=False)

        def frame(k: int) -> list:
            for ax in axes[0]:
                ax.clear()
            draw(axes[0], k)
            return []

        FuncAnimation(figure, frame, frames=frames).save(path, PillowWriter(fps=12), dpi=100)
        plt.close(figure)

    return write
