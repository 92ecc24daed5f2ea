"""The user's functions at many rows: all frameworks agree, and errors say what is wrong."""

import gc
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from probgeo.functions import Field, JaxFunction, NumpyFunction, TorchFunction, as_field, as_row_function, memory

try:
    import torch
except ImportError:
    torch = None

needs_torch = pytest.mark.skipif(torch is None, reason="PyTorch, an optional extra, is missing")
KINDS = ["jax", "numpy", pytest.param("torch", marks=needs_torch)]


def random_rows(rng, n, order, D, members=1):
    state = rng.standard_normal((n, order, D))
    return rng.uniform(0, 2, n), state, rng.integers(0, members, n)


# the same right-hand sides, written in each framework: a swing with friction and a force
def swing_in_jax(t, y, dy, args):
    return -args["k"] * jnp.sin(y) - args["c"][0] * dy * y[::-1] + jnp.cos(t)


def swing_in_numpy(t, y, dy, args):
    force = np.cos(t)[:, None]
    return -args["k"][:, None] * np.sin(y) - args["c"][:, :1] * dy * y[:, ::-1] + force


def swing_in_torch(t, y, dy, args):
    force = torch.cos(t)[:, None]
    return -args["k"][:, None] * torch.sin(y) - args["c"][:, :1] * dy * y.flip(1) + force


SWINGS = {"jax": swing_in_jax, "numpy": swing_in_numpy, "torch": swing_in_torch}


def swing_parameters(members=5):
    rng = np.random.default_rng(1)
    return {"k": rng.uniform(1, 2, members), "c": rng.uniform(0, 1, (members, 2))}


def swings(kind, members=5, D=3):
    args = swing_parameters(members)
    return as_field(SWINGS[kind], 2, D, args=args, batch_shape=(members,))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [0, 1, 16, 17, 100])
def test_frameworks_agree_on_values_and_jacobians(kind, n):
    rows = random_rows(np.random.default_rng(n), n, 2, 3, members=5)
    f, J = swings("jax").values_and_jacobians(*rows)
    assert f.shape == (n, 3)
    assert J.shape == (n, 2, 3, 3)
    field = swings(kind)
    np.testing.assert_allclose(field.values(*rows), f, atol=1e-14)
    np.testing.assert_allclose(field.jacobians(*rows), J, atol=1e-9)
    both = field.values_and_jacobians(*rows)
    np.testing.assert_allclose(both[0], f, atol=1e-14)
    np.testing.assert_allclose(both[1], J, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_each_framework_is_found_out(kind):
    names = {"jax": "JaxField", "numpy": "NumpyField", "torch": "TorchField"}
    assert type(swings(kind)).__name__ == names[kind]


def test_jacobians_are_the_closed_form():
    t, state, member = random_rows(np.random.default_rng(0), 40, 2, 3, members=5)
    args = swing_parameters()
    k, c = args["k"][member], args["c"][member, 0]
    y, dy = state[:, 0], state[:, 1]
    J = swings("jax").jacobians(t, state, member)
    by_y = -(k[:, None] * np.cos(y))[:, :, None] * np.eye(3)
    by_y -= (c[:, None] * dy)[:, :, None] * np.eye(3)[::-1]
    np.testing.assert_allclose(J[:, 0], by_y, atol=1e-13)
    np.testing.assert_allclose(J[:, 1], -(c[:, None] * y[:, ::-1])[:, :, None] * np.eye(3), atol=1e-13)


@pytest.mark.parametrize("kind", KINDS)
def test_derivatives_by_parameters(kind):
    t, state, member = random_rows(np.random.default_rng(0), 20, 2, 3, members=5)
    field = swings(kind)
    assert field.n_parameters == 3
    by_c, by_k = field.by_args(t, state, member)  # in the order of keys
    y, dy = state[:, 0], state[:, 1]
    np.testing.assert_allclose(by_k, -np.sin(y), atol=1e-9)
    np.testing.assert_allclose(by_c[:, :, 0], -dy * y[:, ::-1], atol=1e-9)
    np.testing.assert_allclose(by_c[:, :, 1], 0.0, atol=1e-12)


class Pair(NamedTuple):
    rate: np.ndarray
    power: np.ndarray


def test_whole_numbers_are_parameters_without_derivatives():
    args = Pair(np.array([2.0, 3.0]), np.array([1, 2]))
    rows = np.zeros(2), np.full((2, 1, 1), 3.0), np.arange(2)
    for f in (lambda t, y, p: p.rate * y**p.power, lambda t, y, p: np.multiply(p.rate[:, None], y ** p.power[:, None])):
        field = as_field(f, 1, 1, args=args, batch_shape=(2,))
        assert field.n_parameters == 1
        np.testing.assert_allclose(field.values(*rows), [[6.0], [27.0]])
        (by_rate,) = field.by_args(*rows)
        np.testing.assert_allclose(by_rate, [[3.0], [9.0]], rtol=1e-9)


def test_parameters_have_the_axes_of_the_batch():
    k = np.arange(6.0).reshape(2, 3)
    field = as_field(lambda t, y, k: k * y, 1, 1, args=k, batch_shape=(2, 3))
    found = field.values(np.zeros(6), np.ones((6, 1, 1)), np.arange(6))
    np.testing.assert_array_equal(found.ravel(), np.arange(6.0))
    with pytest.raises(ValueError, match=r"must have the batch axes \(6,\)"):
        as_field(lambda t, y, k: k * y, 1, 1, args=k, batch_shape=(6,))


def test_empty_parameters_are_parameters():
    field = as_field(lambda t, y, args: -y + len(args), 1, 1, args=())
    np.testing.assert_array_equal(field.values(np.zeros(1), np.ones((1, 1, 1)), [0]), [[-1.0]])


@pytest.mark.parametrize("kind", KINDS)
def test_answers_are_writable_doubles_of_their_own(kind):
    rows = random_rows(np.random.default_rng(0), 16, 2, 3, members=5)
    for array in swings(kind).values_and_jacobians(*rows):
        assert array.dtype == np.float64
        assert array.flags.writeable
        assert array.flags.c_contiguous


@pytest.mark.parametrize("x64", [False, True])
def test_double_precision_whatever_jax_is_set_to(x64):
    before = jax.config.jax_enable_x64
    try:
        jax.config.update("jax_enable_x64", x64)
        field = as_field(lambda t, y: jnp.sin(y) / 3.0, 1, 1)
        value = field.values(np.zeros(1), np.ones((1, 1, 1)), np.zeros(1, dtype=int))
        assert value[0, 0] == pytest.approx(np.sin(1.0) / 3.0, rel=1e-15)
        assert jax.config.jax_enable_x64 == x64
        assert jnp.ones(1).dtype == (jnp.float64 if x64 else jnp.float32)
    finally:
        jax.config.update("jax_enable_x64", before)


def test_many_rows_in_blocks_are_the_same_rows():
    field = as_field(lambda t, y: jnp.sin(y) * t, 1, 2)
    t, state, member = random_rows(np.random.default_rng(0), 30_000, 1, 2)
    expected = np.sin(state[:, 0]) * t[:, None]
    np.testing.assert_allclose(field.values(t, state, member), expected, atol=1e-14)
    assert field.jacobians(t, state, member).shape == (30_000, 1, 2, 2)


def test_a_jacobian_of_ones_own_is_used():
    class Spring:
        def __call__(self, t, y, dy):
            return -y

        def jacobian(self, t, y, dy):
            return jnp.stack([7.0 * jnp.eye(2), jnp.zeros((2, 2))], axis=1)

    rows = random_rows(np.random.default_rng(0), 3, 2, 2)
    J = as_field(Spring(), 2, 2).jacobians(*rows)
    np.testing.assert_array_equal(J[:, 0], np.broadcast_to(7.0 * np.eye(2), (3, 2, 2)))

    def seven(t, y):
        return np.broadcast_to(7.0 * np.eye(2), (len(t), 2, 2))

    field = as_field(NumpyFunction(lambda t, y: -y, seven), 1, 2)
    np.testing.assert_array_equal(field.jacobians(rows[0], rows[1][:, :1], rows[2])[:, 0], J[:, 0])


def test_points_one_by_one():
    f = NumpyFunction(lambda t, y: [y[1], -y[0] if y[0] > 0 else 0.0], rows=False)
    field = as_field(f, 1, 2)
    state = np.array([[[1.0, 2.0]], [[-1.0, 2.0]]])
    values = field.values(np.zeros(2), state, np.zeros(2, dtype=int))
    np.testing.assert_array_equal(values, [[2.0, -1.0], [2.0, 0.0]])


@needs_torch
def test_modules_in_single_precision_are_evaluated_in_double():
    class Rate(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(2, 2)

        def forward(self, t, y):
            return torch.tanh(self.layer(y)) * t[:, None]

    module = Rate()
    A = module.layer.weight.detach().double().numpy()
    b = module.layer.bias.detach().double().numpy()
    t, state, member = random_rows(np.random.default_rng(0), 5, 1, 2)
    field = as_field(module, 1, 2)
    expected = np.tanh(state[:, 0] @ A.T + b) * t[:, None]
    np.testing.assert_allclose(field.values(t, state, member), expected, atol=1e-15)
    slope = (t[:, None] * (1 - (expected / t[:, None]) ** 2))[:, :, None] * A
    np.testing.assert_allclose(field.jacobians(t, state, member)[:, 0], slope, atol=1e-14)
    assert module.layer.weight.dtype == torch.float32
    assert module.layer.weight.grad is None


class Doubling(Field):
    order, dimension = 1, 2

    def values(self, t, state, member):
        return 2.0 * state[:, 0]

    def jacobians(self, t, state, member):
        return np.broadcast_to(2.0 * np.eye(2), (len(t), 1, 2, 2)).copy()


def test_a_field_is_itself():
    field = Doubling()
    assert as_field(field, 1, 2) is field
    assert field.by_args(*random_rows(np.random.default_rng(0), 3, 1, 2)) == []
    with pytest.raises(ValueError, match="field of order 1 in 2 dimensions"):
        as_field(field, 2, 2)


def branching(t, y, dy):
    return -y if y[0] > 0 else y


def rows_in_jax(t, y):
    return jnp.stack([y[:, 1], -y[:, 0]], axis=1)


@pytest.mark.parametrize(
    ("f", "order", "D", "message"),
    [
        (3, 2, 1, "f must be a function, got int"),
        (branching, 2, 1, "f must be traceable by JAX.*every row must be treated by itself"),
        (JaxFunction(np.sin), 1, 1, r"f\(t, y\) could not be called|must be traceable by JAX"),
        (JaxFunction(lambda t, y: np.sin(y)), 1, 1, "f must be traceable by JAX"),
        (lambda t, y: -y, 2, 1, r"f\(t, y, dy\) could not be called for one point of shape \(1,\)"),
        (lambda t, y, dy: y[:1], 2, 2, r"must return shape \(2,\) for one point, got \(1,\)"),
        (lambda t, y: None, 1, 1, r"must return shape \(1,\) for one point, got NoneType"),
        (lambda t, y: np.sin(y) * t, 1, 3, "Tried as a NumPy function of rows: operands could not"),
        (rows_in_jax, 1, 2, "written with jax.numpy are for one point"),
        (NumpyFunction(lambda t, y: y.sum(0)), 1, 2, r"must return shape \(4, 2\) for 4 rows"),
        (NumpyFunction(lambda t, y: y - y.mean(0)), 1, 2, "every row must be treated by itself"),
    ],
)
def test_errors_say_what_is_wrong(f, order, D, message):
    with pytest.raises((TypeError, ValueError), match=message):
        as_field(f, order, D)


@needs_torch
def test_errors_of_torch_functions():
    with pytest.raises(TypeError, match=r"as a PyTorch function of rows.*takes 2 positional"):
        as_field(torch.nn.Linear(2, 2), 1, 2)
    with pytest.raises(ValueError, match=r"must return shape \(4, 1\) for 4 rows, got \(4,\)"):
        as_field(TorchFunction(lambda t, y: torch.sin(t)), 1, 1)


def test_errors_say_how_to_say_otherwise():
    with pytest.raises(TypeError, match=r"NumpyFunction\(f, rows=False\)"):
        as_field(branching, 2, 1)


def test_programs_follow_variables_that_are_bound_anew():
    surroundings = {"k": 2.0, "A": np.eye(2)}
    exec("def f(t, y):\n    return k * (A @ y)", surroundings)
    rows = np.zeros(1), np.ones((1, 1, 2)), np.zeros(1, dtype=int)
    f = surroundings["f"]
    np.testing.assert_array_equal(as_field(f, 1, 2).values(*rows), [[2.0, 2.0]])
    surroundings["k"] = 3.0
    np.testing.assert_array_equal(as_field(f, 1, 2).values(*rows), [[3.0, 3.0]])
    surroundings["A"] = 2.0 * np.eye(2)
    np.testing.assert_array_equal(as_field(f, 1, 2).values(*rows), [[6.0, 6.0]])


def test_programs_of_methods_follow_their_object():
    class Decay:
        rate = 1.0

        def f(self, t, y):
            return -self.rate * y

    decay, rows = Decay(), (np.zeros(1), np.ones((1, 1, 1)), np.zeros(1, dtype=int))
    assert as_field(decay.f, 1, 1).values(*rows) == -1.0
    decay.rate = 4.0
    assert as_field(decay.f, 1, 1).values(*rows) == -4.0


def test_programs_are_compiled_once_and_forgotten_with_their_function():
    traced = []

    def make(rate):
        def f(t, y):
            traced.append(rate)
            return -rate * y

        return f

    f, rows = make(1.0), random_rows(np.random.default_rng(0), 10, 1, 2)
    as_field(f, 1, 2).values(*rows)
    count = len(traced)
    as_field(f, 1, 2).values(*rows)
    as_field(f, 1, 2).values(*(x[:3] for x in rows))
    assert len(traced) == count


class Counting:
    """A right-hand side that counts how often Python calls it."""

    def __init__(self, module):
        self.sin, self.calls = module.sin, [0]

    def __call__(self, t, y):
        self.calls[0] += 1
        return self.sin(y)


@pytest.mark.parametrize("wrap", [lambda f: f, lambda f: f.__call__, NumpyFunction])
def test_what_a_function_is_is_found_out_once(wrap):
    f = Counting(np)
    assert type(as_field(wrap(f), 1, 2)).__name__ == "NumpyField"
    found = f.calls[0]
    assert found > 0
    as_field(wrap(f), 1, 2)
    assert f.calls[0] == found
    as_field(wrap(f), 1, 3)  # not known yet
    assert f.calls[0] > found


def test_what_a_function_is_follows_variables_that_are_bound_anew():
    f = Counting(np)
    assert type(as_field(f, 1, 2)).__name__ == "NumpyField"
    f.sin = jnp.sin
    assert type(as_field(f, 1, 2)).__name__ == "JaxField"


def test_functions_that_cannot_be_referred_to_weakly():
    class Rate:
        __slots__ = ("rate",)

        def __call__(self, t, y):
            return self.rate * y

    f, rows = Rate(), (np.zeros(1), np.ones((1, 1, 1)), np.zeros(1, dtype=int))
    for f.rate in (2.0, 3.0):
        assert as_field(f, 1, 1).values(*rows) == f.rate


def memory_maps():
    """How many pieces of memory the process has; 0 where the system does not say."""
    maps = Path("/proc/self/maps")
    return len(maps.read_text().splitlines()) if maps.exists() else 0


def test_two_hundred_functions_leave_nothing_behind():
    def make(rate):
        return lambda t, y: -rate * jnp.sin(y)

    rows = random_rows(np.random.default_rng(0), 10, 1, 2)
    as_field(make(-1.0), 1, 2).values(*rows)
    gc.collect()
    before, maps = len(memory._kept), memory_maps()
    for rate in range(200):
        as_field(make(float(rate)), 1, 2).values(*rows)
    gc.collect()
    assert len(memory._kept) <= before + 1
    assert memory_maps() <= maps + 100  # a program that is kept has two or more


def test_within_a_program_of_the_users_own():
    """Known numbers are computed at once, although JAX is tracing something else."""

    @jax.jit
    def program(x):
        field = as_field(lambda t, y, k: k * y, 1, 2, args=np.full(1, 3.0), batch_shape=(1,))
        return x + field.values(np.zeros(1), np.ones((1, 1, 2)), np.zeros(1, dtype=int))[0]

    np.testing.assert_array_equal(program(jnp.zeros(2)), [3.0, 3.0])


def test_numpy_functions_need_neither_jax_nor_torch():
    code = (
        "import sys, numpy as np\n"
        "from probgeo.functions import NumpyFunction, as_field\n"
        "args = {'b': np.ones(1), 'a': [np.full((1, 2), 2.0), None]}\n"
        "f = NumpyFunction(lambda t, y, p: p['a'][0] * np.sin(y) + p['b'][:, None])\n"
        "field = as_field(f, 1, 2, args=args, batch_shape=(1,))\n"
        "out = field.values(np.zeros(1), np.zeros((1, 1, 2)), np.zeros(1, dtype=int))\n"
        "assert out.tolist() == [[1.0, 1.0]]\n"
        "assert [x.shape for x in field.by_args(np.zeros(1), np.zeros((1, 1, 2)), [0])] == "
        "[(1, 2, 2), (1, 2)]\n"
        "assert 'jax' not in sys.modules and 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# --- maps of rows, for metrics --------------------------------------------------------------


def metric_in_jax(x):
    return jnp.diag(1.0 + x**2) + 0.3 * jnp.outer(jnp.sin(x), jnp.sin(x))


def metric_in_numpy(x):
    s = np.sin(x)
    return np.eye(x.shape[1]) * (1.0 + x**2)[:, None, :] + 0.3 * s[:, :, None] * s[:, None, :]


def metric_in_torch(x):
    s = torch.sin(x)
    return torch.diag_embed(1.0 + x**2) + 0.3 * s[:, :, None] * s[:, None, :]


W = np.random.default_rng(3).standard_normal((2, 3, 4))
DECODERS = {
    "jax": lambda x: jnp.stack([jnp.tanh(x @ W[0]), jnp.sin(x @ W[1])]),
    "numpy": lambda x: np.stack([np.tanh(x @ W[0]), np.sin(x @ W[1])], axis=1),
    "torch": lambda x: torch.stack(
        [torch.tanh(x @ torch.from_numpy(W[0])), torch.sin(x @ torch.from_numpy(W[1]))], dim=1
    ),
}
MAPS = {"metric": {"jax": metric_in_jax, "numpy": metric_in_numpy, "torch": metric_in_torch}, "decoder": DECODERS}


def energy_by_hand(form):
    """L(x, v) of one point in JAX, the plain way."""

    def metric(x, v):
        return 0.5 * v @ metric_in_jax(x) @ v

    def decoder(x, v):
        J = jax.jacfwd(DECODERS["jax"])(x).reshape(-1, 3)
        return 0.5 * jnp.sum((J @ v) ** 2)

    return {"metric": metric, "decoder": decoder}[form]


@pytest.fixture
def points():
    return POINTS


POINTS = np.random.default_rng(7).standard_normal((2, 6, 3))


@cache
def derivatives_by_hand(form):
    """L, its gradients and Hessian, the acceleration and its derivatives at the points."""
    L = energy_by_hand(form)

    def acceleration(x, v):
        xv = jax.jacfwd(jax.grad(L, 1), 0)(x, v)
        return jnp.linalg.solve(jax.hessian(L, 1)(x, v), jax.grad(L, 0)(x, v) - xv @ v)

    def one(x, v):
        both = (0, 1)
        first, second = jax.grad(L, both)(x, v), jax.hessian(L, both)(x, v)
        return L(x, v), first, second, acceleration(x, v), jax.jacfwd(acceleration, both)(x, v)

    with jax.enable_x64(True):
        return jax.tree.map(np.asarray, jax.jit(jax.vmap(one))(*POINTS))


@pytest.mark.parametrize("form", MAPS)
@pytest.mark.parametrize("kind", KINDS)
def test_energy_terms(kind, form, points):
    x, v = points
    f = as_row_function(MAPS[form][kind], 3, form=form)
    value, gradient, ((xx, xv), (_, vv)), *_ = derivatives_by_hand(form)
    energy, by_x, by_v, *blocks = f.energy_terms(x, v)
    np.testing.assert_allclose(energy, value, rtol=1e-8)
    np.testing.assert_allclose(f.energies(x, v), value, rtol=1e-8)
    np.testing.assert_allclose(by_x, gradient[0], atol=2e-6)
    np.testing.assert_allclose(by_v, gradient[1], atol=1e-8)
    np.testing.assert_allclose(f.tensors_at(x), vv, atol=1e-8)
    if kind == "numpy" and form == "decoder":
        pass  # Gauss-Newton, see below
    else:
        for block, right in zip(blocks, (xx, xv, vv), strict=True):
            np.testing.assert_allclose(block, right, atol=1e-6)
    first = f.energy_terms(x, v, second=False)
    for a, b in zip(first[:3], (energy, by_x, by_v), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-8)
    assert [part.shape for part in first[3:]] == [(0, 3, 3)] * 3


def test_differences_of_a_decoder_give_gauss_newton_terms(points):
    x, v = points
    f = as_row_function(DECODERS["numpy"], 3, form="decoder")
    with jax.enable_x64(True):

        def directional(x, v):
            return jax.jvp(DECODERS["jax"], (x,), (v,))[1].ravel()

        B, J = jax.vmap(jax.jacfwd(directional, (0, 1)))(x, v)
        Bt, Jt = B.swapaxes(1, 2), J.swapaxes(1, 2)
        expected = Bt @ B, Bt @ J, Jt @ J
    blocks = f.energy_terms(x, v)[3:]
    for block, right in zip(blocks, expected, strict=True):
        np.testing.assert_allclose(block, right, atol=2e-5)


@pytest.mark.parametrize("form", MAPS)
@pytest.mark.parametrize("kind", KINDS)
def test_forces_and_derivatives_of_accelerations(kind, form, points):
    x, v = points
    f = as_row_function(MAPS[form][kind], 3, form=form)
    *_, expected, (by_x, by_v) = derivatives_by_hand(form)
    force, M = f.forces(x, v)
    a = np.linalg.solve(M, force[:, :, None])[:, :, 0]
    np.testing.assert_allclose(a, expected, atol=1e-5)
    J = np.linalg.solve(M[:, None], f.force_jacobians(x, v, a))
    exact = kind != "numpy"
    np.testing.assert_allclose(J[:, 0], by_x, atol=1e-10 if exact else 3e-3)
    np.testing.assert_allclose(J[:, 1], by_v, atol=1e-10 if exact else 3e-3)


HEIGHTS = {
    "jax": lambda x: jnp.exp(x[0]) * x[1] ** 2,
    "numpy": lambda x: np.exp(x[:, 0]) * x[:, 1] ** 2,
    "torch": lambda x: torch.exp(x[:, 0]) * x[:, 1] ** 2,
}


@pytest.mark.parametrize("kind", KINDS)
def test_scalar_terms(kind):
    x = np.array([[0.5, 2.0], [-1.0, 3.0]])
    f = as_row_function(HEIGHTS[kind], 2, what="scale", out_shape=())
    value, gradient, hessian = f.scalar_terms(x)
    e, y = np.exp(x[:, 0]), x[:, 1]
    np.testing.assert_allclose(value, e * y**2, rtol=1e-14)
    np.testing.assert_allclose(gradient, np.stack([e * y**2, 2 * e * y], axis=1), rtol=1e-8)
    right = np.array([[e * y**2, 2 * e * y], [2 * e * y, 2 * e]]).transpose(2, 0, 1)
    np.testing.assert_allclose(hessian, right, rtol=1e-6)


def test_row_functions_have_names_and_shapes():
    with pytest.raises(ValueError, match=r"scale\(x\) must return shape \(\) for one point"):
        as_row_function(lambda x: x, 2, what="scale", out_shape=())
    assert as_row_function(DECODERS["numpy"], 3).out_shape == (2, 4)
    assert as_row_function(DECODERS["jax"], 3).values(np.zeros((0, 3))).shape == (0, 2, 4)
