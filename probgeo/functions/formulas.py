"""Derivatives of functions of one point, by JAX or by `torch.func`, which name them alike.

`ad` is either library: both have `jvp`, `grad` and `jacfwd`. A formula is a function of one row of
arrays; the caller maps it over rows.

For a metric M(x), or the metric J'J that a decoder pulls back, the energy is L(x, v) = v'M(x)v / 2.
The third-order tensor of derivatives of M is never formed: D directional derivatives of the
gradient of L hold all that is needed of it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


def field_jacobian(ad: Any, f: Callable) -> Callable:
    """J[m, i, j] = d f_i / d y^(m)_j of f(t, state, ...)."""

    def jacobian(t: Any, state: Any, *args: Any) -> Any:
        return ad.jacfwd(lambda y: f(t, y, *args))(state).swapaxes(0, 1)

    return jacobian


def scalar_terms(ad: Any, f: Callable) -> Callable:
    """Value, gradient and Hessian of f(x)."""

    def terms(x: Any) -> tuple:
        gradient = ad.grad(f)
        return f(x), gradient(x), ad.jacfwd(gradient)(x)

    return terms


@dataclass(frozen=True)
class Quadratic:
    """A quadratic form M(x) and what its geodesics need: c'' = M^-1 F(c, c').

    energy : L(x, v) = v'M(x)v / 2
    tensor : M(x)
    force : F(x, v) = dL/dx - (d^2 L / dv dx) v
    """

    energy: Callable
    tensor: Callable
    force: Callable


def of_metric(ad: Any, f: Callable) -> Quadratic:
    """M(x) = f(x)."""

    def energy(x: Any, v: Any) -> Any:
        return 0.5 * (v @ (f(x) @ v))

    def force(x: Any, v: Any) -> Any:
        momentum = ad.grad(energy, argnums=1)
        changes = ad.jvp(lambda y: momentum(y, v), (x,), (v,))[1]
        return ad.grad(energy, argnums=0)(x, v) - changes

    return Quadratic(energy, f, force)


def of_decoder(ad: Any, f: Callable) -> Quadratic:
    """M = J'J with J the Jacobian of f: two terms of the force cancel, -J' f''(v, v) is left."""

    def directional(x: Any, v: Any) -> Any:
        return ad.jvp(f, (x,), (v,))[1]

    def energy(x: Any, v: Any) -> Any:
        Jv = directional(x, v)
        return 0.5 * (Jv * Jv).sum()

    def tensor(x: Any) -> Any:
        J = _flat_jacobian(ad, f, x)
        return J.T @ J

    def force(x: Any, v: Any) -> Any:
        second = ad.jvp(lambda y: directional(y, v), (x,), (v,))[1]
        return -ad.grad(lambda y: (f(y) * second).sum())(x)

    return Quadratic(energy, tensor, force)


def energy_gradient(ad: Any, form: Quadratic) -> Callable:
    """L, dL/dx and dL/dv."""

    def terms(x: Any, v: Any) -> tuple:
        return form.energy(x, v), *ad.grad(form.energy, argnums=(0, 1))(x, v)

    return terms


def energy_terms(ad: Any, form: Quadratic) -> Callable:
    """L, its gradients by x and v, and the blocks xx, xv, vv of its Hessian."""

    def terms(x: Any, v: Any) -> tuple:
        gradient = ad.grad(form.energy, argnums=(0, 1))
        by_x, by_v = gradient(x, v)
        xx, by_v_x = ad.jacfwd(gradient, argnums=0)(x, v)
        return form.energy(x, v), by_x, by_v, xx, by_v_x.T, form.tensor(x)

    return terms


def gauss_newton_terms(ad: Any, f: Callable) -> Callable:
    """Terms of |J v|^2 / 2, in the Hessian only products of first derivatives of J v.

    With B = d(Jv)/dx the blocks are B'B, B'J and J'J: positive semi-definite together.
    """

    def terms(x: Any, v: Any) -> tuple:
        def directional(y: Any) -> Any:
            return ad.jvp(f, (y,), (v,))[1].reshape(-1)

        J = _flat_jacobian(ad, f, x)
        Jv, B = directional(x), ad.jacfwd(directional)(x)
        return 0.5 * (Jv @ Jv), B.T @ Jv, J.T @ Jv, B.T @ B, B.T @ J, J.T @ J

    return terms


def force_and_tensor(ad: Any, form: Quadratic) -> Callable:
    """F(x, v) and M(x)."""

    def terms(x: Any, v: Any) -> tuple:
        return form.force(x, v), form.tensor(x)

    return terms


def force_jacobian(ad: Any, form: Quadratic) -> Callable:
    """Derivatives of F(x, v) - M(x) a by x and by v, for a fixed a.

    Those of the acceleration a = M^-1 F are M^-1 times that.
    """

    def excess(x: Any, v: Any, a: Any) -> Any:
        return form.force(x, v) - ad.grad(form.energy, argnums=1)(x, a)

    def jacobian(x: Any, v: Any, a: Any) -> tuple:
        return ad.jacfwd(excess, argnums=(0, 1))(x, v, a)

    return jacobian


def _flat_jacobian(ad: Any, f: Callable, x: Any) -> Any:
    return ad.jacfwd(lambda y: f(y).reshape(-1))(x)


def _tupled(function: Callable) -> Callable:
    return lambda *row: (function(*row),)


def _of_form(name: str, form: Callable[[Any, Callable], Quadratic]) -> dict[str, Callable]:
    return {
        f"{name} tensor": lambda ad, f: _tupled(form(ad, f).tensor),
        f"{name} energy": lambda ad, f: _tupled(form(ad, f).energy),
        f"{name} gradient": lambda ad, f: energy_gradient(ad, form(ad, f)),
        f"{name} terms": lambda ad, f: energy_terms(ad, form(ad, f)),
        f"{name} force": lambda ad, f: force_and_tensor(ad, form(ad, f)),
        f"{name} force jacobian": lambda ad, f: force_jacobian(ad, form(ad, f)),
    }


# what `RowFunction` asks for by name: (ad, f) -> formula of one row
OF_ROWS: dict[str, Callable[[Any, Callable], Callable]] = {
    "values": lambda ad, f: _tupled(f),
    "scalar terms": scalar_terms,
    "decoder gauss-newton": gauss_newton_terms,
    **_of_form("metric", of_metric),
    **_of_form("decoder", of_decoder),
}
