"""What is tried first: examples of docstrings, the module as a program, results in a notebook."""

import doctest
import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any

import matplotlib
import pytest

import zonal
from zonal import plot

JOB = zonal.Job("w", rw="write", bs="64k", zonemode="zbd", io_size="1m")


#: What needs an example: functions, and the classes that people make themselves.
PUBLIC = [
    thing
    for thing in [*map(zonal.__dict__.get, zonal.__all__), *map(plot.__dict__.get, plot.__all__)]
    if inspect.isroutine(thing)
] + [zonal.AsyncQueue, zonal.Device, zonal.Job, zonal.Latency, zonal.Queue, zonal.Server]


@pytest.mark.parametrize("thing", PUBLIC, ids=lambda thing: thing.__name__)
def test_each_has_an_example_that_is_right(thing: Any) -> None:
    matplotlib.use("Agg")
    module = sys.modules.get(thing.__module__)
    names = {} if module is None else dict(vars(module))
    finder, runner = doctest.DocTestFinder(), doctest.DocTestRunner()
    attempted = 0
    for test in finder.find(thing, thing.__name__, module=False, globs=names | {"zonal": zonal}):
        found = runner.run(test)
        assert found.failed == 0, test.name
        attempted += found.attempted
    assert attempted > 0, f"{thing.__name__} has no example"


def test_device_comes_second() -> None:
    assert zonal.run(JOB, "zns-1t").jobs[0].write.ios == 16


def test_text_that_names_a_file_is_said_to() -> None:
    for name in ("jobs.fio", __file__):
        with pytest.raises(zonal.InputError, match="the name of a file, expected .*pathlib.Path"):
            zonal.run(name, "zns-1t")


def test_results_are_tables_in_a_notebook(written: zonal.Result) -> None:
    html = written._repr_html_()
    assert html.count("<tr>") == 2 and "<td>w</td><td>write</td>" in html
    found = zonal.sweep({"iodepth": [1, 0]}, JOB, device="zns-1t")
    assert found._repr_html_().count("<tr>") == 3
    assert found.best.point == {"iodepth": 1} and found.best.bandwidth > 0 < found.best.iops
    advice = zonal.advise(JOB, "zns-1t", schedulers=["none"], depths=[1], time=0.1, seeds=1)
    assert "<th>scheduler</th>" in advice._repr_html_()
    assert (advice.best.iodepth, advice.best.verdict) == (1, "advice, today")


def test_module_is_a_program(tmp_path: Path) -> None:
    jobs = tmp_path / "jobs.fio"
    jobs.write_text("[w]\nrw=write\nbs=64k\nzonemode=zbd\nio_size=1m\n")

    def run(*arguments: str) -> tuple[int, str, str]:
        command = [sys.executable, "-m", "zonal", *arguments]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        return ran.returncode, ran.stdout, ran.stderr

    code, out, _ = run(str(jobs), "--device", "zns-1t")
    assert code == 0 and "w: (groupid=0, jobs=1)" in out
    code, _, err = run(str(jobs), "--device", "zns-1")
    assert code == 2 and err.startswith("zonal: device zns-1: unknown device")
    jobs.write_text("[w]\nrw=read\nbs=64k\nzonemode=zbd\n")
    code, _, err = run(str(jobs), "--device", "zns-1t")
    assert code == 1 and "no I/O" in err
