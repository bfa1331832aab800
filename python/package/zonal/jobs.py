"""Jobs: objects, the text of a job file, or its path."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from zonal.errors import InputError

__all__ = ["Job", "JobOption", "Jobs"]

JobOption = str | int | float | bool


class Job:
    """A job by its options, which have fio's names: ``Job("w", rw="write", bs="1m", iodepth=4)``.

    Options before the first job apply to all: ``Job("global", runtime=10)``. What an option means, and
    whether its value is right, is found out when the job is used.

    >>> job = Job("w", rw="write", bs="1m")
    >>> job.replace(bs="4k")
    Job('w', rw='write', bs='4k')
    """

    def __init__(self, name: str, **options: JobOption) -> None:
        for option, value in options.items():
            if not isinstance(value, (str, int, float)):
                expected = "expected text, a number or a truth value"
                raise TypeError(f"job {name}: {option}: found {type(value).__name__}, {expected}")
        self.name = name
        self.options: dict[str, JobOption] = options

    def replace(self, **options: JobOption) -> Job:
        """The same job with other options."""
        return Job(self.name, **{**self.options, **options})

    def arguments(self) -> list[str]:
        """The job as arguments of ``zonal run``."""
        return [f"--name={self.name}", *(f"--{o}={_text(v)}" for o, v in self.options.items())]

    def __repr__(self) -> str:
        options = "".join(f", {option}={value!r}" for option, value in self.options.items())
        return f"Job({self.name!r}{options})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Job):
            return NotImplemented
        return (self.name, self.options) == (other.name, other.options)

    __hash__ = None  # type: ignore[assignment]


#: One job or several; the text of a job file; the path of one.
Jobs = Job | Iterable[Job] | str | os.PathLike[str]


def _text(value: JobOption) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)


def _check_no_path(text: str) -> None:
    """Raises InputError if the text of a job file is the name of one."""
    is_line = "\n" not in text and "[" not in text
    if is_line and (text.endswith(".fio") or os.path.isfile(text)):
        expected = f"the text of a job file; for a file, pathlib.Path({text!r})"
        raise InputError(f"jobs: found {text!r}, the name of a file, expected {expected}")


def raw(jobs: Jobs, replace: Mapping[str, JobOption] | None = None) -> dict[str, Any]:
    """Jobs for the compiled half, with options that replace those of every job."""
    args: list[str] = []
    text = None
    if isinstance(jobs, str):
        _check_no_path(jobs)
        text = jobs
    elif isinstance(jobs, os.PathLike):
        path = os.fspath(jobs)
        # What begins with a dash would be an option.
        args = [os.path.join(".", path) if path.startswith("-") else path]
    else:
        listed = [jobs] if isinstance(jobs, Job) else list(jobs)
        for job in listed:
            if not isinstance(job, Job):
                raise TypeError(f"found {type(job).__name__} among the jobs, expected Job")
        args = [argument for job in listed for argument in job.arguments()]
    options = [(option, _text(value)) for option, value in (replace or {}).items()]
    return {"args": args, "text": text, "replace": options}
