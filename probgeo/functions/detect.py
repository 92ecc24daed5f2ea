"""Finding out in which framework a function is written.

A plain function is tried at one point with JAX (which only looks at shapes), then at a few rows with NumPy, then with
PyTorch, if that is in use. What it raises on the way decides what users are told.
"""

import importlib.util
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from probgeo._checks import page
from probgeo.functions.composed import NotInNumpyError
from probgeo.functions.field import Field
from probgeo.functions.memory import memory_of
from probgeo.functions.parameters import as_parameter, leaves_of, rebuilt, row_by_row
from probgeo.functions.row_function import Form, RowFunction
from probgeo.functions.wrappers import JaxFunction, NumpyFunction, TorchFunction

DOUBLE, SINGLE = 2.0**-52, 2.0**-23  # spacings of the numbers next to one
WRAPPERS = {JaxFunction: "jax", NumpyFunction: "numpy", TorchFunction: "torch"}
SAID = {
    "jax": "as a JAX function of one point",
    "numpy": "as a NumPy function of rows",
    "torch": "as a PyTorch function of rows",
}
ADVICE = (
    "To say how f is written, wrap it in one of probgeo.functions: JaxFunction(f) for one point; "
    "NumpyFunction(f) or TorchFunction(f) for rows, where t has shape (n,), y (n, D); "
    "NumpyFunction(f, rows=False) for one point; see " + page("howto/functions")
)


def as_field(f: Any, order: int, dimension: int, args: Any = None, batch_shape: tuple[int, ...] = ()) -> Field:
    """The right-hand side of an ODE as values and Jacobians at many rows.

    Parameters
    ----------
    f : Field, JaxFunction, NumpyFunction, TorchFunction, torch.nn.Module or function
        f(t, y) if `order` is 1, f(t, y, dy) if it is 2, with `args` last if they are given. How a plain function is
        written is found out: for one point with jax.numpy, else for rows with NumPy or torch.
    order : 1 or 2
    dimension : int
        D, the size of y.
    args : pytree of arrays, optional
        Parameters of f; every array has the axes `batch_shape` in front.
    batch_shape : tuple
        Axes of the batch; row members are numbered along them, the last one fastest.

    Examples
    --------
    >>> import numpy as np
    >>> field = as_field(lambda t, y: np.cos(y), order=1, dimension=2)
    >>> field.values([0.0], [[[0.0, np.pi]]], [0]).tolist()
    [[1.0, -1.0]]
    """
    if isinstance(f, Field):
        if (f.order, f.dimension) != (order, dimension):
            raise ValueError(
                f"f is a field of order {f.order} in {f.dimension} dimensions, but the data are "
                f"those of order {order} in {dimension}"
            )
        return f
    tree = rebuilt(args, [as_parameter(leaf, batch_shape) for leaf in leaves_of(args)])
    names = ["t", "y", "dy", "d2y", "d3y"][: order + 1] + ([] if args is None else ["args"])
    shapes = ((), *[(dimension,)] * order)
    found = _find_out(f, _Call(f"f({', '.join(names)})", shapes, (dimension,), tree))
    function, *jacobian = _unwrapped(f)
    return found.made("Field", function, order, dimension, tree, *jacobian)


def as_row_function(
    f: Any,
    dimension: int,
    what: str = "f",
    out_shape: tuple[int, ...] | None = None,
    form: Form = "metric",
    after: Callable | None = None,
) -> RowFunction:
    """A map x -> array as values and derivatives at many rows.

    Parameters
    ----------
    f : RowFunction, JaxFunction, NumpyFunction, TorchFunction, torch.nn.Module or function
        f(x), of one point x (D,) with jax.numpy, or of rows x (n, D) with NumPy or torch.
    dimension : int
        D.
    what : str
        What errors call it.
    out_shape : tuple, optional
        The shape that its value at one point must have. If it is known, functions of one point with NumPy or torch
        will do, too.
    form, after
        The metric that it stands for, and a formula that is applied to its values: see `RowFunction`.

    Examples
    --------
    >>> import numpy as np
    >>> height = as_row_function(lambda x: x[0] ** 2 + 3.0 * x[1], dimension=2, out_shape=())
    >>> height.scalar_terms(np.array([[2.0, 1.0]]))[1].tolist()
    [[4.0, 3.0]]
    """
    if isinstance(f, RowFunction):
        return f
    found = _find_out(f, _Call(f"{what}(x)", ((dimension,),), out_shape))
    rows: RowFunction = found.made("RowFunction", _unwrapped(f)[0], dimension, found.shape, after)
    rows.form, rows.spacing = form, found.precision
    return rows


@dataclass(frozen=True)
class _Call:
    """How a function is called: at one point, or at rows with an axis in front of every array.

    `shapes` are those of the numbers at one point, `expected` that of the answer, if it is known; `args` are
    parameters, with one row a member, or None.
    """

    signature: str
    shapes: tuple[tuple[int, ...], ...]
    expected: tuple[int, ...] | None
    args: Any = None


@dataclass(frozen=True)
class _Found:
    """Who evaluates a function, the shape of its value at one point, the spacing of the numbers that it returns."""

    kind: str
    shape: tuple[int, ...]
    precision: float
    of_rows: bool = True

    def made(self, what: str, function: Callable, *more: Any) -> Any:
        """What a framework, which is imported only now, makes of the function."""
        adapter = import_module(f"probgeo.functions.in_{self.kind}")
        if not self.of_rows:
            function = row_by_row(function) if self.kind == "numpy" else sys.modules["torch"].func.vmap(function)
        elif self.kind == "torch" and self.precision >= SINGLE:
            function = adapter.in_single_precision(function)
        return getattr(adapter, self.kind.capitalize() + what)(function, *more)


def _unwrapped(f: Any) -> tuple[Callable, ...]:
    """The function, and its Jacobian if that is given apart."""
    if not isinstance(f, NumpyFunction):
        return (f.f if type(f) in WRAPPERS else f,)
    given = (f.f,) if f.jacobian is None else (f.f, f.jacobian)
    return given if f.rows else tuple(map(row_by_row, given))


def _find_out(f: Any, call: _Call) -> _Found:
    function = f.f if type(f) in WRAPPERS else f
    if not callable(function):
        name = call.signature.split("(")[0]
        raise TypeError(f"{name} must be a function, got {type(function).__name__}")
    parameters = rebuilt(call.args, [f"{x.dtype}{x.shape[1:]}" for x in leaves_of(call.args)])
    written = (type(f), f.rows) if isinstance(f, NumpyFunction) else WRAPPERS.get(type(f))
    key = (written, call.signature, call.shapes, call.expected, repr(parameters))
    return memory_of(function).note(key, lambda: _tried(f, call))


def _tried(f: Any, call: _Call) -> _Found:
    function, errors, torch = _unwrapped(f)[0], {}, sys.modules.get("torch")
    if type(f) in WRAPPERS:
        kinds = [WRAPPERS[type(f)]]
    elif torch is not None and isinstance(f, torch.nn.Module):
        kinds = ["torch"]
    else:
        possible = {"jax": importlib.util.find_spec("jax"), "numpy": True, "torch": torch}
        kinds = [kind for kind, there in possible.items() if there]
    trials = {"jax": _try_jax, "numpy": _try_numpy, "torch": _try_torch}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for kind in kinds:
            try:
                return _Found(kind, *trials[kind](function, call))
            except (TracedClosureError, ChangingError, NotInNumpyError):
                raise
            except Exception as error:  # noqa: BLE001 (in the wrong framework anything may be raised)
                errors[kind] = error
        if len(kinds) > 1 and len(call.shapes) == 1 and call.expected is not None:
            for kind in ("numpy", "torch"):  # which may be written for one point
                with suppress(Exception):
                    point = np.full(call.shapes[0], 0.5)
                    value = f(point if kind == "numpy" else sys.modules["torch"].from_numpy(point))
                    if type(value).__module__.split(".")[0] == kind and tuple(value.shape) == call.expected:
                        return _Found(kind, call.expected, _precision(value), of_rows=False)
    raise _explanation(call, errors) from next(iter(errors.values()))


class TracedClosureError(TypeError):
    """A function refers to a tracer of JAX other than its arguments."""


class ChangingError(ValueError):
    """A function gives different answers for the same arguments, or its rows depend on each other."""


class WrongShapeError(ValueError):
    """A function returned something that is not a real array of the right shape."""


def _checked_shape(got: Any, call: _Call, wanted: tuple | None, where: str) -> tuple[int, ...]:
    shape: Any = getattr(got, "shape", None)
    is_array = isinstance(shape, tuple)  # distributions may have a method of that name
    if not is_array or (wanted is not None and shape != wanted):
        wanted_text = "an array" if wanted is None else f"shape {wanted}"
        described = tuple(shape) if is_array else f"{type(got).__name__}{_hint(call)}"
        raise WrongShapeError(f"{call.signature} must return {wanted_text} {where}, got {described}")
    if "complex" in str(getattr(got, "dtype", "")):  # of any framework
        raise WrongShapeError(f"{call.signature} must return real numbers, got {got.dtype}")
    return tuple(shape)


def _hint(call: _Call) -> str:
    """For decoders that return a pair, a dict or a distribution."""
    two = ": give its mean and std as two functions, Pullback(mean, std=std)"
    return two if call.signature == "decoder(x)" else ""


def _precision(out: Any) -> float:
    """Spacing of the numbers next to one that an array of any framework holds."""
    name = str(getattr(out, "dtype", "")).rsplit(".")[-1]
    return {"float32": SINGLE, "float16": 2.0**-10, "bfloat16": 2.0**-7}.get(name, DOUBLE)


def _try_jax(f: Callable, call: _Call) -> tuple[tuple[int, ...], float]:
    from probgeo.functions.in_jax import traced

    try:
        out, refers_to_tracers = traced(f, call.shapes, call.args)
    except TypeError as error:
        if "valid JAX type" not in str(error):
            raise
        raise WrongShapeError(f"{_line(error)}{_hint(call)}") from error
    if refers_to_tracers:
        raise TracedClosureError(
            f"{call.signature} refers to a value that JAX is tracing (inside jit, vmap or grad), "
            "which a solver cannot see: pass it as args=, and f gets it last"
        )
    return _checked_shape(out, call, call.expected, "for one point"), _precision(out)


def _try_numpy(f: Callable, call: _Call) -> tuple[tuple[int, ...], float]:
    def evaluate(*rows: Any) -> np.ndarray:
        out = f(*rows)
        if type(out).__module__.startswith("jax"):
            raise TypeError(
                f"{call.signature} returned an array of JAX for rows of NumPy: functions written "
                "with jax.numpy are for one point"
            )
        return out

    return _try_rows(evaluate, call)


def _try_torch(f: Any, call: _Call) -> tuple[tuple[int, ...], float]:
    from probgeo.functions.in_torch import ThroughTensors, in_single_precision

    modules = f.modules() if hasattr(f, "modules") else ()
    advice = " It is in training mode: call its eval() first." if any(part.training for part in modules) else ""
    try:
        return _try_rows(ThroughTensors(f).once, call, advice)
    except ChangingError:
        raise
    except Exception as error:
        if advice and "training" in str(error):  # of batch norm, which wants more than one row
            raise ChangingError(f"{call.signature} could not be called: {error}.{advice}") from error
        if "dtype" not in str(error) and "Double" not in str(error):
            raise
    return _try_rows(ThroughTensors(in_single_precision(f)).once, call, advice)


def _try_rows(evaluate: Callable, call: _Call, advice: str = "") -> tuple[tuple[int, ...], float]:
    """Shape and precision of the answer at one row, having seen that it is the same again, whatever the other rows."""
    rng = np.random.default_rng(0)
    # not as many as there are dimensions, or else mixed-up axes might go unnoticed
    rows = 4 if all(shape != (4,) for shape in call.shapes) else 5
    arguments: list[Any] = [rng.standard_normal((rows, *shape)) for shape in call.shapes]

    def at(index: Any) -> Any:
        given = [x[index] for x in arguments]
        if call.args is not None:
            of_rows = [np.resize(x, (rows, *x.shape[1:]))[index] for x in leaves_of(call.args)]
            given.append(rebuilt(call.args, of_rows))
        with np.errstate(all="ignore"):
            return evaluate(*given)

    together = at(np.arange(rows))
    wanted = None if call.expected is None else (rows, *call.expected)
    shape = _checked_shape(together, call, wanted, f"for {rows} rows")
    if not shape or shape[0] != rows:
        raise WrongShapeError(f"{call.signature} must return {rows} rows for {rows} rows, got {shape}")
    if not np.array_equal(np.asarray(together), np.asarray(at(np.arange(rows))), equal_nan=True):
        raise ChangingError(
            f"{call.signature} returns something else every time it is called with the same: it "
            f"must not be random.{advice}"
        )
    alone = [at(np.array([i])) for i in range(rows)]
    for one in alone:
        _checked_shape(one, call, (1, *shape[1:]), "for 1 row")
    separate, whole = np.concatenate([np.asarray(one, float) for one in alone]), np.asarray(together, float)
    rounding = max(1e-6, 100.0 * _precision(together))
    size = np.abs(whole[np.isfinite(whole)]).max(initial=0.0)
    if not np.allclose(whole, separate, rtol=rounding, atol=rounding * size, equal_nan=True):
        raise (ChangingError if advice else ValueError)(
            f"{call.signature} returns something else for a row alone than for the same row among "
            f"others: every row must be treated by itself{advice and '.' + advice}"
        )
    return shape[1:], _precision(together)


def _explanation(call: _Call, errors: dict[str, Exception]) -> Exception:
    """The one error that users get, from those that the frameworks gave."""
    first, error = next(iter(errors.items()))
    others = {_line(other): kind for kind, other in reversed(errors.items())}
    others.pop(_line(error))
    more = "".join(f" Tried {SAID[kind]}: {line}." for line, kind in reversed(others.items()))
    more += f" {ADVICE}." if more else ""
    if isinstance(error, WrongShapeError):
        return ValueError(f"{error}.{more}")
    if first == "jax" and isinstance(error, sys.modules["probgeo.functions.in_jax"].TRACER_ERRORS):
        return TypeError(
            f"{call.signature.split('(')[0]} must be traceable by JAX: write {call.signature} with jax.numpy, and "
            f"jnp.where instead of `if` on values. JAX says: {_line(error)}.{more}"
        )
    where = f"for one point of shape {call.shapes[-1]}" if first == "jax" else SAID[first]
    kind_of_error = ValueError if isinstance(error, ValueError) else TypeError
    return kind_of_error(f"{call.signature} could not be called {where}: {_line(error)}.{more}")


def _line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__
