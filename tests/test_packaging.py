"""What surrounds the code agrees with it: version, dependencies, files for readers, workflow."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import probgeo

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def text(name):
    return (ROOT / name).read_text(encoding="utf-8")


def test_there_is_one_version():
    assert PROJECT["project"]["dynamic"] == ["version"]
    assert PROJECT["tool"]["hatch"]["version"]["path"] == "probgeo/__init__.py"
    cited = re.findall(r"^version: (.*)$", text("CITATION.cff"), re.M)
    newest = re.findall(r"^## \[([^]]+)\]", text("CHANGELOG.md"), re.M)[:1]
    assert cited == newest == [probgeo.__version__]


def test_the_lowest_versions_are_the_lower_bounds():
    script = [sys.executable, ROOT / ".ci/lowest"]
    pins = subprocess.run(script, capture_output=True, text=True, check=True).stdout.split()
    assert "numpy==2.0" in pins
    assert {pin.partition("==")[0] for pin in pins} >= {"scipy", "numba", "jax", "torch", "pandas"}


def test_the_workflow_runs_every_python_that_is_promised():
    classifiers = PROJECT["project"]["classifiers"]
    promised = re.findall(r"Python :: (3\.\d+)", " ".join(classifiers))
    assert PROJECT["project"]["requires-python"] == f">={promised[0]}"
    (matrix,) = re.findall(r"python: \[(.*)\]", text(".github/workflows/ci.yml"))
    assert re.findall(r"3\.\d+", matrix) == promised


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"])
def test_links_lead_somewhere(name):
    targets = re.findall(r"\]\(([^)#:\s]+)\)", text(name))
    assert [target for target in targets if not (ROOT / target).exists()] == []


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", "docs/contributing.md", "README.md"])
def test_make_knows_the_targets_that_pages_name(name):
    (known,) = re.findall(r"^\.PHONY: (.*)$", text("Makefile"), re.M)
    named = set(re.findall(r"^make ([\w-]+)|`make ([\w-]+)", text(name), re.M))
    named = {a or b for a, b in named}
    assert named
    assert named <= set(known.split())


# what the README claims, by the sentence of a measured page that says so
CLAIMS = {
    r"geodesic, length: mean coverage ([\d.]+)": r"a share of {} of the lengths",
    r"geodesic, position: mean coverage ([\d.]+)": r"{} of the positions",
    r"settings ([\d.]+) % of our geodesics are bad": r"{} % are bad",
    r"([\d.]+) % of theirs": r"{} % with SciPy",
    r"LogODESolver, failures included.* ([\d.]+) % of theirs": r"{} % with geomstats",
    r"only as precise as needed: ([\d.]+) \(D = 2\)": r"{} times faster than always at 1e-6",
    r"mean are (\d+) \(D = \d+\)": r"mean are {} to",
    r"mean are \d+ \(D = \d+\) to (\d+) times": r"to {} times faster than with SciPy",
    r"([\d.]+) times as long as Diffrax Dopri8": r"no error bars, is {} times faster",
}


@pytest.mark.parametrize(("measured", "claimed"), CLAIMS.items())
def test_numbers_of_the_readme_are_those_of_the_benchmarks(measured, claimed):
    number = re.search(measured, text("docs/benchmarks.md"))[1]
    assert claimed.format(number) in " ".join(text("README.md").split())


def test_the_landing_page_is_short():
    assert len(text("README.md").splitlines()) <= 120
