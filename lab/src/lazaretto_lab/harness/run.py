"""Running an experiment: what is finished is kept, what is not is done, here, in several processes or on Ray."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lazaretto.errors import InputError, MissingExtra
from lazaretto_lab.harness.context import Outcome, Progress, UnitResult
from lazaretto_lab.harness.experiment import Experiment, Unit, units
from lazaretto_lab.harness.results import ResultFolder
from lazaretto_lab.harness.runners import find_runner
from lazaretto_lab.harness.unit import Job, do_job, finished, read_progress

POLL_SECONDS = 0.3


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How to run an experiment."""

    out: Path = Path("runs")
    seeds: int | None = None
    """First so many seeds of each row instead of what the file says."""
    rows: str = ""
    """Only rows with this text in their name."""
    workers: int = 1
    ray: bool = False
    """Spread units over a Ray cluster (or local Ray workers) instead of local processes."""
    retry_void: bool = False
    """Do units again that ended void before."""


@dataclass(slots=True)
class RunCallbacks:
    """What a run tells whoever watches it; the defaults are silent."""

    started: Callable[[int, int], None] = field(default=lambda finished, total: None)
    unit_done: Callable[[UnitResult], None] = field(default=lambda result: None)
    unit_progress: Callable[[Unit, float, str], None] = field(default=lambda unit, share, note: None)


def run_experiment(
    experiment: Experiment, options: RunOptions, callbacks: RunCallbacks | None = None
) -> Counter[Outcome]:
    """Do what is not done yet and count the outcomes of all units.

    Every finished unit is on disk before the next is reported, so an interruption costs only the units in flight, and
    those find their work folder again.
    """
    if options.workers < 1:
        raise InputError("workers", f"{options.workers} is not a number of workers", "Use 1 or more")
    if options.seeds is not None and options.seeds < 1:
        raise InputError("seeds", f"{options.seeds} is not a number of seeds", "Use 1 or more")
    callbacks = callbacks or RunCallbacks()
    find_runner(experiment.runner)  # a wrong name is one clear error here, not a void in every unit
    folder = ResultFolder(options.out, experiment.name)
    work = {unit.key: unit for unit in units(experiment, options.seeds) if options.rows in unit.row}
    if not work:
        names = ", ".join(row.name for row in experiment.expanded_rows())
        raise InputError("rows", f"no row of {experiment.name} has {options.rows!r} in its name", f"There are {names}")
    outcomes: dict[str, Outcome] = {}
    with folder.run_lock():
        for unit in work.values():
            known = folder.read(unit)
            if known is not None and not (options.retry_void and known.outcome is Outcome.VOID):
                outcomes[unit.key] = known.outcome
        callbacks.started(len(outcomes), len(work))
        jobs = [
            Job(unit, experiment.held_when, folder.workdir(unit.key))
            for unit in work.values()
            if unit.key not in outcomes
        ]
        for result in _results(jobs, options, callbacks):
            folder.write(result)
            outcomes[result.unit] = result.outcome
            callbacks.unit_done(result)
    return Counter(outcomes.values())


def _results(jobs: Sequence[Job], options: RunOptions, callbacks: RunCallbacks) -> Iterator[UnitResult]:
    if options.ray:
        return _on_ray(jobs, options.workers, callbacks)
    if options.workers > 1:
        return _in_processes(jobs, options.workers, callbacks)
    return _here(jobs, callbacks)


def _here(jobs: Sequence[Job], callbacks: RunCallbacks) -> Iterator[UnitResult]:
    for job in jobs:

        def say(share: float, note: str = "", unit: Unit = job.unit) -> None:
            callbacks.unit_progress(unit, share, note)

        progress: Progress = say
        yield do_job(job, progress)


def _in_processes(jobs: Sequence[Job], workers: int, callbacks: RunCallbacks) -> Iterator[UnitResult]:
    """Spread jobs over processes.

    When a process dies (out of memory, a crash in C) the pool cannot say whose fault it was: all jobs that were in
    flight get one more chance, each alone, and one that dies alone is void.
    """
    waiting = list(reversed(jobs))
    suspects: list[Job] = []
    while waiting or suspects:
        alone = [] if waiting else [suspects.pop()]
        flying: dict[Future[UnitResult], Job] = {}
        try:
            yield from _through_pool(list(alone) or waiting, flying, workers, callbacks)
        except BrokenProcessPool:
            for job in alone:
                yield finished(job.unit, Outcome.VOID, "its process died twice (out of memory, or a crash)")
            suspects += [] if alone else flying.values()


def _through_pool(
    queue: list[Job], flying: dict[Future[UnitResult], Job], workers: int, callbacks: RunCallbacks
) -> Iterator[UnitResult]:
    """Empty the queue through one pool of processes; what is in flight when the pool breaks is left in ``flying``."""
    before = set(multiprocessing.active_children())
    threads = max(1, (os.cpu_count() or 1) // workers)
    pool = ProcessPoolExecutor(
        workers, multiprocessing.get_context("spawn"), initializer=_begin_process, initargs=(threads,)
    )
    try:
        while queue or flying:
            while queue and len(flying) < workers:
                flying[pool.submit(do_job, queue[-1])] = queue[-1]  # a broken pool raises here and the job stays queued
                queue.pop()
            done, _ = wait(flying, timeout=POLL_SECONDS, return_when=FIRST_COMPLETED)
            for future in done:
                result = future.result()
                del flying[future]
                yield result
            _report(list(flying.values()), callbacks)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for child in set(multiprocessing.active_children()) - before:
            child.terminate()


def _begin_process(threads: int) -> None:
    """Leave interrupts to the parent, and share the cores out: numeric libraries would each take all of them."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ.setdefault("OMP_NUM_THREADS", str(threads))


def _report(jobs: Sequence[Job], callbacks: RunCallbacks) -> None:
    for job in jobs:
        callbacks.unit_progress(job.unit, *read_progress(job.workdir))


def _on_ray(jobs: Sequence[Job], workers: int, callbacks: RunCallbacks) -> Iterator[UnitResult]:
    """Spread jobs over Ray. Results come back to this process, which alone writes them."""
    try:
        import ray
    except ImportError:
        raise MissingExtra("running on Ray", "ray") from None
    own = not ray.is_initialized()
    if own:
        ray.init(num_cpus=workers, include_dashboard=False, log_to_driver=False, configure_logging=False)
    try:
        remote = ray.remote(max_retries=1)(do_job)
        waiting = list(reversed(jobs))
        flying: dict[Any, Job] = {}
        while waiting or flying:
            while waiting and len(flying) < workers:
                job = waiting.pop()
                flying[remote.remote(job)] = job
            done, _ = ray.wait(list(flying), num_returns=1, timeout=POLL_SECONDS)
            for reference in done:
                job = flying.pop(reference)
                try:
                    result = ray.get(reference)
                except ray.exceptions.RayError as error:
                    result = finished(job.unit, Outcome.VOID, f"its Ray worker failed: {type(error).__name__}")
                yield result
            _report(list(flying.values()), callbacks)
    finally:
        if own:
            ray.shutdown()
