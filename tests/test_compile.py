"""How programs are compiled and kept."""

import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from probgeo._compile import (
    QUICKLY,
    THOROUGHLY,
    _known,
    compiled,
    compiled_quickly,
    hurried,
    is_little,
    keep_compiled,
    thoroughly,
)


@compiled_quickly
def double(x):
    return 2.0 * x


def test_it_works_by_itself_and_inside_of_other_programs():
    x = jnp.arange(3.0)
    for function in (double, jax.jit(double), jax.vmap(double)):
        np.testing.assert_array_equal(function(x), 2.0 * x)
    assert jax.grad(lambda x: double(x))(1.0) == 2.0


def counted():
    """A compiled function, and the list of what it was traced with: one entry a program."""
    traced = []

    @compiled
    def triple(x):
        traced.append(x)
        return 3.0 * x

    return triple, traced


def test_programs_are_compiled_twice_only_if_hurried():
    triple, traced = counted()
    x = jnp.arange(3.0)
    for wanted in (False, True, False):
        with hurried(wanted):
            np.testing.assert_array_equal(triple(x), 3.0 * x)
            np.testing.assert_array_equal(jax.vmap(triple)(x), 3.0 * x)
    # optimised and not, and once for members of a batch, where there is no choice
    assert len(traced) == 3


@pytest.mark.parametrize(("effort", "programs"), [("auto", 2), ("quick", 1), ("thorough", 1)])
def test_users_may_decide_how_thoroughly(monkeypatch, effort, programs):
    monkeypatch.setenv("PROBGEO_COMPILE", effort)
    triple, traced = counted()
    for wanted in (False, True):
        with hurried(wanted):
            assert triple(jnp.array(1.0)) == 3.0
    assert len(traced) == programs


def test_what_is_measured_is_compiled_thoroughly(monkeypatch):
    monkeypatch.setenv("PROBGEO_COMPILE", "quick")
    triple, traced = counted()
    x = jnp.array(1.0)
    with thoroughly(), hurried():
        triple(x)
    with thoroughly():
        triple(x)
    assert len(traced) == 1
    with thoroughly(False), hurried(False):
        triple(x)
    with hurried():
        triple(x)
    assert len(traced) == 2


def test_a_word_that_is_none(monkeypatch):
    monkeypatch.setenv("PROBGEO_COMPILE", "sloppy")
    with (
        pytest.raises(ValueError, match=r"PROBGEO_COMPILE must be one of .*, got 'sloppy'"),
        hurried(),
    ):
        pass


def test_options_that_this_compiler_does_not_have_are_left_out():
    assert _known({**QUICKLY, "xla_no_such_option": 1}) == _known(QUICKLY)
    # these two are what makes first use quick: worth knowing if a new version drops them
    assert _known(QUICKLY) == QUICKLY
    assert _known(THOROUGHLY) == THOROUGHLY


def test_large_jobs_are_not_little():
    assert is_little(1000, 2)
    assert is_little(1, 50)
    assert not is_little(1000, 50)
    assert not is_little(100_000, 2)


@pytest.mark.parametrize(
    ("told", "named", "kept"),
    [(None, None, "home/probgeo"), (None, "own", "own"), (None, "", None), ("jax", "own", "jax")],
)
def test_where_programs_are_kept(monkeypatch, told, named, kept):
    changed = {}
    monkeypatch.setattr(jax.config, "update", changed.__setitem__)
    monkeypatch.setattr(type(jax.config), "jax_compilation_cache_dir", told, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "home")
    if named is None:
        monkeypatch.delenv("PROBGEO_CACHE", raising=False)
    else:
        monkeypatch.setenv("PROBGEO_CACHE", named)
    monkeypatch.setattr("os.environ", dict(os.environ))
    keep_compiled()
    assert changed.get("jax_compilation_cache_dir", told) == kept
