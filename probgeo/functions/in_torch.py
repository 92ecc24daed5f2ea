"""Functions and modules of rows written with PyTorch; derivatives by `torch.func`."""

import math
import threading
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np
import torch

from probgeo.functions import formulas
from probgeo.functions.composed import Stacked
from probgeo.functions.field import FunctionField
from probgeo.functions.parameters import leaves_of, rebuilt
from probgeo.functions.row_function import AT_ONCE, RowFunction, in_blocks
from probgeo.functions.torch_layers import Layer, jets, layers_of, shortened

# Forward derivatives have one level for all threads, and a module lends out its parameters while it
# is called with others: without the lock, decoders failed on two threads, now and then.
ONE_AT_A_TIME = threading.Lock()


def in_double_precision(f: Callable) -> Callable:
    """A module as a function of float64 tensors, with its parameters as they are now; other functions as they are."""
    if isinstance(f, Stacked):
        return Stacked(tuple(map(in_double_precision, f.functions)))
    if not isinstance(f, torch.nn.Module):
        return f
    parts = {**dict(f.named_parameters()), **dict(f.named_buffers())}
    doubled = {name: x.detach().double() if x.is_floating_point() else x.detach() for name, x in parts.items()}
    return lambda *arguments: torch.func.functional_call(f, doubled, arguments)


def in_single_precision(f: Callable) -> Callable:
    """A function that wants float32 tensors, as one of float64; modules stay as they are."""
    if isinstance(f, torch.nn.Module):
        return f

    def narrow(x: Any) -> Any:
        return x.float() if x.is_floating_point() else x

    return lambda *arguments: f(*rebuilt(arguments, [narrow(x) for x in leaves_of(arguments)]))


class ThroughTensors:
    """Rows of NumPy through tensors and back, without gradients."""

    def __init__(self, f: Callable, numbers: int = 1) -> None:
        parts = f.functions if isinstance(f, Stacked) else (f,)
        modules = [part for part in parts if isinstance(part, torch.nn.Module)]
        devices = [parameter.device for module in modules for parameter in module.parameters()]
        self.device = devices[0] if devices else torch.device("cpu")
        self.own, self.numbers = in_double_precision(f), numbers

    def tensor(self, array: np.ndarray) -> torch.Tensor:
        array = np.ascontiguousarray(array)
        return torch.from_numpy(array if array.flags.writeable else array.copy()).to(self.device)

    def once(self, *arguments: Any) -> Any:
        """f of trees of rows; in the precision that it computes in."""
        tensors = rebuilt(arguments, [self.tensor(leaf) for leaf in leaves_of(arguments)])
        with ONE_AT_A_TIME, torch.no_grad():
            out = self.own(*tensors)
        if isinstance(out, torch.Tensor):
            return out.cpu().numpy() if out.dtype == torch.float32 else _to_numpy(out)
        return out

    def run(self, formula: Callable, *arrays: np.ndarray, free: bool = False) -> tuple[np.ndarray, ...]:
        """Outputs (n, ...) of a formula at arrays (n, ...), in blocks; `free`: on several threads at a time."""
        n = len(arrays[0])
        if not n:  # `vmap` wants at least one row
            one = (np.zeros((1, *array.shape[1:]), dtype=array.dtype) for array in arrays)
            return tuple(out[:0] for out in self.run(formula, *one, free=free))
        width = sum(max(1, math.prod(array.shape[1:])) for array in arrays)

        def some(*part: np.ndarray) -> tuple[np.ndarray, ...]:
            with nullcontext() if free else ONE_AT_A_TIME, torch.no_grad():
                return tuple(_to_numpy(out) for out in formula(*map(self.tensor, part)))

        # outputs count less than for JAX: every operation of torch takes tens of microseconds by
        # itself, and decoders to 784 numbers were fastest at some 250 rows at a time
        return in_blocks(some, arrays, max(1, AT_ONCE // max(width, self.numbers // 6)))


def _to_numpy(out: torch.Tensor) -> np.ndarray:
    if out.is_complex():
        raise TypeError(f"functions must return real numbers, got {out.dtype}")
    return np.array(out.detach().cpu().numpy(), dtype=np.float64, order="C")


class TorchField(FunctionField):
    def __init__(self, f: Callable, order: int, dimension: int, args: Any = None) -> None:
        super().__init__(f, order, dimension, args)
        self._tensors = ThroughTensors(f)

    def _run(self, what: str, t: np.ndarray, state: np.ndarray, member: np.ndarray) -> tuple[np.ndarray, ...]:
        known = {"values": lambda *row: (self._at(*row),), "jacobians": self._jacobians, "by_args": self._by_args}
        rows = (np.asarray(t, dtype=float), np.asarray(state, dtype=float), *(leaf[member] for leaf in self._leaves))
        return self._tensors.run(known[what], *rows)

    def _at(self, t: torch.Tensor, state: torch.Tensor, *leaves: torch.Tensor) -> torch.Tensor:
        args = () if self._tree is None else (rebuilt(self._tree, list(leaves)),)
        return self._tensors.own(t, *state.unbind(1), *args).double()

    def _jacobians(self, t: torch.Tensor, state: torch.Tensor, *leaves: torch.Tensor) -> tuple:
        columns = _directional(lambda y: self._at(t, y.reshape(state.shape), *leaves), state.reshape(len(t), -1))
        J = columns.reshape(self.order, self.dimension, len(t), self.dimension)
        return (J.permute(2, 0, 3, 1),)

    def _by_args(self, t: torch.Tensor, state: torch.Tensor, *leaves: torch.Tensor) -> tuple:
        def by(k: int) -> torch.Tensor:
            shape = leaves[k].shape
            columns = _directional(
                lambda y: self._at(t, state, *leaves[:k], y.reshape(shape), *leaves[k + 1 :]),
                leaves[k].reshape(len(t), -1),
            )
            return columns.permute(1, 2, 0).reshape(len(t), self.dimension, *shape[1:])

        return tuple(by(k) for k, real in enumerate(self._real) if real)


def _directional(function: Callable, x: torch.Tensor) -> torch.Tensor:
    """Derivatives of a function of rows x (n, K), each by itself, by each column: (K, n, D).

    Half the time of one-row formulas that are mapped over rows and columns.
    """

    def along(direction: torch.Tensor) -> torch.Tensor:
        return torch.func.jvp(function, (x,), (direction.expand_as(x),))[1]

    return torch.func.vmap(along)(torch.eye(x.shape[1], dtype=x.dtype, device=x.device))


class TorchRowFunction(RowFunction):
    """A map x (n, D) -> (n, ...) of rows."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._tensors = ThroughTensors(self.f, math.prod(self.out_shape))
        layers = layers_of(self.f)
        if layers is not None and self.after is not None:
            layers = [*layers, Layer(self.after, affine=False)] if getattr(self.after, "elementwise", False) else None
        self._layers = None if layers is None else shortened(layers)

    def _at(self, x: torch.Tensor) -> torch.Tensor:
        value = self._tensors.own(x).double()
        return value if self.after is None else self.after(value)

    def _run(self, what: str, *columns: np.ndarray) -> tuple[np.ndarray, ...]:
        rows = [np.asarray(column, dtype=float) for column in columns]
        if what == "values":
            return self._tensors.run(lambda x: (self._at(x),), *rows)
        if self._layers is not None and what in OF_LAYERS:
            free = all(layer.affine or layer.jet is not None for layer in self._layers)
            return self._tensors.run(partial(OF_LAYERS[what], self._layers), *rows, free=free)
        formula = formulas.formula(what, torch.func, lambda x: self._at(x[None])[0])
        return self._tensors.run(torch.func.vmap(formula), *rows)


def _layers_energy(layers: list[Layer], x: torch.Tensor, v: torch.Tensor) -> tuple:
    speed = jets(layers, x, v[None], second=False)
    return (0.5 * (speed[0] ** 2).sum(1),)


def _along_axes(layers: list[Layer], x: torch.Tensor, second: bool) -> torch.Tensor:
    axes = torch.eye(x.shape[1], dtype=x.dtype, device=x.device)[:, None]
    return jets(layers, x, axes, second)


def _products(vectors: torch.Tensor) -> torch.Tensor:
    rows = vectors.transpose(0, 1)
    return rows @ rows.mT


def _layers_force(layers: list[Layer], x: torch.Tensor, v: torch.Tensor) -> tuple:
    J, (_, bend) = _along_axes(layers, x, second=False), jets(layers, x, v[None], second=True)
    return -(J * bend).sum(2).T, _products(J)


OF_LAYERS: dict[str, Callable[..., tuple]] = {
    "decoder energy": _layers_energy,
    "decoder tensor": lambda layers, x: (_products(_along_axes(layers, x, second=False)),),
    "decoder products": lambda layers, x: (_products(_along_axes(layers, x, second=True)),),
    "decoder force": _layers_force,
}
