"""Plain maps of rows, x (n, D) -> (n, ...), and what metrics need of them."""

from abc import ABC, abstractmethod
from typing import Literal, NamedTuple

import numpy as np

Form = Literal["metric", "decoder"]


class EnergyTerms(NamedTuple):
    """L(x, v) = v' M(x) v / 2 with gradients and, if they were wanted, blocks of the Hessian.

    xv[i, j] = d^2 L / dx_i dv_j, and vv = M(x). Blocks that were not wanted are empty.
    """

    energy: np.ndarray  # (n,)
    by_x: np.ndarray  # (n, D)
    by_v: np.ndarray  # (n, D)
    xx: np.ndarray  # (n, D, D)
    xv: np.ndarray  # (n, D, D)
    vv: np.ndarray  # (n, D, D)


class RowFunction(ABC):
    """A map x (D,) -> array of shape `out_shape`, at many rows.

    The methods that take a `form` treat it as one of two quadratic forms: "metric" if it returns
    M(x) (D, D) itself; "decoder" if M = J'J with J its Jacobian.

    Attributes
    ----------
    dimension : D
    out_shape : shape of its value at one point
    """

    dimension: int
    out_shape: tuple[int, ...]

    @abstractmethod
    def _run(self, what: str, *columns: np.ndarray) -> tuple[np.ndarray, ...]:
        """A formula of `formulas.OF_ROWS` at columns (n, D): arrays (n, ...)."""

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
        self,
        x: np.ndarray,
        v: np.ndarray,
        second: bool = True,
        form: Form = "metric",
        gauss_newton: bool = False,
    ) -> EnergyTerms:
        """L(x, v) and its derivatives; the `second` ones without second derivatives of J v if
        `gauss_newton`, which is for decoders."""
        if second:
            kind = "gauss-newton" if gauss_newton and form == "decoder" else "terms"
            return EnergyTerms(*self._run(f"{form} {kind}", x, v))
        empty = np.empty((0, 0, 0))
        return EnergyTerms(*self._run(f"{form} gradient", x, v), empty, empty, empty)

    def forces(
        self, x: np.ndarray, v: np.ndarray, form: Form = "metric"
    ) -> tuple[np.ndarray, np.ndarray]:
        """F(x, v) = dL/dx - (d^2 L / dv dx) v, (n, D), and M(x); geodesics have c'' = M^-1 F."""
        force, tensor = self._run(f"{form} force", x, v)
        return force, tensor

    def force_jacobians(
        self, x: np.ndarray, v: np.ndarray, a: np.ndarray, form: Form = "metric"
    ) -> np.ndarray:
        """Derivatives of F(x, v) - M(x) a by x and by v at fixed a: (n, 2, D, D).

        M^-1 times that are the derivatives of the acceleration a = M^-1 F.
        """
        return np.stack(self._run(f"{form} force jacobian", x, v, a), axis=1)
