"""Means and medians against closed forms, under changes that must not matter, and at the edges."""

import numpy as np
import pytest
from scipy.stats import chi2

from probgeo import ConvergenceWarning, Manifold, data, metrics, solvers
from probgeo.stats import FrechetMean, GeometricMedian

HALF, RNG = metrics.HalfPlane(), np.random.default_rng(0)
X = np.stack([RNG.normal(size=12), np.exp(0.7 * RNG.normal(size=12))], axis=1)
CAP = 0.5 * RNG.normal(size=(12, 2))  # on the sphere, well within half of it


def by_closed_forms(metric, points, weights=None, steps=300):
    """Eq. 5 with the closed-form exponential map and logarithm."""
    mean = points[0]
    for _ in range(steps):
        v = np.average(np.asarray(metric.log(mean, points)), axis=0, weights=weights)
        mean = np.asarray(metric.exp(mean, v))
    return mean


@pytest.mark.parametrize(("metric", "points"), [(HALF, X), (metrics.Sphere(), CAP)])
def test_closed_forms(metric, points):
    exact = by_closed_forms(metric, points)
    rough = FrechetMean(metric).fit(points)
    tight = FrechetMean(metric, fraction=1e-5).fit(points)
    assert rough.converged_
    assert tight.converged_
    assert np.all(np.abs(rough.mean_.mean - exact) < 0.2 * rough.standard_error_)
    assert np.all(np.abs(tight.mean_.mean - exact) < 4 * tight.mean_.std)
    assert np.all(tight.mean_.std < 1e-5)
    assert rough.n_iter_ < tight.n_iter_  # sloppy on purpose
    squares = np.asarray(metric.distance(exact, points)) ** 2
    assert float(tight.variance_.mean) == pytest.approx(squares.mean(), rel=1e-5)


def test_weights_count_like_repetitions():
    weights = np.r_[3.0, 0.0, np.ones(10)]
    weighted = FrechetMean(HALF).fit(X, sample_weight=weights)
    repeated = FrechetMean(HALF).fit(np.concatenate([X[:1], X[:1], X[:1], X[2:]]))
    np.testing.assert_allclose(weighted.mean_.mean, repeated.mean_.mean, rtol=1e-12)
    np.testing.assert_allclose(weighted.standard_error_, repeated.standard_error_, rtol=1e-12)
    exact = by_closed_forms(HALF, X, weights)
    assert np.all(np.abs(weighted.mean_.mean - exact) < 0.2 * weighted.standard_error_)


def test_more_weight_draws_the_mean_nearer():
    distances = []
    for weight in (0.0, 1.0, 3.0, 10.0, 100.0):
        mean = FrechetMean(HALF).fit(X, sample_weight=np.r_[weight, np.ones(11)]).mean_.mean
        distances.append(float(HALF.distance(mean, X[0])))
    assert np.all(np.diff(distances) < 0)


def test_the_order_of_points_does_not_matter():
    one, other = (FrechetMean(HALF, fraction=1e-3).fit(points) for points in (X, X[::-1]))
    np.testing.assert_allclose(one.mean_.mean, other.mean_.mean, rtol=1e-6)


def test_a_linear_change_of_coordinates_changes_nothing():
    rng = np.random.default_rng(3)
    roots = rng.normal(size=(3, 2, 2))
    tensors = roots @ roots.transpose(0, 2, 1) + 0.5 * np.eye(2)
    centers, points = rng.normal(size=(3, 2)), rng.normal(size=(12, 2))
    A = np.array([[2.0, 0.3], [-0.4, 0.5]])  # x = A z
    there = np.linalg.inv(A).T
    metric = metrics.LocalMetrics(centers, tensors, rho=0.5)
    moved = metrics.LocalMetrics(centers @ there, A.T @ tensors @ A, rho=0.5)
    one = FrechetMean(metric, fraction=1e-3).fit(points)
    other = FrechetMean(moved, fraction=1e-3).fit(points @ there)
    back = A @ np.asarray(other.mean_.mean)
    std = np.sqrt(np.diagonal(A @ np.asarray(other.mean_.cov) @ A.T)) + np.asarray(one.mean_.std)
    assert np.all(np.abs(one.mean_.mean - back) < 4 * std + 1e-3 * one.standard_error_)
    np.testing.assert_allclose(A @ other.statistical_cov_ @ A.T, one.statistical_cov_, rtol=0.02, atol=1e-4)


@pytest.mark.parametrize("points", [X[:1], np.repeat(X[:1], 5, axis=0)])
@pytest.mark.parametrize("estimator", [FrechetMean(HALF), GeometricMedian(HALF)])
def test_one_point_is_its_own_centre(estimator, points):
    found = estimator.fit(points)
    assert found.converged_
    np.testing.assert_allclose(found._centre.mean, X[0], atol=1e-9)
    # one observation says nothing of others; equal ones say that they do not differ
    expected = np.nan if len(points) == 1 else 0.0
    np.testing.assert_array_equal(found.standard_error_, [expected, expected])


def test_a_point_without_a_metric_is_left_out_and_counted():
    disc = metrics.Conformal(lambda x: 1.5 - x @ x)
    inside = 0.2 * RNG.normal(size=(4, 2))
    with pytest.warns(ConvergenceWarning, match="1 of 5 geodesics did not converge"):
        found = FrechetMean(disc).fit(np.concatenate([inside, [[3.0, 0.0]]]))
    alone = FrechetMean(disc).fit(inside)
    np.testing.assert_allclose(found.mean_.mean, alone.mean_.mean, atol=0.1)
    assert not found.converged_


def test_the_limit_of_iterations_is_honest():
    with pytest.warns(ConvergenceWarning, match="the last of 1 steps"):
        found = FrechetMean(HALF, max_iter=1).fit(X)
    assert not found.converged_
    assert found.n_iter_ == 1


def test_a_solver_too_coarse_for_the_data_is_said_to_be():
    coarse = Manifold(HALF, solvers.Markov(rtol=0.1))
    with pytest.warns(ConvergenceWarning, match="numerical standard deviation"):
        found = FrechetMean(coarse, fraction=1e-9, tol=1e-12).fit(X)
    assert not found.converged_
    # the same numerics are good enough for less
    assert FrechetMean(coarse).fit(X).converged_


@pytest.mark.filterwarnings("ignore::probgeo.ConvergenceWarning")
def test_the_update_of_the_paper():
    """Eq. 5 in closed form; and its uncertainty becomes that of Newton's method."""
    alpha, start = 0.6, X[3]
    found = FrechetMean(HALF, step="fixed", alpha=alpha, max_iter=2, init=start).fit(X)
    mean = start
    for _ in range(2):
        mean = np.asarray(HALF.exp(mean, alpha * np.asarray(HALF.log(mean, X)).mean(axis=0)))
    np.testing.assert_allclose(found.mean_.mean, mean, atol=2e-3)  # two steps, rtol 1e-3
    solver = Manifold(HALF, solvers.Markov(n_points=4))
    many = FrechetMean(solver, step="fixed", alpha=alpha, max_iter=25).fit(X)
    newton = FrechetMean(solver, fraction=1e-9, tol=1e-12).fit(X)  # until nothing is left over
    np.testing.assert_allclose(many.mean_.mean, newton.mean_.mean, atol=1e-6)
    np.testing.assert_allclose(many.mean_.std, newton.mean_.std, rtol=0.2)


def test_without_uncertainty_the_update_is_equation_5():
    with pytest.warns(ConvergenceWarning, match="the last of 1 steps"):
        found = FrechetMean(step="fixed", alpha=0.5, max_iter=1, init=X[0]).fit(X)
    np.testing.assert_allclose(found.mean_.mean, 0.5 * X[0] + 0.5 * X.mean(axis=0))
    assert np.all(found.mean_.std < 1e-14)


def test_many_points_on_a_spiral_take_few_iterations():
    """Geodesics that are followed have stayed the shortest, or were found again."""
    points = data.spiral(300)
    manifold = Manifold(metrics.from_mixture(points, 10))
    found = FrechetMean(manifold).fit(points)
    assert found.converged_
    assert found.n_iter_ <= 12  # it takes 10: rough looks, then thorough ones until no other geodesic can be shorter
    assert found.history_[-1].precision >= 1e-3  # sloppy on purpose
    distances = manifold.geodesic(found.mean_.mean, points).length.mean
    assert float(found.variance_.mean) <= 1.01 * np.mean(distances**2)


def test_the_best_of_several_starts():
    one = FrechetMean(HALF).fit(X)
    several = FrechetMean(HALF, n_init=3).fit(X)
    assert several.history_[-1].value <= one.history_[-1].value * (1 + 1e-6)


class TestMedian:
    def test_on_a_line_it_is_the_middle_one(self):
        found = GeometricMedian(fraction=1e-6).fit([[0.0], [1.0], [2.0], [10.0], [100.0]])
        np.testing.assert_allclose(found.median_.mean, [2.0], atol=1e-4)

    def test_an_outlier_pulls_it_little(self):
        far = np.concatenate([X, [[20.0, 1.0]]])

        def moved(kind):
            before, after = (kind(HALF).fit(points)._centre.mean for points in (X, far))
            return HALF.distance(before, after)

        assert moved(GeometricMedian) < 0.5 * moved(FrechetMean)

    def test_it_is_stationary(self):
        """The unit vectors to all points add up to nothing, in closed form."""
        found = GeometricMedian(HALF, fraction=1e-4).fit(X)
        logs = np.asarray(HALF.log(found.median_.mean, X))
        units = logs / np.asarray(HALF.distance(found.median_.mean, X))[:, None]
        assert np.linalg.norm(units.mean(axis=0)) < 1e-3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"step": "other"}, r"step must be one of \('newton', 'fixed'\)"),
        ({"max_iter": 0}, "max_iter must be"),
        ({"init": [0.0]}, "init must be a finite point"),
        ({"n_init": 0}, "n_init must be"),
    ],
)
def test_bad_settings_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        FrechetMean(HALF, **options).fit(X)


def test_bad_data_are_named():
    with pytest.raises(ValueError, match="contains NaN"):
        FrechetMean(HALF).fit([[0.0, np.nan]])
    with pytest.raises(ValueError, match="at least one non-zero"):
        FrechetMean(HALF).fit(X, sample_weight=np.zeros(12))
    with pytest.raises(ValueError, match="positive definite"):
        FrechetMean(lambda x: -np.eye(2)).fit(X)


def test_what_the_iteration_leaves_over_is_in_the_error_bar():
    """The default stops at a tenth of the standard error; a tight result says how far off it is."""
    rng = np.random.default_rng(5)
    deviations = []
    for _ in range(6):
        points = np.stack([rng.normal(size=20), np.exp(0.7 * rng.normal(size=20))], axis=1)
        found = FrechetMean(HALF).fit(points)
        tight = FrechetMean(HALF, fraction=1e-6, max_iter=50).fit(points)
        off = np.asarray(found.mean_.mean - tight.mean_.mean)
        deviations.append(off @ np.linalg.solve(np.asarray(found.mean_.cov), off))
    # squared, in two directions; without it they are up to 5e4
    assert np.max(deviations) < chi2.ppf(0.9999, 2)


def test_steps_that_do_not_get_shorter_are_not_the_last():
    """In this sample the fifth step is longer than the fourth; both seem short enough."""
    sharp, rng = data.spiral(400), np.random.default_rng(12)
    metric = metrics.from_mixture(sharp, 8)
    points = sharp[rng.choice(400, 24, replace=False)]
    found = FrechetMean(metric).fit(points)
    tight = FrechetMean(metric, fraction=1e-3, init=found.mean_).fit(points)
    assert found.converged_
    last, before = found.history_[-1], found.history_[-2]
    assert last.step < before.step or last.step < last.numerical
    assert np.all(np.abs(found.mean_.mean - tight.mean_.mean) < 0.2 * tight.standard_error_)


def test_a_function_is_told_of_progress_and_can_end_it():
    X = np.random.default_rng(0).normal(size=(20, 2))
    told = []
    mean = FrechetMean(verbose=lambda done, expected: told.append(done)).fit(X)
    assert told == list(range(1, mean.n_iter_ + 1))

    def enough(done, expected):
        raise InterruptedError

    with pytest.raises(InterruptedError):
        FrechetMean(verbose=enough).fit(X)
