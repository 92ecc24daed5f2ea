"""Rows of members of different sizes, without padding, whoever works on them."""

import itertools
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from probgeo import ragged

counts = st.lists(st.integers(1, 6), min_size=1, max_size=8)


def parts_of(offsets, array):
    return [array[a:b] for a, b in itertools.pairwise(offsets)]


@given(counts, st.data())
def test_some_members_are_their_rows_one_after_the_other(counts, data):
    offsets = ragged.offsets_of(counts)
    rows = np.random.default_rng(0).normal(size=(offsets[-1], 2))
    members = np.array(data.draw(st.lists(st.integers(0, len(counts) - 1), max_size=6)), dtype=int)
    own, taken = ragged.take(offsets, members, rows)
    assert len(own) == len(members) + 1
    for member, part in zip(members, parts_of(own, taken), strict=True):
        np.testing.assert_array_equal(part, rows[offsets[member] : offsets[member + 1]])


@given(counts, counts)
def test_joined_batches_are_taken_apart_again(first, second):
    batches = []
    for n, sizes in enumerate((first, second)):
        offsets = ragged.offsets_of(sizes)
        batches.append((offsets, np.arange(offsets[-1]) + 100 * n))
    offsets, rows = ragged.joined(batches)
    own, again = ragged.take(offsets, np.arange(len(first), len(first) + len(second)), rows)
    np.testing.assert_array_equal(own, batches[1][0])
    np.testing.assert_array_equal(again, batches[1][1])


@given(counts)
def test_every_row_knows_its_member(counts):
    offsets = ragged.offsets_of(counts)
    expected = [m for m, n in enumerate(counts) for _ in range(n)]
    np.testing.assert_array_equal(ragged.members_of(offsets), expected)
    np.testing.assert_array_equal(np.diff(ragged.elements_of(offsets)), np.array(counts) - 1)


@pytest.mark.parametrize("threads", ["1", "2", "5"])
@pytest.mark.parametrize(("count", "most"), [(0, 10), (1, 10), (7, 3), (100, 13), (64, 1000)])
def test_work_comes_back_in_order_however_it_is_divided(monkeypatch, threads, count, most):
    monkeypatch.setenv("PROBGEO_THREADS", threads)
    sizes = []

    def work(members):
        sizes.append(len(members))
        return members**2

    found = ragged.in_chunks(work, count, most=most, least=1)
    np.testing.assert_array_equal(np.concatenate(found), np.arange(count) ** 2)
    assert max(sizes) <= most


def test_work_within_work_stays_on_its_thread(monkeypatch):
    monkeypatch.setenv("PROBGEO_THREADS", "2")
    names = set()

    def inner(members):
        names.add(threading.current_thread().name)
        return ragged.thread_count()

    def outer(members):
        before = set(names)
        found = ragged.in_chunks(inner, 8, least=1)
        assert len(names - before) <= 1
        return found

    found = ragged.in_chunks(outer, 8, least=1)
    assert {count for part in found for count in part} == {1}


def test_an_error_in_a_thread_reaches_the_caller(monkeypatch):
    monkeypatch.setenv("PROBGEO_THREADS", "2")

    def work(members):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        ragged.in_chunks(work, 8, least=1)


def test_a_number_of_threads_that_is_none_is_named(monkeypatch):
    monkeypatch.setenv("PROBGEO_THREADS", "many")
    with pytest.raises(ValueError, match="PROBGEO_THREADS must be a whole number"):
        ragged.thread_count()


def test_matrix_products_of_chunks_use_one_thread():
    """Also where two callers are at work: the last one restores what was."""
    from threadpoolctl import ThreadpoolController

    controller = ThreadpoolController().select(user_api="blas")

    def numbers():
        return [library.num_threads for library in controller.lib_controllers]

    with controller.limit(limits=2):
        before = numbers()
        inside = ragged.in_chunks(lambda members: numbers(), 3)
        nested = ragged.in_chunks(lambda m: (ragged.in_chunks(lambda k: 0, 2), numbers())[1], 1)
        assert set(inside[0]) == set(nested[0]) == {1}
        assert numbers() == before
