"""Functions of one point written with JAX: at many rows, and at points that JAX is tracing.

A program is compiled once for a function, a formula and a number of rows, which is rounded up: few
programs serve all numbers of rows. Numbers are float64 inside, whatever JAX is set to outside.
"""

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from probgeo.functions import formulas
from probgeo.functions.field import FunctionField
from probgeo.functions.memory import Memory, memory_of
from probgeo.functions.parameters import leaves_of, rebuilt
from probgeo.functions.row_function import AT_ONCE, Form, RowFunction, in_blocks


def double_precision() -> AbstractContextManager:
    """JAX computes in float64 within."""
    return jax.enable_x64(True)


def rounded_up(rows: int) -> int:
    """The number of rows that a program is compiled for.

    Fewer than 16 cost as much: a call takes 7 microseconds, 16 rows of a small f take one.
    """
    return 16 if rows <= 16 else max(64, 1 << (rows - 1).bit_length())


class Program:
    """A formula for one row, mapped over rows of numbers side by side: (n, K) -> arrays (n, ...).

    `formula(row, parameters)` gets one row (K,) and the parameters of its member, of leaves with one row a member. It
    must not keep the user's function alive: see `Memory`.
    `numbers` is how many a row takes that are kept at a time, if it is more than it has itself.
    """

    def __init__(self, formula: Callable, numbers: int = 1) -> None:
        self._numbers = numbers
        self._compiled: dict[tuple, Callable] = {}

        def at_rows(rows: jax.Array, member: jax.Array, leaves: list) -> tuple:
            return jax.vmap(lambda row, m: formula(row, [leaf[m] for leaf in leaves]))(rows, member)

        self._at_rows = at_rows

    def __call__(
        self, columns: tuple[np.ndarray, ...], member: np.ndarray | None = None, leaves: Sequence = ()
    ) -> tuple[np.ndarray, ...]:
        """Outputs (n, ...) at the columns (n, k_1), (n, k_2), ... of rows."""
        width = sum(column.shape[1] for column in columns)
        rows = max(1, AT_ONCE // max(width, self._numbers))
        block = max(16, 1 << rows.bit_length() - 1)
        members = np.asarray(member) if leaves else np.zeros(len(columns[0]), dtype=np.int64)
        return in_blocks(lambda *some: self._run(width, some[:-1], some[-1], leaves), (*columns, members), block)

    def _run(
        self, width: int, columns: tuple[np.ndarray, ...], member: np.ndarray, leaves: Sequence
    ) -> tuple[np.ndarray, ...]:
        n = len(member)
        size = rounded_up(n)
        rows, members = np.empty((size, width)), np.zeros(size, dtype=np.int64)
        np.concatenate(columns, axis=1, out=rows[:n])
        rows[n:] = rows[0] if n else 0.0
        members[:n] = member
        arguments = (rows, members, list(leaves))
        key = (size, width, *[(leaf.shape, leaf.dtype) for leaf in leaves])
        with double_precision():
            compiled = self._compiled.get(key)
            if compiled is None:
                compiled = self._compiled[key] = _compile(self._at_rows, arguments)
            outputs = compiled(*arguments)
        # copies: what JAX returns is read-only, and Numba would compile its loops anew for that
        return tuple(np.array(np.asarray(out)[:n]) for out in outputs)


def _compile(function: Callable, arguments: tuple) -> Callable:
    """The function, compiled for arguments like these."""
    device = quick_device()
    shapes = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), arguments)
    if device is None:
        return jax.jit(function).lower(*shapes).compile()
    place = jax.sharding.SingleDeviceSharding(device)
    jitted = jax.jit(function, in_shardings=place, out_shardings=place)
    return jitted.lower(*shapes).compile(compiler_options=_compiler_options())


@cache
def quick_device() -> Any:
    """A processor whose programs run at once, in the thread that calls them.

    JAX hands all but the smallest programs to another thread, which takes longer than they do: 35
    microseconds a call instead of 8. Its setting for that is global and read only once; this is a
    second door to the same processor. None if JAX computes elsewhere, or has no such door.
    """
    if jax.default_backend() != "cpu":
        return None
    try:
        from jaxlib.xla_client import make_cpu_client

        client: Any = make_cpu_client(asynchronous=False)
        device = client.local_devices()[0]
        place = jax.sharding.SingleDeviceSharding(device)
        double = jax.jit(lambda x: x + x, in_shardings=place, out_shardings=place)
        works = double.lower(np.float32(1)).compile()(np.float32(1)) == 2
    except Exception:  # noqa: BLE001 (not public; whatever is wrong, all works without, slower)
        return None
    return device if works else None


@cache
def _compiler_options() -> Any:
    """Older emitters compile twice as fast, for programs that are as fast."""
    wanted: Any = {"xla_cpu_use_fusion_emitters": False}
    try:
        jax.jit(lambda: 0).lower().compile(compiler_options=wanted)
    except jax.errors.JaxRuntimeError:
        return {}
    return wanted


class JaxField(FunctionField):
    def __init__(self, f: Callable, order: int, dimension: int, args: Any = None) -> None:
        super().__init__(f, order, dimension, args)
        self._form = (order, dimension, jax.tree.structure(args), self._real)
        self._leaves = _on_device(self._leaves)
        self._memory = memory_of(f)
        self._programs: dict[str, Program] = {}  # by name alone: their keys take a microsecond to look up

    def values_and_jacobians(
        self, t: np.ndarray, state: np.ndarray, member: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        values, jacobians = self._run("both", t, state, member)
        return values, jacobians

    def linearised(
        self, t: np.ndarray, state: np.ndarray, member: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        values, jacobians, by_first = self._run("linearised", t, state, member)
        return values, jacobians, by_first

    def with_first(self, leaf: np.ndarray) -> "JaxField":
        return super().with_first(_on_device([leaf])[0])

    def stages(
        self,
        t: np.ndarray,
        state: np.ndarray,
        member: np.ndarray,
        h: np.ndarray,
        first: np.ndarray,
        nodes: np.ndarray,
        weights: np.ndarray,
    ) -> np.ndarray:
        # one call in 29 microseconds instead of twelve in nine (100 rows of Duffing's equation)
        memory, form = self._memory, self._form

        def make() -> Program:  # without a reference to self, and so to f
            values = _formula("values", memory.function, *form)
            return Program(_stages(values, *form[:2], nodes, weights))

        program = memory.note(("stages", nodes.tobytes(), weights.tobytes(), *form), make)
        columns = (np.stack([t, h], axis=1), np.reshape(state, (len(t), -1)), first)
        return program(columns, member, self._leaves)[0]

    def _run(self, what: str, t: np.ndarray, state: np.ndarray, member: np.ndarray) -> tuple[np.ndarray, ...]:
        if what not in self._programs:
            memory, form = self._memory, self._form
            self._programs[what] = memory.note((what, *form), lambda: Program(_formula(what, memory.function, *form)))
        n = len(t)
        columns = (np.reshape(t, (n, 1)), np.reshape(state, (n, self.order * self.dimension)))
        return self._programs[what](columns, member, self._leaves)


def _stages(values: Callable, order: int, dimension: int, nodes: np.ndarray, weights: np.ndarray) -> Callable:
    """The stages of an explicit step from one row (t, h, state, f there): k (S + 1, order D)."""
    size, count = order * dimension, len(nodes)

    def formula(row: jax.Array, leaves: list) -> tuple:
        c, W = jnp.asarray(nodes), jnp.asarray(weights)
        t, h, state = row[0], row[1], row[2 : 2 + size]

        def stage(s: jax.Array, k: jax.Array) -> jax.Array:
            point = state + h * jnp.sum(W[s][:, None] * k[:count], axis=0)
            (f,) = values(jnp.concatenate([(t + c[s] * h)[None], point]), leaves)
            slopes = jnp.concatenate([point[dimension:], f])
            return jax.lax.dynamic_update_slice(k, slopes[None], (s + 1, 0))

        first = jnp.concatenate([row[2 + dimension : 2 + size], row[2 + size :]])
        k = jnp.zeros((count + 1, size)).at[0].set(first)
        return (jax.lax.fori_loop(0, count, stage, k),)

    return formula


def _formula(what: str, get: Callable, order: int, dimension: int, tree: Any, real: tuple[bool, ...]) -> Callable:
    """For one row (t, y, ...) and the parameters of its member: a tuple of outputs."""

    def called(f: Callable, t: jax.Array, state: jax.Array, leaves: list) -> jax.Array:
        args = () if tree == jax.tree.structure(None) else (jax.tree.unflatten(tree, leaves),)
        return jnp.asarray(f(t, *state, *args), float)

    def field(*row: Any) -> jax.Array:
        return called(get(), *row)

    def jacobian(*row: Any) -> jax.Array:
        given = getattr(get(), "jacobian", None)
        return jax.jacfwd(field, argnums=1)(*row) if given is None else called(given, *row)

    outputs = formulas.of_field(jax, field, real, jacobian)
    return lambda row, leaves: outputs[what](row[0], row[1:].reshape(order, dimension), leaves)


class JaxRowFunction(RowFunction):
    """A map x (D,) -> array of one point."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        memory = memory_of(self.f)  # many functions may follow f: their programs are not kept with f
        self._memory = memory if self.after is None else Memory(memory.function, [])

    def _run(self, what: str, *columns: np.ndarray) -> tuple[np.ndarray, ...]:
        memory, after, D, numbers = self._memory, self.after, self.dimension, max(1, math.prod(self.out_shape))

        def function(x: jax.Array) -> jax.Array:  # without a reference to self, and so to f
            value = memory.function()(x)
            return jnp.asarray(value if after is None else after(value), x.dtype)

        def make() -> Program:
            formula = formulas.formula(what, jax, function)
            return Program(lambda row, _: formula(*row.reshape(-1, D)), numbers)

        return memory.note((what, D), make)(columns)


def mixed_derivatives(k: Callable, highest: int, s: np.ndarray, t: np.ndarray) -> list[np.ndarray]:
    """d^i/ds^i d^j/dt^j k(s, t) of a function of two numbers, at rows s, t (n, 1).

    All up to i = j = `highest` come from one program: (0, 0), (0, 1), ..., (1, 0), ...
    """
    memory = memory_of(k)

    def make() -> Program:
        table: list[Callable] = []
        row: Callable = lambda s, t: memory.function()(s, t)  # noqa: E731
        for _ in range(highest + 1):
            entry = row
            for _ in range(highest + 1):
                table.append(entry)
                entry = jax.grad(entry, 1)
            row = jax.grad(row, 0)
        return Program(lambda row, _: tuple(entry(*row) for entry in table))

    return list(memory.note(("mixed derivatives", highest), make)((s, t)))


def at_points(function: Callable, *points: Any) -> jax.Array:
    """A function of one point, or of a few, at points (..., D), which broadcast.

    For tracers: this becomes a part of the user's own program, in its precision.
    """
    *batch, D = jnp.broadcast_shapes(*(jnp.shape(x) for x in points))
    if not batch:
        return function(*map(jnp.asarray, points))
    found = jax.vmap(function)(*(jnp.broadcast_to(x, (*batch, D)).reshape(-1, D) for x in points))
    return found.reshape((*batch, *found.shape[1:]))


def acceleration(metric: Any, x: Any, v: Any, printed: bool = False) -> jax.Array:
    """c'' of the geodesic with c = x and c' = v, or what Eq. 2 prints for it, at one point."""
    of_metric = formulas.of_metric(jax, metric)
    force = -of_metric["gradient"](x, v)[1] if printed else of_metric["force"](x, v)[0]
    return jnp.linalg.solve(metric(x), force)


def pulled_back(f: Any, x: Any, form: Form) -> tuple[jax.Array, int]:
    """M (..., D, D) of a function of one point, at points (..., D), and its number of outputs."""
    x = jnp.asarray(x)
    tensor = formulas.formula(f"{form} tensor", jax, f)
    outputs = jax.eval_shape(f, jax.ShapeDtypeStruct(x.shape[-1:], x.dtype)).size
    return at_points(lambda x: tensor(x)[0], x), outputs


def _on_device(leaves: list[np.ndarray]) -> list:
    """Arrays with a row a member, their number rounded up, where programs find them.

    Small ones stay where they are: bringing them takes 50 microseconds, and one with every call.
    """
    padded = [np.zeros((rounded_up(len(x)), *x.shape[1:]), dtype=x.dtype) for x in leaves]
    for leaf, own in zip(padded, leaves, strict=True):
        leaf[: len(own)] = own
    if sum(leaf.size for leaf in padded) <= AT_ONCE:
        return padded
    with double_precision(), jax.ensure_compile_time_eval():
        return [jax.device_put(leaf, quick_device()) for leaf in padded]


def traced(f: Callable, shapes: tuple[tuple[int, ...], ...], args: Any) -> tuple[Any, bool]:
    """What f returns at one point, only its shape and type, and whether it refers to tracers.

    `args` are parameters, with one row a member, or None.
    """
    with double_precision():
        arguments = [jax.ShapeDtypeStruct(shape, np.float64) for shape in shapes]
        if args is not None:
            one = [jax.ShapeDtypeStruct(x.shape[1:], x.dtype) for x in leaves_of(args)]
            arguments.append(rebuilt(args, one))
        program, out = jax.make_jaxpr(f, return_shape=True)(*arguments)
    return out, any(isinstance(value, jax.core.Tracer) for value in program.consts)


TRACER_ERRORS = (
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
    jax.errors.NonConcreteBooleanIndexError,
)
