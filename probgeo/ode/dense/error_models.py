"""What is known about the error of evaluating f at an estimate instead of at the solution.

At node t_i the solver evaluates f at the estimates (c, c') and observes something about the
derivative c^(n) there. An error model says what: a linear map H of the curve and its derivatives at
t_i, its value, and the covariance Lambda_i of the noise on it (Eq. 10 and 12).

Covariances come in blocks of size B: B = D in general, B = 1 if every Lambda_i is a multiple of V,
when the factor V drops out of all of them (`kronecker`). Evaluations come in R rows; what does not
depend on them has a leading axis of size 1.
"""

from typing import Any, NamedTuple

import numpy as np

from probgeo._checks import as_float_array
from probgeo._repr import described


class Evaluations(NamedTuple):
    """f at R rows, by unit time: the states (R, order, D) it was evaluated at, its values (R, D), and Jacobians
    J[r, m, i, j] = d f_i / d c^(m)_j (R, order, D, D) if they were asked for."""

    states: np.ndarray
    values: np.ndarray
    jacobians: np.ndarray | None


class ErrorModel:
    """The base: the evaluation is taken as an observation of c^(n), with some noise.

    Your own model defines `noise`, and says whether it needs Jacobians (`uses_jacobians`),
    whether its noise is always a multiple of V (`kronecker`) and whether maps and noise are the
    same for all evaluations (`shared`, one Gram matrix for the whole batch).
    """

    uses_jacobians: bool = False
    kronecker: bool = False
    shared: bool = False

    def __repr__(self) -> str:
        return described(self)

    def check(self, order: int, dimension: int) -> None:
        """Raise if the model does not fit problems of this order and dimension."""

    def observe(self, evaluations: Evaluations) -> tuple[np.ndarray, np.ndarray]:
        """Values (R, D) and maps H (R or 1, B, n + 1, B) of the observations made."""
        _, n, d = evaluations.states.shape
        b = 1 if self.kronecker else d
        h = np.zeros((1, b, n + 1, b))
        h[0, :, n, :] = np.eye(b)
        return evaluations.values, h

    def noise(self, evaluations: Evaluations, sigma: np.ndarray) -> np.ndarray:
        """Lambda_i (R or 1, B, B), given the covariance `sigma` (R or 1, n, B, n, B) of the
        estimates."""
        raise NotImplementedError


class NoError(ErrorModel):
    """The estimate is taken for the truth. The Gram matrix is then the same for all problems."""

    kronecker = shared = True

    def noise(self, evaluations: Evaluations, sigma: np.ndarray) -> np.ndarray:
        return np.zeros((1, 1, 1))


class JacobianError(ErrorModel):
    """The exact first-order covariance J Sigma J' of the error, as independent noise."""

    uses_jacobians = True

    def noise(self, evaluations: Evaluations, sigma: np.ndarray) -> np.ndarray:
        J = _side_by_side(evaluations)
        size = J.shape[-1]
        return J @ sigma.reshape(-1, size, size) @ J.mT


class BoundError(ErrorModel):
    """Eq. 10: noise from bounds U on |df/dc| and U' on |df/dc'|.

    Parameters
    ----------
    U, U_prime : float or array (D, D)
        U[i, j] bounds |d f_j / d c_i| (Eq. 9). Two floats u bound the Jacobian as u times the
        identity and keep the Kronecker structure. U_prime is not needed for first-order ODEs.

    Eq. 10 as printed can be indefinite (erratum 4); then its majorant
    2 (U' Sigma_cc U + U'' Sigma_c'c' U') takes its place.
    """

    shared = True

    def __init__(self, U: Any, U_prime: Any = None) -> None:
        given = {"U": U} if U_prime is None else {"U": U, "U_prime": U_prime}
        arrays = {name: as_float_array(name, value) for name, value in given.items()}
        for name, bound in arrays.items():
            if bound.ndim not in (0, 2) or (bound.ndim == 2 and bound.shape[0] != bound.shape[1]):
                raise ValueError(f"{name} must be a number or a (D, D) array, got {bound.shape}")
            if np.any(bound < 0):
                raise ValueError(f"{name} bounds absolute values and must not be negative")
        if len({bound.shape for bound in arrays.values()}) > 1:
            raise ValueError("U and U_prime must both be numbers or both be (D, D) arrays")
        self.bounds = np.stack(list(arrays.values()))

    @property
    def kronecker(self) -> bool:  # type: ignore[override]
        return self.bounds.ndim == 1

    def check(self, order: int, dimension: int) -> None:
        if len(self.bounds) != order:
            needed = "U and U_prime" if order == 2 else "only U, without U_prime"
            raise ValueError(f"BoundError needs {needed} for an ODE of order {order}")
        if not self.kronecker and self.bounds.shape[-1] != dimension:
            raise ValueError(f"U must have shape ({dimension}, {dimension}), got {self.bounds[0].shape}")

    def noise(self, evaluations: Evaluations, sigma: np.ndarray) -> np.ndarray:
        bounds = self.bounds[:, None, None] if self.kronecker else self.bounds
        return _noise_within(bounds[None], sigma)


class FoundBounds(ErrorModel):
    """Eq. 10 with bounds (R, n, D, D) of every member's own, found along a first solution of it."""

    def __init__(self, bounds: np.ndarray) -> None:
        self.bounds = bounds

    def noise(self, evaluations: Evaluations, sigma: np.ndarray) -> np.ndarray:
        return _noise_within(self.bounds, sigma)


def _noise_within(bounds: np.ndarray, sigma: np.ndarray) -> np.ndarray:
    """Eq. 10 (R, B, B) from bounds (R, n, B, B) and covariances (R, n, B, n, B)."""
    # U_m' Sigma_mn U_n
    terms = bounds.mT[:, :, None] @ np.swapaxes(sigma, 2, 3) @ bounds[:, None]
    own, sizes = (np.einsum("rmmij->rij", x) for x in (terms, np.abs(terms)))
    printed = own - sizes + np.abs(terms).sum(axis=(1, 2))
    printed = 0.5 * (printed + printed.mT)
    finite = np.nan_to_num(printed, posinf=0.0, neginf=0.0)
    definite = np.linalg.eigvalsh(finite)[:, 0, None, None] >= 0.0
    return np.where(definite, printed, bounds.shape[1] * own)


class LinearisedError(ErrorModel):
    """f is replaced by its linearisation: c^(n) - J (c, c') is observed without noise.

    The error J (c - estimate) then keeps its correlation with the curve, so that the posterior of
    a linear ODE is exact; sweeps over it are Gauss-Newton steps.
    """

    uses_jacobians = True

    def observe(self, evaluations: Evaluations) -> tuple[np.ndarray, np.ndarray]:
        values, h = super().observe(evaluations)
        J, states = evaluations.jacobians, evaluations.states
        assert J is not None
        maps = np.repeat(h, len(values), axis=0)
        maps[:, :, :-1, :] = -np.swapaxes(J, 1, 2)
        known = _side_by_side(evaluations) @ states.reshape(len(values), states.shape[1] * states.shape[2], 1)
        return values - known[..., 0], maps

    def noise(self, evaluations: Evaluations, sigma: np.ndarray) -> np.ndarray:
        d = evaluations.states.shape[-1]
        return np.zeros((1, d, d))


def _side_by_side(evaluations: Evaluations) -> np.ndarray:
    """Jacobians (df/dc, df/dc') as one matrix (R, D, n D) a row."""
    J = evaluations.jacobians
    assert J is not None
    R, n, D, _ = J.shape
    return np.swapaxes(J, 1, 2).reshape(R, D, n * D)
