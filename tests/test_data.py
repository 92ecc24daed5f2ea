"""Data sets: what ships, what is generated, what is read."""

import gzip
import struct

import numpy as np
import pytest

from probgeo import data
from probgeo.data import shipped


def test_ones():
    ones = data.mnist_ones()
    assert ones.images.shape == (1000, 28, 28)
    assert (ones.images.min(), ones.images.max()) == (0.0, 1.0)
    assert np.all(np.diff(ones.places) > 0)
    # a one is a stroke: dark at the rim, bright in the middle
    mean = ones.images.mean(axis=0)
    assert mean[:, [0, -1]].max() < 0.01 < 0.5 < mean[14, 12:17].max()


def test_bodies():
    people = data.bodies()
    assert people.scores.shape == (1191, 50)
    np.testing.assert_allclose(people.scores.std(axis=0), 1.0, atol=0.05)
    height = np.ptp(people.vertices(people.scores[:20])[..., 2], axis=1)
    assert np.all((height > 1.4) & (height < 2.0))
    assert np.all((people.belly > 0.5) & (people.belly < 2.0))
    assert people.faces.max() == len(people.mean) - 1
    np.testing.assert_allclose(people.vertices(np.zeros(3)), people.mean)
    with pytest.raises(ValueError, match="scores must have shape"):
        people.vertices(np.zeros(51))


def test_damage_is_noticed(monkeypatch):
    monkeypatch.setitem(shipped.SHA256, "bodies.npz", "0" * 64)
    with pytest.raises(OSError, match=r"bodies\.npz is damaged"):
        data.bodies()


@pytest.mark.parametrize(
    ("make", "dimension"),
    [(data.half_circle, 2), (data.ring, 2), (data.two_moons, 2), (data.spiral, 2), (data.swiss_roll, 3)],
)
def test_toys(make, dimension):
    X = make(101, seed=1)
    assert X.shape == (101, dimension)
    np.testing.assert_array_equal(X, make(101, seed=1))
    assert np.abs(X - make(101, seed=2)).max() > 0.1


def test_circles_without_noise():
    np.testing.assert_allclose(np.linalg.norm(data.ring(50, noise=0.0), axis=1), 1.0)
    upper = data.half_circle(50, noise=0.0)
    np.testing.assert_allclose(np.linalg.norm(upper, axis=1), 1.0)
    assert upper[:, 1].min() >= 0


def idx(values):
    header = bytes([0, 0, 8, values.ndim]) + struct.pack(f">{values.ndim}I", *values.shape)
    return header + values.astype(np.uint8).tobytes()


class TestIdx:
    images = np.arange(5 * 4 * 3).reshape(5, 4, 3)
    labels = np.array([1, 7, 1, 0, 7])

    def write(self, folder, images, labels, part="train"):
        (folder / f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(images))
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(labels)

    def test_all_and_some(self, tmp_path):
        self.write(tmp_path, idx(self.images), idx(self.labels))
        np.testing.assert_allclose(data.mnist(tmp_path).images * 255, self.images)
        ones = data.mnist(tmp_path, digits=1)
        assert ones.places.tolist() == [0, 2]
        assert data.mnist(tmp_path, digits=(0, 7)).places.tolist() == [1, 3, 4]

    def test_bad_files_are_named(self, tmp_path):
        with pytest.raises(FileNotFoundError, match="there is no train-images"):
            data.mnist(tmp_path)
        self.write(tmp_path, idx(self.images), idx(self.labels)[:-1])
        with pytest.raises(ValueError, match="should hold"):
            data.mnist(tmp_path)
        self.write(tmp_path, b"hello", idx(self.labels))
        with pytest.raises(ValueError, match="not an idx file"):
            data.mnist(tmp_path)
        self.write(tmp_path, idx(self.images), idx(self.labels[:3]))
        with pytest.raises(ValueError, match="5 images but 3 labels"):
            data.mnist(tmp_path)
        with pytest.raises(ValueError, match="part must be"):
            data.mnist(tmp_path, part="all")
