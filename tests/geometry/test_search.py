"""First curves, and which of them are kept."""

import numpy as np
import pytest

from probgeo import Manifold, data, metrics
from probgeo.geometry.arguments import find_definite
from probgeo.geometry.search import EFFORTS, STARTS, Candidates, distinct, doubled, pick_distinct, search
from probgeo.geometry.starts import SEGMENTS, Landmarks, beside, detours, lines, polygon_lengths, shortest_ways
from probgeo.metrics.arguments import far_apart
from tests.geometry.chains import random_metric, random_tensors

RNG = np.random.default_rng(3)
NORMAL = EFFORTS["normal"]
ANGLES = np.linspace(0.0, 2.0 * np.pi, 40, endpoint=False)
RING = np.stack([np.cos(ANGLES), np.sin(ANGLES)], axis=1)


def hill(x):
    """An expensive middle, which curves go round."""
    return np.eye(2) * (1.0 + 100.0 * np.exp(-8.0 * np.sum(x**2, axis=-1)))[..., None, None]


class TestStarts:
    def test_lines_and_detours(self):
        a, b, over = RNG.normal(size=(3, 5, 2))
        np.testing.assert_allclose(lines(a, b)[:, SEGMENTS // 2], 0.5 * (a + b), atol=1e-14)
        polygons = detours(a, b, over)
        for place, expected in ((0, a), (SEGMENTS // 2, over), (-1, b)):
            np.testing.assert_allclose(polygons[:, place], expected, atol=1e-14)
        np.testing.assert_array_equal(lines(a, a), np.repeat(a[:, None], SEGMENTS + 1, axis=1))

    @pytest.mark.loops
    def test_edges_are_lengths_of_lines(self):
        metric, a = random_metric(RNG), RNG.normal(size=(3, 2))
        landmarks = Landmarks(metric, metric.landmarks())
        s = (np.arange(4) + 0.5) / 4
        for n, x in enumerate(a):
            for k, y in enumerate(landmarks.points):
                points = x + s[:, None] * (y - x)
                speed = np.sqrt(metric.inner(points, *(np.tile(y - x, (4, 1)),) * 2))
                np.testing.assert_allclose(landmarks.edges(a)[n, k], speed.mean(), rtol=1e-12)

    @pytest.mark.loops
    def test_shortest_ways_against_numpy(self):
        edges, ways = RNG.uniform(size=(4, 6)), RNG.uniform(size=(6, 6))
        length, first = np.empty((4, 6)), np.empty((4, 6), dtype=np.int64)
        shortest_ways(edges, ways, length, first)
        every = edges[:, :, None] + ways
        np.testing.assert_array_equal(length, every.min(axis=1))
        np.testing.assert_array_equal(first, every.argmin(axis=1))

    @pytest.mark.loops
    def test_routes_pass_their_landmark_along_edges(self):
        """Round a hill over a ring of landmarks; as long as the sum of the edges they follow."""
        metric = Manifold(hill).metric
        landmarks, (a, b) = Landmarks(metric, RING[::5]), 1.2 * RING[[[0, 3], [20, 18]]]
        routes = landmarks.routes(a, b)
        for member in (0, 1):
            for over in range(len(landmarks)):
                path = routes.polygons(np.array([member]), np.array([over]))[0]
                np.testing.assert_array_equal(path[[0, -1]], [a[member], b[member]])
                assert np.linalg.norm(path, axis=1).min() > 0.6
                between = landmarks.ways[0][[routes.first[member, over], routes.last[member, over]], over].sum()
                ends = landmarks.edges(a)[member, routes.first[member, over]]
                ends += landmarks.edges(b)[member, routes.last[member, over]]
                np.testing.assert_allclose(routes.length[member, over], between + ends, rtol=1e-12)
        shortest = routes.length.argmin(axis=1)
        middle = routes.polygons(np.arange(2), shortest)[:, SEGMENTS // 2]
        assert np.all(np.linalg.norm(middle, axis=1) > 0.7)

    def test_where_there_is_no_metric_there_is_no_way(self):
        def half(x):
            return np.where(x[..., :1, None] < 0.5, np.nan, np.eye(2))

        landmarks = Landmarks(Manifold(half).metric, np.array([[1.0, 1.0], [0.0, 0.0], [2.0, 0.0]]))
        routes = landmarks.routes(np.array([[1.0, 0.0]]), np.array([[3.0, 0.0]]))
        np.testing.assert_allclose(routes.length, [[1.0 + np.sqrt(5.0), np.inf, 2.0]])

    def test_many_landmarks_are_thinned_out(self):
        points = RNG.normal(size=(500, 2))
        chosen = points[far_apart(points, 20)]
        gaps = np.linalg.norm(chosen[:, None] - chosen[None], axis=-1)[np.triu_indices(20, 1)]
        left = np.linalg.norm(points[:, None] - chosen[None], axis=-1).min(axis=1)
        assert left.max() <= gaps.min()

    def test_doubling_keeps_points_and_parabolas(self):
        t = np.linspace(0.0, 1.0, 9)
        coarse = np.stack([t, t**2], axis=1)[None]
        fine = np.linspace(0.0, 1.0, 17)
        np.testing.assert_allclose(doubled(coarse)[0], np.stack([fine, fine**2], axis=1), atol=1e-14)


class TestSearch:
    def test_curves_are_pushed_off_a_saddle(self):
        """The line over a low hill, to which bows are no alternative."""

        def low(x):
            return np.eye(2) + 0.015 * (hill(x) - np.eye(2))

        a, b = np.array([1.0, 0.0]), np.array([-1.0, 0.0])
        pushed = Manifold(low).geodesic(a, b)
        assert pushed.converged
        assert pushed.start == "line"
        assert abs(pushed.mean(0.5)[1]) > 0.2

    def test_curves_go_round_a_hill(self):
        """The line over it is a saddle: curves come round by a bow, or by the landmarks."""
        a, b = np.array([1.0, 0.0]), np.array([-1.0, 0.0])
        s = (np.arange(200)[:, None] + 0.5) / 200
        line = Manifold(hill).norm(a + s * (b - a), b - a).mean()
        bow, around = (Manifold(hill).geodesic(a, b), Manifold(hill, landmarks=RING).geodesic(a, b))
        assert bow.converged
        assert bow.start == "detour"
        assert around.start in ("graph", "detour")
        assert around.length.mean < 0.7 * line
        np.testing.assert_allclose(bow.length.mean, around.length.mean, rtol=1e-4)
        assert around.n_minima >= 2
        # the way on the other side is as short
        assert around.gap < 1e-3

    def test_one_minimum_where_all_agree(self):
        metric, (a, b) = random_metric(RNG, rho=0.05), RNG.normal(size=(2, 10, 2))
        geodesic = Manifold(metric).geodesic(a, b)
        np.testing.assert_array_equal(geodesic.n_minima, 1)
        np.testing.assert_array_equal(geodesic.gap, np.inf)

    def test_members_do_not_see_each_other(self):
        metric = metrics.LocalMetrics(RNG.normal(size=(6, 2)), 30 * random_tensors(RNG, 6, 2), 1.0)
        landmarks, (a, b) = Landmarks(metric, metric.landmarks()), RNG.normal(size=(2, 12, 2))
        together, minima = search(metric, landmarks, a, b, NORMAL)
        for m in (0, 3, 7):
            own, number = search(metric, landmarks, a[m : m + 1], b[m : m + 1], NORMAL)
            assert number[0] == minima[m]
            polygons = [p for part in together for p in part.polygons[part.owner == m]]
            alone = [p for part in own for p in part.polygons]
            assert len(polygons) == len(alone)
            for one, other in zip(polygons, alone, strict=True):
                np.testing.assert_array_equal(one, other)

    @pytest.mark.parametrize("thoroughness", EFFORTS)
    def test_efforts(self, thoroughness):
        metric, (a, b) = random_metric(RNG, rho=5.0), RNG.normal(size=(2, 8, 2))
        geodesic = Manifold(metric, thoroughness=thoroughness).geodesic(a, b)
        assert geodesic.converged.all()
        assert set(geodesic.start) <= set(STARTS)

    def test_no_such_effort(self):
        with pytest.raises(ValueError, match="thoroughness must be one of"):
            Manifold(metrics.HalfPlane(), thoroughness="lazy")


class TestDistinct:
    @pytest.mark.loops
    def test_against_plain_python(self):
        count, runs = 6, 40
        base = RNG.normal(size=(3, 5, 2))
        owner = np.sort(RNG.integers(count, size=runs))
        kind = RNG.integers(3, size=runs)
        polygons = base[kind] + 1e-3 * RNG.normal(size=(runs, 5, 2))
        energy = RNG.uniform(1.0, 3.0, size=runs)
        offsets = np.searchsorted(owner, np.arange(count + 1))
        keep, minima = np.zeros(runs, dtype=bool), np.zeros(count, dtype=np.int64)
        pick_distinct(polygons, energy, offsets, 0.03, 2.0, 2, keep, minima)
        for m in range(count):
            mine = np.flatnonzero(owner == m)
            mine = mine[np.argsort(energy[mine])]
            first = [n for k, n in enumerate(mine) if kind[n] not in kind[mine[:k]]]
            assert minima[m] == len(first)
            kept = [n for n in first[:2] if energy[n] <= 2.0 * energy[mine[0]]]
            assert sorted(kept) == np.flatnonzero(keep & (owner == m)).tolist()

    def test_something_is_always_kept(self):
        nothing = Candidates(np.zeros((2, 9, 2)), np.array([0, 1]), np.full(2, np.inf), np.zeros(2), np.zeros(2))
        left, minima = distinct(nothing, 2, 0.03, 1.5, 3)
        assert left.owner.tolist() == [0, 1]
        assert minima.tolist() == [0, 0]


@pytest.mark.loops
def test_definite_matrices_are_found():
    tensors = random_tensors(RNG, 4, 3)
    tensors[1] -= 2.0 * np.eye(3) * np.linalg.eigvalsh(tensors[1])[0]
    tensors[2, 0, 0] = np.nan
    good = np.empty(4, dtype=bool)
    find_definite(tensors.copy(), good)
    assert good.tolist() == [True, False, False, True]


class TestBows:
    """Metrics without landmarks."""

    def test_they_lie_across_along_the_cheapest_direction(self):
        metric = metrics.Flat(np.diag([1.0, 9.0, 4.0]))
        a, b = np.array([[-2.0, 0.0, 0.0]]), np.array([[2.0, 0.0, 0.0]])
        np.testing.assert_allclose(np.abs(beside(metric, a, b)), [[[0, 0, 2.0]]] * 2, atol=1e-12)
        np.testing.assert_allclose(beside(metric, a, b).sum(axis=0), 0.0, atol=1e-12)

    def test_lengths_of_polygons(self):
        metric, polygon = metrics.Flat(np.diag([1.0, 4.0])), np.array([[[0, 0], [3, 0], [3, 2.0]]])
        np.testing.assert_allclose(polygon_lengths(metric, polygon), 7.0)

    def test_the_cheaper_side_of_a_ridge_is_found(self):
        """The line leans to one side of a ridge, whose other end is the nearer one."""

        def ridge(x):
            high = np.exp(-8.0 * x[..., 0] ** 2) / (1.0 + np.exp(-8.0 * (x[..., 1] + 1.2)))
            high = high / (1.0 + np.exp(8.0 * (x[..., 1] - 0.9)))
            return np.eye(2) * (1.0 + 60.0 * high)[..., None, None]

        a, b = np.array([-1.0, -0.4]), np.array([1.0, -0.4])
        found = Manifold(ridge).geodesic(a, b)
        both = [[a, [0.0, y], b] for y in (-1.8, 1.6)]
        known = [Manifold(ridge).geodesic(a, b, guess=np.array(g)).length.mean for g in both]
        assert found.length.mean <= 1.001 * min(known)
        assert found.n_minima >= 1


def test_a_known_curve_takes_part_in_a_search():
    """Without patience; what is found is no longer than either."""
    points = data.spiral(60)
    manifold = Manifold(metrics.from_mixture(points, 6))
    a, b = points[[3, 20, 5, 9]], points[[50, 41, 5, 33]]
    guess = manifold.geodesic(points[[3, 20, 4, 9]], b)
    followed = manifold.geodesic(a, b, guess=guess)
    searched = manifold.geodesic(a, b)
    both = manifold.geodesic(a, b, guess=guess, patience=0)
    assert both.converged.all()
    least = np.minimum(followed.mean_length, searched.mean_length)
    assert np.all(both.mean_length <= 1.001 * least)
    for resting in (followed, both):
        assert resting.mean_length[2] == 0.0
        np.testing.assert_array_equal(resting.mean(0.5)[2], a[2])
    with pytest.raises(ValueError, match="patience"):
        manifold.geodesic(a, b, guess=guess, patience=-1)
