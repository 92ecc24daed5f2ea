"""Batches of problems in bounded memory."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from probgeo._old.ode.problem import Problem

CHUNK_BYTES = 2**30


def solve_in_chunks(
    solve: Callable[[Problem, Array | None], Any],
    problem: Problem,
    guess: Array | None,
    bytes_each: int,
) -> Any:
    """solve(part, guess) on parts with one batch axis, the results with that of the problem.

    The parts are as even as can be, so that at most two shapes are compiled.
    """
    batch = problem.batch_shape
    flat = problem.flattened()
    starts = None if guess is None else guess.reshape(-1, *guess.shape[len(batch) :])
    total = len(flat.values)
    count = -(-total * bytes_each // CHUNK_BYTES)
    size = max(1, -(-total // max(1, count)))
    parts = [
        solve(flat.members(slice(k, k + size)), None if starts is None else starts[k : k + size])
        for k in range(0, max(total, 1), size)
    ]
    joined = parts[0] if len(parts) == 1 else jax.tree.map(lambda *x: jnp.concatenate(x), *parts)
    return jax.tree.map(lambda x: x.reshape(*batch, *x.shape[1:]), joined)
