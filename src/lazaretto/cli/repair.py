"""``lazaretto repair ... | release | appeal``: hold, bring back, and dispute."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from lazaretto.cli.common import console, new_table, print_plain, print_table, read_file
from lazaretto.cli.context import CommandContext, with_context
from lazaretto.errors import InputError
from lazaretto.gates.memory.claims.conflicts import open_conflicts
from lazaretto.incidents.shown_texts import shown_texts
from lazaretto.ledger import Ledger
from lazaretto.names import counted
from lazaretto.provenance.drawing.labels import showable
from lazaretto.repair.engine import Preview, plan_from_json
from lazaretto.repair.proposals import Proposal, ProposedRepair
from lazaretto.repair.protocol import make_repair
from lazaretto.types import Receipt, RepairPlan, RepairStep, plain

MAX_PLAN_BYTES = 64_000_000
SHOWN_STEPS, SHOWN_TEXT = 50, 100
ItemArgument = Annotated[str, typer.Argument(help="Id of the item.")]
OPERATOR = "operator"
"""The name in the record of an act that nobody signed: a person with access to the store."""
ByOption = Annotated[str, typer.Option("--by", help="Person who decides.")]
SignerOption = Annotated[str, typer.Option("--by", help="Person who does it; kept in the ledger.")]

family = typer.Typer(help="Plan, apply and undo repairs.", no_args_is_help=True)


def _options(pairs: list[str], descendants: bool, max_hops: int | None) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not sign or not name:
            raise InputError("option", f"{pair!r} is not name=value", "For example --option max_hops=3")
        try:
            found[name] = orjson.loads(value)
        except orjson.JSONDecodeError:
            found[name] = value
    if descendants:
        found["descendants"] = True
    if max_hops is not None:
        found["max_hops"] = max_hops
    return found


@family.command("plan")
@with_context()
def plan_repair(
    context: CommandContext,
    repair: Annotated[str, typer.Argument(help="Which repair, for example isolate.")] = "contain",
    item: Annotated[str, typer.Argument(help="Id of the item; or give it with --from.")] = "",
    origin: Annotated[str, typer.Option("--from", help="Id of the item to start from.")] = "",
    descendants: Annotated[bool, typer.Option("--descendants", help="Include everything that came from it.")] = False,
    max_hops: Annotated[
        int | None, typer.Option("--max-hops", help="Most steps from the item to what came from it.")
    ] = None,
    option: Annotated[
        list[str] | None, typer.Option("--option", "-o", help="Option of the repair, as name=value; repeat it.")
    ] = None,
    reason: Annotated[str, typer.Option("--reason", help="Why; kept in the receipt.")] = "",
    out: Annotated[Path | None, typer.Option("--out", help="Write the plan to this file, for 'repair apply'.")] = None,
) -> None:
    """Show the steps and cost of a repair; nothing is changed. 'repair plan --from ITEM' plans 'contain'."""
    if bool(item) == bool(origin):
        problem = "is given twice" if item else "is missing"
        raise InputError("item", problem, "For example: lazaretto repair plan --from ITEM")
    with context.open_guard(create=False) as guard:
        chosen = _options(option or [], descendants, max_hops)
        plan = guard.repairs.plan(item or origin, make_repair(repair, chosen), reason=reason)
        named = [plan.origin, *(step.item for step in plan.steps[:SHOWN_STEPS])]
        texts = read_texts(named, guard.ledger)
    if out is not None:
        try:
            out.write_bytes(orjson.dumps(plain(plan), option=orjson.OPT_INDENT_2))
        except OSError as error:
            raise InputError("out", f"{out} cannot be written ({error.strerror})", "Choose another path") from None
    context.emit(plan, lambda: _show_plan(plan, out, texts))


def _show_plan(plan: RepairPlan, out: Path | None, texts: Mapping[str, str]) -> None:
    print_plain(f'{plan.repair} from {plan.origin} "{texts.get(plan.origin, "")}"')
    table = new_table("item", "action", "why", "text")
    for step in plan.steps[:SHOWN_STEPS]:
        table.add_row(step.item, step.action, _why(step), texts.get(step.item, ""))
    print_table(table)
    if len(plan.steps) > SHOWN_STEPS:
        console.print(f"... and {len(plan.steps) - SHOWN_STEPS} more")
    for step in plan.steps[:SHOWN_STEPS]:
        if changed := step.detail.get("difference"):
            print_plain(f"{step.item}:\n{changed}")
    console.print("price: " + ", ".join(f"{name.replace('_', ' ')} {amount:g}" for name, amount in plan.price.items()))
    if out is not None:
        console.print(f"wrote {out}; apply it with: lazaretto repair apply {out}", markup=False)
    else:
        console.print("nothing is changed; to apply it, write it down first: --out plan.json", highlight=False)


def _why(step: RepairStep) -> str:
    """The reason for a step, if the repair gave one."""
    detail = step.detail
    parts = [str(detail[name]) for name in ("strategy", "why") if name in detail]
    if "priority" in detail:
        parts.append(f"priority {detail['priority']:g} at {detail['hops']} hops")
    return ", ".join(parts)


@family.command("apply")
@with_context()
def apply_repair(
    context: CommandContext,
    plan: Annotated[str, typer.Argument(help="The file 'repair plan --out' wrote; - reads standard input.")],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show each item before and after; change nothing.")
    ] = False,
    by: SignerOption = OPERATOR,
) -> None:
    """Apply a plan, as a whole. Refused (exit code 4) when anything it rests on has changed."""
    data = sys.stdin.buffer.read(MAX_PLAN_BYTES) if plan == "-" else read_file(Path(plan), "plan", MAX_PLAN_BYTES)
    wanted = plan_from_json(data)
    with context.open_guard(create=False) as guard:
        if dry_run:
            shown = guard.repairs.dry_run(wanted)
            context.emit(shown, lambda: _show_preview(shown))
            return
        receipt = guard.repairs.apply(wanted, by=by)
    context.emit(receipt, lambda: _show_receipt(receipt))


def _show_preview(shown: tuple[Preview, ...]) -> None:
    table = new_table("item", "action", "shown before", "shown after")
    for preview in shown:
        table.add_row(preview.step.item, preview.step.action, _yes(preview.before.visible), _yes(preview.after.visible))
    print_table(table)


def _yes(truth: bool) -> str:
    return "yes" if truth else "no"


def _undone(receipt: Receipt) -> str:
    """Whether a repair was undone, or how much of it."""
    part = f"{len(receipt.restored)} of {len(receipt.plan.steps)}"
    return part if receipt.restored and not receipt.undone else _yes(receipt.undone)


def _show_receipt(receipt: Receipt) -> None:
    done = "undone" if receipt.undone else "done"
    console.print(
        f"{receipt.plan.repair} {done}: {counted(len(receipt.plan.steps), 'item')}, receipt [bold]{receipt.id}[/]"
    )
    for system, count in Counter(write.ref.system for write in receipt.foreign if write.outcome == "due").items():
        how = "when the process that has it calls recheck() or stores.write_back()"
        print_plain(f"to follow in the store {system!r}, {how}: {counted(count, 'record')}")
    if not receipt.undone:
        print_plain(f"take it back with: lazaretto repair undo {receipt.id}")


@family.command("undo")
@with_context()
def undo_repair(
    context: CommandContext,
    receipt: Annotated[str, typer.Argument(help="Id of the receipt.")],
    by: SignerOption = OPERATOR,
) -> None:
    """Put everything back as it was before a repair; of one that was undone in part, the rest."""
    with context.open_guard(create=False) as guard:
        undone = guard.repairs.undo(receipt, by=by)
        opened = [
            found.id for found in guard.incidents.all("open") if undone.plan.origin in {i.id for i in found.items}
        ]

    def show() -> None:
        _show_receipt(undone)
        for incident in opened:
            close = f"lazaretto label {undone.plan.origin} benign --by YOU"
            print_plain(f"{incident} is open; if {undone.plan.origin} is fine: {close}")

    context.emit(undone, show)


@family.command("list")
@with_context()
def list_repairs(
    context: CommandContext,
) -> None:
    """Every repair so far."""
    with context.open_guard(create=False) as guard:
        found = guard.repairs.receipts()

    def show() -> None:
        table = new_table("receipt", "repair", "origin", "items", "undone", "reason")
        for repair in found:
            plan = repair.plan
            table.add_row(repair.id, plan.repair, plan.origin, str(len(plan.steps)), _undone(repair), plan.reason[:80])
        print_table(table)

    context.emit(found, show)


@family.command("proposals")
@with_context()
def list_proposals(context: CommandContext) -> None:
    """Repairs that looking again proposes and nobody has decided on."""
    with context.open_guard(create=False) as guard:
        found = guard.repairs.proposals()
    rows = [{**plain(proposal), "counts": proposal.counts} for proposal in found]

    def show() -> None:
        for proposal in found:
            show_proposal(proposal)
        if not found:
            console.print("nothing is proposed", highlight=False)

    context.emit(rows, show)


def show_proposal(proposal: Proposal) -> None:
    """A proposal in two lines: its changes, and how to decide."""
    counts = ", ".join(f"{_ACTS[action]} {number}" for action, number in sorted(proposal.counts.items()))
    console.print(f"{proposal.id} proposed: {counts}, because {proposal.origin} is held", highlight=False)
    print_plain(f"  look at it:  lazaretto repair proposal {proposal.id}")


_ACTS = {"cut": "cut loose", "replace": "rewrite", "hide": "take out", "remove": "remove", "show": "bring back"}


@family.command("proposal")
@with_context()
def show_one_proposal(
    context: CommandContext, proposal: Annotated[str, typer.Argument(help="Id of the proposal.")]
) -> None:
    """The steps of a proposed repair as of now: every item before and after. Nothing is changed."""
    with context.open_guard(create=False) as guard:
        found = guard.repairs.proposal(proposal)
        texts = texts_of(found, guard.ledger)
    context.emit(
        {"proposal": found.proposal, "changes": found.changes, "left": found.plan.left, "seen": found.seen},
        lambda: show_proposed(found, texts),
    )


def texts_of(found: ProposedRepair, ledger: Ledger) -> dict[str, str]:
    """Texts of a proposal's items, as by ``read_texts``."""
    return read_texts([found.proposal.origin, *(change.item for change in found.changes), *found.plan.left], ledger)


def read_texts(ids: Sequence[str], ledger: Ledger) -> dict[str, str]:
    """Texts of items, in one short line each and without what a gate removed."""
    return {item: showable(text, SHOWN_TEXT) for item, text in shown_texts(ledger, ids).items()}


def show_proposed(found: ProposedRepair, texts: Mapping[str, str], most: int = 50) -> None:
    """A proposal with its difference, and how to decide. ``texts``: the texts of its items."""

    def says(item: str) -> str:
        return f'{item} "{texts.get(item, "")}"'

    show_proposal(found.proposal)
    print_plain(f"  held: {says(found.proposal.origin)}")
    for change in found.changes[:most]:
        shown = change.item if change.action == "replace" else says(change.item)
        print_plain(f"  {_ACTS[change.action]} {shown}")
        if change.action == "replace":
            print_plain(f"    - {showable(change.before, 400)}")
            print_plain(f"    + {showable(change.after, 400)}")
    if len(found.changes) > most:
        console.print(f"  ... and {len(found.changes) - most} more", highlight=False)
    for item, why in list(found.plan.left.items())[:most]:
        print_plain(f"  leave {says(item)}: {showable(why, 200)}")
    name = found.proposal.id
    decide = f"lazaretto repair accept {name} --by YOU --seen {found.seen}"
    print_plain(f"  do it:       {decide}")
    print_plain(f"  leave it:    lazaretto repair dismiss {name} --by YOU")


@family.command("accept")
@with_context()
def accept_proposal(
    context: CommandContext,
    proposal: Annotated[str, typer.Argument(help="Id of the proposal.")],
    by: ByOption,
    seen: Annotated[str, typer.Option("--seen", help="As 'repair proposal' printed it: do that, or nothing.")] = "",
) -> None:
    """Apply a proposal. Refused (exit code 4) if its changes are different by now."""
    with context.open_guard(create=False) as guard:
        receipt = guard.repairs.accept(proposal, by=by, seen=seen)
    context.emit(receipt, lambda: _show_receipt(receipt))


@family.command("dismiss")
@with_context()
def dismiss_proposal(
    context: CommandContext,
    proposal: Annotated[str, typer.Argument(help="Id of the proposal.")],
    by: ByOption,
    reason: Annotated[str, typer.Option("--reason", help="Why; kept in the ledger.")] = "",
) -> None:
    """Leave everything as it is; the proposal is not made again."""
    with context.open_guard(create=False) as guard:
        guard.repairs.dismiss(proposal, by=by, reason=reason)
    context.emit({"dismissed": proposal}, lambda: console.print(f"dismissed: {proposal}", highlight=False))


@with_context()
def release(
    context: CommandContext,
    item: ItemArgument,
    descendants: Annotated[bool, typer.Option("--descendants", help="Release what was made from it too.")] = False,
    reason: Annotated[str, typer.Option("--reason", help="Why; kept in the receipt.")] = "",
    by: Annotated[str, typer.Option("--by", help="Person who decides; kept with the reason.")] = OPERATOR,
) -> None:
    """Bring a held item back into recall, and off the block list."""
    with context.open_guard(create=False) as guard:
        receipt = guard.release(item, reason=reason, descendants=descendants, by=by)
        beside = [conflict.old for conflict in open_conflicts(guard.ledger) if conflict.new == item]
        store = elsewhere(guard.ledger, item)
    context.emit(receipt, lambda: _show_release(receipt, item, beside, store))


def elsewhere(ledger: Ledger, item: str) -> str:
    """A note about an item that a store of the crew's own keeps; empty without one."""
    ref = ledger.item(item).ref
    if ref is None:
        return ""
    return f"its record in {ref.system} follows when the crew's process next calls guard.stores.write_back()"


_FIRST_IN_THE_LIST = "where it waits, lazaretto held lists it first"


def _show_release(receipt: Receipt, item: str, beside: Sequence[str], store: str) -> None:
    """The receipt, and how to settle the item's conflicts."""
    _show_receipt(receipt)
    if store:
        print_plain(store)
    for old in beside:
        line = f"it contradicts {old}, which stays in use; if that no longer holds:"
        print_plain(f"{line} lazaretto conflicts --keep {item} --over {old}")


@with_context()
def appeal(
    context: CommandContext,
    item: ItemArgument,
    by: ByOption,
    reason: Annotated[str, typer.Option("--reason", help="Why the ruling is wrong.")],
) -> None:
    """Dispute the ruling on an item. It holds until a person labels or releases the item."""
    with context.open_guard(create=False) as guard:
        event = guard.appeal(item, reason, by=by)
        used = guard.ledger.state(event.subject).visible
    where = "it is in use and waits for nobody: lazaretto label says what it is" if used else _FIRST_IN_THE_LIST
    line = f"recorded: {event.kind.value} {event.subject}; {where}"
    context.emit(event, lambda: console.print(line, highlight=False))
