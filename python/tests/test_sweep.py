"""Sweeps: every point once, errors of impossible ones kept, results that can be repeated, on Ray too."""

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet
import pytest
import ray

import zonal

JOB = zonal.Job("w", rw="write", bs="64k", zonemode="zbd", time_based=1, runtime="5ms")
SPACE = {"iodepth": [1, 4], "zone_write": ["plug", "qd1"]}


def test_grid_has_every_combination_and_is_not_measured_twice(tmp_path: Path) -> None:
    out = tmp_path / "sweep.parquet"
    first = zonal.sweep(SPACE, JOB, device="zns-1t", out=out)
    assert first.measured == len(first.rows) == 4
    points = [json.loads(row["point"]) for row in first.rows]
    assert points[1] == {"iodepth": 1, "zone_write": "qd1"}
    assert first.best["bandwidth"] == max(row["bandwidth"] for row in first.rows)
    table = pyarrow.parquet.read_table(out)
    assert table.num_rows == 4 and not (tmp_path / "sweep.parquet.journal").exists()
    wider = zonal.sweep({**SPACE, "iodepth": [1, 4, 16]}, JOB, device="zns-1t", out=out)
    assert (wider.measured, len(wider.rows)) == (2, 6)
    assert wider.rows[:4] == first.rows
    # Another job is another result.
    assert zonal.sweep(SPACE, JOB.replace(bs="4k"), device="zns-1t", out=out).measured == 4
    assert list(wider.to_pandas()["iodepth"]) == [1, 1, 4, 4, 16, 16]


def test_seeds_of_torture_are_swept_and_their_reports_merged(tmp_path: Path) -> None:
    out = tmp_path / "torture.parquet"
    first = zonal.torture(range(500, 2000), profile="calm", out=out)
    assert first.passed and not first.failures and first.measured == 2
    assert first.report["seeds"] == [{"profile": "calm", "first": 500, "last": 1999}]
    assert first.report["runs"] == 1500 and "1500 runs, " in str(first)
    again = zonal.torture(range(500, 2500), profile="calm", out=out)
    assert again.measured == 1, "the last piece is longer now"
    assert again.report["runs"] == 2000
    with pytest.raises(zonal.InputError, match="expected one of any, zoned"):
        zonal.torture(range(3), profile="calmer")
    with pytest.raises(zonal.InputError, match="seeds: found"):
        zonal.torture(range(0, 10, 2))


def test_sweep_that_was_killed_goes_on(tmp_path: Path) -> None:
    out = tmp_path / "sweep.parquet"

    class Enough(Exception):
        pass

    def report(progress: zonal.Progress) -> None:
        raise Enough

    with pytest.raises(Enough):
        zonal.sweep(SPACE, JOB, device="zns-1t", out=out, workers=1, progress=report)
    (row,) = pyarrow.parquet.read_table(out).to_pylist()
    # As a process leaves it that is killed while it writes.
    out.unlink()
    journal = tmp_path / "sweep.parquet.journal"
    journal.write_text(json.dumps(row) + '\n{"key": "torn')
    assert zonal.sweep(SPACE, JOB, device="zns-1t", out=out).measured == 3
    assert not journal.exists()


def test_row_has_all_that_is_needed_to_repeat_it(tmp_path: Path) -> None:
    profile = tmp_path / "drive.toml"
    profile.write_text(zonal.profile_text("zns-1t"))
    out = tmp_path / "sweep.parquet"
    zonal.sweep({"iodepth": [4]}, JOB, device=str(profile), seed=3, out=out)
    profile.unlink()
    (row,) = pyarrow.parquet.read_table(out).to_pylist()
    again = zonal.repeat(row)
    assert (again.bandwidth, again.iops) == (row["bandwidth"], row["iops"])


def test_impossible_point_records_its_error_and_the_sweep_goes_on(tmp_path: Path) -> None:
    out = tmp_path / "sweep.parquet"
    space = {"iodepth": [0, 1], "device": ["zns-1t", "zns-2", "none.toml"]}
    found = zonal.sweep(space, JOB, out=out)
    rows = pyarrow.parquet.read_table(out).to_pylist()
    assert {row["key"]: row for row in rows} == {row["key"]: row for row in found.rows}
    texts = [row["error"] for row in found.failed]
    assert len(texts) == 5 and "none.toml" in texts[4]
    assert 'iodepth: expected 1 to 1048576, found "0"' in texts[0]
    assert "device zns-2: unknown device" in texts[3]
    assert json.loads(found.best["point"]) == {"iodepth": 1, "device": "zns-1t"}
    with pytest.raises(zonal.Error, match="all 1 points failed"):
        zonal.sweep({"iodepth": [0]}, JOB, device="zns-1t").best


def test_random_search_repeats_itself() -> None:
    space = {"iodepth": zonal.Range(1, 64, log=True), "bs": ["4k", "64k"]}
    found = [
        zonal.sweep(space, JOB, device="zns-1t", search="random", points=6, seed=seed)
        for seed in (1, 1, 2)
    ]
    points = [[row["point"] for row in each.rows] for each in found]
    assert points[0] == points[1] != points[2]
    assert all(1 <= json.loads(point)["iodepth"] <= 64 for point in points[0])


def test_bayesian_search_gets_near_the_best() -> None:
    space = {"iodepth": zonal.Range(1, 32), "bs": ["4k", "16k", "64k"]}
    found = zonal.sweep(space, JOB, device="zns-1t", search="bayesian", points=20, workers=1)
    smallest = zonal.sweep({"iodepth": [1], "bs": ["4k"]}, JOB, device="zns-1t")
    assert json.loads(found.best["point"])["bs"] == "64k"
    assert found.best["bandwidth"] > 2 * smallest.best["bandwidth"]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"metric": "speed"}, "metric: found 'speed', expected one of bandwidth"),
        ({"search": "best"}, "search: found 'best'"),
        ({"search": "random"}, "points: expected a number"),
        ({"engine": "dask"}, "engine: found 'dask', expected local or ray"),
        ({"space": {}}, "at least one axis"),
        ({"space": {"iodepth": zonal.Range(1, 2)}}, "expected a list for search='grid'"),
    ],
)
def test_bad_sweeps_are_refused(options: dict[str, object], text: str) -> None:
    arguments = {"space": SPACE, "jobs": JOB, "device": "zns-1t"} | options
    with pytest.raises(zonal.InputError, match=text):
        zonal.sweep(**arguments)


FILE = """
jobs = '''
[w]
rw=write
bs=64k
zonemode=zbd
'''
device = "zns-1t"
time = 0.005
repetitions = 2
output = "OUTPUT"
[space]
iodepth = { from = 1, to = 16, factor = 4 }
zone_write = ["plug", "qd1"]
"""


def test_file_is_the_sweep_of_the_program(tmp_path: Path) -> None:
    path = tmp_path / "sweep.toml"
    path.write_text(FILE.replace("OUTPUT", str(tmp_path / "kept")))
    found = zonal.sweep(path, engine="local")
    assert found.measured == len(found.rows) == 12
    assert pyarrow.parquet.read_table(tmp_path / "kept.parquet").num_rows == 12
    point = {"iodepth": 4, "zone_write": "qd1"}
    rows = [row for row in found.rows if json.loads(row["point"]) == point]
    assert [json.loads(row["call"])["options"]["seed"] for row in rows] == [0, 1]
    job = zonal.Job("w", rw="write", bs="64k", zonemode="zbd", iodepth=4, time_based=1)
    job = job.replace(ramp_time="500us", ramp_submitted=1, runtime="4500us")
    for seed, row in enumerate(rows):
        result = zonal.run(job, device="zns-1t", zone_write="qd1", seed=seed, io_cost=1000)
        assert result.bandwidth == row["bandwidth"]
    assert zonal.sweep(str(path)).measured == 0


def test_file_can_search(tmp_path: Path) -> None:
    path = tmp_path / "sweep.toml"
    text = FILE.replace('output = "OUTPUT"', 'search = "random"\npoints = 4')
    path.write_text(text)
    first = zonal.sweep(path)
    assert len(first.rows) == 8 and zonal.sweep(path).rows[0]["key"] == first.rows[0]["key"]
    path.write_text(text.replace("random", "bayesian").replace("repetitions = 2", ""))
    points = [json.loads(row["point"]) for row in zonal.sweep(path, workers=1).rows]
    assert points and all(1 <= point["iodepth"] <= 16 for point in points)


def test_bad_files_are_refused_with_the_texts_of_the_program(tmp_path: Path) -> None:
    path = tmp_path / "sweep.toml"
    for text, expected in [
        (FILE.replace("repetitions", "repetition"), "unknown key `repetition`.* did you mean"),
        ('clock = "real"\n' + FILE, "`clock`: found real, expected virtual"),
    ]:
        path.write_text(text)
        with pytest.raises(zonal.InputError, match=expected):
            zonal.sweep(path)
    with pytest.raises(zonal.InputError, match="device: found .*sweep.toml as well"):
        zonal.sweep(path, device="zns-1t")


def test_file_of_something_else_is_left_alone(tmp_path: Path) -> None:
    other = tmp_path / "other.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"a": [1]}), other)
    before = other.read_bytes()
    with pytest.raises(zonal.InputError, match="expected results of a sweep"):
        zonal.sweep(SPACE, JOB, device="zns-1t", out=other)
    assert other.read_bytes() == before


@pytest.fixture
def cluster() -> Iterator[None]:
    """A Ray cluster of this machine, with two workers."""
    ray.init(
        num_cpus=2, include_dashboard=False, log_to_driver=False, _node_ip_address="127.0.0.1"
    )
    yield
    ray.shutdown()


def is_ours(process: int) -> bool:
    """Whether a process descends from this one."""
    while process > 1 and process != os.getpid():
        stat = Path(f"/proc/{process}/stat").read_text()
        process = int(stat.rpartition(")")[2].split()[1])
    return process == os.getpid()


def busy_worker() -> int:
    """The process of a worker of this test that measures a point."""
    while True:
        for process in Path("/proc").glob("[0-9]*"):
            try:
                measures = (process / "cmdline").read_bytes().startswith(b"ray::measure")
                if measures and is_ours(int(process.name)):
                    return int(process.name)
            except OSError:
                pass
        time.sleep(0.001)


@pytest.mark.usefixtures("cluster")
def test_ray_loses_nothing_with_a_worker_that_dies_and_measures_nothing_twice(
    tmp_path: Path,
) -> None:
    out = tmp_path / "sweep.parquet"
    space = {"iodepth": list(range(1, 51)), "bs": ["4k", "64k"], "zone_write": ["plug", "qd1"]}
    killed: list[int] = []

    def kill() -> None:
        killed.append(busy_worker())
        os.kill(killed[0], signal.SIGKILL)

    def report(progress: zonal.Progress) -> None:
        if progress.done >= 40 and not killers:
            killers.append(threading.Thread(target=kill))
            killers[0].start()

    killers: list[threading.Thread] = []
    found = zonal.sweep(space, JOB, device="zns-1t", engine="ray", out=out, progress=report)
    killers[0].join()
    assert killed
    rows = pyarrow.parquet.read_table(out).to_pylist()
    assert found.measured == len(rows) == 200
    assert len({row["key"] for row in rows}) == 200 and not found.failed
    assert len({row["worker"] for row in rows}) >= 3, "two workers, and one for the dead one"
    # Where a point ran makes no difference.
    row = found.rows[77]
    assert zonal.repeat(row).bandwidth == row["bandwidth"]
    assert zonal.sweep(space, JOB, device="zns-1t", out=out).measured == 0
