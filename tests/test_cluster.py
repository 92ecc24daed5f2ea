"""Jobs in shards: whoever does them, and whoever is killed meanwhile, the numbers are the same."""

import errno
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import joblib
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from probgeo import ConvergenceWarning, Manifold, cluster, metrics, ragged, save, storage
from probgeo.cluster.job import Job

DATA = np.random.default_rng(1).normal(size=(80, 2)) * [2.0, 0.7]
METRIC = metrics.from_mixture(DATA, n_components=3, seed=0)
MANIFOLD = Manifold(METRIC)
X = DATA[:40]
CHUNK = 30  # 26 chunks


def same(found, expected):
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def shards(folder):
    return sorted(folder.glob("shard-*.npz"))


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """By one thread, without interruption."""
    out = tmp_path_factory.mktemp("undisturbed")
    return cluster.distance_matrix(MANIFOLD, X, out=out, chunk=CHUNK, n_jobs=1)


@pytest.fixture(scope="module")
def client():
    from distributed import Client, LocalCluster

    options = {"dashboard_address": None, "silence_logs": logging.CRITICAL}
    with LocalCluster(n_workers=2, threads_per_worker=1, **options) as workers, Client(workers) as client:
        yield client


@contextmanager
def killing(client, out, count):
    """SIGKILL for so many workers when a job has some shards, and not all of them."""
    seen = []

    def kill():
        pids = list(client.run(os.getpid).values())
        until(lambda: len(shards(out)) >= 2)
        seen.append(len(shards(out)))
        for pid in pids[:count]:
            os.kill(pid, signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    yield seen
    thread.join()


def until(true, seconds=60.0):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.005)


def slowly(geodesic):
    time.sleep(0.05)
    return {"length": geodesic.mean_length, "middle": geodesic.mean(0.5)}


def middle(geodesic, at):
    return geodesic.mean(at)


class TestPairs:
    @given(st.integers(2, 30), st.integers(1, 20), st.integers(1, 70), st.booleans(), st.booleans())
    def test_every_pair_is_in_one_chunk(self, n, m, chunk, itself, matrix):
        line = np.arange(30.0)[:, None]
        Y = None if itself else line[: m if matrix else n]
        job = Job(line[:n], Y, matrix or itself, chunk, "", "", line, line)
        pairs = [job.pairs(k) for k in range(job.chunks)]
        assert all(len(i) <= chunk for i, _ in pairs)
        i, j = (np.concatenate(rows) for rows in zip(*pairs, strict=True))
        if itself:
            expected = {(a, b) for b in range(n) for a in range(b)}
        elif matrix:
            expected = {(a, b) for a in range(n) for b in range(m)}
        else:
            expected = {(a, a) for a in range(n)}
        assert len(i) == job.count == len(expected)
        assert set(zip(i.tolist(), j.tolist(), strict=True)) == expected

    def test_also_of_very_many_points(self):
        points = np.zeros((300_000, 1))
        job = Job(points, None, True, 1000, "", "", points[:1], points[:1])
        i, j = job.pairs(job.chunks - 1)
        assert np.all((i >= 0) & (i < j) & (j < len(points)))


class TestAlone:
    def test_is_the_distance_matrix(self, undisturbed):
        expected = MANIFOLD.distance_matrix(X)
        np.testing.assert_allclose(undisturbed.mean, expected.mean, rtol=1e-12)
        np.testing.assert_allclose(undisturbed.std, expected.std, rtol=1e-6)
        assert undisturbed.converged.all()

    @pytest.mark.parametrize("chunk", [7, 512, None])
    def test_two_sets_of_points(self, tmp_path, chunk):
        found = cluster.distance_matrix(MANIFOLD, X[:5], X[5:12], out=tmp_path, chunk=chunk)
        expected = MANIFOLD.distance_matrix(X[:5], X[5:12])
        np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-12)

    def test_threads(self, tmp_path, undisturbed):
        found = cluster.distance_matrix(MANIFOLD, X, out=tmp_path, chunk=CHUNK, n_jobs=3)
        same(found, undisturbed)

    def test_shares_are_gathered(self, tmp_path, undisturbed):
        job = Job.of(MANIFOLD, X, chunk=CHUNK)
        from probgeo.cluster.workers import complete, distances_between

        for i in (3, 1):
            complete(job, tmp_path, MANIFOLD, distances_between, share=(i, 3))
        with pytest.raises(ValueError, match=r"9 of 26 shards are missing .* shard-000001.npz"):
            cluster.gather(tmp_path)
        complete(job, tmp_path, MANIFOLD, distances_between, share=(2, 3))
        same(cluster.gather(tmp_path).values(), undisturbed)

    def test_of_an_ensemble_has_the_spread_of_its_members(self, tmp_path):
        ensemble = Manifold(metrics.Ensemble([METRIC, METRIC.with_rho(0.5)]))
        found = cluster.distance_matrix(ensemble, X[:4], out=tmp_path)
        expected = ensemble.distance_matrix(X[:4])
        np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-12)
        np.testing.assert_allclose(found.std, expected.std, rtol=1e-9)

    def test_where_there_is_no_metric_it_is_not_a_number(self, tmp_path):
        half_plane = Manifold(metrics.HalfPlane())
        points = [[0.0, 1.0], [1.0, 1.0], [0.0, -1.0]]
        with pytest.warns(ConvergenceWarning, match="4 of 9 distances did not converge"):
            found = cluster.distance_matrix(half_plane, points, out=tmp_path, chunk=1)
        assert np.isnan(found.mean[2, :2]).all()
        assert found.converged[0].tolist() == [True, True, False]

    def test_functions_of_geodesics(self, tmp_path):
        found = cluster.map_pairs(slowly, MANIFOLD, X[:9], X[9:18], out=tmp_path, chunk=4)
        geodesic = MANIFOLD.geodesic(X[:9], X[9:18])
        np.testing.assert_allclose(found["length"], geodesic.mean_length, rtol=1e-12)
        np.testing.assert_allclose(found["middle"], geodesic.mean(0.5), rtol=1e-9)

    def test_functions_without_a_name(self, tmp_path):
        """They are told apart by what they are made of, and known again."""
        at = [partial(middle, at=0.25), partial(middle, at=0.5)]
        for _ in range(2):
            found = cluster.map_pairs(at[1], MANIFOLD, X[:2], X[2:4], out=tmp_path)
            at[1] = partial(middle, at=0.5)
        expected = MANIFOLD.geodesic(X[:2], X[2:4]).mean(0.5)
        np.testing.assert_allclose(found["values"], expected, rtol=1e-9)
        with pytest.raises(ValueError, match=r"its what differs \(.*at=0.5\) there, .*at=0.25\) he"):
            cluster.map_pairs(at[0], MANIFOLD, X[:2], X[2:4], out=tmp_path)

    @pytest.mark.parametrize("wrong", [lambda g: 1.0, lambda g: np.zeros(2), lambda g: {"/": g.gap}])
    def test_functions_that_return_something_else(self, tmp_path, wrong):
        with pytest.raises(ValueError, match=r"must return arrays with a row|become names of file"):
            cluster.map_pairs(wrong, MANIFOLD, X[:3], X[3:6], out=tmp_path)

    def test_rows_that_are_no_pairs(self, tmp_path):
        with pytest.raises(ValueError, match="X and Y must have equally many rows"):
            cluster.map_pairs(slowly, MANIFOLD, X[:3], X[:4], out=tmp_path)

    def test_what_it_costs(self):
        cost = cluster.estimate(MANIFOLD, X, chunk=100)
        assert cost.pairs == 780
        assert cost.bytes == 17 * 40**2
        assert cost.each > 0
        assert cost.seconds(4) == pytest.approx(2.0 * cost.each * 100)  # 8 chunks by four


class TestDask:
    def test_the_same_numbers(self, client, tmp_path, undisturbed):
        same(cluster.distance_matrix(MANIFOLD, X, out=tmp_path, chunk=CHUNK, client=client), undisturbed)

    @pytest.mark.parametrize("count", [1, 2])
    def test_workers_killed_on_the_way(self, client, tmp_path, count):
        """With both of them the manifold is lost as well."""
        options = {"chunk": 2, "progress": False}
        pairs = X[:30], X[10:]
        expected = cluster.map_pairs(slowly, MANIFOLD, *pairs, out=tmp_path / "alone", **options)
        out = tmp_path / "killed"
        with killing(client, out, count) as seen:
            found = cluster.map_pairs(slowly, MANIFOLD, *pairs, out=out, client=client, retries=6, **options)
        assert 2 <= seen[0] < 15
        same(found.values(), expected.values())

    def test_by_joblib(self, client):
        expected = MANIFOLD.distance_matrix(X[:12])
        with joblib.parallel_config("dask"):
            assert ragged.who_works() == (2, True)
            found = MANIFOLD.distance_matrix(X[:12])
        np.testing.assert_array_equal(found.mean, expected.mean)

    def test_a_chunk_that_kills_its_workers_is_given_up(self, client, tmp_path):
        def greedy(geodesic):
            raise MemoryError

        with pytest.raises(RuntimeError, match=r"chunk \d of 3 failed 2 times \(MemoryError"):
            cluster.map_pairs(greedy, MANIFOLD, X[:6], X[6:12], out=tmp_path, chunk=2, client=client, retries=1)

    def test_errors_of_a_function_reach_the_caller(self, client, tmp_path):
        def wrong(geodesic):
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            cluster.map_pairs(wrong, MANIFOLD, X[:3], X[3:6], out=tmp_path, client=client)

    def test_a_killed_driver_is_continued(self, client, tmp_path, undisturbed):
        manifold = storage.save(MANIFOLD, tmp_path / "manifold.npz")
        points, out = tmp_path / "X.npy", tmp_path / "out"
        np.save(points, X)
        code = (
            "import numpy as np, sys, time\n"
            "from distributed import Client\n"
            "from probgeo import cluster, load\n"
            "from probgeo.cluster.job import Job\n"
            "write = Job.write\n"
            "def slowly(*arguments):\n"
            "    time.sleep(0.1)\n"
            "    write(*arguments)\n"
            "Job.write = slowly\n"
            "manifold, points, out, address = sys.argv[1:]\n"
            "client = Client(address)\n"
            f"arguments = {{'out': out, 'chunk': {CHUNK}, 'client': client}}\n"
            "cluster.distance_matrix(load(manifold), np.load(points), **arguments)\n"
        )
        address = client.scheduler.address
        command = [sys.executable, "-c", code, str(manifold), str(points), str(out), address]
        driver = subprocess.Popen(command)
        until(lambda: len(shards(out)) >= 3)
        driver.kill()
        driver.wait()
        before = {path: path.stat().st_mtime_ns for path in shards(out)}
        assert 3 <= len(before) < 26
        arguments = {"out": out, "chunk": CHUNK, "client": client}
        same(cluster.distance_matrix(MANIFOLD, X, **arguments), undisturbed)
        assert all(path.stat().st_mtime_ns == at for path, at in before.items())  # nothing twice


class TestFolders:
    @pytest.fixture
    def done(self, tmp_path):
        """A job of three chunks."""
        cluster.distance_matrix(MANIFOLD, X[:4], out=tmp_path, chunk=2)
        return tmp_path

    def again(self, folder, **changes):
        arguments = {"manifold": MANIFOLD, "X": X[:4], "chunk": 2} | changes
        return cluster.distance_matrix(**arguments, out=folder)

    def test_a_full_disk(self, tmp_path, undisturbed, monkeypatch):
        real, written = np.savez_compressed, []

        def full(file, **arrays):
            written.append(file)
            if len(written) > 5:
                file.write(b"half of it")
                raise OSError(errno.ENOSPC, "No space left on device")
            real(file, **arrays)

        monkeypatch.setattr(np, "savez_compressed", full)
        arguments = {"out": tmp_path, "chunk": CHUNK, "n_jobs": 1}
        told = r"shard-000004.npz could not be written \(No space left on device\); .* goes on from"
        with pytest.raises(OSError, match=told) as stopped:
            cluster.distance_matrix(MANIFOLD, X, **arguments)
        assert stopped.value.errno == errno.ENOSPC
        monkeypatch.undo()
        names = {path.name for path in tmp_path.iterdir()}
        assert names == {"job.npz", *(f"shard-{k:06d}.npz" for k in range(4))}
        same(cluster.distance_matrix(MANIFOLD, X, **arguments), undisturbed)

    def test_a_disk_too_small_for_the_arrays(self, done, monkeypatch):
        def full(*_):
            raise OSError(errno.ENOSPC, "No space left on device")

        before = (done / "mean.npy").read_bytes()
        monkeypatch.setattr(os, "posix_fallocate", full)
        with pytest.raises(OSError, match="No space"):
            cluster.gather(done)
        assert (done / "mean.npy").read_bytes() == before
        assert not list(done.glob(".*"))

    def test_several_gather_at_once(self, done):
        expected = {name: np.array(value) for name, value in cluster.gather(done).items()}
        with ThreadPoolExecutor(8) as threads:
            for found in threads.map(cluster.gather, [done] * 40):
                same(found.values(), expected.values())
        assert not list(done.glob(".*"))

    def test_damaged_shards_are_refused(self, done):
        path = shards(done)[1]
        whole = path.read_bytes()
        for damage in (whole[:-30], whole[:200] + b"\0\0\0\0" + whole[204:], b"", b"what?"):
            path.write_bytes(damage)
            for attempt in (self.again, cluster.gather):
                with pytest.raises(ValueError, match=f"{path.name}.* remove it, and run the job"):
                    attempt(done)
        path.unlink()
        assert self.again(done).converged.all()
        assert path.read_bytes() == whole

    def test_shards_of_other_jobs_are_refused(self, done, tmp_path_factory):
        other = tmp_path_factory.mktemp("other")
        self.again(other, manifold=Manifold(METRIC.with_rho(0.5)))
        path = shards(done)[1]
        path.write_bytes(shards(other)[1].read_bytes())
        with pytest.raises(ValueError, match=rf"{path.name} is chunk 1 of job \w+, not chunk 1 of"):
            self.again(done)
        path.write_bytes(shards(done)[0].read_bytes())
        with pytest.raises(ValueError, match=rf"{path.name} is chunk 0 of job .*, not chunk 1"):
            cluster.gather(done)
        save(METRIC, path)
        with pytest.raises(ValueError, match=f"{path.name} is not a shard"):
            cluster.gather(done)

    @pytest.mark.parametrize(
        ("changes", "what"),
        [
            ({"X": X[1:5]}, "X"),
            ({"Y": X[:4]}, "Y"),
            ({"chunk": 3}, "chunk"),
            ({"manifold": MANIFOLD.with_precision(1e-5)}, "settings"),
            ({"manifold": Manifold(METRIC.with_rho(0.5))}, "tensors"),
            ({"manifold": Manifold(METRIC, landmarks=[[9.0, 9.0]])}, "landmarks"),
        ],
    )
    def test_another_job_in_the_same_folder(self, done, changes, what):
        with pytest.raises(ValueError, match=f"has another job: its {what} differs"):
            self.again(done, **changes)

    def test_folders_without_a_job(self, tmp_path):
        with pytest.raises(ValueError, match=r"has no job.npz: no job was begun there"):
            cluster.gather(tmp_path)
        save(METRIC, tmp_path / "job.npz")
        with pytest.raises(ValueError, match=r"job.npz is not a job, but a LocalMetrics"):
            cluster.gather(Path(tmp_path))
