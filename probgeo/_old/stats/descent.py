"""The point mu of least sum_i w_i d(mu, x_i)^p / p: a mean for p = 2, a median for p = 1.

Newton's method: with g_i = w_i d_i^(p-2), the gradient is -sum_i g_i Log_mu(x_i), and the Hessian
follows from how the logarithms change with their base. A step is kept if the sum really falls.

The logarithms are wrong by e_i ~ N(0, S_i), the numerical error. As long as they come from one
solver they are wrong in the same way at each iteration, so that errors of mu obey

    error' = (I - B H) error + B e,   e = sum_i g_i e_i,

for a step mu' = exp_mu(B v): error = A e with A' = (I - B H) A + B. Steps of Newton have B = H^-1,
and then A = H^-1 whatever was before; with the fixed rate of Eq. 5, B = alpha I, it gets there by
and by.

The iteration ends with a step that is short compared with the statistical error. What the next one
would have added is part of the numerical covariance, too.

Early iterations are sloppy on purpose. Geodesics are solved more precisely only where the numerical
standard deviation of mu is more than a fraction of its statistical standard error.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from probgeo._old._compile import compiled_quickly
from probgeo._old.geometry import Manifold, Metric
from probgeo._old.geometry.metrics.flat import Flat
from probgeo._old.stats.logs import Logs, logs_at

PRECISIONS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7)  # relative tolerances of geodesics
HALVINGS = 8
SUFFICIENT = 1e-4  # part of the decrease a step promises that it has to keep
LEAST_CURVATURE = 1e-6  # of the Hessian, over its largest, that Newton's method is trusted with
SLACK = 1e-12  # relative increase that is put down to round-off,
DEVIATIONS = 3.0  # and standard deviations that are put down to the numerics
SETTLED = 0.5  # a step is over if it is shorter than this part of the target
HESSIAN_ERROR = 0.02  # relative; 0.01 was seen
NEGLIGIBLE = 0.1  # and this part of the numerical standard deviation, if that is as good as it gets
COINCIDENT = 1e-9  # distance, over the typical one, of a point that the median has arrived at


class Settings(NamedTuple):
    power: float  # p
    max_iter: int
    fraction: float  # of the statistical standard error
    tol: float  # least precision that is asked for, relative to the root mean square distance
    alpha: float | None  # a fixed rate, or None: Newton's method


class Iterate(NamedTuple):
    """One line of `history_`."""

    value: float  # sum_i w_i d_i^p / p
    step: float  # length of the step that is proposed
    numerical: float  # standard deviation of mu, its directions summed in M
    statistical: float
    precision: float  # relative tolerance of the geodesics; NaN if that is not ours to choose


class Found(NamedTuple):
    point: np.ndarray
    cov: np.ndarray  # numerical
    statistical: np.ndarray
    logs: Logs  # at the point
    history: list[Iterate]
    converged: bool
    message: str


class State(NamedTuple):
    """All that is known at one point."""

    point: np.ndarray
    logs: Logs
    tensor: np.ndarray  # M
    value: float
    value_std: float
    pull: float  # sum_i g_i
    v: np.ndarray  # downhill: minus the gradient
    hessian: np.ndarray
    noise: np.ndarray  # covariance of v from the numerics

    def norm(self, cov: np.ndarray) -> float:
        """Standard deviation of a vector at the point, its directions summed in M."""
        return float(np.sqrt(max(np.trace(self.tensor @ cov), 0.0)))


class Ladder:
    """The manifold with solvers of growing precision; with one of the user's, only that."""

    def __init__(self, manifold: Manifold) -> None:
        self.manifold, self.rung = manifold, 0
        chosen = manifold.solver is not None or isinstance(manifold.metric, Flat)
        self.precisions = () if chosen else PRECISIONS

    @property
    def precision(self) -> float:
        return self.precisions[self.rung] if self.precisions else np.nan

    @property
    def at_the_top(self) -> bool:
        return self.rung + 1 >= len(self.precisions)

    def logs(self, point: np.ndarray, X: np.ndarray, paths: np.ndarray | None) -> Logs:
        manifold = self.manifold
        if self.precisions:
            manifold = manifold.with_precision(self.precision)
        return logs_at(manifold, point, X, paths)


def minimise(
    manifold: Manifold,
    X: np.ndarray,
    w: np.ndarray,
    start: np.ndarray,
    settings: Settings,
    report: Callable[[Iterate], None] = lambda _: None,
) -> Found:
    """From one start. `w` (P,) are weights that count like repetitions, all positive."""
    descent = Descent(manifold, X, w, settings, report)
    state = descent.at(start)
    return descent.newton(state) if settings.alpha is None else descent.fixed(state)


class Descent:
    """One run, from rough geodesics to precise ones."""

    def __init__(
        self,
        manifold: Manifold,
        X: np.ndarray,
        w: np.ndarray,
        settings: Settings,
        report: Callable[[Iterate], None],
    ) -> None:
        self.manifold, self.X, self.w, self.settings = manifold, X, w, settings
        self.ladder, self.report = Ladder(manifold), report
        self.history: list[Iterate] = []
        self.target = 0.0

    @property
    def out_of_time(self) -> bool:
        return len(self.history) >= self.settings.max_iter

    def at(self, point: np.ndarray, last: State | None = None) -> State:
        """All that is known at a point; the geodesics of the last one are where to start."""
        logs = self.ladder.logs(point, self.X, None if last is None else last.logs.paths)
        return _state(self.manifold.metric, point, logs.usable(), self.w, self.settings.power)

    def newton(self, state: State) -> Found:
        metric, ladder = self.manifold.metric, self.ladder
        while True:
            B = _newton_step(state)
            step, cov = B @ state.v, B @ state.noise @ B.T
            line, target = self.note(state, step, cov), self.target
            settled, precise = line.step <= SETTLED * target, line.numerical <= target
            if ladder.at_the_top:  # precise or not, it will not get any better
                settled |= line.step <= NEGLIGIBLE * line.numerical
            if settled and (precise or ladder.at_the_top):
                # a step so small that the logarithms need not be solved again
                moved = state.logs.moved(step)
                cov = cov + self.left_over(state)
                state = state._replace(point=_retracted(metric, state.point, step), logs=moved)
                return self.finished(state, cov, settled)
            if self.out_of_time:
                return self.finished(state, cov, settled)
            arrived = line.step <= max(line.numerical, SETTLED * target)
            if arrived and not precise and not ladder.at_the_top:
                ladder.rung += 1
                state = self.at(_retracted(metric, state.point, step), state)
                continue
            following = self.line_search(state, step)
            if following is None:
                return self.finished(state, cov, settled)
            state = following

    def fixed(self, state: State) -> Found:
        """As in the paper: so many steps of Eq. 5, and no more."""
        assert self.settings.alpha is not None
        B = self.settings.alpha * np.eye(len(state.point))
        A = added = np.zeros_like(B)  # and what the exponential maps add
        while True:
            step, turn = B @ state.v, np.eye(len(B)) - B @ state.hessian
            A = turn @ A + B
            line = self.note(state, step, A @ state.noise @ A.T + added)
            point, noise = _shot(self.manifold, state.point, step)
            added = turn @ added @ turn.T + noise
            state = self.at(point, state)
            if self.out_of_time:
                cov = A @ state.noise @ A.T + added
                return self.finished(state, cov, line.step <= SETTLED * self.target)

    def note(self, state: State, step: np.ndarray, cov: np.ndarray) -> Iterate:
        """A new line of the history; `target` is how precise the result should be."""
        length = float(np.sqrt(max(step @ state.tensor @ step, 0.0)))
        error = state.norm(_statistical(state, self.w, self.settings.power))
        line = Iterate(state.value, length, state.norm(cov), error, self.ladder.precision)
        self.history.append(line)
        self.report(line)
        spread = self.spread(state)
        self.target = max(self.settings.fraction * error, self.settings.tol * spread)
        return line

    def left_over(self, state: State) -> np.ndarray:
        """Covariance of how far mu is from the end of the iteration after the last step.

        The next one would be shorter at least as the last was than the one before: first steps of
        Newton square their length, later ones shrink by the error of the Hessian, which is taken by
        differences. Which way it would go is not known.
        """
        last = self.history[-1].step
        before = self.history[-2].step if len(self.history) > 1 else last / HESSIAN_ERROR
        shrinking = max(last / before if before > 0 else 0.0, last / self.spread(state))
        following = last * min(shrinking, 1.0)
        return following**2 * np.linalg.inv(state.tensor) / len(state.point)

    def spread(self, state: State) -> float:
        """Root mean square distance of the data."""
        square = np.sum(self.w * state.logs.length**2) / self.w.sum()
        return float(np.sqrt(max(square, np.finfo(float).tiny)))

    def line_search(self, state: State, step: np.ndarray) -> State | None:
        slope = float(state.v @ state.tensor @ step)
        for size in 0.5 ** np.arange(HALVINGS):
            point = _retracted(self.manifold.metric, state.point, size * step)
            if not _is_positive(tensor_at(self.manifold.metric, point)):
                continue
            new = self.at(point, state)
            slack = SLACK * state.value + DEVIATIONS * (state.value_std + new.value_std)
            if new.value <= state.value - SUFFICIENT * size * slope + slack:  # false for NaN
                return new
        return None

    def finished(self, state: State, cov: np.ndarray, settled: bool) -> Found:
        last, logs = self.history[-1], state.logs
        lost = int(np.sum(~logs.converged))
        problems = []
        if not settled:
            problems.append(f"the last of {len(self.history)} steps was {last.step:.2g} long")
        if not last.numerical <= self.target:
            problems.append(
                f"the numerical standard deviation, {last.numerical:.2g}, is above the target of "
                f"{self.target:.2g}; a more precise solver may help"
            )
        if lost:
            problems.append(f"{lost} of {len(logs.converged)} geodesics did not converge")
        message = "; ".join(problems) or "converged"
        statistical = _statistical(state, self.w, self.settings.power)
        return Found(state.point, cov, statistical, logs, self.history, not problems, message)


def _state(metric: Metric, point: np.ndarray, logs: Logs, w: np.ndarray, power: float) -> State:
    """Sum, gradient and Hessian; geodesics that failed still count with what they have."""
    tensor = tensor_at(metric, point)
    shares = w / w.sum()
    d, g = _pulls(logs.length, shares, power)
    units = logs.vectors / d[:, None]
    across = (2.0 - power) * np.einsum("p,pi,pj->ij", g, units, units @ tensor)
    v = g @ logs.vectors
    # a point that is met holds back the median with its weight (Vardi & Zhang, 2000)
    size, held = np.sqrt(max(v @ tensor @ v, 0.0)), np.sum(shares[g == 0.0])
    v = v * max(0.0, 1.0 - held / size) if held > 0 and size > 0 else v
    return State(
        point=point,
        logs=logs,
        tensor=tensor,
        value=float(np.sum(shares * logs.length**power) / power),
        value_std=float(np.sqrt(np.sum((g * d) ** 2 * logs.length_var))),
        pull=float(np.sum(g)),
        v=v,
        hessian=-np.tensordot(g, logs.slopes, 1) - across,
        noise=np.tensordot(g**2, logs.cov, 1),
    )


def _pulls(length: np.ndarray, shares: np.ndarray, power: float) -> tuple[np.ndarray, np.ndarray]:
    """Distances, none of them zero, and the factors g_i of the logarithms in the gradient.

    A point that is met pulls in no direction: g_i is zero, unless p = 2, where it does not matter.
    """
    typical = np.sqrt(np.sum(shares * length**2))
    met = length <= COINCIDENT * typical
    d = np.where(met, 1.0, length)
    return d, np.where(met & (power < 2.0), 0.0, shares * d ** (power - 2.0))


def _newton_step(state: State) -> np.ndarray:
    """B such that B v is Newton's step, or the gradient where that does not lead downhill."""
    # symmetric in the inner product M, up to round-off and differences
    form = state.tensor @ state.hessian
    if np.isfinite(form).all():
        eigenvalues = np.linalg.eigvalsh(0.5 * (form + form.T))
        if eigenvalues[0] > LEAST_CURVATURE * eigenvalues[-1]:
            return np.linalg.inv(state.hessian)
    rate = 1.0 / state.pull if state.pull > 0 else 0.0  # right in flat space; Weiszfeld's for p = 1
    return rate * np.eye(len(state.v))


def _statistical(state: State, w: np.ndarray, power: float) -> np.ndarray:
    """Covariance of the minimiser over data sets like this one: H^-1 cov(g) H^-T / n."""
    total = w.sum()
    shares = w / total
    _, g = _pulls(state.logs.length, shares, power)
    pulls = state.logs.vectors * (g / shares)[:, None]
    pulls = pulls - g @ state.logs.vectors
    cov = np.einsum("p,pi,pj->ij", w / total, pulls, pulls) / max(total - 1.0, 1.0)
    try:
        inverse = np.linalg.inv(state.hessian)
    except np.linalg.LinAlgError:
        return cov
    return inverse @ cov @ inverse.T


def _is_positive(tensor: np.ndarray) -> bool:
    return bool(np.isfinite(tensor).all() and np.linalg.eigvalsh(tensor)[0] > 0)


def _retracted(metric: Metric, point: np.ndarray, step: np.ndarray) -> np.ndarray:
    """exp_point(step) to second order."""
    return np.asarray(_second_order(metric, jnp.asarray(point), jnp.asarray(step)))


def _shot(manifold: Manifold, point: np.ndarray, step: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """exp_point(step), and its numerical covariance."""
    if isinstance(manifold.metric, Flat):
        return point + step, np.zeros((len(point), len(point)))
    end = manifold.exp(point, step, source="numerical", progress=False)
    return np.asarray(end.mean), np.asarray(end.cov)


def tensor_at(metric: Metric, point: np.ndarray) -> np.ndarray:
    return np.asarray(_tensor(metric, jnp.asarray(point)))


@compiled_quickly
def _second_order(metric: Metric, x: Float[Array, " d"], v: Float[Array, " d"]) -> Array:
    return x + v + 0.5 * metric.acceleration(x, v)


@compiled_quickly
def _tensor(metric: Metric, x: Float[Array, " d"]) -> Float[Array, "d d"]:
    return metric(x)
