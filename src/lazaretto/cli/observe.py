"""``lazaretto observed`` and ``enforce``: a policy that only watches, day by day, and the step to one that holds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lazaretto.cli.common import EXIT_FLAGGED, console, new_table, print_plain, print_table
from lazaretto.cli.context import CommandContext, with_context
from lazaretto.errors import InputError
from lazaretto.files import write_file
from lazaretto.incidents.observed import ObservedLog
from lazaretto.policy import Policy
from lazaretto.policy.written_out import edited
from lazaretto.types import plain


@with_context()
def observed(
    context: CommandContext,
    days: Annotated[int, typer.Option("--days", min=1, help="The last so many days with traffic.")] = 14,
) -> None:
    """Day by day: how much was judged, what was held or would have been, and people's labels."""
    with context.open_ledger(create=False) as ledger:
        log = ObservedLog(ledger)
        found, quiet = log.days()[:days], log.quiet()

    def show() -> None:
        table = new_table("day (UTC)", "judged", "held or would be", "harmful", "benign", "no word yet")
        for day in found:
            numbers = (day.judged, day.flagged, day.harmful, day.benign, day.waiting)
            table.add_row(day.day, *map(str, numbers))
        print_table(table)
        print_plain(_quiet_line(context, quiet.why))

    context.emit({"mode": context.policy.mode, "days": plain(found), "quiet": plain(quiet)}, show)


def _quiet_line(context: CommandContext, why: str) -> str:
    if why:
        return f"not quiet: {why}"
    if context.policy.mode == "enforce":
        return "quiet; this policy enforces"
    return "quiet: let it hold with  lazaretto enforce --policy FILE"


@with_context()
def enforce(
    context: CommandContext,
    anyway: Annotated[bool, typer.Option("--anyway", help="Also where it is not quiet.")] = False,
) -> None:
    """Turn a policy that only observes into one that holds, when it is quiet: mode = "enforce" in its file.

    Exit code 1, and nothing is changed, while it is not quiet. A running server takes the file up when it is started
    again.
    """
    if context.policy_file is None:
        raise InputError("policy", "no file is named", "Give --policy FILE; a preset enforces already")
    if context.policy.mode == "enforce":
        context.emit({"mode": "enforce", "changed": False}, lambda: console.print("it enforces already"))
        return
    with context.open_ledger(create=False) as ledger:
        quiet = ObservedLog(ledger).quiet()
    if not quiet.quiet and not anyway:
        body = {"mode": "observe", "changed": False, "why": quiet.why}
        context.emit(body, lambda: print_plain(f"not quiet: {quiet.why}"))
        raise typer.Exit(EXIT_FLAGGED)
    path = Path(context.policy_file)
    text = edited(path.read_text(encoding="utf-8"), {("", "mode"): "enforce"})
    try:
        write_file(path, text.encode("utf-8"))
    except OSError as error:
        raise InputError("policy", f"{path} cannot be written ({error.strerror})", "Choose another place") from None
    words = f"{path}: mode = {Policy.load(path).mode}"
    context.emit({"mode": "enforce", "changed": True}, lambda: print_plain(words))
