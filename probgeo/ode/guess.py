"""First guesses of a solution, as users have them: another curve, a function, or samples."""

from collections.abc import Callable
from typing import Any

import numpy as np

from probgeo._checks import as_float_array
from probgeo.ode.curve import Curve
from probgeo.ode.problem import Problem

# another solution, a function t -> (..., D), or samples (..., T, D) at equal steps over t_span
Guess = Curve | Callable[[float], Any] | np.ndarray


def guess_samples(guess: Any, t_span: tuple[float, float], shape: tuple[int, ...]) -> np.ndarray:
    """The guess at equal steps over the interval, for every member of curves (..., D): (B, T, D)."""
    if isinstance(guess, Curve):
        samples = guess.mean(np.linspace(*guess.t_span, 65))
    elif callable(guess):
        values = [as_float_array("guess", guess(t)) for t in np.linspace(*t_span, 65)]
        samples = np.stack(values, axis=-2)
    else:
        samples = as_float_array("guess", guess)
        if samples.ndim < 2 or samples.shape[-2] < 2:
            raise ValueError(f"guess must hold at least two samples, (..., T, D), got shape {samples.shape}")
    count = samples.shape[-2]
    wanted = (*shape[:-1], count, shape[-1])
    try:
        return np.broadcast_to(samples, wanted).reshape(-1, count, shape[-1]).copy()
    except ValueError as error:
        raise ValueError(f"guess must give values of shape {wanted} at {count} times, got {samples.shape}") from error


def shape_of_guess(guess: Guess | None, t0: float) -> tuple[int, ...]:
    """(..., D) of its values at one time, () if there is no guess."""
    if guess is None:
        return ()
    if isinstance(guess, Curve):
        return (*guess.batch_shape, guess.dimension)
    if callable(guess):
        return np.shape(guess(t0))
    shape = np.shape(guess)
    return (*shape[:-2], *shape[-1:])


def sample_states(samples: np.ndarray, s: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Samples (B, T, D) at equal steps as smooth curves: values and two derivatives by s.

    At shares s (n,) of the interval, each (B, n, D): cubic Hermite pieces, slopes by differences.
    """
    steps, slopes = samples.shape[1] - 1, np.gradient(samples, axis=1)
    piece = np.clip(np.floor(s * steps).astype(int), 0, steps - 1)
    y0, rise = samples[:, piece], samples[:, piece + 1] - samples[:, piece]
    m0, m1 = slopes[:, piece], slopes[:, piece + 1]
    x = (s * steps - piece)[:, None]
    value = y0 + x**2 * (3 - 2 * x) * rise + x * (1 - x) ** 2 * m0 + x**2 * (x - 1) * m1
    slope = 6 * x * (1 - x) * rise + (1 - x) * (1 - 3 * x) * m0 + x * (3 * x - 2) * m1
    bend = (6 - 12 * x) * rise + (6 * x - 4) * m0 + (6 * x - 2) * m1
    return value, steps * slope, steps**2 * bend


def guess_states(guess: Any, problem: Problem, times: np.ndarray) -> np.ndarray:
    """The guess and its derivatives below the order of the ODE at some times: (B, n, order, D)."""
    samples = guess_samples(guess, (problem.t0, problem.t1), (*problem.batch_shape, problem.dimension))
    if isinstance(guess, Curve):
        shape = (*problem.batch_shape, len(times), problem.dimension)
        states = [np.broadcast_to(guess.mean(times, d), shape).reshape(-1, *shape[-2:]) for d in range(problem.order)]
        return np.stack(states, axis=2)
    share = (np.asarray(times, dtype=float) - problem.t0) / problem.duration
    smooth = sample_states(samples, share)[: problem.order]
    return np.stack([x / problem.duration**d for d, x in enumerate(smooth)], axis=2)
