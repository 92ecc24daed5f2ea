"""Derivatives of decoders in PyTorch that are a chain of layers, affine or elementwise.

`torch.func` differentiates an activation once for every direction, and nested derivatives once
more. In a chain that is not needed: the derivatives of an activation are taken once, and affine
layers take a value and all its derivatives at once. Exact all the same, and four times as fast.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch.nn import functional

nn = torch.nn
AFFINE = (
    *(nn.Linear, nn.Identity, nn.Flatten, nn.Unflatten),
    *(nn.Conv1d, nn.Conv2d, nn.Conv3d),
    *(nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d),
    *(nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d, nn.PixelShuffle),
)
AFFINE_IN_USE = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.Dropout, nn.Dropout2d)
ELEMENTWISE = (
    *(nn.Tanh, nn.Sigmoid, nn.Softplus, nn.ReLU, nn.LeakyReLU, nn.ELU, nn.SELU, nn.CELU),
    *(nn.GELU, nn.SiLU, nn.Mish, nn.LogSigmoid, nn.Softsign),
)
FUNCTIONS = (
    *(torch.tanh, torch.sigmoid, torch.relu, torch.exp, torch.sin, torch.cos),
    *(functional.tanh, functional.sigmoid, functional.softplus, functional.relu),
    *(functional.leaky_relu, functional.elu, functional.gelu, functional.silu),
)
METHODS = ("tanh", "sigmoid", "relu", "exp", "sin", "cos")


def jet_of_tanh(y: torch.Tensor) -> tuple:
    value = torch.tanh(y)
    slope = 1.0 - value * value
    return value, slope, -2.0 * value * slope


def jet_of_sigmoid(y: torch.Tensor) -> tuple:
    value = torch.sigmoid(y)
    slope = value * (1.0 - value)
    return value, slope, slope * (1.0 - 2.0 * value)


def jet_of_silu(y: torch.Tensor) -> tuple:
    s = torch.sigmoid(y)
    rest = 1.0 - s
    return y * s, s * (1.0 + y * rest), s * rest * (2.0 + y * (1.0 - 2.0 * s))


JETS = {nn.Tanh: jet_of_tanh, nn.Sigmoid: jet_of_sigmoid, nn.SiLU: jet_of_silu}


@dataclass(frozen=True)
class Layer:
    """One step of a chain, a function of rows; affine, or elementwise."""

    apply: Callable
    affine: bool
    jet: Callable | None = None  # value, slope and bend in closed form


def layers_of(module: Any) -> list[Layer] | None:
    """The layers of a module in double precision, or None if it is not a chain of known ones."""
    if not isinstance(module, nn.Module):
        return None
    try:
        graph = torch.fx.symbolic_trace(copy.deepcopy(module).double().requires_grad_(False))
    except Exception:  # noqa: BLE001 (whatever it is, the module is differentiated as a whole)
        return None
    layers, last = [], None
    for node in graph.graph.nodes:
        if last is None or node.op == "output":
            fits = node.op == ("placeholder" if last is None else "output")
            if not fits or (last is not None and node.args != (last,)):
                return None
        elif node.args[:1] != (last,) or node.all_input_nodes != [last]:
            return None
        else:
            layer = _layer(graph, node)
            if layer is None:
                return None
            layers.append(layer)
        last = node
    return layers


def _layer(graph: Any, node: Any) -> Layer | None:
    more, named = node.args[1:], node.kwargs
    if node.op == "call_module":
        part = graph.get_submodule(node.target)
        settled = isinstance(part, AFFINE_IN_USE) and not part.training
        if settled or isinstance(part, AFFINE):
            return Layer(part, affine=True)
        part.inplace = False
        known = isinstance(part, ELEMENTWISE)
        return Layer(part, affine=False, jet=JETS.get(type(part))) if known else None
    if node.op == "call_function" and node.target in FUNCTIONS:
        return Layer(lambda z: node.target(z, *more, **named), affine=False)
    if node.op == "call_method" and node.target in METHODS:
        return Layer(lambda z: getattr(z, node.target)(), affine=False)
    if node.op == "call_method" and node.target in ("view", "reshape") and more[0] == -1:
        return Layer(lambda z: z.reshape(more), affine=True)
    return None


def shortened(layers: list[Layer]) -> list[Layer]:
    """A chain with fewer outputs, whose derivatives have the same inner products.

    Closing layers that only rearrange numbers are left out, and of a closing matrix A = Q R, which
    images have hundreds of rows of, R does.
    """
    while layers and isinstance(layers[-1].apply, nn.Identity | nn.Flatten | nn.Unflatten):
        layers = layers[:-1]
    last = layers[-1].apply if layers else None
    if not isinstance(last, nn.Linear) or last.out_features <= last.in_features:
        return layers
    R = torch.linalg.qr(last.weight.detach(), mode="r").R
    short = nn.Linear(last.in_features, last.in_features, bias=False)
    short.weight = nn.Parameter(R, requires_grad=False)
    return [*layers[:-1], Layer(short, affine=True)]


def jets(layers: list[Layer], x: torch.Tensor, axes: torch.Tensor, second: bool) -> torch.Tensor:
    """Derivatives of a chain at rows x (n, D) along axes (K, n or 1, D): (K, n, M).

    If asked for, followed by second ones along the pairs i >= j, in the order of
    `torch.tril_indices`: (K + K (K + 1) / 2, n, M).
    """
    K, n = len(axes), len(x)
    pairs = torch.tril_indices(K, K).T.tolist() if second else []
    first, bent = axes, x.new_zeros(len(pairs), 1, x.shape[1])
    for layer in layers:
        if layer.affine:
            origin = layer.apply(torch.zeros_like(x[:1]))  # what does not depend on x
            x, first, bent = layer.apply(x), *(_linear(layer, origin, z) for z in (first, bent))
            continue
        x, slope, bend = (layer.jet or partial(_jet, layer.apply))(x)
        curved = slope.new_empty(len(pairs), *slope.shape)
        for out, (i, j) in zip(curved, pairs, strict=True):
            torch.mul(first[i] * first[j], bend, out=out)
        bent = curved.addcmul_(slope, bent)
        first = slope * first
    return torch.cat([part.flatten(2).expand(-1, n, -1) for part in (first, bent)])


def _linear(layer: Layer, origin: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    """Derivatives (K, n, ...) after an affine layer."""
    if isinstance(layer.apply, nn.Linear):
        return z @ layer.apply.weight.T
    out = layer.apply(z.flatten(0, 1)) - origin
    return out.reshape(*z.shape[:2], *out.shape[1:])


def _jet(f: Callable, y: torch.Tensor) -> tuple:
    """f, f' and f'' of an elementwise function, by forward derivatives."""
    ones = torch.ones_like(y)

    def sloped(y: torch.Tensor) -> tuple:
        return torch.func.jvp(f, (y,), (ones,))

    (value, slope), (_, bend) = torch.func.jvp(sloped, (y,), (ones,))[:2]
    return value, slope, bend
