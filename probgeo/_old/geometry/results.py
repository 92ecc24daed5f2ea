"""Rows that were solved, in order and in the shape that was asked for; progress."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from tqdm.auto import tqdm

from probgeo._old.geometry.geodesic import Shifted
from probgeo._old.ode.curve import NOT_FINITE, Curve

DELAY = 3.0  # seconds after which a progress bar shows up in a terminal by itself


def progress_bar(total: int, wanted: bool | None, unit: str) -> tqdm:
    """On request, or in a terminal for work that takes long."""
    if wanted is None:
        return tqdm(total=total, unit=f" {unit}", disable=None, delay=DELAY, leave=False)
    return tqdm(total=total, unit=f" {unit}", disable=not wanted)


def spread_out(rows: Any, usable: np.ndarray) -> Any:
    """Rows for all members: NaN for those that could not be tried."""
    if usable.all():
        return rows
    index = np.where(usable, np.cumsum(usable) - 1, 0)

    def one(x: np.ndarray) -> np.ndarray:
        out = np.array(x[index])
        if np.issubdtype(out.dtype, np.floating):
            out[~usable] = np.nan
        return out

    return jax.tree.map(one, rows)


def as_curve(rows: Any, origin: Any, usable: np.ndarray, batch: tuple[int, ...]) -> Curve:
    """Rows that were solved relative to an origin as a curve of the batch shape."""

    def shaped(x: np.ndarray) -> Any:
        return x.reshape((*batch, *x.shape[1:]))

    moved: Any = Shifted(rows.posterior, origin)
    posterior = jax.tree.map(shaped, moved)
    curve = Curve(
        posterior=posterior,
        t_span=jnp.asarray(np.array([0.0, 1.0])),
        nodes=shaped(rows.nodes),
        status=shaped(np.where(usable, rows.status, NOT_FINITE)),
        log_evidence=shaped(rows.log_evidence),
        n_evaluations=shaped(rows.n_evaluations),
        residual=shaped(rows.residual),
        scale=shaped(rows.scale),
        dimension=rows.dimension,
    )
    return jax.device_put(curve)
