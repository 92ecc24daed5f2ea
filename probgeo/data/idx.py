"""MNIST from the files in which it is distributed."""

import gzip
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from probgeo.data.shipped import Images

FILES = {"train": "train", "test": "t10k"}


def mnist(path: Any, digits: int | Sequence[int] | None = None, part: Literal["train", "test"] = "train") -> Images:
    """Images of MNIST from the original idx files, compressed or not, in a folder.

    Parameters
    ----------
    path : str or Path
        The folder with `train-images-idx3-ubyte` and `train-labels-idx1-ubyte`, or `t10k-...`; with or without `.gz`.
    digits : int or several, optional
        Only these.
    part : "train" | "test"
    """
    if part not in FILES:
        raise ValueError(f"part must be 'train' or 'test', got {part!r}")
    folder = Path(path)
    images = _read(_find(folder, f"{FILES[part]}-images-idx3-ubyte"), axes=3)
    labels = _read(_find(folder, f"{FILES[part]}-labels-idx1-ubyte"), axes=1)
    if len(images) != len(labels):
        raise ValueError(f"{folder} has {len(images)} images but {len(labels)} labels")
    wanted = np.unique(labels) if digits is None else np.atleast_1d(digits)
    index = np.flatnonzero(np.isin(labels, wanted))
    return Images(images[index] / 255.0, index)


def _find(folder: Path, name: str) -> Path:
    for file in (folder / name, folder / f"{name}.gz"):
        if file.exists():
            return file
    raise FileNotFoundError(f"there is no {name} or {name}.gz in {folder}")


def _read(file: Path, axes: int) -> np.ndarray:
    """An idx file: two zeros, the type (8: bytes), the number of axes, their sizes, the values."""
    content = file.read_bytes()
    if file.suffix == ".gz":
        content = gzip.decompress(content)
    header = 4 * (1 + axes)
    if len(content) < header or content[:4] != bytes([0, 0, 8, axes]):
        raise ValueError(f"{file} is not an idx file of bytes with {axes} axes")
    shape = struct.unpack(f">{axes}I", content[4:header])
    if len(content) - header != int(np.prod(shape)):
        raise ValueError(f"{file} should hold {shape} values, but has {len(content) - header}")
    return np.frombuffer(content, dtype=np.uint8, offset=header).reshape(shape)
