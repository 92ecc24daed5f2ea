"""What is saved comes back the same, and a file can make nothing happen."""

import dataclasses
import json

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from probgeo import FrechetMean, Gaussian, Manifold, load, metrics, save, solve_bvp, solvers
from probgeo.storage import FORMAT


def curved(x):
    return np.eye(2) * (1.0 + np.sum(x**2, axis=-1))[..., None, None]


def same(a, b):
    """That two results have the same structure and the same numbers."""
    assert type(a) is type(b)
    if dataclasses.is_dataclass(a):
        names = [field.name for field in dataclasses.fields(a)]
        a, b = ([getattr(x, name) for name in names] for x in (a, b))
    if isinstance(a, dict):
        assert list(a) == list(b)
        a, b = list(a.values()), list(b.values())
    if isinstance(a, list | tuple):
        for x, y in zip(a, b, strict=True):
            same(x, y)
    else:
        np.testing.assert_array_equal(a, b)


@pytest.fixture(scope="module")
def curve():
    return solve_bvp(lambda t, y, dy: -y, (0.0, 1.0), Gaussian([0.0], [[0.01]]), [1.0])


def test_a_curve_answers_as_before(curve, tmp_path):
    again = load(save(curve, tmp_path / "curve"))
    same(curve, again)
    t = np.linspace(0.0, 1.0, 7)
    np.testing.assert_array_equal(again.mean(t), curve.mean(t))
    np.testing.assert_array_equal(again.sample(0, 3, t), curve.sample(0, 3, t))
    assert again.message == curve.message


def test_a_geodesic_keeps_its_metric_and_its_batch(tmp_path):
    geodesic = Manifold(metrics.HalfPlane()).geodesic([[0.0, 1.0], [0.5, 2.0]], [1.0, 2.0])
    again = load(save(geodesic, tmp_path / "pair.npz"))
    same(geodesic, again)
    np.testing.assert_array_equal(again.log().mean, geodesic.log().mean)
    assert list(again.start) == list(geodesic.start)


def test_an_estimator_is_fitted_when_it_comes_back(tmp_path):
    X = np.random.default_rng(0).normal(size=(20, 2))
    mean = FrechetMean(Manifold(metrics.Flat())).fit(X)
    again = load(save(mean, tmp_path / "mean"))
    np.testing.assert_allclose(again.mean_.mean, X.mean(axis=0), atol=1e-12)
    assert again.converged_ == mean.converged_
    assert again.get_params().keys() == mean.get_params().keys()


def test_settings_are_kept(tmp_path):
    manifold = Manifold(metrics.HalfPlane(), solver=solvers.Markov(3, 20))
    same(manifold, load(save(manifold, tmp_path / "manifold")))


leaf = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(),
    arrays.arrays(np.float64, arrays.array_shapes(max_dims=3), elements=st.floats(-9, 9)),
)
nested = st.recursive(
    leaf,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.text(), inner, max_size=3),
    ),
    max_leaves=8,
)


@given(nested)
def test_anything_made_of_numbers_comes_back(value):
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        same(value, load(save(value, f"{folder}/value")))


def test_functions_are_named_and_handed_over(tmp_path):
    path = save(Manifold(curved), tmp_path / "own")
    with pytest.raises(ValueError, match=r"known=\[curved\]"):
        load(path)
    assert load(path, known=[curved]).metric.function is curved


def test_what_has_no_name_is_refused(tmp_path):
    with pytest.raises(TypeError, match=r"result\.metric\.function cannot be saved"):
        save(Manifold(lambda x: curved(x)), tmp_path / "lambda")
    assert not list(tmp_path.iterdir())


def test_a_file_cannot_call_what_it_names(tmp_path):
    structure = {"format": FORMAT, "result": {"function": "os:remove"}}
    np.savez(tmp_path / "bad.npz", structure=np.array(json.dumps(structure)))
    with pytest.raises(ValueError, match="not looked up by name"):
        load(tmp_path / "bad.npz")


def test_other_files_are_refused(tmp_path):
    np.savez(tmp_path / "other.npz", x=np.zeros(3))
    (tmp_path / "text.npz").write_text("no archive")
    for name in ("other", "text"):
        with pytest.raises(ValueError, match=r"not written by probgeo\.save"):
            load(tmp_path / f"{name}.npz")
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "none.npz")
    structure = {"format": 99, "result": None}
    np.savez(tmp_path / "new.npz", structure=np.array(json.dumps(structure)))
    with pytest.raises(ValueError, match="format 99"):
        load(tmp_path / "new.npz")


def test_nothing_to_save_inside_of_a_transformation(tmp_path):
    with pytest.raises(TypeError, match="JAX transformation"):
        jax.jit(lambda x: save(x, tmp_path / "x"))(1.0)
