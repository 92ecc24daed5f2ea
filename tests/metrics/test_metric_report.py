"""The report on a metric over data."""

import jax.numpy as jnp
import numpy as np

from probgeo import metrics
from probgeo.metrics import metric_report


def test_condition_numbers_and_eigenvalues_are_those_of_numpy(monkeypatch):
    X = np.abs(np.random.default_rng(0).normal(size=(300, 3))) + 0.1
    monkeypatch.setattr(metric_report, "AT_ONCE", 1000)  # so that it takes more than one chunk
    report = metrics.check_metric(lambda x: jnp.diag(x), X)
    assert report.ok
    np.testing.assert_allclose(report.condition, X.max(axis=1) / X.min(axis=1), rtol=1e-12)
    np.testing.assert_allclose(report.smallest_eigenvalue, X.min(axis=1), rtol=1e-12)


def test_points_without_a_metric_are_named():
    def broken(x):
        finite = jnp.where(x[0] == 1.0, jnp.nan, 1.0)
        lean = jnp.where(x[0] == 2.0, 0.5, 0.0)
        size = jnp.where(x[0] == 3.0, 0.0, 1.0)
        return jnp.array([[finite, lean], [0.0, size]])

    report = metrics.check_metric(broken, np.arange(5.0)[:, None] * np.ones(2))
    assert not report.ok
    assert report.not_finite.tolist() == [1]
    assert report.not_symmetric.tolist() == [2]
    assert report.not_positive_definite.tolist() == [3]
    assert np.isinf(report.condition[[1, 3]]).all()
    assert report.condition[0] == report.condition[4] == 1.0
    assert "not positive definite at 1 points: 3" in str(report)


def test_a_metric_that_is_nowhere_finite_can_still_be_reported():
    report = metrics.check_metric(lambda x: jnp.full((2, 2), jnp.nan), np.zeros((2, 2)))
    assert "not finite at 2 points: 0, 1" in str(report)


def test_metrics_in_closed_form_are_looked_at_too():
    metric = metrics.LocalMetrics([[0.0, 0.0]], [[4.0, 1.0]])
    report = metrics.check_metric(metric, np.zeros((3, 2)))
    np.testing.assert_allclose(report.condition, 4.0)
    half = metrics.check_metric(metrics.HalfPlane(), [[0.0, 1.0], [0.0, -1.0]])
    assert half.not_finite.tolist() == [1]
