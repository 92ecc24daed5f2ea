"""The point mu of least sum_i w_i d(mu, x_i)^p / p: a mean for p = 2, a median for p = 1.

Newton's method: with g_i = w_i d_i^(p-2), the gradient is -sum_i g_i Log_mu(x_i), and the Hessian
follows from how the logarithms change with their base. A step is kept if the sum really falls.

The logarithms are wrong by e_i ~ N(0, S_i), the numerical error. As long as they come from one
mesh they are wrong in the same way at each iteration, so that errors of mu obey

    error' = (I - B H) error + B e,   e = sum_i g_i e_i,

for a step mu' = exp_mu(B v): error = A e with A' = (I - B H) A + B. Steps of Newton have B = H^-1,
and then A = H^-1 whatever was before; with the fixed rate of Eq. 5, B = alpha I, it gets there by
and by.

Geodesics are solved roughly at first, and more precisely only where the numerical standard
deviation of mu is more than a fraction of its statistical standard error. The iteration ends with a
step that is short compared with that, too; what the next one would have added is part of the
numerical covariance.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from probgeo.geometry import Manifold
from probgeo.geometry.logarithms import Logs, logarithms
from probgeo.metrics import Metric
from probgeo.stats.estimator import DEVIATIONS

EPSILON = float(np.finfo(float).eps)
HALF_OF_ALL_DIGITS = EPSILON**0.5


@dataclass(frozen=True)
class CentreRule:
    """What is minimised, and when to stop."""

    power: float  # p
    max_iter: int
    fraction: float  # of the statistical standard error that the numerical one may be
    tol: float  # least precision that is asked for, relative to the root mean square distance
    alpha: float | None  # a fixed rate, or None: Newton's method


class Iterate(NamedTuple):
    """One line of `history_`."""

    value: float  # sum_i w_i d_i^p / p
    step: float  # length of the step that is proposed
    numerical: float  # standard deviation of mu, its directions summed in M
    statistical: float
    precision: float  # relative tolerance of the geodesics; NaN if that is not ours to choose


@dataclass(frozen=True)
class Centre:
    """Where a descent ended."""

    point: np.ndarray
    cov: np.ndarray  # numerical
    statistical: np.ndarray
    logs: Logs  # at the point
    history: list[Iterate]
    converged: bool
    message: str


@dataclass(frozen=True)
class View:
    """The data as seen from one point."""

    point: np.ndarray
    logs: Logs
    tensor: np.ndarray  # M
    value: float
    value_std: float
    pull: float  # sum_i g_i
    v: np.ndarray  # downhill: minus the gradient
    hessian: np.ndarray
    noise: np.ndarray  # covariance of v from the numerics
    spread: float  # root mean square distance

    def norm(self, cov: np.ndarray) -> float:
        """Standard deviation of a vector at the point, its directions summed in M."""
        return float(np.sqrt(max(np.trace(self.tensor @ cov), 0.0)))

    def length(self, step: np.ndarray) -> float:
        return float(np.sqrt(max(step @ self.tensor @ step, 0.0)))


def step_sizes(count: int = 8) -> np.ndarray:
    """What a line search tries: 1, 1/2, 1/4, ..."""
    return 0.5 ** np.arange(count)


class Descent:
    """One run, from rough geodesics to precise ones.

    `w` (P,) are weights that count like repetitions, all positive. The relative tolerance of
    geodesics is at first `rough`, and at last `finest` or what the statistic needs. The search for
    them is rough, too, until the `last_look` at the data, where all of them should be the shortest.
    """

    def __init__(
        self,
        manifold: Manifold,
        X: np.ndarray,
        w: np.ndarray,
        rule: CentreRule,
        report: Callable[[Iterate, int], None] = lambda *_: None,
        rough: float = 1e-2,
        finest: float = 1e-9,
        last_look: bool = True,
    ) -> None:
        self.manifold, self.X, self.w, self.rule, self.report = manifold, X, w, rule, report
        self.finest, self.last_look = finest, last_look
        self.adaptive = manifold.solver is None and not manifold.metric.is_flat
        self.precision = rough if self.adaptive else np.nan
        self.history: list[Iterate] = []
        self.target = 0.0
        self.travelled = 0.0  # since all geodesics were known to be the shortest

    def run(self, start: np.ndarray, guess: Logs | None = None) -> Centre:
        """From a start; `guess` are logarithms of the data at a point nearby."""
        view = self.at(start, guess, doubt=self.last_look and self.rule.max_iter == 1)
        return self.newton(view) if self.rule.alpha is None else self.fixed(view)

    @property
    def out_of_time(self) -> bool:
        return len(self.history) >= self.rule.max_iter

    @property
    def at_its_finest(self) -> bool:
        return not self.precision > self.finest  # NaN: as fine as the user's solver is

    def at(self, point: np.ndarray, guess: Logs | None, doubt: bool = False) -> View:
        """The data as seen from a point, along geodesics near those of a guess."""
        manifold = self.manifold
        if self.adaptive:
            manifold = manifold.with_precision(self.precision, rough=not doubt)
        logs = logarithms(manifold, point, self.X, guess, doubt).usable()
        return _view(manifold.metric, point, logs, self.w, self.rule.power)

    def after(self, view: View, step: np.ndarray, doubt: bool = False) -> View:
        """The data as seen from a step further."""
        self.travelled = 0.0 if doubt else self.travelled + view.length(step)
        return self.at(retracted(self.manifold.metric, view.point, step), view.logs, doubt)

    def moved(self, view: View, step: np.ndarray) -> View:
        """The same after a step so small that the logarithms need not be solved again.

        That is right to first order. What is left is about step^2 / spread, and counts as an error:
        one that points share, so that it does not average out as if it were one of each.
        """
        metric = self.manifold.metric
        point = retracted(metric, view.point, step)
        tensor = tensor_at(metric, point)
        logs = view.logs.moved(step, tensor)
        if not metric.is_flat:
            size = np.sqrt(len(self.w)) * view.length(step) ** 2 / view.spread
            logs = replace(logs, cov=logs.cov + size**2 / len(step) * np.linalg.inv(tensor))
        return replace(view, point=point, tensor=tensor, logs=logs)

    def newton(self, view: View) -> Centre:
        while True:
            B = _newton_step(view)
            step, cov = B @ view.v, B @ view.noise @ B.T
            line = self.note(view, step, cov)
            # which way what is left over would go is not known
            cov = cov + self.following(view) ** 2 * np.linalg.inv(view.tensor) / len(view.point)
            precise, settled = view.norm(cov) <= self.target, self.settled
            if settled and not self.can_go(view, step):
                return self.finished(view, cov)
            if settled and (precise or self.at_its_finest):
                if self.out_of_time or not self.last_look or self.has_all_shortest(view):
                    return self.finished(self.moved(view, step), cov)
                view = self.after(view, step, doubt=True)
                continue
            if self.out_of_time:
                return self.finished(view, cov)
            if settled and not line.numerical <= self.target:
                self.refine(line)
                view = self.after(view, step)
                continue
            # the last look at the data, as it seems
            last_look = self.last_look and self.expected(view) <= len(self.history) + 1
            following = self.line_search(view, step, doubt=last_look)
            if following is None:
                return self.finished(view, cov)
            view = following

    def can_go(self, view: View, step: np.ndarray) -> bool:
        """Whether the metric is one where a step leads."""
        point = retracted(self.manifold.metric, view.point, step)
        return _is_positive(tensor_at(self.manifold.metric, point))

    def has_all_shortest(self, view: View) -> bool:
        """Whether all geodesics are the shortest, or mu has not gone so far that it matters."""
        far = self.travelled > max(self.history[-1].statistical, self.target)
        return bool(np.all(view.logs.lead > (0.0 if far else -np.inf)))

    def fixed(self, view: View) -> Centre:
        """As in the paper: so many steps of Eq. 5, and no more."""
        assert self.rule.alpha is not None
        B = self.rule.alpha * np.eye(len(view.point))
        A = added = np.zeros_like(B)  # and what the exponential maps add
        while True:
            step, turn = B @ view.v, np.eye(len(B)) - B @ view.hessian
            A = turn @ A + B
            self.note(view, step, A @ view.noise @ A.T + added)
            end = self.manifold.exp(view.point, step, source="numerical", progress=False)
            added = turn @ added @ turn.T + end.cov
            if not _is_positive(tensor_at(self.manifold.metric, end.mean)):
                return self.finished(view, A @ view.noise @ A.T + added)
            view = self.at(end.mean, view.logs, doubt=self.out_of_time)
            if self.out_of_time:
                return self.finished(view, A @ view.noise @ A.T + added)

    def refine(self, line: Iterate) -> None:
        """A tolerance with which the numerical standard deviation should meet the target."""
        self.precision = max(self.finest, self.precision * 0.5 * self.target / line.numerical)

    def note(self, view: View, step: np.ndarray, cov: np.ndarray) -> Iterate:
        """A new line of the history; `target` is how precise the result should be."""
        error = view.norm(_statistical(view, self.w, self.rule.power))
        line = Iterate(view.value, view.length(step), view.norm(cov), error, self.precision)
        self.history.append(line)
        # weights that add up to one are one observation, as far from the mean as the data are
        known = error if np.isfinite(error) else view.spread
        self.target = max(
            self.rule.fraction * known, self.rule.tol * view.spread, 64 * EPSILON * view.length(view.point)
        )
        self.report(line, self.expected(view))
        return line

    def steps(self, view: View) -> tuple[float, float]:
        """Lengths of the step before the last one and of that; the first was within the data."""
        before = self.history[-2].step if len(self.history) > 1 else view.spread
        return before, self.history[-1].step

    def following(self, view: View) -> float:
        """How far mu is from the end of the iteration after the last step."""
        return _next_length(*self.steps(view), view.spread)

    @property
    def settled(self) -> bool:
        """Whether the last step is so short that it need not be seen where it leads.

        One that is no shorter than the step before is not: geodesics may jump to and fro.
        """
        line, before = self.history[-1], self.history[-2:-1]
        shorter = not before or line.step < before[0].step
        return line.step <= (max(self.target, line.numerical) if shorter else line.numerical)

    def expected(self, view: View) -> int:
        """Iterations until it has settled, those of the past included."""
        if self.rule.alpha is not None:
            return self.rule.max_iter
        count, (before, last) = len(self.history), self.steps(view)
        while count < self.rule.max_iter and last > self.target:
            before, last = last, _next_length(before, last, view.spread)
            count += 1
        return count

    def line_search(self, view: View, step: np.ndarray, doubt: bool) -> View | None:
        slope = float(view.v @ view.tensor @ step)
        for size in step_sizes():
            if not self.can_go(view, size * step):
                continue
            new = self.after(view, size * step, doubt)
            slack = DEVIATIONS * (view.value_std + new.value_std) + 1e4 * EPSILON * view.value
            if new.value <= view.value - 1e-4 * size * slope + slack:  # false for NaN
                return new
        return None

    def finished(self, view: View, cov: np.ndarray) -> Centre:
        step, logs = self.history[-1].step, view.logs
        numerical, lost = view.norm(cov), int(np.sum(~logs.converged))
        problems = []
        if not self.settled:
            problems.append(f"the last of {len(self.history)} steps was {step:.2g} long")
        if not numerical <= self.target:
            problems.append(
                f"the numerical standard deviation, {numerical:.2g}, is above the target of "
                f"{self.target:.2g}; a more precise solver may help"
            )
        if lost:
            problems.append(f"{lost} of {len(logs.converged)} geodesics did not converge")
        message = "; ".join(problems) or "converged"
        statistical = _statistical(view, self.w, self.rule.power)
        return Centre(view.point, cov, statistical, logs, self.history, not problems, message)


def _view(metric: Metric, point: np.ndarray, logs: Logs, w: np.ndarray, power: float) -> View:
    """Sum, gradient and Hessian; geodesics that failed still count with what they have."""
    tensor = tensor_at(metric, point)
    shares = w / w.sum()
    d, g = _pulls(logs.length, shares, power)
    units = logs.vectors / d[:, None]
    across = (2.0 - power) * (g * units.T) @ (units @ tensor)
    v = g @ logs.vectors
    # a point that is met holds back the median with its weight (Vardi & Zhang, 2000)
    size, held = np.sqrt(max(v @ tensor @ v, 0.0)), np.sum(shares[g == 0.0])
    v = v * max(0.0, 1.0 - held / size) if held > 0 and size > 0 else v
    square = np.sum(shares * logs.length**2)
    return View(
        point=point,
        logs=logs,
        tensor=tensor,
        value=float(np.sum(shares * logs.length**power) / power),
        value_std=float(np.sqrt(np.sum((g * d) ** 2 * logs.length_var))),
        pull=float(np.sum(g)),
        v=v,
        hessian=-np.tensordot(g, logs.slopes, 1) - across,
        noise=np.tensordot(g**2, logs.cov, 1),
        spread=float(np.sqrt(max(square, np.finfo(float).tiny))),
    )


def _pulls(length: np.ndarray, shares: np.ndarray, power: float) -> tuple[np.ndarray, np.ndarray]:
    """Distances, none of them zero, and the factors g_i of the logarithms in the gradient.

    A point that is met pulls in no direction: g_i is zero, unless p = 2, where it does not matter.
    """
    typical = np.sqrt(np.sum(shares * length**2))
    met = length <= HALF_OF_ALL_DIGITS * typical
    d = np.where(met, 1.0, length)
    return d, np.where(met & (power < 2.0), 0.0, shares * d ** (power - 2.0))


def _next_length(before: float, last: float, spread: float) -> float:
    """Of the step after two others, for data of some spread.

    Steps of Newton square their length: the next one has C last^2. C is about 1 / spread, and about
    last / before^2. The geometric mean of both is within a factor of four nearly always, each alone
    is not. Where steps do not get shorter they have not begun to do so.
    """
    if last >= before:
        return last
    by_scale, by_history = last / spread, (last / before) ** 2
    return last * min(1.0, float(np.sqrt(by_scale * by_history)))


def _newton_step(view: View) -> np.ndarray:
    """B such that B v is Newton's step, or the gradient where that does not lead downhill."""
    # symmetric in the inner product M, up to what vanishes with the gradient
    form = view.tensor @ view.hessian
    if np.isfinite(form).all():
        eigenvalues = np.linalg.eigvalsh(0.5 * (form + form.T))
        if eigenvalues[0] > HALF_OF_ALL_DIGITS * eigenvalues[-1]:
            return np.linalg.inv(view.hessian)
    rate = 1.0 / view.pull if view.pull > 0 else 0.0  # right in flat space; Weiszfeld's for p = 1
    return rate * np.eye(len(view.v))


def _statistical(view: View, w: np.ndarray, power: float) -> np.ndarray:
    """Covariance of the minimiser over data sets like this one: H^-1 cov(g) H^-T / n.

    One observation says nothing of how much another would differ: NaN.
    """
    total = w.sum()
    if total <= 1.0:
        return np.full_like(view.tensor, np.nan)
    shares = w / total
    _, g = _pulls(view.logs.length, shares, power)
    pulls = view.logs.vectors * (g / shares)[:, None] - g @ view.logs.vectors
    cov = (shares * pulls.T) @ pulls / (total - 1.0)
    try:
        inverse = np.linalg.inv(view.hessian)
    except np.linalg.LinAlgError:
        return cov
    return inverse @ cov @ inverse.T


def _is_positive(tensor: np.ndarray) -> bool:
    return bool(np.isfinite(tensor).all() and np.linalg.eigvalsh(tensor)[0] > 0)


def retracted(metric: Metric, point: np.ndarray, step: np.ndarray) -> np.ndarray:
    """exp_point(step) to second order."""
    return point + step + 0.5 * metric.accelerations(point[None], step[None])[0]


def tensor_at(metric: Metric, point: np.ndarray) -> np.ndarray:
    """M (D, D) at one point (D,)."""
    return metric.tensors_at(point[None])[0]
