"""Least squares on a chain of states: the square-root information smoother.

The prior gives rows root (x_next - A x) for every step; the linearised ODE gives one derivative of
every state in terms of the lower ones, c^(o) = J (c, ...) + b, and is eliminated exactly, as are
pinned initial and boundary values. What is left, the free coordinates w with x = E w + e, follows
from one orthogonal elimination a node (Paige & Saunders 1977; Bierman 1977), whose triangles are
at once the filter and the backward conditionals w_n | w_{n+1} of the smoother. Nothing is
subtracted, and directions about which nothing is known need no artificial prior.

Blocks: B = D, E = 1 with Jacobians; B = 1, E = D without, when all dimensions share the triangles.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from probgeo._old.ode.markov.prior import Prior, Step, to_derivatives
from probgeo._old.ode.markov.sqrt import eliminate, solve_upper


class Linearisation(NamedTuple):
    """c^(o) = J (c, ..., c^(o-1)) + b at every node."""

    J: Float[Array, "n b o b"]
    b: Float[Array, "n b e"]


class Coordinates(NamedTuple):
    """States in terms of free coordinates: x = E w + e."""

    E: Float[Array, "n s b q b"]
    e: Float[Array, "n s b e"]

    def states(self, w: Float[Array, "n k e"]) -> Float[Array, "n s b e"]:
        N, _, B, q, _ = self.E.shape
        return jnp.einsum("nsbqc,nqce->nsbe", self.E, w.reshape(N, q, B, -1)) + self.e


class Triangles(NamedTuple):
    """R w_n + S w_{n+1} = z + noise for every node but the last, and R w = z for that."""

    R: Float[Array, "n k k"]
    S: Float[Array, "n k k"]
    z: Float[Array, "n k e"]
    last: Float[Array, "k k"]
    last_target: Float[Array, "k e"]
    steps: Float[Array, "n e"]  # how surprising each step was: squares of its innovation
    first: Float[Array, " e"]  # and the start

    @property
    def quadratic(self) -> Float[Array, " e"]:
        return self.first + jnp.sum(self.steps, axis=0)


def _with_entry(states: Float[Array, "n s ..."], i: int, entry: Array) -> Array:
    """States with another i-th derivative."""
    return jnp.concatenate([states[:, :i], entry[:, None], states[:, i + 1 :]], axis=1)


class Chain(eqx.Module):
    """The prior on a mesh. `scale` (N - 1,) are standard deviations of the noise, step by step."""

    prior: Prior
    nodes: Float[Array, " n"]
    unit: Float[Array, ""]
    scale: Float[Array, " n-1"]
    order: int = eqx.field(static=True)
    pinned_first: tuple[int, ...] = eqx.field(static=True)  # derivatives given at the first node
    pinned_last: bool = eqx.field(static=True)  # whether the curve is given at the last one

    @property
    def free(self) -> tuple[int, ...]:
        """Derivatives that the ODE does not give."""
        return tuple(i for i in range(self.prior.q + 1) if i != self.order)

    @property
    def factors(self) -> Float[Array, " s"]:
        """c^(i) = factors_i x_i."""
        return to_derivatives(self.prior.q, self.unit)

    def steps(self) -> Step:
        return jax.vmap(lambda h: self.prior.step(h, self.unit))(jnp.diff(self.nodes))

    def coordinates(
        self, ode: Linearisation, about: Float[Array, "n s b e"] | None = None
    ) -> Coordinates:
        """Eliminate the ODE and what is pinned to zero; w counts from the states `about`, or zero.

        From states near the solution w is small, and so is what rounding makes of it: otherwise
        short steps would cost digits of the higher derivatives, eps |x| / h^i.
        """
        N, B, o, _ = ode.J.shape
        f, open_ = self.factors, 1.0 - self._pinned()
        J = ode.J * (f[:o] / f[o])[:, None]
        # the entries that are free coordinates themselves, but for that given by the ODE
        own = open_[:, :, None] * np.eye(self.prior.q + 1)[:, list(self.free)]
        E = jnp.einsum("nsq,bc->nsbqc", own, jnp.eye(B))
        E_o = jnp.einsum("nbmc,nmq->nbqc", J, own[:, :o])
        e = jnp.zeros((N, len(f), *ode.b.shape[1:])) if about is None else about
        e = jnp.asarray(open_)[:, :, None, None] * e
        e_o = jnp.einsum("nbmc,nmce->nbe", J, e[:, :o]) + ode.b / f[o]
        return Coordinates(_with_entry(E, o, E_o), _with_entry(e, o, e_o))

    def given(self, blocks: int) -> Float[Array, "n k"]:
        """1 for coordinates that are pinned, 0 for free ones."""
        return jnp.asarray(np.repeat(self._pinned()[:, list(self.free)], blocks, axis=1))

    def _pinned(self) -> np.ndarray:
        """1 for entries (N, s) of states that are given, 0 for others."""
        mask = np.zeros((self.nodes.size, self.prior.q + 1))
        mask[0, list(self.pinned_first)] = 1.0
        mask[-1, 0] = float(self.pinned_last)
        return mask

    def eliminate(self, x: Coordinates) -> Triangles:
        """One orthogonal elimination from the first node to the last."""
        N, s, B, q, _ = x.E.shape
        k, width = q * B, x.e.shape[-1]
        A, root = self.steps()
        root = root / self.scale[:, None, None]
        left = -jnp.einsum("nij,njbqc->nibqc", root @ A, x.E[:-1]).reshape(N - 1, s * B, k)
        right = jnp.einsum("nij,njbqc->nibqc", root, x.E[1:]).reshape(N - 1, s * B, k)
        missed = jnp.einsum("nij,njbe->nibe", A, x.e[:-1]) - x.e[1:]  # first, it may be small
        known = jnp.einsum("nij,njbe->nibe", root, missed).reshape(N - 1, s * B, width)
        # a coordinate that is given is a dummy, held at zero by a row of its own
        pins = jnp.zeros((N - 1, B if self.pinned_last else 0, k))
        if self.pinned_last:
            pins = pins.at[-1, :, :B].set(jnp.eye(B))

        def step(carry: tuple[Array, Array], rows: tuple) -> tuple:
            R, z = carry
            left, right, known, pin = rows
            stacked = jnp.concatenate(
                [
                    jnp.concatenate([R, jnp.zeros((k, k))], axis=1),
                    jnp.concatenate([left, right], axis=1),
                    jnp.concatenate([jnp.zeros_like(pin), pin], axis=1),
                ]
            )
            targets = jnp.concatenate([z, known, jnp.zeros((len(pin), width))])
            T, rotated, rest = eliminate(stacked, targets)
            out = (T[:k, :k], T[:k, k:], rotated[:k], rest)
            return (T[k:, k:], rotated[k:]), out

        start, first = self._start(x)
        out: tuple
        (R, z), out = jax.lax.scan(step, start, (left, right, known, pins))
        Rs, Ss, zs, squares = out
        return Triangles(Rs, Ss, zs, R, z, squares, first)

    def _start(self, x: Coordinates) -> tuple[tuple[Array, Array], Array]:
        """Rows for the first node: its given coordinates, and what the prior says of the rest."""
        _, s, B, q, _ = x.E.shape
        k, width = q * B, x.e.shape[-1]
        pins = self.given(B)[0]
        if self.prior.diffuse:
            return (jnp.diag(pins), jnp.zeros((k, width))), jnp.zeros(width)
        root = self.prior.initial_root(self.unit) / self.scale[0]
        rows = jnp.einsum("ij,jbqc->ibqc", root, x.E[0]).reshape(s * B, k)
        known = -jnp.einsum("ij,jbe->ibe", root, x.e[0]).reshape(s * B, width)
        rows = jnp.concatenate([rows, jnp.diag(pins)])
        known = jnp.concatenate([known, jnp.zeros((k, width))])
        R, z, rest = eliminate(rows, known)
        return (R, z), rest

    def log_determinants(self, triangles: Triangles, blocks: int) -> Float[Array, ""]:
        """log|rows of the prior| - log|triangles|: the normalisation of the evidence."""
        diagonals = jnp.diagonal(triangles.R, axis1=-2, axis2=-1)
        posterior = jnp.sum(jnp.log(jnp.abs(diagonals)))
        posterior += jnp.sum(jnp.log(jnp.abs(jnp.diag(triangles.last))))
        roots = self.steps().root / self.scale[:, None, None]
        # the rows of a step are triangular
        prior = jnp.sum(jnp.log(jnp.abs(jnp.diagonal(roots, axis1=-2, axis2=-1))))
        # the ODE is an equation for c^(o), not for x_o
        prior -= self.nodes.size * jnp.log(self.factors[self.order])
        if not self.prior.diffuse:
            prior += self._log_determinant_of_the_ends()
        return blocks * prior - posterior

    def _log_determinant_of_the_ends(self) -> Array:
        """The prior of the first state, given what is pinned there and at the last node."""
        root = self.prior.initial_root(self.unit) / self.scale[0]
        first = jnp.linalg.inv(root)
        cov = first @ first.T
        step = self.prior.step(self.nodes[-1] - self.nodes[0], self.unit)
        noise = jnp.linalg.inv(step.root / self.scale[0])
        later = step.A @ cov @ step.A.T + noise @ noise.T
        pins = list(self.pinned_first)
        joint = cov[jnp.array(pins)][:, jnp.array(pins)]
        if self.pinned_last:
            cross = (step.A @ cov)[0, jnp.array(pins)]
            joint = jnp.block([[joint, cross[:, None]], [cross[None, :], later[:1, :1]]])
        return jnp.linalg.slogdet(root)[1] + 0.5 * jnp.linalg.slogdet(joint)[1]


def back_substitute(triangles: Triangles) -> Float[Array, "n k e"]:
    """The least squares solution: posterior means of w."""

    def step(later: Array, rows: tuple) -> tuple:
        R, S, z = rows
        w = solve_upper(R, z - S @ later)
        return w, w

    last = solve_upper(triangles.last, triangles.last_target)
    w: Array
    _, w = jax.lax.scan(step, last, (triangles.R, triangles.S, triangles.z), reverse=True)
    return jnp.concatenate([w, last[None]])


class Conditionals(NamedTuple):
    """w_n = mean_n + gain (w_{n+1} - mean_{n+1}) + factor noise, and marginal covariances.

    The last node has no successor: its gain is zero.
    """

    gain: Float[Array, "n k k"]
    factor: Float[Array, "n k k"]
    cov: Float[Array, "n k k"]


def backward_conditionals(triangles: Triangles, given: Float[Array, "n k"]) -> Conditionals:
    """The smoother's gains and covariances; coordinates that are given have no variance."""
    k = triangles.last.shape[0]
    free = 1.0 - given

    def step(later: Array, rows: tuple) -> tuple:
        R, S, mask = rows
        solved = solve_upper(R, jnp.concatenate([jnp.eye(k), -S], axis=1))
        factor, gain = solved[:, :k] * mask[:, None], solved[:, k:] * mask[:, None]
        cov = factor @ factor.T + gain @ later @ gain.T
        return cov, Conditionals(gain, factor, cov)

    factor = solve_upper(triangles.last, jnp.eye(k)) * free[-1][:, None]
    last = Conditionals(jnp.zeros((k, k)), factor, factor @ factor.T)
    rows = (triangles.R, triangles.S, free[:-1])
    others: Conditionals
    _, others = jax.lax.scan(step, last.cov, rows, reverse=True)
    return jax.tree.map(lambda x, y: jnp.concatenate([x, y[None]]), others, last)
