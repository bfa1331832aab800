"""validate, fit, advise."""

import signal
import threading
from pathlib import Path

import pytest

import zonal

CELLS = """set,driver,lba,op,block,zones,depth,metric,value,unit
io,spdk,4096,append:write,4096,2,8,iops,143000,1/s
io,spdk,4096,append:write,4096,1,1,iops,50000,1/s
io,spdk,4096,randread:read,4096,1,4,lat_mean,80,us
"""


@pytest.fixture
def cells(tmp_path: Path) -> Path:
    """Measurements of a drive."""
    path = tmp_path / "cells.csv"
    path.write_text(CELLS)
    return path


def test_validation_has_measured_and_predicted_figures(cells: Path, tmp_path: Path) -> None:
    found = zonal.validate("zn540", cells, runtime=0.01)
    assert [cell["measured"] for cell in found.cells] == [143000, 50000, 80]
    for cell in found.cells:
        assert cell["error"] == pytest.approx((cell["predicted"] / cell["measured"] - 1) * 100)
    assert any(row["metric"] == "iops" for row in found.errors)
    assert len(found.to_pandas()) == 3
    assert "errors in percent of the measured figures" in str(found)
    found.save_html(tmp_path / "page.html")
    assert "<svg" in (tmp_path / "page.html").read_text()


def test_fit_returns_a_profile_that_is_a_device(cells: Path, tmp_path: Path) -> None:
    steps: list[zonal.Progress] = []
    fitted = zonal.fit("zn540", [cells], steps=2, starts=1, time=0.01, progress=steps.append)
    assert steps and steps[-1].fraction == pytest.approx(1)
    assert {"name", "before", "after", "reason"} <= set(fitted.to_pandas().columns)
    name = fitted.save(tmp_path / "drive.toml")
    assert zonal.Device(name).kind == "zns"
    assert "options adjusted" in str(fitted)


def test_ctrl_c_ends_a_validation_and_a_fit(cells: Path) -> None:
    for work in (
        lambda: zonal.validate("zn540", cells, runtime=80000),
        lambda: zonal.fit("zn540", cells, time=80000),
    ):
        threading.Timer(0.5, lambda: signal.raise_signal(signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            work()


def test_bad_measurements_are_errors_that_name_the_line(tmp_path: Path) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(CELLS.replace("iops,50000", "ipos,50000"))
    with pytest.raises(zonal.InputError, match=r"bad\.csv: .*line 3"):
        zonal.validate("zn540", path)
    with pytest.raises(zonal.InputError, match="no measurements"):
        zonal.validate("zn540", [])
    path.write_text(CELLS)
    for options, text in [
        ({"host_cost": "spkd"}, "--host-cost: found `spkd`"),
        ({"kernel": "six"}, "--kernel: found `six`"),
        ({"scheduler": "kybre"}, "--scheduler: no scheduler is called `kybre`"),
        ({"host_cost": "spdk", "io_cost": 5}, "expected one of the two"),
        ({"runtime": 0.0}, "--runtime: found 0"),
    ]:
        with pytest.raises(zonal.InputError, match=text):
            zonal.validate("zn540", path, **options)
    with pytest.raises(zonal.InputError, match="--steps: found 0, expected 1 to 10000"):
        zonal.fit("zn540", path, steps=0)


def test_advice_is_the_first_of_the_configurations() -> None:
    job = zonal.Job("w", rw="write", bs="64k", zonemode="zbd")
    advice = zonal.advise(
        job, "zns-1t", schedulers=["none"], zone_write=["plug", "qd1"], depths=[1, 8], time=0.1, seeds=2
    )
    assert len(advice.tried) == 5, "those and what Linux does"
    assert advice.best.verdict.startswith("advice")
    assert [job["direction"] for job in advice.tried[0]["jobs"]] == ["write"]
    assert advice.conclusion[0] == advice.answer
    assert str(advice).startswith(advice.answer)
    assert list(advice.to_pandas()["verdict"]) == [trial["verdict"] for trial in advice.tried]


def test_advice_says_which_jobs_did_no_io() -> None:
    writer = zonal.Job("w", rw="write", bs="64k", zonemode="zbd", size="1z")
    reader = zonal.Job("r", rw="read", bs="64k", zonemode="zbd", offset="9z", size="1z")
    with pytest.warns(zonal.ZonalWarning, match="job r: no I/O was done: the zones of its region"):
        advice = zonal.advise(
            [writer, reader], "zns-1t", schedulers=["none"], depths=[1], time=0.01, seeds=1
        )
    assert advice.report["without_io"][0].startswith("job r: no I/O was done")


def test_bad_advice_options_are_errors() -> None:
    job = zonal.Job("w", rw="write", bs="64k", zonemode="zbd")
    for options, text in [
        ({"schedulers": ["kybre"]}, "--schedulers: no scheduler is called `kybre`"),
        ({"goal": "latencie"}, "did you mean `latency`"),
        ({"depths": [0]}, "--depths: found 0, expected 1 to 65535"),
        ({"time": 0.0}, "--time: found 0"),
        ({"seeds": 0}, "--seeds: found 0"),
    ]:
        with pytest.raises(zonal.InputError, match=text):
            zonal.advise(job, "zns-1t", **options)
