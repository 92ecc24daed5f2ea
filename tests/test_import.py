"""What `import probgeo` does to a process: next to nothing."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "probgeo"


def in_a_new_process(code, **environment):
    import os

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **environment}, check=False
    )
    assert done.returncode == 0, done.stderr
    return done


def test_neither_jax_nor_torch_nor_scikit_learn_is_imported():
    code = (
        "import sys, probgeo\n"
        "from probgeo import Gaussian, Manifold, metrics, solve_bvp, solve_ivp, solvers\n"
        "loaded = {name.partition('.')[0] for name in sys.modules}\n"
        "print(loaded & {'jax', 'torch', 'sklearn', 'matplotlib', 'pandas'})"
    )
    assert in_a_new_process(code).stdout.strip() == "set()"


def test_nothing_of_jax_is_changed():
    code = (
        "import os, jax\n"
        "def environment():\n"
        "    return {k: v for k, v in os.environ.items() if k.startswith(('JAX', 'XLA', 'TF'))}\n"
        "variables = environment()\n"
        "before = dict(jax.config.values)\n"
        "from probgeo import solve_bvp\n"
        "curve = solve_bvp(lambda t, y, dy: -y, (0.0, 1.0), [0.0], [1.0])\n"
        "assert curve.converged\n"
        "assert dict(jax.config.values) == before\n"
        "assert environment() == variables\n"
        "assert jax.numpy.ones(1).dtype == 'float32'\n"
    )
    assert in_a_new_process(code, JAX_ENABLE_X64="0").stderr == ""


def test_loops_work_where_nothing_can_be_kept(tmp_path):
    """A message once, and all works."""
    code = (
        "import warnings\n"
        "from numba.core import caching\n"
        "caching.CacheImpl._locator_classes = []\n"
        "with warnings.catch_warnings(record=True) as heard:\n"
        "    warnings.simplefilter('always')\n"
        "    from probgeo._loops import loop\n"
        "    double = loop(lambda x: 2 * x)\n"
        "    triple = loop(lambda x: 3 * x)\n"
        "assert (double(2.0), triple(2.0)) == (4.0, 6.0)\n"
        "assert len(heard) == 1, heard\n"
        "assert 'NUMBA_CACHE_DIR' in str(heard[0].message)\n"
    )
    in_a_new_process(code)


@pytest.mark.parametrize("name", ["jax", "torch"])
def test_frameworks_are_imported_where_they_are_meant_to_be(name):
    """Where users' functions are computed, and where solves are differentiated; nowhere else."""
    meant = {
        "jax": {"functions/in_jax.py", "ode/inside_jax.py"},
        "torch": {"functions/in_torch.py", "functions/torch_layers.py"},
    }[name]
    importing = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        for line in path.read_text().splitlines()
        if line.strip().startswith((f"import {name}", f"from {name}"))
    }
    assert importing == meant


def test_rooms_import_only_from_rooms_above_them():
    """But for `export`: results know how to become tables and pictures, which is loaded when they are asked."""
    rooms = [
        ("gaussian", "_checks", "_loops", "_repr", "_json", "ragged"),
        ("functions",),
        ("ode",),
        ("metrics",),
        ("geometry",),
        ("stats",),
        ("data", "plot", "storage"),
        ("cluster", "explorer", "paper"),
        ("commands",),
        ("cli",),
    ]
    level = {name: k for k, names in enumerate(rooms) for name in names}
    wrong = []
    for path in PACKAGE.rglob("*.py"):
        room = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.ImportFrom) or room not in level:
                continue
            package, _, other = node.module.partition(".")
            others = [other.partition(".")[0]] if other else [alias.name for alias in node.names]
            if package == "probgeo" and any(level.get(one, 0) > level[room] for one in others):
                wrong.append(f"{path.relative_to(PACKAGE)}: {ast.unparse(node)}")
    assert not wrong
