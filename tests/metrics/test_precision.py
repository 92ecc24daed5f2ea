"""Standard deviations of decoders from radial units."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from probgeo import Manifold, metrics
from tests.metrics.reference import assert_consistent, random_rows


def on_a_ring(count=600, noise=(0.1, 0.4)):
    """Codes on a ring of radius 2, and residuals of two outputs, the second noisier on the left."""
    rng = np.random.default_rng(0)
    angle = rng.uniform(-np.pi, np.pi, count)
    codes = 2.0 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    codes += 0.1 * rng.normal(size=codes.shape)
    left = np.where(codes[:, 0] < 0.0, noise[1], noise[0])
    return codes, np.stack([np.full(count, noise[0]), left], 1) * rng.normal(size=(count, 2))


CODES, RESIDUALS = on_a_ring()


def flat_decoder(z):
    return jnp.stack([z[0], z[1]])


def test_the_formula():
    std = metrics.RadialPrecision(
        np.array([[0.0], [1.0]]), np.array([1.0, 2.0]), np.array([[3.0], [5.0]]), np.array([0.1])
    )
    precision = 3.0 * np.exp(-0.5 * 0.49) + 5.0 * np.exp(-0.5 * (0.3 / 2.0) ** 2) + 0.1
    np.testing.assert_allclose(std(np.array([0.7])), [precision**-0.5])


def test_near_the_codes_it_is_the_noise():
    std = metrics.radial_std(CODES, RESIDUALS, n_units=20)
    found = std(CODES)
    np.testing.assert_allclose(found[:, 0].mean(), 0.1, rtol=0.05)
    for side, noise in ((CODES[:, 0] > 0.7, 0.1), (CODES[:, 0] < -0.7, 0.4)):
        np.testing.assert_allclose(found[side, 1].mean(), noise, rtol=0.1)


def test_variances_near_a_unit_are_the_squared_residuals_there():
    std = metrics.radial_std(CODES, RESIDUALS, n_units=8)
    away = np.sum((CODES[:, None] - std.centers) ** 2, axis=2)
    phi = np.exp(-0.5 * away / std.widths**2)
    used = std.weights > 0.05 * std.weights.max(axis=0)
    ratios = (phi.T @ std(CODES) ** 2) / (phi.T @ RESIDUALS**2)
    np.testing.assert_allclose(ratios[used], 1.0, rtol=0.03)


def test_away_from_the_codes_it_grows_to_what_the_floor_says():
    std = metrics.radial_std(CODES, RESIDUALS, n_units=20, floor=1e-2)
    outwards = std(np.array([[2.0, 0.0], [3.0, 0.0], [4.0, 0.0], [50.0, 0.0]]))
    assert np.all(np.diff(outwards, axis=0) > 0.0)
    np.testing.assert_allclose(outwards[-1], 10.0 * np.sqrt(np.mean(RESIDUALS**2, axis=0)), 1e-3)
    assert np.all(std(np.zeros(2)) > 2.0 * outwards[0])  # the middle of the ring is empty


def test_all_frameworks_agree():
    torch = pytest.importorskip("torch")
    std = metrics.radial_std(CODES, RESIDUALS, n_units=20)
    z = CODES[:5]
    np.testing.assert_allclose(std(torch.tensor(z)).numpy(), std(z), rtol=1e-12)
    np.testing.assert_allclose(jax.vmap(std)(jnp.array(z)), std(z), rtol=1e-4)
    assert std(torch.tensor(z, dtype=torch.float32)).dtype == torch.float32
    assert std(jnp.array(z[0])).shape == (2,)


def test_it_goes_with_decoders_in_jax_and_torch():
    torch = pytest.importorskip("torch")
    std = metrics.radial_std(CODES, RESIDUALS, n_units=5)
    metric = metrics.Pullback(flat_decoder, std)
    x, v = random_rows(np.random.default_rng(3), 2)
    assert_consistent(metric, x, v, rtol=1e-6)
    other = metrics.Pullback(torch.nn.Identity(), std)
    np.testing.assert_allclose(other.energies(x, v), metric.energies(x, v))


def test_geodesics_keep_to_the_codes():
    std = metrics.radial_std(CODES, RESIDUALS, n_units=20)
    a, b = np.array([-2.0, 0.1]), np.array([2.0, 0.1])
    away = []
    for spread in (None, std):
        manifold = Manifold(metrics.Pullback(flat_decoder, spread), landmarks=CODES)
        geodesic = manifold.geodesic(a, b)
        assert geodesic.converged
        path = geodesic.mean(np.linspace(0.0, 1.0, 60))
        away.append(np.linalg.norm(path[:, None] - CODES, axis=2).min(axis=1).max())
    assert away[0] > 1.5  # straight through the empty middle
    assert away[1] < 0.6 * away[0]


def test_images_and_outputs_without_error():
    images = np.zeros((len(CODES), 2, 3))
    images[:, 0, 0] = RESIDUALS[:, 0]
    std = metrics.radial_std(CODES, images, n_units=10)
    assert std(CODES).shape == (len(CODES), 6)
    assert np.all(np.isfinite(std(CODES)))
    assert np.all(std(CODES)[:, 1:] < 1e-3)


def test_few_codes_have_few_units():
    std = metrics.radial_std([[0.0, 0.0], [1.0, 0.0], [1.0, 0.0]], np.ones((3, 1)))
    assert std.centers.shape == (2, 2)
    assert np.all(std.widths > 0.0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"Z": CODES[0]}, "Z must have shape"),
        ({"residuals": RESIDUALS[:-1]}, r"residuals must have shape \(600, ...\)"),
        ({"residuals": RESIDUALS[:, 0]}, r"residuals must have shape \(600, ...\)"),
        ({"residuals": 0.0 * RESIDUALS}, "must not all be zero"),
        ({"n_units": 0}, "n_units"),
        ({"width": 0.0}, "width must be positive"),
        ({"floor": -1.0}, "floor must be positive"),
    ],
)
def test_what_does_not_fit_is_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        metrics.radial_std(**{"Z": CODES, "residuals": RESIDUALS, **arguments})
