"""``lazaretto screen``: judge memories, one text or a whole file, without a store."""

from __future__ import annotations

import math
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import orjson
import typer

from lazaretto.cli.common import (
    EXIT_FLAGGED,
    EXIT_USAGE,
    JsonFlag,
    console,
    emit,
    errors,
    plain_errors,
    print_plain,
    progress_bar,
    standard_input,
)
from lazaretto.cli.guard import TextArgument, TextOption, one_text
from lazaretto.errors import InputError
from lazaretto.ingest.raw_input import RawInput, read_observation
from lazaretto.ledger import Ledger, seen_draft
from lazaretto.policy import DEFAULT_TRUST, Limits
from lazaretto.provenance.drawing.labels import showable
from lazaretto.provenance.graph import ProvenanceGraph
from lazaretto.reports import spelled, spelled_json
from lazaretto.types import Channel, Observation, Ruling, Verdict, new_id, plain

if TYPE_CHECKING:
    from lazaretto.gates.memory.gate import MemoryGate

BATCH = 64
MAX_LINE = 4_000_000
_FIELDS = ("state", "context", "action", "tags", "meta")
_LINE_FIELDS = {"id", "text", "agent", "source", "parents", "time", "fields", "channel", "memories", *_FIELDS}


@dataclass(frozen=True, slots=True)
class _Line:
    number: int
    observation: Observation
    memories: tuple[Observation, ...] = ()


def read_line(raw: bytes, number: int, seen: set[str]) -> _Line:
    """One line of the input as an observation; ``InputError`` explains a wrong one."""
    if len(raw) > MAX_LINE:
        raise InputError(f"line {number}", f"is longer than {MAX_LINE:,} bytes", "Split the memory")
    try:
        data = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise InputError(f"line {number}", f"is not JSON: {error}", "One JSON object per line") from None
    if not isinstance(data, dict):
        raise InputError(f"line {number}", "is not a JSON object", 'For example {"id": "m1", "text": "..."}')
    unknown = sorted(set(data) - _LINE_FIELDS)
    if unknown:
        raise InputError(f"line {number}", f"unknown field {unknown[0]!r}", f"Use {', '.join(sorted(_LINE_FIELDS))}")
    item = data.get("id")
    if not isinstance(item, str) or not item:
        raise InputError(f"line {number}: id", "is missing or not text", "Give every memory an id")
    if item in seen:
        raise InputError(f"line {number}: id", f"{item!r} stands in the file twice", "Ids must differ")
    parents = data.get("parents") or []
    if isinstance(parents, list) and item in parents:
        raise InputError(f"line {number}: parents", f"{item!r} is its own ancestor", "Name what it was made from")
    return _Line(number, _observation(data, item, parents, number), read_memories(data.get("memories"), number))


def _observation(data: dict[str, Any], item: str, parents: Any, number: int) -> Observation:
    given = {name: data[name] for name in _FIELDS if name in data}
    fields = data.get("fields") or given or None
    clock = data.get("time")
    if clock is not None and not (isinstance(clock, (int, float)) and math.isfinite(clock)):
        raise InputError(f"line {number}: time", f"is {clock!r}", "Give seconds since the epoch")
    try:
        raw = RawInput(
            data.get("agent") or "unknown", data.get("channel") or Channel.MEMORY, data.get("text") or "", None, fields,
            parents, data.get("source"), clock,
        )  # fmt: skip
        made = read_observation(raw, "screen", Limits())
    except InputError as error:
        raise InputError(f"line {number}: {error.field}", error.problem, error.fix) from None
    return Observation(
        made.agent, made.channel, made.text, fields=made.fields, parents=made.parents, source=made.source,
        namespace=made.namespace, time=made.time, id=item,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Judged:
    verdict: Verdict
    relation: str
    memories: list[int]
    """The numbers of the memories it stands in that relation to."""
    ms: float


class BatchScreening:
    """Judges observations in batches; models are loaded when the first observation of a kind comes."""

    def __init__(self) -> None:
        self._text: Any = None
        self._records: Any = None
        self._rooms = Rooms()

    def close(self) -> None:
        """Let go of the memories that lines brought."""
        self._rooms.close()

    def judge_lines(self, lines: list[_Line]) -> list[_Judged]:
        """Each line's verdict, with the relation to its memories."""
        judged = []
        for line, (verdict, ms) in zip(lines, self.judge([line.observation for line in lines]), strict=True):
            started = time.perf_counter()
            compared = self._rooms.compare(self._gate(), verdict, line.observation, line.memories)
            judged.append(_Judged(*compared, ms + (time.perf_counter() - started) * 1000))
        return judged

    def judge(self, observations: list[Observation]) -> list[tuple[Verdict, float]]:
        """The verdict on each by itself, and its milliseconds."""
        found: dict[str, tuple[Verdict, float]] = {}
        for kind, chosen in (
            (self._judge_records, [o for o in observations if o.fields is not None]),
            (self._judge_texts, [o for o in observations if o.text]),
        ):
            started = time.perf_counter()
            verdicts = kind(chosen) if chosen else []
            ms = (time.perf_counter() - started) * 1000 / max(len(chosen), 1)
            for observation, verdict in zip(chosen, verdicts, strict=True):
                before = found.get(observation.id)
                worse = before is None or (verdict.ruling, verdict.risk) > (before[0].ruling, before[0].risk)
                found[observation.id] = (
                    verdict if worse or before is None else before[0],
                    ms + (before[1] if before else 0),
                )
        return [found[o.id] for o in observations]

    def _judge_texts(self, observations: list[Observation]) -> list[Verdict]:
        from lazaretto.gates.memory.text_screener import shared_screener

        gate = self._gate()
        screened = shared_screener().screen([o.text for o in observations])
        return [gate.judge(o, score) for o, score in zip(observations, screened, strict=True)]

    def _gate(self) -> Any:
        from lazaretto.gates.memory.gate import make

        self._text = self._text or make({})
        return self._text

    def _judge_records(self, observations: list[Observation]) -> list[Verdict]:
        from lazaretto.gates.memory.gate import record_verdict
        from lazaretto.gates.memory.record_model import shared_model
        from lazaretto.gates.memory.record_watch import RecordScreener, embed_fields, stated_success

        self._records = self._records or RecordScreener(shared_model())
        vectors = embed_fields([o.fields for o in observations if o.fields is not None])
        agents, names = [o.agent for o in observations], [o.id for o in observations]
        parents, success = [o.parents for o in observations], [stated_success(o) for o in observations]
        judged = self._records.screen_many(agents, vectors, names, parents, success)
        return [record_verdict(o, score, Ruling.QUARANTINE) for o, score in zip(observations, judged, strict=True)]


def _answer(judged: _Judged) -> dict[str, Any]:
    verdict = judged.verdict
    return {
        "id": verdict.subject,
        "risk": round(verdict.risk, 6),
        "interval": [round(b, 6) for b in verdict.interval],
        "ruling": verdict.ruling.label,
        "allowed": verdict.ruling <= Ruling.WARN,
        "rule": verdict.rule,
        "reasons": [evidence.summary for evidence in verdict.evidence],
        "evidence": plain(verdict.evidence),
        "relation": judged.relation,
        "with": judged.memories,
        "ms": round(judged.ms, 3),
    }


class _Ancestry:
    """Parents of the memories in a file, to find a memory that would be its own ancestor by way of others."""

    def __init__(self) -> None:
        self._parents: dict[str, tuple[str, ...]] = {}
        self._named: set[str] = set()

    def take(self, line: _Line) -> None:
        """Add a line; ``InputError`` where it closes a ring."""
        item, parents = line.observation.id, line.observation.parents
        if item in self._named:  # else nobody before it can lead back to it
            above, seen = list(parents), set(parents)
            while above:
                ancestor = above.pop()
                if ancestor == item:
                    raise InputError(
                        f"line {line.number}: parents", f"{item!r} is its own ancestor", "Name what it was made from"
                    )
                new = [p for p in self._parents.get(ancestor, ()) if p not in seen]
                seen.update(new)
                above += new
        self._parents[item] = parents
        self._named.update(parents)


def _batches(lines: BinaryIO, faults: list[str]) -> Iterator[list[_Line]]:
    seen: set[str] = set()
    ancestry = _Ancestry()
    batch: list[_Line] = []
    for number, raw in enumerate(lines, 1):
        if not raw.strip():
            continue
        try:
            line = read_line(raw, number, seen)
            ancestry.take(line)
        except InputError as error:
            faults.append(str(error))
            continue
        seen.add(line.observation.id)
        batch.append(line)
        if len(batch) == BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


@plain_errors
def screen(
    words: TextArgument = None,
    text: TextOption = "",
    batch: Annotated[Path | None, typer.Option("--batch", help="Memories, one JSON object per line.")] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Where the verdicts go; default: standard output.")] = None,
    source: Annotated[
        str | None, typer.Option("--source", help="Source class of the text, for example direct_user.")
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Judge again what --out holds already.")] = False,
    json: JsonFlag = False,
) -> None:
    """Judge memories: does a text order an agent about, does it contradict known memories? Nothing is stored.

    A line of a file may bring "memories" of its own; it is judged as if those had been remembered before it.

    Exit code 1 when something should not be used, 2 when a line of the file was unusable (the others are judged).
    """
    content: str | bytes = one_text(words, text)
    if bool(content) == (batch is not None):
        raise InputError("screen", "needs either a text or --batch", "For example: lazaretto screen 'a note'")
    if content == "-":
        content = standard_input(Limits().max_text_bytes)
    if batch is None:
        made = read_observation(RawInput("unknown", Channel.MEMORY, content, source=source), "screen", Limits())
        with closing(BatchScreening()) as screening:
            judged = screening.judge_lines([_Line(0, made)])[0]
        verdict = judged.verdict
        emit(_answer(judged), json, lambda: _show(verdict))
        raise typer.Exit(EXIT_FLAGGED if verdict.ruling > Ruling.WARN else 0)
    counts, faults, already = screen_file(batch, out, fresh=fresh)
    summary = {"judged": sum(counts.values()), "already": already, "rulings": counts, "unusable": faults}
    if out is not None:
        summary_line = ", ".join(f"{count:,} {word}" for word, count in counts.items()) or "nothing"
        before = f" ({already:,} of them before)" if already else ""
        words = f"judged {summary['judged']:,} memories{before}: {summary_line}; verdicts in {out}"
        emit(summary, json, lambda: print_plain(words))
    for fault in faults:
        if not json:
            errors.print(f"error {spelled(fault)}", markup=False, highlight=False)
        elif out is None:  # among the verdicts, which are JSON lines
            error = {"type": "InputError", "message": fault, "exit_code": EXIT_USAGE}
            typer.echo(spelled_json(orjson.dumps({"error": error}).decode()))
    if faults:
        raise typer.Exit(EXIT_USAGE)
    if any(Ruling.from_label(word) > Ruling.WARN for word in counts):
        raise typer.Exit(EXIT_FLAGGED)


def screen_file(batch: Path, out: Path | None, *, fresh: bool = False) -> tuple[dict[str, int], list[str], int]:
    """Judge the lines of a file in order; lines that an interrupted run has judged are not judged again."""
    faults: list[str] = []
    try:
        done = {} if out is None or fresh else _written(out)
        counts = dict(Counter(done.values()))
        mode = "ab" if done else "wb"
        with (
            closing(BatchScreening()) as screening,
            batch.open("rb") as lines,
            out.open(mode) if out else open(sys.stdout.fileno(), "wb", closefd=False) as to,
            progress_bar(out is None) as bar,
        ):
            task = bar.add_task("judging", total=None)
            for part in _batches(lines, faults):
                # structured memories are evidence for those after them, so they are read again
                waiting = [
                    line for line in part if line.observation.id not in done or line.observation.fields is not None
                ]
                for judged in screening.judge_lines(waiting) if waiting else ():
                    if judged.verdict.subject in done:
                        continue
                    label = judged.verdict.ruling.label
                    counts[label] = counts.get(label, 0) + 1
                    to.write(orjson.dumps(_answer(judged)) + b"\n")
                to.flush()
                bar.update(task, advance=len(part))
    except OSError as error:
        raise InputError("file", f"{error.filename} cannot be used ({error.strerror})", "Check the path") from None
    return counts, faults, len(done)


def _written(out: Path) -> dict[str, str]:
    """Ids and rulings of the whole lines that an output holds; a line that a crash cut off is removed."""
    if not out.exists():
        return {}
    found: dict[str, str] = {}
    whole = 0
    with out.open("r+b") as file:
        for line in file:
            if not line.endswith(b"\n"):
                break
            try:
                verdict = orjson.loads(line)
                found[verdict["id"]] = Ruling.from_label(verdict["ruling"]).label
            except (orjson.JSONDecodeError, KeyError, TypeError, ValueError):
                raise InputError("out", f"{out} holds something that is not a verdict", "Name another file") from None
            whole += len(line)
        file.truncate(whole)
    return found


def _show(verdict: Verdict) -> None:
    colour = "green" if verdict.ruling <= Ruling.WARN else "red"
    console.print(
        f"[bold {colour}]{verdict.ruling.label}[/]  rule {verdict.rule}, risk {verdict.risk:.2f}", highlight=False
    )
    for evidence in verdict.evidence:
        print_plain(f"- {showable(evidence.summary)}")


# ``lazaretto screen`` where a line brings memories: it is judged as if those had been remembered before it.

MAX_MEMORIES = 1_000
_MEMORY_FIELDS = {"text", "source", "agent"}


def read_memories(given: Any, number: int) -> tuple[Observation, ...]:
    """The memories of a line; ``InputError`` names the line, the memory and the field."""
    if given is None:
        return ()
    if not isinstance(given, list) or len(given) > MAX_MEMORIES:
        raise InputError(
            f"line {number}: memories", "is not a list of at most 1,000 memories", 'For example [{"text": "..."}]'
        )
    return tuple(_memory(entry, f"line {number}: memories[{place}]", place) for place, entry in enumerate(given))


def _memory(given: Any, where: str, place: int) -> Observation:
    if not isinstance(given, dict):
        raise InputError(where, "is not a JSON object", 'For example {"text": "...", "source": "direct_user"}')
    unknown = sorted(set(given) - _MEMORY_FIELDS)
    if unknown:
        raise InputError(where, f"unknown field {unknown[0]!r}", f"Use {', '.join(sorted(_MEMORY_FIELDS))}")
    text = given.get("text")
    if not isinstance(text, str) or not text:
        raise InputError(f"{where}.text", "is missing or not text", "Give what was remembered")
    try:
        # writers that are not named are different ones: nobody is taken for the maker of another's claim
        raw = RawInput(given.get("agent") or f"unnamed-{place}", Channel.MEMORY, text, source=given.get("source"))
        return read_observation(raw, "screen", Limits())
    except InputError as error:
        raise InputError(f"{where}.{error.field}", error.problem, error.fix) from None


class Rooms:
    """A store for the time of one command, with a namespace for each line that brings memories."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="lazaretto-screen-")
        self._ledger: Ledger | None = None
        self._count = 0

    def close(self) -> None:
        """Delete the temporary store."""
        if self._ledger is not None:
            self._ledger.close()
        self._folder.cleanup()

    def compare(
        self, gate: MemoryGate, verdict: Verdict, new: Observation, memories: tuple[Observation, ...]
    ) -> tuple[Verdict, str, list[int]]:
        """The verdict with the evidence of the memories, the relation, and the memories it is to."""
        from lazaretto.gates.memory.claims.conflicts import claim_evidence, with_claims

        settings, trust = gate.settings.claims, DEFAULT_TRUST.table()
        if not new.text:
            return verdict, "none", []
        if not memories:
            return with_claims(verdict, gate.claims.judge_alone(new, trust), settings), "none", []
        self._count += 1
        if self._ledger is None:
            self._ledger = Ledger.open(f"sqlite:///{Path(self._folder.name) / 'ledger.db'}")
        ledger = self._ledger.within(f"line-{self._count}")
        kept = [replace(memory, id=new_id(), namespace=ledger.namespace) for memory in memories]
        ledger.append([seen_draft(memory) for memory in kept])
        for memory in kept:
            gate.claims.reader.keep(ledger, memory.id, memory.text)
        graph = ProvenanceGraph(ledger)
        screened = replace(new, parents=(), namespace=ledger.namespace)
        judged = gate.claims.judge(screened, ledger, graph, trust, name_agreeing=True)
        place = {memory.id: number for number, memory in enumerate(kept)}
        found = with_claims(verdict, judged, settings)
        relation = claim_evidence([found]) or {"relation": "none", "with": []}
        named = [place[item] for item in relation["with"] if item in place]
        return _renamed(found, place), str(relation["relation"]), sorted(named)


def _renamed(verdict: Verdict, place: dict[str, int]) -> Verdict:
    """The verdict in the caller's terms: memories by their numbers, not by ids that nobody else knows."""

    def renamed(value: Any) -> Any:
        if isinstance(value, str):
            for item, number in place.items():
                value = value.replace(item, f"memories[{number}]")
            return value
        if isinstance(value, (list, tuple)):
            return [renamed(part) for part in value]
        if isinstance(value, dict):
            return {renamed(key): renamed(part) for key, part in value.items()}
        return value

    evidence = tuple(
        replace(evidence, summary=renamed(evidence.summary), data=renamed(dict(evidence.data)))
        for evidence in verdict.evidence
    )
    return replace(verdict, evidence=evidence)
