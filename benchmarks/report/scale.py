"""How much is run: the page as published, a trial of a minute or two, and a long version."""

from __future__ import annotations

from dataclasses import dataclass

SMOOTH = ("bratu", "hyperbolic", "pendulum", "coupled")


@dataclass(frozen=True)
class Scale:
    bvps: tuple[tuple[str, float], ...] = (
        *((name, 0.1) for name in SMOOTH),
        *((f"cash{n:02d}", 0.1) for n in (3, 4, 6, 9, 20, 21)),
        *((f"cash{n:02d}", 0.01) for n in (1, 14)),
    )  # with their epsilon, if they have one
    ivps: tuple[str, ...] = ("lotka_volterra", "damped", "exponential map", "van_der_pol")
    members: int = 100  # of a batch
    one_by_one: int = 10  # of them, for solvers that cannot do batches
    rtols: tuple[float, ...] = tuple(10.0**-k for k in range(2, 9))  # ours
    tols: tuple[float, ...] = tuple(10.0**-k for k in range(2, 11))  # the others'
    scipy_tols: tuple[float, ...] = tuple(10.0**-k for k in range(2, 9))
    pairs: int = 40  # geodesics a data set
    data_sets: tuple[str, ...] = ("ones", "half circle", "two moons", "spiral")
    digits: tuple[tuple[int, int, int], ...] = (
        (2, 100, 40),
        (5, 100, 20),
        (10, 40, 6),
        (30, 8, 2),
        (50, 4, 3),
    )  # dimension, pairs, and how many of them SciPy solves
    charts: tuple[int, ...] = (2, 3, 5, 10, 20, 50)  # dimensions of spheres and ellipsoids
    maps: tuple[int, ...] = (2, 10)  # dimensions of exponential maps
    means: tuple[tuple[int, int, int], ...] = (
        (2, 100, 100),
        (5, 100, 40),
        (10, 100, 20),
        (30, 100, 4),
        (50, 10, 2),
    )  # dimension, points, and how many of them SciPy solves
    calibrated: tuple[tuple[str, float], ...] = (("hyperbolic", 0.1), ("cash04", 0.1))
    nodes: tuple[int, ...] = (32, 128, 512)
    dense_nodes: tuple[int, ...] = (10, 20, 40)
    dimensions: tuple[int, ...] = (2, 8, 32, 100)
    batches: tuple[int, ...] = (1, 10, 100, 1000)


SCALES = {
    "page": Scale(),
    "trial": Scale(
        bvps=(("bratu", 0.1), ("hyperbolic", 0.1)),
        ivps=("lotka_volterra",),
        members=20,
        one_by_one=5,
        rtols=(1e-3, 1e-5),
        tols=(1e-3, 1e-6, 1e-9),
        scipy_tols=(1e-3, 1e-6),
        pairs=16,
        data_sets=("ones", "half circle"),
        digits=((2, 20, 5), (5, 10, 3)),
        charts=(2, 5),
        maps=(2,),
        means=((2, 20, 10),),
        calibrated=(("bratu", 0.1),),
        nodes=(32, 128),
        dense_nodes=(10, 20),
        dimensions=(2, 8),
        batches=(1, 16),
    ),
    "long": Scale(
        bvps=(
            *((name, 0.1) for name in SMOOTH),
            *((f"cash{n:02d}", 0.1) for n in (1, 3, 4, 6, 7, 9, 12, 15, 20, 21)),
            *((f"cash{n:02d}", 0.01) for n in (1, 4, 6, 14, 15, 21)),
        ),
        ivps=("lotka_volterra", "damped", "exponential map", "van_der_pol", "pleiades"),
        pairs=100,
        data_sets=("ones", "half circle", "two moons", "spiral", "ring"),
        digits=((2, 200, 100), (5, 200, 50), (10, 200, 30), (30, 40, 6), (50, 20, 3)),
        calibrated=(("bratu", 0.1), ("hyperbolic", 0.1), ("coupled", 0.1), ("cash04", 0.1)),
        nodes=(32, 128, 512, 2048),
        dense_nodes=(10, 20, 40, 80),
        dimensions=(2, 4, 8, 16, 32, 50),
    ),
}
