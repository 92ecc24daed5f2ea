"""Whatever goes in: a result that is right or flagged, or an error that names the argument.

Nothing else is allowed: no other exception, no crash, no wrong answer without a flag.
"""

import os
import re
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor

import jax.numpy as jnp
import numpy as np
import pytest
import torch  # noqa: F401  (once it is loaded, functions may be its own)

import probgeo
from probgeo import (
    ConvergenceWarning,
    FrechetMean,
    Gaussian,
    Manifold,
    PrincipalGeodesics,
    ScalarGaussian,
    metrics,
    solve_bvp,
    solve_ivp,
    solvers,
)

RNG = np.random.default_rng(0)
X = np.concatenate([RNG.normal(size=(15, 2)) * [1, 0.2], RNG.normal((2, 1), size=(15, 2))])
LABELS = np.arange(30) >= 15
LEARNED = Manifold(metrics.from_mixture(X, 3))
OK = [0.1, 0.9]
SCALES = (1e-150, 1e-100, 1e-30, 1.0, 1e30, 1e100, 1e150)


def outcome(call):
    """What a call returns, and whether it warned that something did not converge."""
    with warnings.catch_warnings(record=True) as heard, np.errstate(all="ignore"):
        warnings.simplefilter("always")
        result = call()
    return result, any(w.category is ConvergenceWarning for w in heard)


# --- arguments of all kinds ---------------------------------------------------------------------

BAD = {
    "text": "abc",
    "bytes": b"ab",
    "texts": ["a", "b"],
    "nothing": None,
    "complex": np.array([1j, 2.0]),
    "objects": np.array([1.0, None], dtype=object),
    "dates": np.array(["2020-01-01"], dtype="M8[D]"),
    "empty": [],
    "no rows": np.empty((0, 2)),
    "no columns": np.empty((2, 0)),
    "NaN": [np.nan, 1.0],
    "infinite": [[np.inf, 1.0], [1.0, 2.0]],
    "ragged": [[1.0], [1.0, 2.0]],
    "too many": [1.0, 2.0, 3.0],
    "too deep": np.ones((2, 2, 2, 2)),
    "dict": {"a": 1},
    "set": {1, 2},
    "not floats": [10**400, 1],
    "negative": -1.0,
}


def line(t, y, dy):
    return np.zeros_like(y)


SEEDS = ["nothing", "empty", "no rows", "no columns", "not floats"]  # NumPy takes sequences
# the name in the message, the call, and what is fine for it after all
CALLS = {
    "Gaussian mean": ("mean", Gaussian, ["empty", "no rows", "no columns", "too many", "too deep"]),
    "Gaussian cov": ("cov", lambda x: Gaussian(OK, x), ["nothing"]),
    "ScalarGaussian cov": ("cov", lambda x: ScalarGaussian(OK, x), []),
    "sample seed": ("seed", lambda x: Gaussian(OK).sample(x, 2), SEEDS),
    "sample n": ("n", lambda x: Gaussian(OK).sample(0, x), []),
    "ivp y0": ("y0", lambda x: solve_ivp(line, (0, 1), x, OK), ["no rows", "too deep"]),
    "ivp t_span": ("t_span", lambda x: solve_ivp(line, x, OK, OK), []),
    "ivp f": ("f", lambda x: solve_ivp(x, (0, 1), OK), []),
    "bvp ya": ("ya", lambda x: solve_bvp(line, (0, 1), x, OK), ["no rows", "too deep"]),
    "bvp yb": ("yb", lambda x: solve_bvp(line, (0, 1), OK, x), ["no rows", "too deep"]),
    "bvp guess": ("guess", lambda x: solve_bvp(line, (0, 1), OK, OK, guess=x), ["nothing"]),
    "geodesic a": ("a", lambda x: LEARNED.geodesic(x, OK), ["too deep"]),
    "geodesic b": ("b", lambda x: LEARNED.geodesic(OK, x), ["too deep"]),
    "geodesic guess": ("guess", lambda x: LEARNED.geodesic(OK, X[0], guess=x), ["nothing"]),
    "distance method": ("method", lambda x: LEARNED.distance(OK, OK, method=x), []),
    "exp v": ("v", lambda x: LEARNED.exp(OK, x), ["too deep"]),
    "log b": ("b", lambda x: LEARNED.log(OK, x), ["too deep"]),
    "distance_matrix X": ("X", LEARNED.distance_matrix, []),
    "distance_matrix Y": ("Y", lambda x: LEARNED.distance_matrix([OK], x), ["nothing"]),
    "metric": ("metric", Manifold, []),
    "landmarks": ("landmarks", lambda x: Manifold(LEARNED.metric, landmarks=x), ["nothing"]),
    "thoroughness": ("thoroughness", lambda x: Manifold(LEARNED.metric, thoroughness=x), []),
    "manifold solver": ("solver", lambda x: Manifold(LEARNED.metric, x), ["nothing"]),
    "rtol": ("rtol", lambda x: solvers.Markov(rtol=x), []),
    "n_points": ("n_points", lambda x: solvers.Dense(n_points=x), []),
    "Flat": ("A", metrics.Flat, ["nothing"]),
    "centers": ("centers", lambda x: metrics.LocalMetrics(x, np.ones((2, 2))), []),
    "tensors": ("tensors", lambda x: metrics.LocalMetrics(X[:2], x), []),
    "rho": ("rho", lambda x: metrics.LocalMetrics(X[:2], np.ones((2, 2)), x), []),
    "sigma": ("sigma", lambda x: metrics.LocalCovariance(X, x), []),
    "mixture X": ("X", lambda x: metrics.from_mixture(x, 2), []),
    "mixture count": ("n_components", lambda x: metrics.from_mixture(X, x), []),
    "mixture seed": ("seed", lambda x: metrics.from_mixture(X, 2, seed=x), []),
    "PCA X": ("X", lambda x: metrics.from_local_pca(x, 2), []),
    "LMNN X": ("X", lambda x: metrics.from_lmnn(x, LABELS), []),
    "LMNN y": ("y", lambda x: metrics.from_lmnn(X, x), []),
    "LMNN mu": ("mu", lambda x: metrics.from_lmnn(X, LABELS, mu=x), []),
    "LMNN anchor": ("anchor", lambda x: metrics.lmnn_diagonal(X, LABELS, anchor=x), ["nothing"]),
    "decoder": ("decoder", metrics.Pullback, []),
    "scale": ("scale", metrics.Conformal, []),
    "mean X": ("X", lambda x: FrechetMean(LEARNED).fit(x), ["objects"]),
    "mean weights": ("sample_weight", lambda x: FrechetMean(LEARNED).fit(X[:2], sample_weight=x), ["nothing"]),
    "mean manifold": ("metric", lambda x: FrechetMean(x).fit(X[:3]), ["nothing"]),
    "mean init": ("init", lambda x: FrechetMean(LEARNED, init=x).fit(X[:3]), ["nothing"]),
    "mean tol": ("tol", lambda x: FrechetMean(LEARNED, tol=x).fit(X[:3]), []),
    "PGA X": ("X", lambda x: PrincipalGeodesics(LEARNED).fit(x), []),
    "PGA count": ("n_components", lambda x: PrincipalGeodesics(LEARNED, x).fit(X), ["nothing"]),
    "load path": ("path", probgeo.load, ["text"]),  # no such file, which is an error of its own
}


@pytest.mark.parametrize("name", CALLS)
def test_errors_name_the_argument(name):
    argument, call, fine = CALLS[name]
    for kind, value in BAD.items():
        if kind in fine:
            continue
        with pytest.raises((ValueError, TypeError)) as caught:
            outcome(lambda value=value: call(value))
        assert re.search(rf"\b{argument}\b", str(caught.value)), f"{kind}: {caught.value}"


def test_shapes_fit_or_the_error_says_which_do_not():
    rng = np.random.default_rng(1)
    for _ in range(60):
        a, b = (rng.normal(size=rng.integers(0, 4, size=rng.integers(0, 4))) for _ in range(2))
        try:
            wanted = np.broadcast_shapes(a.shape, b.shape)
            fits = a.ndim and b.ndim and a.shape[-1] == b.shape[-1] == 2 and np.prod(wanted)
        except ValueError:
            fits = False
        if fits:
            assert LEARNED.distance(a, b).mean.shape == wanted[:-1]
        else:
            with pytest.raises(ValueError, match=r"\ba\b|\bb\b"):
                LEARNED.distance(a, b)


# --- scales -------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("size", [1e-150, 1.0, 1e150])
def test_flat_lengths_are_exact_at_all_scales_or_flagged(scale, size):
    rng = np.random.default_rng(2)
    for D in (1, 2, 8):
        B = rng.normal(size=(D, D))
        A = B @ B.T + np.eye(D)
        a, b = rng.normal(size=(2, 3, D))
        exact = np.sqrt(np.einsum("ni,ij,nj->n", b - a, A, b - a)) * scale * np.sqrt(size)
        flat = Manifold(metrics.Flat(size * A))
        geodesic, warned = outcome(lambda: flat.geodesic(scale * a, scale * b))  # noqa: B023
        good = geodesic.converged
        assert np.allclose(geodesic.length.mean[good], exact[good], rtol=1e-12, atol=0.0)
        assert warned == (not good.all())
        assert good.all() or not 1e-150 < scale * np.sqrt(size) < 1e150


@pytest.mark.parametrize("scale", SCALES)
def test_learned_distances_and_means_do_not_depend_on_units(scale):
    """A mixture measures in standard deviations: units cancel, up to round-off in the data."""
    data = scale * X
    manifold = Manifold(metrics.from_mixture(data, 3))
    a, b = X[:4], X[20:24]
    reference = LEARNED.distance(a, b).mean
    assert np.allclose(manifold.distance(scale * a, scale * b).mean, reference, rtol=1e-9)
    assert np.allclose(manifold.distance_matrix(data[:3]).mean, LEARNED.distance_matrix(X[:3]).mean)
    v = LEARNED.log(a, b).mean
    assert np.allclose(manifold.log(scale * a, scale * b).mean / scale, v, rtol=1e-9, atol=1e-9)
    ends = manifold.exp(scale * a, 0.1 * scale * v).mean / scale
    assert np.allclose(ends, LEARNED.exp(a, 0.1 * v).mean, rtol=1e-6)
    found, expected = PrincipalGeodesics(manifold).fit(data), PrincipalGeodesics(LEARNED).fit(X)
    assert np.allclose(found.mean_.mean / scale, expected.mean_.mean, rtol=1e-6)
    assert np.allclose(found.explained_variance_, expected.explained_variance_, rtol=1e-6)


@pytest.mark.parametrize("scale", SCALES)
def test_solutions_scale_with_their_data(scale):
    t, y, dy = np.array([0.0, 0.4, 1.0]), np.array([[1.0, -0.5]]), np.array([[0.3, 2.0]])
    exact = scale * (np.cos(t)[:, None] * y[:, None] + np.sin(t)[:, None] * dy[:, None])
    start, slope, end = scale * y, scale * dy, exact[:, -1]
    curves = [
        solve_ivp(lambda t, y, dy: -y, (0.0, 1.0), start, slope),
        solve_bvp(lambda t, y, dy: -y, (0.0, 1.0), start, end),
    ]
    for curve in curves:
        assert np.allclose(curve.mean(t) / scale, exact / scale, atol=1e-4)


@pytest.mark.parametrize("seed", range(8))
def test_random_local_metrics_give_curves_no_longer_than_the_line(seed):
    """Any dimension, sharpness, scale and condition: shorter than the line, or flagged."""
    rng = np.random.default_rng(seed)
    D, K = int(rng.integers(1, 9)), int(rng.integers(1, 5))
    scale, spread = 10.0 ** rng.integers(-140, 141), rng.uniform(0.0, 4.0)
    frames = np.linalg.qr(rng.normal(size=(K, D, D)))[0]
    tensors = np.einsum("kij,kj,klj->kil", frames, 10.0 ** rng.uniform(-spread, spread, (K, D)), frames)
    rho = rng.choice([0.0, 0.1, 1.0, 10.0])
    manifold = Manifold(metrics.LocalMetrics(scale * rng.normal(size=(K, D)), tensors / scale**2, rho))
    a, b = scale * 10.0 ** rng.integers(-2, 2) * rng.normal(size=(2, 3, D))
    geodesic, warned = outcome(lambda: manifold.geodesic(a, b))
    good, length = geodesic.converged, geodesic.length
    assert warned == (not good.all())
    line = a + (np.arange(1000) + 0.5)[:, None, None] / 1000 * (b - a)
    longest = manifold.norm(line, b - a).mean(axis=0)
    # 1e-4: what the midpoint rule and the tolerance of curves may be wrong by
    assert np.all(length.mean[good] <= (1 + 1e-4) * longest[good] + 2 * length.std[good])
    assert np.all(length.mean[good] > 0.0)


# --- metrics that are none ------------------------------------------------------------------------

E = np.eye(2)


def between(inside):
    """The identity outside of a strip, `inside` within: as rows of NumPy."""
    return lambda x: np.where((np.abs(x[:, 1]) < 0.2)[:, None, None], inside, E)


def everywhere(matrix):
    return lambda x: np.broadcast_to(np.asarray(matrix, dtype=float), (len(x), 2, 2))


NO_METRICS = {
    "indefinite": everywhere(np.diag([1.0, -1.0])),
    "negative": everywhere(-E),
    "zero": everywhere(0 * E),
    "singular": everywhere(np.diag([1.0, 0.0])),
    "asymmetric": everywhere([[2.0, 1.0], [0.0, 2.0]]),
    "NaN": everywhere(np.nan * E),
    "infinite": everywhere(np.full((2, 2), np.inf)),
    "complex": lambda x: np.broadcast_to(E * (1 + 1j), (len(x), 2, 2)),
    "wrong shape": lambda x: np.ones((len(x), 3, 3)),
    "a number": lambda x: 1.0,
    "nothing": lambda x: None,
    "a text": lambda x: "abc",
    "raises": lambda x: {}["key"],
    "traced and singular": lambda x: jnp.outer(x, x),
    "traced and complex": lambda x: 1j * jnp.eye(2),
}
PARTLY = {
    "NaN": between(np.nan),
    "infinite": between(np.inf),
    "indefinite": between(np.diag([1.0, -1.0])),
    "negative": between(-E),
    "zero": between(0 * E),
    "a wall": between(1e150 * E),
    "next to nothing": between(1e-150 * E),
    "a jump": lambda x: np.where((x[:, 1] < 0)[:, None, None], 4 * E, E),
    "indefinite, smoothly": lambda x: (x[:, 1] ** 2 - 0.1)[:, None, None] * E,
    "traced, indefinite, smoothly": lambda x: (x[1] ** 2 - 0.1) * jnp.eye(2),
    "far too steep": lambda x: np.exp(300.0 * x[:, 1])[:, None, None] * E,
}
A, B = np.array([0.0, 1.0]), np.array([1.0, -1.0])


@pytest.mark.parametrize("name", NO_METRICS)
def test_what_is_no_metric_is_refused(name):
    manifold = Manifold(NO_METRICS[name])
    calls = [
        lambda: manifold.geodesic(A, B),
        lambda: manifold.exp(A, B - A),
        lambda: manifold.distance_matrix([A, B]),
        lambda: FrechetMean(manifold).fit([A, B]),
    ]
    for call in calls:
        with pytest.raises((ValueError, TypeError), match="metric"):
            outcome(call)


@pytest.mark.parametrize("name", PARTLY)
def test_what_is_no_metric_on_the_way_is_avoided_or_flagged(name):
    manifold = Manifold(PARTLY[name])
    geodesic, warned = outcome(lambda: manifold.geodesic(A, B))
    assert warned or geodesic.converged
    if geodesic.converged:
        line = A + (np.arange(4000) + 0.5)[:, None] / 4000 * (B - A)
        with np.errstate(all="ignore"):
            longest = manifold.norm(line, B - A).mean()
        assert 0.0 < geodesic.length.mean < np.inf
        assert not geodesic.length.mean > longest * (1 + 1e-3)  # there may be no such number
    end, warned = outcome(lambda: manifold.exp(A, B - A))
    assert warned or np.isfinite(end.mean).all()
    mean, warned = outcome(lambda: FrechetMean(manifold, max_iter=3).fit([A, B, OK]))
    assert warned or (mean.converged_ and np.isfinite(mean.mean_.mean).all())


# --- right-hand sides -----------------------------------------------------------------------------

REFUSED = {
    "NaN": lambda t, y, dy: np.nan * y,
    "infinite": lambda t, y, dy: np.inf * y,
    "complex": lambda t, y, dy: 1j * y,
    "traced and complex": lambda t, y, dy: 1j * jnp.sin(y),
    "a text": lambda t, y, dy: "abc",
    "nothing": lambda t, y, dy: None,
    "wrong shape": lambda t, y, dy: y[:, :1],
    "too few arguments": lambda t, y: -y,
    "raises": lambda t, y, dy: {}["key"],
}
DIFFICULT = {
    "explodes": lambda t, y, dy: 1e3 * np.exp(y),
    "stiff": lambda t, y, dy: -1e12 * y,
    "huge": lambda t, y, dy: -1e150 * y,
    "jumps": lambda t, y, dy: 1e3 * np.sign(y),
    "NaN on the way": lambda t, y, dy: np.where(np.abs(y - 0.5) < 0.1, np.nan, -y),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_right_hand_side_is_refused(name):
    f = REFUSED[name]
    for call in (
        lambda: solve_ivp(f, (0.0, 1.0), [0.1, 1.0], OK),
        lambda: solve_bvp(f, (0.0, 1.0), [0.1, 1.0], OK),
        lambda: solve_bvp(f, (0.0, 1.0), [0.1, 1.0], OK, solver=solvers.Dense()),
    ):
        with pytest.raises((ValueError, TypeError), match=r"\bf\b"):
            outcome(call)


@pytest.mark.parametrize("name", DIFFICULT)
def test_what_is_too_difficult_is_flagged(name):
    f = DIFFICULT[name]
    for call in (lambda: solve_ivp(f, (0.0, 1.0), [0.0], [1.0]), lambda: solve_bvp(f, (0.0, 1.0), [0.0], [1.0])):
        curve, warned = outcome(call)
        assert warned or (curve.converged and np.isfinite(curve.mean([0.0, 0.5, 1.0])).all())


# --- files ----------------------------------------------------------------------------------------


def test_a_file_with_a_wrong_byte_is_refused_or_read_as_it_was(tmp_path):
    path = probgeo.save(LEARNED.geodesic(OK, X[:2]), tmp_path / "curve.npz")
    middle, whole = probgeo.load(path).mean(0.5), path.read_bytes()
    rng, right = np.random.default_rng(3), 0
    for _ in range(150):
        at = int(rng.integers(len(whole)))
        path.write_bytes(whole[:at] + bytes([whole[at] ^ int(rng.integers(1, 256))]) + whole[at + 1 :])
        try:
            read = probgeo.load(path)
        except ValueError as error:
            right += str(path) in str(error)
        else:
            assert np.array_equal(read.mean(0.5), middle)
            right += 1
    assert right == 150
    for content in (b"", whole[: len(whole) // 2], b"PK"):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=re.escape(str(path))):
            probgeo.load(path)


# --- threads and processes ------------------------------------------------------------------------


def test_calls_from_many_threads_give_the_same_bits():
    calls = [
        lambda: LEARNED.distance(X[:6], X[20:26]).mean,
        lambda: Manifold(lambda x: jnp.eye(2) * (1.0 + x @ x)).distance(X[:3], X[9]).mean,
        lambda: solve_bvp(lambda t, y, dy: -np.sin(y), (0.0, 2.0), [0.4], [2.0]).mean(1.0),
        lambda: solve_ivp(lambda t, y: -jnp.sin(y), (0.0, 2.0), [0.4]).mean(1.0),
        lambda: FrechetMean(LEARNED).fit(X[:8]).mean_.mean,
    ]
    alone = [call() for call in calls]
    with ThreadPoolExecutor(5) as pool:
        together = list(pool.map(lambda call: call(), 3 * calls))
    for k, result in enumerate(together):
        assert np.array_equal(result, alone[k % len(calls)])


PROCESSES = """
import multiprocessing
import numpy as np
from probgeo import Manifold, metrics

X = np.random.default_rng(0).normal(size=(80, 2))
manifold = Manifold(metrics.from_mixture(X, 3))
here = manifold.distance(X[:70], X[70]).mean  # on two threads
for method in ("fork", "spawn"):
    with multiprocessing.get_context(method).Pool(2) as pool:
        there = pool.starmap_async(manifold.distance, [(X[:70], X[70])] * 2).get(120)
    assert all(np.array_equal(found.mean, here) for found in there), method
"""


def test_forked_and_spawned_processes_give_the_same_bits():
    """In a process of its own: others have threads of JAX, with which one must not fork."""
    done = subprocess.run(
        [sys.executable, "-c", PROCESSES],
        env={**os.environ, "PROBGEO_THREADS": "2"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
