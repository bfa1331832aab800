"""Plots: they show the figures of the results."""

import matplotlib
import pytest

import zonal
from zonal import plot

matplotlib.use("agg")


def test_throughput_by_depth_has_a_point_for_each_result(written: zonal.Result) -> None:
    axes = plot.throughput_by_depth({"plug": {1: written, 8: written}})
    (line,) = axes.get_lines()
    assert list(line.get_xdata()) == [1, 8]
    assert list(line.get_ydata()) == [written.bandwidth / 1e6] * 2
    with pytest.raises(ValueError, match="no queue depth"):
        plot.throughput_by_depth({})


def test_advice_has_a_curve_for_each_scheduler_and_policy() -> None:
    job = zonal.Job("w", rw="write", bs="64k", zonemode="zbd")
    advice = zonal.advise(job, "zns-1t", schedulers=["none", "mq-deadline"], zone_write=["plug"],
                          depths=[1, 4], time=0.05, seeds=1)
    axes = plot.throughput_by_depth(advice)
    assert [line.get_label() for line in axes.get_lines()] == ["none, plug", "mq-deadline, plug"]


@pytest.mark.parametrize("tail", [False, True])
def test_latency_cdf_reaches_all_ios(written: zonal.Result, tail: bool) -> None:
    axes = plot.latency_cdf({"w": written}, direction="write", tail=tail)
    (line,) = axes.get_lines()
    histogram = written.latency().histogram
    assert list(line.get_xdata()) == [nanos / 1e3 for nanos in histogram]
    last = line.get_ydata()[-1]
    assert last == (0.5 / sum(histogram.values()) if tail else 1)
    with pytest.raises(ValueError, match="no I/O"):
        plot.latency_cdf(written, direction="read")


@pytest.mark.parametrize("show", plot.HEAT)
def test_zone_heat_map_has_a_cell_for_each_zone(written: zonal.Result, show: str) -> None:
    zones = written.devices[0].zones[:100]
    axes = plot.zone_heat_map(zones, show=show, columns=7)
    cells = axes.get_images()[0].get_array()
    assert cells.shape == (15, 7)
    assert cells.count() == 100
    if show == "writes":
        assert cells.sum() == sum(zone.writes for zone in zones)


def test_heat_map_of_something_else_is_refused(written: zonal.Result) -> None:
    with pytest.raises(ValueError, match="expected written, writes"):
        plot.zone_heat_map(written.devices[0].zones, show="reads")
    with pytest.raises(ValueError, match="no zones"):
        plot.zone_heat_map([])
