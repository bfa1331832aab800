"""The compiled half of the package."""

from typing_extensions import Buffer
from os import PathLike
from types import TracebackType
from typing import Any, Literal, Self, final

from zonal.analysis import ZoneWrite
from zonal.progress import Raw

__all__ = [
    "Completion",
    "Device",
    "Queue",
    "Server",
    "Zone",
    "advise",
    "check_torture_profile",
    "crash",
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
        "implicit-open",
        "explicit-open",
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
        zone_write: ZoneWrite | None = None,
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
        """Ends the exports, once I/O in flight has completed, makes what was answered durable, and closes the
        device. Raises TimeoutError if that takes longer than ten seconds: it ends by itself then."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None: ...

@final
class Completion:
    """An I/O that has completed."""

    @property
    def number(self) -> int: ...
    @property
    def op(
        self,
    ) -> Literal["read", "write", "append", "flush", "reset", "open", "close", "finish"]: ...
    @property
    def offset(self) -> int:
        """In bytes; of an append, where the data landed."""
    @property
    def length(self) -> int: ...
    @property
    def data(self) -> bytes | None:
        """What was read."""
    @property
    def error(self) -> str | None:
        """Why it failed; None if it did not."""
    @property
    def time(self) -> float:
        """The device's virtual time at which it completed, in seconds."""
    @property
    def latency(self) -> float:
        """The virtual time in seconds from its submission to its completion."""

@final
class Queue:
    """I/O in flight on a device: operations are submitted, and `poll` returns those that have completed.
    Submitting more than the depth raises BlockingIOError.
    """

    def __new__(cls, device: Device, depth: int = 32) -> Self: ...
    @property
    def depth(self) -> int: ...
    @property
    def in_flight(self) -> int:
        """I/Os that were submitted and not returned by `poll`."""
    def read(self, offset: int, length: int) -> int:
        """Submits a read. Returns its number."""
    def write(self, offset: int, data: Buffer, *, fua: bool = False) -> int:
        """Submits a write: in a sequential zone at the write pointer, or after writes that are in flight."""
    def append(self, zone: int, data: Buffer) -> int:
        """Submits an append to a zone. Its completion says where the data landed."""
    def flush(self) -> int:
        """Submits a flush, which makes durable what has completed."""
    def manage(self, op: Literal["reset", "open", "close", "finish"], zone: int) -> int:
        """Submits one of reset, open, close and finish of a zone."""
    def poll(self, timeout: float | None = None) -> list[Completion]:
        """Returns what has completed, in that order. With nothing there yet, waits until something has: for as
        many seconds of real time as `timeout` says, or as long as I/O is in flight. A model's time is
        virtual: its next completion is there without waiting.
        """
    def close(self) -> None:
        """Waits for what is in flight, drops its completions and closes the queue."""
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
        zone_write: ZoneWrite | None = None,
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
    def zones(self, first: int = 0, count: int | None = None) -> list[Zone]:
        """The zones from `first` on."""
    def zone(self, number: int) -> Zone: ...
    def manage(
        self, op: Literal["reset", "open", "close", "finish"], first: int, count: int = 1
    ) -> None:
        """One of reset, open, close and finish, of `count` zones."""
    def read(self, offset: int, length: int) -> bytes:
        """Reads bytes. Offset and length are multiples of the block size."""
    def write(self, offset: int, data: Buffer, *, fua: bool = False) -> None:
        """Writes bytes, an array or another buffer; in a sequential zone at the write pointer."""
    def append(self, zone: int, data: Buffer) -> int:
        """Appends to a zone. Returns the offset at which the data landed."""
    def flush(self) -> None:
        """Makes what was written durable."""
    def _repr_html_(self) -> str: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None: ...

def create_image(path: str | PathLike[str], device: str, *, checksums: bool = True) -> str:
    """Creates an image of a device, a spec or a TOML profile. Returns the name to open it by."""

def profiles() -> list[str]:
    """The names of the profiles of drives that are built in."""

def profile_text(name: str) -> str:
    """The text of a profile, built in or from a file."""

def device_help() -> str:
    """Explains device specs, as `zonal devices`."""

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
def crash(
    log: str | PathLike[str], options: dict[str, Any], progress: Raw | None
) -> tuple[str, str]: ...
