"""What can go wrong. The texts are those that the program ``zonal`` prints."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zonal.results import Result

__all__ = ["DeviceError", "Error", "InputError", "JobFailed", "ZonalWarning"]


class Error(Exception):
    """Any error of this package."""


class InputError(Error, ValueError):
    """Bad input: a device, an option, a job file, measurements.

    The text names what is wrong, what was found and what was expected.
    """


class DeviceError(Error):
    """The device failed an operation, such as a write that is not at the write pointer."""


class JobFailed(Error):
    """A job failed, or did no I/O.

    ``result`` has what was measured all the same, ``result.errors`` each error.
    """

    def __init__(self, result: Result) -> None:
        super().__init__("; ".join(result.errors))
        self.result = result


class ZonalWarning(UserWarning):
    """Something that one should know, such as an option of fio that has no effect here."""
