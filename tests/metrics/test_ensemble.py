"""Ensembles: the expected metric, and the spread over members beside the numerical error."""

import jax.numpy as jnp
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from probgeo import ConvergenceWarning, FrechetMean, GeometricMedian, Manifold, load, metrics, save
from tests.metrics.reference import assert_consistent, random_rows, random_tensors


def decoder(seed, width=16, outputs=6):
    rng = np.random.default_rng(seed)
    W, b, V = rng.normal(size=(width, 2)), rng.normal(size=width), rng.normal(size=(outputs, width))
    return lambda z: V @ jnp.tanh(0.5 * (W @ z + b)) / width**0.5


@pytest.fixture(scope="module")
def ensemble():
    return metrics.Ensemble([decoder(seed) for seed in range(4)])


def pairs(count, seed=0):
    return np.random.default_rng(seed).uniform(-1.5, 1.5, (2, count, 2))


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**31), st.integers(2, 3))
def test_the_expected_metric_is_one_whatever_the_members(seed, D):
    rng = np.random.default_rng(seed)
    x, v = random_rows(rng, D)
    local = [metrics.LocalMetrics(rng.normal(size=(3, D)), random_tensors(rng, 3, D)) for _ in "12"]
    members = [local[0], metrics.Flat(np.eye(D)), local[1]]
    assert_consistent(metrics.Ensemble(members), x, v)


def test_the_expected_metric_of_decoders(ensemble):
    x, v = random_rows(np.random.default_rng(1), 2)
    assert_consistent(ensemble, x, v)
    mean = np.mean([member.tensors_at(x) for member in ensemble.members], axis=0)
    np.testing.assert_allclose(ensemble.tensors_at(x), mean, rtol=1e-13)


def test_steps_of_newton_lead_where_the_whole_hessian_does(ensemble):
    """An ensemble of decoders is one decoder of all their outputs."""
    decoders = [decoder(seed) for seed in range(4)]
    together = metrics.Pullback(lambda z: jnp.concatenate([f(z) for f in decoders]) / 2.0)
    a, b = pairs(20)
    one, other = (Manifold(metric).geodesic(a, b) for metric in (ensemble, together))
    assert one.converged.all()
    assert other.converged.all()
    np.testing.assert_allclose(one.mean_length, other.mean_length, rtol=1e-6)


def test_an_ensemble_of_one_is_its_member(ensemble):
    alone = ensemble.members[0]
    a, b = pairs(10)
    distance = Manifold(metrics.Ensemble([alone])).distance(a, b)
    expected = Manifold(alone).distance(a, b)
    np.testing.assert_allclose(distance.mean, expected.mean, rtol=1e-12)
    np.testing.assert_allclose(distance.members[0], expected.mean, rtol=1e-6)
    assert not distance.model_std.any()
    np.testing.assert_allclose(distance.std, distance.numerical_std)


def test_spread_is_the_standard_deviation_of_separate_runs(ensemble):
    a, b = pairs(10)
    manifold = Manifold(ensemble)
    separate = np.stack([Manifold(m).distance(a, b).mean for m in ensemble.members])
    total = manifold.distance(a, b)
    assert total.converged.all()
    # members start from the expected geodesic; both ways are good to the tolerance
    np.testing.assert_allclose(total.members, separate, rtol=1e-5)
    np.testing.assert_allclose(total.model_std, separate.std(axis=0, ddof=1), rtol=1e-3)
    model = manifold.distance(a, b, source="model")
    np.testing.assert_allclose(model.std, total.model_std)
    numerical = manifold.distance(a, b, source="numerical")
    np.testing.assert_allclose(numerical.std, total.numerical_std)
    np.testing.assert_allclose(total.cov, model.cov + numerical.cov)


def test_uncertain_ends_add_to_the_spread(ensemble):
    from probgeo import Gaussian

    a = Gaussian([0.0, 0.0], 1e-4 * np.eye(2))
    manifold = Manifold(ensemble)
    parts = {
        source: manifold.distance(a, [1.0, 0.5], source=source).cov
        for source in ("total", "numerical", "boundary", "model")
    }
    np.testing.assert_allclose(parts.pop("total"), sum(parts.values()))
    assert parts["boundary"] > 0
    sampled = manifold.distance(a, [1.0, 0.5], method="sampled", n=20)
    np.testing.assert_allclose(sampled.model_std**2, parts["model"])


def test_matrices_of_distances(ensemble):
    X, manifold = pairs(4)[0], Manifold(ensemble)
    matrix = manifold.distance_matrix(X)
    one_by_one = manifold.distance(X[:, None], X[None])
    assert matrix.members.shape == (4, 4, 4)
    np.testing.assert_allclose(matrix.mean, one_by_one.mean, rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(matrix.members, one_by_one.members, rtol=1e-5, atol=1e-12)
    np.testing.assert_array_equal(matrix.members, matrix.members.swapaxes(1, 2))
    np.testing.assert_allclose(matrix.cov, matrix.model_std**2 + matrix.numerical_std**2)
    between = manifold.distance_matrix(X, X[:2])
    np.testing.assert_allclose(between.members, matrix.members[:, :, :2], rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("Estimator", [FrechetMean, GeometricMedian])
def test_means_by_every_member(ensemble, Estimator):
    X = pairs(12, seed=4)[0]
    fitted = Estimator(ensemble).fit(X)
    separate = [Estimator(member, init=fitted._centre.mean).fit(X) for member in ensemble.members]
    points = np.stack([one._centre.mean for one in separate])
    # both iterations end within a tenth of the statistical standard error of the minimum
    assert np.abs(fitted.members_ - points).max() < 0.2 * fitted.standard_error_.max()
    np.testing.assert_allclose(fitted.model_cov_, np.cov(fitted.members_.T), rtol=1e-12)
    assert fitted.converged_
    assert "model_std" in fitted.summary()
    assert "model_std" not in separate[0].summary()


def test_a_member_that_fails_is_told(ensemble):
    def edge(x):
        return jnp.where(jnp.abs(x[0] - 0.5) < 0.1, -1.0, 1.0) * jnp.eye(2)

    members = [metrics.Flat(np.eye(2)), metrics.Flat(2.0 * np.eye(2)), edge]
    both = metrics.Ensemble([members[0], members[1], metrics.as_metric(edge)])
    with pytest.warns(ConvergenceWarning):
        distance = Manifold(both).distance([0.0, 0.0], [1.0, 0.0])
    assert not distance.converged


def test_bootstrap_refits_to_samples_of_the_data():
    X = np.random.default_rng(0).normal(size=(150, 2))
    seen = []

    def fit(sample):
        seen.append(sample)
        return metrics.from_mixture(sample, n_components=2)

    ensemble = metrics.bootstrap(X, fit, n=3, seed=5)
    assert len(ensemble.members) == len(seen) == 3
    rows = {tuple(x) for x in X}
    for sample in seen:
        assert sample.shape == X.shape
        assert {tuple(x) for x in sample} < rows
    assert not np.array_equal(seen[0], seen[1])
    again = metrics.bootstrap(X, metrics.Mixture(n_components=2), n=3, seed=5)
    np.testing.assert_allclose(again(X[0]), ensemble(X[0]), rtol=1e-6)


def test_more_data_leave_less_doubt_about_the_metric():
    a, b = pairs(8, seed=2)

    def doubt(N):
        X = np.random.default_rng(1).normal(size=(N, 2))
        ensemble = metrics.bootstrap(X, lambda x: metrics.LocalCovariance(x, sigma=1.0), n=12)
        distance = Manifold(ensemble).distance(a, b)
        return np.sqrt(np.mean((distance.model_std / distance.mean) ** 2))

    # standard errors fall with the square root of N: by a factor of 3
    assert 2.0 < doubt(100) / doubt(900) < 4.5


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ([], "at least one"),
        (decoder(0), "list of metrics or decoders"),
        ([decoder(0), 3], r"members\[1\] must be a metric or a decoder"),
        ([metrics.Flat(np.eye(2)), metrics.Flat(np.eye(3))], "same number of dimensions"),
    ],
)
def test_what_no_ensemble_is(members, words):
    with pytest.raises((TypeError, ValueError), match=words):
        metrics.Ensemble(members)


def test_bad_arguments_are_named(ensemble):
    with pytest.raises(ValueError, match="over the members of a"):
        Manifold(metrics.Flat()).distance([0.0], [1.0], source="model")
    with pytest.raises(ValueError, match="source"):
        Manifold(ensemble).distance([0.0, 0.0], [1.0, 0.0], source="modell")
    X = np.eye(5)
    for arguments, name in [((X, 3), "fit"), ((X, metrics.Mixture(), 0), "n"), ((X[0], len), "X")]:
        with pytest.raises((TypeError, ValueError), match=name):
            metrics.bootstrap(*arguments)


def test_spread_comes_back_from_a_file(tmp_path):
    X = np.random.default_rng(0).normal(size=(60, 2))
    manifold = Manifold(metrics.bootstrap(X, metrics.Mixture(n_components=2), n=3))
    kept = load(save([manifold, manifold.distance(*X[:2])], tmp_path / "spread"))
    again = kept[0].distance(*X[:2])
    np.testing.assert_array_equal(kept[1].members, again.members)
    assert kept[1].model_std == again.model_std > 0.0


def test_modules_are_kept_by_torch(tmp_path):
    manifold = Manifold(metrics.Ensemble([torch.nn.Linear(2, 3)]))
    with pytest.raises(TypeError, match=r"members\[0\].decoder cannot be saved.*torch.save"):
        save(manifold, tmp_path / "modules")
