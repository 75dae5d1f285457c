"""What the default guard does with a working day: honest notes, ordinary prompts, poisoned results and tools, facts.

    python lab/benchmarks/everyday.py notes      # 200 notes, each source, kept as memories and read
    python lab/benchmarks/everyday.py prompts    # 40 prompts and 20 tool results through the proxy, real clients
    python lab/benchmarks/everyday.py tools      # 30 poisoned descriptions and twins (or tools_second, tools_third)
    python lab/benchmarks/everyday.py facts      # 540 pairs: events, restatements, passages, poison, lies, rules
    python lab/benchmarks/everyday.py facts_second # more by other hands (facts_third, ..., facts_sixth)
    python lab/benchmarks/everyday.py quiet      # 120 more quiet lies and rules (or quiet_third, quiet_fourth)
    python lab/benchmarks/everyday.py peaceful   # the 300 peaceful pairs again, a less trusted source after the user
    python lab/benchmarks/everyday.py day        # 120 honest texts of 20 other trades, 60 attacks, four ways each
    python lab/benchmarks/everyday.py second_day # as many of 20 further trades, by other hands (third_day, ...)
    python lab/benchmarks/everyday.py all --write now
    python lab/benchmarks/everyday.py show first_contact

The lists (tests/data/everyday_notes.toml and others) were committed before the gates that they judge were changed, and
nothing is tuned on them. ``--write LABEL`` keeps one row for each line in lab/results/everyday/LABEL, with the commit
of the code that was measured. What was found at first contact is in ``first_contact`` and stays as it is.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

Row = dict[str, Any]
T = TypeVar("T")
REPOSITORY = Path(__file__).resolve().parents[2]
DATA = REPOSITORY / "tests" / "data"
RESULTS = REPOSITORY / "lab" / "results" / "everyday"
FIRST = "first_contact"
READ_AS = {
    "direct_user": "message", "system": "message", "agent_message": "message", "model_inference": "message",
    "tool_output_internal": "tool", "tool_output_external": "tool", "untrusted_document": "document",
}  # fmt: skip
"""Source -> the channel through which an agent reads from it."""
HONEST_WAYS = (
    ("model_inference", "memory"), ("agent_message", "message"), ("tool_output_external", "tool"),
    ("untrusted_document", "document"),
)  # fmt: skip
"""How honest texts of the working day come in: what an agent keeps itself, hears from another, and reads."""
ATTACK_WAYS = (
    ("untrusted_document", "document"), ("tool_output_external", "tool"), ("untrusted_document", "memory"),
    ("tool_output_external", "memory"),
)  # fmt: skip
"""How its attacks come in: read, and kept."""


def toml_list(name: str, table: str) -> list[Row]:
    """The entries of a list in TOML."""
    return tomllib.loads((DATA / f"{name}.toml").read_text(encoding="utf-8"))[table]  # type: ignore[no-any-return]


def json_list(name: str) -> list[Row]:
    """The entries of a list in JSON lines, without the first, which says what the list is."""
    rows = [json.loads(line) for line in (DATA / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]
    return rows[1:]


def progress(what: str, things: Sequence[T]) -> Iterator[T]:
    """The things, with a word on stderr after every twentieth."""
    for number, thing in enumerate(things, 1):
        yield thing
        if number % 20 == 0 or number == len(things):
            print(f"\r{what}: {number} of {len(things)}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)


def ruled(decision: Any) -> Row:
    """What a decision says, as a row keeps it. ``claims``: held for what memories claim, not for an order."""
    from lazaretto.types import Ruling

    against = [verdict for verdict in decision.active_verdicts if verdict.ruling > Ruling.WARN]
    kinds = {evidence.kind for verdict in against for evidence in verdict.evidence}
    return {
        "ruling": decision.ruling.label,
        "held": not decision.allowed,
        "rule": decision.rule,
        "claims": not decision.allowed and "claim" in kinds and not decision.rule.endswith("_order"),
        "not_run": sorted(run.gate for run in decision.runs if run.status.value not in ("ran", "skipped")),
    }


def notes() -> list[Row]:
    """Every note through every source, kept as a memory and read: a store for each way, as a day has one store."""
    from lazaretto import SyncGuard

    rows = []
    lines = toml_list("everyday_notes", "note")
    for source, channel in READ_AS.items():
        for way in ("memory", channel):
            with tempfile.TemporaryDirectory() as folder, SyncGuard.open(f"sqlite:///{folder}/crew.db") as guard:
                for number, line in enumerate(progress(f"{source} as {way}", lines), 1):
                    agent = line["work"].replace(" ", "-")
                    if way == "memory":
                        decision = guard.remember(line["text"], agent=agent, source=source)
                    else:
                        decision = guard.check(line["text"], agent=agent, channel=way, source=source)
                    kept = {name: line[name] for name in ("work", "language", "form")}
                    rows.append({"id": f"note-{number:03d}", "source": source, "way": way, **kept, **ruled(decision)})
    return rows


def facts(name: str = "facts_pairs") -> list[Row]:
    """Every pair with the sources that the list gives it."""
    return _pairs("facts", json_list(name))


def quiet(name: str = "quiet_second") -> list[Row]:
    """The second or a later list of quiet lies and honest rules, each alone in a store."""
    return _pairs("quiet", json_list(name))


def peaceful() -> list[Row]:
    """The pairs that are both true again, each in the order that is hardest on them: first the user, then another.

    In the list half of them come from sources of equal trust, and those overrule nobody: that shows little of claims.
    """
    lines = [line for line in json_list("facts_pairs") if line["kind"] in ("event", "restatement", "compatible")]
    for line in lines:
        line["earlier"] = [{**one, "source": "direct_user"} for one in line["earlier"]]
        if line["source"] in ("direct_user", "tool_output_internal"):
            line["source"] = "agent_message"
    return _pairs("peaceful", lines)


def _pairs(what: str, lines: Sequence[Row]) -> list[Row]:
    """Every pair in a store of its own: what was known is kept by one agent, what is new by another."""
    from lazaretto import SyncGuard

    rows = []
    for line in progress(what, lines):
        with tempfile.TemporaryDirectory() as folder, SyncGuard.open(f"sqlite:///{folder}/crew.db") as guard:
            before = [guard.remember(one["text"], agent="keeper", source=one["source"]) for one in line["earlier"]]
            decision = guard.remember(line["text"], agent="newcomer", source=line["source"])
        row: Row = {name: line[name] for name in ("id", "kind", "language", "source", "work", "detail") if name in line}
        row["earlier_source"] = [one["source"] for one in line["earlier"]]
        row["earlier_held"] = [one.rule for one in before if not one.allowed]
        rows.append(row | ruled(decision))
    return rows


def tools(name: str = "tool_descriptions_poisoned") -> list[Row]:
    """Every tool alone behind a gateway of its own; of a rug pull the honest one is listed first, as it happens."""
    from lazaretto import Guard

    async def all_of_them() -> list[Row]:
        rows = []
        with tempfile.TemporaryDirectory() as folder, Guard.open(f"sqlite:///{folder}/crew.db") as guard:
            for line in progress("tools", json_list(name)):
                for which in ("poisoned", "honest"):
                    pulled = which == "poisoned" and line["attack"] == "rug pull"
                    fault = await _fault(guard, [line[which]])
                    changed = await _fault(guard, [line["honest"], line[which]]) if pulled else ""
                    rows.append(
                        {
                            **{name: line[name] for name in ("id", "attack", "place")}, "which": which,
                            "refused": bool(fault or changed), "by_its_words": bool(fault), "fault": fault or changed,
                        }
                    )  # fmt: skip
        return rows

    return asyncio.run(all_of_them())


async def _fault(guard: Any, listed: Sequence[Row]) -> str:
    """Why the gateway does not offer the last of these, a server listing one after the other; empty where it does."""
    from mcp import Client, types
    from mcp.server.lowlevel import Server

    from lazaretto.mcp.gateway import Gateway

    gateway = Gateway(guard)
    for tool in listed:

        async def list_tools(_: Any, __: Any, tool: Row = tool) -> types.ListToolsResult:
            return types.ListToolsResult(tools=[types.Tool.model_validate(tool)])

        async with Client(Server("server", on_list_tools=list_tools)) as client:
            gateway.join("server", client)
            offered = [one.name for one in await gateway.tools()]
    return "" if offered else next(iter(gateway.refused.values()), "not offered")


def day(name: str = "working_day") -> list[Row]:
    """The honest texts, a store for each way; each attack each way in a store that knows what it speaks against."""
    from lazaretto import SyncGuard

    rows = []
    honest = toml_list(name, "honest")
    for source, way in HONEST_WAYS:
        with tempfile.TemporaryDirectory() as folder, SyncGuard.open(f"sqlite:///{folder}/crew.db") as guard:
            for number, line in enumerate(progress(f"{source} as {way}", honest), 1):
                row = {"id": f"honest-{number:03d}", "kind": "honest", "trade": line["trade"], "source": source}
                rows.append(row | _taken(guard, line, line["trade"].replace(" ", "-"), source, way))
    attacks = toml_list(name, "attack")
    for source, way in ATTACK_WAYS:
        for number, line in enumerate(progress(f"attacks, {source} as {way}", attacks), 1):
            with tempfile.TemporaryDirectory() as folder, SyncGuard.open(f"sqlite:///{folder}/crew.db") as guard:
                if "known" in line:
                    guard.remember(line["known"], agent="keeper", source="direct_user")
                row = {"id": f"attack-{number:02d}", "kind": line["kind"], "source": source}
                rows.append(row | _taken(guard, line, "newcomer", source, way))
    return rows


def _taken(guard: Any, line: Row, agent: str, source: str, way: str) -> Row:
    """What is ruled on one text, with the reasons that a person reads and the text that is offered instead."""
    if way == "memory":
        decision = guard.remember(line["text"], agent=agent, source=source)
    else:
        decision = guard.check(line["text"], agent=agent, channel=way, source=source)
    row = {"way": way, "language": line["language"], "form": line["form"], **ruled(decision)}
    if not decision.allowed:
        row["reasons"] = list(decision.reasons)
    return row | ({} if decision.replacement is None else {"replacement": decision.replacement})


def prompts() -> list[Row]:
    """The prompts and tool results through the proxy."""
    from everyday_proxy import sent

    return sent(toml_list("everyday_prompts", "prompt"), toml_list("poisoned_tool_results", "result"), progress)


RUNS: dict[str, Callable[[], list[Row]]] = {
    "notes": notes,
    "prompts": prompts,
    "tools": tools,
    "facts": facts,
    "facts_second": partial(facts, "facts_second"),
    "facts_third": partial(facts, "facts_third"),
    "facts_fourth": partial(facts, "facts_fourth"),
    "facts_fifth": partial(facts, "facts_fifth"),
    "facts_sixth": partial(facts, "facts_sixth"),
    "quiet": quiet,
    "peaceful": peaceful,
    "day": day,
    "second_day": partial(day, "second_day"),
    "third_day": partial(day, "third_day"),
    "fourth_day": partial(day, "fourth_day"),
    "fifth_day": partial(day, "fifth_day"),
    "sixth_day": partial(day, "sixth_day"),
    "seventh_day": partial(day, "seventh_day"),
    "eighth_day": partial(day, "eighth_day"),
    "ninth_day": partial(day, "ninth_day"),
    "tenth_day": partial(day, "tenth_day"),
    "eleventh_day": partial(day, "eleventh_day"),
    "twelfth_day": partial(day, "twelfth_day"),
    "thirteenth_day": partial(day, "thirteenth_day"),
    "fourteenth_day": partial(day, "fourteenth_day"),
    "fifteenth_day": partial(day, "fifteenth_day"),
    "sixteenth_day": partial(day, "sixteenth_day"),
    "seventeenth_day": partial(day, "seventeenth_day"),
    "eighteenth_day": partial(day, "eighteenth_day"),
    "tools_second": partial(tools, "tools_second"),
    "tools_third": partial(tools, "tools_third"),
    "quiet_third": partial(quiet, "quiet_third"),
    "quiet_fourth": partial(quiet, "quiet_fourth"),
}


def share(rows: Iterable[Row], what: str = "held") -> str:
    """``3 of 200``."""
    several = list(rows)
    return f"{sum(bool(row[what]) for row in several)} of {len(several)}"


def _values(rows: Iterable[Row], *names: str) -> list[tuple[Any, ...]]:
    return list(dict.fromkeys(tuple(row.get(name) for name in names) for row in rows))


def crossed(rows: list[Row], down: tuple[str, ...], across: str, what: str = "held") -> str:
    columns = [value for (value,) in _values(rows, across)]
    lines = [f"| {' / '.join(down)} | all | {' | '.join(map(str, columns))} |", "|---|" + "---|" * (len(columns) + 1)]
    for value in _values(rows, *down):
        mine = [row for row in rows if tuple(row.get(name) for name in down) == value]
        cells = [share((row for row in mine if row.get(across) == column), what) for column in columns]
        lines.append(f"| {' / '.join(map(str, value))} | {share(mine, what)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def table(name: str, rows: list[Row]) -> str:
    """The figures of one list."""
    if name == "notes":
        claims = crossed(rows, ("source", "way"), "language", "claims")
        return f"held:\n{crossed(rows, ('source', 'way'), 'language')}\n\nof these, by claims:\n{claims}"
    if name.startswith("tools"):
        return crossed(rows, ("which",), "attack", "refused")
    if name.endswith("day"):
        honest = [row for row in rows if row["kind"] == "honest"]
        attacks = [row for row in rows if row["kind"] != "honest"]
        tables = (crossed(honest, ("source", "way"), "language"), crossed(honest, ("form",), "source"))
        return "\n\n".join((*tables, crossed(attacks, ("source", "way"), "kind")))
    if name.startswith("facts") or name == "peaceful" or name.startswith("quiet"):
        spoilt = f"pairs whose first text was held already: {share(rows, 'earlier_held')}"
        detailed = [row for row in rows if "detail" in row]
        tables = (crossed(rows, ("kind",), "language"), crossed(detailed, ("kind", "detail"), "language"))
        return "\n\n".join((*tables, crossed(rows, ("kind", "source"), "language"), spoilt))
    asked = [row for row in rows if row["what"] == "prompt"]
    results = [row for row in rows if row["what"] != "prompt"]
    return f"refused:\n{crossed(asked, ('client',), 'framework', 'refused')}\n\nkept from the model:\n" + crossed(
        results, ("what", "inside"), "client", "kept_back"
    )


def measured_commit() -> str:
    """The commit of the code that is imported, not of this script."""
    import lazaretto

    def git(*words: str) -> str:
        command = ["git", "-C", str(Path(lazaretto.__file__).parent), *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    return git("rev-parse", "--short", "HEAD") + ("+" if git("status", "--porcelain", "--", ".") else "")


def keep(label: str, name: str, rows: list[Row]) -> None:
    """Write the rows, one a line; the first line says what was measured. What was found first is never overwritten."""
    file = RESULTS / label / f"{name}.jsonl"
    if label == FIRST and file.exists():
        raise SystemExit(f"{file.relative_to(REPOSITORY)} is there already and stays as it is; use another label")
    file.parent.mkdir(parents=True, exist_ok=True)
    head = {"list": name, "commit": measured_commit(), "policy": "default", "rows": len(rows)}
    lines = (json.dumps(row, ensure_ascii=False) for row in (head, *rows))
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> None:
    """Run what is asked for, print the figures, keep the rows where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=(*RUNS, "all", "show"))
    parser.add_argument("label", nargs="?", default=FIRST, help="whose stored rows `show` prints")
    parser.add_argument("--write", metavar="LABEL", default="", help="keep the rows under this name")
    options = parser.parse_args()
    logging.getLogger("lazaretto").setLevel(logging.ERROR)
    for name in RUNS if options.what in ("all", "show") else (options.what,):
        if options.what == "show":
            file = RESULTS / options.label / f"{name}.jsonl"
            if not file.exists():
                continue
            head, *rows = (json.loads(line) for line in file.read_text(encoding="utf-8").splitlines())
            print(f"## {name}, commit {head['commit']}\n\n{table(name, rows)}\n")
            continue
        rows = RUNS[name]()
        if options.write:
            keep(options.write, name, rows)
        print(f"## {name}\n\n{table(name, rows)}\n", flush=True)


if __name__ == "__main__":
    main()
