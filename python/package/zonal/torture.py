"""Torture: random runs of the block layer over failing devices, on this machine or on a Ray cluster.

A seed determines a run. The seeds are divided into pieces, which are run and kept as the points of a
sweep are; their reports are merged into one.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, Literal

from zonal import _zonal
from zonal.errors import Error, InputError
from zonal.sweep import Engine, Task, Work, carry_out

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zonal.progress import Report

__all__ = ["Torture", "torture"]

#: Seeds of a piece: a second or so.
PIECE = 1000


@dataclass(frozen=True)
class Torture:
    """What runs with many seeds came to."""

    #: As ``zonal-dev torture --json`` prints it, for ``zonal-dev torture --merge``.
    report: dict[str, Any]
    #: Whether no run failed.
    passed: bool
    #: Pieces that were run now; the others were known.
    measured: int
    #: The report for people.
    text: str

    @property
    def failures(self) -> list[dict[str, Any]]:
        """The runs that failed: ``seed``, ``what`` was expected, the shrunk ``history``."""
        failures: list[dict[str, Any]] = self.report["failures"]
        return failures

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self.text)}</pre>"

    def __str__(self) -> str:
        return self.text


def _pieces(seeds: range, profile: str) -> Iterator[Task]:
    for first in range(seeds.start, seeds.stop, PIECE):
        last = min(first + PIECE, seeds.stop) - 1
        piece: dict[str, Any] = {"profile": profile, "first": first, "last": last}
        yield Task(piece, {"zonal": _zonal.version(), "torture": piece}, lambda _: None)


def torture(
    seeds: range,
    *,
    profile: str = "any",
    engine: Literal["local", "ray"] | Engine = "local",
    workers: int | None = None,
    out: str | os.PathLike[str] | None = None,
    progress: Report = None,
) -> Torture:
    """Runs seeds, as ``zonal-dev torture`` does. One that fails is shrunk, and the others go on.

    ``profile`` is any, zoned, regular, calm or crash. ``out``, ``engine`` and ``workers`` are those of
    :func:`zonal.sweep`: pieces of 1000 seeds that ``out`` has are not run again. Which marks were
    reached is known if the package was built with ``RUSTFLAGS="--cfg torture"``.

    >>> torture(range(20)).passed
    True
    """
    if not seeds or seeds.step != 1 or seeds.start < 0 or seeds.stop > 2**64:
        raise InputError(f"seeds: found {seeds}, expected a range of seeds from 0 to 2^64 - 1")
    _zonal.check_torture_profile(profile)
    total = -(-len(seeds) // PIECE)
    work = Work(_pieces(seeds, profile), total, "report")
    rows, measured = carry_out("torture", work, engine, workers, out, progress)
    errors = [row["error"] for row in rows if row["error"] is not None]
    if errors:
        raise Error(errors[0])
    report, text, passed = _zonal.merge_torture([row["report"] for row in rows])
    return Torture(json.loads(report), passed, measured, text)
