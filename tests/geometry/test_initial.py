"""First curves: what energy descent finds, and which start is kept."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from probgeo import initial, metrics
from probgeo.geometry.initial.base import measured
from probgeo.geometry.initial.descent import control_step, descend
from probgeo.geometry.initial.newton import hessian, solve_tridiagonal
from probgeo.geometry.polyline import discrete_energy, doubled, resampled, straight
from tests.geometry.reference import random_tensors

HALF = metrics.HalfPlane()
A = np.array([[-1.0, 0.5], [0.0, 1.0], [0.3, 2.0], [1.0, 1.0]])
B = np.array([[1.0, 1.0], [2.0, 1.0], [0.3, 0.4], [1.0, 1.0]])


def learned():
    rng = np.random.default_rng(0)
    return metrics.LocalMetrics(rng.normal(size=(4, 2)), random_tensors(rng, 4, 2), rho=2.0)


class TestPolygons:
    def test_doubling_keeps_points_and_straight_lines(self):
        line = straight(A, B, 4)
        np.testing.assert_allclose(doubled(line), straight(A, B, 8), atol=1e-14)
        bent = line + np.random.default_rng(0).normal(size=line.shape)
        np.testing.assert_array_equal(doubled(bent)[:, ::2], bent)

    def test_doubling_is_of_fourth_order(self):
        errors = []
        for n in (8, 16):
            t = np.linspace(0.0, 1.0, n + 1)
            fine = doubled(np.stack([np.sin(2 * t), np.cos(2 * t)], axis=1)[None])[0]
            t = np.linspace(0.0, 1.0, 2 * n + 1)
            exact = np.stack([np.sin(2 * t), np.cos(2 * t)], axis=1)
            errors.append(np.abs(fine - exact)[4:-4].max())
        assert errors[0] / errors[1] > 12  # 16 in the limit

    def test_resampling_goes_by_length(self):
        path = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]])
        found = resampled(path, np.array([3.0, 1.0]), 4)
        np.testing.assert_allclose(found[[0, 3, 4]], path, atol=1e-14)


class TestDescent:
    def test_straight_lines_are_optimal_in_flat_space(self):
        x = jnp.asarray(straight(A, B, 8)[0])
        energy, target, promise = control_step(metrics.Flat(), x)
        np.testing.assert_allclose(target, x, atol=1e-12)
        assert abs(promise) < 1e-12 * energy

    def test_the_promise_is_the_slope_of_the_energy(self):
        x = straight(A, B, 8)[0]
        x[1:-1] += 0.1 * np.random.default_rng(0).normal(size=(7, 2))
        x = jnp.asarray(x)
        _, target, promise = control_step(HALF, x)
        h = 1e-6
        slope = [discrete_energy(HALF, x + s * h * (target - x)) for s in (1.0, -1.0)]
        np.testing.assert_allclose((slope[1] - slope[0]) / (2 * h), promise, rtol=1e-6)

    def test_energy_falls_and_ends_stay(self):
        line = straight(A, B, 16)
        found = descend(HALF, line, 5, 1e-12)
        before, after = (
            [float(discrete_energy(HALF, jnp.asarray(x))) for x in p] for p in (line, found)
        )
        assert all(x <= y for x, y in zip(after, before, strict=True))
        np.testing.assert_array_equal(found[:, [0, -1]], line[:, [0, -1]])

    def test_finds_the_geodesics_of_the_half_plane(self):
        found = initial.EnergyDescent(tolerance=1e-8).start(HALF, A, B)
        exact = np.asarray(HALF.distance(A, B))
        # a polygon of 16 segments is off by the square of their length; never below the distance
        np.testing.assert_allclose(found.length, exact, rtol=5e-3, atol=1e-12)
        assert np.all(found.length >= exact * (1 - 1e-3) - 1e-12)
        assert found.length[3] == 0.0

    def test_the_way_back_is_the_way_there(self):
        there = initial.EnergyDescent(tolerance=1e-9).start(learned(), A, B)
        back = initial.EnergyDescent(tolerance=1e-9).start(learned(), B, A)
        np.testing.assert_allclose(there.length, back.length, rtol=1e-6)


class TestNewton:
    def test_hessian_is_that_of_the_energy(self):
        x = straight(A, B, 4)[1]
        x[1:-1] += 0.1 * np.random.default_rng(1).normal(size=(3, 2))
        metric = learned()
        H = jax.jit(hessian)(metric, jnp.asarray(x))

        def energy(inner):
            points = jnp.concatenate([x[:1], inner.reshape(3, 2), x[-1:]])
            return discrete_energy(metric, points) / 4.0

        inner = jnp.asarray(x[1:-1].reshape(-1))
        np.testing.assert_allclose(
            H.gradient.reshape(-1), jax.jit(jax.grad(energy))(inner), rtol=1e-9, atol=1e-12
        )
        dense = np.zeros((3, 2, 3, 2))
        for k in range(3):
            dense[k, :, k] = H.diagonal[k]
            if k < 2:
                dense[k, :, k + 1], dense[k + 1, :, k] = H.upper[k], H.upper[k].T
        np.testing.assert_allclose(
            dense.reshape(6, 6), jax.jit(jax.hessian(energy))(inner), rtol=1e-8, atol=1e-9
        )

    def test_block_elimination(self):
        rng = np.random.default_rng(0)
        root = np.zeros((5, 3, 5, 3))
        for k in range(5):
            root[k, :, k] = np.eye(3) + 0.3 * rng.normal(size=(3, 3))
            if k < 4:
                root[k + 1, :, k] = 0.3 * rng.normal(size=(3, 3))
        root = root.reshape(15, 15)
        matrix = (root @ root.T).reshape(5, 3, 5, 3)
        diagonal = np.stack([matrix[k, :, k] for k in range(5)])
        upper = np.stack([matrix[k, :, k + 1] for k in range(4)] + [np.ones((3, 3))])
        b = rng.normal(size=(5, 3))
        x = solve_tridiagonal(*map(jnp.asarray, (diagonal, upper, b)))
        np.testing.assert_allclose(
            x.reshape(-1), np.linalg.solve(root @ root.T, b.reshape(-1)), rtol=1e-9
        )


class TestStarts:
    def test_the_graph_goes_round_a_hole(self):
        """On a ring with an expensive middle the path over the data keeps to the ring."""
        hill = metrics.Conformal(lambda x: 1.0 + 100.0 * jnp.exp(-8.0 * (x @ x)))
        angle = np.linspace(0.0, 2.0 * np.pi, 40, endpoint=False)
        data = np.stack([np.cos(angle), np.sin(angle)], axis=1)
        a, b = np.array([[1.0, 0.0]]), np.array([[-1.0, 0.0]])
        path = initial.DataGraph(data, neighbours=3).paths(hill, a, b)
        np.testing.assert_allclose(np.linalg.norm(path, axis=-1), 1.0, atol=0.02)
        np.testing.assert_array_equal(path[0, [0, -1]], np.stack([a[0], b[0]]))
        # the line over the hill is a saddle: descent from it cannot leave it by symmetry
        line = initial.EnergyDescent().start(hill, a, b)
        graph = initial.DataGraph(data, neighbours=3).start(hill, a, b)
        assert graph.length < 0.7 * line.length
        both = initial.MultiStart([initial.EnergyDescent(), initial.DataGraph(data, 3)])
        found = both.start(hill, a, b)
        assert [found.names[k] for k in found.which] == ["graph"]
        assert found.length == graph.length

    def test_starts_are_tried_until_two_agree(self):
        """The first member is settled by the second start, the other goes on to the third."""
        asked = []

        class Bent(initial.Start):
            height: float

            def start(self, metric, a, b):
                asked.append(len(a))
                points = straight(a, b, 16)
                # all the same from the first end, another height each from the second
                points[:, 8, 1] += np.where(a[:, 0] < 0.5, 0.1, self.height)
                return measured(metric, points, f"bent by {self.height}")

        a, b = np.array([[0.0, 0.0], [1.0, 0.0]]), np.array([[0.0, 1.0], [3.0, 0.0]])
        starts = [Bent(0.9), Bent(0.5), Bent(0.2), Bent(0.7)]
        found = initial.MultiStart(starts).start(metrics.Flat(), a, b)
        assert asked == [2, 2, 1, 1]
        assert [found.names[k] for k in found.which] == ["bent by 0.9", "bent by 0.2"]

    def test_continuation_needs_a_sharpness(self):
        with pytest.raises(ValueError, match="Continuation needs a metric with a sharpness"):
            initial.Continuation().start(HALF, A, B)
        with pytest.raises(ValueError, match="factors must be numbers in"):
            initial.Continuation(factors=(0.5, 2.0))

    @pytest.mark.parametrize("many", [False, True])
    def test_graphs_about_the_centres(self, many):
        """Never longer than the line, from which energy descent could start as well."""
        metric = learned()
        rng = np.random.default_rng(3)
        a, b = np.asarray(metric.centers)[rng.integers(len(metric.centers), size=(2, 6))]
        found = initial.MetricGraph(many=many).start(metric, a, b)
        line = initial.StraightLine(64).start(metric, a, b)
        assert np.all(found.length <= line.length * (1 + 1e-6))
        np.testing.assert_allclose(found.points[:, 0], a, atol=1e-12)
        np.testing.assert_allclose(found.points[:, -1], b, atol=1e-12)

    def test_graphs_need_centres(self):
        with pytest.raises(ValueError, match="MetricGraph needs a metric with centres"):
            initial.MetricGraph().start(HALF, A, B)

    def test_defaults(self):
        assert isinstance(initial.default_start(HALF), initial.EnergyDescent)
        assert isinstance(initial.default_start(learned()), initial.MultiStart)
        with pytest.raises(TypeError, match="starts must be"):
            initial.MultiStart(["line"])
        with pytest.raises(ValueError, match="segments must be"):
            initial.EnergyDescent(segments=0)
