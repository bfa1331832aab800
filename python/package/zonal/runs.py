"""Running jobs: ``run``."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from zonal import _zonal
from zonal.analysis import Clock, ZoneWrite, cost, notify
from zonal.errors import JobFailed
from zonal.jobs import Job, Jobs, raw
from zonal.progress import Raw, Report, reporting
from zonal.results import DeviceState, Result

__all__ = ["Job", "run"]

DEFAULTS: dict[str, Any] = {
    "device": None,
    "clock": "virtual",
    "seed": 0,
    "scheduler": None,
    "sched_opts": [],
    "zone_write": None,
    "merge": True,
    "faults": [],
    "allow_unsupported": False,
    "record": None,
    "trace": None,
}

#: What a run writes besides its result, which does not depend on it.
OUTPUTS: dict[str, Any] = {
    "explain": False,
    "explain_html": None,
    "head_trace": None,
    "record_view": None,
}


def run(
    jobs: Jobs,
    device: str | None = None,
    *,
    clock: Clock = "virtual",
    seed: int = 0,
    scheduler: str | None = None,
    sched_opts: Mapping[str, str | int] | None = None,
    zone_write: ZoneWrite | None = None,
    merge: bool = True,
    io_cost: int | str | None = None,
    faults: Sequence[str] = (),
    allow_unsupported: bool = False,
    record: str | os.PathLike[str] | None = None,
    trace: str | os.PathLike[str] | None = None,
    explain: bool = False,
    explain_html: str | os.PathLike[str] | None = None,
    head_trace: str | os.PathLike[str] | None = None,
    record_view: str | os.PathLike[str] | None = None,
    check: bool = True,
    progress: Report = None,
) -> Result:
    """Runs jobs, as ``zonal run`` does, and returns what they did.

    ``jobs`` are :class:`Job` objects, the text of a job file, or its path as a ``pathlib.Path``.
    ``device`` is a spec or a profile, in real time also an image or a drive of this machine; without
    it, each job's ``filename`` names its own. The clock is virtual unless it is set, for which the same seed
    gives the same result; ``clock="real"`` takes the time that the jobs take.

    ``scheduler``, ``sched_opts``, ``zone_write`` and ``merge`` configure the block layer, ``io_cost``
    is the virtual time in nanoseconds that an I/O costs its thread, ``faults`` are rules such as
    ``"fail=write,zone=3"``. With ``explain``, ``print`` of the result shows where the time of its I/Os went, and
    ``to_dict()["zonal"]["explain"]`` has it. Files to write are ``record`` for :func:`zonal.crash`, ``trace`` for
    Perfetto, ``explain_html``, a page, ``head_trace``, what the heads of disks do as CSV, and ``record_view`` for
    ``zonal view``.

    >>> job = Job("w", rw="write", bs="1m", zonemode="zbd", io_size="64m")
    >>> run(job, "smr-30t").jobs[0].write.ios
    64
    >>> "Where the time of the I/Os went" in str(run(job, "smr-30t", explain=True))
    True

    Ctrl-C ends the run. Raises :class:`JobFailed` if a job failed or did no I/O, unless ``check`` is
    False, and :class:`InputError` if anything is wrong with the jobs, the device or an option.
    """
    options = run_options(
        device=device,
        clock=clock,
        seed=seed,
        scheduler=scheduler,
        sched_opts=[f"{name}={value}" for name, value in (sched_opts or {}).items()],
        zone_write=zone_write,
        merge=merge,
        io_cost=io_cost,
        faults=list(faults),
        allow_unsupported=allow_unsupported,
        record=_path(record),
        trace=_path(trace),
        explain=explain,
        explain_html=_path(explain_html),
        head_trace=_path(head_trace),
        record_view=_path(record_view),
    )
    with reporting(progress, "run") as report:
        result = execute(raw(jobs), options, report)
    if check and result.errors:
        raise JobFailed(result)
    return result


def _path(file: str | os.PathLike[str] | None) -> str | None:
    return None if file is None else os.fspath(file)


def run_options(*, io_cost: int | str | None = None, **given: Any) -> dict[str, Any]:
    """Options for the compiled half, with the defaults of those that are not given."""
    return DEFAULTS | given | {"io_cost": cost(io_cost)}


def execute(jobs: dict[str, Any], options: dict[str, Any], report: Raw | None) -> Result:
    """Runs jobs and options of the compiled half."""
    finished = _zonal.run(jobs, OUTPUTS | options, report)
    notify(finished["notices"], 3)
    devices = [DeviceState(*state) for state in finished["devices"]]
    return Result(finished["json"], finished["text"], devices, finished["errors"])
