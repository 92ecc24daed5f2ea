"""Rows of members of different sizes, without padding, whoever works on them."""

import itertools
import os
import threading

import joblib
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

    def inner(members):
        return threading.current_thread().name, ragged.who_works()

    def outer(members):
        found = ragged.in_chunks(inner, 8, most=2)
        assert len(found) == 4
        return {threading.current_thread().name, *(name for name, _ in found)}, found

    for names, found in ragged.in_chunks(outer, 8, most=4):
        assert len(names) == 1
        assert {workers for _, workers in found} == {(1, False)}


def sizes_of_chunks(count, **options):
    return ragged.in_chunks(len, count, **options)


@given(st.integers(1, 3000), st.integers(1, 2000))
def test_chunks_are_the_same_whoever_works(count, most):
    with ragged.jobs(1):
        alone = sizes_of_chunks(count, most=most)
    with ragged.jobs(3):
        assert sizes_of_chunks(count, most=most) == alone
    assert max(alone) <= most


def test_who_works_is_said_as_joblib_says_it(monkeypatch):
    monkeypatch.setenv("PROBGEO_THREADS", "3")
    assert ragged.who_works() == (3, False)
    with ragged.jobs(2), ragged.jobs(None):
        assert ragged.who_works() == (2, False)
    with ragged.jobs(-1):
        assert ragged.who_works() == (joblib.cpu_count(), False)
    with joblib.parallel_config(n_jobs=4):
        assert ragged.who_works() == (4, False)
        with ragged.jobs(2):
            assert ragged.who_works() == (2, False)
    with joblib.parallel_config("threading", n_jobs=1):
        assert ragged.who_works() == (1, False)
    with joblib.parallel_config("loky", n_jobs=2):
        assert ragged.who_works() == (2, True)
    assert ragged.who_works() == (3, False)


@pytest.mark.parametrize("wrong", [0, 1.5, True, "all"])
def test_a_number_of_jobs_that_is_none_is_named(wrong):
    with pytest.raises(ValueError, match="n_jobs must be None or a whole number other than 0"):
        ragged.jobs(wrong).__enter__()


@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_who_is_one_of_several_workers_divides_nothing(monkeypatch, backend):
    monkeypatch.setenv("PROBGEO_THREADS", "3")
    with joblib.parallel_config(backend, n_jobs=2):
        found = joblib.Parallel()(joblib.delayed(ragged.who_works)() for _ in range(4))
    assert found == [(1, False)] * 4


def test_other_processes_work_only_where_work_travels():
    here = os.getpid()

    def work(members):
        return os.getpid(), ragged.who_works(), members.sum()

    with joblib.parallel_config("loky", n_jobs=2):
        stays = ragged.in_chunks(work, 100, most=20)
        goes = ragged.in_chunks(work, 100, most=20, travels=True)
    assert {pid for pid, _, _ in stays} == {here}
    assert here not in {pid for pid, _, _ in goes}
    assert {who for _, who, _ in goes} == {(1, False)}
    assert [total for _, _, total in goes] == [total for _, _, total in stays]


def test_an_error_in_a_thread_reaches_the_caller(monkeypatch):
    monkeypatch.setenv("PROBGEO_THREADS", "2")

    def work(members):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        ragged.in_chunks(work, 8, least=1)


def test_a_number_of_threads_that_is_none_is_named(monkeypatch):
    monkeypatch.setenv("PROBGEO_THREADS", "many")
    with pytest.raises(ValueError, match="PROBGEO_THREADS must be a whole number"):
        ragged.who_works()


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
