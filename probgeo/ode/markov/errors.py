"""The error of a solved boundary value problem, with its sign, and the error bars made of it.

The error e = (solution) - y obeys e^(q) = sum_m J_m e^(m) + f_p e_p - r, with r = y^(q) - f the defect of the curve y.
The defect vanishes at the Gauss points, where the curve was fitted, so that it has to be looked at elsewhere: it is
interpolated from all points of an element. On each element a polynomial of higher degree takes up this defect. The
force J e that belongs to it is tested with polynomials as an integral would be, and not taken at the Gauss points:
errors at the nodes, and of parameters, are of higher order, and were two to three times too small without that.
Neighbours no longer meet at the nodes, and the factorised equations of the last Newton step say what all this does to
the curve and to the parameters. It costs one substitution and no Jacobians.
"""

from dataclasses import dataclass

import numpy as np

from probgeo.ode.error_shape import ErrorShape
from probgeo.ode.markov import boundary_loops as loops
from probgeo.ode.markov.collocation import LOOKS, Splines, Step, inverted, largest_of, products
from probgeo.ode.markov.defect import DRAWS, random_signs
from probgeo.ode.markov.linear import SINGULAR_FROM, Linearised, LinearStates

# Of the weights of neighbours. On 67 problems with known solutions, rtol from 1e-2 to 1e-8:
# coverage .94 to .97, median normalised squared error .84 to .91; exp(-1/2): .93 to .96 and
# .96 to 1.16.
DECAY = np.exp(-1.0)
DOUBT = 0.1  # share of a change that its own defect may bring about
STIFF_FROM = 2.0  # sum of h^(q-m) |J_m| from which on the local error needs the Jacobians
# Sensitivity (1.2 for y'' without other forces), or condition number of what is left of a chain of states (below 100
# for problems with other conditions and known solutions), from which on a problem may be singular.
SUSPICIOUS = 1e3
# Least share of the variance with random signs in that of a parameter, whose error may be small by
# chance: the share of a chi-squared number (one degree of freedom) that is lower is one in four.
LEAST = 0.1


@dataclass(frozen=True)
class Errors:
    """Estimated errors of a batch of curves.

    Attributes
    ----------
    between (E, P, D) : at equal steps within the elements
    local (E,) : the largest that an element itself is to blame for
    parameters (B, P, 1 + DRAWS) : of the parameters, and these with random signs of the defects of elements
    sensitivity (B,) : how far a force of pi^2 moves the curve: 1.2 if y'' is that force, less if other forces hold it
        back, without bound if the problem is singular
    rounding (B,) : about the error that rounding leaves
    """

    between: np.ndarray
    local: np.ndarray
    parameters: np.ndarray
    sensitivity: np.ndarray
    rounding: np.ndarray


def estimated_errors(curves: Splines, linear: Linearised, defects: np.ndarray) -> Errors:
    """Errors from the defects (E, K, D), which vanish at the Gauss points."""
    b = curves.basis
    bends, forcing = local_errors(curves, linear, defects)
    start, gaps = (curves.scales[..., None] * np.matmul(matrix, bends) for matrix in b.richer_at_ends)
    start[curves.elements[:-1]] = 0.0
    gaps[:-1] -= start[1:]
    E = len(curves.v)
    first, gaps = forcing[..., None], gaps.reshape(E, -1, 1)
    if curves.p.shape[1]:
        signs = random_signs(curves.elements)
        first, gaps = first * signs[:, None, None], gaps * signs[:, None]
    rounded, rounded_gaps = rounding(curves)
    nothing = np.zeros((E, gaps.shape[1], 1))
    forcings = np.concatenate([first, unit_forcing(curves)[..., None], rounded[..., None]], axis=-1)
    step = linear.solve(curves, forcings, np.concatenate([gaps, nothing, rounded_gaps[..., None]], axis=-1), None)
    error = step.column(0)
    sensitivity, rounding_error = (curves.norm(step.column(c)) for c in (-2, -1))
    between = curves.with_values(*error).seen()
    within = curves.scales[:, :1, None] * np.matmul(b.richer_at_look, bends)
    return Errors(between + within, largest_of(within), step.p[..., :-2], sensitivity, rounding_error)


def unit_forcing(curves: Splines) -> np.ndarray:
    """A force (E, k, D) of pi^2 in every direction, without symmetry."""
    E, k, D = curves.v.shape
    size = np.pi**2 * (1.0 + 0.5 * np.cos(1.0 + 3.0 * (curves.t[curves.left] + 0.5 * curves.h)))
    signs = np.where(np.arange(D) % 3 == 2, -1.0, 1.0)
    return np.ascontiguousarray(np.broadcast_to(size[:, None, None] * signs, (E, k, D)))


def rounding(curves: Splines) -> tuple[np.ndarray, np.ndarray]:
    """Forces (E, k, D) and gaps (E, n) of the size of rounding errors: one in each v, and one in each state."""
    eps = np.finfo(float).eps
    E, k, D = curves.v.shape
    place = np.arange(E) - curves.elements[curves.member]  # signs must not depend on the rest of a batch
    signs = np.where((k * D * place[:, None] + np.arange(k * D)) % 5 < 2, -eps, eps).reshape(E, k, D)
    return signs * np.abs(curves.v), eps * curves.z[curves.left].reshape(E, -1)


def local_errors(curves: Splines, linear: Linearised, defects: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """e^(q) (E, K, D) on elements by themselves, and what of J e is left for the rest (E, k, D).

    Where Jacobians matter little on the scale of an element, e^(q) = -r, and J e is a small force on
    the curve as a whole. Where they matter, the element's own equation is solved at all K points.
    """
    E, K, D = defects.shape
    b, J = curves.basis, linear.jacobians
    k, q = b.k, curves.order
    bends = -defects
    forcing, stiffness = np.empty((E, k, D)), np.empty(E)
    states = np.matmul(b.tested.reshape(-1, K), bends).reshape(E, q, k, k, D)
    loops.tested_forces(curves.scales, J, states, forcing, stiffness)
    stiff = np.flatnonzero(stiffness > STIFF_FROM)
    if len(stiff):
        everywhere = np.matmul(b.value, J[stiff].reshape(len(stiff), k, -1)).reshape(-1, K, q, D, D)
        matrices = np.empty((len(stiff), K * D, K * D))
        loops.assemble_elements(curves.scales[stiff], everywhere, b.richer, matrices)
        right = bends[stiff].reshape(len(stiff), K * D, 1)
        bends[stiff] = products(inverted(matrices, D), right, D).reshape(-1, K, D)
        forcing[stiff] = 0.0
    return bends, forcing


# --- singular problems ----------------------------------------------------------------------------


def is_lost(linear: Linearised, errors: Errors) -> np.ndarray:
    """Whether it may be for a singular problem that Newton's method ends without a solution, by member."""
    if isinstance(linear, LinearStates):
        return linear.condition() > SINGULAR_FROM
    with np.errstate(invalid="ignore"):
        return errors.sensitivity > SUSPICIOUS**2


def doubtful(curves: Splines, linear: Linearised, errors: Errors) -> np.ndarray:
    """Whether the mesh cannot tell the linearised problems from singular ones, by member."""
    if isinstance(linear, LinearStates):
        condition = linear.condition()
        suspicious, out = condition > SUSPICIOUS, condition > SINGULAR_FROM
    else:
        suspicious = ~(errors.sensitivity < SUSPICIOUS)
        out = np.zeros_like(suspicious)
    members = np.flatnonzero(suspicious)
    if len(members):
        out[members] |= is_doubtful(curves.take(members), linear.take(curves, members))
    return out


def is_doubtful(curves: Splines, linear: Linearised) -> np.ndarray:
    """Whether a mesh cannot tell linearised problems from singular ones, by inverse iteration.

    Inverse iteration finds the change u that the equations resist least, u^(q) - sum_m J_m u^(m) - f_p u_p = force. Its
    defect between the Gauss points is an error of these equations; a problem is in doubt if that error alone could move
    the curve about as far as u itself, or if rounding could.
    """
    b, k = curves.basis, curves.basis.k
    E, _, D = curves.v.shape
    forcing, closed = unit_forcing(curves), np.zeros((E, curves.order * D, 1))
    natural = curves.norm(Step(0.0 * curves.z, forcing, curves.p))
    for _ in range(3):
        step = linear.solve(curves, forcing[..., None], closed, None).column(0)
        length = curves.norm(step)
        shape = curves.with_values(*step)
        scale = (natural / length)[curves.member][:, None, None]
        at_gauss = shape.states(gauss_only=True)[1][:, :, 0]
        last, forcing = forcing, scale * at_gauss * np.pi**2
    states = shape.states()[1]
    K = len(b.points)
    J = np.matmul(b.value, linear.jacobians.reshape(E, k, -1)).reshape(E, K, -1, D, D)
    forces = np.einsum("epmij,epmj->epi", J, states)
    forces += np.matmul(b.value, np.einsum("ekdp,ep->ekd", linear.by_p, step.p[curves.member]))
    defects = np.matmul(b.value, shape.v - last) - forces
    defects -= np.matmul(b.value, defects[:, :k])
    missed = estimated_errors(shape, linear, defects)
    size = curves.largest(largest_of(missed.between))
    invisible = np.finfo(float).eps ** -0.5  # where half of all digits are lost
    with np.errstate(invalid="ignore"):
        return ~((size < DOUBT * length) & (missed.sensitivity < invisible))


# --- error bars -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bars:
    """Error bars of a batch of curves: E_i(t) = g_i(t) Z_i(t), Z_i of the Wiener shape.

    Attributes
    ----------
    envelope (rows, D) : g at the nodes
    free (B, 2, D) : variances of Z at ends where no condition gives the curve, or None
    largest (B,) : the largest standard deviation
    scale (B,) : g on the average
    """

    envelope: np.ndarray
    free: np.ndarray | None
    largest: np.ndarray
    scale: np.ndarray


def error_bars(curves: Splines, between: np.ndarray, others: np.ndarray, known: np.ndarray) -> Bars:
    """g is the size of e / k(t, t)^(1/2) on the average of an element and its neighbours, for errors (E, P, D).

    Errors of neighbours say how large an error may be; how it goes to and fro within an element says little, and far
    away it may be of another order of magnitude. `others` (B, D): errors of rounding, and those that Newton's method
    left, count where they are the largest. Ends that are not `known` (2, D) have errors too, as large as elsewhere.
    """
    k = variances(curves)[..., None]
    number = np.diff(curves.elements)
    free = None
    if not known.all():
        mean = np.add.reduceat(k.mean(axis=(1, 2)), curves.elements[:-1]) / number
        free = mean[:, None, None] * ~known
        line = (curves.t[curves.left][:, None] + curves.h[:, None] * curves.basis.look)[..., None]
        own = free[curves.member]
        k = k + (1 - line) ** 2 * own[:, None, 0] + line**2 * own[:, None, 1]
    highest = k.max(axis=1)
    least = others**2 / np.maximum.reduceat(highest, curves.elements[:-1])
    sizes = np.sqrt(np.mean(between**2 / k, axis=1) + least[curves.member])
    envelope = np.empty((len(curves.t), sizes.shape[1]))
    loops.smooth(curves.elements, sizes, DECAY, envelope)
    around = np.maximum(envelope[curves.left], envelope[curves.left + 1])
    largest = curves.largest((around * np.sqrt(highest)).max(axis=1))
    scale = np.add.reduceat(sizes.mean(axis=1), curves.elements[:-1]) / number
    return Bars(envelope, free, largest, scale)


def variances(curves: Splines) -> np.ndarray:
    """k(t, t) of the Wiener shape where errors are looked at (E, P)."""
    look, E = curves.basis.look, len(curves.v)
    out = np.empty((E, LOOKS))
    if curves.order == 1:
        line = (curves.t[curves.left][:, None] + curves.h[:, None] * look).ravel()
        shape = ErrorShape.on(curves.t, curves.offsets, 1, True)
        out = shape.cov(np.repeat(curves.member, LOOKS), line, line)[:, 0, 0].reshape(E, LOOKS)
    else:
        loops.pinned_variances(curves.t, curves.offsets, look, out)
    return out


def parameter_covariances(p: np.ndarray, errors: np.ndarray, left: np.ndarray) -> np.ndarray:
    """Of parameters (B, P): from their errors (B, P, 1 + DRAWS), and from those `left` by Newton's method (B, P).

    The mean product with random signs, scaled to fit the error itself; no less than rounding.
    """
    B, P, _ = errors.shape
    if not P:
        return np.zeros((B, 0, 0))
    drawn = np.einsum("bir,bjr->bij", errors[..., 1:], errors[..., 1:]) / DRAWS
    variance = np.einsum("bii->bi", drawn)
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = np.where(variance > 0, errors[..., 0] ** 2 / variance, 0.0)
    scale = np.sqrt(np.maximum(ratio, LEAST))
    out = drawn * scale[:, :, None] * scale[:, None, :]
    out[:, np.arange(P), np.arange(P)] += (8 * np.finfo(float).eps * np.abs(p)) ** 2 + left**2
    return out
