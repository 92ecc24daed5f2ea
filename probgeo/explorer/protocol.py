"""Messages from the page: JSON objects with a `kind` and the fields of that kind, all within bounds.

Every message is checked here before anything is done with it. One that fails is refused with a `RefusedError` that
names the field, what was given and what would be right.
"""

import json
from typing import Any, NamedTuple

from probgeo.explorer.scene import PLANES, Scene


class RefusedError(ValueError):
    """A message that makes no sense; `about` is its kind and serial, as far as these are known."""

    about: dict[str, Any] = {}  # noqa: RUF012 - replaced, never changed


class Between(NamedTuple):
    """A number within bounds. The default bounds allow any coordinate whose square is still harmless."""

    least: float = -1e9
    most: float = 1e9
    whole: bool = False


class Selection(NamedTuple):
    """A selection among `points` points, as a list of their numbers; null selects all."""

    points: int


def longest(scene: Scene) -> int:
    """The longest message allowed, in characters: a selection may name every point."""
    return 4000 + 9 * len(scene.X)


def kinds(scene: Scene) -> dict[str, dict[str, Any]]:
    """For every kind of message its fields, and what each accepts, in the terms of `_checked`."""
    components = Between(1, max(1, scene.most_components), whole=True)
    rho, tolerance, rows = Between(0.0, 100.0), Between(1e-6, 1.0), Selection(len(scene.X))
    setting = {"components": components, "rho": rho, "tolerance": tolerance, "view": list(PLANES)}
    point, size = (Between(), Between()), Between(0.0)
    spread = (size, size, Between(-100.0, 100.0))  # along and across an ellipse, and its angle
    shown = {"setting": setting, "ends": (point, point), "spreads": (spread, spread)}
    return {
        "geodesic": {**shown, "fine": bool},
        "points": {"setting": setting, "colour": [*scene.colours, *scene.columns]},
        "metric": {"setting": setting, "box": (*point, *point)},
        "fan": {"setting": setting, "at": point, "reach": Between(1e-9)},
        "look": {"setting": setting, "at": point},
        "learn": {"components": components},
        "mean": {"setting": setting, "rows": rows},
        "stop": {},
        "snippet": {**shown, "rows": rows},
    }


def parsed(text: Any, scene: Scene) -> dict[str, Any]:
    if not isinstance(text, str):
        raise RefusedError(f"messages must be text, got {type(text).__name__}")
    if len(text) > longest(scene):
        raise RefusedError(f"messages must have at most {longest(scene)} characters, got {len(text)}")
    try:
        message = json.loads(text)  # NaN and infinity fail every check of bounds
    except (ValueError, RecursionError) as error:
        raise RefusedError(f"messages must be JSON: {error}") from None
    if not isinstance(message, dict):
        raise RefusedError(f"messages must be objects, got {type(message).__name__}")
    known = kinds(scene)
    kind = _checked("kind", message.pop("kind", None), list(known))
    try:
        return {"kind": kind, **_checked(kind, message, {"serial": Between(0, 2**53, whole=True), **known[kind]})}
    except RefusedError as error:
        if type(message.get("serial")) is int:
            error.about = {"about": kind, "serial": message["serial"]}
        raise


def _checked(name: str, value: Any, right: Any) -> Any:
    """A value, if it is right: an object (dict), a list (tuple), one of some names (list) ..."""

    def require(good: bool, what: str, given: Any = value) -> None:
        if not good:
            text = repr(given)
            raise RefusedError(f"{name} must be {what}, got {text if len(text) <= 60 else text[:60] + '...'}")

    match right:
        case dict():
            require(isinstance(value, dict), f"an object of {', '.join(right)}")
            require(value.keys() == right.keys(), f"an object of {', '.join(right)}", list(value))
            return {key: _checked(key, value[key], inner) for key, inner in right.items()}
        case list():
            require(value in right, f"one of {', '.join(right)}")
        case Between(least, most, whole):
            good = type(value) in ((int,) if whole else (int, float)) and least <= value <= most
            require(good, f"a {'whole ' * whole}number from {least:g} to {most:g}")
            return value if whole else float(value)
        case Selection(points):
            if value is not None:
                require(isinstance(value, list), "a list of points")
                value = sorted({_checked(name, row, Between(0, points - 1, whole=True)) for row in value})
                require(len(value) >= 3, "a list of at least three points")
        case tuple():
            require(isinstance(value, list) and len(value) == len(right), f"a list of {len(right)}")
            value = [_checked(name, one, inner) for one, inner in zip(value, right, strict=True)]
            if name == "box":
                require(value[0] < value[1] and value[2] < value[3], "left < right, bottom < top")
        case _:
            require(type(value) is right, "true or false")
    return value
