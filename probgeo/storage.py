"""Results in files: arrays as they are, and a description of what they belong to. No pickle.

A file is one of NumPy's archives (.npz). Nothing in it is ever executed: classes and functions are named, and only
those of probgeo and JAX, or ones that the reader hands over, are looked up.
"""

import dataclasses
import importlib
import json
import os
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from probgeo._checks import is_traced

FORMAT = 2  # 1 was that of version 0.1
STRUCTURE = "structure"
TRUSTED = ("probgeo", "jax")  # packages whose classes and functions are found by name
KINDS = {  # how other files begin
    b"\x80": "it is a pickle, which could make anything happen and is not opened",
    b"\x93NUMPY": "it is a single array (.npy)",
}


def save(result: Any, path: str | Path) -> Path:
    """Write a curve, a geodesic, a Gaussian, a manifold or an estimator to a file.

    Parameters
    ----------
    result : Curve, Geodesic, Gaussian, Manifold, metric, solver or estimator
        Or a list, tuple or dict of such things.
    path : str or Path
        `.npz` is added if there is no such ending. The file appears once all of it is written: after an interruption an
        older one is still there.

    Returns
    -------
    Path
        Of the file.

    Examples
    --------
    >>> import tempfile
    >>> from probgeo import solve_bvp
    >>> curve = solve_bvp(lambda t, y, dy: -y, (0.0, 1.0), [0.0], [1.0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     again = load(save(curve, f"{folder}/curve"))
    >>> bool((again.mean(0.5) == curve.mean(0.5)).all())
    True
    """
    arrays: list[np.ndarray] = []
    structure = {"format": FORMAT, "result": _describe(result, arrays, "result")}
    target = _as_path(path)
    if target.suffix != ".npz":
        target = target.with_name(target.name + ".npz")
    named: dict[str, Any] = {str(k): array for k, array in enumerate(arrays)}
    named[STRUCTURE] = np.array(json.dumps(structure))
    with staged(target.parent) as folder, (folder / target.name).open("wb") as file:
        np.savez_compressed(file, **named)
    return target


@contextmanager
def staged(folder: Path) -> Iterator[Path]:
    """A temporary place for files, which move to `folder` once all are complete; after a failure nothing is left."""
    with TemporaryDirectory(prefix=".unfinished-", dir=folder) as unfinished:
        yield Path(unfinished)
        for file in sorted(Path(unfinished).iterdir()):
            os.replace(file, folder / file.name)


def load(path: str | Path, known: Iterable[Any] = ()) -> Any:
    """Read what `save` has written.

    Parameters
    ----------
    path : str or Path
    known : classes and functions
        Those of your own that the result is made of, for instance the function of a metric. A file only names them.
    """
    listed = list(known) if isinstance(known, Iterable) else [known]
    if not all(map(_is_function, listed)):
        raise TypeError(f"known must be a list of classes and functions, got {known!r}")
    structure, arrays = _read(_as_path(path))
    try:
        return _rebuild(structure, arrays, {_name(x): x for x in listed})
    except NotFoundError as error:
        raise ValueError(f"{path} {error}") from error
    except Exception as error:
        raise ValueError(f"{path} was altered: its description does not fit ({error!r})") from error


def _as_path(path: Any) -> Path:
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"path must be the name of a file, got {path!r}")
    return Path(path)


def _read(path: Path) -> tuple[Any, dict[str, np.ndarray]]:
    """Description and arrays in a file. Reading all of it compares all checksums."""
    with path.open("rb") as file:  # raises its own OSError
        start = file.read(8)
    foreign = f"{path} was not written by probgeo.save: "
    if not start.startswith(b"PK"):
        kind = (what for mark, what in KINDS.items() if start.startswith(mark))
        reason = "it is empty" if not start else next(kind, "it is not an archive of NumPy (.npz)")
        raise ValueError(foreign + reason)
    if not zipfile.is_zipfile(path):
        raise ValueError(f"{path} is damaged: its end is missing, as if writing or copying stopped")
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        structure = json.loads(str(arrays.pop(STRUCTURE))) if STRUCTURE in arrays else None
    except Exception as error:  # NumPy and JSON raise all kinds of errors for altered files
        if "pickle" in str(error):
            raise ValueError(f"{foreign}it has pickled objects, which are not opened") from error
        raise ValueError(f"{path} is damaged: {error}") from error
    if not isinstance(structure, dict) or not {"format", "result"} <= set(structure):
        raise ValueError(f"{foreign}it has arrays, but no description of what they are")
    if structure["format"] != FORMAT:
        raise ValueError(f"{path} has format {structure['format']}, this version reads {FORMAT}")
    return structure["result"], arrays


# --- writing: a value as JSON, with numbers in place of its arrays --------------------------


def _describe(value: Any, arrays: list[np.ndarray], where: str) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if is_traced(value):
        raise TypeError(f"{where} cannot be saved inside a JAX transformation: it has no value yet")
    if all(hasattr(value, name) for name in ("__array__", "dtype", "shape")):  # those of JAX and PyTorch become NumPy's
        return _describe_array(value, arrays, where)
    if isinstance(value, dict):
        pairs = [(_describe(k, arrays, where), v) for k, v in value.items()]
        return {"dict": [[k, _describe(v, arrays, f"{where}[{k!r}]")] for k, v in pairs]}
    if hasattr(value, "state_dict") and hasattr(value, "forward"):
        raise TypeError(
            f"{where} cannot be saved: it is a module of PyTorch, which torch.save keeps; "
            "of curves, save what they are at some times"
        )
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        return {type(value).__name__: [_describe(v, arrays, f"{where}[{k}]") for k, v in enumerate(value)]}
    if isinstance(value, type) or not (hasattr(value, "__dict__") or hasattr(value, "_fields")) or _is_function(value):
        name = _name(value)
        if not _is_function(value) or "<" in name:  # of lambdas and functions within functions
            raise TypeError(
                f"{where} cannot be saved: {value!r} has no name by which it could be found again; "
                "a function at the top of a file has one"
            )
        return {"function": name}
    if hasattr(value, "_fields"):
        names: Iterable[str] = value._fields
    elif dataclasses.is_dataclass(value) and not hasattr(value, "get_params"):
        # estimators have learned attributes beside their fields, others only cached ones
        names = [field.name for field in dataclasses.fields(value) if hasattr(value, field.name)]
    else:
        names = vars(value)
    parts = {name: _describe(getattr(value, name), arrays, f"{where}.{name}") for name in names}
    return {"class": _name(type(value)), "parts": parts}


def _describe_array(value: Any, arrays: list[np.ndarray], where: str) -> Any:
    array = np.asarray(value)
    if array.dtype == object:
        texts = array.ravel().tolist()
        if not all(isinstance(text, str) for text in texts):
            raise TypeError(f"{where} cannot be saved: it is an array of objects")
        return {"texts": texts, "shape": list(array.shape)}
    arrays.append(array)
    return {"numpy": len(arrays) - 1, "scalar": isinstance(value, np.generic)}


def _is_function(value: Any) -> bool:
    return callable(value) and hasattr(value, "__qualname__")


def _name(value: Any) -> str:
    return f"{value.__module__}:{getattr(value, '__qualname__', '<nameless>')}"


# --- reading ---------------------------------------------------------------------------------


def _rebuild(node: Any, arrays: dict[str, np.ndarray], own: dict[str, Any]) -> Any:
    if not isinstance(node, dict):
        return node

    def again(inner: Any) -> Any:
        return _rebuild(inner, arrays, own)

    match node:
        case {"numpy": k, "scalar": scalar}:
            return arrays[str(k)][()] if scalar else arrays[str(k)]
        case {"texts": texts, "shape": shape}:
            return np.array(texts, dtype=object).reshape(shape)
        case {"dict": pairs}:
            return {again(key): again(value) for key, value in pairs}
        case {"list": items}:
            return [again(item) for item in items]
        case {"tuple": items}:
            return tuple(again(item) for item in items)
        case {"function": name}:
            return _find(name, own)
        case {"class": name, "parts": parts}:
            return _assemble(_find(name, own), {key: again(part) for key, part in parts.items()})
    raise ValueError(f"not understood: {sorted(node)}")


def _assemble(cls: type, parts: dict[str, Any]) -> Any:
    """An object from its parts; they were checked when it was made."""
    if hasattr(cls, "_fields"):
        return cls(**parts)
    result: Any = object.__new__(cls)
    for name, part in parts.items():
        object.__setattr__(result, name, part)
    return result


class NotFoundError(ValueError):
    """A class or function that a file names cannot be found."""


def _find(name: str, own: dict[str, Any]) -> Any:
    if name in own:
        return own[name]
    module, _, path = name.partition(":")
    if module.partition(".")[0] not in TRUSTED:
        raise NotFoundError(
            f"needs {path} of {module}, which is not looked up by name: pass it on, load(path, known=[{path}])"
        )
    for place in (module, module.rpartition(".")[0] or module):  # where it was, or, if it has moved, its room
        try:
            found: Any = importlib.import_module(place)
            for part in path.split("."):
                found = getattr(found, part)
        except (ImportError, AttributeError) as error:
            missing = error
        else:
            return found
    raise NotFoundError(f"needs {path} of {module}, which is not there") from missing
