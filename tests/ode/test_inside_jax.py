"""Solving under jit, vmap and grad: the numbers of a solve outside, with the right derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from probgeo import Curve, Gaussian, solve_bvp, solve_ivp, solvers

TIGHT = solvers.Markov(rtol=1e-9)
SPAN = (0.0, 1.0)
TIMES = np.array([0.0, 0.3, 0.7, 1.0])


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


def decay(t, y, k):
    return -k * y


def spring(t, y, dy, k):
    return -k * y


def pendulum(t, y, dy, args):
    return -args["g"] * jnp.sin(y) - args["c"][0] * dy + args["c"][1] * jnp.cos(t)


def decaying(k, y0, t=TIMES, solver=TIGHT):
    return solve_ivp(decay, SPAN, y0, args=k, solver=solver).mean(t)


def decaying_exactly(k, y0, t=TIMES):
    return y0 * jnp.exp(-k * t)[:, None]


def swinging(k, y0, dy0, t=TIMES):
    return solve_ivp(spring, SPAN, y0, dy0, args=k, solver=TIGHT).mean(t)


def swinging_exactly(k, y0, dy0, t=TIMES):
    w = jnp.sqrt(k)
    return y0 * jnp.cos(w * t)[:, None] + dy0 * (jnp.sin(w * t) / w)[:, None]


def stretched(k, ya, yb, t=TIMES):
    return solve_bvp(spring, SPAN, ya, yb, args=k, solver=TIGHT).mean(t)


def stretched_exactly(k, ya, yb, t=TIMES):
    w = jnp.sqrt(k)
    left, right = jnp.sin(w * (1.0 - t)) / jnp.sin(w), jnp.sin(w * t) / jnp.sin(w)
    return left[:, None] * ya + right[:, None] * yb


ONE, TWO = np.array([1.5, -0.4]), np.array([0.3, 0.8])
LINEAR = {
    "first order": (decaying, decaying_exactly, (2.0, ONE)),
    "second order": (swinging, swinging_exactly, (2.0, ONE, TWO)),
    "boundary": (stretched, stretched_exactly, (2.0, ONE, TWO)),
}


@pytest.mark.parametrize("name", LINEAR)
@pytest.mark.parametrize("derivative_of", [jax.jacfwd, jax.jacrev])
def test_derivatives_of_linear_problems_are_the_closed_form(name, derivative_of):
    solve, exact, x = LINEAR[name]
    every = tuple(range(len(x)))
    np.testing.assert_allclose(solve(*x), exact(*x), atol=1e-7)
    found, expected = (derivative_of(f, every)(*x) for f in (solve, exact))
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)


@pytest.mark.parametrize("name", LINEAR)
def test_jit_and_vmap_change_nothing(name):
    solve, _, x = LINEAR[name]

    def loss(*x):
        return jnp.sum(solve(*x) ** 2)

    np.testing.assert_allclose(jax.jit(loss)(*x), loss(*x), rtol=1e-12)
    gradient = jax.grad(loss, (0, 1))
    stiffnesses = jnp.array([0.5, 2.0, 3.0])
    rest = (None,) * (len(x) - 1)
    together = jax.jit(jax.vmap(gradient, (0, *rest)))(stiffnesses, *x[1:])
    for i, k in enumerate(stiffnesses):
        for a, b in zip(gradient(k, *x[1:]), together, strict=True):
            np.testing.assert_allclose(b[i], a, rtol=1e-6, atol=1e-9)


def test_members_of_a_batch_have_their_own_derivatives():
    k, ya = jnp.array([0.5, 1.0, 2.0]), jnp.outer(jnp.arange(1.0, 4.0), ONE)
    by_k = jax.jacfwd(lambda k: stretched(k, ya, TWO))(k)
    assert by_k.shape == (3, 4, 2, 3)
    for i in range(3):
        expected = jax.jacfwd(stretched_exactly)(k[i], ya[i], TWO)
        np.testing.assert_allclose(by_k[i, :, :, i], expected, atol=1e-6)
    off = by_k[np.array([0, 0, 1]), :, :, np.array([1, 2, 2])]
    np.testing.assert_array_equal(off, 0.0)


@pytest.mark.parametrize("boundary", [False, True])
def test_nonlinear_derivatives_against_differences(boundary):
    args = {"g": jnp.array(3.0), "c": jnp.array([0.3, 1.0])}

    def middle(args, y):
        data = (y, 0.5 * y) if not boundary else (y, -y)
        solve = solve_bvp if boundary else solve_ivp
        return solve(pendulum, (0.0, 1.5), *data, args=args, solver=TIGHT).mean(0.9, derivative=1)

    y = jnp.array([0.8])
    by_args, by_y = jax.jacrev(middle, (0, 1))(args, y)
    h = 1e-4

    def difference(change):
        ahead, behind = middle(*change(h)), middle(*change(-h))
        return (np.asarray(ahead) - np.asarray(behind)) / (2 * h)

    by_g = difference(lambda h: ({**args, "g": args["g"] + h}, y))
    by_c = [difference(lambda h, e=e: ({**args, "c": args["c"] + h * e}, y)) for e in np.eye(2)]
    np.testing.assert_allclose(by_args["g"], by_g, atol=2e-6)
    np.testing.assert_allclose(by_args["c"], np.stack(by_c, axis=-1), atol=2e-6)
    np.testing.assert_allclose(by_y[:, 0], difference(lambda h: (args, y + h)), atol=2e-6)


def test_derivatives_on_adaptive_meshes():
    """Members of very different difficulty, each on a mesh of its own: e y'' = y."""
    e = jnp.array([1.0, 1e-2, 1e-4])

    def values(e):
        data = jnp.ones((3, 1)), jnp.zeros((3, 1))
        curve = solve_bvp(lambda t, y, dy, e: y / e, SPAN, *data, args=e)
        return curve.mean([0.05, 0.3])[..., 0]

    def exact(e):
        r, t = 1.0 / jnp.sqrt(e)[:, None], jnp.array([0.05, 0.3])
        return jnp.sinh(r * (1 - t)) / jnp.sinh(r)

    found, expected = jax.jacfwd(values)(e), jax.jacfwd(exact)(e)
    scale = np.abs(expected).max(axis=(1, 2))[:, None, None]
    np.testing.assert_allclose(found / scale, expected / scale, atol=1e-3)


def test_times_are_traced_too():
    t = jnp.array([0.2, 0.9])
    known = solve_bvp(spring, SPAN, Gaussian(ONE, 0.01 * np.eye(2)), TWO, args=2.0, solver=TIGHT)
    speed = jax.vmap(jax.grad(lambda t: known.mean(t)[0]))(t)
    exact = jax.vmap(jax.grad(lambda t: stretched_exactly(2.0, ONE, TWO, t[None])[0, 0]))
    np.testing.assert_allclose(speed, exact(t), atol=1e-6)
    for source in ("total", "numerical", "boundary"):
        inside = jax.jit(lambda t, source=source: known.std(t, source=source))(t)
        np.testing.assert_allclose(inside, known.std(t, source=source), rtol=1e-9)
    np.testing.assert_allclose(jax.jit(lambda t: known(t).cov)(t), known(t).cov, rtol=1e-9)

    t = jnp.array([[0.1, 0.2], [0.5, 0.9], [0.3, 0.4]])
    k = jnp.array([1.0, 2.0, 3.0])
    rows = jax.vmap(lambda k, t: stretched(k, ONE, TWO, t))(k, t)
    for i in range(3):
        np.testing.assert_allclose(rows[i], stretched_exactly(k[i], ONE, TWO, t[i]), atol=1e-7)


class Counting:
    """A solver that remembers how many members it was given at a time."""

    def __init__(self):
        self.counts = []

    def solve(self, problem, guess=None):
        self.counts.append(problem.count)
        return TIGHT.solve(problem, guess)


def test_members_of_vmap_are_solved_together_and_once():
    solver = Counting()

    def answers(k, y):
        curve = solve_bvp(spring, SPAN, y, TWO, args=k, solver=solver)
        return curve.mean(0.5), curve.std(0.5), curve.converged

    k, y = jnp.linspace(0.5, 2.0, 4), jnp.outer(jnp.arange(1.0, 4.0), ONE)
    mean, std, converged = jax.jit(
        jax.vmap(jax.vmap(answers, (0, None)), (None, 0))  # nested
    )(k, y)
    assert mean.shape == std.shape == (3, 4, 2)
    assert converged.all()
    assert solver.counts == [12]
    expected = stretched_exactly(k[1], y[2], TWO, jnp.array([0.5]))[0]
    np.testing.assert_allclose(mean[2, 1], expected, atol=1e-7)


def test_large_batches_beside_other_work_of_jax():
    """Callbacks call JAX again, while JAX is at work: they must not wait for each other."""
    W = np.random.default_rng(0).standard_normal((5, 5)) / np.sqrt(5)

    @jax.jit
    def loss(y, k):
        z = y + 1e-3 * jnp.tanh(y @ y.T) @ y
        first = solve_ivp(lambda t, y, k: k * jnp.tanh(W @ y), SPAN, z, args=k)
        second = solve_bvp(lambda t, y, dy, k: k * jnp.tanh(W @ y), SPAN, z, -z, args=k)
        return jnp.mean(first.mean(TIMES) ** 2) + jnp.mean(second.mean(TIMES) ** 2)

    y, k = np.random.default_rng(1).standard_normal((400, 5)), np.ones(400)
    several = [jax.grad(loss, (0, 1))(y, k + 0.1 * i) for i in range(3)]  # all under way at once
    assert all(np.isfinite(x).all() for x in jax.tree.leaves(several))


@pytest.mark.parametrize("compiled", [False, True])
def test_a_gradient_takes_one_solve(compiled):
    solver = Counting()

    def loss(k):
        return jnp.sum(solve_bvp(spring, SPAN, ONE, TWO, args=k, solver=solver).mean(0.5))

    gradient = jax.value_and_grad(loss)
    (jax.jit(gradient) if compiled else gradient)(2.0)
    assert solver.counts == [1]


def test_the_same_numbers_as_outside():
    data = Gaussian(ONE, 0.01 * np.eye(2)), Gaussian(TWO, np.diag([0.04, 0.0]))
    outside = solve_bvp(spring, SPAN, *data, args=2.0)

    @jax.jit
    def inside(k):
        curve = solve_bvp(spring, SPAN, *data, args=k)
        at_times = curve(TIMES)
        stds = [curve.std(TIMES, 1, source) for source in ("total", "numerical", "boundary")]
        diagnostics = curve.log_evidence, curve.n_evaluations, curve.residual, curve.scale
        cov = curve.cov(0.2, 0.6, (0, 1))
        return at_times.mean, at_times.cov, stds, cov, diagnostics, curve.status

    mean, cov, stds, across, diagnostics, status = inside(2.0)
    np.testing.assert_allclose(mean, outside.mean(TIMES), atol=1e-12)
    np.testing.assert_allclose(cov, outside(TIMES).cov, atol=1e-12)
    for std, source in zip(stds, ("total", "numerical", "boundary"), strict=True):
        np.testing.assert_allclose(std, outside.std(TIMES, 1, source), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(across, outside.cov(0.2, 0.6, (0, 1)), atol=1e-12)
    assert diagnostics[1] == outside.n_evaluations
    assert status == outside.status


def test_error_bars_follow_the_covariances_of_the_data():
    def bar(variance):
        ya = Gaussian.unchecked(ONE, variance * jnp.eye(2))
        return solve_bvp(spring, SPAN, ya, TWO, args=2.0).std(0.3, source="boundary")[0]

    w = np.sqrt(2.0)
    share = np.sin(0.7 * w) / np.sin(w)  # d y(0.3) / d ya
    assert jax.jit(bar)(0.04) == pytest.approx(0.2 * share, rel=1e-5)
    assert jax.grad(bar)(0.04) == pytest.approx(share / (2 * 0.2), rel=1e-5)
    with pytest.raises(NotImplementedError, match="error bars of a curve have no derivatives"):
        jax.grad(lambda k: jnp.sum(solve_bvp(spring, SPAN, ONE, TWO, args=k).std(0.3)))(2.0)
    with pytest.raises(NotImplementedError, match="second derivatives of a curve have no"):
        jax.hessian(lambda k: jnp.sum(stretched(k, ONE, TWO)))(2.0)


def test_whether_it_converged_may_be_asked_under_grad():
    def loss(k):
        curve = solve_bvp(spring, SPAN, ONE, TWO, args=k)
        return jnp.where(curve.converged, jnp.sum(curve.mean(0.5)), jnp.nan)

    expected = jax.grad(lambda k: stretched_exactly(k, ONE, TWO, jnp.array([0.5])).sum())(2.0)
    assert jax.grad(loss)(2.0) == pytest.approx(float(expected), rel=1e-4)


def test_curves_leave_a_program():
    @jax.jit
    def program(k):
        return solve_bvp(spring, SPAN, Gaussian(ONE, 0.01 * np.eye(2)), TWO, args=k)

    curve = program(2.0)
    outside = solve_bvp(spring, SPAN, Gaussian(ONE, 0.01 * np.eye(2)), TWO, args=2.0)
    np.testing.assert_allclose(curve.mean(0.4), outside.mean(0.4), atol=1e-12)
    solved = curve.solved()
    assert isinstance(solved, Curve)
    np.testing.assert_allclose(solved.std(0.4), outside.std(0.4), rtol=1e-9)
    batch = jax.vmap(program)(jnp.array([1.0, 2.0]))
    assert batch.batch_shape == (2,)
    assert batch.mean([0.1, 0.2, 0.3]).shape == (2, 3, 2)
    assert "batch=(2,)" in repr(batch)


def test_single_precision_in_single_precision_out():
    with jax.enable_x64(False):
        value, slope = jax.value_and_grad(lambda k: stretched(k, ONE, TWO)[1, 0])(2.0)
        assert value.dtype == slope.dtype == jnp.float32
    expected = jax.grad(lambda k: stretched_exactly(k, ONE, TWO)[1, 0])(2.0)
    assert slope == pytest.approx(float(expected), rel=1e-5)


def test_functions_of_other_frameworks_work_inside():
    def spring_in_numpy(t, y, dy, k):
        return np.negative(k)[:, None] * y

    def middle(k):
        return solve_bvp(spring_in_numpy, SPAN, ONE, TWO, args=k, solver=TIGHT).mean(0.5)[0]

    exact = jax.grad(lambda k: stretched_exactly(k, ONE, TWO, jnp.array([0.5]))[0, 0])(2.0)
    assert jax.jit(jax.grad(middle))(2.0) == pytest.approx(float(exact), rel=1e-6)


def test_whole_numbers_are_parameters_without_derivatives():
    def middle(k, n):
        rate = (k, n)
        f = lambda t, y, dy, p: -p[0] * y * p[1]  # noqa: E731
        return solve_bvp(f, SPAN, ONE, TWO, args=rate, solver=TIGHT).mean(0.5)[0]

    exact = jax.grad(lambda k: stretched_exactly(2 * k, ONE, TWO, jnp.array([0.5]))[0, 0])(1.0)
    assert jax.jit(jax.grad(middle))(1.0, jnp.array(2)) == pytest.approx(float(exact), rel=1e-6)


@pytest.mark.parametrize("transform", [jax.jit, jax.grad, lambda f: lambda k: jax.vmap(f)(k[None])])
def test_parameters_that_f_closes_over_are_named(transform):
    def loss(k):
        return jnp.sum(solve_ivp(lambda t, y: -k * y, SPAN, [1.0]).mean(1.0))

    with pytest.raises(TypeError, match="pass it as args="):
        transform(loss)(jnp.array(2.0))


def test_bad_input_is_named_while_tracing():
    with pytest.raises(ValueError, match="must have the batch axes"):
        jax.jit(lambda k: stretched(k, jnp.ones((3, 2)), TWO))(jnp.ones(2))
    with pytest.raises(ValueError, match="must return shape"):
        jax.jit(lambda y: solve_ivp(lambda t, y: y[:1], SPAN, y).mean(1.0))(ONE)
    with pytest.raises(ValueError, match="t must lie in"):
        jax.jit(lambda y: solve_bvp(spring, SPAN, y, y, args=2.0).mean(2.0))(ONE)
    with pytest.raises(TypeError, match="guess must be known"):
        jax.jit(lambda y: solve_bvp(spring, SPAN, y, y, args=2.0, guess=y).mean(1.0))(ONE)


def test_the_papers_solver_inside():
    dense = solvers.Dense(n_points=20)

    def middle(k, ya):
        return solve_bvp(spring, SPAN, ya, TWO, args=k, solver=dense).mean(0.5)

    exact = jax.jacfwd(lambda k, ya: stretched_exactly(k, ya, TWO, jnp.array([0.5]))[0], (0, 1))
    for a, b in zip(jax.jacrev(middle, (0, 1))(2.0, ONE), exact(2.0, ONE), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-3)
