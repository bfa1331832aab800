"""Models beside measurements, and advice: ``validate``, ``fit`` and ``advise``."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, Literal

from zonal import _zonal
from zonal.errors import ZonalWarning
from zonal.jobs import Jobs, raw
from zonal.progress import Report, reporting
from zonal.results import frame, html_table

if TYPE_CHECKING:
    import pandas

__all__ = [
    "AdjustedOption",
    "Advice",
    "Fit",
    "Trial",
    "Validation",
    "advise",
    "fit",
    "validate",
]

Path = str | os.PathLike[str]
Clock = Literal["virtual", "real"]
ZoneWrite = Literal["plug", "qd1", "lock", "off"]


def notify(notices: list[str], depth: int) -> None:
    """Notices of the compiled half as warnings of the caller so many calls up."""
    for notice in notices:
        warnings.warn(notice, ZonalWarning, stacklevel=depth + 1)


def cost(io_cost: int | str | None) -> str | None:
    """The cost of an I/O for the compiled half."""
    return None if io_cost is None else str(io_cost)


def _page(html: str, path: Path) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(html)


def _measured(
    results: Path | Sequence[Path],
    host_cost: str | None,
    io_cost: int | str | None,
    zone_write: ZoneWrite | None,
    scheduler: str | None,
    kernel: str | None,
    seed: int,
) -> dict[str, Any]:
    several = [results] if isinstance(results, (str, os.PathLike)) else list(results)
    return {
        "results": [os.fspath(path) for path in several],
        "host_cost": host_cost,
        "io_cost": cost(io_cost),
        "zone_write": zone_write,
        "scheduler": scheduler,
        "kernel": kernel,
        "seed": seed,
    }


class Validation:
    """A model's figures beside the measured ones. ``print`` shows the errors."""

    def __init__(self, report: str, text: str, html: str) -> None:
        #: Everything, as ``zonal validate --format json`` has it.
        self.report: dict[str, Any] = json.loads(report)
        #: A dict for each measured figure: what was measured, predicted, and the error in percent.
        self.cells: list[dict[str, Any]] = self.report["cells"]
        #: What was assumed where the measurements do not say it.
        self.assumptions: list[str] = self.report["assumptions"]
        self._text = text
        self._html = html

    @property
    def errors(self) -> list[dict[str, Any]]:
        """Errors in percent by kind of work and metric: ``cells``, ``median``, ``p90``, ``largest``."""
        return [
            {"part": part["cells"], "kind": row["kind"], "metric": row["metric"], **row["errors"]}
            for part in self.report["parts"]
            for row in part["errors"]
        ]

    def to_pandas(self) -> pandas.DataFrame:
        """A row for each measured figure."""
        return frame(self.cells)

    def save_html(self, path: Path) -> None:
        """Writes the page with scatter plots."""
        _page(self._html, path)

    def __str__(self) -> str:
        return self._text

    def _repr_html_(self) -> str:
        return html_table(self.errors)

    def __repr__(self) -> str:
        return f"Validation({self.report['device']!r}, {len(self.cells)} figures)"


def validate(
    device: str,
    results: Path | Sequence[Path],
    *,
    runtime: float | None = None,
    hold_out: int | None = None,
    resume: Path | None = None,
    host_cost: str | None = None,
    io_cost: int | str | None = None,
    zone_write: ZoneWrite | None = None,
    scheduler: str | None = None,
    kernel: str | None = None,
    seed: int = 0,
    progress: Report = None,
) -> Validation:
    """Predicts measurements of a drive by a model, as ``zonal validate`` does.

    ``results`` are fio's JSON reports or CSV files. ``runtime`` is the virtual time for each load in
    seconds; ``hold_out`` reports one load in so many apart; ``resume`` is a file that keeps
    predictions. The others say what the measurements do not: see docs/models.md.

    >>> import tempfile
    >>> measured = os.path.join(tempfile.mkdtemp(), "drive.csv")
    >>> with open(measured, "w") as file:
    ...     lines = ["set,driver,lba,op,block,zones,depth,metric,value,unit"]
    ...     lines += ["io,spdk,4096,append:write,4096,2,8,iops,143000,1/s"]
    ...     _ = file.write("\\n".join(lines))
    >>> [cell["measured"] for cell in validate("zn540", measured, runtime=0.01).cells]
    [143000.0]
    """
    measured = _measured(results, host_cost, io_cost, zone_write, scheduler, kernel, seed)
    kept = None if resume is None else os.fspath(resume)
    with reporting(progress, "validate") as report:
        found = _zonal.validate(device, measured, runtime, hold_out, kept, report)
    return Validation(*found)


@dataclass(frozen=True)
class AdjustedOption:
    """What became of an option of a profile."""

    name: str
    #: As profiles write it.
    before: str
    after: str
    #: By how many percent a figure changes if the option changes by one percent.
    effect: float
    #: The standard error of the fitted value in percent; None if it was not determined.
    uncertainty: float | None
    #: Why it was not adjusted; None if it was.
    reason: str | None


class Fit:
    """A profile that was fitted. ``print`` shows how well it predicts the measurements."""

    def __init__(self, profile: str, text: str, options: list[AdjustedOption]) -> None:
        #: The profile, as TOML.
        self.profile = profile
        self.options = options
        self._text = text

    def save(self, path: Path) -> str:
        """Writes the profile to a file, NAME.toml, whose name is then that of a device."""
        _page(self.profile, path)
        return os.fspath(path)

    def to_pandas(self) -> pandas.DataFrame:
        """A row for each option."""
        return frame([vars(option) for option in self.options])

    def __str__(self) -> str:
        return self._text

    def _repr_html_(self) -> str:
        return html_table([vars(option) for option in self.options])

    def __repr__(self) -> str:
        adjusted = [option.name for option in self.options if option.reason is None]
        return f"Fit(adjusted={adjusted})"


def fit(
    profile: str,
    results: Path | Sequence[Path],
    *,
    free: Sequence[str] = (),
    steps: int = 60,
    starts: int = 2,
    hold_out: int | None = None,
    folds: int | None = None,
    loads: int = 60,
    time: float | None = None,
    host_cost: str | None = None,
    io_cost: int | str | None = None,
    zone_write: ZoneWrite | None = None,
    scheduler: str | None = None,
    kernel: str | None = None,
    seed: int = 0,
    progress: Report = None,
) -> Fit:
    """Fits the profile of a drive to measurements, as ``zonal fit`` does.

    ``profile`` is the name of a built-in one or a TOML file, ``free`` the options to adjust (those
    that the profile names as calibrated), ``time`` the virtual seconds for each load.

    >>> import tempfile
    >>> measured = os.path.join(tempfile.mkdtemp(), "drive.csv")
    >>> with open(measured, "w") as file:
    ...     lines = ["set,driver,lba,op,block,zones,depth,metric,value,unit"]
    ...     lines += ["io,spdk,4096,append:write,4096,2,8,iops,143000,1/s"]
    ...     _ = file.write("\\n".join(lines))
    >>> fitted = fit("zn540", measured, steps=2, starts=1, time=0.01)
    >>> "zone_size" in fitted.profile
    True
    """
    measured = _measured(results, host_cost, io_cost, zone_write, scheduler, kernel, seed)
    arguments = {
        "free": list(free),
        "steps": steps,
        "starts": starts,
        "hold_out": hold_out,
        "folds": folds,
        "loads": loads,
        "seconds": time,
    }
    with reporting(progress, "fit") as report:
        fitted, text, options = _zonal.fit(profile, measured, arguments, report)
    return Fit(fitted, text, [AdjustedOption(*option) for option in options])


@dataclass(frozen=True)
class Trial:
    """A configuration that was measured."""

    #: What the measurements say of it: ``advice``, ``today``, or how it differs.
    verdict: str
    scheduler: str
    #: None on a device without zones.
    zone_write: ZoneWrite | None
    #: None for that of the jobs; of one job, its name with its depth.
    iodepth: int | dict[str, int] | None
    #: Bytes a second.
    bandwidth: float
    iops: float
    #: Completion latencies in nanoseconds.
    p50: int
    p99: int
    #: Whether the figures do not depend on how long it was measured.
    steady: bool


class Advice:
    """Configurations that were measured, the advice first. ``print`` shows the table and the reasons."""

    def __init__(self, report: str, text: str, html: str) -> None:
        #: Everything, as ``zonal advise --format json`` has it.
        self.report: dict[str, Any] = json.loads(report)
        #: A dict for each configuration: ``verdict``, ``scheduler``, ``zone_write``,
        #: ``iodepth``, figures, and ``jobs``, those of each job and direction.
        self.tried: list[dict[str, Any]] = self.report["tried"]
        #: The recommendation in one sentence.
        self.answer: str | None = self.report["answer"]
        #: The lines that apply it: sysfs, udev, the program.
        self.apply: list[str] = self.report["apply"]
        #: The recommendation and its reasons, in sentences.
        self.conclusion: list[str] = self.report["conclusion"]
        self._text = text
        self._html = html

    @property
    def best(self) -> Trial:
        """The advice: what Linux does, or what is surely better."""
        best = self.tried[0]
        names = ("verdict", "scheduler", "zone_write", "iodepth", "iops", "steady")
        return Trial(
            bandwidth=best["bytes_per_second"],
            p50=best["latency_ns"]["p50"],
            p99=best["latency_ns"]["p99"],
            **{name: best[name] for name in names},
        )

    def _repr_html_(self) -> str:
        rows = [
            {
                "scheduler": trial["scheduler"],
                "zone_write": trial["zone_write"] or "",
                "depth": trial["iodepth"] or "",
                "MB/s": f"{trial['bytes_per_second'] / 1e6:,.1f}",
                "99%, ms": f"{trial['latency_ns']['p99'] / 1e6:.2f}",
                "verdict": trial["verdict"],
            }
            for trial in self.tried
        ]
        return f"<p>{escape(self.answer or '')}</p>{html_table(rows)}"

    def to_pandas(self) -> pandas.DataFrame:
        """A row for each configuration. Latencies are in microseconds."""
        rows = []
        for trial in self.tried:
            row = {name: trial[name] for name in ("verdict", "scheduler", "zone_write", "iodepth")}
            row |= {"bandwidth": trial["bytes_per_second"], "iops": trial["iops"]}
            row |= {f"clat_{name}_us": ns / 1e3 for name, ns in trial["latency_ns"].items()}
            rows.append(row)
        return frame(rows)

    def save_html(self, path: Path) -> None:
        """Writes the page with plots."""
        _page(self._html, path)

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"Advice({self.report['device']!r}, {len(self.tried)} configurations)"


def advise(
    jobs: Jobs,
    device: str,
    *,
    schedulers: Sequence[str] = (),
    zone_write: Sequence[ZoneWrite] = (),
    depths: Sequence[int | str] = (),
    time: float | None = None,
    goal: str | Sequence[str] = (),
    seeds: int = 60,
    seed: int = 0,
    io_cost: int | str = 1000,
    kernel: str = "6.12",
    progress: Report = None,
) -> Advice:
    """Which scheduler, zone-write policy and queue depth suit jobs on a model, as ``zonal advise``.

    >>> from zonal import Job
    >>> job = Job("w", rw="write", bs="1m", zonemode="zbd", iodepth=8)
    >>> advise(job, "smr-30t", depths=[8], time=2, seeds=1).best.zone_write
    'qd1'

    A configuration runs for ``time`` virtual seconds (120, or 2 on flash) with as many seeds as it takes, ``seeds`` at most. ``goal``
    is as in ``--goal``, such as ``"readers:p99<50ms"``; ``depths`` may have ``"own"`` and ``"readers=4"``. ``kernel`` is the
    version of Linux whose defaults the advice is compared with. Without ``schedulers`` all are tried.
    """
    arguments = {
        "device": device,
        "schedulers": list(schedulers),
        "zone_write": list(zone_write),
        "depths": [str(depth) for depth in depths],
        "seconds": time,
        "goals": [goal] if isinstance(goal, str) else list(goal),
        "seeds": seeds,
        "seed": seed,
        "io_cost": str(io_cost),
        "kernel": kernel,
    }
    with reporting(progress, "advise") as report:
        found, text, html, notices = _zonal.advise(raw(jobs), arguments, report)
    notify(notices, 2)
    return Advice(found, text, html)
