"""The error of a solved boundary value problem, with its sign, and the error bars made of it.

The error e = (solution) - p obeys e'' = J0 e + J1 e' - r, with r = p'' - f the defect of the curve
p. The defect vanishes at the Gauss points, where the curve was fitted, so that it has to be looked
at elsewhere: it is interpolated from all points of an element. On each element a polynomial of
higher degree, with zero ends, takes up this defect; the slopes of neighbours then jump at the
nodes, and the factorised equations of the last Newton step say what that does to the whole curve.
It costs one substitution and no Jacobians.
"""

from dataclasses import dataclass

import numpy as np

from probgeo.ode.markov import boundary_loops as loops
from probgeo.ode.markov.collocation import Basis, Chains, Linearised, inverted, largest_of, looking, times

# Of the weights of neighbours. On 67 problems with known solutions, rtol from 1e-2 to 1e-8:
# coverage .94 to .97, median normalised squared error .84 to .91; exp(-1/2): .93 to .96 and
# .96 to 1.16.
DECAY = np.exp(-1.0)
DOUBT = 0.1  # share of a change that its own defect may bring about
STIFF = 2.0  # h^2 |J0| + h |J1| from which on the local error needs the Jacobians


@dataclass(frozen=True)
class Errors:
    """Estimated errors of a batch of curves.

    Attributes
    ----------
    at_nodes (rows, D)
    between (E, P, D) : at equal steps within the elements
    local (E,) : the largest that an element itself is to blame for
    variances (E, P) : k(t, t) of the Wiener shape, where the errors are
    sensitivity (B,) : how far a force of pi^2 / duration^2 moves the curve: 1.2 if there is no
        other force, less if these hold it back, without bound if the problem is singular
    rounding (B,) : about the error that rounding leaves
    """

    at_nodes: np.ndarray
    between: np.ndarray
    local: np.ndarray
    variances: np.ndarray
    sensitivity: np.ndarray
    rounding: np.ndarray


def estimated_errors(curves: Chains, linear: Linearised, defects: np.ndarray) -> Errors:
    """Errors from the defects (E, K, D), which vanish at the Gauss points."""
    b, look = curves.basis, looking(curves.basis.k)
    h = curves.h
    bends, forcing = local_errors(b, h, linear.jacobians, defects)
    slopes = h[:, None, None] * np.matmul(b.richer_slope_at_ends, bends)
    jumps = np.zeros((*curves.y.shape, 3))
    jumps[curves.left, :, 0] += slopes[:, 0]
    jumps[curves.left + 1, :, 0] -= slopes[:, 1]
    rounded, jumps[..., 2] = rounding(curves)
    y, v = linear.solve(np.stack([forcing, unit_forcing(curves), rounded], axis=-1), jumps)
    y, v = (np.ascontiguousarray(np.moveaxis(x, -1, 0)) for x in (y, v))
    sensitivity, rounding_error = (curves.norm(y[c], v[c]) for c in (1, 2))
    y, v = y[0], v[0]
    within = np.square(h)[:, None, None] * np.matmul(look.richer_position, bends)
    moved = np.square(h)[:, None, None] * np.matmul(look.position, v)
    s = look.points[:, None]
    ends = y[curves.left][:, None] * (1 - s) + y[curves.left + 1][:, None] * s
    variances = np.empty(within.shape[:2])
    loops.pinned_variances(curves.t, curves.offsets, look.points, variances)
    local = largest_of(within)
    return Errors(y, within + moved + ends, local, variances, sensitivity, rounding_error)


def unit_forcing(curves: Chains) -> np.ndarray:
    """A force (E, k, D) of pi^2 / duration^2 in every direction, without symmetry."""
    E, k, D = curves.v.shape
    begin, end = curves.t[curves.offsets[:-1]], curves.t[curves.offsets[1:] - 1]
    duration = (end - begin)[curves.member]
    passed = (curves.t[curves.left] + 0.5 * curves.h - begin[curves.member]) / duration
    size = (np.pi / duration) ** 2 * (1.0 + 0.5 * np.cos(1.0 + 3.0 * passed))
    signs = np.where(np.arange(D) % 3 == 2, -1.0, 1.0)
    return np.ascontiguousarray(np.broadcast_to(size[:, None, None] * signs, (E, k, D)))


def rounding(curves: Chains) -> tuple[np.ndarray, np.ndarray]:
    """Forces (E, k, D) and jumps of slopes (rows, D) of the size of rounding errors.

    Of one rounding in each acceleration, and in each difference of positions that makes a slope.
    """
    eps = np.finfo(float).eps
    signs = np.where(np.arange(curves.v.size) % 5 < 2, -eps, eps).reshape(curves.v.shape)
    forces = signs * np.abs(curves.v)
    jumps = np.zeros_like(curves.y)
    steps = eps / curves.h[:, None]
    jumps[curves.left] += steps * curves.y[curves.left]
    jumps[curves.left + 1] -= steps * curves.y[curves.left + 1]
    return forces, jumps


@dataclass(frozen=True)
class Bars:
    """Error bars of a batch of curves: E_i(t) = g_i(t) Z_i(t), Z_i of the Wiener shape.

    Attributes
    ----------
    envelope (rows, D) : g at the nodes
    largest (B,) : the largest standard deviation
    scale (B,) : g on the average
    """

    envelope: np.ndarray
    largest: np.ndarray
    scale: np.ndarray


def error_bars(curves: Chains, errors: Errors, left: np.ndarray) -> Bars:
    """g is the size of e / k(t, t)^(1/2) on the average of an element and its neighbours.

    Errors of neighbours say how large an error may be; how it goes to and fro within an element
    says little, and far away it may be of another order of magnitude. `left` (B, D) are errors that
    Newton's method left; they and rounding count where they are the largest.
    """
    squares = np.mean(errors.between**2 / errors.variances[..., None], axis=1)
    rounded = 4 * np.maximum(errors.rounding, np.finfo(float).eps * curves.size())
    others = rounded[:, None] ** 2 + left**2
    least = others / curves.largest(errors.variances.max(axis=1))[:, None]
    sizes = np.sqrt(squares + least[curves.member])
    envelope = smoothed(curves, sizes)
    highest = np.maximum(envelope[curves.left], envelope[curves.left + 1]).max(axis=1)
    largest = curves.largest(highest * np.sqrt(errors.variances.max(axis=1)))
    number = np.diff(curves.elements)
    scale = np.add.reduceat(sizes.mean(axis=1), curves.elements[:-1]) / number
    return Bars(envelope, largest, scale)


def smoothed(curves: Chains, sizes: np.ndarray) -> np.ndarray:
    """Envelopes at the nodes (rows, D); sizes (E, D) are averaged over neighbours in place."""
    envelope = np.empty((len(curves.t), sizes.shape[1]))
    loops.smooth(curves.elements, sizes, DECAY, envelope)
    return envelope


def local_errors(b: Basis, h: np.ndarray, jacobians: np.ndarray, defects: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """e'' (E, K, D) on elements with zero ends, and what of J e is left for the rest (E, k, D).

    Where Jacobians matter little on the scale of an element, e'' = -r, and J e is a small force on
    the curve as a whole. Where they matter, the element's own equation is solved at all K points.
    """
    _, K, D = defects.shape
    k = b.k
    bends = -defects
    position = np.square(h)[:, None, None] * np.matmul(b.richer_position[:k], bends)
    slope = h[:, None, None] * np.matmul(b.richer_slope[:k], bends)
    forcing = np.empty_like(position)
    loops.forces(jacobians, position, slope, forcing)
    size = np.abs(jacobians).sum(axis=-1).max(axis=(1, 3))  # (E, 2)
    stiff = np.flatnonzero(h**2 * size[:, 0] + h * size[:, 1] > STIFF)
    if len(stiff):
        flat = jacobians[stiff].reshape(len(stiff), k, -1)
        everywhere = np.matmul(b.value, flat).reshape(len(stiff), K, 2, D, D)
        matrices = np.empty((len(stiff), K * D, K * D))
        loops.assemble(h[stiff], everywhere, b.richer_position, b.richer_slope, matrices)
        right = bends[stiff].reshape(len(stiff), K * D, 1)
        bends[stiff] = times(inverted(matrices, D), right, D).reshape(-1, K, D)
        forcing[stiff] = 0.0
    return bends, forcing


def is_doubtful(curves: Chains, linear: Linearised) -> np.ndarray:
    """Whether the mesh can tell the linearised problems from singular ones, by member.

    Inverse iteration finds the change u that the equations resist least,
    u'' - J0 u - J1 u' = force. Its defect between the Gauss points is an error of these equations;
    a problem is in doubt if that error alone could move the curve about as far as u itself, or if
    rounding could.
    """
    b, k = curves.basis, curves.basis.k
    y = np.zeros_like(curves.y)
    v = forcing = unit_forcing(curves)
    natural = curves.norm(0.0 * y, forcing)
    for _ in range(3):
        y, v = (x[..., 0] for x in linear.solve(forcing[..., None]))
        length = curves.norm(y, v)
        shape = Chains(curves.t, curves.offsets, y, v)
        scale = (natural / length)[curves.member][:, None, None]
        last, forcing = forcing, scale * _on_gauss(shape) * _inverse_square(curves)
    states = shape.states()[1]
    E, K, _, D = states.shape
    everywhere = np.matmul(b.value, linear.jacobians.reshape(E, k, -1)).reshape(E, K, 2, D, D)
    forces = np.empty((E, K, D))
    position, slope = (np.ascontiguousarray(states[:, :, d]) for d in (0, 1))
    loops.forces(everywhere, position, slope, forces)
    defects = np.matmul(b.value, v - last) - forces
    defects = defects - np.matmul(b.value, defects[:, :k])
    missed = estimated_errors(shape, linear, defects)
    at_nodes = curves.largest_at_nodes(np.abs(missed.at_nodes).max(axis=1))
    size = np.maximum(at_nodes, curves.largest(largest_of(missed.between)))
    invisible = np.finfo(float).eps ** -0.5  # where half of all digits are lost
    with np.errstate(invalid="ignore"):
        return ~((size < DOUBT * length) & (missed.sensitivity < invisible))


def _on_gauss(curves: Chains) -> np.ndarray:
    """Positions at the Gauss points (E, k, D)."""
    return np.ascontiguousarray(curves.states(gauss_only=True)[1][:, :, 0])


def _inverse_square(curves: Chains) -> np.ndarray:
    """(pi / duration)^2 of the member of every element, (E, 1, 1)."""
    duration = curves.t[curves.offsets[1:] - 1] - curves.t[curves.offsets[:-1]]
    return ((np.pi / duration) ** 2)[curves.member][:, None, None]
