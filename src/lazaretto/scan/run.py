"""A scan from beginning to end: read, judge in chunks, compare, report. Read-only, and it may be killed at any time."""

from __future__ import annotations

import logging
import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from typing import Any, Protocol

from lazaretto.errors import MissingExtra, ModelUnavailable
from lazaretto.scan.contradictions import Contradiction, StoreClaims, contradictions
from lazaretto.scan.judge import Journal, JudgedText, ScanSettings, digest_of, judge_texts
from lazaretto.scan.records import CONTRADICTING, NOT_JUDGED, Accepted, Hit, Level, ScanFinding, ScanRecord, Source

_FEW, _MOST_WORKERS = 2_000, 8
"""Texts that are not worth more than one process, and the most processes that are started unasked."""
CHUNK = 64
"""Records that are judged together; a kill loses the work under way, at most a chunk per worker."""
Progress = Callable[[str, int, int | None], None]
"""Is called with the step (``judging``, ``comparing``), how many more records, and of how many, if known."""


@dataclass
class ScanReport:
    """The result of a scan. It holds nothing that depends on the machine or the time, so that two scans compare."""

    target: str
    records: int = 0
    findings: list[ScanFinding] = field(default_factory=list)
    """Findings in the order of the store; contradictions last."""
    skipped_files: int = 0
    unreadable: list[str] = field(default_factory=list)
    judged_before: int = 0
    """Taken from the journal of a scan that did not end; not part of the report."""
    skipped_folders: list[str] = field(default_factory=list)
    """Folders of packages and tools, which are not looked into."""
    accepted: list[Accepted] = field(default_factory=list)
    """Findings that were accepted earlier; they count for nothing else."""

    def of(self, *levels: Level) -> list[ScanFinding]:
        """Findings of some levels."""
        return [finding for finding in self.findings if finding.level in levels]

    @property
    def complete(self) -> bool:
        """Whether there was something to read, and all of it was read."""
        return bool(self.records) and not self.unreadable

    @property
    def unjudged(self) -> list[ScanFinding]:
        """Parts that were read and could not be judged."""
        return [finding for finding in self.findings if finding.kind == NOT_JUDGED]

    @property
    def clean(self) -> bool:
        """Whether everything was read and judged and nothing was found; other notes do not count."""
        return self.complete and not self.unjudged and not self.of(Level.ERROR, Level.WARNING)


Chunk = list[tuple[str, bool]]


class Judges(Protocol):
    """Judges chunks: in this process, in several, or on several machines. Answers may be waited for in order."""

    ahead: int
    """Chunks to hand out before the first answer is waited for."""

    def submit(self, chunk: Chunk) -> Callable[[], list[JudgedText]]:
        """Begin a chunk; the answer comes when it is called for."""


class Here:
    """Judges in this process."""

    ahead = 1

    def __init__(self, settings: ScanSettings) -> None:
        self._settings = settings

    def submit(self, chunk: Chunk) -> Callable[[], list[JudgedText]]:
        """Judged when the answer is asked for."""
        return lambda: judge_texts(chunk, self._settings)


class Pool:
    """Judges in several processes with one thread each."""

    def __init__(self, settings: ScanSettings, workers: int) -> None:
        self._settings, self.ahead = settings, 2 * workers
        # spawned, not forked: a child that inherits a loaded runtime hangs
        self._pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_one_thread)

    def submit(self, chunk: Chunk) -> Callable[[], list[JudgedText]]:
        """Begin a chunk in a worker."""
        future: Future[list[JudgedText]] = self._pool.submit(judge_texts, chunk, self._settings)
        return future.result

    def close(self) -> None:
        """End the workers."""
        self._pool.shutdown(cancel_futures=True)


def _one_thread() -> None:
    os.environ["OMP_NUM_THREADS"] = "1"


class Growing:
    """Judges in this process, and from some thousand texts on in one per core: a small store needs no others."""

    def __init__(self, settings: ScanSettings) -> None:
        self._settings, self._here = settings, Here(settings)
        self._texts = 0
        self._pool: Pool | None = None
        self.ahead = self._here.ahead

    def submit(self, chunk: Chunk) -> Callable[[], list[JudgedText]]:
        """Begin a chunk, here or in a worker."""
        self._texts += len(chunk)
        cores = min(_MOST_WORKERS, os.cpu_count() or 1)
        if self._pool is None and self._texts > _FEW and cores > 1:
            self._pool = Pool(self._settings, cores)
            self.ahead = self._pool.ahead
        return (self._pool or self._here).submit(chunk)

    def close(self) -> None:
        """End the workers, if there are any."""
        if self._pool is not None:
            self._pool.close()


class Ray:
    """Judges on a Ray cluster: the one of ``RAY_ADDRESS``, else one on this machine."""

    def __init__(self, settings: ScanSettings) -> None:
        try:
            import ray
        except ImportError:
            raise MissingExtra("a scan on several machines", "ray") from None
        self._ray = ray
        if not ray.is_initialized():
            ray.init(include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
        held = ray.cluster_resources()
        self.ahead = max(2, 2 * int(held.get("CPU", 1)))
        self._judge = ray.remote(num_cpus=1)(judge_texts)
        self._settings = ray.put(settings)

    def submit(self, chunk: Chunk) -> Callable[[], list[JudgedText]]:
        """Begin a chunk somewhere."""
        reference = self._judge.remote(chunk, self._settings)
        return lambda: self._got(reference)

    def _got(self, reference: Any) -> list[JudgedText]:
        try:
            judged: list[JudgedText] = self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            last = str(error).strip().splitlines()[-1]
            raise ModelUnavailable(f"a judge on the Ray cluster failed: {last}") from None
        return judged

    def close(self) -> None:
        """Leave the cluster."""
        self._ray.shutdown()


@contextmanager
def judges(settings: ScanSettings, workers: int = 1, *, ray: bool = False) -> Iterator[Judges]:
    """Judges for a scan, closed at the end; 0 workers: as many as the store is worth."""
    if not ray and workers == 1:
        yield Here(settings)
        return
    several = Ray(settings) if ray else Pool(settings, workers) if workers else Growing(settings)
    try:
        yield several
    finally:
        several.close()


def scan(
    source: Source, settings: ScanSettings, jury: Judges, journal: Journal | None = None,
    progress: Progress = lambda _what, _more, _of: None,
) -> ScanReport:  # fmt: skip
    """Judge every record of a source."""
    report = ScanReport(source.name)
    total, kept = source.count(), StoreClaims()
    with closing(kept):
        for part, judged, before in _judged(source, jury, journal):
            report.judged_before += before
            for record, digest in part:
                report.records += 1
                report.findings += [_finding(record, hit) for hit in judged[digest].hits]
                _keep(kept, record, digest, judged[digest])
            progress("judging", len(part), total)
        report.skipped_files, report.unreadable = source.tally.skipped_files, source.tally.unreadable
        report.skipped_folders = source.tally.skipped_folders
        if settings.contradictions:
            report.findings += map(_contradicting, contradictions(kept, lambda n: progress("comparing", n, None)))
    return report


def _keep(kept: StoreClaims, record: ScanRecord, digest: bytes, judged: JudgedText) -> None:
    """Have the claims of a text compared at the end; a poisoned text is reported as such instead."""
    if judged.claims and not any(hit.level is Level.ERROR for hit in judged.hits):
        where = partial(_line, record, record.text)
        kept.add(digest, record.text, judged.claims, record.id, record.place, where)


def _contradicting(contradiction: Contradiction) -> ScanFinding:
    new, old = contradiction.new, contradiction.old
    quote, known = (" ".join(claim.quote.split())[:120] for claim in (new, old))
    words = f"Contradicts {old.record} in {contradiction.differs_in}: “{quote}” against “{known}”"
    return ScanFinding(new.record, new.place, new.line, CONTRADICTING, "contradicts", Level.WARNING, words,
                   contradiction.strength, old.record, old.place, old.line)  # fmt: skip


_Part = list[tuple[ScanRecord, bytes]]


def _judged(
    source: Source, jury: Judges, journal: Journal | None
) -> Iterator[tuple[_Part, dict[bytes, JudgedText], int]]:
    """Parts of the source in order, with the result of each text and how many were judged by an earlier run."""
    waiting: deque[tuple[_Part, dict[bytes, JudgedText], list[bytes], Callable[[], list[JudgedText]] | None]] = deque()

    def finish() -> tuple[_Part, dict[bytes, JudgedText], int]:
        part, known, fresh, answer = waiting.popleft()
        before = sum(digest in known for _, digest in part) if journal is not None and journal.resumed else 0
        if answer is not None:
            judged = dict(zip(fresh, answer(), strict=True))
            if journal is not None:
                journal.keep(judged)
            known |= judged
        return part, known, before

    for part in _parts(source.records()):
        texts = {digest: (record.text, record.instructions) for record, digest in part}
        known = journal.known(list(texts)) if journal is not None else {}
        fresh = [digest for digest in texts if digest not in known]
        waiting.append((part, known, fresh, jury.submit([texts[digest] for digest in fresh]) if fresh else None))
        if len(waiting) >= jury.ahead:
            yield finish()
    while waiting:
        yield finish()


def _parts(records: Iterator[ScanRecord]) -> Iterator[_Part]:
    part: _Part = []
    for record in records:
        part.append((record, digest_of(record.text, record.instructions)))
        if len(part) == CHUNK:
            yield part
            part = []
    if part:
        yield part


def _finding(record: ScanRecord, hit: Hit) -> ScanFinding:
    line = _line(record, record.text, hit.start)
    return ScanFinding(record.id, record.place, line, hit.kind, hit.rule, hit.level, hit.message, hit.risk)


def _line(record: ScanRecord, text: str, start: int) -> int | None:
    return record.line + text.count("\n", 0, start) if record.line is not None and record.verbatim else record.line
