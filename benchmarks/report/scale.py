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
    orders: tuple[int, ...] = (3, 5, 7)  # of the Markov solver, for calibration
    calibrated: tuple[tuple[str, float], ...] = (("hyperbolic", 0.1), ("cash04", 0.1))
    nodes: tuple[int, ...] = (32, 128, 512)
    dense_nodes: tuple[int, ...] = (10, 20, 40)
    dimensions: tuple[int, ...] = (2, 8, 32)
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
        orders=(3, 5),
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
        orders=(3, 4, 5, 6, 7),
        calibrated=(("bratu", 0.1), ("hyperbolic", 0.1), ("coupled", 0.1), ("cash04", 0.1)),
        nodes=(32, 128, 512, 2048),
        dense_nodes=(10, 20, 40, 80),
        dimensions=(2, 4, 8, 16, 32, 50),
    ),
}
