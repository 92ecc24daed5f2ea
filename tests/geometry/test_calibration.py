"""Error bars of positions, lengths and logarithms, held against SciPy at a tight tolerance."""

import numpy as np
import pytest
from numpy_geodesics import NumpyMetric, by_solve_bvp, length_of

from probgeo import Manifold, metrics
from tests.geometry import shapes
from tests.geometry.reference import calibration

TIMES = np.array([0.13, 0.37, 0.5, 0.71, 0.94])
COMPONENTS, PAIRS = 8, 40


def tight(metric, geodesic, a, b):
    """Positions (B, T, D), lengths (B,) and logarithms (B, D), and which of them are to be had."""
    t = np.linspace(0.0, 1.0, 201)
    x, v = (np.asarray(geodesic.mean(t, d)).transpose(0, 2, 1) for d in (0, 1))
    plain = NumpyMetric(metric)
    found = [
        by_solve_bvp(plain, a[k], b[k], 1e-7, guess=(t, x[k], v[k]), max_nodes=20000)
        for k in range(len(a))
    ]
    good = np.array([f.status == 0 for f in found])
    positions = np.stack([f.sol(TIMES)[: a.shape[1]].T for f in found])
    logs = np.stack([f.sol(0.0)[a.shape[1] :] for f in found])
    return positions, np.array([length_of(plain, f) for f in found]), logs, good


@pytest.fixture(scope="module", params=["half circle", "two moons"])
def compared(request):
    rng = np.random.default_rng(1)
    data = shapes.PLANE[request.param](rng)
    metric = metrics.from_mixture(data, COMPONENTS, seed=1)
    a, b = shapes.random_pairs(rng, data, PAIRS)
    geodesic = Manifold(metric).geodesic(a, b)
    positions, lengths, logs, good = tight(metric, geodesic, a, b)
    assert good.mean() > 0.9
    return geodesic[good], positions[good], lengths[good], logs[good]


@pytest.mark.slow
class TestDefaults:
    def test_positions(self, compared):
        geodesic, positions, _, _ = compared
        found = geodesic(TIMES)
        assert np.abs(found.mean - positions).max() < 1e-3
        check(*calibration(found.mean - positions, found.cov))

    def test_lengths(self, compared):
        geodesic, _, lengths, _ = compared
        found = geodesic.length
        np.testing.assert_allclose(found.mean, lengths, rtol=1e-5)
        check(*calibration((found.mean - lengths)[:, None], found.cov[:, None, None]))

    def test_logarithms(self, compared):
        geodesic, _, _, logs = compared
        found = geodesic.log()
        check(*calibration(found.mean - logs, found.cov))


def check(coverage, anees):
    assert 0.88 <= coverage <= 0.999, (coverage, anees)
    assert 0.2 <= anees <= 5.0, (coverage, anees)
