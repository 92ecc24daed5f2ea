"""Messages from the page: JSON objects with a `kind`, and all that kind has, within bounds.

Whatever comes is checked here before anything is done with it; what fails is refused with a
`RefusedError` that names the field, what was given and what would be right.
"""

import json
import math
from collections.abc import Callable
from typing import Any

from probgeo.explorer.scene import VIEWS, Scene

LONGEST = 400_000  # characters: the numbers of 50,000 selected points, and room
MOST_SELECTED = 50_000
FARTHEST = 1e9  # coordinates, in units of the data


class RefusedError(ValueError):
    """A message that makes no sense, and why."""


Check = Callable[[str, Any, Scene], Any]


def parsed(text: Any, scene: Scene) -> dict[str, Any]:
    """A message as the session takes it."""
    if not isinstance(text, str):
        raise RefusedError(f"messages must be text, got {type(text).__name__}")
    if len(text) > LONGEST:
        raise RefusedError(f"messages must have at most {LONGEST} characters, got {len(text)}")
    try:
        message = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise RefusedError(f"messages must be JSON: {error}") from None
    if not isinstance(message, dict):
        raise RefusedError(f"messages must be objects, got {_shown(message)}")
    kind = message.pop("kind", None)
    if not isinstance(kind, str) or kind not in KINDS:
        raise RefusedError(f"kind must be one of {', '.join(KINDS)}, got {_shown(kind)}")
    fields = {"serial": _serial, **KINDS[kind]}
    if message.keys() != fields.keys():
        raise RefusedError(f"{kind} must have {', '.join(fields)}, got {_shown(list(message))}")
    return {"kind": kind} | {
        name: check(name, message[name], scene) for name, check in fields.items()
    }


def _no_number(constant: str) -> Any:
    raise ValueError(f"{constant} is not a number")


def _serial(name: str, value: Any, scene: Scene) -> int:
    return _whole(name, value, 0, 2**53)


def _whole(name: str, value: Any, least: int, most: int) -> int:
    if type(value) is not int or not least <= value <= most:
        raise RefusedError(
            f"{name} must be a whole number from {least} to {most}, got {_shown(value)}"
        )
    return value


def _number(name: str, value: Any, least: float, most: float) -> float:
    usable = type(value) in (int, float) and abs(value) <= 2.0 * FARTHEST and math.isfinite(value)
    if not usable or not least <= value <= most:
        raise RefusedError(
            f"{name} must be a number from {least:g} to {most:g}, got {_shown(value)}"
        )
    return float(value)


def _list(name: str, value: Any, least: int, most: int) -> list[Any]:
    if not isinstance(value, list) or not least <= len(value) <= most:
        size = str(least) if least == most else f"{least} to {most}"
        raise RefusedError(f"{name} must be a list of {size}, got {_shown(value)}")
    return value


def _point(name: str, value: Any, scene: Scene) -> list[float]:
    return [_number(name, x, -FARTHEST, FARTHEST) for x in _list(name, value, 2, 2)]


def _two_points(name: str, value: Any, scene: Scene) -> list[list[float]]:
    return [_point(name, point, scene) for point in _list(name, value, 2, 2)]


def _spreads(name: str, value: Any, scene: Scene) -> list[list[float]]:
    """Standard deviations along the axes of an ellipse, and its angle, of both ends."""

    def one(spread: Any) -> list[float]:
        along, across, angle = _list(name, spread, 3, 3)
        lengths = [_number(name, x, 0.0, FARTHEST) for x in (along, across)]
        return [*lengths, _number(name, angle, -100.0, 100.0)]

    return [one(spread) for spread in _list(name, value, 2, 2)]


def _box(name: str, value: Any, scene: Scene) -> list[float]:
    """Left, right, bottom, top."""
    box = [_number(name, x, -FARTHEST, FARTHEST) for x in _list(name, value, 4, 4)]
    if not (box[0] < box[1] and box[2] < box[3]):
        raise RefusedError(f"{name} must be left < right, bottom < top, got {_shown(value)}")
    return box


def _setting(name: str, value: Any, scene: Scene) -> dict[str, Any]:
    names = ("components", "rho", "tolerance", "view")
    if not isinstance(value, dict) or set(value) != set(names):
        raise RefusedError(f"{name} must have {', '.join(names)}, got {_shown(value)}")
    return {
        "components": _components("components", value["components"], scene),
        "rho": _number("rho", value["rho"], 0.0, 100.0),
        "tolerance": _number("tolerance", value["tolerance"], 1e-6, 1.0),
        "view": _one_of("view", value["view"], VIEWS),
    }


def _components(name: str, value: Any, scene: Scene) -> int:
    return _whole(name, value, 1, max(1, scene.most_components))


def _one_of(name: str, value: Any, known: tuple[str, ...]) -> str:
    if not isinstance(value, str) or value not in known:
        raise RefusedError(f"{name} must be one of {', '.join(known)}, got {_shown(value)}")
    return value


def _colour(name: str, value: Any, scene: Scene) -> str:
    return _one_of(name, value, (*scene.colours, *scene.columns))


def _flag(name: str, value: Any, scene: Scene) -> bool:
    if not isinstance(value, bool):
        raise RefusedError(f"{name} must be true or false, got {_shown(value)}")
    return value


def _rows(name: str, value: Any, scene: Scene) -> list[int] | None:
    """Numbers of selected points; null for all."""
    if value is None:
        return None
    rows = _list(name, value, 3, min(MOST_SELECTED, len(scene.X)))
    return [_whole(name, row, 0, len(scene.X) - 1) for row in rows]


def _shown(value: Any, most: int = 60) -> str:
    text = repr(value)
    return text if len(text) <= most else text[:most] + "..."


SHOWN: dict[str, Check] = {"setting": _setting, "ends": _two_points, "spreads": _spreads}
KINDS: dict[str, dict[str, Check]] = {
    "geodesic": {**SHOWN, "fine": _flag},
    "points": {"setting": _setting, "colour": _colour},
    "metric": {"setting": _setting, "box": _box},
    "fan": {"setting": _setting, "at": _point, "reach": lambda n, v, s: _number(n, v, 1e-9, 1e6)},
    "look": {"setting": _setting, "at": _point},
    "learn": {"components": _components},
    "mean": {"setting": _setting, "rows": _rows},
    "stop": {},
    "snippet": {**SHOWN, "rows": _rows},
}
