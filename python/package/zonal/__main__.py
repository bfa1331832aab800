"""``python -m zonal``: a job file on a device, as ``zonal run`` does it in virtual time."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import zonal


def main(arguments: list[str] | None = None) -> int:
    """Returns the exit code: 1 if a job failed, 2 if anything is wrong with the input."""
    about = "Runs a job file on a device and prints fio's report. All else is in the program zonal."
    parser = argparse.ArgumentParser(prog="python -m zonal", description=about)
    parser.add_argument("jobs", type=Path, help="a job file of fio")
    parser.add_argument("--device", help=f"a device, such as {', '.join(zonal.profiles()[:3])}")
    parser.add_argument("--clock", choices=("virtual", "real"), default="virtual")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--version", action="version", version=f"zonal {zonal.__version__}")
    given = parser.parse_args(arguments)
    try:
        print(zonal.run(given.jobs, given.device, clock=given.clock, seed=given.seed))
    except zonal.JobFailed as failed:
        print(failed.result)
        print(f"zonal: {failed}", file=sys.stderr)
        return 1
    except zonal.Error as error:
        print(f"zonal: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
