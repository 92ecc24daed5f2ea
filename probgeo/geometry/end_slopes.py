"""How geodesics move with their ends: the implicit function theorem, and the factorised Hessian.

At a curve u of least energy between a and b the gradient of the energy by u vanishes. Moving the
ends changes it by H_ua da + H_ub db, so that H du = -(H_ua da + H_ub db): Jacobi fields.
"""

import numpy as np

from probgeo.geometry import loops
from probgeo.geometry.chains import Chains, NewtonStep
from probgeo.metrics import Metric


def end_slopes(metric: Metric, chains: Chains) -> np.ndarray:
    """Derivatives (rows, J, D, 2 D) of the nodes by both ends, D columns each.

    NaN for curves whose Hessian is not positive definite: there is no derivative.
    """
    rows, J, D = chains.nodes.shape
    count, offsets, made = len(chains), chains.offsets, NewtonStep.of(chains)
    everyone, good = np.ones(count, dtype=bool), np.empty(count, dtype=bool)
    columns = np.empty((rows, J * D, 2 * D))
    made.assemble(chains, chains.terms(metric), everyone, np.zeros(count))
    system = made.diagonal, made.upper
    loops.end_columns(offsets, D, *system, columns)
    loops.fix_ends(offsets, everyone, D, *system, made.step)
    loops.solve_chains(offsets, everyone, *system, made.step, made.decrement, good)
    loops.solve_columns(offsets, *system, columns)
    columns[np.repeat(~good, np.diff(offsets))] = np.nan
    return columns.reshape(rows, J, D, 2 * D)
