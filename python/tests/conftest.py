"""What the tests have in common."""

import signal
from collections.abc import Iterator

import pytest

import zonal


@pytest.fixture(autouse=True)
def ctrl_c() -> Iterator[None]:
    """Ctrl-C interrupts, also where the tests run in the background of a shell, which ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def null() -> str:
    """A device of eight zones of 1 MiB that stores data."""
    return "null:zones=8,zone_size=1M,lba=4096,memory=true"


@pytest.fixture(scope="session")
def written() -> zonal.Result:
    """A job on a model of a drive."""
    job = zonal.Job("w", rw="write", bs="64k", iodepth=8, zonemode="zbd", time_based=1, runtime=1)
    return zonal.run(job, device="zns-1t")
