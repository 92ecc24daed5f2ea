"""`probgeo explore` from the command line."""

import os
import re
import signal
import subprocess
import sys

import numpy as np
import pytest

from probgeo.cli import main
from probgeo.commands.exploring import scene_of
from probgeo.commands.options import parser
from probgeo.explorer import Explorer
from probgeo.explorer.examples import moons


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4)) * [3.0, 2.0, 1.0, 0.5]
    X[:, 3] = np.repeat([0.0, 1.0, 2.0], 100)
    path = tmp_path / "table.csv"
    np.savetxt(path, X, delimiter=",", header="a,b,c,kind", comments="")
    return path, X


def scene(*words):
    return scene_of(parser().parse_args(["explore", *map(str, words)]), lambda line: None)


def test_a_table_with_a_column_for_the_colour(table):
    path, _ = table
    shown = scene(path, "--colour", "kind", "--components", "3", "--sample", "200", "--seed", "5")
    assert shown.columns == ("a", "b", "c")
    assert shown.X.shape == (200, 3)
    assert set(shown.values("kind")) == {0.0, 1.0, 2.0}
    assert shown.components == 3
    space = {"np": np}
    exec(shown.recipe, space)
    assert np.array_equal(space["X"], shown.X)


def test_principal_components_of_a_table(table):
    path, _ = table
    shown = scene(path, "--dimensions", "2", "--components", "2")
    assert shown.columns == ("pc1", "pc2")
    space = {"np": np}
    exec(shown.recipe, space)
    assert np.allclose(space["X"], shown.X)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--example", "moons", "--rho", "1"], "--rho is for a table"),
        (["TABLE", "--colour", "nothing"], "--colour must be one of a, b, c, kind"),
        (["TABLE", "--dimensions", "1"], "two columns"),
        (["TABLE", "--components", "1000"], "different points"),
        (["missing.csv"], "missing.csv"),
        ([], "required"),
        (["--example", "moons", "TABLE"], "not allowed"),
        (["--example", "moons", "--port", "70000"], "70000"),
    ],
)
def test_what_makes_no_sense_is_told_in_a_line(words, message, table, capsys):
    words = [str(table[0]) if word == "TABLE" else word for word in words]
    assert main(["explore", "--no-browser", *words]) == 2
    assert message in capsys.readouterr().err


def test_a_busy_port_is_told_in_a_line(capsys):
    with Explorer(moons()) as running:
        words = ["explore", "--example", "moons", "--no-browser", "--port", str(running.port)]
        assert main(words) == 2
    assert f"port {running.port} cannot be used" in capsys.readouterr().err


def test_ctrl_c_ends_it():
    code = "import sys; from probgeo.cli import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "explore", "--example", "moons"]
    command.append("--no-browser")
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=dict(os.environ))
    try:
        assert re.search(r"http://127\.0\.0\.1:\d+/\S+/", process.stdout.readline())
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.stdout.close()
