"""What jobs did: the figures of fio's report."""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas

    from zonal._zonal import Zone

__all__ = ["DeviceState", "Direction", "JobResult", "Latency", "Result"]

DIRECTIONS = ("read", "write", "trim")


def frame(rows: list[dict[str, Any]]) -> pandas.DataFrame:
    """A table of pandas."""
    try:
        import pandas
    except ImportError as error:
        raise ImportError("to_pandas needs pandas: pip install 'zonal[pandas]'") from error
    return pandas.DataFrame(rows)


class Latency:
    """Latencies in nanoseconds, with the buckets of fio's histogram."""

    def __init__(self, report: dict[str, Any]) -> None:
        #: Number of I/Os.
        self.count: int = report["N"]
        self.min: int = report["min"]
        self.max: int = report["max"]
        self.mean: float = report["mean"]
        self.stddev: float = report["stddev"]
        #: The nanoseconds that represent each bucket, ascending, and how many I/Os it has. Empty where
        #: fio keeps no histogram.
        self.histogram: dict[int, int] = {int(at): n for at, n in report.get("bins", {}).items()}

    @cached_property
    def nanos(self) -> memoryview:
        """The buckets of ``histogram`` as unsigned 64-bit numbers: ``numpy.asarray`` makes a view of it.

        >>> import zonal
        >>> job = zonal.Job("w", rw="write", bs="1m", zonemode="zbd", io_size="64m")
        >>> latency = zonal.run(job, "smr-30t").latency()
        >>> sum(latency.counts), len(latency.nanos) == len(latency.counts), latency.counts.format
        (64, True, 'Q')
        """
        return memoryview(array("Q", self.histogram.keys())).toreadonly()

    @cached_property
    def counts(self) -> memoryview:
        """How many I/Os each bucket has, likewise."""
        return memoryview(array("Q", self.histogram.values())).toreadonly()

    def percentile(self, percent: float) -> int:
        """The latency in nanoseconds that so many percent of the I/Os do not exceed.

        As in fio's report: the first bucket at which that share is reached. 0 without I/Os.
        """
        if not 0 <= percent <= 100:
            raise ValueError(f"percentile: found {percent}, expected 0 to 100")
        # As a whole number it compares exactly.
        share = int(percent * 2**52) * sum(self.histogram.values())
        reached, value = 0, 0
        for nanos, count in self.histogram.items():
            if (reached * 100) << 52 >= share:
                break
            reached, value = reached + count, nanos
        return value

    def _repr_html_(self) -> str:
        row: dict[str, Any] = {"I/Os": f"{self.count:,}", "mean, ms": f"{self.mean / 1e6:.3f}"}
        for percent in (50, 90, 99, 99.9):
            row[f"{percent:g}%, ms"] = f"{self.percentile(percent) / 1e6:.3f}"
        return html_table([row | {"max, ms": f"{self.max / 1e6:.3f}"}])

    def __repr__(self) -> str:
        return f"Latency(count={self.count}, mean={self.mean:.0f} ns, p99={self.percentile(99)} ns)"


class Direction:
    """What a job read, wrote or trimmed."""

    def __init__(self, name: str, report: dict[str, Any]) -> None:
        #: read, write or trim.
        self.name = name
        #: I/Os that completed.
        self.ios: int = report["total_ios"]
        self.bytes: int = report["io_bytes"]
        #: I/Os a second.
        self.iops: float = report["iops"]
        #: Bytes a second.
        self.bandwidth: int = report["bw_bytes"]
        #: Seconds of the run's clock.
        self.seconds: float = report["runtime"] / 1000
        #: From the submission to the completion.
        self.clat = Latency(report["clat_ns"])
        #: Of the submission alone.
        self.slat = Latency(report["slat_ns"])
        #: Of both.
        self.lat = Latency(report["lat_ns"])

    def __repr__(self) -> str:
        rate = f"{self.iops:.0f} IOPS, {self.bandwidth / 1e6:.1f} MB/s"
        return f"Direction({self.name}: {self.ios} I/Os, {rate})"


class JobResult:
    """What a job did: one of its clones, or all of a group with ``group_reporting``."""

    def __init__(self, report: dict[str, Any]) -> None:
        self.name: str = report["jobname"]
        self.group: int = report["groupid"]
        #: The error number that ended it, or 0.
        self.error: int = report["error"]
        self.read = Direction("read", report["read"])
        self.write = Direction("write", report["write"])
        self.trim = Direction("trim", report["trim"])
        self.options: dict[str, str] = report.get("job options", {})

    @property
    def directions(self) -> list[Direction]:
        """Those in which it did something."""
        return [each for each in (self.read, self.write, self.trim) if each.ios]

    def _repr_html_(self) -> str:
        return html_table([_row(self, each) for each in self.directions])

    def __repr__(self) -> str:
        return f"JobResult({self.name!r}, {', '.join(map(repr, self.directions))})"


@dataclass(frozen=True)
class DeviceState:
    """A device when the jobs were done."""

    name: str
    description: str
    #: Such as zns, hdd or image.
    kind: str
    #: How writes to its sequential zones were kept in order.
    zone_write: str
    zones: list[Zone]

    def _repr_html_(self) -> str:
        conditions: dict[str, int] = {}
        for zone in self.zones:
            conditions[zone.condition] = conditions.get(zone.condition, 0) + 1
        rows = [{"condition": name, "zones": f"{count:,}"} for name, count in conditions.items()]
        return f"<p><b>{escape(self.name)}</b>: {escape(self.description)}</p>{html_table(rows)}"

    def __repr__(self) -> str:
        return f"DeviceState({self.name!r}, {len(self.zones)} zones)"


class Result:
    """What a run came to. ``print`` shows fio's report."""

    def __init__(
        self, report: str, text: str, devices: list[DeviceState], errors: list[str]
    ) -> None:
        self._report = report
        self._text = text
        #: The devices, as the run left them.
        self.devices = devices
        #: What failed; empty unless ``run`` was called with ``check=False``.
        self.errors = errors
        #: What each job did.
        self.jobs = [JobResult(job) for job in self.to_dict()["jobs"]]

    @cached_property
    def _parsed(self) -> dict[str, Any]:
        parsed: dict[str, Any] = json.loads(self._report)
        return parsed

    def to_dict(self) -> dict[str, Any]:
        """fio's report with histograms (json+), and Zonal's own figures under ``zonal``."""
        return self._parsed

    def to_json(self) -> str:
        """The same as text: what ``zonal run --output-format=json+`` prints."""
        return self._report

    @property
    def iops(self) -> float:
        """I/Os a second, of all jobs in all directions; the mean over the time of groups that ran one
        after another."""
        return self._rate(lambda each: each.iops)

    @property
    def bandwidth(self) -> float:
        """Bytes a second, likewise."""
        return self._rate(lambda each: each.bandwidth)

    def _rate(self, of: Callable[[Direction], float]) -> float:
        groups: dict[int, list[Direction]] = {}
        for job in self.jobs:
            groups.setdefault(job.group, []).extend(job.directions)
        rates = [sum(map(of, group)) for group in groups.values() if group]
        times = [max(each.seconds for each in group) for group in groups.values() if group]
        if len(rates) <= 1:
            return sum(rates)
        return sum(rate * time for rate, time in zip(rates, times, strict=True)) / sum(times)

    def latency(self, direction: str | None = None) -> Latency:
        """The completion latencies of all jobs together, in one direction or in all."""
        if direction not in (None, *DIRECTIONS):
            raise ValueError(f"direction: found {direction!r}, expected read, write or trim")
        every = [each for job in self.jobs for each in job.directions]
        return _merged([each.clat for each in every if direction in (None, each.name)])

    def to_pandas(self) -> pandas.DataFrame:
        """A row for each job and direction. Latencies are in microseconds."""
        rows = []
        for job in self.jobs:
            for each in job.directions:
                row = {"job": job.name, "group": job.group, "direction": each.name}
                row |= {"ios": each.ios, "bytes": each.bytes, "seconds": each.seconds}
                row |= {"iops": each.iops, "bandwidth": each.bandwidth}
                row["lat_mean_us"] = each.lat.mean / 1e3
                for percent in (50, 95, 99, 99.9):
                    row[f"clat_p{percent}_us"] = each.clat.percentile(percent) / 1e3
                rows.append(row)
        return frame(rows)

    def __str__(self) -> str:
        return self._text

    def _repr_html_(self) -> str:
        return html_table([_row(job, each) for job in self.jobs for each in job.directions])

    def __repr__(self) -> str:
        return f"Result({', '.join(map(repr, self.jobs))})"


def _row(job: JobResult, direction: Direction) -> dict[str, str]:
    """A line of the table of a result."""
    return {
        "job": job.name,
        "direction": direction.name,
        "I/Os": f"{direction.ios:,}",
        "IOPS": f"{direction.iops:,.0f}",
        "MB/s": f"{direction.bandwidth / 1e6:,.1f}",
        "median, ms": f"{direction.clat.percentile(50) / 1e6:.3f}",
        "99%, ms": f"{direction.clat.percentile(99) / 1e6:.3f}",
    }


def html_table(rows: list[dict[str, Any]]) -> str:
    """Rows of the same columns, for a notebook."""

    def line(cell: str, values: Iterable[Any]) -> str:
        return "".join(f"<{cell}>{escape(str(value))}</{cell}>" for value in values)

    if not rows:
        return "<p>nothing was done</p>"
    body = "".join(f"<tr>{line('td', row.values())}</tr>" for row in rows)
    return f"<table><thead><tr>{line('th', rows[0])}</tr></thead><tbody>{body}</tbody></table>"


def _merged(parts: list[Latency]) -> Latency:
    """Latencies of several together."""
    if len(parts) == 1:
        return parts[0]
    bins: dict[int, int] = {}
    for part in parts:
        for at, count in part.histogram.items():
            bins[at] = bins.get(at, 0) + count
    count = sum(part.count for part in parts)
    mean = sum(part.mean * part.count for part in parts) / max(count, 1)
    squares = sum((part.stddev**2 + part.mean**2) * part.count for part in parts)
    report = {
        "N": count,
        "min": min((part.min for part in parts if part.count), default=0),
        "max": max((part.max for part in parts), default=0),
        "mean": mean,
        "stddev": max(squares / max(count, 1) - mean**2, 0.0) ** 0.5,
        "bins": dict(sorted(bins.items())),
    }
    return Latency(report)


def zones_to_pandas(zones: list[Zone]) -> pandas.DataFrame:
    """A row for each zone: of a device, or of a run's :class:`DeviceState`.

    >>> import zonal
    >>> with zonal.Device("zns-1t") as device:
    ...     len(zones_to_pandas(device.zones(count=4)))
    4
    """
    names = "number start size capacity write_pointer written kind condition".split()
    names += ["writes", "appends", "merges", "parked_ns"]
    return frame([{name: getattr(zone, name) for name in names} for zone in zones])
