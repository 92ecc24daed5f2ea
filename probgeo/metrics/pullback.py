"""The metric that a decoder pulls back from the space it maps to.

For decoded distributions it is the Fisher-Rao metric. That of a Bernoulli distribution, dp^2 / (p (1 - p)), is flat in
the angle 2 arcsin sqrt(p), so that lengths are those of decoded angles. Normal distributions form a curved space (a
hyperbolic half-plane) and have a form of their own in `functions.formulas`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from probgeo._checks import as_positive
from probgeo.functions import JaxFunction, RowFunction, TorchFunction, as_row_function
from probgeo.functions.composed import Composed, Stacked, library_of
from probgeo.functions.row_function import Form
from probgeo.metrics.arguments import as_function, unwrapped
from probgeo.metrics.flat import Flat
from probgeo.metrics.metric import Sum, array_module, jax_methods

Family = Literal["bernoulli", "bernoulli_logits", "gaussian"]


def angle(p: Any) -> Any:
    """2 arcsin sqrt(p) of probabilities."""
    xp = library_of(p)
    return 2.0 * xp.arcsin(xp.sqrt(p))


def angle_of_logits(logits: Any) -> Any:
    """The same, up to a constant, of log(p / (1 - p)): smooth, even where p rounds to 0 or 1."""
    xp = library_of(logits)
    return 2.0 * xp.arctan(xp.tanh(0.25 * logits))


angle.elementwise = angle_of_logits.elementwise = True  # type: ignore[attr-defined]


def pulled_back_maps(
    family: Family | None, decoder: Callable, std: Callable | None
) -> tuple[list[Callable], Form, Callable | None]:
    """Functions whose metrics add up to that of the family, of what form, and what is applied to their values."""
    if family not in (None, *get_args(Family)):
        raise ValueError(f"family must be one of {get_args(Family)} or None, got {family!r}")
    if family == "gaussian":
        if std is None:
            raise ValueError("family 'gaussian' needs std, the standard deviation, as well")
        return [_stacked(decoder, std)], "gaussian", None
    if family is None:
        return [decoder] if std is None else [decoder, std], "decoder", None
    if std is not None:
        raise ValueError(f"family {family!r} has no standard deviation of its own: leave std out")
    return [decoder], "decoder", angle if family == "bernoulli" else angle_of_logits


def _stacked(*functions: Any) -> Any:
    """One function of several; written in the framework that any of them is said to be written in."""
    said = {type(f) for f in functions if isinstance(f, JaxFunction | TorchFunction)}
    stacked = Stacked(tuple(unwrapped(f) if type(f) in said else f for f in functions))
    return said.pop()(stacked) if said else stacked


@dataclass(frozen=True, init=False, repr=False, eq=False)
class Pullback(Sum):
    """M(x) = J(x)' J(x) of a decoder f: R^D -> R^M, so that lengths are those of the decoded curve.

    With the standard deviation of a random decoder mean(x) + std(x) * noise, as of a variational
    autoencoder, it is the expected metric J_mean' J_mean + J_std' J_std.

    Parameters
    ----------
    decoder : function x (D,) -> array of any shape
        The decoder, or its mean: a function of one point in JAX, or of rows in NumPy or torch, for
        instance a `torch.nn.Module`.
    std : function x (D,) -> array of any shape, optional
        Standard deviation of the decoder.
    regularisation : float
        This multiple of the identity is added; needed if the decoder does not see all directions.
    family : "bernoulli", "bernoulli_logits" or "gaussian", optional
        Distributions whose parameters are decoded, and whose Fisher-Rao metric is pulled back:
        probabilities, their logits (better where they are next to 0 or 1), or `decoder` and `std`
        of normal distributions, in JAX or PyTorch.

    The geodesic equation is M c'' = -J' f''(c', c'), with one second directional derivative of the
    decoder: two terms of the general equation cancel.

    References
    ----------
    Tosi, Hauberg, Vellido & Lawrence (2014), Metrics for probabilistic geometries.
    Arvanitidis, Hansen & Hauberg (2018), Latent space oddity.
    Arvanitidis, Gonzalez-Duque, Pouplin, Kalatzis & Hauberg (2022), Pulling back information
    geometry.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> torus = lambda x: jnp.array([jnp.cos(x[0]), jnp.sin(x[0]), jnp.cos(x[1]), jnp.sin(x[1])])
    >>> (Pullback(torus)(np.array([0.3, 0.7])) + 0.0).round(12).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """

    decoder: Callable
    std: Callable | None
    regularisation: float
    family: Family | None

    def __init__(
        self, decoder: Callable, std: Callable | None = None, regularisation: Any = 0.0, family: Family | None = None
    ) -> None:
        added = as_positive("regularisation", regularisation, or_zero=True)
        vars(self).update(
            decoder=as_function("decoder", decoder),
            std=None if std is None else as_function("std", std),
            regularisation=added,
            family=family,
        )
        self._pulled_back  # noqa: B018 (complains about a family that does not fit)

    @property
    def _pulled_back(self) -> tuple[list[Callable], Form, Callable | None]:
        return pulled_back_maps(self.family, self.decoder, self.std)

    def decode(self, x: Any) -> Any:
        """All outputs (..., M) at x (..., D): those of the decoder, then those of the deviation."""
        xp = array_module(x)
        functions = [self.decoder] if self.std is None else [self.decoder, self.std]
        if xp is not np and x.ndim == 1:
            parts = [xp.ravel(unwrapped(f)(x)) for f in functions]
            return parts[0] if len(parts) == 1 else xp.concatenate(parts)
        points = np.asarray(x, dtype=np.float64)
        D = points.shape[-1]
        rows = points.reshape(-1, D)
        values = [as_row_function(f, D, "decoder").values(rows) for f in functions]
        parts = [found.reshape(len(rows), -1) for found in values]
        return np.concatenate(parts, axis=1).reshape(*points.shape[:-1], -1)

    def _in_jax(self, x: Any) -> Any:
        (maps, form, after), D = self._pulled_back, x.shape[-1]
        plain = [unwrapped(f) if after is None else Composed(unwrapped(f), after) for f in maps]
        parts = [jax_methods().pulled_back(f, x, form) for f in plain]
        self._check_rank(sum(outputs for _, outputs in parts), D)
        return sum(M for M, _ in parts) + self.regularisation * np.eye(D)

    def _parts(self, x: np.ndarray) -> list[Any]:
        def make(D: int) -> list[Any]:
            maps, form, after = self._pulled_back
            named = zip(maps, ["decoder", "std"], strict=False)
            made: list[Any] = [as_row_function(f, D, name, form=form, after=after) for f, name in named]
            self._check_rank(sum(int(np.prod(f.out_shape)) for f in made), D)
            return [*made, Flat(self.regularisation * np.eye(D))] if self.regularisation else made

        parts = self._kept(x.shape[1], make)
        if len(x) and "_is_checked" not in vars(self):
            _check_decoder(parts[0], x, self.family)
            vars(self).update(_is_checked=True)
        return parts

    def _check_rank(self, outputs: int, dimension: int) -> None:
        if outputs < dimension and self.regularisation == 0.0:
            raise ValueError(
                f"decoder must return at least as many numbers as the {dimension} coordinates it "
                f"takes, got {outputs}; or give a positive regularisation"
            )


def _check_decoder(decoder: RowFunction, x: np.ndarray, family: Family | None, few: int = 4) -> None:
    """That a decoder knows, and can be differentiated at, one of the first points asked for."""
    points = x[np.isfinite(x).all(axis=1)][:few]
    if not len(points):
        return
    values = decoder.values(points).reshape(len(points), -1)
    if not np.isfinite(values).all(axis=1).any():
        wanted = "probabilities from 0 to 1" if family == "bernoulli" else "finite numbers"
        got = "others" if family == "bernoulli" else "NaN or infinity"
        raise ValueError(f"decoder must return {wanted}, got {got} at {points[0]}")
    moved = decoder.values(points + 0.01).reshape(len(points), -1)
    if not decoder.tensors_at(points).any() and not np.array_equal(values, moved):
        raise ValueError(
            f"decoder must have derivatives, got zeros at {points[0]}: does it detach its outputs, "
            "stop gradients, or run in inference mode?"
        )
