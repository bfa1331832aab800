"""The compiled half of the package."""

from typing_extensions import Buffer
from os import PathLike
from types import TracebackType
from typing import Any, Literal, Self, final

from zonal.progress import Raw

__all__ = [
    "Device",
    "Server",
    "Zone",
    "advise",
    "check_torture_profile",
    "create_image",
    "device_help",
    "fit",
    "in_child",
    "merge_torture",
    "profile_text",
    "profiles",
    "run",
    "sweep_file",
    "torture",
    "validate",
    "version",
]

@final
class Zone:
    """A zone: of a report, with what its zone write plug counted. Positions and sizes are in bytes."""

    @property
    def number(self) -> int: ...
    @property
    def start(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def capacity(self) -> int: ...
    @property
    def write_pointer(self) -> int | None:
        """Where the next write must begin; None where a zone has none, as when it is full."""
    @property
    def written(self) -> int | None:
        """Bytes that are written, from the start; None where that is not known."""
    @property
    def kind(self) -> Literal["conventional", "seq-write-required"]: ...
    @property
    def condition(
        self,
    ) -> Literal[
        "not-write-pointer",
        "empty",
        "open-implicit",
        "open-explicit",
        "closed",
        "read-only",
        "full",
        "offline",
    ]: ...
    @property
    def writes(self) -> int: ...
    @property
    def appends(self) -> int: ...
    @property
    def merges(self) -> int: ...
    @property
    def parked_ns(self) -> int:
        """The sum of the times that writes waited for others of the zone."""

@final
class Server:
    """A device that is being served to other programs and machines, from threads of this process.
    `with` stops it.
    """

    def __new__(
        cls,
        name: str,
        *,
        scheduler: str | None = None,
        zone_write: Literal["plug", "qd1", "lock", "off"] | None = None,
        seed: int = 0,
        nvme_tcp: str | None = None,
        vfio_user: str | PathLike[str] | None = None,
        vhost_user: str | PathLike[str] | None = None,
        ctl: str | PathLike[str] | None = None,
        metrics: str | None = None,
        web: str | None = None,
    ) -> Self: ...
    @property
    def locations(self) -> list[str]:
        """Where the exports are, such as nvme-tcp://127.0.0.1:4420/NQN, a name that `Device` takes."""

    def stop(self) -> None:
        """Ends the exports, once I/O in flight has completed, and closes the device. Raises TimeoutError if
        that takes longer than ten seconds: it ends by itself then."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None: ...

@final
class Device:
    """A device: a spec such as `null:zones=64,memory=true`, a profile such as `zns-1t`, an image
    `NAME.img`, `nvme-tcp://HOST:PORT/NQN` or a block device of this machine. Operations run one after
    another; a model's time is virtual. `with` closes it.
    """

    def __new__(
        cls,
        name: str,
        *,
        scheduler: str | None = None,
        zone_write: Literal["plug", "qd1", "lock", "off"] | None = None,
        seed: int = 0,
    ) -> Self: ...
    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def notices(self) -> list[str]: ...
    @property
    def size(self) -> int: ...
    @property
    def block_size(self) -> int: ...
    @property
    def zone_size(self) -> int: ...
    @property
    def nr_zones(self) -> int: ...
    @property
    def max_open_zones(self) -> int: ...
    @property
    def max_active_zones(self) -> int: ...
    @property
    def keeps_data(self) -> bool: ...
    @property
    def zone_write(self) -> str: ...
    @property
    def scheduler(self) -> str: ...
    @property
    def time(self) -> float:
        """The virtual time in seconds that operations have taken."""
    @property
    def closed(self) -> bool: ...
    def zones(self, first: int = 0, count: int | None = None) -> list[Zone]: ...
    def zone(self, number: int) -> Zone: ...
    def manage(
        self, op: Literal["reset", "open", "close", "finish"], first: int, count: int = 1
    ) -> None: ...
    def read(self, offset: int, length: int) -> bytes: ...
    def write(self, offset: int, data: Buffer, *, fua: bool = False) -> None: ...
    def append(self, zone: int, data: Buffer) -> int: ...
    def flush(self) -> None: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None: ...

def create_image(path: str | PathLike[str], device: str, *, checksums: bool = True) -> str: ...
def profiles() -> list[str]: ...
def profile_text(name: str) -> str: ...
def device_help() -> str: ...
def in_child() -> None: ...
def version() -> str: ...
def run(jobs: dict[str, Any], options: dict[str, Any], progress: Raw | None) -> dict[str, Any]: ...
def sweep_file(path: str | PathLike[str]) -> dict[str, Any]: ...
def torture(profile: str, first: int, last: int, progress: Raw | None) -> str: ...
def check_torture_profile(name: str) -> None: ...
def merge_torture(reports: list[str]) -> tuple[str, str, bool]: ...
def validate(
    device: str,
    measured: dict[str, Any],
    runtime: float | None,
    hold_out: int | None,
    resume: str | None,
    progress: Raw | None,
) -> tuple[str, str, str]: ...
def fit(
    profile: str,
    measured: dict[str, Any],
    args: dict[str, Any],
    progress: Raw | None,
) -> tuple[str, str, list[tuple[str, str, str, float, float | None, str | None]]]: ...
def advise(
    jobs: dict[str, Any], options: dict[str, Any], progress: Raw | None
) -> tuple[str, str, str, list[str]]: ...
