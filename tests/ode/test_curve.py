"""The answer: marginals, joint covariances and samples that belong together."""

import json

import jax.numpy as jnp
import numpy as np
import pytest

from probgeo import Gaussian, load, save, solve_bvp, solve_ivp, solvers

TIMES = np.array([0.2, 0.5, 1.1, 1.9])


def pendulum(t, y, dy):
    return -jnp.sin(y)


@pytest.fixture(scope="module")
def curve():
    cov = np.array([[0.02, 0.01], [0.01, 0.03]])
    return solve_bvp(
        pendulum, (0.0, 2.0), Gaussian([0.1, -0.2], cov), [1.0, 0.5],
        solver=solvers.Dense(n_points=8),
    )  # fmt: skip


@pytest.fixture(scope="module")
def batch():
    return solve_bvp(pendulum, (0.0, 2.0), np.zeros((2, 3, 2)), [1.0, 0.5], solver=solvers.Dense(n_points=6))


def test_marginals(curve):
    at = curve(TIMES)
    assert isinstance(at, Gaussian)
    np.testing.assert_array_equal(at.mean, curve.mean(TIMES))
    np.testing.assert_allclose(at.std, curve.std(TIMES), rtol=1e-12)
    assert curve(0.5).mean.shape == (2,)
    assert curve.mean(TIMES.reshape(2, 2)).shape == (2, 2, 2)


def test_derivatives_of_the_mean_and_covariance_by_finite_differences(curve):
    t, s, h = 0.7, 1.3, 1e-5
    slope = (curve.mean(t + h) - curve.mean(t - h)) / (2 * h)
    np.testing.assert_allclose(curve.mean(t, 1), slope, rtol=1e-6)
    bend = (curve.mean(t + h, 1) - curve.mean(t - h, 1)) / (2 * h)
    np.testing.assert_allclose(curve.mean(t, 2), bend, rtol=1e-6)
    change = (curve.cov(t + h, s) - curve.cov(t - h, s)) / (2 * h)
    np.testing.assert_allclose(curve.cov(t, s, (1, 0)), change, rtol=1e-5, atol=1e-8)


def test_samples_reproduce_mean_and_joint_covariance(curve):
    n = 20_000
    c, dc = curve.sample(0, n, TIMES, derivative=(0, 1))
    assert c.shape == dc.shape == (n, 4, 2)
    joint = np.concatenate([c, dc], axis=1).reshape(n, 16)
    mean = np.concatenate([curve.mean(TIMES), curve.mean(TIMES, 1)]).reshape(16)
    rows = [np.concatenate([curve.cov(TIMES[:, None], TIMES[None, :], (d, e)) for e in (0, 1)], axis=1) for d in (0, 1)]
    cov = np.transpose(np.concatenate(rows), (0, 2, 1, 3)).reshape(16, 16)
    variances = np.diag(cov)
    np.testing.assert_array_less(abs(joint.mean(0) - mean), 4.5 * np.sqrt(variances / n) + 1e-12)
    spread = np.sqrt((np.outer(variances, variances) + cov**2) / n)
    np.testing.assert_array_less(abs(np.cov(joint.T) - cov), 4.5 * spread + 1e-12)


def test_a_sample_is_a_smooth_curve_through_certain_ends():
    curve = solve_bvp(pendulum, (0.0, 2.0), [0.1, 0.0], [1.0, 0.5], solver=solvers.Dense(n_points=3))
    t = np.linspace(0, 2, 60)
    samples = np.asarray(curve.sample(1, 5, t))
    np.testing.assert_allclose(samples[:, 0], np.broadcast_to([0.1, 0.0], (5, 2)), atol=1e-6)
    np.testing.assert_allclose(samples[:, -1], np.broadcast_to([1.0, 0.5], (5, 2)), atol=1e-6)
    # jumps between neighbouring times are as small as the largest plausible slope allows
    slopes = np.abs(curve.mean(t, 1)) + 6 * np.asarray(curve.std(t, 1))
    assert np.abs(np.diff(samples, axis=1)).max() <= 1.2 * slopes.max() * (t[1] - t[0])


def test_samples_of_a_batch(batch):
    draws = batch.sample(0, 7, TIMES)
    assert draws.shape == (7, 2, 3, 4, 2)
    assert not np.allclose(draws[:, 0, 0], draws[:, 1, 2])  # independent across the batch
    np.testing.assert_array_equal(draws, batch.sample(0, 7, TIMES))


def test_batch_can_be_indexed(batch):
    assert batch.batch_shape == (2, 3)
    assert len(batch) == 2
    assert batch[0].batch_shape == (3,)
    assert batch[1, 2].batch_shape == ()
    np.testing.assert_allclose(batch[1, 2].mean(TIMES), batch.mean(TIMES)[1, 2], rtol=1e-12)
    np.testing.assert_array_equal(batch[1, 2].nodes, batch.nodes[5])
    np.testing.assert_array_equal(batch[0].nodes[2], batch.nodes[2])
    with pytest.raises(IndexError, match="not a batch"):
        batch[1, 2][0]


def test_sources_add_up(curve):
    parts = [curve.cov(0.3, TIMES, source=s) for s in ("numerical", "boundary")]
    np.testing.assert_allclose(sum(parts), curve.cov(0.3, TIMES), rtol=1e-12)
    np.testing.assert_allclose(
        curve.std(TIMES, source="numerical") ** 2 + curve.std(TIMES, source="boundary") ** 2,
        curve.std(TIMES) ** 2,
        rtol=1e-10,
    )


def test_time_of_the_user_not_of_the_solver():
    """The same physics on [10, 14] as on [0, 4], and slopes per unit of the user's time."""
    curve = solve_ivp(lambda t, y, dy: -y, (10.0, 14.0), [1.0], [0.5], solver=solvers.Dense(n_points=30))
    t = np.linspace(10, 14, 9)
    np.testing.assert_allclose(curve.mean(t)[:, 0], np.cos(t - 10) + 0.5 * np.sin(t - 10), atol=1e-3)
    np.testing.assert_allclose(curve.mean(t, 1)[:, 0], 0.5 * np.cos(t - 10) - np.sin(t - 10), atol=5e-3)
    assert float(curve.nodes[0]) == 10.0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda c: c.mean(2.5), r"t must lie in \[0, 2\]"),
        (lambda c: c.mean(np.nan), "t must be finite"),
        (lambda c: c.mean(0.5, -1), "derivative must be a whole number"),
        (lambda c: c.std(0.5, source="mine"), "source must be one of"),
        (lambda c: c.sample(0, 2, np.zeros((2, 2))), "t must be one time or a vector"),
        (lambda c: c.cov(-1.0, 0.5), "s must lie in"),
    ],
)
def test_bad_input_is_named(curve, call, message):
    with pytest.raises(ValueError, match=message):
        call(curve)


def test_repr(curve, batch):
    assert repr(curve) == "Curve(t=[0, 2], dimension=2, 'converged')"
    assert repr(batch) == "Curve(t=[0, 2], dimension=2, batch=(2, 3), 6 of 6 converged)"


def test_posteriors_of_earlier_files(tmp_path):
    """Moved, stopped and joined ones were objects around others, which files name."""
    curve = solve_ivp(lambda t, y: -y, (0.0, 2.0), [[1.0], [2.0]])
    with np.load(save(curve, tmp_path / "new.npz")) as archive:
        arrays = {name: archive[name] for name in archive.files}
    described = json.loads(str(arrays["structure"]))
    parts = described["result"]["parts"]
    new = len(arrays) - 1
    arrays |= {str(new): np.array([[3.0], [4.0]]), str(new + 1): np.array([0.5, 2.0])}

    def around(posterior, name, **others):
        return {"class": f"probgeo.ode.{name}", "parts": {"posterior": posterior, **others}}

    moved = around(parts["posterior"], "curve:Moved", origin={"numpy": new, "scalar": False})
    stopped = around(moved, "events:Stopped", ends={"numpy": new + 1, "scalar": False})
    parts["posterior"] = {"class": "probgeo.ode.curve:Joined", "parts": {"parts": {"tuple": [stopped]}}}
    arrays["structure"] = np.array(json.dumps(described))
    np.savez(tmp_path / "old.npz", **arrays)
    old = load(tmp_path / "old.npz")
    np.testing.assert_allclose(old.mean(0.25), curve.mean(0.25) + np.array([[3.0], [4.0]]), rtol=1e-15)
    np.testing.assert_array_equal(np.isnan(old.std(1.0)), [[True], [False]])
