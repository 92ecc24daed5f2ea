"""Functions of rows written with NumPy; derivatives that are not given come from differences."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from probgeo.functions.field import Field
from probgeo.functions.rows import AT_ONCE, RowFunction, in_blocks
from probgeo.functions.trees import is_real, leaves_of, n_real, rebuilt

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


class NumpyField(Field):
    """A right-hand side f(t, y[, dy][, args]) of rows.

    `args` is a tree of arrays with one row a member.
    """

    def __init__(
        self, f: Callable, order: int, dimension: int, args: Any = None, jacobian: Callable | None = None
    ) -> None:
        self.f, self.order, self.dimension = f, order, dimension
        self.jacobian = getattr(f, "jacobian", None) if jacobian is None else jacobian
        self._tree, self._leaves = args, leaves_of(args)
        self.n_parameters = n_real(self._leaves)

    def values(self, t: np.ndarray, state: np.ndarray, member: np.ndarray) -> np.ndarray:
        return self._values(t, state, self._rows(member))

    def jacobians(self, t: np.ndarray, state: np.ndarray, member: np.ndarray) -> np.ndarray:
        n, shape = len(t), (self.order, self.dimension, self.dimension)
        leaves = self._rows(member)
        if self.jacobian is not None:
            given = self.jacobian(*self._arguments(t, state, leaves))
            return _as_floats(given).reshape(n, *shape)

        def at(flat: np.ndarray) -> np.ndarray:
            return self._values(t, flat.reshape(n, self.order, self.dimension), leaves)

        flat = np.reshape(state, (n, self.order * self.dimension))
        J = derivative(at, flat).reshape(n, self.dimension, *shape[:2])
        return np.ascontiguousarray(J.swapaxes(1, 2))

    def by_args(self, t: np.ndarray, state: np.ndarray, member: np.ndarray) -> list[np.ndarray]:
        leaves = self._rows(member)
        found = []
        for k, leaf in enumerate(leaves):
            if not is_real(leaf):
                continue

            def at(flat: np.ndarray, k: int = k, shape: tuple = leaf.shape) -> np.ndarray:
                changed = [*leaves[:k], flat.reshape(shape), *leaves[k + 1 :]]
                return self._values(t, state, changed)

            by_leaf = derivative(at, leaf.reshape(len(t), int(np.prod(leaf.shape[1:]))))
            found.append(by_leaf.reshape(len(t), self.dimension, *leaf.shape[1:]))
        return found

    def _rows(self, member: np.ndarray) -> list[np.ndarray]:
        return [leaf[member] for leaf in self._leaves]

    def _arguments(self, t: np.ndarray, state: np.ndarray, leaves: list[np.ndarray]) -> tuple:
        state = np.asarray(state, dtype=float)
        args = () if self._tree is None else (rebuilt(self._tree, leaves),)
        return np.asarray(t, dtype=float), *state.swapaxes(0, 1), *args

    def _values(self, t: np.ndarray, state: np.ndarray, leaves: list[np.ndarray]) -> np.ndarray:
        if not len(t):
            return np.empty((0, self.dimension))
        return _as_floats(self.f(*self._arguments(t, state, leaves)))


def _as_floats(value: Any) -> np.ndarray:
    """A writable float64 array of its own."""
    return np.array(value, dtype=np.float64, order="C")


class NumpyRowFunction(RowFunction):
    """A map x (n, D) -> (n, ...) of rows, with derivatives by differences.

    Third derivatives of decoders are left out (Gauss-Newton): differences are too coarse for them.
    """

    def __init__(self, f: Callable, dimension: int, out_shape: tuple[int, ...]) -> None:
        self.f, self.dimension, self.out_shape = f, dimension, out_shape

    def _run(self, what: str, *columns: np.ndarray) -> tuple[np.ndarray, ...]:
        rows = [np.ascontiguousarray(column, dtype=float) for column in columns]
        block = max(1, AT_ONCE // (1 + int(np.prod(self.out_shape))))
        return in_blocks(partial(OF_ROWS[what], self._values), rows, block)

    def _values(self, x: np.ndarray) -> np.ndarray:
        if not len(x):
            return np.empty((0, *self.out_shape))
        return _as_floats(self.f(x))


def _second(f: Callable, x: np.ndarray) -> np.ndarray:
    """Second derivatives (n, D, D) of numbers."""
    H = derivative(lambda y: derivative(f, y, order=2), x, order=2)
    return 0.5 * (H + H.swapaxes(1, 2))


def times(A: np.ndarray, v: np.ndarray) -> np.ndarray:
    """A v (n, I) for rows of A (n, I, J) and v (n, J)."""
    return np.einsum("nij,nj->ni", A, v)


def _metric_energy(f: Callable, x: np.ndarray, v: np.ndarray) -> np.ndarray:
    return 0.5 * np.sum(v * times(f(x), v), axis=1)


def _metric_slopes(f: Callable, x: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """dL/dx, and the derivatives of M v by x."""
    slopes = derivative(lambda y: times(f(y), v), x)
    return 0.5 * times(slopes.swapaxes(1, 2), v), slopes


def _metric_terms(f: Callable, x: np.ndarray, v: np.ndarray) -> tuple:
    by_x, slopes = _metric_slopes(f, x, v)
    M = f(x)
    by_v, xx = times(M, v), _second(lambda y: _metric_energy(f, y, v), x)
    return 0.5 * np.sum(v * by_v, axis=1), by_x, by_v, xx, slopes.swapaxes(1, 2).copy(), M


def _metric_force(f: Callable, x: np.ndarray, v: np.ndarray) -> tuple:
    by_x, slopes = _metric_slopes(f, x, v)
    return by_x - times(slopes, v), f(x)


def _decoder_jacobian(f: Callable, x: np.ndarray, order: int = 1) -> np.ndarray:
    J = derivative(f, x, order)
    return J.reshape(len(x), int(np.prod(J.shape[1:-1])), x.shape[1])


def _decoder_tensor(f: Callable, x: np.ndarray) -> np.ndarray:
    J = _decoder_jacobian(f, x)
    return J.swapaxes(1, 2) @ J


def _decoder_energy(f: Callable, x: np.ndarray, v: np.ndarray) -> np.ndarray:
    return 0.5 * np.sum(times(_decoder_jacobian(f, x), v) ** 2, axis=1)


def _decoder_terms(f: Callable, x: np.ndarray, v: np.ndarray) -> tuple:
    J = _decoder_jacobian(f, x)
    B = derivative(lambda y: times(_decoder_jacobian(f, y, order=2), v), x, order=2)
    Jt, Bt, Jv = J.swapaxes(1, 2), B.swapaxes(1, 2), times(J, v)
    return 0.5 * np.sum(Jv**2, axis=1), times(Bt, Jv), times(Jt, Jv), Bt @ B, Bt @ J, Jt @ J


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
    return -times(J.swapaxes(1, 2), bend), J.swapaxes(1, 2) @ J


def _force_jacobian(force: Callable, lost: int) -> Callable:
    """Of F(x, v) - M(x) a, where F has `lost` derivatives to differences."""

    def jacobian(f: Callable, x: np.ndarray, v: np.ndarray, a: np.ndarray) -> tuple:
        def excess(y: np.ndarray, w: np.ndarray) -> np.ndarray:
            F, M = force(f, y, w)
            return F - times(M, a)

        by_x = derivative(lambda y: excess(y, v), x, order=lost + 1)
        return by_x, derivative(lambda w: excess(x, w), v, order=lost + 1)

    return jacobian


# what `RowFunction` asks for by name, of a function f of rows
OF_ROWS: dict[str, Callable[..., tuple]] = {
    "values": lambda f, x: (f(x),),
    "scalar terms": lambda f, x: (f(x), derivative(f, x), _second(f, x)),
    "metric tensor": lambda f, x: (f(x),),
    "metric energy": lambda f, x, v: (_metric_energy(f, x, v),),
    "metric gradient": lambda f, x, v: (_metric_energy(f, x, v), _metric_slopes(f, x, v)[0], times(f(x), v)),
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
