"""Geodesics in the latent space of decoders, against splines fitted by Adam.

    PROBGEO_THREADS=2 python benchmarks/decoders.py

An autoencoder of handwritten digits, 28 x 28 pixels, is trained with PyTorch, then 1000 geodesics
between random codes are solved: by the library, and by what users write today, 1000 steps of Adam
on the energy of splines, all of them in one batch. Lengths are those of the decoded curves at
2000 points. Then all distances between 133 codes by an ensemble of ten small decoders, each trained
on digits drawn with replacement. Seconds are those of the clock on two cores, with those that the
processor spent in brackets: these count when others work on the machine as well.
"""

import itertools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.ndimage import zoom
from sklearn.datasets import load_digits
from torch.nn import Linear, Sequential, Tanh

from probgeo import Manifold, metrics

PAGE = Path(__file__).parent / "results" / "decoders.md"
T = torch.linspace(0.0, 1.0, 2000, dtype=torch.float64)


def timed(work: Callable[[], Any]) -> tuple[Any, str]:
    """What it returns, and the seconds that it took."""
    wall, processor = time.perf_counter(), time.process_time()
    found = work()
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    return found, f"{wall:.1f} ({processor:.1f})"


def trained(images: np.ndarray, sizes: list[int], decoders: int, steps: int = 600) -> tuple:
    """Codes (N, 2) of images (N, M) and decoders of them, the k-th for the k-th resampling."""
    x = torch.tensor(images, dtype=torch.float32)
    encoder = network([x.shape[1], 64, 2])
    made = [network([2, *sizes, x.shape[1]]) for _ in range(decoders)]
    adam = torch.optim.Adam([p for m in (encoder, *made) for p in m.parameters()], lr=3e-3)
    drawn = torch.randint(len(x), (decoders, len(x))) if decoders > 1 else [torch.arange(len(x))]
    for _ in range(steps):
        codes = encoder(x)
        loss = 1e-3 * (codes**2).mean() + sum(
            ((decoder(codes[some] + 0.1 * torch.randn(len(some), 2)) - x[some]) ** 2).mean()
            for decoder, some in zip(made, drawn, strict=True)
        )
        adam.zero_grad()
        loss.backward()
        adam.step()
    return encoder(x).detach().double().numpy(), [decoder.eval() for decoder in made]


def network(sizes: list[int]) -> Sequential:
    layers = []
    for one, next_one in itertools.pairwise(sizes):
        layers += [Linear(one, next_one), Tanh()]
    return Sequential(*layers[:-1])


def by_adam(decoder: torch.nn.Module, a: np.ndarray, b: np.ndarray, free: int = 8, steps: int = 1000) -> np.ndarray:
    """Curves (n, 2000, 2) of least energy among splines with `free` knots."""
    first, last = (torch.tensor(x, dtype=torch.float32)[:, None] for x in (a, b))
    knots = torch.zeros(len(a), free, 2, requires_grad=True)
    coarse, fine = basis(np.linspace(0, 1, 33), free), basis(T.numpy(), free)
    t = torch.linspace(0.0, 1.0, 33)[:, None]
    adam = torch.optim.Adam([knots], lr=1e-2)
    for _ in range(steps):
        curve = first + t * (last - first) + coarse @ knots
        decoded = decoder(curve)
        energy = 32 * ((decoded[:, 1:] - decoded[:, :-1]) ** 2).sum((1, 2))
        adam.zero_grad()
        energy.sum().backward()
        adam.step()
    with torch.no_grad():
        curve = first + T.float()[:, None] * (last - first) + fine @ knots
    return curve.double().numpy()


def basis(t: np.ndarray, free: int) -> torch.Tensor:
    """Cubic splines that are zero at both ends, (T, free)."""
    from scipy.interpolate import CubicSpline

    places = np.linspace(0.0, 1.0, free + 2)
    return torch.tensor(CubicSpline(places, np.eye(free + 2)[:, 1:-1])(t), dtype=torch.float32)


def lengths(decoder: torch.nn.Module, curves: np.ndarray) -> np.ndarray:
    """Of decoded curves (n, T, 2)."""
    found = []
    with torch.no_grad():
        for part in np.array_split(curves, 100):
            decoded = decoder(torch.tensor(part))
            found.append((decoded[:, 1:] - decoded[:, :-1]).norm(dim=2).sum(1).numpy())
    return np.concatenate(found)


def thousand(pixels: np.ndarray, rng: np.random.Generator) -> list[str]:
    codes, (decoder,) = trained(pixels, [128, 128], 1)
    print("trained", flush=True)
    first = rng.permutation(len(codes))[:1000]
    a, b = codes[first], codes[np.roll(first, 1)]
    rows = ["| way | seconds | longer than the other by more than 0.1 % | converged |", "|-|-|-|-|"]
    in_double = Sequential(*decoder).double()
    manifold = Manifold(metrics.Pullback(in_double))
    _, first_call = timed(lambda: manifold.geodesic(a[0], b[0]))
    geodesics, seconds = timed(lambda: manifold.geodesic(a, b, progress=False))
    ours = lengths(in_double, geodesics.mean(T.numpy()))
    print(f"solved in {seconds} s", flush=True)
    honest = np.abs(geodesics.mean_length - ours) <= 1e-4 * ours  # polygons are a little shorter
    curves, adams = timed(lambda: by_adam(Sequential(*decoder).float(), a, b))
    theirs = lengths(Sequential(*decoder).double(), curves)
    known = np.isfinite(theirs)
    ratio = theirs[known] / ours[known]
    good = geodesics.converged
    rows += [
        f"| probgeo | {seconds}, first call {first_call} | "
        f"{np.sum(ours > 1.001 * theirs)} of 1000 | {good.sum()}; "
        f"{np.sum(good & ~honest)} of them with a length that is not that of the curve |",
        f"| Adam, 1000 steps on splines | {adams} | {np.sum(ratio > 1.001)} of 1000 | "
        f"not known; {np.sum(~known)} are not finite |",
        "",
        f"Silent failures, converged but longer than Adam's by more than 0.1 %: "
        f"{np.sum(good & (ours > 1.001 * theirs))}. Median ratio of lengths, Adam's over ours: "
        f"{np.median(ratio):.5f}, largest {np.max(ratio):.3f}, smallest {np.min(ratio):.5f}.",
    ]
    return rows


def ensemble(pixels: np.ndarray, rng: np.random.Generator) -> list[str]:
    codes, decoders = trained(pixels, [32], 10)
    some = codes[rng.choice(len(codes), 133, replace=False)]
    manifold = Manifold(metrics.Ensemble(decoders))
    manifold.distance(some[0], some[1])
    found, seconds = timed(lambda: manifold.distance_matrix(some, progress=False))
    pairs = np.triu_indices(133, 1)
    relative = (found.model_std / found.mean)[pairs]
    return [
        f"8,778 distances by ten decoders and by the expected metric: {seconds} s; "
        f"{found.converged[pairs].sum()} converged. Spread over decoders: "
        f"{100 * np.median(relative):.1f} % of the distance (median); numerical error: "
        f"{100 * np.median((found.numerical_std / found.mean)[pairs]):.1g} %."
    ]


def main() -> None:
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    digits = load_digits().images / 16.0
    large = zoom(digits, (1, 3.5, 3.5), order=1).reshape(len(digits), -1)
    small = ensemble(digits.reshape(-1, 64), rng)  # Adam, which takes longest, comes last
    text = ["# Decoders", "", (__doc__ or "").split("\n\n", 2)[2].strip(), ""]
    text += ["## A decoder 2 -> 128 -> 128 -> 784, tanh, in PyTorch", "", *thousand(large, rng), ""]
    text += ["## Ten decoders 2 -> 32 -> 64", "", *small, ""]
    PAGE.write_text("\n".join(text), encoding="utf-8")
    print("\n".join(text))


if __name__ == "__main__":
    main()
