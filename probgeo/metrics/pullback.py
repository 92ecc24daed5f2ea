"""The metric that a decoder pulls back from the space it maps to."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from probgeo._checks import as_positive
from probgeo.functions import RowFunction, as_row_function
from probgeo.functions.rows import Form, pair_numbers
from probgeo.metrics.base import Metric, array_module, jax_methods
from probgeo.metrics.families import Family, pulled_back_maps
from probgeo.metrics.inputs import as_function, unwrapped
from probgeo.metrics.loops import EnergyTerms, solve_jacobians, solve_vectors


@dataclass(frozen=True, init=False, repr=False, eq=False)
class Pullback(Metric):
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
        self._maps  # noqa: B018 (complains about a family that does not fit)

    @cached_property
    def _pulled_back(self) -> tuple[list[Callable], Form]:
        return pulled_back_maps(self.family, self.decoder, self.std)

    @property
    def _maps(self) -> list[Callable]:
        return self._pulled_back[0]

    @property
    def _form(self) -> Form:
        return self._pulled_back[1]

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

    def __call__(self, x: Any) -> Any:
        """M (..., D, D) at x (..., D): JAX arrays for those of JAX, else NumPy."""
        D = np.shape(x)[-1]
        if array_module(x) is not np:
            parts = [jax_methods().pulled_back(unwrapped(f), x, self._form) for f in self._maps]
            self._check_rank(sum(outputs for _, outputs in parts), D)
            return sum(M for M, _ in parts) + self.regularisation * np.eye(D)
        points = np.asarray(x, dtype=np.float64)
        return self.tensors_at(points.reshape(-1, D)).reshape(*points.shape, D)

    def tensors_at(self, x: np.ndarray) -> np.ndarray:
        tensors = [f.tensors(x, self._form) for f in self._functions(x)]
        return np.sum(tensors, axis=0) + self.regularisation * np.eye(x.shape[1])

    def energies(self, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        energies = [f.energies(x, v, self._form) for f in self._functions(x)]
        return np.sum(energies, axis=0) + 0.5 * self.regularisation * np.sum(v**2, axis=1)

    def energy_terms(self, x: np.ndarray, v: np.ndarray, second: bool = True) -> EnergyTerms:
        if not second and self.has_products(x.shape[1]):
            return without_blocks(newton_terms(self.products(x), v))
        parts = [f.energy_terms(x, v, second, self._form) for f in self._functions(x)]
        terms = EnergyTerms(*(np.sum(arrays, axis=0) for arrays in zip(*parts, strict=True)))
        added = self.regularisation
        return terms._replace(
            energy=terms.energy + 0.5 * added * np.sum(v**2, axis=1),
            by_v=terms.by_v + added * v,
            vv=terms.vv + added * np.eye(x.shape[1]),
        )

    def newton_terms(self, x: np.ndarray, v: np.ndarray) -> EnergyTerms:
        if not self.has_products(x.shape[1]):
            return self.energy_terms(x, v)
        return newton_terms(self.products(x), v)

    def precision(self, dimension: int) -> float:
        return max(f.precision for f in self._functions(np.empty((0, dimension))))

    def has_products(self, dimension: int) -> bool:
        """Whether second derivatives of the decoder are all that Newton's method gets.

        There are D^2 of them; the third ones take some 6 D passes through the decoder.
        """
        return dimension <= 6 and self._form == "decoder"

    def products(self, x: np.ndarray) -> np.ndarray:
        """`RowFunction.products` of all outputs together; they add up."""
        found, D = np.sum([f.products(x) for f in self._functions(x)], axis=0), x.shape[1]
        found[:, :D, :D] += self.regularisation * np.eye(D)
        return found

    def accelerations(self, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        return self._accelerations(x, v)[0]

    def acceleration_jacobians(self, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        a, M = self._accelerations(x, v)
        jacobians = [f.force_jacobians(x, v, a, self._form) for f in self._functions(x)]
        return solve_jacobians(M, np.sum(jacobians, axis=0).swapaxes(1, 2))

    def _accelerations(self, x: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        parts = [f.forces(x, v, self._form) for f in self._functions(x)]
        force, M = (np.sum(arrays, axis=0) for arrays in zip(*parts, strict=True))
        M = M + self.regularisation * np.eye(x.shape[1])
        return solve_vectors(M, force), M

    def _functions(self, x: np.ndarray) -> list[RowFunction]:
        def make(D: int) -> list[RowFunction]:
            named = zip(self._maps, ["decoder", "std"], strict=False)
            made = [as_row_function(f, D, name) for f, name in named]
            self._check_rank(sum(int(np.prod(f.out_shape)) for f in made), D)
            return made

        functions: list[RowFunction] = self._kept(x.shape[1], make)
        if len(x) and "_is_checked" not in vars(self):
            _check_decoder(functions[0], x, self.family)
            vars(self).update(_is_checked=True)
        return functions

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
    if not decoder.tensors(points, "decoder").any() and not np.array_equal(values, moved):
        raise ValueError(
            f"decoder must have derivatives, got zeros at {points[0]}: does it detach its outputs, "
            "stop gradients, or run in inference mode?"
        )


def without_blocks(terms: EnergyTerms) -> EnergyTerms:
    """The energy and its gradients alone."""
    return EnergyTerms(*terms[:3], *(block[:0] for block in terms[3:]))


def newton_terms(products: np.ndarray, v: np.ndarray) -> EnergyTerms:
    """Second derivatives of the energy for Newton's method, without third ones of the decoder.

    With f(c)' = J c', the energy of c + e changes by |(J e)'|^2 + f(c)' . f''(e, e)' to second
    order. By parts, the last term is -f(c)'' . f''(e, e), and along geodesics f(c)'' is the part of
    f''(c', c') that is orthogonal to the decoded manifold. All are sums of inner `products`
    (n, K, K) of first and second derivatives, see `RowFunction.products`.
    """
    n, D = v.shape
    J, second = slice(0, D), D + pair_numbers(D)
    turning = np.zeros((n, products.shape[1], D))  # what f''(v, e_i) consists of
    for k in range(D):
        turning[:, second[k], np.arange(D)] += v[:, k, None]
    turned = products @ turning  # products with f''(v, e_i)
    bent = _applied(turned, v)  # with f''(v, v)
    M = np.ascontiguousarray(products[:, J, J])
    tangential = _applied(products[:, :, J], solve_vectors(M, bent[:, J]))
    by_v = _applied(M, v)
    return EnergyTerms(
        energy=0.5 * np.sum(by_v * v, axis=1),
        by_x=_applied(turned[:, J].swapaxes(1, 2), v),
        by_v=by_v,
        xx=turning.swapaxes(1, 2) @ turned - (bent - tangential)[:, second],
        xv=np.ascontiguousarray(turned[:, J].swapaxes(1, 2)),
        vv=M,
    )


def _applied(A: np.ndarray, v: np.ndarray) -> np.ndarray:
    return (A @ v[:, :, None])[:, :, 0]
