"""How often the shortest curve is missed, by kind of metric and thoroughness.

    PROBGEO_THREADS=1 python benchmarks/search.py [KIND ...]

Mixtures of Gaussians are learned from toy shapes and images of digits; geodesics are those between
random pairs of their points. Held against the shortest curve known: that of the thorough search, or
of polygons relaxed from fifty detours over random data and as many over two of them, which nothing
in the library does. The seeds of these sets are others than those that the search was tuned with.
"""

import sys
import time
import warnings
from pathlib import Path
from zlib import crc32

import numpy as np
from sklearn.datasets import load_digits, make_moons, make_swiss_roll
from sklearn.decomposition import PCA

from probgeo import Manifold, data, metrics
from probgeo.geometry.chains import minimise
from probgeo.geometry.search import EFFORTS, as_chains, doubled

PAGE = Path(__file__).parent / "results" / "search.md"
SEEDS = (101, 102)
# components, regularisation, pairs; digits: dimensions and numbers of classes
SHAPES = {
    "moons": (10, 2e-3, 100),
    "rings": (14, 2e-3, 100),
    "spiral": (14, 1e-3, 100),
    "roll": (14, 2e-3, 80),
    "helix": (12, 3e-3, 80),
    "trefoil": (14, 3e-3, 80),
}
IMAGES = {
    "a digit, D = 2": (2, 1, 9, 1e-2, 100),
    "three digits, D = 5": (5, 3, 9, 1e-2, 80),
    "three digits, D = 10": (10, 3, 9, 1e-2, 50),
    "three digits, D = 20": (20, 3, 9, 1e-2, 20),
    "a digit, D = 5, sharp": (5, 1, 10, 1e-3, 80),
    "a digit, D = 10, sharp": (10, 1, 10, 1e-3, 40),
    "ones, D = 5": (5, 0, 10, 5e-3, 60),
    "ones, D = 10": (10, 0, 10, 5e-3, 30),
}


def points_of(kind: str, rng: np.random.Generator) -> np.ndarray:
    """Data (N, D) of a kind."""
    seed, noise = int(rng.integers(2**31)), rng.normal(size=(800, 3))
    if kind in IMAGES:
        D, classes = IMAGES[kind][:2]
        digits = load_digits()
        chosen = np.isin(digits.target, rng.choice(10, classes, replace=False))
        X = digits.data[chosen] if classes else data.mnist_ones().vectors
        X = PCA(D).fit_transform(X)
        return X / X[:, 0].std()
    if kind == "moons":
        return make_moons(600, noise=0.06, random_state=seed)[0]
    if kind == "roll":
        return make_swiss_roll(900, noise=0.2, random_state=seed)[0] / 10.0
    t = rng.uniform(0.0, 1.0, 800)
    circle = np.stack([np.cos(2 * np.pi * t), np.sin(2 * np.pi * t)], axis=1)
    if kind == "rings":
        return np.where(rng.random((800, 1)) < 0.5, 0.5, 1.1) * circle + 0.04 * noise[:, :2]
    if kind == "spiral":
        angle = (0.3 + 0.7 * t) * 3.2 * np.pi
        return angle[:, None] / 10.0 * np.stack([np.cos(angle), np.sin(angle)], axis=1) + 0.02 * noise[:, :2]
    if kind == "helix":
        angle = 4.0 * np.pi * t
        return np.stack([np.cos(angle), np.sin(angle), angle / 5.0], axis=1) + 0.05 * noise
    angle = 2.0 * np.pi * t
    knot = [np.sin(angle) + 2 * np.sin(2 * angle), np.cos(angle) - 2 * np.cos(2 * angle), -np.sin(3 * angle)]
    return np.stack(knot, axis=1) / 2.0 + 0.05 * noise


def best_known(metric: metrics.LocalMetrics, X: np.ndarray, a: np.ndarray, b: np.ndarray, seed: int) -> np.ndarray:
    """The lengths (n,) of the shortest curves that are found with patience."""
    rng, found = np.random.default_rng(seed), Manifold(metric, thoroughness="thorough").geodesic(a, b, progress=False)
    best = np.where(found.converged, found.length.mean, np.inf)
    for n in range(len(a)):
        over = X[rng.integers(len(X), size=(100, 2))]
        over[:50, 1] = over[:50, 0]  # one point, passed at half time
        s = np.linspace(0.0, 3.0, 9)
        corners = np.concatenate([np.tile(a[n], (100, 1, 1)), over, np.tile(b[n], (100, 1, 1))], axis=1)
        left = np.minimum(s.astype(int), 2)
        polygons = doubled(corners[:, left] + (s - left)[:, None] * (corners[:, left + 1] - corners[:, left]))
        relaxed = minimise(metric, as_chains(polygons), 1e-4)
        lowest = np.argsort(relaxed.energy)[:6]
        guess = relaxed.chains.nodes.reshape(polygons.shape)[lowest]
        ends = np.tile(a[n], (6, 1)), np.tile(b[n], (6, 1))
        others = Manifold(metric).geodesic(*ends, guess=guess, progress=False)
        best[n] = min(best[n], *np.where(others.converged, others.length.mean, np.inf))
    return best


def measured(kind: str, seed: int) -> tuple[int, dict[str, tuple[int, int, float]]]:
    """Pairs, and by thoroughness: how many are flagged, silently too long, and seconds in all."""
    rng = np.random.default_rng([seed, crc32(kind.encode())])
    components, regularisation, pairs = SHAPES[kind] if kind in SHAPES else IMAGES[kind][2:]
    X = points_of(kind, rng)
    metric = metrics.from_mixture(X, components, regularisation=regularisation, seed=seed)
    a, b = X[np.stack([rng.permutation(len(X))[:2] for _ in range(pairs)], axis=1)]
    found = {}
    for thoroughness in EFFORTS:
        manifold = Manifold(metric, thoroughness=thoroughness)
        manifold.geodesic(a[:2], b[:2], progress=False)
        start = time.process_time()
        geodesic = manifold.geodesic(a, b, progress=False)
        found[thoroughness] = geodesic, time.process_time() - start
    best = np.minimum.reduce([best_known(metric, X, a, b, seed), *(g.length.mean for g, _ in found.values())])
    out = {}
    for thoroughness, (geodesic, seconds) in found.items():
        long = geodesic.converged & (geodesic.length.mean > 1.01 * best)
        out[thoroughness] = int(np.sum(~geodesic.converged)), int(np.sum(long)), seconds
    return pairs, out


def main(kinds: list[str]) -> None:
    names, total = list(EFFORTS), np.zeros((len(EFFORTS), 3))
    lines, everyone = [], 0
    for kind in kinds or [*SHAPES, *IMAGES]:
        parts = [measured(kind, seed) for seed in SEEDS]
        pairs = sum(part[0] for part in parts)
        sums = np.array([[part[1][name] for name in names] for part in parts]).sum(axis=0)
        total, everyone = total + sums, everyone + pairs
        lines.append(row(kind, pairs, sums))
        print(lines[-1], flush=True)
    lines.append(row("**all**", everyone, total))
    head = "| metric | geodesics | " + " | ".join(f"{name} | ms" for name in names) + " |"
    text = [*"# Missed curves\n".splitlines(), "", *__doc__.split("\n\n", 2)[2].strip().splitlines(), ""]
    text += ["How many are not flagged and more than 1 % longer than the best known, and milliseconds each.", ""]
    PAGE.write_text("\n".join([*text, head, "| --- " * (2 + 2 * len(names)) + "|", *lines]) + "\n", encoding="utf-8")


def row(kind: str, pairs: int, sums: np.ndarray) -> str:
    """Of the table: flagged, too long and seconds (efforts, 3) of a kind."""
    cells = [f"{long:.0f}{f' (+{lost:.0f} flagged)' if lost else ''} | {1e3 * s / pairs:.2f}" for lost, long, s in sums]
    return f"| {kind} | {pairs} | " + " | ".join(cells) + " |"


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(sys.argv[1:])
