"""Derivatives of functions of one point, by JAX or by `torch.func`, which name them alike.

`ad` is either library: both have `jvp`, `grad` and `jacfwd`. A formula is a function of one row of
arrays that returns a tuple; the caller maps it over rows.

For a metric M(x), or the metric J'J that a decoder pulls back, the energy is L(x, v) = v'M(x)v / 2 and the force
F(x, v) = dL/dx - (d^2 L / dv dx) v; geodesics have c'' = M^-1 F(c, c'). The third-order tensor of derivatives of M is
never formed: D directional derivatives of the gradient of L hold all that is needed of it.
"""

import math
from collections.abc import Callable
from typing import Any

from probgeo.functions.composed import library_of


def formula(what: str, ad: Any, f: Callable) -> Callable:
    """What `RowFunction` asks for by name, of f(x)."""
    if what == "values":
        return lambda x: (f(x),)
    if what == "scalar terms":
        return lambda x: (f(x), ad.grad(f)(x), ad.jacfwd(ad.grad(f))(x))
    form, part = what.split(" ", 1)
    forms = {"metric": of_metric, "decoder": of_decoder, "gaussian": of_gaussian}
    return forms[form](ad, f)[part]


def of_field(ad: Any, f: Callable, real: tuple[bool, ...], jacobian: Callable | None = None) -> dict[str, Callable]:
    """Formulas of a right-hand side f(t, state, leaves); `real`: by which of the leaves there are derivatives."""

    def jacobians(*row: Any) -> Any:
        return (jacobian or ad.jacfwd(f, argnums=1))(*row).swapaxes(0, 1)

    def by_first(t: Any, state: Any, leaves: list) -> Any:
        return ad.jacfwd(lambda first: f(t, state, [first, *leaves[1:]]))(leaves[0])

    def by_args(t: Any, state: Any, leaves: list) -> tuple:
        def of_real(wanted: list) -> Any:
            given = iter(wanted)
            return f(t, state, [next(given) if r else x for r, x in zip(real, leaves, strict=True)])

        wanted = [leaf for r, leaf in zip(real, leaves, strict=True) if r]
        few = sum(math.prod(leaf.shape) for leaf in wanted) <= state.shape[-1]
        return tuple((ad.jacfwd if few else ad.jacrev)(of_real)(wanted))

    return {
        "values": lambda *row: (f(*row),),
        "jacobians": lambda *row: (jacobians(*row),),
        "both": lambda *row: (f(*row), jacobians(*row)),
        "by_args": by_args,
        "linearised": lambda *row: (f(*row), jacobians(*row), by_first(*row)),
    }


def of_metric(ad: Any, f: Callable) -> dict[str, Callable]:
    """Formulas of the quadratic form M(x) = f(x)."""

    def energy(x: Any, v: Any) -> Any:
        return 0.5 * (v @ (f(x) @ v))

    return _of_form(ad, energy, f, _force(ad, energy))


def of_gaussian(ad: Any, f: Callable) -> dict[str, Callable]:
    """Formulas of the metric of normal distributions, f(x) = (mean, std): (d mean^2 + 2 d std^2) / std^2, added up."""

    def energy(x: Any, v: Any) -> Any:
        (_, std), (by_mean, by_std) = ad.jvp(f, (x,), (v,))
        return 0.5 * ((by_mean / std) ** 2 + 2.0 * (by_std / std) ** 2).sum()

    def tensor(x: Any) -> Any:
        by_mean, by_std = (ad.jacfwd(f)(x) / f(x)[1][None, ..., None]).reshape(2, -1, x.shape[0])
        return by_mean.T @ by_mean + 2.0 * by_std.T @ by_std

    return _of_form(ad, energy, tensor, _force(ad, energy))


def _force(ad: Any, energy: Callable) -> Callable:
    def force(x: Any, v: Any) -> Any:
        momentum = ad.grad(energy, argnums=1)
        changes = ad.jvp(lambda y: momentum(y, v), (x,), (v,))[1]
        return ad.grad(energy, argnums=0)(x, v) - changes

    return force


def of_decoder(ad: Any, f: Callable) -> dict[str, Callable]:
    """Formulas of M = J'J with J the Jacobian of f.

    Two terms of the force cancel, -J' f''(v, v) is left.
    """

    def directional(x: Any, v: Any) -> Any:
        return ad.jvp(f, (x,), (v,))[1]

    def energy(x: Any, v: Any) -> Any:
        Jv = directional(x, v)
        return 0.5 * (Jv * Jv).sum()

    def tensor(x: Any) -> Any:
        J = ad.jacfwd(lambda y: f(y).reshape(-1))(x)
        return J.T @ J

    def force(x: Any, v: Any) -> Any:
        second = ad.jvp(lambda y: directional(y, v), (x,), (v,))[1]
        return -ad.grad(lambda y: (f(y) * second).sum())(x)

    def jets(x: Any) -> tuple[Any, Any]:
        """J (M, D) and the second derivatives (M, D, D)."""

        def twice(y: Any) -> tuple:
            J = ad.jacfwd(lambda z: f(z).reshape(-1))(y)
            return J, J

        second, J = ad.jacfwd(twice, has_aux=True)(x)
        return J, second

    found = _of_form(ad, energy, tensor, force)

    def products(x: Any) -> tuple:
        J, second = jets(x)
        pairs = [second[:, i, j] for i in range(x.shape[0]) for j in range(i + 1)]
        vectors = library_of(J).stack([*J.T, *pairs])
        return (vectors @ vectors.T,)

    found["products"] = products
    return found


def _of_form(ad: Any, energy: Callable, tensor: Callable, force: Callable) -> dict[str, Callable]:
    gradient = ad.grad(energy, argnums=(0, 1))

    def terms(x: Any, v: Any) -> tuple:
        xx, by_v_x = ad.jacfwd(gradient, argnums=0)(x, v)
        return energy(x, v), *gradient(x, v), xx, by_v_x.T, tensor(x)

    def excess(x: Any, v: Any, a: Any) -> Any:  # F - M a
        return force(x, v) - ad.grad(energy, argnums=1)(x, a)

    return {
        "tensor": lambda x: (tensor(x),),
        "energy": lambda x, v: (energy(x, v),),
        "gradient": lambda x, v: (energy(x, v), *gradient(x, v)),
        "terms": terms,
        "force": lambda x, v: (force(x, v), tensor(x)),
        "force jacobian": ad.jacfwd(excess, argnums=(0, 1)),
    }
