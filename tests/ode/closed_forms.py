"""Problems of the benchmarks as fields of NumPy, without compilation."""

import numpy as np

from probgeo.functions import Field


class NumpyField(Field):
    """The right-hand side of one benchmark problem, with its Jacobians."""

    order = 2

    def __init__(self, problem):
        self.problem, self.dimension = problem, len(problem.ya)

    def values(self, t, state, member):
        D = self.dimension
        return np.ascontiguousarray(self.problem.scipy_fun(t, self._flat(state))[D:].T)

    def jacobians(self, t, state, member):
        D = self.dimension
        J = self.problem.scipy_jac(t, self._flat(state))[D:]
        return np.ascontiguousarray(J.reshape(D, 2, D, -1).transpose(3, 1, 0, 2))

    def _flat(self, state):
        return np.concatenate([state[:, 0].T, state[:, 1].T])


class Together(Field):
    """Different equations in one dimension as one batch, each brought to the unit interval."""

    order, dimension = 2, 1

    def __init__(self, problems):
        self.fields = [NumpyField(p) for p in problems]
        self.spans = np.array([p.t_span for p in problems])
        self.durations = self.spans[:, 1] - self.spans[:, 0]
        self.rows = 0  # asked for, in all

    def values(self, t, state, member):
        self.rows += len(t)
        return self._each("values", t, state, member, np.empty((len(t), 1)))

    def jacobians(self, t, state, member):
        J = self._each("jacobians", t, state, member, np.empty((len(t), 2, 1, 1)))
        J[:, 1] /= self.durations[member][:, None, None]
        return J

    def _each(self, what, t, state, member, out):
        duration = self.durations[member]
        times = self.spans[member, 0] + duration * t
        states = np.stack([state[:, 0], state[:, 1] / duration[:, None]], axis=1)
        for m in np.unique(member):
            mine = member == m
            found = getattr(self.fields[m], what)(times[mine], states[mine], member[mine])
            out[mine] = self.durations[m] ** 2 * found
        return out


def calibration(curve, problems, times=200, seed=0):
    """Largest errors relative to the solution, coverage at 2 sigma and ANEES of every member."""
    tau = np.random.default_rng(seed).uniform(0.0, 1.0, times)
    mean, std = curve.mean(tau), curve.std(tau)
    errors, coverage, anees = [], [], []
    for k, problem in enumerate(problems):
        start, end = problem.t_span
        exact = problem.solution(start + tau * (end - start))
        size = max(np.abs(exact).max(), np.abs(problem.ya).max(), np.abs(problem.yb).max())
        # references are good to 1e-14 of their size
        z = np.abs(mean[k] - exact) / np.hypot(std[k], 1e-14 * size)
        errors.append(np.abs(mean[k] - exact).max() / size)
        coverage.append(np.mean(z < 2.0))
        anees.append(np.mean(z**2))
    return np.array(errors), np.array(coverage), np.array(anees)
