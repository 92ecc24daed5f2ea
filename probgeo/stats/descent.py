"""The point mu of least sum_i w_i d(mu, x_i)^p / p: a mean for p = 2, a median for p = 1.

Newton's method: with g_i = w_i d_i^(p-2), the gradient is -sum_i g_i Log_mu(x_i), and the Hessian follows from how the
logarithms change with their base. A step is kept if the sum really falls.

The logarithms are wrong by e_i ~ N(0, S_i), the numerical error. As long as they come from one mesh they are wrong in
the same way at each iteration, so that errors of mu obey

    error' = (I - B H) error + B e,   e = sum_i g_i e_i,

for a step mu' = exp_mu(B v): error = A e with A' = (I - B H) A + B. Steps of Newton have B = H^-1, and then A = H^-1
whatever was before; with the fixed rate of Eq. 5, B = alpha I, it gets there by and by.

Geodesics are solved roughly at first, and more precisely only where the numerical standard deviation of mu is more than
a fraction of its statistical standard error. The iteration ends with a step that is short compared with that, too; what
the next one would have added is part of the numerical covariance.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from probgeo.geometry import Manifold
from probgeo.geometry.logarithms import Logs, logarithms, with_finer_slopes
from probgeo.metrics import Metric
from probgeo.stats.estimator import DEVIATIONS

EPSILON = float(np.finfo(float).eps)
HALF_OF_ALL_DIGITS = EPSILON**0.5
STEP_SIZES = 0.5 ** np.arange(8)  # of line searches
ROUGH, FINEST = 1e-2, 1e-9  # relative tolerances of geodesics, at first and at last; see benchmarks/results


class Iterate(NamedTuple):
    """One line of `history_`."""

    value: float  # sum_i w_i d_i^p / p
    step: float  # length of the step that is proposed
    numerical: float  # standard deviation of mu, its directions summed in M
    statistical: float
    precision: float  # relative tolerance of the geodesics; NaN if the user has chosen it


class Centre(NamedTuple):
    """Where a descent ended."""

    point: np.ndarray
    cov: np.ndarray  # numerical
    statistical: np.ndarray
    logs: Logs  # at the point
    history: list[Iterate]
    problem: str  # why it has not converged, or nothing


class View:
    """The data as seen from a point; geodesics that failed still count as far as they got.

    shares (P,) : of the weights; spread : root mean square distance; g (P,) : see above
    value, value_std : of the sum, by the numerics
    v, noise : minus the gradient, and its covariance by the numerics
    inaccuracy : what `hessian` differs from that of a coarser mesh
    """

    def __init__(
        self, metric: Metric, point: np.ndarray, logs: Logs, w: np.ndarray, power: float, coarser: Any = None
    ) -> None:
        self.metric, self.point, self.logs, self.w, self.power = metric, point, logs, w, power
        self.tensor = tensor_at(metric, point)
        self.shares = w / w.sum()
        self.spread = float(np.sqrt(max(self.shares @ logs.length**2, np.finfo(float).tiny)))
        # a point that is met pulls in no direction, unless p = 2, where it does not matter
        met = logs.length <= HALF_OF_ALL_DIGITS * self.spread
        d = np.where(met, 1.0, logs.length)
        self.g = g = np.where(met & (power < 2.0), 0.0, self.shares * d ** (power - 2.0))
        self.value = float(self.shares @ logs.length**power / power)
        self.value_std = float(np.sqrt((g * d) ** 2 @ logs.length_var))
        v = g @ logs.vectors
        # and holds back the median with its weight (Vardi & Zhang, 2000)
        size, held = self.length(v), np.sum(self.shares[g == 0.0])
        self.v = v * max(0.0, 1.0 - held / size) if held > 0 and size > 0 else v
        self.noise = np.tensordot(g**2, logs.cov, 1)
        units = logs.vectors / d[:, None]
        self.hessian = -np.tensordot(g, logs.slopes, 1) - (2.0 - power) * (g * units.T) @ (units @ self.tensor)
        self.inaccuracy = np.zeros_like(self.tensor) if coarser is None else self.hessian - coarser

    def finer(self) -> "View":
        """With the Hessian of geodesics on a finer mesh."""
        logs = with_finer_slopes(self.metric, self.logs)
        return View(self.metric, self.point, logs, self.w, self.power, self.hessian)

    @cached_property
    def newton(self) -> np.ndarray:
        """B such that B v is Newton's step, or the gradient where that does not lead downhill."""
        form = self.tensor @ self.hessian  # symmetric, up to what vanishes with the gradient
        if np.isfinite(form).all():
            eigenvalues = np.linalg.eigvalsh(0.5 * (form + form.T))
            if eigenvalues[0] > HALF_OF_ALL_DIGITS * eigenvalues[-1]:
                return np.linalg.inv(self.hessian)
        pull = float(np.sum(self.g))  # its inverse is right in flat space, and Weiszfeld's rate for p = 1
        return (1.0 / pull if pull > 0 else 0.0) * np.eye(len(self.v))

    @cached_property
    def statistical(self) -> np.ndarray:
        """Covariance of the minimiser over data sets like this one: H^-1 cov(g) H^-T / n.

        One observation says nothing of how much another would differ: NaN.
        """
        total = self.w.sum()
        if total <= 1.0:
            return np.full_like(self.tensor, np.nan)
        pulls = self.logs.vectors * (self.g / self.shares)[:, None] - self.g @ self.logs.vectors
        cov = (self.shares * pulls.T) @ pulls / (total - 1.0)
        inverse = np.linalg.pinv(self.hessian)
        return inverse @ cov @ inverse.T

    def norm(self, cov: np.ndarray) -> float:
        """Standard deviation of a vector at the point, its directions summed in M."""
        return float(np.sqrt(max(np.trace(self.tensor @ cov), 0.0)))

    def length(self, step: np.ndarray) -> float:
        return float(np.sqrt(max(step @ self.tensor @ step, 0.0)))

    def following(self, step: np.ndarray) -> float:
        """About how long the step after one of Newton's method is: what this one leaves over.

        Logarithms change by -step where space is flat. By how much they do not is how far curvature matters, and that
        will have changed by about as much again when the base has moved as far as the spread. With the right Hessian
        this is within a factor of two of what happens nearly always, on smooth and on sharp metrics alike (78 means:
        the logarithm to base ten is wrong by -0.07 +- 0.27). Half of what a finer mesh has changed is left.
        """
        bent = step + self.logs.slopes @ step
        squares = np.einsum("pi,ij,pj->p", bent, self.tensor, bent)
        share = float(np.sqrt(max(self.shares @ squares, 0.0))) / self.spread
        linear = 0.5 * self.length(self.newton @ self.inaccuracy @ step)
        return float(np.hypot(self.length(step) * min(1.0, share), linear))

    def is_below(self, other: "View", step: np.ndarray) -> bool:
        """Whether the sum has really fallen since a step before, as far as the numerics can tell. False for NaN."""
        slack = DEVIATIONS * (self.value_std + other.value_std) + 1e4 * EPSILON * other.value
        return self.value <= other.value - 1e-4 * float(other.v @ other.tensor @ step) + slack

    def ended(self, step: np.ndarray) -> "View":
        """From where a step leads that is so small that logarithms need not be solved again.

        That is right to first order. What is left is about the following step, and counts as an error: one that points
        share, so that it does not average out as if it were one of each.
        """
        point = self.after(step)
        tensor = tensor_at(self.metric, point)
        logs = self.logs.moved(step, tensor)
        shared = len(self.w) * self.following(step) ** 2 / len(step) * np.linalg.inv(tensor)
        return View(self.metric, point, replace(logs, cov=logs.cov + shared), self.w, self.power)

    def after(self, step: np.ndarray) -> np.ndarray:
        """exp_point(step) to second order."""
        return self.point + step + 0.5 * self.metric.accelerations(self.point[None], step[None])[0]

    def can_go(self, point: np.ndarray) -> bool:
        """Whether the metric is one there."""
        tensor = tensor_at(self.metric, point)
        return bool(np.isfinite(tensor).all() and np.linalg.eigvalsh(tensor)[0] > 0)


@dataclass
class Descent:
    """One run, from rough geodesics to precise ones.

    `w` (P,) are weights that count like repetitions, all positive. The search for geodesics is rough, too, until the
    `last_look` at the data, where all of them should be the shortest.
    """

    manifold: Manifold
    X: np.ndarray
    w: np.ndarray
    power: float  # p
    max_iter: int
    fraction: float  # of the statistical standard error that the numerical one may be
    tol: float  # least precision that is asked for, relative to the root mean square distance
    alpha: float | None  # a fixed rate, or None: Newton's method
    report: Callable[[Iterate, int], None] = lambda *_: None
    last_look: bool = True

    def __post_init__(self) -> None:
        self.history: list[Iterate] = []
        self.target = 0.0
        self.adaptive = self.manifold.solver is None and not self.manifold.metric.is_flat
        self.precision = ROUGH if self.adaptive else np.nan

    @property
    def out_of_time(self) -> bool:
        return len(self.history) >= self.max_iter

    def at(self, point: np.ndarray, guess: Logs | None, doubt: bool = False) -> View:
        """Solve: the data as seen from a point, along geodesics near those of a guess."""
        manifold, metric = self.manifold, self.manifold.metric
        if self.adaptive:
            manifold = manifold.with_precision(self.precision, rough=not doubt)
        logs = logarithms(manifold, point, self.X, guess, doubt).usable()
        return View(metric, point, logs, self.w, self.power)

    def run(self, start: np.ndarray, guess: Logs | None = None) -> Centre:
        """Solve, step, judge. `guess` are logarithms of the data at a point near the start."""
        view = self.at(start, guess, doubt=self.last_look and self.max_iter == 1)
        if self.alpha is not None:
            return self.fixed(view, self.alpha)
        while True:
            view, step, cov = self.proposed(view)
            numerical, leads = self.history[-1].numerical, view.can_go(view.after(step))
            finest = not self.precision > FINEST  # NaN: as fine as the user's solver is
            done = self.settled and (view.norm(cov) <= self.target or finest)
            # a curve that others may have become shorter than where the last step leads is looked at again
            shortest = not self.last_look or np.all(view.logs.lead > view.length(step))
            if done and leads and (self.out_of_time or shortest):
                return self.finished(view.ended(step), cov)
            if self.out_of_time or (self.settled and not leads):
                return self.finished(view, cov)
            too_rough = self.settled and not done and not numerical <= self.target
            if too_rough:  # a tolerance with which it should meet the target
                self.precision = max(FINEST, 0.5 * self.precision * self.target / numerical)
            last = self.last_look and not too_rough and self.expected(view, step) <= len(self.history) + 1
            for size in STEP_SIZES:
                point = view.after(size * step)
                new = self.at(point, view.logs, doubt=done or last) if view.can_go(point) else None
                if new is not None and (done or too_rough or new.is_below(view, size * step)):
                    view = new
                    break
            else:
                return self.finished(view, cov)

    def proposed(self, view: View) -> tuple[View, np.ndarray, np.ndarray]:
        """A step of Newton's method, and the numerical covariance of where it leads.

        Coarse geodesics may know their logarithms well, but not how these change: on sharp metrics Hessians were wrong
        by 10 to 60 %. So it takes a finer mesh to say what the last step leaves over.
        """
        step, cov = view.newton @ view.v, view.newton @ view.noise @ view.newton.T
        line = self.judged(view, step, cov)
        if self.settled:
            view = view.finer()
            step, cov = view.newton @ view.v, view.newton @ view.noise @ view.newton.T
            line = self.judged(view, step, cov)
        self.note(line, view, step)
        # which way what is left over would go is not known
        return view, step, cov + view.following(step) ** 2 * np.linalg.inv(view.tensor) / len(step)

    def judged(self, view: View, step: np.ndarray, cov: np.ndarray) -> Iterate:
        """A line for the history; `target` is how precise the result should be.

        It has `settled` with a step so short that it need not be seen where it leads. One that is no shorter than the
        step before is not: geodesics may jump to and fro.
        """
        error = view.norm(view.statistical)
        line = Iterate(view.value, view.length(step), view.norm(cov), error, self.precision)
        # weights that add up to one are one observation, as far from the mean as the data are
        known = error if np.isfinite(error) else view.spread
        self.target = max(self.fraction * known, self.tol * view.spread, 64 * EPSILON * view.length(view.point))
        shorter = not self.history or line.step < self.history[-1].step
        self.settled = line.step <= (max(self.target, line.numerical) if shorter else line.numerical)
        return line

    def note(self, line: Iterate, view: View, step: np.ndarray) -> None:
        self.history.append(line)
        self.report(line, self.expected(view, step))

    def expected(self, view: View, step: np.ndarray) -> int:
        """Iterations until it has settled, those of the past included."""
        if self.alpha is not None:
            return self.max_iter
        count, length, following = len(self.history), view.length(step), view.following(step)
        while count < self.max_iter and length > self.target:
            length, following = following, following * (following / length) ** 2
            count += 1
        return count

    def fixed(self, view: View, alpha: float) -> Centre:
        """As in the paper: a fixed number of steps of Eq. 5."""
        B = alpha * np.eye(len(view.point))
        A = added = np.zeros_like(B)  # and what the exponential maps add
        while True:
            step, turn = B @ view.v, np.eye(len(B)) - B @ view.hessian
            A = turn @ A + B
            self.note(self.judged(view, step, A @ view.noise @ A.T + added), view, step)
            end = self.manifold.exp(view.point, step, source="numerical", progress=False)
            added = turn @ added @ turn.T + end.cov
            leads = view.can_go(end.mean)
            if leads:
                view = self.at(end.mean, view.logs, doubt=self.out_of_time)
            if self.out_of_time or not leads:
                return self.finished(view, A @ view.noise @ A.T + added)

    def finished(self, view: View, cov: np.ndarray) -> Centre:
        logs, numerical = view.logs, view.norm(cov)
        lost, count = int(np.sum(~logs.converged)), len(self.history)
        problems = []
        if not self.settled:
            problems.append(f"the last of {count} steps was {self.history[-1].step:.2g} long")
        if not numerical <= self.target:
            problems.append(
                f"the numerical standard deviation, {numerical:.2g}, is above the target of {self.target:.2g}; a more "
                "precise solver may help"
            )
        if lost:
            problems.append(f"{lost} of {len(logs.converged)} geodesics did not converge")
        return Centre(view.point, cov, view.statistical, logs, self.history, "; ".join(problems))


def tensor_at(metric: Metric, point: np.ndarray) -> np.ndarray:
    """M (D, D) at one point (D,)."""
    return metric.tensors_at(point[None])[0]
