"""Devices: zones, reading, writing, appending, images."""

import json
import multiprocessing
import os
import socket
from pathlib import Path
from typing import Any

import pytest

import zonal

ZONE = 1 << 20


def test_what_is_written_can_be_read(null: str) -> None:
    data = bytes(range(256)) * 32
    with zonal.Device(null) as device:
        device.write(0, data)
        device.write(len(data), bytearray(data), fua=True)
        device.flush()
        assert device.read(0, 2 * len(data)) == data * 2
        zone = device.zone(0)
        assert (zone.condition, zone.write_pointer) == ("implicit-open", 2 * len(data))
        assert zone.written == 2 * len(data)
        assert device.zone(1).condition == "empty"


def test_append_says_where_the_data_landed(null: str) -> None:
    with zonal.Device(null) as device:
        assert [device.append(3, bytes(4096)) for _ in range(3)] == [
            3 * ZONE,
            3 * ZONE + 4096,
            3 * ZONE + 8192,
        ]
        assert device.zone(3).appends == 3


def test_zones_are_managed(null: str) -> None:
    with zonal.Device(null) as device:
        device.manage("open", 0, 2)
        device.manage("finish", 2)
        device.append(0, bytes(4096))
        device.manage("close", 0)
        conditions = [zone.condition for zone in device.zones(count=4)]
        assert conditions == ["closed", "explicit-open", "full", "empty"]
        device.manage("reset", 0, device.nr_zones)
        assert {zone.condition for zone in device.zones()} == {"empty"}


def test_device_says_what_it_is() -> None:
    with zonal.Device("smr-30t", scheduler="mq-deadline", zone_write="plug") as device:
        assert (device.kind, device.scheduler, device.zone_write) == ("hdd", "mq-deadline", "plug")
        assert device.size == sum(zone.size for zone in device.zones())
        assert device.nr_zones == len(device.zones()) == 111760
        assert device.max_open_zones == 128
        assert not device.keeps_data
        before = device.time
        device.write(device.zones()[-1].start, bytes(1 << 20))
        assert before < device.time < 1
        assert device.read(device.zones()[-1].start, 4096) == bytes(4096)


def test_misplaced_write_says_which_rule_it_broke(null: str) -> None:
    with zonal.Device(null) as device:
        for _ in range(2):
            with pytest.raises(zonal.DeviceError, match="must begin at the write pointer"):
                device.write(8192, bytes(4096))
        device.manage("finish", 1)
        with pytest.raises(zonal.DeviceError, match="full"):
            device.append(1, bytes(4096))


@pytest.mark.parametrize(
    ("name", "options", "text"),
    [
        ("null:zons=4", {}, "did you mean `zones`"),
        ("zns-1", {}, "did you mean `zns-1t`"),
        ("null", {"scheduler": "kybre"}, "--scheduler: no scheduler is called `kybre`"),
        ("null", {"zone_write": "plgu"}, "--zone-write: no policy is called `plgu`"),
        ("/nowhere/disk.img", {}, "there is no such file"),
    ],
)
def test_bad_device_is_an_error_with_the_text_of_the_program(
    name: str, options: dict[str, str], text: str
) -> None:
    with pytest.raises(zonal.InputError) as caught:
        zonal.Device(name, **options)
    assert text in str(caught.value)
    assert isinstance(caught.value, ValueError)


def test_bad_operations_are_errors(null: str) -> None:
    with zonal.Device(null) as device:
        for operation, text in [
            (lambda: device.write(0, b"x"), "expected multiples of 4096, a logical block"),
            (lambda: device.read(512, 4096), "expected multiples of 4096, a logical block"),
            (lambda: device.read(0, 0), "expected at least 4096"),
            (lambda: device.append(8, bytes(4096)), "zone 8: expected 0 to 7"),
            (lambda: device.zone(8), "zone 8: expected 0 to 7"),
            (lambda: device.manage("reset", 7, 2), "zone 8: expected 0 to 7"),
            (lambda: device.manage("rest", 0), "did you mean `reset`"),
        ]:
            with pytest.raises(zonal.InputError, match=text):
                operation()
        with pytest.raises(TypeError):
            device.write(0, "text")
    with pytest.raises(zonal.InputError, match="it is closed"):
        device.read(0, 4096)
    assert device.closed


def test_image_keeps_its_data(tmp_path: Path) -> None:
    name = zonal.create_image(tmp_path / "disk.img", "null:zones=4,zone_size=1M,lba=4096")
    data = b"zonal" * 4096
    with zonal.Device(name) as device:
        device.append(1, data)
        device.flush()
    with zonal.Device(name) as device:
        assert device.kind == "image"
        assert device.read(ZONE, len(data)) == data
        assert device.zone(1).condition == "closed"
    with pytest.raises(zonal.InputError, match="disk.img"):
        zonal.create_image(tmp_path / "disk.img", "null")


def test_profiles_can_be_read() -> None:
    assert "zns-1t" in zonal.profiles()
    assert "zone_size" in zonal.profile_text("zns-1t")
    assert "null" in zonal.device_help()


def test_child_of_fork_cannot_use_the_device_of_its_parent(null: str) -> None:
    device = zonal.Device(null)
    device.write(0, bytes(4096))
    child = os.fork()
    if child == 0:
        try:
            device.write(4096, bytes(4096))
        except PermissionError as error:
            if "fork()" in str(error) and device.closed:
                with zonal.Device(null) as own:
                    own.write(0, bytes(4096))
                os._exit(0)
        os._exit(1)
    _, status = os.waitpid(child, 0)
    assert status == 0
    device.write(4096, bytes(4096))
    device.close()
    assert device.closed


def test_child_of_multiprocessing_is_told(null: str) -> None:
    context = multiprocessing.get_context("fork")
    with zonal.Device(null) as device:

        def write() -> None:
            with pytest.raises(PermissionError, match="before fork"):
                device.write(0, bytes(4096))

        child = context.Process(target=write)
        child.start()
        child.join()
        assert child.exitcode == 0


def test_served_device_answers_ctl(null: str, tmp_path: Path) -> None:
    path = tmp_path / "ctl"
    with zonal.Server(null, nvme_tcp="127.0.0.1:0", ctl=path), socket.socket(socket.AF_UNIX) as ctl:
        ctl.connect(str(path))
        replies = ctl.makefile()

        def ask(*words: str) -> Any:
            ctl.sendall(json.dumps({"device": 1, "command": words}).encode() + b"\n")
            return json.loads(replies.readline())["ok"]

        assert ask("get")["zone_write"] == "plug"
        assert ask("stat")["writes"] == 0
        ask("fault", "add", "fail=write")
        assert ask("fault", "list")


def test_served_device_is_that_of_a_host(null: str) -> None:
    with zonal.Server(null, nvme_tcp="127.0.0.1:0") as server:
        (location,) = server.locations
        with zonal.Device(location) as device:
            device.write(0, b"z" * 4096)
            assert device.read(0, 4096) == b"z" * 4096
            assert device.nr_zones > 0
    with pytest.raises(zonal.InputError):
        zonal.Device(location + "?ctrl_loss_tmo=0")
    with pytest.raises(zonal.InputError, match="nvme_tcp: found `here`, expected ADDRESS:PORT"):
        zonal.Server(null, nvme_tcp="here")
