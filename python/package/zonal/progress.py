"""Progress of long work, as a line of text or for a function of one's own."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Progress", "ProgressLine"]


@dataclass(frozen=True)
class Progress:
    """How far work is."""

    #: 0 to 1; None if that is not known.
    fraction: float | None
    #: What is done: bytes of jobs, measurements of everything else.
    done: int
    #: Of how much; None if that is not known.
    total: int | None
    #: What is being done, such as the rate of jobs.
    message: str


#: True shows a line, False nothing, None a line on a terminal and in a notebook. A function is called
#: with a :class:`Progress` ten times a second at most, on the thread that called; what it raises ends
#: the work.
Report = Callable[[Progress], None] | bool | None
Raw = Callable[[float | None, int, int | None, str], None]

WIDTH = 24


class ProgressLine:
    """A line with a bar that is written over itself."""

    def __init__(self, title: str, out: TextIO | None = None) -> None:
        self.title = title
        self.out = sys.stderr if out is None else out
        self.begun = time.monotonic()
        self.length = 0

    def __call__(self, progress: Progress) -> None:
        parts = [self.title]
        if progress.fraction is not None:
            filled = round(min(progress.fraction, 1.0) * WIDTH)
            parts.append(f"{progress.fraction:4.0%} [{'#' * filled}{'-' * (WIDTH - filled)}]")
        seconds = time.monotonic() - self.begun
        if progress.fraction:
            left = seconds / progress.fraction - seconds
            parts.append(f"{seconds:.0f} s, {max(left, 0.0):.0f} s left")
        if progress.message:
            parts.append(progress.message)
        self._write("  ".join(parts))

    def close(self) -> None:
        """Removes the line."""
        if self.length:
            self._write("")
            self.out.write("\r")
            self.out.flush()

    def _write(self, line: str) -> None:
        self.out.write("\r" + line.ljust(self.length))
        self.out.flush()
        self.length = len(line)


class NotebookBar:
    """A bar below the cell of a notebook, which is gone when the work is done."""

    def __init__(self, title: str) -> None:
        self.title = title
        self._handle: Any = None

    def __call__(self, progress: Progress) -> None:
        value = "" if progress.fraction is None else f' value="{min(progress.fraction, 1.0):.3f}"'
        text = escape(f"{self.title}  {progress.message}".rstrip())
        self._show(f"<progress{value}></progress> {text}")

    def close(self) -> None:
        """Removes the bar."""
        if self._handle is not None:
            self._show("")

    def _show(self, html: str) -> None:
        shown = {"text/html": html, "text/plain": ""}
        if self._handle is None:
            display = sys.modules["IPython"].display.display
            self._handle = display(shown, raw=True, display_id=True)
        else:
            self._handle.update(shown, raw=True)


def _is_notebook() -> bool:
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell.__class__.__name__ == "ZMQInteractiveShell"


@contextmanager
def reporting(report: Report, title: str) -> Iterator[Raw | None]:
    """What the compiled half is to call."""
    if callable(report):
        yield lambda *state: report(Progress(*state))
    elif report or (report is None and (_is_notebook() or sys.stderr.isatty())):
        line = NotebookBar(title) if _is_notebook() else ProgressLine(title)
        try:
            yield lambda *state: line(Progress(*state))
        finally:
            line.close()
    else:
        yield None
