"""Functions of rows written with NumPy; derivatives that are not given come from differences."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from probgeo.functions.field import FunctionField
from probgeo.functions.parameters import rebuilt
from probgeo.functions.row_function import AT_ONCE, RowFunction, in_blocks

EPSILON = float(np.finfo(float).eps)


def derivative(function: Callable, x: np.ndarray, order: int = 1) -> np.ndarray:
    """Derivatives of rows by central differences: x (n, K) -> (n, ..., K).

    `order` says how many derivatives the values of `function` have already lost to differences,
    plus one: steps are those that balance truncation and rounding.
    """
    steps = EPSILON ** (1 / (2 + order)) * np.maximum(1.0, np.abs(x))
    columns = []
    for k in range(x.shape[1]):
        ahead, behind = x.copy(), x.copy()
        ahead[:, k] += steps[:, k]
        behind[:, k] -= steps[:, k]
        width = ahead[:, k] - behind[:, k]  # exactly, unlike twice the step
        change = function(ahead) - function(behind)
        columns.append(change / width.reshape(-1, *[1] * (change.ndim - 1)))
    return np.stack(columns, axis=-1)


def derivative_at_once(function: Callable, x: np.ndarray) -> np.ndarray:
    """The same with one call of the function, at 2 n K rows."""
    n, K = x.shape
    shifts = (EPSILON ** (1 / 3) * np.maximum(1.0, np.abs(x)))[:, None] * np.eye(K)
    moved = np.stack([x[:, None] + shifts, x[:, None] - shifts])  # (2, n, K, K)
    values = function(moved.reshape(-1, K)).reshape(2, n, K, -1)
    width = np.diagonal(moved[0] - moved[1], axis1=1, axis2=2)
    return ((values[0] - values[1]) / width[..., None]).swapaxes(1, 2)


class NumpyField(FunctionField):
    """A right-hand side of rows, perhaps with a function of its Jacobian."""

    def __init__(
        self, f: Callable, order: int, dimension: int, args: Any = None, jacobian: Callable | None = None
    ) -> None:
        super().__init__(f, order, dimension, args)
        self.jacobian = getattr(f, "jacobian", None) if jacobian is None else jacobian

    def _run(self, what: str, t: np.ndarray, state: np.ndarray, member: np.ndarray) -> tuple[np.ndarray, ...]:
        t, state = np.asarray(t, dtype=float), np.asarray(state, dtype=float)
        leaves, (n, order, D) = [leaf[member] for leaf in self._leaves], state.shape

        def called(f: Callable, state: np.ndarray, leaves: list[np.ndarray]) -> np.ndarray:
            args = () if self._tree is None else (rebuilt(self._tree, leaves),)
            return _as_floats(f(t, *state.swapaxes(0, 1), *args)) if n else np.empty((0, D))

        if what == "values":
            return (called(self.f, state, leaves),)
        if what == "jacobians" and self.jacobian is not None:
            return (called(self.jacobian, state, leaves).reshape(n, order, D, D),)
        if what == "jacobians":
            J = derivative(lambda y: called(self.f, y.reshape(n, order, D), leaves), state.reshape(n, order * D))
            return (np.ascontiguousarray(J.reshape(n, D, order, D).swapaxes(1, 2)),)

        def by(k: int) -> np.ndarray:
            shape = leaves[k].shape
            flat = leaves[k].reshape(n, math.prod(shape[1:]))
            J = derivative(lambda y: called(self.f, state, [*leaves[:k], y.reshape(shape), *leaves[k + 1 :]]), flat)
            return J.reshape(n, D, *shape[1:])

        return tuple(by(k) for k, real in enumerate(self._real) if real)


def _as_floats(value: Any) -> np.ndarray:
    """A writable float64 array of its own."""
    return np.array(value, dtype=np.float64, order="C")


class NumpyRowFunction(RowFunction):
    """A map x (n, D) -> (n, ...) of rows, with derivatives by differences.

    Third derivatives of decoders are left out (Gauss-Newton): differences are too coarse for them.
    """

    def _run(self, what: str, *columns: np.ndarray) -> tuple[np.ndarray, ...]:
        rows = [np.ascontiguousarray(column, dtype=float) for column in columns]
        block = max(1, AT_ONCE // (1 + int(np.prod(self.out_shape))))
        return in_blocks(partial(OF_ROWS[what], self._values), rows, block)

    def _values(self, x: np.ndarray) -> np.ndarray:
        if not len(x):
            return np.empty((0, *self.out_shape))
        return _as_floats(self.f(x) if self.after is None else self.after(self.f(x)))


def _second(f: Callable, x: np.ndarray) -> np.ndarray:
    """Second derivatives (n, D, D) of numbers."""
    H = derivative(lambda y: derivative(f, y, order=2), x, order=2)
    return 0.5 * (H + H.swapaxes(1, 2))


def matvec(A: np.ndarray, v: np.ndarray) -> np.ndarray:
    """A v (n, I) for rows of A (n, I, J) and v (n, J)."""
    return np.einsum("nij,nj->ni", A, v)


def _metric_energy(f: Callable, x: np.ndarray, v: np.ndarray) -> np.ndarray:
    return 0.5 * np.sum(v * matvec(f(x), v), axis=1)


def _metric_slopes(f: Callable, x: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """dL/dx, and the derivatives of M v by x."""
    slopes = derivative(lambda y: matvec(f(y), v), x)
    return 0.5 * matvec(slopes.swapaxes(1, 2), v), slopes


def _metric_terms(f: Callable, x: np.ndarray, v: np.ndarray) -> tuple:
    by_x, slopes = _metric_slopes(f, x, v)
    M = f(x)
    by_v, xx = matvec(M, v), _second(lambda y: _metric_energy(f, y, v), x)
    return 0.5 * np.sum(v * by_v, axis=1), by_x, by_v, xx, slopes.swapaxes(1, 2).copy(), M


def _metric_force(f: Callable, x: np.ndarray, v: np.ndarray) -> tuple:
    by_x, slopes = _metric_slopes(f, x, v)
    return by_x - matvec(slopes, v), f(x)


def _decoder_jacobian(f: Callable, x: np.ndarray, order: int = 1) -> np.ndarray:
    J = derivative(f, x, order)
    return J.reshape(len(x), int(np.prod(J.shape[1:-1])), x.shape[1])


def _decoder_tensor(f: Callable, x: np.ndarray) -> np.ndarray:
    J = _decoder_jacobian(f, x)
    return J.swapaxes(1, 2) @ J


def _decoder_energy(f: Callable, x: np.ndarray, v: np.ndarray) -> np.ndarray:
    return 0.5 * np.sum(matvec(_decoder_jacobian(f, x), v) ** 2, axis=1)


def _decoder_terms(f: Callable, x: np.ndarray, v: np.ndarray) -> tuple:
    J = _decoder_jacobian(f, x)
    B = derivative(lambda y: matvec(_decoder_jacobian(f, y, order=2), v), x, order=2)
    Jt, Bt, Jv = J.swapaxes(1, 2), B.swapaxes(1, 2), matvec(J, v)
    return 0.5 * np.sum(Jv**2, axis=1), matvec(Bt, Jv), matvec(Jt, Jv), Bt @ B, Bt @ J, Jt @ J


def _decoder_products(f: Callable, x: np.ndarray) -> tuple:
    second = derivative(lambda y: _decoder_jacobian(f, y, order=2), x, order=2)
    i, j = np.tril_indices(x.shape[1])
    vectors = np.concatenate([_decoder_jacobian(f, x), second[:, :, i, j]], axis=2)
    return (vectors.swapaxes(1, 2) @ vectors,)


def _decoder_force(f: Callable, x: np.ndarray, v: np.ndarray) -> tuple:
    """-J' f''(v, v), with one second difference along v, and J'J."""
    size = np.maximum(1.0, np.abs(x)).min(axis=1) / np.maximum(np.linalg.norm(v, axis=1), 1e-300)
    h = (EPSILON**0.25 * size)[:, None]
    J, n = _decoder_jacobian(f, x), len(x)
    bend = (f(x + h * v) - 2.0 * f(x) + f(x - h * v)).reshape(n, J.shape[1]) / h**2
    return -matvec(J.swapaxes(1, 2), bend), J.swapaxes(1, 2) @ J


def _force_jacobian(force: Callable, lost: int) -> Callable:
    """Of F(x, v) - M(x) a, where F has `lost` derivatives to differences."""

    def jacobian(f: Callable, x: np.ndarray, v: np.ndarray, a: np.ndarray) -> tuple:
        def excess(y: np.ndarray, w: np.ndarray) -> np.ndarray:
            F, M = force(f, y, w)
            return F - matvec(M, a)

        by_x = derivative(lambda y: excess(y, v), x, order=lost + 1)
        return by_x, derivative(lambda w: excess(x, w), v, order=lost + 1)

    return jacobian


# what `RowFunction` asks for by name, of a function f of rows
OF_ROWS: dict[str, Callable[..., tuple]] = {
    "values": lambda f, x: (f(x),),
    "scalar terms": lambda f, x: (f(x), derivative(f, x), _second(f, x)),
    "metric tensor": lambda f, x: (f(x),),
    "metric energy": lambda f, x, v: (_metric_energy(f, x, v),),
    "metric gradient": lambda f, x, v: (_metric_energy(f, x, v), _metric_slopes(f, x, v)[0], matvec(f(x), v)),
    "metric terms": _metric_terms,
    "metric force": _metric_force,
    "metric force jacobian": _force_jacobian(_metric_force, lost=1),
    "decoder tensor": lambda f, x: (_decoder_tensor(f, x),),
    "decoder energy": lambda f, x, v: (_decoder_energy(f, x, v),),
    "decoder gradient": lambda f, x, v: _decoder_terms(f, x, v)[:3],
    "decoder terms": _decoder_terms,
    "decoder products": _decoder_products,
    "decoder force": _decoder_force,
    "decoder force jacobian": _force_jacobian(_decoder_force, lost=2),
}
