"""Plain maps of rows, x (n, D) -> (n, ...), and what metrics need of them."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

Form = Literal["metric", "decoder", "gaussian"]
AT_ONCE = 2**15  # numbers that are worked on at a time: more gain nothing and need memory


def in_blocks(run: Callable, columns: Sequence[np.ndarray], block: int) -> tuple[np.ndarray, ...]:
    """Arrays run(*columns) (n, ...) at columns (n, ...), at most `block` rows at a time."""
    n = len(columns[0])
    if n <= block:
        return run(*columns)
    parts = [run(*(column[i : i + block] for column in columns)) for i in range(0, n, block)]
    return tuple(np.concatenate(outputs) for outputs in zip(*parts, strict=True))


def pair_numbers(dimension: int) -> np.ndarray:
    """Numbers (D, D) of second derivatives: of the pairs i >= j, row by row.

    >>> pair_numbers(2).tolist()
    [[0, 1], [1, 2]]
    """
    i, j = np.tril_indices(dimension)
    number = np.empty((dimension, dimension), dtype=np.int64)
    number[i, j] = number[j, i] = np.arange(len(i))
    return number


def asymmetry(M: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How much entries (..., D, D) differ from those across, and whether round-off explains it."""
    gap = np.abs(M - M.swapaxes(-1, -2)).max(axis=(-1, -2))
    return gap, ~(gap > 1e-9 * np.abs(M).max(axis=(-1, -2)))


class RowFunction(ABC):
    """A map x (D,) -> array of shape `out_shape`, at many rows, and the metric M that it stands for.

    `form` says which: "metric" if it returns M(x) (D, D) itself; "decoder" if M = J'J with J its Jacobian; "gaussian"
    if it returns means and standard deviations (2, ...) of normal distributions, and M is Fisher's.

    Attributes
    ----------
    dimension : D
    after : applied to the values of f, in whichever framework they are; `elementwise` if it says so
    out_shape : shape of a value after that
    name : what errors call the metric
    """

    form: Form = "metric"
    spacing: float = 2.0**-52
    name: str = ""

    def __init__(self, f: Callable, dimension: int, out_shape: tuple[int, ...], after: Callable | None = None) -> None:
        self.f, self.dimension, self.after = f, dimension, after
        self.out_shape = out_shape if after is None else np.shape(after(np.ones(out_shape)))

    @abstractmethod
    def _run(self, what: str, *columns: np.ndarray) -> tuple[np.ndarray, ...]:
        """A formula, by its name in `formulas`, at columns (n, D): arrays (n, ...)."""

    def values(self, x: np.ndarray) -> np.ndarray:
        """f(x): (n, *out_shape)."""
        return self._run("values", x)[0]

    def scalar_terms(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Values (n,), gradients (n, D) and Hessians (n, D, D) of a map to numbers."""
        value, gradient, hessian = self._run("scalar terms", x)
        return value, gradient, hessian

    def tensors_at(self, x: np.ndarray) -> np.ndarray:
        """M(x): (n, D, D)."""
        return self._symmetric(x, self._run(f"{self.form} tensor", x)[0])

    def energies(self, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        """L = v' M(x) v / 2: (n,)."""
        return self._run(f"{self.form} energy", x, v)[0]

    def energy_terms(self, x: np.ndarray, v: np.ndarray, second: bool = True) -> tuple[np.ndarray, ...]:
        """L with its first and, if asked for, second derivatives, in the order of `EnergyTerms`."""
        if not second:
            return *self._run(f"{self.form} gradient", x, v), *np.empty((3, 0, self.dimension, self.dimension))
        *terms, M = self._run(f"{self.form} terms", x, v)
        return *terms, self._symmetric(x, M)

    def forces(self, x: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """F = dL/dx - (d^2 L / dv dx) v, (n, D), and M(x); geodesics have c'' = M^-1 F."""
        force, M = self._run(f"{self.form} force", x, v)
        return force, self._symmetric(x, M)

    def force_jacobians(self, x: np.ndarray, v: np.ndarray, a: np.ndarray) -> np.ndarray:
        """Derivatives of F(x, v) - M(x) a by x and by v at fixed a: (n, 2, D, D)."""
        return np.stack(self._run(f"{self.form} force jacobian", x, v, a), axis=1)

    def _symmetric(self, x: np.ndarray, M: np.ndarray) -> np.ndarray:
        """M at x, if it is symmetric: derivatives are those of v' M v, which sees nothing else."""
        if self.form != "metric":
            return M
        gaps, symmetric = asymmetry(M)
        if not symmetric.all():
            n = np.argmin(symmetric)
            raise ValueError(
                f"the metric {self.name} must be symmetric, but at x = {x[n]} it has entries "
                f"that differ by {gaps[n]:.3g}"
            )
        return M

    def is_pulled_back(self, dimension: int) -> bool:
        """Whether its `products` are what Newton's method gets."""
        # there are D^2 second derivatives of a decoder; third ones take some 6 D passes through it
        return self.form == "decoder" and dimension <= 6

    def products(self, x: np.ndarray) -> np.ndarray:
        """Inner products (n, K, K) of all first and second derivatives of a decoder, see `Metric.products`."""
        return self._run("decoder products", x)[0]

    def precision(self, dimension: int) -> float:
        """Spacing, next to one, of the numbers that it computes with."""
        return self.spacing
