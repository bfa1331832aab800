"""What is tried first: examples of docstrings, the module as a program, results in a notebook."""

import doctest
import subprocess
import sys
from pathlib import Path

import pytest

import zonal
import zonal.analysis
import zonal.jobs
import zonal.runs

JOB = zonal.Job("w", rw="write", bs="64k", zonemode="zbd", io_size="1m")


@pytest.mark.parametrize("module", [zonal.analysis, zonal.jobs, zonal.runs])
def test_examples_in_docstrings_are_right(module: object) -> None:
    found = doctest.testmod(module)  # type: ignore[arg-type]
    assert found.attempted > 0 and found.failed == 0


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
    assert (advice.best.scheduler, advice.best.iodepth, advice.best.rank) == ("none", 1, 1)


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
