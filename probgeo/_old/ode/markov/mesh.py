"""Meshes: where the nodes go, and how many are needed."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

# numbers of nodes are taken from a short list, so that few shapes are compiled
SIZES = (8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 2048, 4096, 8192)
FLOOR = 0.15  # least density of nodes, as a fraction of the mean density
GROWTH = (1.3, 4.0)  # least and largest growth of the number of nodes in one refinement
GRADING = 0.3  # most by which neighbouring steps differ, as a part of the smaller
FINENESS = 8  # points at which the density is looked at, for every node
WORTHWHILE = 0.45  # share of an equal-step mesh that a graded one must do with, to be preferred


def at_least(count: int) -> int:
    """The smallest size in the list that is not below `count`."""
    return next((size for size in SIZES if size >= count), SIZES[-1])


def wanted(count: int, excess: np.ndarray, order: int, share: np.ndarray) -> np.ndarray:
    """Numbers of nodes for errors `excess` times too large, if they fall like h^order.

    `share` is the part of them that a better distribution needs.
    """
    growth = 1.1 * np.nan_to_num(excess, nan=np.inf) ** (1.0 / order) * share
    factor = np.clip(growth, *GROWTH)
    return np.array([at_least(round(count * f)) for f in np.atleast_1d(factor)])


def density_of_nodes(
    nodes: Float[Array, " n"], defects: Float[Array, " n-1"], order: int
) -> Float[Array, " n-1"]:
    """Where nodes should be for equal shares of the error: (defect / h^order)^(1/(order+1)).

    Of mean one over the interval, and nowhere below `FLOOR`.
    """
    h = jnp.diff(nodes)
    density = (defects / h**order) ** (1.0 / (order + 1))
    padded = jnp.concatenate([density[:1], density, density[-1:]])
    density = jnp.maximum(jnp.maximum(padded[:-2], padded[2:]), density)
    mean = jnp.sum(density * h)
    density = jnp.where(mean > 0, density / mean, 1.0)
    density = jnp.maximum(density, FLOOR)
    return density / jnp.sum(density * h)


def redistribute(
    nodes: Float[Array, " n"], density: Float[Array, " n-1"], count: int
) -> Float[Array, " count"]:
    """`count` nodes of about a given density, with steps that grow by `GRADING` at most."""
    fine = jnp.linspace(0.0, 1.0, FINENESS * count)
    cell = jnp.clip(jnp.searchsorted(nodes, fine, side="right") - 1, 0, density.size - 1)
    step = 1.0 / density[cell]
    rise = GRADING * (count - 1.0) * fine
    # the largest function below the wanted steps that rises and falls no faster than that
    before = rise + jax.lax.cummin(step - rise)
    after = jax.lax.cummin(step + rise, reverse=True) - rise
    density = 1.0 / jnp.minimum(before, after)
    middle = 0.5 * (density[1:] + density[:-1]) * jnp.diff(fine)
    share = jnp.concatenate([jnp.zeros(1), jnp.cumsum(middle)])
    new = jnp.interp(jnp.linspace(0.0, 1.0, count), share / share[-1], fine)
    return new.at[0].set(nodes[0]).at[-1].set(nodes[-1])
