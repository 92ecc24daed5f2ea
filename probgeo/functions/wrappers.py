"""Ways to say in which framework a function is written."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class JaxFunction:
    """A function of one point, written with `jax.numpy`.

    Parameters
    ----------
    f : callable
        As a right-hand side f(t, y), f(t, y, dy), each with `args` last if there are any: t is a
        number, y and dy have shape (D,), so has what it returns. As a metric f(x), x of shape (D,).

    Examples
    --------
    >>> from probgeo.functions import JaxFunction, as_field
    >>> field = as_field(JaxFunction(lambda t, y: -2.0 * y), order=1, dimension=3)
    >>> field.values([0.0], [[[1.0, 2.0, 3.0]]], [0]).tolist()
    [[-2.0, -4.0, -6.0]]
    """

    f: Callable


@dataclass(frozen=True)
class NumpyFunction:
    """A function written with NumPy, of rows or of one point.

    Parameters
    ----------
    f : callable
        As a right-hand side f(t, y), f(t, y, dy), each with `args` last if there are any: for n
        rows t has shape (n,), y and dy have shape (n, D), so has what it returns, and arrays in
        args have n in front. As a metric f(x), x of shape (n, D).
    jacobian : callable, optional
        Called like a right-hand side f, returns its derivatives by y, (n, D, D), or by y and dy,
        (n, 2, D, D), with [..., i, j] = d f_i / d y_j. By default central differences are used.
    rows : bool
        False if f, and the Jacobian, are written for one point, without the axis of length n. They
        are then called point by point, which is slow.

    Examples
    --------
    >>> import numpy as np
    >>> from probgeo.functions import NumpyFunction, as_field
    >>> field = as_field(NumpyFunction(lambda t, y: np.sin(t)[:, None] * y), order=1, dimension=3)
    >>> field.values([0.0, np.pi / 2], np.ones((2, 1, 3)), [0, 0]).tolist()
    [[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]]
    """

    f: Callable
    jacobian: Callable | None = None
    rows: bool = True


@dataclass(frozen=True)
class TorchFunction:
    """A function or module of rows, written with PyTorch.

    Parameters
    ----------
    f : callable
        Called as that of `NumpyFunction`. Modules in single precision are evaluated in double precision.
    """

    f: Callable
