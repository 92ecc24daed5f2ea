"""How sure a decoder is: a precision that is high near the codes it has learned from."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from probgeo._checks import as_float_array, as_positive, as_whole_number
from probgeo._repr import described
from probgeo.functions.composed import constant, library_of
from probgeo.metrics.arguments import as_distinct_points


@dataclass(frozen=True, repr=False, eq=False)
class RadialPrecision:
    """A standard deviation from radial units, 1 / std(z)^2 = sum_k weights_k phi_k(z) + floor.

    phi_k(z) = exp(-|z - centers_k|^2 / 2 widths_k^2). Away from all centres the precision falls to the floor, and the
    standard deviation grows to 1 / sqrt(floor). `radial_std` fits one; it is what `Pullback` takes as `std`.

    Parameters
    ----------
    centers : array (K, D)
    widths : array (K,)
    weights : array (K, M)
        Not negative; M is the number of outputs of the decoder.
    floor : array (M,)
        Positive.

    Call it with codes (..., D) of JAX, NumPy or torch to get deviations (..., M).

    Examples
    --------
    >>> std = RadialPrecision(np.zeros((1, 2)), np.ones(1), np.array([[3.75]]), np.array([0.25]))
    >>> std(np.array([[0.0, 0.0], [9.0, 0.0]])).round(3).tolist()
    [[0.5], [2.0]]
    """

    centers: np.ndarray
    widths: np.ndarray
    weights: np.ndarray
    floor: np.ndarray

    def __repr__(self) -> str:
        return described(self)

    def __call__(self, z: Any) -> Any:
        xp = library_of(z)
        if xp is np:
            z = np.asarray(z, dtype=np.float64)
        numbers = (constant(x, z) for x in (self.centers, self.widths, self.weights, self.floor))
        centers, widths, weights, floor = numbers
        return (_units(z, centers, widths, xp) @ weights + floor) ** -0.5


def _units(z: Any, centers: Any, widths: Any, xp: Any) -> Any:
    """phi (..., K) at z (..., D)."""
    squares = ((z[..., None, :] - centers) ** 2).sum(-1)
    return xp.exp(-0.5 * squares / widths**2)


def radial_std(
    Z: Any, residuals: Any, n_units: int = 50, *, width: Any = 2.0, floor: Any = 1e-4, seed: int = 0
) -> RadialPrecision:
    """Fit the standard deviation of a decoder to what it got wrong.

    Centres are those of k-means on the codes. Weights are the likeliest ones for normal residuals
    of variance 1 / precision: then, for each unit in use, the variance averaged over the codes
    near it is the mean squared residual there.

    Parameters
    ----------
    Z : array (N, D)
        Codes, for instance means of the encoder.
    residuals : array (N, ...)
        Data minus what the codes are decoded to, of any shape, one item a code.
    n_units : int
        Number K of radial units; at most as many as there are distinct codes are used. More follow
        the data more closely.
    width : float
        Width of a unit over the root mean square distance of its codes from its centre. Below 1
        there are holes between neighbouring units; large ones let uncertainty begin late.
    floor : float
        Precision far away over that near the codes: far away the standard deviation is
        1 / sqrt(floor) times the root mean square residual, output by output.
    seed : int
        Of k-means.

    References
    ----------
    Arvanitidis, Hansen & Hauberg (2018), Latent space oddity.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> Z = rng.normal(size=(500, 2))
    >>> std = radial_std(Z, 0.1 * rng.normal(size=(500, 3)), n_units=10)
    >>> std(np.array([[0.0, 0.0], [9.0, 9.0]]))[:, 0].round(1).tolist()
    [0.1, 9.5]
    """
    codes = as_distinct_points("Z", Z, least=2)
    squares = as_float_array("residuals", residuals) ** 2
    if squares.ndim < 2 or len(squares) != len(codes):
        raise ValueError(f"residuals must have shape ({len(codes)}, ...), one item a code, got {squares.shape}")
    squares = squares.reshape(len(codes), -1)
    total = squares.mean()
    if total == 0.0:
        raise ValueError("residuals must not all be zero: there is no noise to fit")
    count = min(as_whole_number("n_units", n_units, 1), len(np.unique(codes, axis=0)))
    scale = as_positive("width", width)
    share = as_positive("floor", floor)
    centers, spread = _clusters(codes, count, as_whole_number("seed", seed, 0))
    phi = _units(codes, centers, scale * spread, np)
    squares = squares + 1e-6 * total  # outputs without any error would be infinitely precise
    least = share / squares.mean(axis=0)
    return RadialPrecision(centers, scale * spread, _likeliest(phi, squares, least), least)


def _clusters(codes: np.ndarray, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Centres (K, D), and root mean square distances (K,) of their codes from them."""
    from sklearn.cluster import KMeans  # slow to import, and needed only here

    found = KMeans(count, n_init=4, random_state=seed).fit(codes)
    away = np.sum((codes - found.cluster_centers_[found.labels_]) ** 2, axis=1)
    sizes = np.bincount(found.labels_, minlength=count)
    within = np.bincount(found.labels_, away, minlength=count) / sizes
    # a cluster of few codes says little about its spread
    usual = within.mean() if within.any() else np.var(codes)
    return found.cluster_centers_, np.sqrt((sizes * within + 2.0 * usual) / (sizes + 2.0))


def _likeliest(phi: np.ndarray, squares: np.ndarray, floor: np.ndarray, steps: int = 200) -> np.ndarray:
    """Weights W (K, M) that minimise sum_n beta_n r_n^2 - log beta_n, with beta = phi W + floor.

    Multiplicative steps keep them positive: each weight times the ratio of what the variances 1 / beta and what the
    squared residuals are near its unit (Févotte & Idier 2011, with their exponent 1/2 each step lowers the sum).
    """
    near = phi.T @ squares
    weights = np.ones((phi.shape[1], 1)) * (1.0 / squares.mean(axis=0)) / phi.sum(axis=1).mean()
    for _ in range(steps):
        ratio = phi.T @ (1.0 / (phi @ weights + floor)) / near
        weights = weights * np.sqrt(ratio)
        if np.all(np.abs(ratio - 1.0) * weights <= 1e-3 * weights.max(axis=0)):
            break
    return weights
