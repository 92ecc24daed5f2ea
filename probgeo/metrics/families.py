"""Distributions whose parameters a decoder returns, and maps that flatten their Fisher-Rao metric.

Bernoulli's metric dp^2 / (p (1 - p)) is that of the angle 2 arcsin sqrt(p), so that lengths are
those of decoded angles. Normal distributions are curved (half-planes of Lobachevsky) and have a
form of their own in `functions.formulas`.
"""

from collections.abc import Callable
from typing import Any, Literal, get_args

from probgeo.functions.composed import followed_by, library_of, stacked
from probgeo.functions.rows import Form

Family = Literal["bernoulli", "bernoulli_logits", "gaussian"]


def angle(p: Any) -> Any:
    """2 arcsin sqrt(p) of probabilities."""
    xp = library_of(p)
    return 2.0 * xp.arcsin(xp.sqrt(p))


def angle_of_logits(logits: Any) -> Any:
    """The same, up to a constant, of log(p / (1 - p)): smooth, even where p rounds to 0 or 1."""
    xp = library_of(logits)
    return 2.0 * xp.arctan(xp.tanh(0.25 * logits))


def logarithm(std: Any) -> Any:
    return library_of(std).log(std)


angle.elementwise = angle_of_logits.elementwise = True  # type: ignore[attr-defined]


def pulled_back_maps(family: Family | None, decoder: Callable, std: Callable | None) -> tuple[list[Callable], Form]:
    """Functions whose metrics add up to that of the family, and what form they have."""
    if family not in (None, *get_args(Family)):
        raise ValueError(f"family must be one of {get_args(Family)} or None, got {family!r}")
    if family == "gaussian":
        if std is None:
            raise ValueError("family 'gaussian' needs std, the standard deviation, as well")
        return [stacked(decoder, followed_by(std, logarithm))], "gaussian"
    if family is None:
        return [decoder] if std is None else [decoder, std], "decoder"
    if std is not None:
        raise ValueError(f"family {family!r} has no standard deviation of its own: leave std out")
    return [followed_by(decoder, angle if family == "bernoulli" else angle_of_logits)], "decoder"
