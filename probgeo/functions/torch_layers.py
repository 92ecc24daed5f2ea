"""Derivatives of decoders in PyTorch that are a chain of layers, affine or elementwise.

`torch.func` differentiates an activation once for every direction, and nested derivatives once
more. In a chain that is not needed: the derivatives of an activation are taken once, and affine
layers take a value and all its derivatives at once. Exact all the same, and four times as fast.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional

from probgeo.functions.composed import Stacked

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


@dataclass(frozen=True)
class Layer:
    """One step of a chain, a function of rows; affine, or elementwise."""

    apply: Callable
    affine: bool


class ComposedModule(nn.Module):
    """x -> formula(module(x)); the formula is a layer if it says that it is elementwise."""

    def __init__(self, module: nn.Module, formula: Callable) -> None:
        super().__init__()
        self.module, self.formula = module, formula

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.formula(self.module(x))


class StackedModule(nn.Module):
    """x -> the values of several modules, or functions, as `Stacked` has them."""

    def __init__(self, functions: tuple[Callable, ...]) -> None:
        super().__init__()
        self.modules_in_use = nn.ModuleList([f for f in functions if isinstance(f, nn.Module)])
        self.stack = Stacked(functions)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.stack(x)


def layers_of(module: Any) -> list[Layer] | None:
    """The layers of a module in double precision, or None if it is not a chain of known ones."""
    if not isinstance(module, nn.Module):
        return None
    if isinstance(module, ComposedModule):
        before = layers_of(module.module) if getattr(module.formula, "elementwise", False) else None
        return None if before is None else [*before, Layer(module.formula, affine=False)]
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
        return Layer(part, affine=False) if isinstance(part, ELEMENTWISE) else None
    if node.op == "call_function" and node.target in FUNCTIONS:
        return Layer(lambda z: node.target(z, *more, **named), affine=False)
    if node.op == "call_method" and node.target in METHODS:
        return Layer(lambda z: getattr(z, node.target)(), affine=False)
    if node.op == "call_method" and node.target in ("view", "reshape") and more[0] == -1:
        return Layer(lambda z: z.reshape(more), affine=True)
    return None


def jets(layers: list[Layer], x: torch.Tensor, directions: torch.Tensor, second: bool) -> tuple:
    """Derivatives of a chain at rows x (n, D) along directions (K, n, D): (K, n, M).

    If asked for, also second ones along the pairs i >= j, in the order of `torch.tril_indices`:
    (K (K + 1) / 2, n, M).
    """
    K, n = directions.shape[:2]
    i, j = torch.tril_indices(K, K)
    pairs = len(i) if second else 0
    # the value, first and second derivatives, one after the other
    z = torch.cat([x[None], directions, x.new_zeros(pairs, *x.shape)])
    for layer in layers:
        if layer.affine:
            flat = z.flatten(0, 1)
            out = layer.apply(flat)
            out[n:] -= layer.apply(torch.zeros_like(flat[:1]))  # what does not depend on z
            z = out.reshape(len(z), n, *out.shape[1:])
        else:
            z = _activated(layer.apply, z, K, i, j) if second else _sloped(layer.apply, z)
    z = z.flatten(2)
    return z[1 : K + 1], z[K + 1 :]


def _sloped(f: Callable, z: torch.Tensor) -> torch.Tensor:
    """Values z[0] and first derivatives z[1:] after an elementwise function."""
    value, slope = torch.func.jvp(f, (z[0],), (torch.ones_like(z[0]),))[:2]
    return torch.cat([value[None], slope * z[1:]])


def _activated(
    f: Callable, z: torch.Tensor, K: int, i: torch.Tensor, j: torch.Tensor
) -> torch.Tensor:
    """Values, K first and then second derivatives along pairs, after an elementwise function."""
    ones = torch.ones_like(z[0])

    def sloped(y: torch.Tensor) -> tuple:
        return torch.func.jvp(f, (y,), (ones,))

    (value, slope), (_, bend) = torch.func.jvp(sloped, (z[0],), (ones,))[:2]
    out = slope * z
    out[0] = value
    out[K + 1 :] += bend * z[1 + i] * z[1 + j]
    return out
