"""Zoned storage without the hardware.

Devices that are written in order (models of SMR disks and ZNS drives, images in files, drives of this
machine), fio jobs on them in real or in virtual time, and what the results say::

    import zonal

    result = zonal.run(zonal.Job("w", rw="write", bs="1m", zonemode="zbd", time_based=1, runtime=60),
                       device="smr-30t")
    print(result.bandwidth / 1e6, "MB/s")

The functions are those of the program ``zonal``, with the same options, results and texts of errors.
"""

from __future__ import annotations

import os

from zonal import _zonal, errors
from zonal._zonal import (
    Completion,
    Device,
    Queue,
    Server,
    Zone,
    create_image,
    device_help,
    profile_text,
    profiles,
)
from zonal.aio import AsyncQueue
from zonal.analysis import (
    AdjustedOption,
    Advice,
    Fit,
    Trial,
    Validation,
    advise,
    fit,
    validate,
)
from zonal.crash import CrashReport, crash
from zonal.errors import DeviceError, Error, InputError, JobFailed, ZonalWarning
from zonal.jobs import Job, JobOption, Jobs
from zonal.progress import Progress, ProgressLine, Report
from zonal.results import DeviceState, Direction, JobResult, Latency, Result, zones_to_pandas
from zonal.runs import run
from zonal.sweep import Range, Row, Sweep, repeat, sweep
from zonal.torture import Torture, torture

os.register_at_fork(after_in_child=_zonal.in_child)

__all__ = [
    "AdjustedOption",
    "Advice",
    "AsyncQueue",
    "Completion",
    "CrashReport",
    "Device",
    "DeviceError",
    "DeviceState",
    "Direction",
    "Error",
    "Fit",
    "InputError",
    "Job",
    "JobFailed",
    "JobOption",
    "JobResult",
    "Jobs",
    "Latency",
    "Progress",
    "ProgressLine",
    "Queue",
    "Range",
    "Report",
    "Result",
    "Row",
    "Server",
    "Sweep",
    "Torture",
    "Trial",
    "Validation",
    "ZonalWarning",
    "Zone",
    "__version__",
    "advise",
    "crash",
    "create_image",
    "device_help",
    "errors",
    "fit",
    "profile_text",
    "profiles",
    "repeat",
    "run",
    "sweep",
    "torture",
    "validate",
    "zones_to_pandas",
]

__version__: str = _zonal.version()
