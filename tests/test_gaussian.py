import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from probgeo import Gaussian, ScalarGaussian
from probgeo.gaussian import covariance_factor, root_and_flat


def random_cov(rng, d, rank=None):
    a = rng.normal(size=(d, rank or d))
    return a @ a.T


def test_without_covariance_the_value_is_certain():
    x = Gaussian([1.0, 2.0])
    assert x.cov.shape == (2, 2)
    np.testing.assert_array_equal(x.std, 0.0)
    np.testing.assert_array_equal(x.sample(0, 5), np.broadcast_to([1.0, 2.0], (5, 2)))


def test_samples_reproduce_mean_and_singular_covariance():
    rng = np.random.default_rng(0)
    mean, cov = rng.normal(size=3), random_cov(rng, 3, rank=2)
    n = 40_000
    samples = Gaussian(mean, cov).sample(1, n)
    # four standard errors
    np.testing.assert_array_less(abs(samples.mean(0) - mean), 4 * np.sqrt(np.diag(cov) / n))
    spread = np.sqrt((np.outer(np.diag(cov), np.diag(cov)) + cov**2) / n)
    np.testing.assert_array_less(abs(np.cov(samples.T) - cov), 4 * spread)


def test_batch_shapes_and_seed():
    x = Gaussian(np.zeros((4, 5, 2)), np.eye(2))
    assert x.cov.shape == (4, 5, 2, 2)
    assert x.sample(0, 7).shape == (7, 4, 5, 2)
    np.testing.assert_array_equal(x.sample(3, 2), x.sample(3, 2))
    assert not np.allclose(x.sample(3, 2), x.sample(4, 2))


@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 1000))
def test_factor_of_any_covariance(d, rank, seed):
    cov = random_cov(np.random.default_rng(seed), d, min(rank, d))
    factor = covariance_factor(cov)
    np.testing.assert_allclose(factor @ factor.T, cov, atol=1e-12 * np.abs(cov).max())


def test_a_mean_may_be_a_value_that_jax_traces():
    jax = pytest.importorskip("jax")
    seen = []

    def look(x):
        seen.append(repr(Gaussian(x, np.eye(2))))
        return Gaussian(x, np.eye(2)).mean

    np.testing.assert_array_equal(jax.jit(look)(np.ones(2)), 1.0)
    assert seen == ["Gaussian(dimension=2)"]


@pytest.mark.parametrize(
    ("mean", "cov", "message"),
    [
        (1.0, None, "mean must have shape"),
        ([np.nan], None, "mean must be finite"),
        (["a"], None, "mean must be an array of numbers"),
        ([1.0, 2.0], np.eye(3), r"cov must have shape \(2, 2\), got \(3, 3\)"),
        ([1.0, 2.0], [[1.0, 0.5], [0.0, 1.0]], "cov must be symmetric"),
        ([1.0, 2.0], [[1.0, 2.0], [2.0, 1.0]], "cov must be positive semi-definite"),
        ([1.0], [[-1.0]], "cov must be positive semi-definite"),
        ([1.0], [[np.nan]], "cov must be finite"),
        ([1.0, 2.0], [[np.inf, 1.0], [1.0, 1.0]], "cov must be zero beside an infinite"),
    ],
)
def test_bad_input_is_named(mean, cov, message):
    with pytest.raises((ValueError, TypeError), match=message):
        Gaussian(mean, cov)


def test_infinite_variances():
    anything = Gaussian([1.0, 2.0], np.diag([np.inf, 0.04]))
    np.testing.assert_allclose(anything.std, [np.inf, 0.2])
    with pytest.raises(ValueError, match="variance is infinite"):
        anything.sample(0, 2)
    root, flat = root_and_flat(np.stack([anything.cov, [[2.0, 1.0], [1.0, 2.0]]]))
    np.testing.assert_array_equal(flat, [[True, False], [False, False]])
    np.testing.assert_allclose(root[0], np.diag([1.0, 0.2]), atol=1e-15)
    np.testing.assert_allclose(root[1] @ root[1], [[2.0, 1.0], [1.0, 2.0]])


def test_numbers_with_error_bars():
    length = ScalarGaussian([1.0, 2.0], [0.04, 0.0])
    np.testing.assert_allclose(length.std, [0.2, 0.0])
    assert length.sample(0, 5).shape == (5, 2)
    np.testing.assert_array_equal(length.sample(0, 5)[:, 1], 2.0)
    assert repr(ScalarGaussian(2.0, 0.04)) == "ScalarGaussian(2.00 ± 0.2)"
    with pytest.raises(ValueError, match="cov must not be negative"):
        ScalarGaussian(1.0, -1.0)


def test_repr():
    assert repr(Gaussian([1.0, 2.0])) == "Gaussian([1.0000 2.0000] ± [0 0])"
    assert repr(Gaussian(np.zeros((5, 3)))) == "Gaussian(dimension=3, batch=(5,))"
