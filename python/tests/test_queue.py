"""I/O in flight: queues, asyncio, the crash lab, what a run writes besides its result."""

import asyncio
import csv
import time
from pathlib import Path

import pytest

import zonal

BLOCK = bytes(65536)


def drain(queue: zonal.Queue) -> list[zonal.Completion]:
    done: list[zonal.Completion] = []
    while queue.in_flight:
        done += queue.poll()
    return done


def test_io_in_flight_overlaps() -> None:
    took = {}
    for depth in (1, 8):
        with zonal.Device("zns-1t") as device, zonal.Queue(device, depth) as queue:
            for zone in range(8):
                if queue.in_flight == depth:
                    queue.poll()
                queue.append(zone, BLOCK)
            drain(queue)
            took[depth] = device.time
    assert took[8] < took[1] * 0.8, took


def test_completions_say_what_came_back(null: str) -> None:
    with zonal.Device(null) as device, zonal.Queue(device, 4) as queue:
        numbers = [queue.write(0, b"a" * 4096), queue.write(4096, b"b" * 4096)]
        written = {done.number: done for done in drain(queue)}
        assert sorted(written) == numbers
        assert [written[number].offset for number in numbers] == [0, 4096]
        assert all(done.error is None and done.data is None for done in written.values())
        number = queue.read(4096, 4096)
        (done,) = drain(queue)
        assert (done.number, done.op, done.length, done.data) == (number, "read", 4096, b"b" * 4096)
        assert queue.poll() == [] and queue.poll(0) == []
        queue.manage("finish", 0)
        queue.flush()
        assert {done.op for done in drain(queue)} == {"finish", "flush"}
        assert device.zone(0).condition == "full"


def test_latencies_are_those_of_the_model() -> None:
    with zonal.Device("zns-1t") as device, zonal.Queue(device) as queue:
        for _ in range(2):
            begun = device.time
            queue.append(0, BLOCK)
            (done,) = drain(queue)
            assert 0 < done.latency == pytest.approx(done.time - begun) and done.time <= device.time


def test_failed_io_is_a_completion_with_the_rule_it_broke(null: str) -> None:
    with zonal.Device(null) as device, zonal.Queue(device) as queue:
        queue.write(8192, bytes(4096))
        queue.append(1, bytes(4096))
        failed, landed = sorted(drain(queue), key=lambda done: done.number)
        assert failed.error is not None and "must begin at the write pointer" in failed.error
        assert landed.error is None


def test_more_than_the_depth_blocks(null: str) -> None:
    with zonal.Device(null) as device, zonal.Queue(device, 1) as queue:
        queue.append(0, bytes(4096))
        with pytest.raises(BlockingIOError, match="1 I/Os are in flight, the depth of the queue"):
            queue.append(0, bytes(4096))
        assert len(queue.poll()) == 1
        queue.append(0, bytes(4096))
    with zonal.Device(null) as device:
        with pytest.raises(zonal.InputError, match="depth 0: expected at least 1"):
            zonal.Queue(device, 0)
        with zonal.Queue(device) as queue:
            for bad, text in [
                (lambda: queue.read(1, 4096), "expected multiples of 4096"),
                (lambda: queue.append(99, bytes(4096)), "zone 99: expected 0 to 7"),
                (lambda: queue.manage("opne", 0), "did you mean `open`"),
                (lambda: queue.poll(-1), "timeout: found -1, expected 0 seconds or more"),
            ]:
                with pytest.raises(zonal.InputError, match=text):
                    bad()
        with pytest.raises(zonal.InputError, match="the queue is closed"):
            queue.flush()


def test_device_and_queues_share_the_write_pointer(null: str) -> None:
    """An operation of the device waits for the I/O of its queues where it must."""
    with zonal.Device(null) as device:
        one, two = zonal.Queue(device), zonal.Queue(device)
        one.write(0, bytes(4096))
        two.write(4096, bytes(4096))
        device.write(8192, bytes(4096))
        assert device.zone(0).written == 3 * 4096
        assert [len(drain(queue)) for queue in (one, two)] == [1, 1]


def test_device_is_closed_once_its_io_has_completed(tmp_path: Path) -> None:
    name = zonal.create_image(tmp_path / "disk.img", "null:zones=4,zone_size=1M,lba=4096")
    device = zonal.Device(name)
    queue = zonal.Queue(device)
    queue.append(0, b"z" * 4096)
    device.close()
    with pytest.raises(zonal.InputError, match="it is closed"):
        queue.poll()
    queue.close()
    with zonal.Device(name) as device:
        assert device.read(0, 4096) == b"z" * 4096


def test_closing_a_queue_waits_for_its_io() -> None:
    with zonal.Device("zns-1t") as device:
        with zonal.Queue(device) as queue:
            queue.append(0, BLOCK)
        assert device.time > 0 and device.zone(0).written == len(BLOCK)


def test_io_over_the_network_is_waited_for(null: str) -> None:
    with zonal.Server(null, nvme_tcp="127.0.0.1:0") as server:
        with zonal.Device(server.locations[0]) as device, zonal.Queue(device, 4) as queue:
            for _ in range(4):
                queue.append(2, b"n" * 4096)
            assert len({done.offset for done in drain(queue)}) == 4
            assert device.read(2 << 20, 4096) == b"n" * 4096

            async def appends() -> list[int]:
                async with zonal.AsyncQueue(device, 2) as awaited:
                    return await asyncio.gather(*(awaited.append(3, BLOCK) for _ in range(5)))

            assert sorted(asyncio.run(appends())) == [(3 << 20) + 65536 * n for n in range(5)]


def test_asyncio_has_io_in_flight(null: str) -> None:
    async def work() -> tuple[bytes, float]:
        with zonal.Device(null) as device:
            async with zonal.AsyncQueue(device, depth=2) as queue:
                await asyncio.gather(*(queue.write(4096 * n, b"%d" % n * 4096) for n in range(8)))
                await queue.flush()
                with pytest.raises(zonal.DeviceError, match="write pointer"):
                    await queue.write(0, bytes(4096))
                # As often as the queue is deep: what is refused takes no place in it.
                for _ in range(2):
                    with pytest.raises(zonal.InputError, match="expected multiples"):
                        await queue.read(1, 1)
                await queue.manage("finish", 0)
                return await queue.read(4096 * 7, 4096), device.time

    first, second = (asyncio.run(asyncio.wait_for(work(), 60)) for _ in range(2))
    assert first == second and first[0] == b"7" * 4096


def test_awaited_io_overlaps() -> None:
    async def work(depth: int) -> float:
        with zonal.Device("zns-1t") as device:
            async with zonal.AsyncQueue(device, depth) as queue:
                await asyncio.gather(*(queue.append(zone, BLOCK) for zone in range(8)))
                return device.time

    assert asyncio.run(work(8)) < asyncio.run(work(1)) * 0.8


def test_device_that_is_closed_fails_all_that_is_awaited(null: str) -> None:
    """What is in flight, and what has no place in the queue yet."""

    async def work() -> list[int | BaseException]:
        device = zonal.Device(null)
        queue = zonal.AsyncQueue(device, depth=2)
        tasks = [asyncio.create_task(queue.append(0, bytes(4096))) for _ in range(5)]
        await asyncio.sleep(0)
        device.close()
        return await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 60)

    results = asyncio.run(work())
    assert len(results) == 5
    assert all(isinstance(each, zonal.InputError) and "closed" in str(each) for each in results)


def test_io_that_is_cancelled_still_counts(null: str) -> None:
    async def work() -> int:
        with zonal.Device(null) as device:
            async with zonal.AsyncQueue(device, depth=1) as queue:
                task = asyncio.create_task(queue.append(0, bytes(4096)))
                await asyncio.sleep(0)
                task.cancel()
                return await queue.append(0, bytes(4096))

    assert asyncio.run(work()) in (0, 4096)


def test_io_that_is_cancelled_leaves_the_others(null: str) -> None:
    async def work() -> list[int]:
        with zonal.Device(null) as device:
            async with zonal.AsyncQueue(device, depth=4) as queue:
                tasks = [asyncio.create_task(queue.append(0, bytes(4096))) for _ in range(4)]
                await asyncio.sleep(0)
                tasks[0].cancel()
                return await asyncio.gather(*tasks[1:])

    assert len({*asyncio.run(work()), 0, 4096, 8192, 12288}) == 4


def test_leaving_an_asyncio_queue_completes_its_io(null: str) -> None:
    async def work() -> int:
        with zonal.Device(null) as device:
            async with zonal.AsyncQueue(device) as queue:
                task = asyncio.create_task(queue.append(0, bytes(4096)))
                await asyncio.sleep(0)
            return await asyncio.wait_for(task, 60)

    assert asyncio.run(work()) == 0


def test_histograms_are_views(written: zonal.Result) -> None:
    import numpy

    latency = written.latency()
    counts, nanos = numpy.asarray(latency.counts), numpy.asarray(latency.nanos)
    assert counts.dtype == nanos.dtype == numpy.uint64
    assert counts.base is not None and not counts.flags.writeable
    assert dict(zip(nanos.tolist(), counts.tolist(), strict=True)) == latency.histogram
    assert counts.sum() == latency.count


RECORDED = "null:zones=4,zone_size=1M,lba=4096,memory=true"
JOB = zonal.Job("w", rw="write", bs="64k", zonemode="zbd", io_size="512k", iodepth=4)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A recording of a job."""
    zonal.run(JOB, RECORDED, record=tmp_path / "run.log")
    return tmp_path / "run.log"


def test_states_after_a_loss_of_power_are_checked_by_a_function(log: Path, tmp_path: Path) -> None:
    def has_whole_blocks(image: str) -> None:
        with zonal.Device(image) as device:
            written = device.zone(0).written or 0
            assert written % 65536 == 0, f"{written} bytes are written"

    found = zonal.crash(log, has_whole_blocks)
    assert not found.passed and 0 < len(found.failures) < found.states
    assert found.shrunk is not None and "bytes are written" in found.shrunk["verdict"]["failure"]
    assert str(found).startswith(f"{found.states} states checked, {len(found.failures)} failed\n")
    assert len(found.to_pandas()) == len(found.failures)
    assert found._repr_html_().count("<tr>") > 1
    found.save_html(tmp_path / "page.html")
    assert "<svg" in (tmp_path / "page.html").read_text()
    assert zonal.crash(log, lambda image: True).passed
    assert 0 < len(zonal.crash(log, lambda image: False, max_failures=1).failures) < found.states
    assert zonal.crash(log, "test -s {image}", sample=3).states == 3
    assert zonal.crash(log, lambda image: True, per_cut=1).states < found.states


def test_bad_crash_options_are_errors(log: Path, tmp_path: Path) -> None:
    for options, text in [
        ({}, "expected check or oracle"),
        ({"check": "true"}, "--check: found `true`, expected a command with {image}"),
        ({"oracle": "zonfs"}, "did you mean `zonefs`"),
        ({"oracle": "zonefs"}, "found a log without a mark `synced`"),
        ({"check": "true {image}", "timeout": 0.0}, "--timeout: found 0"),
        ({"check": "true {image}", "per_cut": 0}, "--per-cut: found 0"),
        ({"check": "true {image}", "sample": 0}, "--sample: found 0"),
    ]:
        with pytest.raises(zonal.InputError, match=text):
            zonal.crash(log, **options)
    with pytest.raises(zonal.InputError, match="nowhere.log"):
        zonal.crash(tmp_path / "nowhere.log", "true {image}")


def test_run_explains_and_records(tmp_path: Path) -> None:
    result = zonal.run(
        JOB,
        "smr-30t",
        explain=True,
        explain_html=tmp_path / "page.html",
        record_view=tmp_path / "view.zonal",
    )
    assert "Where the time of the I/Os went" in str(result)
    assert result.to_dict()["zonal"]["explain"]
    assert "<svg" in (tmp_path / "page.html").read_text()
    assert (tmp_path / "view.zonal").stat().st_size > 0
    zonal.run(JOB, "smr-30t", head_trace=tmp_path / "head.csv")
    with open(tmp_path / "head.csv") as file:
        assert "radius" in next(csv.reader(file))
    with pytest.raises(zonal.InputError, match="expected one of them"):
        zonal.run(JOB, "smr-30t", head_trace=tmp_path / "head.csv", explain=True)
    with pytest.raises(zonal.InputError, match="expected a rotating disk"):
        zonal.run(JOB, "zns-1t", head_trace=tmp_path / "head.csv")


def test_poll_with_nothing_in_flight_returns_at_once() -> None:
    with zonal.Device("zns-1t") as device, zonal.Queue(device) as queue:
        begun = time.monotonic()
        assert queue.poll(5) == []
        assert time.monotonic() - begun < 5


def test_poll_without_a_completion_ends_at_its_timeout() -> None:
    slow = "null:zones=4,zone_size=1M,lba=4096,latency=2s"
    with zonal.Server(slow, nvme_tcp="127.0.0.1:0") as server:
        with zonal.Device(server.locations[0]) as device, zonal.Queue(device) as queue:
            queue.append(0, bytes(4096))
            begun = time.monotonic()
            assert queue.poll(0.2) == [] and queue.in_flight == 1
            assert 0.2 <= time.monotonic() - begun < 2
            assert len(queue.poll()) == 1
