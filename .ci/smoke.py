"""Whether an installed probgeo works: run where the repository cannot be imported from."""

import subprocess
import sys
from pathlib import Path

import numpy as np

import probgeo
from probgeo import Manifold, data, metrics

place = Path(probgeo.__file__).resolve()
assert place.is_relative_to(sys.prefix), f"{place} is not in the environment {sys.prefix}"

geodesic = Manifold(metrics.HalfPlane()).geodesic([0.0, 1.0], [2.0, 1.0])
assert geodesic.converged, geodesic.message
off = abs(geodesic.length.mean - np.arccosh(3.0))  # cosh d = 1 + |a - b|^2 / (2 a_2 b_2)
assert off < 1e-5, off

assert len(data.mnist_ones().images) > 900
assert len(data.bodies().scores) > 1000

assert (place.parent / "explorer/page/page.html").is_file()

command = Path(sys.executable).with_name("probgeo")
said = subprocess.run([command, "--version"], capture_output=True, text=True, check=True).stdout
assert said.strip() == f"probgeo {probgeo.__version__}", said

parts = [path.relative_to(place.parent).parts for path in place.parent.rglob("*")]
assert not [part for part in parts if part[0] in ("tests", "benchmarks", "docs", "examples")]
