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


class RowFunction(ABC):
    """A map x (D,) -> array of shape `out_shape`, at many rows.

    The methods that take a `form` treat it as one of three quadratic forms: "metric" if it returns
    M(x) (D, D) itself; "decoder" if M = J'J with J its Jacobian; "gaussian" if it returns means
    and logarithms of standard deviations (2, ...) of normal distributions, and M is Fisher's.

    Attributes
    ----------
    dimension : D
    out_shape : shape of its value at one point
    precision : spacing, next to one, of the numbers that it computes with
    """

    dimension: int
    precision: float = 2.0**-52
    out_shape: tuple[int, ...]

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

    def tensors(self, x: np.ndarray, form: Form = "metric") -> np.ndarray:
        """M(x): (n, D, D)."""
        return self._run(f"{form} tensor", x)[0]

    def energies(self, x: np.ndarray, v: np.ndarray, form: Form = "metric") -> np.ndarray:
        """L(x, v): (n,)."""
        return self._run(f"{form} energy", x, v)[0]

    def energy_terms(
        self, x: np.ndarray, v: np.ndarray, second: bool = True, form: Form = "metric"
    ) -> tuple[np.ndarray, ...]:
        """L(x, v) (n,), its gradients by x and by v (n, D), the blocks xx, xv, vv (n, D, D).

        xv[i, j] = d^2 L / dx_i dv_j, and vv = M(x). Blocks are empty, (0, D, D), unless `second`.
        """
        if second:
            return self._run(f"{form} terms", x, v)
        empty = np.empty((3, 0, self.dimension, self.dimension))
        return (*self._run(f"{form} gradient", x, v), *empty)

    def products(self, x: np.ndarray) -> np.ndarray:
        """Inner products (n, K, K) of all first and second derivatives of a decoder.

        First the D columns of its Jacobian, then f''(e_i, e_j) with i >= j, see `pair_numbers`.
        """
        return self._run("decoder products", x)[0]

    def forces(self, x: np.ndarray, v: np.ndarray, form: Form = "metric") -> tuple[np.ndarray, np.ndarray]:
        """F(x, v) = dL/dx - (d^2 L / dv dx) v, (n, D), and M(x); geodesics have c'' = M^-1 F."""
        force, tensor = self._run(f"{form} force", x, v)
        return force, tensor

    def force_jacobians(self, x: np.ndarray, v: np.ndarray, a: np.ndarray, form: Form = "metric") -> np.ndarray:
        """Derivatives of F(x, v) - M(x) a by x and by v at fixed a: (n, 2, D, D).

        M^-1 times that are the derivatives of the acceleration a = M^-1 F.
        """
        return np.stack(self._run(f"{form} force jacobian", x, v, a), axis=1)
