"""How geodesics move with their ends: the implicit function theorem, and the factorised Hessian.

At a curve u of least energy between a and b the gradient of the energy by u vanishes. Moving the
ends changes it by H_ua da + H_ub db, so that H du = -(H_ua da + H_ub db): Jacobi fields.
"""

import numpy as np

from probgeo.geometry import loops
from probgeo.geometry.chains import Chains
from probgeo.metrics import Metric


def end_slopes(metric: Metric, chains: Chains) -> np.ndarray:
    """Derivatives (rows, J, D, 2 D) of the nodes by both ends, D columns each.

    NaN for curves whose Hessian is not positive definite: there is no derivative.
    """
    rows, J, D = chains.nodes.shape
    F, count, rule = J * D, len(chains), chains.rule
    everyone = np.ones(count, dtype=bool)
    diagonal, upper = np.empty((rows, F, F)), np.empty((rows, F, F))
    right, columns = np.empty((rows, F)), np.empty((rows, F, 2 * D))
    loops.assemble(
        chains.t,
        chains.offsets,
        everyone,
        np.zeros(count),
        rule.shape,
        rule.slope,
        rule.weight,
        *chains.terms(metric)[1:],
        diagonal,
        upper,
        right,
    )
    loops.end_columns(chains.offsets, D, diagonal, upper, columns)
    loops.fix_ends(chains.offsets, everyone, D, diagonal, upper, right)
    good = np.empty(count, dtype=bool)
    loops.solve_chains(chains.offsets, everyone, diagonal, upper, right, np.empty(count), good)
    loops.solve_columns(chains.offsets, diagonal, upper, columns)
    columns[np.repeat(~good, np.diff(chains.offsets))] = np.nan
    return columns.reshape(rows, J, D, 2 * D)
