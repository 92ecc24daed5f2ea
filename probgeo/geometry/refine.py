"""Solve, measure, refine: rivals until it is clear which one is shortest, that one to tolerance."""

import warnings
from dataclasses import dataclass, replace

import numpy as np

from probgeo.geometry.chains import Chains, Minimised, minimise
from probgeo.geometry.elements import Measured, extents, measured, on_equal_steps, refined
from probgeo.geometry.length import scaled
from probgeo.geometry.momentum import start_velocities
from probgeo.metrics import Metric
from probgeo.ode.curve import NOT_FINITE, NOT_SMOOTH, OK, OUT_OF_SWEEPS, SINGULAR, TOO_COARSE


@dataclass(frozen=True)
class Accuracy:
    """When a curve is good enough: two standard deviations within rtol times its extent, or atol.

    most : int
        Most elements of a curve. At the default tolerance none of 192 reference curves took more
        than 78.
    saddle : int
        Elements from which on a curve without a minimum nearby is taken for a saddle. With 64,
        11 curves of the ablation were false successes instead of 10.
    fixed : int, optional
        So many nodes at equal steps, whatever the error is, instead of a mesh that adapts.
    """

    rtol: float = 1e-3
    atol: float = 0.0
    most: int = 256
    fixed: int | None = None
    saddle: int = 128

    def with_rtol(self, rtol: float) -> "Accuracy":
        """Another tolerance, and as many more elements as it takes: they are of fourth order."""
        more = max(1.0, self.rtol / rtol) ** 0.25
        return replace(self, rtol=rtol, most=int(self.most * more))

    def within(self, precision: float) -> "Accuracy":
        """The tolerance, but no finer than numbers of that spacing allow; warns where that changes it.

        A thousand times the spacing: of 50 geodesics by a decoder in single precision all converge
        at 1e-4, 14 at 1e-5, as rounding looks like a metric that is not smooth.
        """
        finest = 1000.0 * precision
        if self.rtol >= finest:
            return self
        warnings.warn(
            f"the metric computes with numbers of {-np.log10(precision):.0f} digits: curves are "
            f"solved to rtol={finest:.1g} instead of {self.rtol:.1g}",
            stacklevel=5,
        )
        return self.with_rtol(finest)

    @property
    def decrease(self) -> float:
        """Expected relative decrease of the energy at which Newton's method ends.

        The step that follows is not counted: it leaves a decrease of about the square.
        """
        return float(np.clip(0.1 * self.rtol, 1e-13, 1e-4))


@dataclass(frozen=True)
class Refined:
    """Curves to tolerance, one for every member, with what is known of them, (members,) each.

    run : which of the rivals it was
    second : length of the second shortest rival that is another curve, infinite without one
    again : how many of the rivals have turned out to be the same curve
    velocity (members, D) : the logarithm; velocity_error: root mean square error over dimensions
    residual : root of the decrement over the energy, both on a mesh of twice the elements
    doubt : by what factor error bars have been widened, see `doubted`
    """

    chains: Chains
    run: np.ndarray
    status: np.ndarray
    length: np.ndarray
    excess: np.ndarray
    energy: np.ndarray
    scale: np.ndarray
    log_density: np.ndarray
    velocity: np.ndarray
    velocity_error: np.ndarray
    residual: np.ndarray
    doubt: np.ndarray
    second: np.ndarray
    again: np.ndarray
    evaluations: np.ndarray


class Contest:
    """What is known of every run so far."""

    def __init__(self, owner: np.ndarray, count: int) -> None:
        runs = len(owner)
        self.owner, self.count = owner, count
        self.status = np.full(runs, OUT_OF_SWEEPS)
        names = ("length", "excess", "energy", "scale", "log_density", "residual", "doubt")
        self.known = {name: np.full(runs, np.inf) for name in names}
        self.closed = np.zeros(runs, dtype=bool)  # solved, or beyond help
        self.evaluations = np.zeros(runs, dtype=np.int64)
        self.stage, self.slot = np.zeros(runs, dtype=np.int64), np.arange(runs)

    def record(
        self,
        active: np.ndarray,
        stage: int,
        made: Measured,
        least: np.ndarray,
        least_excess: np.ndarray,
        status: np.ndarray,
    ) -> None:
        with np.errstate(divide="ignore", invalid="ignore"):
            residual = np.sqrt(made.decrement / made.energy)
            doubt = np.where(least > made.widest, least / made.widest, 1.0)
        found = {
            "length": made.length,
            "excess": np.maximum(made.excess, least_excess),
            "energy": made.energy,
            "scale": made.scale * doubt,
            "log_density": made.log_density,
            "residual": np.where(made.energy > 0, residual, 0.0),
            "doubt": doubt,
        }
        for name, values in found.items():
            self.known[name][active] = values
        self.status[active] = status
        self.stage[active], self.slot[active] = stage, np.arange(len(active))

    def ranking(self) -> tuple[np.ndarray, np.ndarray]:
        """The run that is ahead for every member, and the length that it will have."""
        final = self.known["length"] - self.known["excess"]
        final = np.where(np.isfinite(final), final, np.inf)
        order = np.lexsort((final, self.owner))
        first = np.searchsorted(self.owner[order], np.arange(self.count))
        ahead = order[first]
        return ahead, final[ahead]

    def open(self, clearly: float = 2e-3, unsure: float = 0.1) -> np.ndarray:
        """The runs that have not been solved, and are or may yet be the shortest.

        A rival that cannot be shorter by the share `clearly` is no rival. One whose energy has no
        minimum nearby, yet, may become shorter by the share `unsure`.
        """
        ahead, best = self.ranking()
        length, excess = self.known["length"], self.known["excess"]
        saddles = self.status == SINGULAR
        hoped = np.where(saddles, (1.0 - unsure) * length, length - 3.0 * excess)
        going = hoped < (1.0 - clearly) * best[self.owner]
        going[ahead] = True
        return np.flatnonzero(going & ~self.closed)


def refine(
    metric: Metric, chains: Chains, owner: np.ndarray, count: int, accuracy: Accuracy, patience: int | None = None
) -> Refined:
    """The shortest of the rivals `owner` (runs,) of every member, which are sorted by owner.

    With `patience`, those that take more steps of Newton's method on a mesh are given up.
    """
    contest, active = Contest(owner, count), np.arange(len(owner))
    solved: list[Chains] = []  # runs that were solved together, stage by stage
    corrected: list[Chains] = []
    finer: list[Chains] = []  # to go on with
    while True:
        done = minimise(metric, chains, accuracy.decrease, patience)
        made = measured(metric, done.chains)
        elements = np.diff(done.chains.offsets) - 1
        wanted = accuracy.rtol * extents(done.chains) + accuracy.atol
        least, least_excess = doubted(done, made)
        status = judged(done.settled, made, least, wanted if accuracy.fixed is None else np.inf)
        contest.record(active, len(solved), made, least, least_excess, status)
        contest.evaluations[active] += (4 * done.steps + 8) * elements
        closed = (status == OK) | (status == NOT_FINITE) | (elements >= accuracy.most)
        closed |= (status == SINGULAR) & (elements >= accuracy.saddle)
        closed |= ~done.settled & (patience is not None) | (accuracy.fixed is not None)
        contest.closed[active] |= closed
        solved.append(done.chains)
        corrected.append(made.corrected())
        active = contest.open()
        if not len(active):
            return result(metric, contest, solved, corrected)
        sure = made.definite & (status != NOT_SMOOTH)
        finer.append(refined(done.chains, made, corrected[-1], 0.25 * wanted, sure))
        chains = gathered(finer, contest, active)


def result(metric: Metric, contest: Contest, solved: list[Chains], corrected: list[Chains]) -> Refined:
    """The winners with what is known of them, in the order of the members."""
    run, best = contest.ranking()
    length, excess, doubt = (contest.known[name][run] for name in ("length", "excess", "doubt"))
    chains = gathered(solved, contest, run)
    both = Chains.joined([chains, gathered(corrected, contest, run)])
    begin, size = both.nodes[both.offsets[:-1], 0], np.concatenate([length, length - excess])
    velocity, better = np.split(scaled(metric, begin, start_velocities(metric, both), size), 2)
    again = np.zeros(len(contest.owner), dtype=bool)
    if len(run) < len(again):
        again = same_as(gathered(solved, contest, np.arange(len(again))), run[contest.owner])
    final = contest.known["length"] - contest.known["excess"]
    final[run] = final[again] = np.inf
    second = np.full(contest.count, np.inf)
    np.minimum.at(second, contest.owner, np.where(np.isfinite(final), final, np.inf))
    evaluations = np.bincount(contest.owner, contest.evaluations, minlength=contest.count)
    return Refined(
        chains=chains,
        run=run,
        status=contest.status[run],
        velocity=velocity,
        velocity_error=doubt * np.sqrt(np.mean((velocity - better) ** 2, axis=1)),
        second=np.maximum(second, best),
        again=np.bincount(contest.owner[again], minlength=contest.count),
        evaluations=evaluations.astype(np.int64),
        **{name: values[run] for name, values in contest.known.items()},
    )


def same_as(chains: Chains, other: np.ndarray, apart: float = 0.01, T: int = 16) -> np.ndarray:
    """Whether chains run along those with the numbers `other` (runs,), and are not these.

    One and the same curve is nowhere further apart than that, relative to its extent, at T steps.
    """
    runs = len(chains)
    curves = on_equal_steps(chains, T + 1).nodes[:, 0].reshape(runs, T + 1, -1)
    distance = np.abs(curves - curves[other]).max(axis=(1, 2))
    return (other != np.arange(runs)) & (distance <= apart * extents(chains))


def gathered(stages: list[Chains], contest: Contest, runs: np.ndarray) -> Chains:
    """The chains of some runs, each from the last stage that it took part in."""
    if len(stages) == 1:
        return stages[0].take(runs)
    places = [np.flatnonzero(contest.stage[runs] == stage) for stage in range(len(stages))]
    parts = [chains.take(contest.slot[runs[mine]]) for chains, mine in zip(stages, places, strict=True)]
    return Chains.joined(parts).take(np.argsort(np.concatenate(places)))


def judged(settled: np.ndarray, made: Measured, least: np.ndarray, wanted: np.ndarray | float) -> np.ndarray:
    """Statuses of curves with errors of at `least` that, which should be below those `wanted`."""
    wide = ~(2.0 * made.widest <= wanted)
    status = np.where(wide, TOO_COARSE, np.where(2.0 * least > wanted, NOT_SMOOTH, OK))
    status = np.where(made.definite, status, SINGULAR)
    status = np.where(settled, status, OUT_OF_SWEEPS)
    return np.where(np.isfinite(made.energy), status, NOT_FINITE)


def doubted(done: Minimised, made: Measured) -> tuple[np.ndarray, np.ndarray]:
    """Least errors of positions and of lengths (members,) of curves whose estimates do not fit.

    The estimate says that the energy falls by half the decrement, to that of a curve of constant
    speed. So twice the energy less the squared length, which is what the speed varies, is at most
    the decrement; and the energy of one and the same curve on either mesh differs by less, as
    Gauss' points integrate smooth functions far better than cubics follow geodesics. Where that
    is not so the metric has a kink or a jump, or is noisy, and the root of what is unclear about
    the energy is how far along a curve can be wrong (Cauchy-Schwarz). Round-off of the energy is at
    most 1e-13 of it; of straight lines it is 1e-16 to 1e-15.

    The speed of 440 curves on ten smooth metrics varied by 1.05 decrements and less; their energies
    on either mesh differed by 1.3. On kinks it is tens, on jumps hundreds.
    """
    varies = 2.0 * made.energy - made.length**2
    differs = np.abs(done.energy - made.energy)
    amiss = (varies > 1.5 * made.decrement) | (differs > 3.0 * made.decrement)
    unclear = np.maximum(varies, differs) - 1e-13 * made.energy
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(amiss & (unclear > 0), unclear / (2.0 * made.energy), 0.0)
    return extents(done.chains) * np.sqrt(share), made.length * share
