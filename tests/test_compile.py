"""How programs are compiled and kept."""

import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from probgeo._compile import compiled, compiled_quickly, hurried, keep_compiled


@compiled_quickly
def double(x):
    return 2.0 * x


def test_it_works_by_itself_and_inside_of_other_programs():
    x = jnp.arange(3.0)
    for function in (double, jax.jit(double), jax.vmap(double)):
        np.testing.assert_array_equal(function(x), 2.0 * x)
    assert jax.grad(lambda x: double(x))(1.0) == 2.0


def test_programs_are_compiled_twice_only_if_hurried():
    traced = []

    @compiled
    def triple(x):
        traced.append(x)
        return 3.0 * x

    x = jnp.arange(3.0)
    for wanted in (False, True, False):
        with hurried(wanted):
            np.testing.assert_array_equal(triple(x), 3.0 * x)
            np.testing.assert_array_equal(jax.vmap(triple)(x), 3.0 * x)
    # optimised and not, and once for members of a batch, where there is no choice
    assert len(traced) == 3


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
