"""The usual plots of this field, with matplotlib (``pip install 'zonal[plot]'``).

Each function draws on ``ax``, or on axes of its own, and returns them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from zonal.analysis import Advice
from zonal.results import Latency, Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from zonal._zonal import Zone

__all__ = ["latency_cdf", "throughput_by_depth", "zone_heat_map"]

#: By zone: what the colour of a heat map shows, and how it is called.
HEAT = {
    "written": "share of the zone that is written",
    "writes": "writes",
    "appends": "appends",
    "merges": "writes merged into others",
    "parked_ms": "ms that writes waited for others of the zone",
}


def _axes(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError("plots need matplotlib: pip install 'zonal[plot]'") from error
    axes: Axes = pyplot.subplots(layout="constrained")[1]
    return axes


def throughput_by_depth(
    curves: Advice | Mapping[str, Mapping[int, Result]], *, ax: Axes | None = None
) -> Axes:
    """Throughput over the queue depth, which doubles.

    ``curves`` is advice, with a curve for each scheduler and policy, or by label the results by depth:
    ``{"plug": {1: result, 2: result}}``.

    >>> import zonal
    >>> job = zonal.Job("w", rw="write", bs="64k", zonemode="zbd", io_size="1m")
    >>> results = {depth: zonal.run(job.replace(iodepth=depth), "zns-1t") for depth in (1, 4)}
    >>> throughput_by_depth({"plug": results}).get_xlabel()
    'queue depth'
    """
    points: dict[str, dict[int, float]] = {}
    if isinstance(curves, Advice):
        for trial in curves.tried:
            names = [trial["scheduler"], trial["zone_write"]]
            label = ", ".join(name for name in names if name is not None)
            if trial["iodepth"] is not None:
                points.setdefault(label, {})[trial["iodepth"]] = trial["bytes_per_second"]
    else:
        for label, results in curves.items():
            points[label] = {depth: result.bandwidth for depth, result in results.items()}
    depths = sorted({depth for curve in points.values() for depth in curve})
    if not depths:
        raise ValueError("found no queue depth, expected results by depth")
    axes = _axes(ax)
    for label, curve in points.items():
        at = sorted(curve)
        axes.plot(at, [curve[depth] / 1e6 for depth in at], marker="o", label=label)
    axes.set_xscale("log", base=2)
    axes.set_xticks(depths, [str(depth) for depth in depths])
    axes.set_xticks([], minor=True)
    axes.set_ylim(bottom=0)
    axes.set(xlabel="queue depth", ylabel="MB/s")
    axes.grid(alpha=0.3)
    axes.legend()
    return axes


def latency_cdf(
    results: Result | Latency | Mapping[str, Result | Latency],
    *,
    direction: str | None = None,
    tail: bool = False,
    ax: Axes | None = None,
) -> Axes:
    """The share of I/Os that completed within a time.

    With ``tail`` the axis of shares is stretched towards the end: 90 %, 99 %, 99.9 % and so on are
    equally far apart.

    >>> import zonal
    >>> job = zonal.Job("w", rw="write", bs="64k", zonemode="zbd", io_size="1m")
    >>> latency_cdf(zonal.run(job, "zns-1t"), tail=True).get_ylabel()
    'share of the I/Os'
    """
    curves = results if isinstance(results, Mapping) else {"": results}
    axes = _axes(ax)
    most = 0
    for label, found in curves.items():
        latency = found.latency(direction) if isinstance(found, Result) else found
        total = sum(latency.histogram.values())
        if total == 0:
            raise ValueError(f"{label or 'result'}: found no I/O, expected some to draw")
        most = max(most, total)
        times, shares, reached = [], [], 0
        for nanos, count in latency.histogram.items():
            reached += count
            times.append(nanos / 1e3)
            # The last I/O is as far out as the share of one allows.
            shares.append(reached / total if not tail else max(1 - reached / total, 0.5 / total))
        axes.step(times, shares, where="post", label=label or None)
    axes.set_xscale("log")
    axes.set(xlabel="completion latency, µs", ylabel="share of the I/Os")
    if tail:
        axes.set_yscale("log")
        axes.invert_yaxis()
        nines = range(max(1, math.ceil(math.log10(most))) + 1)
        labels = [f"{100 * (1 - 10.0**-n):.{max(n - 2, 0)}f} %" for n in nines]
        axes.set_yticks([10.0**-n for n in nines], labels)
        axes.set_yticks([], minor=True)
    else:
        axes.set_ylim(0, 1.01)
    axes.grid(alpha=0.3)
    if any(curves):
        axes.legend()
    return axes


def _heat(zone: Zone, show: str) -> float:
    if show == "written":
        return math.nan if zone.written is None else zone.written / zone.capacity
    if show == "parked_ms":
        return zone.parked_ns / 1e6
    value: int = getattr(zone, show)
    return float(value)


def zone_heat_map(
    zones: Sequence[Zone],
    *,
    show: str = "written",
    columns: int | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Zones as cells, row by row, whose colours show how much is written or how much was done.

    ``show`` is written, writes, appends, merges or parked_ms. Zones without a write pointer are grey
    where it is about that.

    >>> import zonal
    >>> with zonal.Device("zns-1t") as device:
    ...     axes = zone_heat_map(device.zones(count=64), columns=16)
    >>> axes.get_ylabel()
    'first zone of the row'
    """
    if show not in HEAT:
        raise ValueError(f"show: found {show!r}, expected {', '.join(HEAT)}")
    if not zones:
        raise ValueError("found no zones, expected some to draw")
    wide = columns or max(1, math.ceil(math.sqrt(len(zones) * 2)))
    values = [_heat(zone, show) for zone in zones]
    values += [math.nan] * (-len(values) % wide)
    rows: list[list[float]] = [values[at : at + wide] for at in range(0, len(values), wide)]
    axes = _axes(ax)
    axes.set_facecolor("lightgrey")
    scale: dict[str, Any] = {"vmin": 0, "vmax": 1 if show == "written" else None}
    image = axes.imshow(rows, aspect="auto", interpolation="nearest", **scale)
    axes.figure.colorbar(image, ax=axes, label=HEAT[show])
    first = zones[0].number
    ticks = list(range(0, len(rows), max(1, len(rows) // 8)))
    axes.set_yticks(ticks, [str(first + tick * wide) for tick in ticks])
    axes.set(xlabel="zone in the row", ylabel="first zone of the row")
    return axes
