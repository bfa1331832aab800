"""Sweeps: many points of a space, on the cores of this machine or on a Ray cluster.

Each point is a run of its own in virtual time, so it depends on what it runs alone. It is known by its content: a
hash of everything that the result depends on. What is known is not measured again, whatever the sweep.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from itertools import islice, product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal, Protocol

from zonal import _zonal
from zonal.analysis import ZoneWrite
from zonal.errors import Error, InputError, JobFailed
from zonal.jobs import JobOption, Jobs, raw
from zonal.progress import Raw, Report, reporting
from zonal.results import Result, frame, html_table
from zonal.runs import execute, run_options

if TYPE_CHECKING:
    import pandas

__all__ = ["Range", "Row", "Sweep", "repeat", "sweep"]

#: Axes that are no job options.
RUN_OPTIONS = ("device", "scheduler", "zone_write", "io_cost")
PERCENTILES = (50.0, 99.0, 99.9)
#: The metrics by name, and whether more is better.
METRICS = {"bandwidth": True, "iops": True} | {f"clat_p{p:g}_us": False for p in PERCENTILES}

Value = JobOption
Point = dict[str, Value]
#: Called with the metric of a point, or None if there is none.
Tell = Callable[[float | None], None]


@dataclass(frozen=True)
class Range:
    """Whole numbers from ``low`` to ``high``, for random and Bayesian search; ``log``: as many small
    ones as large ones, and ``step`` apart otherwise."""

    low: int
    high: int
    log: bool = False
    step: int = 1

    def draw(self, rng: random.Random) -> int:
        """A random one."""
        if not self.log:
            return rng.randrange(self.low, self.high + 1, self.step)
        ends = max(self.low, 1), self.high + 1
        return min(int(ends[0] * (ends[1] / ends[0]) ** rng.random()), self.high)


Space = Mapping[str, Sequence[Value] | Range]


class Task:
    """A point with all that its result depends on."""

    def __init__(self, point: Point, content: dict[str, Any], tell: Tell) -> None:
        self.point = point
        self.content = content
        self.key = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
        self.tell = tell


def _run(content: dict[str, Any], report: Raw | None) -> Result:
    options, jobs = content["options"], dict(content["jobs"])
    # JSON makes lists of pairs.
    jobs["replace"] = [(option, value) for option, value in jobs["replace"]]
    if content["profile"] is None:
        return execute(jobs, options, report)
    # The machine that runs it need not have the file.
    with TemporaryDirectory() as directory:
        path = Path(directory, Path(options["device"]).name)
        path.write_text(content["profile"], encoding="utf-8")
        return execute(jobs, options | {"device": str(path)}, report)


def _figures(content: dict[str, Any], report: Raw | None) -> dict[str, Any]:
    result = _run(content, report)
    if result.errors:
        raise JobFailed(result)
    latency = result.latency()
    found: dict[str, Any] = {"bandwidth": float(result.bandwidth), "iops": result.iops}
    return found | {f"clat_p{p:g}_us": latency.percentile(p) / 1e3 for p in PERCENTILES}


def _torture(content: dict[str, Any], report: Raw | None) -> dict[str, Any]:
    return {"report": _zonal.torture(**content["torture"], progress=report)}


def measure(content: dict[str, Any], report: Raw | None = None) -> dict[str, Any]:
    """Runs a point of a sweep, or a piece of torture. What is wrong with it is its result."""
    begun = time.monotonic()
    work, columns = (_torture, ["report"]) if "torture" in content else (_figures, list(METRICS))
    try:
        found: dict[str, Any] = {"error": None} | work(content, report)
    except Error as error:
        # Each row has each column.
        found = {"error": str(error)} | dict.fromkeys(columns)
    node = f"{os.uname().nodename}:{os.getpid()}"
    return found | {"seconds": time.monotonic() - begun, "worker": node}


class Engine(Protocol):
    """What runs points."""

    #: Points at the same time.
    workers: int

    def submit(self, content: dict[str, Any]) -> Any:
        """Begins a point. Returns a handle."""

    def wait(self, handles: list[Any]) -> list[tuple[Any, dict[str, Any]]]:
        """What has ended, after a tenth of a second at most."""

    def close(self) -> None:
        """Ends what runs."""


class _Local:
    """Threads: a run does not hold Python's lock."""

    def __init__(self, workers: int | None) -> None:
        self.workers = workers or len(os.sched_getaffinity(0))
        self._threads = ThreadPoolExecutor(self.workers)
        self._is_closed = threading.Event()

    def submit(self, content: dict[str, Any]) -> Future[dict[str, Any]]:
        def report(*_: Any) -> None:
            if self._is_closed.is_set():
                raise KeyboardInterrupt

        return self._threads.submit(measure, content, report)

    def wait(self, handles: list[Any]) -> list[tuple[Any, dict[str, Any]]]:
        done, _ = wait(handles, timeout=0.1, return_when=FIRST_COMPLETED)
        return [(handle, handle.result()) for handle in done]

    def close(self) -> None:
        self._is_closed.set()
        self._threads.shutdown(cancel_futures=True)


class _Ray:
    """Tasks of a Ray cluster. Those of a worker that died run again elsewhere."""

    def __init__(self, workers: int | None) -> None:
        ray = self._ray = _library("ray", "engine='ray' needs Ray: pip install 'zonal[ray]'")
        if not ray.is_initialized():
            if "RAY_ADDRESS" in os.environ:
                ray.init(log_to_driver=False)
            else:
                ray.init(num_cpus=workers, include_dashboard=False, log_to_driver=False)
        self.workers = workers or int(ray.cluster_resources().get("CPU", 1))
        self._measure = ray.remote(max_retries=-1)(measure)
        self._running: set[Any] = set()

    def submit(self, content: dict[str, Any]) -> Any:
        handle = self._measure.remote(content)
        self._running.add(handle)
        return handle

    def wait(self, handles: list[Any]) -> list[tuple[Any, dict[str, Any]]]:
        done, _ = self._ray.wait(handles, num_returns=len(handles), timeout=0.1)
        self._running.difference_update(done)
        return [(handle, self._ray.get(handle)) for handle in done]

    def close(self) -> None:
        for handle in self._running:
            self._ray.cancel(handle, force=True)


class _Store:
    """Rows by key: in a Parquet file, and while a sweep runs in a journal beside it."""

    def __init__(self, path: Path | None) -> None:
        self.rows: dict[str, dict[str, Any]] = {}
        self.path = path
        self._journal = path.with_name(path.name + ".journal") if path else None
        if path and path.exists():
            self._add_all(_arrow("pyarrow.parquet").read_table(path).to_pylist(), path)
        if self._journal and self._journal.exists():
            text = self._journal.read_text(encoding="utf-8")
            # A process that was killed may have left a part of a line.
            whole = text[: text.rfind("\n") + 1]
            self._add_all([json.loads(line) for line in whole.splitlines()], self._journal)
            self._journal.write_text(whole, encoding="utf-8")

    def _add_all(self, rows: list[dict[str, Any]], path: Path) -> None:
        for row in rows:
            if not isinstance(row.get("key"), str) or not isinstance(row.get("call"), str):
                raise InputError(f"{path}: found something else, expected results of a sweep")
            self.rows[row["key"]] = row

    def add(self, row: dict[str, Any]) -> None:
        self.rows[row["key"]] = row
        if self._journal:
            with self._journal.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")

    def save(self) -> None:
        if not self.path or not self._journal or not self.rows:
            return
        new = self.path.with_name(self.path.name + ".new")
        table = _arrow("pyarrow").Table.from_pylist(list(self.rows.values()))
        _arrow("pyarrow.parquet").write_table(table, new)
        new.replace(self.path)
        self._journal.unlink(missing_ok=True)


def _library(name: str, missing: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError(missing) from error


def _arrow(name: str) -> Any:
    return _library(name, "Parquet needs pyarrow: pip install 'zonal[sweep]'")


def _grid(space: Space) -> list[tuple[Point, Tell]]:
    lists: list[Sequence[Value]] = []
    for name, values in space.items():
        if isinstance(values, Range):
            raise InputError(f"space: {name}: found a Range, expected a list for search='grid'")
        lists.append(values)
    return [(dict(zip(space, values, strict=True)), lambda _: None) for values in product(*lists)]


def _random(space: Space, seed: int) -> Iterator[tuple[Point, Tell]]:
    rng = random.Random(seed)
    while True:
        point = {
            name: values.draw(rng) if isinstance(values, Range) else rng.choice(values)
            for name, values in space.items()
        }
        yield point, lambda _: None


def _bayesian(space: Space, seed: int, maximize: bool) -> Iterator[tuple[Point, Tell]]:
    optuna = _library("optuna", "search='bayesian' needs Optuna: pip install 'zonal[sweep]'")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    sampler = optuna.samplers.TPESampler(seed=seed, constant_liar=True)
    study = optuna.create_study(direction="maximize" if maximize else "minimize", sampler=sampler)

    def suggest(trial: Any, name: str, values: Sequence[Value] | Range) -> Value:
        if isinstance(values, Range):
            step = {} if values.log else {"step": values.step}
            value: Value = trial.suggest_int(name, values.low, values.high, log=values.log, **step)
        else:
            value = trial.suggest_categorical(name, list(values))
        return value

    def teller(trial: Any) -> Tell:
        def tell(value: float | None) -> None:
            state = None if value is not None else optuna.trial.TrialState.FAIL
            study.tell(trial, value, state=state)

        return tell

    while True:
        trial = study.ask()
        point = {name: suggest(trial, name, values) for name, values in space.items()}
        yield point, teller(trial)


class Row(dict[str, Any]):
    """A point of a sweep: a row of its table, with the main figures by their names."""

    @property
    def point(self) -> Point:
        """The values by the names of the axes."""
        point: Point = json.loads(self["point"])
        return point

    @property
    def bandwidth(self) -> float:
        """Bytes a second."""
        return float(self["bandwidth"])

    @property
    def iops(self) -> float:
        """I/Os a second."""
        return float(self["iops"])


@dataclass(frozen=True)
class Sweep:
    """What a sweep came to."""

    #: The metric, and whether more of it is better.
    metric: str
    maximize: bool
    #: A row for each point, in the order of the sweep: ``point``, figures or ``error``, ``key`` and
    #: ``call``, which is all that is needed to run it again.
    rows: list[Row]
    #: Points that were measured now; the others were known.
    measured: int

    @property
    def best(self) -> Row:
        """The best point; of repetitions, the first row of that with the best mean."""
        points: dict[str, list[Row]] = {}
        for row in self.rows:
            points.setdefault(row["point"], []).append(row)
        good = [rows for rows in points.values() if all(row["error"] is None for row in rows)]
        if not good:
            raise Error(f"all {len(self.rows)} points failed, the first: {self.failed[0]['error']}")

        def mean(rows: list[Row]) -> float:
            return math.fsum(row[self.metric] for row in rows) / len(rows)

        return (max if self.maximize else min)(good, key=mean)[0]

    @property
    def failed(self) -> list[Row]:
        """The points that are impossible or failed."""
        return [row for row in self.rows if row["error"] is not None]

    def _repr_html_(self) -> str:
        def shown(row: Row) -> dict[str, Any]:
            figure = row[self.metric] if row["error"] is None else row["error"]
            return {**row.point, self.metric: figure}

        return html_table([shown(row) for row in self.rows])

    def to_pandas(self) -> pandas.DataFrame:
        """A row for each point, with a column for each axis."""
        return frame([row.point | row for row in self.rows])


def repeat(row: Mapping[str, Any]) -> Result:
    """Runs a point of a sweep again: a row of :class:`Sweep` or of its Parquet file.

    >>> import zonal
    >>> job = zonal.Job("w", rw="write", bs="64k", zonemode="zbd", io_size="1m")
    >>> best = sweep({"iodepth": [1, 4]}, job, device="zns-1t").best
    >>> repeat(best).bandwidth == best.bandwidth
    True
    """
    return _run(json.loads(row["call"]), None)


def _content(
    jobs: Jobs, fixed: dict[str, Any], point: Point, replace: Mapping[str, Value]
) -> dict[str, Any]:
    """All that the result of a point depends on."""
    own = {name: value for name, value in point.items() if name in RUN_OPTIONS}
    options = run_options(**(fixed | own))
    if isinstance(jobs, os.PathLike):
        # The text and not the path: a machine of a cluster need not have the file.
        jobs = Path(jobs).read_text(encoding="utf-8")
    of_point = {name: value for name, value in point.items() if name not in RUN_OPTIONS}
    replaced = {**replace, **of_point}
    device = options["device"]
    profile = None
    if device is not None and device.endswith(".toml"):
        # What is wrong with it is the point's result.
        with suppress(InputError):
            profile = _zonal.profile_text(device)
    return {
        "zonal": _zonal.version(),
        "jobs": raw(jobs, replaced),
        "options": options,
        "profile": profile,
    }


def _mean(tell: Tell, count: int) -> Tell:
    """Tells the mean of so many figures, or None if one is missing."""
    told: list[float | None] = []

    def tell_one(figure: float | None) -> None:
        told.append(figure)
        if len(told) == count:
            figures = [figure for figure in told if figure is not None]
            tell(math.fsum(figures) / count if len(figures) == count else None)

    return tell_one


@dataclass(frozen=True)
class _Plan:
    """What a sweep measures."""

    jobs: Jobs
    #: Options of every run.
    fixed: dict[str, Any]
    metric: str
    points: Iterator[tuple[Point, Tell]]
    #: How many points there are.
    total: int
    #: Runs of each point, with one seed after the other.
    repetitions: int
    #: Job options of every run.
    replace: Mapping[str, Value]

    def tasks(self) -> Iterator[Task]:
        for point, tell in islice(self.points, self.total):
            tell = _mean(tell, self.repetitions)
            for number in range(self.repetitions):
                fixed = self.fixed | {"seed": self.fixed["seed"] + number}
                yield Task(point, _content(self.jobs, fixed, point, self.replace), tell)


def _value(text: str) -> Value:
    """A value of a file: a number where it is written as one."""
    return int(text) if text.isdecimal() else text


def _of_file(path: str | os.PathLike[str]) -> tuple[_Plan, Path | None]:
    """The plan of a file, and where the results go."""
    file = _zonal.sweep_file(path)
    name = os.fspath(path)
    if file["is_real_time"]:
        raise InputError(f"{name}: `clock`: found real, expected virtual, or the program zonal")
    space: dict[str, Sequence[Value] | Range] = {}
    for axis, values, numbers in file["axes"]:
        space[axis] = [_value(value) for value in values]
        if numbers is not None and file["search"] == "bayesian":
            low, high, step = numbers
            space[axis] = Range(low, high, step=step) if step else Range(low, high, log=True)
    metric = file["metric"] or "bandwidth"
    chosen: Iterator[tuple[Point, Tell]]
    if file["search"] == "bayesian":
        chosen = _bayesian(space, file["seed"], METRICS[metric])
    else:
        points = [dict(zip(space, map(_value, values), strict=True)) for values in file["points"]]
        chosen = ((point, lambda _: None) for point in points)
    replace: dict[str, Value] = {}
    if file["time"] is not None:
        ramp, measured = file["time"]
        replace = {"ramp_time": f"{ramp}us", "ramp_submitted": 1}
        replace |= {"runtime": f"{measured}us", "time_based": 1}
    plan = _Plan(
        jobs=file["text"] if file["path"] is None else Path(file["path"]),
        fixed={name: file[name] for name in (*RUN_OPTIONS, "seed")},
        metric=metric,
        points=chosen,
        total=file["total"],
        repetitions=file["repetitions"],
        replace=replace,
    )
    output = file["output"]
    return plan, None if output is None else Path(f"{output}.parquet")


def _drive(
    tasks: Iterator[Task], engine: Engine, store: _Store, metric: str, seen: list[str]
) -> Iterator[Task]:
    """Keeps the engine busy. Yields each point that was measured."""
    running: dict[Any, list[Task]] = {}
    by_key: dict[str, list[Task]] = {}
    while True:
        while len(running) < engine.workers and (task := next(tasks, None)) is not None:
            seen.append(task.key)
            if task.key in store.rows:
                task.tell(store.rows[task.key].get(metric))
            elif task.key in by_key:
                by_key[task.key].append(task)
            else:
                same = by_key[task.key] = [task]
                running[engine.submit(task.content)] = same
        if not running:
            return
        for handle, found in engine.wait(list(running)):
            same = running.pop(handle)
            task = same[0]
            del by_key[task.key]
            call = json.dumps(task.content, sort_keys=True)
            row = {"key": task.key, "point": json.dumps(task.point)} | found | {"call": call}
            store.add(row)
            for each in same:
                each.tell(found.get(metric))
            yield task


@dataclass(frozen=True)
class Work:
    """Tasks, how many they are, and the figure that each is told."""

    tasks: Iterator[Task]
    total: int
    metric: str


def carry_out(
    title: str,
    work: Work,
    engine: str | Engine,
    workers: int | None,
    out: str | os.PathLike[str] | None,
    progress: Report,
) -> tuple[list[dict[str, Any]], int]:
    """Measures what ``out`` does not have. Returns the rows of all tasks, and how many are new."""
    store = _Store(None if out is None else Path(out))
    engines: dict[str, Callable[[int | None], Engine]] = {"local": _Local, "ray": _Ray}
    if isinstance(engine, str) and engine not in engines:
        raise InputError(f"engine: found {engine!r}, expected local or ray")
    runner: Engine = engines[engine](workers) if isinstance(engine, str) else engine
    seen: list[str] = []
    measured = 0
    with reporting(progress, title) as report:
        try:
            done = _drive(work.tasks, runner, store, work.metric, seen)
            for measured, task in enumerate(done, 1):
                if report is not None:
                    point = json.dumps(task.point)
                    report(len(seen) / work.total, len(seen), work.total, point)
        finally:
            runner.close()
            store.save()
    return [store.rows[key] for key in dict.fromkeys(seen)], measured


def _of_arguments(
    space: Space,
    *,
    jobs: Jobs | None,
    metric: str | None,
    search: str | None,
    points: int | None,
    seed: int | None,
    repetitions: int | None,
    **fixed: Any,
) -> _Plan:
    """The plan of what ``sweep`` was called with."""
    metric, search, seed = metric or "bandwidth", search or "grid", seed or 0
    repetitions = 1 if repetitions is None else repetitions
    if jobs is None:
        raise InputError("jobs: found none, expected jobs")
    if metric not in METRICS:
        near = ", ".join(METRICS)
        raise InputError(f"metric: found {metric!r}, expected one of {near}")
    if repetitions < 1:
        raise InputError(f"repetitions: found {repetitions}, expected 1 or more")
    if not space or any(not isinstance(v, Range) and len(v) == 0 for v in space.values()):
        raise InputError("space: expected at least one axis, and a value on each")
    chosen: Iterator[tuple[Point, Tell]]
    if search == "grid":
        every = _grid(space)
        chosen, total = iter(every), min(len(every), points or len(every))
    elif search in ("random", "bayesian"):
        if points is None:
            raise InputError(f"points: expected a number for search={search!r}")
        bayesian = search == "bayesian"
        chosen = _bayesian(space, seed, METRICS[metric]) if bayesian else _random(space, seed)
        total = points
    else:
        raise InputError(f"search: found {search!r}, expected grid, random or bayesian")
    return _Plan(
        jobs=jobs,
        fixed=fixed | {"seed": seed},
        metric=metric,
        points=chosen,
        total=total,
        repetitions=repetitions,
        replace={},
    )


def sweep(
    space: Space | str | os.PathLike[str],
    jobs: Jobs | None = None,
    *,
    metric: str | None = None,
    search: Literal["grid", "random", "bayesian"] | None = None,
    points: int | None = None,
    device: str | None = None,
    scheduler: str | None = None,
    zone_write: ZoneWrite | None = None,
    io_cost: int | str | None = None,
    seed: int | None = None,
    repetitions: int | None = None,
    engine: Literal["local", "ray"] | Engine = "local",
    workers: int | None = None,
    out: str | os.PathLike[str] | None = None,
    progress: Report = None,
) -> Sweep:
    """Runs jobs in virtual time at many points of a space, or those of a file such as ``sweep.toml``.

    ``space`` has by name the values of a job option, or of ``device``, ``scheduler``, ``zone_write`` or
    ``io_cost``: a list, or a :class:`Range`. ``search`` takes all combinations, or ``points`` random
    ones, or ``points`` that Optuna chooses to make ``metric`` good: bandwidth, iops (more is better),
    clat_p50_us, clat_p99_us, clat_p99.9_us (less is). ``repetitions`` runs each point with so many seeds,
    from ``seed`` on.

    ``out`` is a Parquet file that keeps the results; what it has already is not measured again. A point
    that is impossible records its error, and the sweep goes on. ``engine="ray"`` runs it on the Ray
    cluster of ``RAY_ADDRESS``, or on one of this machine.

    >>> import zonal
    >>> job = zonal.Job("w", rw="write", bs="1m", zonemode="zbd", io_size="64m", iodepth=8)
    >>> found = sweep({"zone_write": ["plug", "qd1"]}, job, device="smr-30t")
    >>> [row.point for row in found.rows]
    [{'zone_write': 'plug'}, {'zone_write': 'qd1'}]
    """
    arguments: dict[str, Any] = {
        "jobs": jobs,
        "metric": metric,
        "search": search,
        "points": points,
        "device": device,
        "scheduler": scheduler,
        "zone_write": zone_write,
        "io_cost": io_cost,
        "seed": seed,
        "repetitions": repetitions,
    }
    if isinstance(space, (str, os.PathLike)):
        for name, value in arguments.items():
            if value is not None:
                file = os.fspath(space)
                raise InputError(f"{name}: found {file} as well, expected it to say what is measured")
        plan, output = _of_file(space)
    else:
        plan, output = _of_arguments(space, **arguments), None
    work = Work(plan.tasks(), plan.total * plan.repetitions, plan.metric)
    rows, measured = carry_out("sweep", work, engine, workers, output if out is None else out, progress)
    return Sweep(plan.metric, METRICS[plan.metric], [Row(row) for row in rows], measured)
