"""How geodesics move with their ends: the implicit function theorem, and the factorised Hessian.

At a curve u of least energy between a and b the gradient of the energy by u vanishes. Moving the
ends changes it by H_ua da + H_ub db, so that H du = -(H_ua da + H_ub db): Jacobi fields.
"""

import numpy as np

from probgeo.geometry import loops
from probgeo.geometry.chains import Chains, Hessian
from probgeo.metrics import Metric


def end_slopes(metric: Metric, chains: Chains) -> np.ndarray:
    """Derivatives (rows, J, D, 2 D) of the nodes by both ends, D columns each.

    NaN for curves whose Hessian is not positive definite: there is no derivative.
    """
    rows, J, D = chains.nodes.shape
    offsets, everyone = chains.offsets, np.ones(len(chains), dtype=bool)
    good, columns = np.empty(len(chains), dtype=bool), np.empty((rows, J * D, 2 * D))
    hessian = Hessian.of(chains, chains.terms(metric))
    blocks, right = (hessian.diagonal, hessian.upper), hessian.right
    loops.end_columns(offsets, D, *blocks, columns)
    loops.fix_ends(offsets, everyone, D, *blocks, right)
    loops.solve_chains(offsets, everyone, *blocks, right, *blocks, right, np.empty(len(chains)), good)
    loops.solve_columns(offsets, *blocks, columns)
    columns[np.repeat(~good, np.diff(offsets))] = np.nan
    return columns.reshape(rows, J, D, 2 * D)
