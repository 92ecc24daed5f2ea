"""The posterior of the Markov solver: means, covariances and samples between and across nodes."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from probgeo._old.gaussian import covariance_factor
from probgeo._old.ode.curve import Posterior, Source
from probgeo._old.ode.markov.chain import Conditionals
from probgeo._old.ode.markov.prior import Bridge, Prior, Rows, to_derivatives
from probgeo._old.ode.problem import Conditions, mean_basis

FEW_NODES = 320  # among which a time is found by looking at all of them: little to compile
NEAREST = 1e-8  # closest to a node, as a fraction of a step, that the bridge is evaluated at


class Reach(NamedTuple):
    """How the curve at one time depends on the coordinates around it.

    deviation = later (w_{n+1} - mean) + own noise_n + what happens between the nodes.
    """

    interval: Array
    later: Float[Array, "t b k"]
    own: Float[Array, "t b k"]


def bridges(
    prior: Prior, before: Float[Array, " t"], after: Array, unit: Array, rows: Rows = None
) -> Bridge:
    """Bridges at times `before` after one node and `after` before the next."""
    return jax.vmap(lambda b, a: prior.bridge(b, a, unit, rows))(before, after)


def across(states: Float[Array, "n s ..."], n: Array, bridge: Bridge) -> Array:
    """Entries of the states on the bridges from nodes n to n + 1: (T, r, ...)."""
    left = jnp.einsum("trs,ts...->tr...", bridge.left, states[n])
    return left + jnp.einsum("trs,ts...->tr...", bridge.right, states[n + 1])


class Place(NamedTuple):
    """Times between nodes n and n + 1, and the bridges for one derivative there."""

    interval: Array
    bridge: Bridge
    derivative: int


class MarkovPosterior(Posterior):
    """A Gauss-Markov process conditioned on the linearised ODE at the nodes."""

    prior: Prior
    nodes: Float[Array, " n"]
    unit: Float[Array, ""]
    scale: Float[Array, " n-1"]
    values: Float[Array, "c d"]
    states: Float[Array, "n s d"]  # deviations of the mean from the straight line
    moves: Float[Array, "n s d r"] | None  # the same for its changes with the user's data
    spread: Float[Array, "c d r"] | None
    E: Float[Array, "n s b q b"]
    given: Conditionals
    conditions: Conditions = eqx.field(static=True)

    def mesh(self) -> list[Array]:
        return [self.nodes, self.unit]

    @property
    def factors(self) -> Float[Array, " s"]:
        return to_derivatives(self.prior.q, self.unit)

    def mean(self, tau: Array, derivative: int) -> Array:
        line = mean_basis(self.conditions, derivative, tau) @ self.values
        return line + self._interpolate(self.states, tau, derivative)

    def marginal(self, tau: Array, derivative: int, source: Source) -> Array:
        if source == "boundary":
            return self._total(None, tau, tau, (derivative, derivative), source)
        numerical = self.spread_at(self.around(tau.reshape(-1), derivative))
        return self._total(numerical, tau, tau, (derivative, derivative), source)

    def cov(self, sigma: Array, tau: Array, derivative: tuple[int, int], source: Source) -> Array:
        sigma, tau = jnp.broadcast_arrays(sigma, tau)
        s, t = sigma.reshape(-1), tau.reshape(-1)
        swap = s > t
        numerical = jnp.where(
            swap[:, None, None],
            jnp.swapaxes(self._ordered_cov(t, s, derivative[::-1]), -1, -2),
            self._ordered_cov(s, t, derivative),
        )
        return self._total(numerical, sigma, tau, derivative, source)

    def _total(
        self,
        blocks: Array | None,
        sigma: Array,
        tau: Array,
        derivative: tuple[int, int],
        source: Source,
    ) -> Array:
        D = self.values.shape[-1]
        total = jnp.zeros((*tau.shape, D, D))
        if source != "boundary" and blocks is not None:
            full = jnp.einsum("tbc,de->tbdce", blocks, jnp.eye(D // blocks.shape[-1]))
            total = total + full.reshape(*tau.shape, D, D)
        if source != "numerical" and self.moves is not None:
            left, right = (self._move(t, d) for t, d in zip((sigma, tau), derivative, strict=True))
            total = total + jnp.einsum("...ir,...jr->...ij", left, right)
        return total

    def _move(self, tau: Array, derivative: int) -> Float[Array, "*t d r"]:
        assert self.moves is not None
        assert self.spread is not None
        basis = mean_basis(self.conditions, derivative, tau)
        line = jnp.einsum("...c,cdr->...dr", basis, self.spread)
        return line + self._interpolate(self.moves, tau, derivative)

    def _locate(self, t: Array) -> tuple[Array, Array, Array]:
        """The interval of a time, and how far it is from its ends (never quite zero)."""
        # from the left, so that nodes beyond the end, which pad a batch, are never met
        method = "compare_all" if self.nodes.size <= FEW_NODES else "scan"
        n = jnp.searchsorted(self.nodes, t, method=method) - 1
        n = jnp.clip(n, 0, self.nodes.size - 2)
        step = self.nodes[n + 1] - self.nodes[n]
        before = jnp.clip(t - self.nodes[n], NEAREST * step, (1 - NEAREST) * step)
        return n, before, step - before

    def around(self, tau: Float[Array, " t"], derivative: int) -> Place:
        """The intervals of some times, and the bridges across them."""
        if derivative > self.prior.q:
            raise ValueError(f"this prior has {self.prior.q} derivatives, {derivative} was asked")
        n, before, after = self._locate(tau)
        return Place(n, self._bridges(before, after, (derivative,)), derivative)

    def halfway(self, derivative: int) -> Place:
        """The same for the middles of all intervals."""
        half = 0.5 * jnp.diff(self.nodes)
        bridge = self._bridges(half, half, (derivative,))
        return Place(jnp.arange(half.size), bridge, derivative)

    def _bridges(self, before: Array, after: Array, rows: Rows = None) -> Bridge:
        return bridges(self.prior, before, after, self.unit, rows)

    def _interpolate(self, states: Array, tau: Array, derivative: int) -> Array:
        place = self.around(tau.reshape(-1), derivative)
        values = across(states, place.interval, place.bridge)
        return self.factors[derivative] * values.reshape(*tau.shape, *states.shape[2:])

    def reach(self, place: Place) -> Reach:
        """How one derivative between the nodes depends on the coordinates there."""
        n, bridge, derivative = place
        shape = (len(n), self.E.shape[2], -1)
        earlier = jnp.einsum("ts,tsbqc->tbqc", bridge.left[:, 0], self.E[n]).reshape(shape)
        later = jnp.einsum("ts,tsbqc->tbqc", bridge.right[:, 0], self.E[n + 1]).reshape(shape)
        factor = self.factors[derivative]
        later = factor * (earlier @ self.given.gain[n] + later)
        return Reach(n, later, factor * (earlier @ self.given.factor[n]))

    def spread_at(self, place: Place) -> Float[Array, "t b b"]:
        """Numerical covariance at single times."""
        n, bridge, i = place
        reach = self.reach(place)
        # given the states at both ends
        between = self.factors[i] ** 2 * bridge.cov[:, 0, i] * self.scale[n] ** 2
        return self._inside(reach, reach) + between[:, None, None] * jnp.eye(self.E.shape[2])

    def _inside(self, s: Reach, t: Reach) -> Float[Array, "t b b"]:
        """Covariance of two times of one interval, without what lies between the nodes."""
        later = self.given.cov[s.interval + 1]
        return jnp.einsum("tbk,tkl,tcl->tbc", s.later, later, t.later) + jnp.einsum(
            "tbk,tck->tbc", s.own, t.own
        )

    def _ordered_cov(self, s: Array, t: Array, derivative: tuple[int, int]) -> Array:
        """Covariance for times s <= t."""
        first = self.reach(self.around(s, derivative[0]))
        second = self.reach(self.around(t, derivative[1]))
        same = first.interval == second.interval
        inside = self._inside(first, second) + jnp.einsum(
            "t,bc->tbc", self._between(s, t, derivative), jnp.eye(self.E.shape[2])
        )
        # from w_{n+1} to w_m by the gains between, then to the second time
        gain, factor = self.given.gain[second.interval], self.given.factor[second.interval]
        to_second = jnp.einsum(
            "tkl,tlm,tcm->tkc", gain, self.given.cov[second.interval + 1], second.later
        ) + jnp.einsum("tkl,tcl->tkc", factor, second.own)

        def step(rows: Array, node: tuple) -> tuple:
            j, gain = node
            active = (first.interval + 1 <= j) & (j < second.interval)
            return jnp.where(active[:, None, None], rows @ gain, rows), None

        steps = (jnp.arange(len(self.given.gain)), self.given.gain)
        rows, _ = jax.lax.scan(step, first.later, steps)
        across = jnp.einsum("tbk,tkc->tbc", rows, to_second)
        return jnp.where(same[:, None, None], inside, across)

    def _between(self, s: Array, t: Array, derivative: tuple[int, int]) -> Float[Array, " t"]:
        """Covariance of s <= t in one interval, given the states at its ends."""
        n, before, after = self._locate(t)
        i, j = derivative
        cov = self._bridges(before, after, (j,)).cov[:, 0] * (self.scale[n] ** 2)[:, None]
        # from the left end and the state at t to the state at s
        _, first, _ = self._locate(s)
        first = jnp.minimum(first, (1 - NEAREST) * before)
        to_t = self._bridges(first, before - first, (i,)).right[:, 0]
        return self.factors[i] * self.factors[j] * jnp.einsum("ts,ts->t", to_t, cov)

    def sample(self, key: Array, n: int, tau: Array, orders: tuple[int, ...]) -> Array:
        keys = jax.random.split(key, 3)
        mean = jnp.stack([self.mean(tau, d) for d in orders])
        node_keys = jax.random.split(keys[0], n)
        deviations = jax.vmap(lambda k: self._sample_deviation(k, tau))(node_keys)
        picked = jnp.stack([self.factors[d] * deviations[:, :, d] for d in orders], axis=1)
        if self.moves is not None:
            noise = jax.random.normal(keys[1], (n, self.moves.shape[-1]))
            moves = jnp.stack([self._move(tau, d) for d in orders])
            picked = picked + jnp.einsum("otdr,nr->notd", moves, noise)
        return mean + picked

    def _sample_deviation(self, key: Array, tau: Float[Array, " t"]) -> Float[Array, "t s d"]:
        """Deviation of one draw from the mean: backwards over the nodes, then between them."""
        N, s, B, _, _ = self.E.shape
        D = self.values.shape[-1]
        first, second = jax.random.split(key)
        k = self.given.cov.shape[-1]

        def back(later: Array, node: tuple) -> tuple:
            gain, factor, noise = node
            w = gain @ later + factor @ noise
            return w, w

        noise = jax.random.normal(first, (N, k, D // B))
        nodes = (self.given.gain, self.given.factor, noise)
        w: Array
        _, w = jax.lax.scan(back, jnp.zeros((k, D // B)), nodes, reverse=True)
        w = w.reshape(N, -1, B, D // B)
        states = jnp.einsum("nsbqc,nqce->nsbe", self.E, w).reshape(N, s, D)

        def between(right: tuple, at: tuple) -> tuple:
            t, noise = at
            n, before, _ = self._locate(t)
            interval, time, state = right
            time = jnp.where(interval == n, time, self.nodes[n + 1])
            state = jnp.where(interval == n, state, states[n + 1])
            step = time - self.nodes[n]
            before = jnp.clip(before, NEAREST * step, (1 - NEAREST) * step)
            bridge: Bridge = self.prior.bridge(before, step - before, self.unit)
            x = bridge.left @ states[n] + bridge.right @ state
            x = x + self.scale[n] * covariance_factor(bridge.cov) @ noise
            return (n, self.nodes[n] + before, x), x

        order = jnp.argsort(-tau)
        noise = jax.random.normal(second, (tau.size, s, D))
        start = (jnp.array(-1), self.nodes[-1], states[-1])
        drawn: Array
        _, drawn = jax.lax.scan(between, start, (tau[order], noise))
        return drawn[jnp.argsort(order)]
