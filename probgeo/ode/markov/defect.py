"""The error of a curve, with its sign, and how it moves with its data: the linearised ODE.

A piecewise polynomial p that misses the ODE by the defect d = p^(q) - f(t, p, ...) has the error
e = p - y that obeys, to first order,

    e^(q) = sum_m J_m e^(m) + d,   e = 0 at t0,

with the Jacobians J_m of f along p. The same equation without d carries uncertain initial values,
and with df/dargs instead of d parameters of f. It is solved by collocation at Radau's points of
every step: d oscillates along a step (p is exact to one order more at its ends than inside), so
that it takes six or eight of them to integrate it; and what is stiff is damped.

What one knows of the error is its size, not its sign. The same equation with defects whose signs
are drawn at random, step by step, gives errors that grow as e does but vanish elsewhere: their mean
square is the variance of the numerical error, times one factor that fits it to e.
"""

from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np

from probgeo.ode.markov.collocation import BLAS
from probgeo.ode.markov.initial_loops import error_equation, error_scales
from probgeo.ode.markov.steps import Steps
from probgeo.ode.problem import Problem
from probgeo.ragged import members_of

# Draws of the signs. Coverage is .956 with 8, 16 and 64 (15 kinds of problems, four tolerances).
DRAWS = 8


class RadauRule(NamedTuple):
    """Radau's points c (S,) with c_S = 1, and the integrals (S, S) of their Lagrange functions."""

    points: np.ndarray
    integrals: np.ndarray
    to_pieces: np.ndarray  # (S + 1, S + 1): monomials from values at 0 and at the points
    gauss: np.ndarray  # (4,) Gauss's points
    from_gauss: np.ndarray  # (S, 4): values at Radau's points from those at Gauss's


@cache
def radau(points: int) -> RadauRule:
    """Radau's rule on [0, 1], the right end included."""
    legendre = np.polynomial.legendre.Legendre
    polynomial = legendre.basis(points) - legendre.basis(points - 1)
    c = np.sort((polynomial.roots().real + 1.0) / 2.0)
    c[-1] = 1.0
    powers = np.arange(points)
    integrals = (c[:, None] ** (powers + 1) / (powers + 1)) @ np.linalg.inv(c[:, None] ** powers)
    with_start = np.concatenate([[0.0], c])
    to_pieces = np.linalg.inv(with_start[:, None] ** np.arange(points + 1))
    few, k = (np.polynomial.legendre.leggauss(4)[0] + 1.0) / 2.0, np.arange(4)
    return RadauRule(c, integrals, to_pieces, few, c[:, None] ** k @ np.linalg.inv(few[:, None] ** k))


@dataclass(frozen=True)
class Estimate:
    """Curves whose error inside the steps is taken off, and what is left.

    Attributes
    ----------
    pieces (elements, degree + 1, D) : the curves
    std (rows, D) : of the error, at the nodes
    spread (elements, S + 1, D, R) or None : columns of the uncertain data, as polynomials
    defect (elements, S, D) : of the curves as they came, at Radau's points
    rates (elements, S, D) : f there
    """

    pieces: np.ndarray
    std: np.ndarray
    spread: np.ndarray | None
    defect: np.ndarray
    rates: np.ndarray


def estimate_errors(
    problem: Problem, members: np.ndarray, steps: Steps, accuracy: float, *, stiff: bool = False
) -> Estimate:
    """The errors of the steps of some members of a problem, and columns of their uncertain data.

    `accuracy` is the local tolerance of the steps.
    """
    order, D = problem.order, problem.dimension
    # Eight of Radau's points for the defect of y' (of degree seven), one fewer where y is its integral, and better
    # inside of steps. With six, coverage of van der Pol's oscillator (mu = 5) is .8 instead of .93, and .98 with eight;
    # others do not notice.
    points = 8 if stiff or order == 1 else 7
    rule, h, elements = radau(points), steps.h, steps.elements
    at = (steps.starts[:, None] + h[:, None] * rule.points).ravel()
    curve = [polynomials_at(steps.pieces, h, rule.points, m) for m in range(order + 1)]
    state = np.stack(curve[:order], axis=2).reshape(-1, order, D)
    rows = np.repeat(members[members_of(elements)], points)
    uncertain = problem.spread is not None or problem.with_args
    # At small local tolerances Jacobians are interpolated between four points of a step, a fifth of the time of batches
    # with many steps. Errors are estimated with 1 % less accuracy, 3 % at worst; at 1e-4 with 10 %, or not at all
    # (Pleiades).
    if stiff or uncertain or accuracy > 1e-6:
        values, jacobians = problem.field.values_and_jacobians(at, state, rows)
    else:
        values = problem.field.values(at, state, rows)
        jacobians = _interpolated_jacobians(problem, members, steps, points)
    rates = values.reshape(-1, points, D)
    defect = curve[order] - rates
    forcing = np.zeros((*defect.shape, 0))
    if problem.with_args:
        by_args = problem.field.by_args(at, state, rows)
        flat = [x.reshape(*defect.shape, -1) for x in by_args]
        forcing = np.concatenate([forcing, *flat], axis=3)
    # initial values of all columns: no error, the uncertain data, no change of f yet
    data = problem.columns()
    R = 0 if data is None else data.shape[-1]
    start = np.zeros((len(members), order * D, 1 + DRAWS + R + forcing.shape[3]))
    if data is not None:
        start[:, :, 1 + DRAWS : 1 + DRAWS + R] = data[members].reshape(len(members), order * D, R)
    solution = np.empty((len(h), points, order * D, start.shape[2]))
    error_equation(
        elements,
        h,
        np.ascontiguousarray(jacobians.reshape(-1, points, order, D, D)),
        defect,
        random_signs(elements),
        np.ascontiguousarray(forcing),
        start,
        rule.integrals,
        0 if stiff or D < BLAS else 40,
        1e-11 if uncertain else 1e-2,  # the size of an error need not be known well
        solution,
    )
    # the error with its sign, and the data; of those with random signs only the ends matter
    which = np.delete(np.arange(start.shape[2]), np.arange(1, 1 + DRAWS))
    columns = polynomials(elements, start[:, :D, which], solution[:, :, :D, which])
    pieces, inside = without_bumps(steps.pieces, columns[..., 0], elements, h)
    std = standard_deviations(steps.offsets, solution[:, -1, :D], inside)
    spread = np.ascontiguousarray(columns[..., 1:])
    return Estimate(pieces, std, spread if spread.shape[3] else None, defect, rates)


def _interpolated_jacobians(problem: Problem, members: np.ndarray, steps: Steps, points: int) -> np.ndarray:
    """Jacobians at so many of Radau's points (E, S, q D D), from four of Gauss's of every step."""
    order, D, h = problem.order, problem.dimension, steps.h
    few, to_radau = radau(points).gauss, radau(points).from_gauss
    at = (steps.starts[:, None] + h[:, None] * few).ravel()
    state = np.stack([polynomials_at(steps.pieces, h, few, m) for m in range(order)], axis=2).reshape(-1, order, D)
    rows = np.repeat(members[members_of(steps.elements)], len(few))
    jacobians = problem.field.jacobians(at, state, rows).reshape(len(h), len(few), -1)
    return np.matmul(to_radau, jacobians)


def random_signs(elements: np.ndarray) -> np.ndarray:
    """Signs (E, 1 + DRAWS) of the defects of every step, the first all plus.

    The k-th step of every member has the same ones, so that no signs depend on the rest of a batch.
    """
    longest = int(np.diff(elements).max(initial=0))
    signs = _drawn_signs(1 << longest.bit_length())
    return signs[np.arange(elements[-1]) - elements[:-1][members_of(elements)]]


@cache
def _drawn_signs(steps: int) -> np.ndarray:
    """Of so many steps; of more steps the first are the same."""
    drawn = np.random.default_rng(0).integers(0, 2, (steps, DRAWS)) * 2.0 - 1.0
    return np.concatenate([np.ones((steps, 1)), drawn], axis=1)


def polynomials(elements: np.ndarray, start: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Polynomials (E, S + 1, D, C) through columns (E, S, D, C) and their starts (B, D, C)."""
    before = np.empty((len(columns), *columns.shape[2:]))
    before[1:] = columns[:-1, -1]
    first = np.diff(elements) > 0
    before[elements[:-1][first]] = start[first]
    values = np.concatenate([before[:, None], columns], axis=1)
    matrix = radau(columns.shape[1]).to_pieces
    size, count = values.shape[1], len(values)
    return np.matmul(matrix, values.reshape(count, size, -1)).reshape(values.shape)


def without_bumps(
    pieces: np.ndarray, error: np.ndarray, elements: np.ndarray, h: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Curves as good inside the steps as at their ends, and the mean square (E, D) of what is left.

    From the error (E, S + 1, D), a polynomial on every step, the cubic with the same values at both
    ends stays, and with the slopes J e that the defect has no part in: there is none at the end of
    a step, so that each starts with the slope of the one before. The rest is taken off the curve.
    """
    rise, end = error[:, 1:].sum(axis=1), np.einsum("k,ekd->ed", np.arange(error.shape[1]), error)
    start = np.zeros_like(end)
    start[1:] = end[:-1] * (h[1:] / h[:-1])[:, None]
    start[elements[:-1][np.diff(elements) > 0]] = 0.0
    kept = np.stack([error[:, 0], start, 3 * rise - 2 * start - end, start + end - 2 * rise], 1)
    bump = error.copy()
    bump[:, :4] -= kept
    degree = max(pieces.shape[1], error.shape[1])
    better = np.zeros((len(pieces), degree, pieces.shape[2]))
    better[:, : pieces.shape[1]] = pieces
    better[:, : error.shape[1]] -= bump
    s = np.linspace(0.0, 1.0, 8)[1:-1]
    one = np.ones(len(pieces))
    # Of what is taken off a share of .03 stays. Measured: .01 where the tolerance is 1e-5 and less, up to .05 at 1e-2,
    # where the linearised equation is off by that much.
    left = polynomials_at(kept, one, s, 0) ** 2 + (0.03 * polynomials_at(bump, one, s, 0)) ** 2
    return better, left.mean(axis=1)


def standard_deviations(offsets: np.ndarray, errors: np.ndarray, inside: np.ndarray) -> np.ndarray:
    """Standard deviations (rows, D) of the error at the nodes.

    s^2 times the mean square of errors with random signs, where s^2 fits them to the squared error;
    and what a step has inside beyond that, half at either end.

    errors (E, D, 1 + DRAWS or more) at the ends of the steps, inside (E, D) its mean square.
    """
    elements = offsets - np.arange(len(offsets))
    member = members_of(elements)
    square = errors[..., 0] ** 2
    drawn = np.mean(errors[..., 1 : 1 + DRAWS] ** 2, axis=2)
    known = drawn > 0
    ratio = np.where(known, square / np.where(known, drawn, 1.0), 0.0)
    s2 = error_scales(elements, ratio)
    last = np.delete(np.arange(offsets[-1]), offsets[:-1])  # nodes where steps end
    variance = np.zeros((offsets[-1], errors.shape[1]))
    variance[last] = s2[member][:, None] * drawn
    seen = variance.copy()
    seen[last] = np.maximum(seen[last], square)
    beyond = np.maximum(inside - np.maximum(seen[last - 1], seen[last]), 0.0)
    share = np.full((len(last), 2), 0.5)
    share[elements[1:] - 1, 1] = 1.0
    added = np.zeros_like(variance)
    added[last] += share[:, 1:] * beyond
    added[last - 1] += share[:, :1] * beyond
    return np.sqrt(variance + added)


def polynomials_at(pieces: np.ndarray, h: np.ndarray, s: np.ndarray, derivative: int) -> np.ndarray:
    """Derivatives (E, S, D) by t of polynomials (E, degree + 1, D) at the places s (S,)."""
    degree = pieces.shape[1] - 1
    powers = np.zeros((len(s), degree + 1))
    for k in range(derivative, degree + 1):
        falling = np.prod(np.arange(k - derivative + 1, k + 1, dtype=float))
        powers[:, k] = falling * s ** (k - derivative)
    return np.matmul(powers, pieces) / (h**derivative)[:, None, None]
