"""Boundary value problems with general conditions and unknown parameters, against SciPy.

    OMP_NUM_THREADS=1 PROBGEO_THREADS=1 python benchmarks/general_bvps.py [name of a problem ...]

Both get the problem in the form they like best: we a JAX function of an ODE of its own order, SciPy
a first-order system of rows, with and without analytic Jacobians, from 5 and from 10 nodes; the
quickest of these four counts. Processor time of one thread at equal measured error, which is the
largest along the curve, and of the parameters, relative to the size of the solution.
"""

from __future__ import annotations

import itertools
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from measures import judged, time_needed, timed
from scipy.integrate import solve_bvp as scipys
from scipy.optimize import brentq

import probgeo
from probgeo import at, condition, periodic, robin, solvers

RESULTS = Path(__file__).parent / "results" / "general_bvps.md"
MEMBERS = 100
ONE_BY_ONE = 10  # of them by SciPy
TARGETS = (1e-3, 1e-5, 1e-7)
RTOLS = 10.0 ** -np.arange(2, 9)
TOLS = 10.0 ** -np.arange(1, 10)
T = 301  # times at which errors are seen


@dataclass(frozen=True)
class Family:
    """Problems that differ in one number a.

    f, conditions, order, p : ours, with first guesses of parameters
    rhs, jac (t, y, p, a), bc, bc_jac (ya, yb, p, a) : SciPy's
    start(t) : first guess (n, T) of the first-order system
    exact(t, a) : the curve (T,) and the parameters, if there is a closed form
    """

    name: str
    f: Callable
    conditions: list
    rhs: Callable
    bc: Callable
    jac: Callable
    bc_jac: Callable
    a: tuple[float, float]
    start: Callable
    t_span: tuple[float, float] = (0.0, 1.0)
    order: int = 2
    p: tuple[float, ...] = ()
    exact: Callable | None = None

    def ours(self, a: Any, rtol: float) -> Any:
        start = self.start(np.linspace(*self.t_span, 10))[:1].T
        return probgeo.solve_bvp(
            self.f, self.t_span, conditions=self.conditions, order=self.order, args=a,
            parameters=self.p or None, guess=np.broadcast_to(start, (*np.shape(a), 10, 1)),
            solver=solvers.Markov(rtol=rtol),
        )  # fmt: skip

    def scipys(self, a: float, tol: float, nodes: int = 10, jacobians: bool = True) -> Any:
        def bound(g: Callable) -> Callable:
            return (lambda x, y, p: g(x, y, p, a)) if self.p else (lambda x, y: g(x, y, None, a))

        t = np.linspace(*self.t_span, nodes)
        given = {"fun_jac": bound(self.jac), "bc_jac": bound(self.bc_jac)} if jacobians else {}
        return scipys(
            bound(self.rhs), bound(self.bc), t, self.start(t), self.p or None, tol=tol,
            max_nodes=20_000, **given,
        )  # fmt: skip

    def truths(self, t: np.ndarray, members: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Curves (B, T) and parameters (B, P), of the closed form or of SciPy at 1e-9."""
        if self.exact is not None:
            found = [self.exact(t, a) for a in members]
        else:
            answers = [self.scipys(a, 1e-9, nodes=101) for a in members]
            assert all(answer.success for answer in answers)
            found = [(answer.sol(t)[0], answer.p if self.p else ()) for answer in answers]
        return np.array([y for y, _ in found]), np.array([p for _, p in found])


def companion(*lowest_row: np.ndarray) -> np.ndarray:
    """Jacobians (n, n, T) of y^(n) = f as a first-order system, from those of f."""
    n, T = len(lowest_row), np.size(lowest_row[0])
    out = np.zeros((n, n, T))
    out[np.arange(n - 1), np.arange(1, n)] = 1.0
    out[-1] = np.stack([np.broadcast_to(x, T) for x in lowest_row])
    return out


def bratu_exact(upper: bool) -> Callable:
    def exact(t: np.ndarray, a: float) -> tuple[np.ndarray, tuple]:
        turn = brentq(lambda x: 1 - np.sqrt(2 * a) / 4 * np.sinh(x / 4), 1e-3, 40.0)
        between = (turn, 60.0) if upper else (0.0, turn)
        theta = brentq(lambda x: x - np.sqrt(2 * a) * np.cosh(x / 4), *between, xtol=1e-15)
        return -2 * np.log(np.cosh((t - 0.5) * theta / 2) / np.cosh(theta / 4)), ()

    return exact


def robin_exact(t: np.ndarray, a: float) -> tuple[np.ndarray, tuple]:
    # y = A e^(a t) + B e^(-a t), y(0) = 1, y/2 + y' = 0 at 1
    up, down = (0.5 + a) * np.exp(a), (0.5 - a) * np.exp(-a)
    A = -down / (up - down)
    return A * np.exp(a * t) + (1 - A) * np.exp(-a * t), ()


def wave_exact(t: np.ndarray, a: float) -> tuple[np.ndarray, tuple]:
    # y'' = -a k^2 y, y(0) = y(1) = 0, y'(0) = k
    return np.sin(2 * np.pi * t) / np.sqrt(a), (2 * np.pi / np.sqrt(a),)


def beam_exact(t: np.ndarray, a: float) -> tuple[np.ndarray, tuple]:
    # y^(4) = 1 - a y, clamped at 0, free at 1
    roots = a**0.25 * np.exp(1j * np.pi * (2 * np.arange(4) + 1) / 4)
    rows = [roots**0, roots, roots**2 * np.exp(roots), roots**3 * np.exp(roots)]
    factors = np.linalg.solve(np.array(rows), [-1 / a, 0, 0, 0])
    return 1 / a + (np.exp(np.outer(t, roots)) @ factors).real, ()


ENDS_ZERO = (
    [at(0.0, y=0.0), at(1.0, y=0.0)],
    lambda t, y, p, a: np.array([y[1], -a * np.exp(y[0])]),
    lambda ya, yb, p, a: np.array([ya[0], yb[0]]),
    lambda t, y, p, a: companion(-a * np.exp(y[0]), 0.0 * t),
    lambda ya, yb, p, a: (np.array([[1.0, 0], [0, 0]]), np.array([[0.0, 0], [1, 0]])),
    (0.5, 1.5),
)


def bratu(t, y, dy, a):
    return -a * jnp.exp(y)


def wave(t, y, dy, both):
    p, a = both
    return -a * p**2 * y


def fin(t, y, dy, a):
    return a**2 * y


def force(t, a, xp):
    """What makes exp(sin t) the periodic solution."""
    y = xp.exp(xp.sin(t))
    return y * (xp.cos(t) ** 2 - xp.sin(t) + 0.3 * xp.cos(t) + a) + y**3


def swing(t, y, dy, a):
    return -0.3 * dy - a * y - y**3 + force(t, a, jnp)


def beam(t, y, dy, d2y, d3y, a):
    return 1.0 - a * y


def oscillator(t, y, dy, both):
    p, a = both
    return p * a * (1 - y**2) * dy - p**2 * y


def start_slope(ya, dya, yb, dyb, p):
    return dya - p


def wave_jacobians(t, y, p, a):
    by_p = np.array([0.0 * t, -2 * a * p[0] * y[0]])
    return companion(-a * p[0] ** 2 + 0.0 * t, 0.0 * t), by_p[:, None]


def oscillator_jacobians(t, y, p, a):
    by_p = np.array([0.0 * t, a * (1 - y[0] ** 2) * y[1] - 2 * p[0] * y[0]])
    by_y = -2 * p[0] * a * y[0] * y[1] - p[0] ** 2
    return companion(by_y, p[0] * a * (1 - y[0] ** 2)), by_p[:, None]


CYCLE = np.array([[1.0, 0], [0, 1], [0, 1]]), np.array([[-1.0, 0], [0, -1], [0, 0]])
TURN = 2 * np.pi
FAMILIES = [
    Family(
        "Bratu, lower", bratu, *ENDS_ZERO, start=lambda t: np.zeros((2, len(t))),
        exact=bratu_exact(upper=False),
    ),
    Family(
        "Bratu, upper", bratu, *ENDS_ZERO, exact=bratu_exact(upper=True),
        start=lambda t: np.array([15 * t * (1 - t), 15 - 30 * t]),
    ),
    Family(
        "Sturm-Liouville", wave, [at(0.0, y=0.0), at(1.0, y=0.0), condition(start_slope)],
        lambda t, y, p, a: np.array([y[1], -a * p[0] ** 2 * y[0]]),
        lambda ya, yb, p, a: np.array([ya[0], yb[0], ya[1] - p[0]]),
        wave_jacobians,
        lambda ya, yb, p, a: (
            np.array([[1.0, 0], [0, 0], [0, 1]]), np.array([[0.0, 0], [1, 0], [0, 0]]),
            np.array([[0.0], [0], [-1]]),
        ),
        (0.9, 1.1), lambda t: np.array([np.sin(6 * t), 6 * np.cos(6 * t)]),
        p=(6.0,), exact=wave_exact,
    ),
    Family(
        "Robin", fin, [at(0.0, y=1.0), robin(1.0, y=0.5, dy=1.0)],
        lambda t, y, p, a: np.array([y[1], a**2 * y[0]]),
        lambda ya, yb, p, a: np.array([ya[0] - 1, yb[0] / 2 + yb[1]]),
        lambda t, y, p, a: companion(a**2 + 0.0 * t, 0.0 * t),
        lambda ya, yb, p, a: (np.array([[1.0, 0], [0, 0]]), np.array([[0, 0], [0.5, 1]])),
        (1.0, 6.0), lambda t: np.array([1 - t, -1 + 0.0 * t]), exact=robin_exact,
    ),
    Family(
        "periodic", swing, [periodic()],
        lambda t, y, p, a: np.array(
            [y[1], -0.3 * y[1] - a * y[0] - y[0] ** 3 + force(t, a, np)]
        ),
        lambda ya, yb, p, a: ya - yb,
        lambda t, y, p, a: companion(-a - 3 * y[0] ** 2, -0.3 + 0.0 * t),
        lambda ya, yb, p, a: (np.eye(2), -np.eye(2)),
        (1.5, 3.0), lambda t: np.array([1 + 0.0 * t, 0.0 * t]), (0.0, TURN),
        exact=lambda t, a: (np.exp(np.sin(t)), ()),
    ),
    Family(
        "beam", beam, [at(0.0, y=0.0, dy=0.0), at(1.0, d2y=0.0, d3y=0.0)],
        lambda t, y, p, a: np.array([y[1], y[2], y[3], 1 - a * y[0]]),
        lambda ya, yb, p, a: np.array([ya[0], ya[1], yb[2], yb[3]]),
        lambda t, y, p, a: companion(-a + 0.0 * t, 0.0 * t, 0.0 * t, 0.0 * t),
        lambda ya, yb, p, a: (np.diag([1.0, 1, 0, 0]), np.diag([0.0, 0, 1, 1])),
        (100.0, 5000.0), lambda t: np.zeros((4, len(t))), order=4, exact=beam_exact,
    ),
    Family(
        "van der Pol", oscillator, [periodic(), at(0.0, dy=0.0)],
        lambda t, y, p, a: np.array([y[1], p[0] * a * (1 - y[0] ** 2) * y[1] - p[0] ** 2 * y[0]]),
        lambda ya, yb, p, a: np.array([ya[0] - yb[0], ya[1] - yb[1], ya[1]]),
        oscillator_jacobians,
        lambda ya, yb, p, a: (*CYCLE, np.zeros((3, 1))),
        (0.5, 1.5), lambda t: np.array([2 * np.cos(TURN * t), -2 * TURN * np.sin(TURN * t)]),
        p=(6.5,),
    ),
]  # fmt: skip


def errors(y: np.ndarray, p: np.ndarray, truths: tuple) -> np.ndarray:
    """The largest of each member (B,), of curves (B, T) and parameters (B, P)."""
    of_curves = np.abs(y - truths[0]).max(axis=1) / np.abs(truths[0]).max(axis=1)
    if not p.size:
        return of_curves
    return np.maximum(of_curves, (np.abs(p - truths[1]) / np.abs(truths[1])).max(axis=1))


def swept(settings: Any, solve: Callable, of_answer: Callable, count: int) -> list[dict]:
    """Errors and seconds a problem, by setting."""
    rows = []
    for setting in settings:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            answer, seconds = timed(lambda s=setting: solve(s))
        rows.append({"time": seconds / count} | judged(*of_answer(answer)))
    return rows


def measured(family: Family) -> list[tuple]:
    """(target, ours in batches, ours alone, SciPy's), milliseconds a problem."""
    t, members = np.linspace(*family.t_span, T), np.linspace(*family.a, MEMBERS)
    few = members[:: MEMBERS // ONE_BY_ONE]
    truths = family.truths(t, members)
    of_few = tuple(x[:: MEMBERS // ONE_BY_ONE] for x in truths)

    def parameters(curve: Any) -> np.ndarray:
        return curve.parameters.mean if family.p else np.zeros((*curve.batch_shape, 0))

    def of_batch(curve: Any) -> tuple:
        return errors(curve.mean(t)[..., 0], parameters(curve), truths), curve.converged

    def of_alone(curves: list) -> tuple:
        y, p = (np.array([g(c) for c in curves]) for g in (lambda c: c.mean(t)[:, 0], parameters))
        return errors(y, p, of_few), [bool(c.converged) for c in curves]

    def of_scipy(found: list) -> tuple:
        p = np.array([r.p if family.p else () for r in found])
        return errors(np.array([r.sol(t)[0] for r in found]), p, of_few), [r.success for r in found]

    batches = swept(RTOLS, lambda rtol: family.ours(members, rtol), of_batch, MEMBERS)
    alone = swept(RTOLS, lambda rtol: [family.ours(a, rtol) for a in few], of_alone, ONE_BY_ONE)
    theirs = [
        swept(TOLS, lambda tol, n=n, j=j: [family.scipys(a, tol, n, j) for a in few], of_scipy, ONE_BY_ONE)
        for n, j in itertools.product((5, 10), (False, True))
    ]
    return [
        (goal, time_needed(batches, goal), time_needed(alone, goal),
         np.nanmin([time_needed(rows, goal) for rows in theirs]))
        for goal in TARGETS
    ]  # fmt: skip


def main() -> None:
    lines = RESULTS.read_text().splitlines() if RESULTS.exists() else []
    rows = {line.split("|")[1].strip(): [] for line in lines if line.startswith("| ")}
    for line in lines:
        if line.startswith("| "):
            rows[line.split("|")[1].strip()].append(line)
    for family in FAMILIES:
        if sys.argv[1:] and family.name not in sys.argv[1:]:
            continue
        rows[family.name] = []
        for goal, batch, alone, scipy in measured(family):
            cells = [f"{1e3 * x:.3g}" for x in (batch, alone, scipy)]
            cells += [f"{scipy / batch:.1f}", f"{scipy / alone:.1f}"]
            rows[family.name].append(f"| {family.name} | {goal:g} | " + " | ".join(cells) + " |")
            print(rows[family.name][-1], flush=True)
        write([line for one in FAMILIES for line in rows.get(one.name, [])])


def write(lines: list[str]) -> None:
    """The table so far, and what it comes to."""
    times = np.array([[float(x) for x in line.split("|")[3:6]] for line in lines])
    ratios = times[:, 2:] / times[:, :2]
    means, least = np.exp(np.mean(np.log(ratios), axis=0)), np.min(ratios, axis=0)
    text = [
        "# General boundary value problems against SciPy",
        "",
        "Written by `benchmarks/general_bvps.py`, which says how: processor milliseconds a problem "
        "on one thread, posterior included, at equal measured error relative to the size of the "
        f"solution. Batches of {MEMBERS}; alone, and SciPy, {ONE_BY_ONE} of them one by one.",
        "",
        f"Faster than SciPy in batches: {means[0]:.1f} times in the geometric mean, {least[0]:.1f} "
        f"at least. Alone: {means[1]:.1f} times, {least[1]:.1f} at least.",
        "",
        "Alone most of our time goes into a few thousand calls of Python and NumPy, whatever the "
        "problem. The first mesh, of eight elements, is good for errors of 1e-4 and less.",
        "",
        "| problem | error | batch, ms | alone, ms | SciPy, ms | SciPy / batch | SciPy / alone |",
        "|---|---|---|---|---|---|---|",
    ]
    RESULTS.write_text("\n".join(text + lines) + "\n")


if __name__ == "__main__":
    main()
