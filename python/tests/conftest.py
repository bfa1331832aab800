"""What the tests have in common."""

import pytest

import zonal


@pytest.fixture
def null() -> str:
    """A device of eight zones of 1 MiB that stores data."""
    return "null:zones=8,zone_size=1M,lba=4096,memory=true"


@pytest.fixture(scope="session")
def written() -> zonal.Result:
    """A job on a model of a drive."""
    job = zonal.Job("w", rw="write", bs="64k", iodepth=8, zonemode="zbd", time_based=1, runtime=1)
    return zonal.run(job, device="zns-1t")
