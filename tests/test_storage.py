"""What is saved comes back the same, and a file can make nothing happen."""

import dataclasses
import json
import pickle
import re

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from probgeo import FrechetMean, Gaussian, Manifold, load, metrics, save, solve_bvp, solvers, storage
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


class TestFilesThatAreNotAsWritten:
    """Each is named, with what is wrong with it."""

    def refusal(self, path, **options):
        with pytest.raises(ValueError, match=re.escape(str(path))) as caught:
            load(path, **options)
        return str(caught.value)

    @pytest.mark.parametrize(
        ("content", "reason"),
        [
            (b"", "it is empty"),
            (b"no archive", "it is not an archive of NumPy"),
            (pickle.dumps({"a": 1}), "it is a pickle"),
        ],
    )
    def test_foreign(self, tmp_path, content, reason):
        (tmp_path / "other.npz").write_bytes(content)
        said = self.refusal(tmp_path / "other.npz")
        assert f"was not written by probgeo.save: {reason}" in said

    def test_arrays_of_others(self, tmp_path):
        np.save(tmp_path / "one.npy", np.zeros(3))
        assert "it is a single array" in self.refusal(tmp_path / "one.npy")
        np.savez(tmp_path / "some.npz", x=np.zeros(3))
        assert "no description of what they are" in self.refusal(tmp_path / "some.npz")
        np.savez(tmp_path / "objects.npz", structure=np.array([{}], dtype=object))
        assert "it has pickled objects" in self.refusal(tmp_path / "objects.npz")

    def test_no_file_at_all(self, tmp_path):
        with pytest.raises(FileNotFoundError, match=r"none\.npz"):
            load(tmp_path / "none.npz")

    def test_a_format_of_the_future(self, tmp_path):
        structure = {"format": 99, "result": None}
        np.savez(tmp_path / "new.npz", structure=np.array(json.dumps(structure)))
        assert "has format 99, this version reads" in self.refusal(tmp_path / "new.npz")

    @pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.99])
    def test_truncated(self, curve, tmp_path, share):
        whole = save(curve, tmp_path / "curve").read_bytes()
        (tmp_path / "half.npz").write_bytes(whole[: int(share * len(whole))])
        assert "is damaged: its end is missing" in self.refusal(tmp_path / "half.npz")

    def test_one_byte_changed(self, tmp_path):
        path = save(np.random.default_rng(0).normal(size=100), tmp_path / "numbers")
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
        assert "is damaged" in self.refusal(path)

    @pytest.mark.parametrize(
        "result",
        [
            {"numpy": 7, "scalar": False},
            {"something": 1},
            {"class": "probgeo.gaussian:covariance_factor", "parts": {}},
            {"dict": [1, 2]},
        ],
    )
    def test_description_changed(self, tmp_path, result):
        text = json.dumps({"format": FORMAT, "result": result})
        np.savez(tmp_path / "a.npz", structure=np.array(text))
        assert "was altered" in self.refusal(tmp_path / "a.npz")

    def test_what_is_named_is_not_there(self, tmp_path):
        text = json.dumps({"format": FORMAT, "result": {"function": "probgeo.gaussian:none"}})
        np.savez(tmp_path / "a.npz", structure=np.array(text))
        said = self.refusal(tmp_path / "a.npz")
        assert "needs none of probgeo.gaussian, which is not there" in said


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_an_interruption_leaves_the_file_that_was_there(tmp_path, monkeypatch, error):
    path = save([1.0], tmp_path / "a")

    def interrupted(file, **arrays):
        file.write(b"half of it")
        raise error

    monkeypatch.setattr(np, "savez_compressed", interrupted)
    for name in ("a", "b"):
        with pytest.raises(error):
            save([2.0], tmp_path / name)
    assert list(tmp_path.iterdir()) == [path]
    assert load(path) == [1.0]


def test_nothing_to_save_inside_of_a_transformation(tmp_path):
    with pytest.raises(TypeError, match="JAX transformation"):
        jax.jit(lambda x: save(x, tmp_path / "x"))(1.0)


def test_classes_are_found_in_their_room_when_they_have_moved():
    assert storage._find("probgeo.metrics.mixture:Mixture", {}) is metrics.Mixture
