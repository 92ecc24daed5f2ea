"""Differential equations with known solutions, shared by the tests and the benchmarks.

Boundary value problems are second order with Dirichlet data, y'' = f(t, y, y'), y(t0) = ya,
y(t1) = yb, and every one of them has a closed-form solution. `cash(number, epsilon)` follows the
numbering of

    F. Mazzia and J. R. Cash, A Fortran test set for boundary value problem solvers,
    AIP Conference Proceedings 1648, 020009 (2015),

restricted to the second-order problems that have a closed form. Initial value problems have a
closed form where one exists and otherwise a reference computed once, to nearly full precision.

Each right-hand side is written once, for NumPy and JAX alike (`xp` is the array module), so that
classical solvers and ours are given exactly the same equation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special
from scipy.integrate import solve_ivp
from scipy.optimize import brentq

jax.config.update("jax_enable_x64", True)

Array = np.ndarray


# --- boundary value problems ----------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class BVP:
    """y'' = f(t, y, y') with y(t0) = ya and y(t1) = yb, and what is known about its solution."""

    name: str
    f: Callable  # JAX: f(t, y (D,), dy (D,)) -> (D,)
    t_span: tuple[float, float]
    ya: Array  # (D,)
    yb: Array  # (D,)
    solution: Callable[[Array], Array]  # NumPy: t (T,) -> (T, D)
    scipy_fun: Callable  # NumPy: t (m,), state (2D, m) -> (2D, m)
    scipy_jac: Callable  # NumPy: t (m,), state (2D, m) -> (2D, 2D, m)
    epsilon: float | None = None
    # f(t, y, dy) = field(t, y, dy, parameters): copies that differ in a parameter share `field`,
    # so that a batch of them can be mapped over `parameters` and compiled once.
    field: Callable | None = None
    parameters: float = 0.0


class Equation(NamedTuple):
    """A second-order equation, for arrays y, dy of shape (D,) or (D, m) and one parameter."""

    acceleration: Callable  # (t, y, dy, parameter, xp) -> like y
    partials: Callable  # (t, y, dy, parameter) -> its derivatives in y and dy, each (D, D, m)
    field: Callable  # the JAX version of `acceleration`


def _equation(acceleration: Callable, partials: Callable) -> Equation:
    return Equation(acceleration, partials, partial(acceleration, xp=jnp))


def _bvp(name: str, equation: Equation, parameter: float, t_span, solution, epsilon=None) -> BVP:
    """Assemble a problem; the boundary values are those of the known solution."""

    def f(t, y, dy):
        return equation.field(t, y, dy, parameter)

    def scipy_fun(t, state):
        y, dy = np.split(state, 2)
        return np.concatenate((dy, equation.acceleration(t, y, dy, parameter, xp=np)))

    def scipy_jac(t, state):
        y, dy = np.split(state, 2)
        d, m = y.shape
        jac = np.zeros((2 * d, 2 * d, m))
        jac[:d, d:] = np.eye(d)[:, :, None]
        jac[d:, :d], jac[d:, d:] = equation.partials(t, y, dy, parameter)
        return jac

    ya, yb = solution(np.array(t_span))
    return BVP(
        name=name,
        f=f,
        t_span=t_span,
        ya=ya,
        yb=yb,
        solution=solution,
        scipy_fun=scipy_fun,
        scipy_jac=scipy_jac,
        epsilon=epsilon,
        field=equation.field,
        parameters=parameter,
    )


class _Cash(NamedTuple):
    t_span: tuple[float, float]
    equation: Equation
    solution: Callable  # (t, epsilon) -> like t


def _linear(coefficients: Callable) -> Equation:
    """y'' = a y' + b y + c with (a, b, c) = coefficients(t, epsilon, xp)."""

    def acceleration(t, y, dy, e, xp):
        a, b, c = coefficients(t, e, xp)
        return a * dy + b * y + c

    def partials(t, y, dy, e):
        a, b, _ = coefficients(t, e, np)
        return b, a

    return _equation(acceleration, partials)


_UNIT = (0.0, 1.0)
_SYMMETRIC = (-1.0, 1.0)


def _cosine_forcing(t, e, xp):
    return -(1 / e + np.pi**2) * xp.cos(np.pi * t)


def _drift(t, xp):
    """The coefficient of y' in problem 3."""
    return 2 + xp.cos(np.pi * t)


def _decaying_sinh(s, length, rate):
    """sinh(rate s) / sinh(rate length) for 0 <= s <= length, without overflow."""
    ratio = -np.expm1(-2 * rate * s) / -np.expm1(-2 * rate * length)
    return np.exp(rate * (s - length)) * ratio


def _corner(t, e):
    """t erf(z) + sqrt(2 e / pi) exp(-z^2), z = t / sqrt(2 e): a smooth |t| (problem 7)."""
    z = t / np.sqrt(2 * e)
    return t * special.erf(z) + np.sqrt(2 * e / np.pi) * np.exp(-(z**2))


def _step(t, e):
    z = 1 / np.sqrt(2 * e)
    return special.erf(t * z) / special.erf(z)


def _airy(t, e):
    """Problem 15: the combination of Ai and Bi that is one at both ends."""
    s = e ** (-1 / 3)

    def basis(t):
        ai, _, bi, _ = special.airy(s * t)
        return np.stack((ai, bi), axis=-1)

    ends = basis(np.array(_SYMMETRIC))
    scale = np.abs(ends).max(axis=0)  # Ai decays as fast as Bi grows
    return basis(t) / scale @ np.linalg.solve(ends / scale, np.ones(2))


def _log_cosh(x):
    return np.logaddexp(x, -x) - np.log(2)


_CASH = {
    1: _Cash(_UNIT, _linear(lambda t, e, xp: (0.0, 1 / e, 0.0)), lambda t, e: _decaying_sinh(1 - t, 1.0, e**-0.5)),
    2: _Cash(_UNIT, _linear(lambda t, e, xp: (1 / e, 0.0, 0.0)), lambda t, e: np.expm1((t - 1) / e) / np.expm1(-1 / e)),
    3: _Cash(
        _SYMMETRIC,
        _linear(
            lambda t, e, xp: (
                -_drift(t, xp) / e,
                1 / e,
                _cosine_forcing(t, e, xp) - _drift(t, xp) * np.pi * xp.sin(np.pi * t) / e,
            )
        ),
        lambda t, e: np.cos(np.pi * t),
    ),
    4: _Cash(
        _SYMMETRIC,
        _linear(lambda t, e, xp: (-1 / e, (1 + e) / e, 0.0)),
        lambda t, e: np.exp(t - 1) + np.exp(-(1 + e) * (1 + t) / e),
    ),
    5: _Cash(
        _SYMMETRIC,
        _linear(lambda t, e, xp: (t / e, 1 / e, _cosine_forcing(t, e, xp) + np.pi * t * xp.sin(np.pi * t) / e)),
        lambda t, e: np.cos(np.pi * t),
    ),
    6: _Cash(
        _SYMMETRIC,
        _linear(lambda t, e, xp: (-t / e, 0.0, -(np.pi**2) * xp.cos(np.pi * t) - np.pi * t * xp.sin(np.pi * t) / e)),
        lambda t, e: np.cos(np.pi * t) + _step(t, e),
    ),
    7: _Cash(
        _SYMMETRIC,
        _linear(lambda t, e, xp: (-t / e, 1 / e, _cosine_forcing(t, e, xp) - np.pi * t * xp.sin(np.pi * t) / e)),
        lambda t, e: np.cos(np.pi * t) + t + _corner(t, e) / _corner(1.0, e),
    ),
    8: _Cash(_UNIT, _linear(lambda t, e, xp: (-1 / e, 0.0, 0.0)), lambda t, e: 1 + np.expm1(-t / e) / np.expm1(-1 / e)),
    9: _Cash(
        _SYMMETRIC, _linear(lambda t, e, xp: (-4 * t / (e + t**2), -2 / (e + t**2), 0.0)), lambda t, e: 1 / (e + t**2)
    ),
    10: _Cash(_SYMMETRIC, _linear(lambda t, e, xp: (-t / e, 0.0, 0.0)), lambda t, e: 1 + _step(t, e)),
    11: _Cash(
        _SYMMETRIC, _linear(lambda t, e, xp: (0.0, 1 / e, _cosine_forcing(t, e, xp))), lambda t, e: np.cos(np.pi * t)
    ),
    12: _Cash(
        _SYMMETRIC,
        _linear(lambda t, e, xp: (0.0, 1 / e, _cosine_forcing(t, e, xp))),
        lambda t, e: np.cos(np.pi * t) + _decaying_sinh(1 + t, 2.0, e**-0.5),
    ),
    13: _Cash(
        _SYMMETRIC,
        _linear(lambda t, e, xp: (0.0, 1 / e, _cosine_forcing(t, e, xp))),
        lambda t, e: np.cos(np.pi * t) + np.exp(-(1 + t) / np.sqrt(e)),
    ),
    14: _Cash(
        _SYMMETRIC,
        _linear(lambda t, e, xp: (0.0, 1 / e, _cosine_forcing(t, e, xp))),
        lambda t, e: np.cos(np.pi * t) + np.exp(-(1 + t) / np.sqrt(e)) + np.exp((t - 1) / np.sqrt(e)),
    ),
    15: _Cash(_SYMMETRIC, _linear(lambda t, e, xp: (0.0, t / e, 0.0)), _airy),
    16: _Cash(
        _UNIT, _linear(lambda t, e, xp: (0.0, -((np.pi / (2 * e)) ** 2), 0.0)), lambda t, e: np.sin(np.pi * t / (2 * e))
    ),
    17: _Cash(
        (-0.1, 0.1), _linear(lambda t, e, xp: (0.0, -3 * e / (e + t**2) ** 2, 0.0)), lambda t, e: t / np.sqrt(e + t**2)
    ),
    18: _Cash(_UNIT, _linear(lambda t, e, xp: (-1 / e, 0.0, 0.0)), lambda t, e: np.exp(-t / e)),
    20: _Cash(
        _UNIT,
        _equation(lambda t, y, dy, e, xp: (1 - dy**2) / e, lambda t, y, dy, e: (0.0, -2 * dy / e)),
        lambda t, e: 1 + e * _log_cosh((t - 0.745) / e),
    ),
    21: _Cash(
        _UNIT,
        _equation(
            lambda t, y, dy, e, xp: (y + y**2 - xp.exp(-2 * t / xp.sqrt(e))) / e,
            lambda t, y, dy, e: ((1 + 2 * y) / e, 0.0),
        ),
        lambda t, e: np.exp(-t / np.sqrt(e)),
    ),
}

CASH_NUMBERS = tuple(_CASH)


def _off_resonance(epsilon: float) -> float:
    """Problem 16 is singular if 1/epsilon is even; take the next odd number if it is that close."""
    frequency = 1 / epsilon
    if abs(np.sin(np.pi * frequency / 2)) >= 0.5:
        return epsilon
    return 1 / (2 * np.floor(frequency / 2 + 1e-9) + 1)


def cash(number: int, epsilon: float) -> BVP:
    """Problem `number` of Mazzia and Cash; the smaller epsilon, the thinner its layers.

    Problem 16 moves an epsilon at which it has no unique solution to a nearby one (0.1 becomes
    1/11): the value used is `BVP.epsilon`.
    """
    epsilon = float(epsilon)
    if number == 16:
        epsilon = _off_resonance(epsilon)
    t_span, equation, closed_form = _CASH[number]

    def solution(t):
        return closed_form(np.asarray(t, float), epsilon)[:, None]

    name = f"cash{number:02d}"
    return _bvp(name, equation, epsilon, t_span, solution, epsilon)


_BRATU = _equation(lambda t, y, dy, lam, xp: -lam * xp.exp(y), lambda t, y, dy, lam: (-lam * np.exp(y), 0.0))


def bratu(lam: float = 1.0) -> BVP:
    """Bratu's problem y'' = -lam e^y, y(0) = y(1) = 0: the lower of its two solutions.

    y = 2 log(cosh(theta / 4) / cosh(theta (t - 1/2) / 2)) where theta = sqrt(2 lam) cosh(theta/4).
    """

    def mismatch(theta):
        return theta - np.sqrt(2 * lam) * np.cosh(theta / 4)

    # The two branches meet where the derivative of theta / cosh(theta / 4) vanishes.
    fold = brentq(lambda theta: theta / 4 * np.tanh(theta / 4) - 1, 4.0, 6.0, xtol=1e-14)
    if mismatch(fold) < 0:
        raise ValueError(f"Bratu's problem has no solution for lam = {lam}")
    theta = brentq(mismatch, 0.0, fold, xtol=1e-15, rtol=1e-15)

    def solution(t):
        centred = np.asarray(t, float) - 0.5
        return 2 * (_log_cosh(theta / 4) - _log_cosh(theta * centred / 2))[:, None]

    return _bvp("bratu", _BRATU, float(lam), _UNIT, solution)


def _half_plane_acceleration(t, y, dy, _, xp):
    height = y[1]
    u, v = dy[0], dy[1]
    return xp.stack((2 * u * v / height, (v**2 - u**2) / height))


def _half_plane_partials(t, y, dy, _):
    height = y[1]
    u, v = dy
    zero = np.zeros_like(height)
    in_y = [[zero, -2 * u * v / height**2], [zero, (u**2 - v**2) / height**2]]
    in_dy = [[2 * v / height, 2 * u / height], [-2 * u / height, 2 * v / height]]
    return np.array(in_y), np.array(in_dy)


_HALF_PLANE = _equation(_half_plane_acceleration, _half_plane_partials)


def hyperbolic_geodesic(a=(-1.0, 0.5), b=(1.0, 1.0)) -> BVP:
    """The geodesic of the Poincaré half-plane from a to b, at constant speed on [0, 1].

    On the hyperboloid a geodesic is a combination of its two ends with weights sinh((1 - t) d)
    and sinh(t d), d their distance. The hyperboloid's coordinates include 1/y and x/y, so the same
    weights give both directly, and a vertical line needs no case of its own.
    """
    a, b = np.asarray(a, float), np.asarray(b, float)
    distance = 2 * np.arcsinh(np.linalg.norm(a - b) / (2 * np.sqrt(a[1] * b[1])))
    if not distance > 0:
        raise ValueError("the end points must differ and lie in the upper half-plane")

    def solution(t):
        t = np.asarray(t, float)
        weight_a = np.sinh((1 - t) * distance) / a[1]
        weight_b = np.sinh(t * distance) / b[1]
        x = (weight_a * a[0] + weight_b * b[0]) / (weight_a + weight_b)
        return np.stack((x, np.sinh(distance) / (weight_a + weight_b)), axis=-1)

    return _bvp("hyperbolic", _HALF_PLANE, 0.0, _UNIT, solution)


_PENDULUM = _equation(lambda t, y, dy, _, xp: -xp.sin(y), lambda t, y, dy, _: (-np.cos(y), 0.0))


def pendulum(k: float = 0.8, duration: float = 2.0) -> BVP:
    """y'' = -sin y from the rest position, y = 2 arcsin(k sn(t | k^2)); amplitude 2 arcsin k."""

    def solution(t):
        sn, _, _, _ = special.ellipj(np.asarray(t, float), k**2)
        return 2 * np.arcsin(k * sn)[:, None]

    return _bvp("pendulum", _PENDULUM, 0.0, (0.0, float(duration)), solution)


def _helix(t, turns, xp):
    """A curve in space with its first two derivatives, each (3,) or (3, m)."""
    c, s, one = xp.cos(turns * t), xp.sin(turns * t), xp.ones_like(t)
    return (
        xp.stack((c, s, t**2)),
        xp.stack((-turns * s, turns * c, 2 * t)),
        xp.stack((-(turns**2) * c, -(turns**2) * s, 2 * one)),
    )


def _rotate(v, xp):
    """e_3 x v."""
    return xp.stack((-v[1], v[0], xp.zeros_like(v[0])))


def _coupled_acceleration(t, y, dy, turns, xp):
    def force(y, dy):
        return (y**2).sum(axis=0) * y + _rotate(dy, xp)

    curve, velocity, acceleration = _helix(xp.asarray(t), turns, xp)
    return acceleration + force(y, dy) - force(curve, velocity)


def _coupled_partials(t, y, dy, _):
    eye = np.eye(3)[:, :, None]
    in_y = (y**2).sum(axis=0) * eye + 2 * y[:, None] * y[None]
    return in_y, np.stack([_rotate(e, np) for e in np.eye(3)], axis=1)[:, :, None]


_COUPLED = _equation(_coupled_acceleration, _coupled_partials)


def coupled(turns: float = 3.0) -> BVP:
    """y'' = |y|^2 y + e_3 x y' + g(t) in space, with g such that a helix solves it."""

    def solution(t):
        return _helix(np.asarray(t, float), turns, np)[0].T

    return _bvp("coupled", _COUPLED, float(turns), _UNIT, solution)


# --- initial value problems -----------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class IVP:
    """y' = f(t, y) if dy0 is None, else y'' = f(t, y, y'), from the initial values at t_span[0]."""

    name: str
    f: Callable  # JAX
    t_span: tuple[float, float]
    y0: Array  # (D,)
    dy0: Array | None  # (D,)
    solution: Callable[[Array], Array]  # NumPy: t (T,) -> (T, D)

    @property
    def order(self) -> int:
        return 1 if self.dy0 is None else 2

    def restarted(self, y0, dy0=None) -> IVP:
        """The same equation from other initial values, with a numerical reference."""
        solution = numerical_solution(self.f, self.t_span, y0, dy0)
        return replace(self, y0=y0, dy0=dy0, solution=solution)


def first_order(f: Callable, order: int) -> Callable:
    """The vector field on the state (y,) or (y, y'), as one flat array (JAX)."""
    if order == 1:
        return f

    def field(t, state):
        y, dy = jnp.split(state, 2)
        return jnp.concatenate((dy, f(t, y, dy)))

    return field


def numerical_solution(f: Callable, t_span, y0, dy0=None, tol: float = 3e-14) -> Callable:
    """A reference solution by SciPy's DOP853, computed when it is first evaluated."""
    order = 1 if dy0 is None else 2
    start = np.concatenate([np.asarray(v, float) for v in (y0, dy0) if v is not None])

    @cache
    def dense():
        field = jax.jit(first_order(f, order))
        result = solve_ivp(
            lambda t, state: np.asarray(field(t, state)),
            t_span,
            start,
            method="DOP853",
            rtol=tol,
            atol=tol,
            dense_output=True,
        )
        if not result.success:
            raise RuntimeError(result.message)
        return result.sol

    def solution(t):
        return dense()(np.asarray(t, float))[: start.size // order].T

    return solution


def _ivp(name: str, f: Callable, t_span, y0, dy0=None, solution: Callable | None = None) -> IVP:
    y0 = np.array(y0, float)
    dy0 = None if dy0 is None else np.array(dy0, float)
    return IVP(name, f, t_span, y0, dy0, solution or numerical_solution(f, t_span, y0, dy0))


def logistic(rate: float = 1.0, y0: float = 0.1) -> IVP:
    """y' = rate y (1 - y)."""

    def solution(t):
        return special.expit(rate * np.asarray(t, float) + special.logit(y0))[:, None]

    return _ivp("logistic", lambda t, y: rate * y * (1 - y), (0.0, 10.0), [y0], None, solution)


def harmonic(omega: float = 1.0) -> IVP:
    """y'' = -omega^2 y from (1, 0), over two turns."""

    def solution(t):
        return np.cos(omega * np.asarray(t, float))[:, None]

    span = (0.0, 4 * np.pi / omega)
    return _ivp("harmonic", lambda t, y, dy: -(omega**2) * y, span, [1.0], [0.0], solution)


def damped(omega: float = 3.0, zeta: float = 0.1) -> IVP:
    """y'' = -2 zeta omega y' - omega^2 y from (1, 0), underdamped: 0 < zeta < 1."""
    decay, frequency = zeta * omega, omega * np.sqrt(1 - zeta**2)

    def f(t, y, dy):
        return -2 * decay * dy - omega**2 * y

    def solution(t):
        t = np.asarray(t, float)
        phase = frequency * t
        wave = np.cos(phase) + decay / frequency * np.sin(phase)
        return (np.exp(-decay * t) * wave)[:, None]

    return _ivp("damped", f, (0.0, 10.0), [1.0], [0.0], solution)


def lotka_volterra() -> IVP:
    """Prey and predators, y1' = y1 / 2 - y1 y2 / 20 and y2' = y1 y2 / 20 - y2 / 2."""

    def f(t, y):
        prey, predators = y
        met = prey * predators / 20
        return jnp.stack((prey / 2 - met, met - predators / 2))

    return _ivp("lotka_volterra", f, (0.0, 20.0), [20.0, 20.0])


def _van_der_pol_field(mu: float) -> Callable:
    return lambda t, y, dy: mu * (1 - y**2) * dy - y


def van_der_pol(mu: float = 5.0) -> IVP:
    """y'' = mu (1 - y^2) y' - y from (2, 0)."""
    return _ivp("van_der_pol", _van_der_pol_field(mu), (0.0, 20.0), [2.0], [0.0])


def stiff_van_der_pol(mu: float = 100.0) -> IVP:
    """Van der Pol's slow branch, from a point on it to well before the first jump at 0.81 mu.

    The solution only drifts from 2 to 1.6 while its neighbours decay at a rate of 1.5 to 3 mu.
    """
    slow = -2 / (3 * mu)
    return _ivp("stiff_van_der_pol", _van_der_pol_field(mu), (0.0, mu / 2), [2.0], [slow])


def _cube_of_root(squared):
    """squared^(3/2), without the cost of a general power."""
    return squared * jnp.sqrt(squared)


def arenstorf() -> IVP:
    """One period of Arenstorf's orbit of the restricted three-body problem.

    Constants as in Hairer, Nørsett and Wanner, Solving Ordinary Differential Equations I,
    section II.0. The orbit closes: the solution returns to its start.
    """
    moon = 0.012277471
    earth = 1 - moon
    period = 17.0652165601579625588917206249

    def f(t, y, dy):
        rotation = y + 2 * jnp.stack((dy[1], -dy[0]))
        to_earth = y + jnp.array([moon, 0.0])
        to_moon = y - jnp.array([earth, 0.0])
        pull_of_earth = earth * to_earth / _cube_of_root(to_earth @ to_earth)
        return rotation - pull_of_earth - moon * to_moon / _cube_of_root(to_moon @ to_moon)

    start = [0.994, 0.0], [0.0, -2.00158510637908252240537862224]
    return _ivp("arenstorf", f, (0.0, period), *start)


def pleiades() -> IVP:
    """Seven stars in the plane, star i of mass i, y = (x_1..x_7, y_1..y_7), t in [0, 3].

    Initial values as in Hairer, Nørsett and Wanner I, section II.10.
    """
    mass = jnp.arange(1.0, 8.0)

    def f(t, y, dy):
        position = y.reshape(2, 7)
        offset = position[:, None, :] - position[:, :, None]
        # The identity keeps a star from dividing by its distance to itself.
        distance_squared = (offset**2).sum(axis=0) + jnp.eye(7)
        return (mass * offset / _cube_of_root(distance_squared)).sum(axis=-1).reshape(14)

    x = [3.0, 3.0, -1.0, -3.0, 2.0, -2.0, 2.0]
    y = [3.0, -3.0, 2.0, 0.0, 0.0, -4.0, 4.0]
    dx = [0.0, 0.0, 0.0, 0.0, 0.0, 1.75, -1.5]
    dy = [0.0, 0.0, 0.0, -1.25, 1.0, 0.0, 0.0]
    return _ivp("pleiades", f, (0.0, 3.0), x + y, dx + dy)


IVPS = (logistic, harmonic, damped, lotka_volterra, van_der_pol, stiff_van_der_pol, arenstorf, pleiades)
