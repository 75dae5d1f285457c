"""``lazaretto authorize`` and ``lazaretto actions``: the last gate from a shell."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer
from rich.text import Text

from lazaretto.actions.authority import classify
from lazaretto.actions.call_log import observed
from lazaretto.actions.classes import Tool
from lazaretto.actions.records import ActionSettings, Asked, Authorization
from lazaretto.cli.common import EXIT_FLAGGED, console, new_table, print_plain, print_table, read_file
from lazaretto.cli.context import CommandContext, with_context
from lazaretto.errors import InputError
from lazaretto.incidents.report import moment
from lazaretto.provenance.drawing.labels import showable

family = typer.Typer(help="What tools may do, and what waits for a person.", no_args_is_help=True)
MOST_BYTES = 10_000_000


@with_context()
def authorize(
    context: CommandContext,
    tool: Annotated[str | None, typer.Argument(help="The tool that is to be called.", show_default=False)] = None,
    arguments: Annotated[str, typer.Option("--arguments", help="Its arguments, as a JSON object.")] = "{}",
    agent: Annotated[str, typer.Option("--agent", "-a", help="Agent that wants to call the tool.")] = "",
    approve: Annotated[
        list[str] | None,
        typer.Option("--approve", help="Let the call that waits under this token through, once. May be repeated."),
    ] = None,
    refuse: Annotated[
        list[str] | None, typer.Option("--refuse", help="Block the call that waits under this token. May be repeated.")
    ] = None,
    by: Annotated[str, typer.Option("--by", help="Person who answers.")] = "",
) -> None:
    """May this agent call this tool now? Exit code 1 unless it may. Or answer a call that waits."""
    tokens = approve or refuse
    if bool(tool) + bool(approve) + bool(refuse) != 1:
        raise InputError("tool", "give a tool, --approve or --refuse", "One of them")
    if tokens:
        if not by:
            raise InputError("by", "is missing", "Say who answers")
        with context.open_guard(create=False) as guard:
            asked = guard.approvals.answer_all(tokens, bool(approve), by=by)
        done = "approved: the same call goes through once" if approve else "refused: the same call is blocked for a day"

        def show() -> None:
            for call in asked:
                console.print(f"{call.tool} by {showable(call.agent, 60)} {done}", markup=False)

        context.emit(asked if len(asked) > 1 else asked[0], show)
        return
    if not agent:
        raise InputError("agent", "is missing", "Say who wants to call the tool")
    with context.open_guard() as guard:
        made = guard.authorize(str(tool), _object(arguments), agent=agent)
    context.emit(made, lambda: _show(made))
    if not made.allowed:
        raise typer.Exit(EXIT_FLAGGED)


def _object(text: str) -> dict[str, Any]:
    try:
        read = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise InputError("arguments", f"is no JSON ({error})", """Give an object such as '{"to": "ann"}'""") from None
    if not isinstance(read, dict):
        raise InputError("arguments", "is no JSON object", """Give an object such as '{"to": "ann"}'""")
    return read


def _show(made: Authorization) -> None:
    colour = {"allow": "green", "ask": "yellow", "block": "red"}[made.ruling]
    console.print(f"[bold {colour}]{made.ruling}[/]  {made.tool} ({made.action.value})  {made.id}", highlight=False)
    if made.would is not None:
        console.print(f"this policy only observes; it would have answered {made.would}", highlight=False)
    for reason in made.reasons:
        print_plain(f"- {showable(reason, 300)}")
    for origin in made.origins:
        where = origin.item or origin.found
        line = f"{origin.argument} ({origin.kind.value}): {showable(origin.value, 60)} from {where}"
        trust = f"trust {origin.trust:.1f}, needed {origin.needed:.1f}"
        print_plain(f"  {line}, {trust}")
    if made.token:
        console.print(f"let it through once:  lazaretto authorize --approve {made.token} --by YOU", highlight=False)


@family.command("waiting")
@with_context()
def waiting(context: CommandContext) -> None:
    """Calls that wait for a person, and how to answer them."""
    with context.open_guard(create=False) as guard:
        found = guard.approvals.waiting()

    def show() -> None:
        if not found:
            console.print("no call waits for a person", highlight=False)
        for call in found:
            show_asked(call)

    context.emit(found, show)


def show_asked(call: Asked) -> None:
    """A call that waits for a person: what it would do, why it is asked about, and how to answer."""
    console.print(
        f"{call.token} {call.tool} ({call.action}) by {showable(call.agent, 60)}, {moment(call.time)} UTC", markup=False
    )
    print_plain(f"  {showable(call.arguments, 400)}")
    for reason in call.reasons:
        print_plain(f"  why: {showable(reason, 300)}")
    settle = (
        f"lazaretto authorize --approve {call.token} --by YOU   or   lazaretto authorize --refuse {call.token} --by YOU"
    )
    print_plain(f"  yes, exactly this call, once; or no, for a day:\n  {settle}")


@family.command("observed")
@with_context()
def show_observed(
    context: CommandContext,
    days: Annotated[float, typer.Option("--days", min=0, help="Only calls of the last N days; 0: all.")] = 0.0,
) -> None:
    """How many calls were allowed, asked about and blocked; where the policy observes: would have been."""
    with context.open_guard(create=False) as guard:
        found = observed(guard.ledger, time.time() - days * 86_400 if days else 0.0)

    def show() -> None:
        if not found:
            console.print("no call that does more than read was judged", highlight=False)
            return
        table = new_table("class", "tool", "calls", "allow", "ask", "block", "only observed", "why, the newest")
        for row in found:
            numbers = (row.calls, row.allow, row.ask, row.block, row.observed)
            named = (row.action, Text(showable(row.tool, 60)))
            table.add_row(*named, *map(str, numbers), Text(showable(row.why, 160)))
        print_table(table)
        for action in sorted({row.action for row in found if row.ask + row.block}):
            same = [row for row in found if row.action == action]
            stopped, calls = sum(row.ask + row.block for row in same), sum(row.calls for row in same)
            console.print(f"{action}: {stopped} of {calls} calls need a person", highlight=False)

    context.emit(found, show)


@family.command("endorse")
@with_context()
def endorse(
    context: CommandContext,
    value: Annotated[str, typer.Argument(help="The account, address or name itself.")],
    purpose: Annotated[str, typer.Option("--purpose", help="A tool, or a class of actions such as pay.")],
    by: Annotated[str, typer.Option("--by", help="Person who vouches for it; nobody can for a value they brought in.")],
) -> None:
    """Raise the trust of a value for one purpose; prints the receipt's id."""
    with context.open_guard() as guard:
        receipt = guard.approvals.endorse(value, purpose=purpose, by=by)
    context.emit({"receipt": receipt}, lambda: print_plain(receipt))


@family.command("list")
@with_context()
def list_tools(
    context: CommandContext,
    file: Annotated[
        Path | None,
        typer.Argument(
            help="A JSON list of tools as MCP's tools/list or a chat request has it; else the policy's own."
        ),
    ] = None,
) -> None:
    """The class of each tool by the policy, or as guessed from its name, description and schema."""
    settings = ActionSettings.of(context.policy.actions, context.policy_file or "policy")
    tools = _tools(file) if file is not None else [Tool(name) for name in settings.tools]
    rows = []
    for tool in tools:
        action, why = classify(settings, tool)
        needs = settings.needs(action)
        rows.append(
            {"tool": tool.name, "class": action.value, "why": why, "control": needs.control, "below": needs.below}
        )

    def show() -> None:
        table = new_table("tool", "class", "why", "needs", "else")
        for row in rows:
            asks = row["class"] not in ("read", "write")
            cells = (str(row["class"]), str(row["why"]), f"{row['control']:.1f}", str(row["below"]) if asks else "-")
            table.add_row(Text(showable(str(row["tool"]), 60)), *cells)
        print_table(table)

    context.emit(rows, show)


def _tools(file: Path) -> list[Tool]:
    try:
        read = orjson.loads(read_file(file, "file", MOST_BYTES))
    except orjson.JSONDecodeError as error:
        raise InputError("file", f"{file} is no JSON ({error})", "Give a list of tools") from None
    listed = read.get("tools", read) if isinstance(read, dict) else read
    if not isinstance(listed, list):
        raise InputError("file", f"{file} holds no list of tools", 'Give [{"name": ..., "description": ...}]')
    found = []
    for entry in listed:
        described = entry.get("function", entry) if isinstance(entry, dict) else {}
        name = described.get("name")
        if not isinstance(name, str) or not name:
            raise InputError("file", f"{file} holds a tool without a name", 'Give [{"name": ..., "description": ...}]')
        schema = described.get("inputSchema") or described.get("parameters") or described.get("input_schema")
        description = str(described.get("description") or "")
        found.append(Tool.of(name, description, schema if isinstance(schema, dict) else None))
    return found
