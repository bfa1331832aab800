"""Jobs: what they do, what is said about bad ones, Ctrl-C, progress."""

import json
import signal
import threading
import time
import warnings
from pathlib import Path

import pytest

import zonal

TEXT = """
[global]
rw=write
bs=64k
zonemode=zbd
time_based
runtime=1
[a]
iodepth=4
[b]
offset=50%
iodepth=1
"""


def test_same_jobs_as_objects_text_and_file_do_the_same(tmp_path: Path) -> None:
    path = tmp_path / "jobs.fio"
    path.write_text(TEXT)
    glob = zonal.Job("global", rw="write", bs="64k", zonemode="zbd", time_based=True, runtime=1)
    objects = [glob, zonal.Job("a", iodepth=4), zonal.Job("b", offset="50%", iodepth=1)]
    results = [zonal.run(jobs, device="zns-1t", seed=3) for jobs in (TEXT, path, objects)]
    for result in results:
        assert [job.name for job in result.jobs] == ["a", "b"]
        assert result.jobs[0].write.iops == results[0].jobs[0].write.iops > 0


def test_result_has_the_figures_of_the_report(written: zonal.Result) -> None:
    report = json.loads(written.to_json())
    write = report["jobs"][0]["write"]
    (job,) = written.jobs
    assert job.write.iops == write["iops"]
    assert written.bandwidth == job.write.bandwidth == write["bw_bytes"]
    percentiles = write["clat_ns"]["percentile"]
    assert len(percentiles) > 10
    for percent, nanos in percentiles.items():
        assert job.write.clat.percentile(float(percent)) == nanos, percent
    assert "write: IOPS=" in str(written)
    assert written.errors == []
    (device,) = written.devices
    assert device.kind == "zns"
    assert sum(zone.writes for zone in device.zones) >= job.write.ios


def test_to_pandas_has_a_row_for_each_direction() -> None:
    job = zonal.Job("m", rw="randrw", bs="4k", size="64k", filename="null:zoned=false,size=1M")
    frame = zonal.run(job).to_pandas()
    assert set(frame["direction"]) == {"read", "write"}
    assert (frame["ios"] > 0).all()
    assert frame["ios"].sum() == 16


def test_latencies_of_several_jobs_are_added_up() -> None:
    job = zonal.Job("n", rw="randread", bs="4k", number_ios=100, filename="null:zoned=false")
    result = zonal.run([job, zonal.Job("o", **job.options)])
    both = result.latency()
    assert both.count == sum(n for n in both.histogram.values()) == 200
    assert result.latency("read").count == 200
    assert both.mean == pytest.approx(sum(j.read.clat.mean for j in result.jobs) / 2)


@pytest.mark.parametrize(
    ("jobs", "options", "text"),
    [
        ("[a]\nrw=wirte\n", {}, "<jobs>:2: rw: expected one of"),
        ("[a]\niodeph=1\n", {}, '<jobs>:2: unknown option "iodeph", did you mean "iodepth"?'),
        ("rw=read\n", {}, "before the first [section]"),
        ("[global]\nrw=read\n", {}, "<jobs>: no job is defined"),
        ([], {}, "no job is defined"),
        (zonal.Job("a", iodeph=1), {}, "unknown option --iodeph, did you mean --iodepth?"),
        (Path("nowhere.fio"), {}, "nowhere.fio: No such file"),
        (zonal.Job("a"), {"device": "zns-2"}, "device zns-2: "),
        (zonal.Job("a"), {}, "job a: no device"),
        (zonal.Job("a"), {"device": "disk.img"}, "expected a model"),
        (zonal.Job("a"), {"device": "null", "clock": "reel"}, "did you mean `real`?"),
        (zonal.Job("a"), {"device": "null", "io_cost": "x"}, "--io-cost: found `x`"),
        (zonal.Job("a"), {"device": "null", "clock": "real", "io_cost": 5}, "found --clock=real"),
        (zonal.Job("a"), {"device": "null", "faults": ["fial=write"]}, "--fault: "),
        (zonal.Job("a"), {"device": "null", "sched_opts": {"x": 1}}, "--sched-opt: "),
    ],
)
def test_bad_input_is_an_error_with_the_text_of_the_program(
    jobs: zonal.Jobs, options: dict[str, str], text: str
) -> None:
    with pytest.raises(zonal.InputError) as caught:
        zonal.run(jobs, **options)
    assert text in str(caught.value)


def test_jobs_of_another_type_are_refused() -> None:
    with pytest.raises(TypeError, match="expected Job"):
        zonal.run(["--name=a"], device="null")
    with pytest.raises(TypeError, match="iodepth: found list"):
        zonal.Job("a", iodepth=[1])


def test_job_that_fails_raises_with_its_result(null: str) -> None:
    job = zonal.Job("w", rw="write", bs="64k", zonemode="zbd", size="1m")
    with pytest.raises(zonal.JobFailed, match="job w: .*") as caught:
        zonal.run(job, device=null, faults=["fail=write,count=1"])
    assert caught.value.result.jobs[0].error != 0
    result = zonal.run(job, device=null, faults=["fail=write,count=1"], check=False)
    assert len(result.errors) == 1


def test_job_without_io_raises() -> None:
    job = zonal.Job("r", rw="read", bs="64k", zonemode="zbd", runtime=1, time_based=1)
    with pytest.raises(zonal.JobFailed, match="the zones of the device zns-1t are empty"):
        zonal.run(job, device="zns-1t")


def test_options_without_effect_are_warnings(null: str) -> None:
    job = zonal.Job("w", rw="write", bs="64k", zonemode="zbd", size="1m", iomem="malloc", thread=1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        zonal.run(job, device=null)
    assert all(issubclass(warning.category, zonal.ZonalWarning) for warning in caught)
    assert any("without effect here" in str(warning.message) for warning in caught)


def test_real_time_is_real() -> None:
    job = zonal.Job("w", rw="write", bs="64k", zonemode="zbd", time_based=1, runtime=1)
    begun = time.monotonic()
    result = zonal.run(job, device="zns-1t", clock="real")
    assert time.monotonic() - begun >= 1
    assert result.to_dict()["zonal"]["clock"] == "real"


LONG = zonal.Job("w", rw="write", bs="4k", zonemode="zbd", time_based=1, runtime=86400)


@pytest.mark.parametrize("clock", ["real", "virtual"])
def test_ctrl_c_ends_a_run(clock: zonal.analysis.Clock) -> None:
    begun = time.monotonic()
    timer = threading.Timer(0.5, lambda: signal.raise_signal(signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        zonal.run(LONG, device="zns-1t", clock=clock)
    assert time.monotonic() - begun < 30


def test_python_runs_meanwhile() -> None:
    counted = 0
    done = threading.Event()

    def count() -> None:
        nonlocal counted
        while not done.is_set():
            counted += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    job = zonal.Job("w", rw="write", bs="64k", zonemode="zbd", time_based=1, runtime=1)
    zonal.run(job, device="zns-1t", clock="real")
    done.set()
    thread.join()
    assert counted > 10


def test_progress_is_reported_and_may_end_the_run() -> None:
    seen: list[zonal.Progress] = []

    class Enough(Exception):
        pass

    def report(progress: zonal.Progress) -> None:
        seen.append(progress)
        if len(seen) == 3:
            raise Enough

    with pytest.raises(Enough):
        zonal.run(LONG, device="zns-1t", progress=report)
    assert all(0 <= (progress.fraction or 0) <= 1 for progress in seen)
    assert [p.done for p in seen] == sorted(p.done for p in seen)
    assert "IOPS" in seen[-1].message


def test_progress_line_is_shown_when_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    job = zonal.Job("w", rw="write", bs="64k", zonemode="zbd", time_based=1, runtime=1)
    zonal.run(job, device="zns-1t", clock="real", progress=True)
    shown = capsys.readouterr().err
    assert "run  " in shown and "MB/s" in shown and shown.endswith("\r")
    zonal.run(job, device="zns-1t")
    assert capsys.readouterr() == ("", "")
