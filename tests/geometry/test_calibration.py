"""Error bars at default settings, against a fine mesh of higher order."""

import numpy as np
import pytest

from probgeo import Manifold, metrics, solvers
from tests.geometry import shapes
from tests.geometry.reference import calibration

TIMES = np.array([0.13, 0.37, 0.5, 0.71, 0.94])
COMPONENTS, PAIRS = 8, 40
TIGHT = solvers.Markov(order=7, n_points=160)


@pytest.mark.slow
def test_positions_lengths_and_logarithms():
    rng = np.random.default_rng(1)
    data = shapes.PLANE["half circle"](rng)
    metric = metrics.from_mixture(data, COMPONENTS, seed=1)
    a, b = shapes.random_pairs(rng, data, PAIRS)
    geodesic = Manifold(metric).geodesic(a, b)
    tight = Manifold(metric, TIGHT).geodesic(a, b, guess=geodesic)
    found, reference = geodesic(TIMES), tight(TIMES)
    # the reference can judge what claims to be ten times worse
    judged = reference.std.max(axis=(1, 2)) < 0.1 * found.std.max(axis=(1, 2))
    judged = np.asarray(judged & tight.converged & geodesic.converged)
    assert judged.sum() >= PAIRS // 2
    length, log = geodesic.length, geodesic.log()
    off = (length.mean - tight.length.mean)[:, None]
    for name, error, cov in (
        ("position", found.mean - reference.mean, found.cov),
        ("length", off, length.cov[:, None, None]),
        ("logarithm", log.mean - tight.log().mean, log.cov),
    ):
        coverage, anees = calibration(error[judged], cov[judged])
        assert 0.88 <= coverage <= 0.999, name
        assert 0.2 <= anees <= 5.0, name
