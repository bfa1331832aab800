"""The crash lab: which states a loss of power may leave on a device, and whether software survives them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from zonal import _zonal
from zonal.progress import Report, reporting
from zonal.results import frame, html_table

if TYPE_CHECKING:
    import pandas

__all__ = ["CrashReport", "crash"]

#: Gets the name of an image, which :class:`zonal.Device` takes. What it raises fails the state, and so does
#: False.
Check = Callable[[str], bool | None]


class CrashReport:
    """What became of the states. ``print`` shows how many failed, and the first failure."""

    def __init__(self, report: str, html: str) -> None:
        #: Everything, as ``zonal crash --json`` writes it.
        self.report: dict[str, Any] = json.loads(report)
        #: States that were checked.
        self.states: int = self.report["states"]
        #: A dict for each state that failed: ``state``, ``failure``, ``output``, ``seconds``.
        self.failures: list[dict[str, Any]] = self.report["failed"]
        #: The first failure with the fewest changes: ``verdict``, and ``changes``, what the state lacks. None
        #: without a failure.
        self.shrunk: dict[str, Any] | None = self.report["shrunk"]
        self._html = html

    @property
    def passed(self) -> bool:
        """Whether no state failed."""
        return not self.failures

    def to_pandas(self) -> pandas.DataFrame:
        """A row for each state that failed."""
        return frame(self.failures)

    def save_html(self, path: str | os.PathLike[str]) -> None:
        """Writes the page with a timeline of the recording."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self._html)

    def _repr_html_(self) -> str:
        rows = [{"state": each["state"], "failure": each["failure"]} for each in self.failures[:20]]
        return f"<p>{self._counts()}</p>{html_table(rows) if rows else ''}"

    def _counts(self) -> str:
        return f"{self.states} states checked, {len(self.failures)} failed"

    def __str__(self) -> str:
        lines = [self._counts()]
        if self.shrunk:
            verdict = self.shrunk["verdict"]
            lines.append(f"state {verdict['state']}: {verdict['failure']}")
            lines += [f"  {change}" for change in self.shrunk["changes"]]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"CrashReport({self._counts()})"


def crash(
    log: str | os.PathLike[str],
    check: Check | str | None = None,
    *,
    oracle: Literal["zonefs", "fio-verify"] | None = None,
    base: str | os.PathLike[str] | None = None,
    timeout: float = 60.0,
    max_failures: int = 0,
    per_cut: int = 32,
    sample: int | None = None,
    seed: int = 0,
    progress: Report = None,
) -> CrashReport:
    """Checks each state that a loss of power may leave, as ``zonal crash`` does.

    ``log`` is what ``run(..., record=log)`` or ``zonal serve --record`` wrote. ``check`` is a function that
    gets the name of an image of the state, from several threads, or a command with ``{image}``; ``oracle``
    judges without one. ``timeout`` is in seconds, for each command.

    >>> import tempfile, zonal
    >>> log = os.path.join(tempfile.mkdtemp(), "run.log")
    >>> job = zonal.Job("w", rw="write", bs="64k", zonemode="zbd", io_size="256k")
    >>> result = zonal.run(job, "null:zones=4,zone_size=1M,memory=true", record=log)
    >>> def check(image):
    ...     with zonal.Device(image) as device:
    ...         assert device.zone(0).written % device.block_size == 0
    >>> crash(log, check).passed
    True
    """
    options = {
        "check": check,
        "oracle": oracle,
        "base": None if base is None else os.fspath(base),
        "timeout": timeout,
        "max_failures": max_failures,
        "per_cut": per_cut,
        "sample": sample,
        "seed": seed,
    }
    with reporting(progress, "crash") as report:
        return CrashReport(*_zonal.crash(os.fspath(log), options, report))
