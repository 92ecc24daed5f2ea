"""The answers to one tab: each depends on its message alone.

The page owns the state, ends and sliders and all, and sends it with every question. So tabs cannot confuse each other,
and undo is the page's business alone.
"""

import json
import math
import warnings
from collections.abc import Callable
from threading import Event
from typing import Any, NamedTuple

import numpy as np

from probgeo.explorer import pictures
from probgeo.explorer.protocol import RefusedError
from probgeo.explorer.scene import Plane, Scene
from probgeo.explorer.snippet import snippet
from probgeo.gaussian import Gaussian
from probgeo.geometry import Geodesic, Manifold
from probgeo.geometry.shortest import line_lengths
from probgeo.ode.curve import ConvergenceWarning

Fields = dict[str, Any]


class Detail(NamedTuple):
    """How hard to search, and how many samples of how many points to draw."""

    thoroughness: str
    samples: int
    times: int


# Coarse answers must be many, fine ones good to look at. A coarse answer of two moons is 10 kB and takes 6 ms of one
# core, 10 if each is searched for.
COARSE, FINE = Detail("normal", 16, 28), Detail("thorough", 40, 120)
SEARCH_EVERY = 4  # coarse answers, as a drag leads to other minima; the others follow the curve before


class Cancelled(Exception):  # noqa: N818 - not an error: the user has asked for it
    """The user no longer wants the mean."""


class Session:
    """Answers messages of one tab; `tell` sends it news meanwhile."""

    def __init__(self, scene: Scene, tell: Callable[[Fields], None] = print) -> None:
        self.scene, self.tell = scene, tell
        self.last: Geodesic | None = None
        self.followed = 0  # answers since the last search
        self.wanted = Event()  # whether what takes long is still wanted
        # each answer says itself whether it converged
        warnings.filterwarnings("ignore", category=ConvergenceWarning, module="probgeo.explorer")

    def welcome(self) -> Fields:
        scene = self.scene
        same = ("title", "columns", "components", "most_components", "tolerance", "view", "decoder")
        return {
            "kind": "welcome",
            **{name: getattr(scene, name) for name in same},
            "count": len(scene.X),
            "dimension": scene.X.shape[1],
            "colours": [*scene.colours, *scene.columns],
            "rho": scene.rho if scene.has_rho else None,
        }

    def answer(self, message: Fields) -> Fields:
        """The answer to a checked message: the method named as its kind is called with its fields."""
        fields = {name: value for name, value in message.items() if name not in ("kind", "serial")}
        return getattr(self, message["kind"])(**fields)

    def geodesic(self, setting: Fields, ends: list, spreads: list, fine: bool) -> Fields:
        detail, plane = FINE if fine else COARSE, self._plane(setting)
        manifold = self._manifold(setting, detail.thoroughness)
        a, b = uncertain_ends(plane, ends, spreads)
        t = np.linspace(0.0, 1.0, detail.times)
        best = self._shortest(manifold, a, b, fine)
        others = []
        if fine:
            curves = manifold.minima(a, b)
            others = [curves[k] for k in range(1, len(curves))]
        answer = {
            "fine": fine,
            "mean": _path(plane, best.mean(t)),
            "samples": _path(plane, best.sample(0, detail.samples, t)),
            "nodes": _path(plane, best.mean(best.nodes)),
            "length": _finite(best.mean_length),
            "line": _finite(line_lengths(manifold.metric, a.mean[None], b.mean[None], 2)[0]),
            "converged": bool(best.converged),
            "message": best.message,
            "others": [
                {"path": _path(plane, other.mean(t)), "gap": _finite(other.mean_length / best.mean_length - 1.0)}
                for other in others
            ],
        }
        for source in ("total", "numerical", "boundary"):
            answer[source] = _finite(best.measure(source=source).std)
        if fine and self.scene.decoder:
            answer["strip"] = self.scene.decoded(best.mean(np.linspace(0.0, 1.0, 7)))
        return answer

    def _shortest(self, manifold: Manifold, a: Gaussian, b: Gaussian, fine: bool) -> Geodesic:
        """The shortest curve: while an end is dragged mostly improved from the last one, otherwise searched for."""
        follows = not fine and self.followed < SEARCH_EVERY - 1
        guess = self.last if follows else None
        if guess is not None and guess.metric is not manifold.metric:
            guess = None
        self.followed = 0 if guess is None else self.followed + 1
        best = manifold.geodesic(a, b, guess=guess)
        self.last = best if best.converged else None
        return best

    def points(self, setting: Fields, colour: str) -> Fields:
        plane = self._plane(setting)
        order = np.argsort(plane.seen[:, 0])
        ranks = (np.array([0.05, 0.95]) * (len(order) - 1)).astype(int)
        return {
            "points": _path(plane, self.scene.X),
            "values": _rounded(self.scene.values(colour)),
            "colour": colour,
            "view": setting["view"],
            "ends": _rounded(plane.seen[order[ranks]]),
        }

    def metric(self, setting: Fields, box: list[float]) -> Fields:
        metric = self.scene.metric(setting["components"], setting["rho"])
        return pictures.background(metric, self._plane(setting), box)

    def fan(self, setting: Fields, at: list[float], reach: float) -> Fields:
        """Exponential maps of equally long vectors in all directions of the plane."""
        plane, manifold = self._plane(setting), self._manifold(setting)
        start = plane.lift([at])[0]
        angle = 2.0 * np.pi * np.arange(24) / 24
        v = np.stack([np.cos(angle), np.sin(angle)], axis=1) @ plane.basis
        v *= reach / manifold.norm(start, v)[:, None]
        curves = manifold.shoot(start, v)
        x = curves.mean(np.linspace(0.0, 1.0, FINE.times))
        tips = map(Gaussian.unchecked, x[:, -1], curves.cov(1.0, 1.0))
        return {
            "at": at,
            "reach": reach,
            "paths": _path(plane, x[curves.converged]),
            "tips": [_ellipse(plane, tip) for tip in tips if np.isfinite(tip.mean).all()],
            "converged": int(np.sum(curves.converged)),
        }

    def look(self, setting: Fields, at: list[float]) -> Fields:
        decoded = self.scene.decoded(self._plane(setting).lift([at]))
        if not decoded:
            raise RefusedError("these data have nothing to decode")
        return {"picture": decoded[0]}

    def learn(self, components: int) -> Fields:
        self.scene.metric(components, self.scene.rho)
        return {"components": components}

    def mean(self, setting: Fields, rows: list[int] | None) -> Fields:
        from probgeo.stats import PrincipalGeodesics

        def progress(done: int, expected: int | None) -> None:
            if not self.wanted.is_set():
                raise Cancelled
            self.tell({"kind": "progress", "done": done, "of": expected})

        plane, X = self._plane(setting), self.scene.X if rows is None else self.scene.X[rows]
        pga = PrincipalGeodesics(self._manifold(setting), verbose=progress).fit(X)
        t, mean = np.linspace(0.0, 1.0, 60), pga.mean_

        def way(k: int) -> Fields:
            """A principal geodesic, two standard deviations of the data to each side."""
            reach = 2.0 * float(pga.explained_variance_[k]) ** 0.5
            halves = [pga.geodesic(k, sign * reach) for sign in (-1.0, 1.0)]
            before, after = (half.mean(t) for half in halves)
            return {
                "path": _path(plane, np.concatenate([before[::-1], after[1:]])),
                "samples": [x for half in halves for x in _path(plane, half.sample(0, 8, t))],
                "share": _finite(pga.explained_variance_ratio_[k]),
            }

        return {
            "mean": _rounded(plane.project(mean.mean)),
            "numerical": _ellipse(plane, mean),
            "statistical": _ellipse(plane, Gaussian.unchecked(mean.mean, pga.statistical_cov_)),
            "ways": [way(k) for k in range(pga.n_components_)],
            "count": len(X),
            "std": _rounded(mean.std),
            "converged": bool(pga.converged_),
            "message": str(pga.message_),
            "pictures": self.scene.decoded(mean.mean[None]),
        }

    def snippet(self, setting: Fields, ends: list, spreads: list, rows: list[int] | None) -> Fields:
        return {"code": snippet(self.scene, setting, uncertain_ends(self._plane(setting), ends, spreads), rows)}

    def _plane(self, setting: Fields) -> Plane:
        return self.scene.plane(setting["view"])

    def _manifold(self, setting: Fields, thoroughness: str = "normal") -> Manifold:
        numbers = (setting[name] for name in ("components", "rho", "tolerance"))
        return self.scene.manifold(*numbers, thoroughness)


def uncertain_ends(plane: Plane, ends: list[list[float]], spreads: list[list[float]]) -> list[Gaussian]:
    """Gaussians over points (D,) from ellipses in the plane."""
    found = []
    for x, (along, across, angle) in zip(plane.lift(ends), spreads, strict=True):
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        root = plane.basis.T @ turn * [along, across]
        found.append(Gaussian.unchecked(x, root @ root.T))
    return found


def as_text(answer: Fields) -> str:
    """An answer as JSON; NaN and infinity have been replaced before."""
    return json.dumps(answer, allow_nan=False, separators=(",", ":"))


def _path(plane: Plane, x: np.ndarray) -> list[Any]:
    """Points (..., T, D) in the plane; none if the curve could not be found."""
    return _rounded(plane.project(x)) if np.isfinite(x).all() else []


def _ellipse(plane: Plane, gaussian: Gaussian) -> list[float]:
    cov = plane.basis @ gaussian.cov @ plane.basis.T
    return pictures.ellipse_of(plane.project(gaussian.mean), np.nan_to_num(cov))


def _rounded(x: np.ndarray) -> list[Any]:
    """Six digits, more than can be seen; zero for what is not finite, as JSON has no word for it."""
    x = np.where(np.isfinite(x), x, 0.0)
    size = float(np.max(np.abs(x), initial=1e-300))
    return np.round(x, 5 - math.floor(math.log10(size))).tolist()


def _finite(x: Any) -> float | None:
    return float(x) if np.isfinite(x) else None
