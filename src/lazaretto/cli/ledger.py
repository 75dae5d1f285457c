"""``lazaretto ledger``: prove the record, carry it elsewhere, let it forget."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer
from rich.table import Table

from lazaretto.cli.common import (
    EXIT_FLAGGED,
    JsonFlag,
    console,
    emit,
    errors,
    plain_errors,
    print_plain,
    print_table,
    printable,
)
from lazaretto.cli.context import CommandContext, with_context
from lazaretto.errors import InputError, MissingExtra, ModelError
from lazaretto.ledger import Checkpoint, Ledger, PublicKey, SigningKey, transfer
from lazaretto.ledger.backup import Saved, back_up, bring_back
from lazaretto.ledger.checkpoints import read_checkpoints, witness_at
from lazaretto.ledger.ledger import keep_in
from lazaretto.provenance.graph import ProvenanceGraph
from lazaretto.provenance.to_erase import to_erase
from lazaretto.types import EventKind, Head

family = typer.Typer(no_args_is_help=True, help="The record of what happened: verify, back up, export, import, erase.")

_PROOFS = {
    "proved": "proved: every event is signed by a key that is trusted",
    "unchecked": "not proved: every link holds and the file is signed, but no key was given to check it (--public-key)",
    "unsigned": "not proved: every link holds, but nothing is signed: the file may be anybody's work",
}


def _read_head(path: Path) -> Head:
    try:
        data = orjson.loads(path.read_bytes())
        return Head(str(data["namespace"]), int(data["seq"]), str(data["hash"]))
    except OSError as error:
        raise InputError("--head", f"{path} cannot be read: {error.strerror}") from error
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError):
        raise InputError("--head", f"{path} holds no head", "Use a file that 'ledger head --out' wrote") from None


@family.command()
@with_context()
def verify(
    context: CommandContext,
    head: Annotated[Path | None, typer.Option(help="A head kept earlier by 'ledger head --out'.")] = None,
    witness: Annotated[
        str | None, typer.Option(help="Where checkpoints were sent: file:PATH or the URL of a second store.")
    ] = None,
    public_key: Annotated[
        list[str] | None, typer.Option(help="Key that must have signed it all (64 characters); repeat it.")
    ] = None,
) -> None:
    """Check every event, and all that is derived from them. Exit code 1 when anything was altered, removed or cut."""
    kept = None if head is None else _read_head(head)
    keys = [PublicKey.from_hex(key) for key in public_key or ()]
    with context.open_ledger(read_only=True) as ledger:
        found = ledger.verify(kept, checkpoints=_kept_by(witness, context.namespace), keys=keys)

    def show() -> None:
        if found.ok:
            console.print(f"[green]good[/] {found.checked:,} events, every link holds")
            for part in found.unproved:
                print_plain(f"not provable: {part}")
        else:
            where = "the store" if found.first_bad is None else f"event {found.first_bad}"
            console.print(f"[bold red]broken[/] at {where}: ", end="")
            print_plain(found.reason)
            if found.fix:
                print_plain(found.fix)

    context.emit(found, show)
    if not found.ok:
        raise typer.Exit(EXIT_FLAGGED)


@family.command()
@with_context()
def rebuild(
    context: CommandContext,
    public_key: Annotated[
        list[str] | None, typer.Option(help="Key that must have signed the chain (64 characters); repeat it.")
    ] = None,
) -> None:
    """Make the derived tables again from the chain, where 'ledger verify' finds one altered. Stop the guard first.

    Exit code 1 when something is left that the chain cannot make again.
    """
    keys = [PublicKey.from_hex(key) for key in public_key or ()]
    with context.open_ledger(create=False) as ledger:
        made = ledger.rebuild(keys=keys)
        same, anew, waiting = _read_claims_again(ledger, made.claims_lost)
        found = ledger.verify(keys=keys)
    data = {
        **{"events": made.events, "fault": made.fault, "ok": found.ok, "reason": found.reason},
        **{"claims_restored": same, "claims_read_anew": anew, "claims_waiting": waiting},
    }

    def show() -> None:
        console.print(f"rebuilt from {made.events:,} events", highlight=False)
        print_plain(f"before: {made.fault}" if made.fault else "before: no fault")
        if same or anew:
            console.print(f"claims read again: {same:,} as they were, {anew:,} recorded anew", highlight=False)
        if waiting:
            console.print(
                f"claims of {waiting:,} items wait for their model: pip install 'lazaretto[gates]'", markup=False
            )
        print_plain("good now" if found.ok else f"still wrong: {found.reason}")

    context.emit(data, show)
    if not found.ok:
        raise typer.Exit(EXIT_FLAGGED)


def _read_claims_again(ledger: Ledger, lost: Sequence[str]) -> tuple[int, int, int]:
    """How many items have the claims that the chain recorded, how many other ones, how many wait for a model."""
    same = anew = 0
    try:
        from lazaretto.gates.memory.claims.pairs import shared_reader
    except ImportError:
        return 0, 0, len(lost)
    reader = shared_reader()
    for number, item in enumerate(lost):
        try:
            read = reader.read([ledger.item(item).text or ""])[0]
        except (MissingExtra, ModelError):
            return same, anew, len(lost) - number
        if ledger.restore_claims(item, read.rows()):
            same += 1
        else:
            ledger.keep_claims(item, read.rows())
            anew += 1
    return same, anew, 0


def _kept_by(witness: str | None, namespace: str) -> list[Checkpoint]:
    """The checkpoints of a namespace that a witness keeps."""
    if witness is None:
        return []
    kind, _, rest = witness.partition(":")
    if kind == "file" and rest:
        return [checkpoint for checkpoint in read_checkpoints(Path(rest)) if checkpoint.namespace == namespace]
    with Ledger.open(witness, "witness", create=False, read_only=True) as ledger:
        return ledger.witnessed(namespace)


@family.command()
@with_context()
def checkpoint(
    context: CommandContext,
    to: Annotated[
        str | None, typer.Option(help="Send it there: stdout, file:PATH, an http(s) URL, or the URL of a second store.")
    ] = None,
) -> None:
    """The state of the chain for others to keep: signed where the policy names a key (record.key)."""
    send = None if to is None else witness_at(to, keep_in)
    with context.open_ledger() as ledger:
        made = ledger.checkpoint()
    if send is not None:
        send(made)
    signed = f"signed with {made.key}" if made.key else "not signed"
    context.emit(made, lambda: console.print(f"{made.namespace} {made.seq} {made.root} {signed}", highlight=False))


@family.command()
@plain_errors
def key(
    path: Annotated[Path, typer.Argument(help="File for the new key; it must not exist.")],
    json: JsonFlag = False,
) -> None:
    """Make a key that signs the record, and print its public half. Name the file in the policy: record.key."""
    made = SigningKey.create(path)
    data = {"key": str(path), "id": made.public.id, "public": made.public.raw.hex()}
    emit(data, json, lambda: console.print(data["public"], highlight=False))


@family.command(name="rotate-key")
@with_context()
def rotate_key(
    context: CommandContext,
    path: Annotated[Path, typer.Argument(help="File of the new key, made by 'ledger key'.")],
) -> None:
    """Let the key of the policy (record.key) hand over to another; then name the new one in the policy."""
    new = SigningKey.load(path)
    with context.open_ledger(create=False) as ledger:
        ledger.hand_over(new)
    data = {"key": str(path), "id": new.public.id, "public": new.public.raw.hex()}
    context.emit(data, lambda: console.print(f"from now on sign with {path}: {data['public']}"))


@family.command()
@with_context()
def head(
    context: CommandContext,
    out: Annotated[Path | None, typer.Option(help="Also write it to this file.")] = None,
) -> None:
    """The end of the chain. Keep it elsewhere: 'ledger verify --head FILE' then proves that no tail was cut off."""
    with context.open_ledger(read_only=True) as ledger:
        found = ledger.head()
    if out is not None:
        _write(out, orjson.dumps({"namespace": found.namespace, "seq": found.seq, "hash": found.hash}) + b"\n")
    context.emit(found, lambda: console.print(f"{found.namespace} {found.seq} {found.hash}", highlight=False))


def _write(path: Path, data: bytes) -> None:
    try:
        path.write_bytes(data)
    except OSError as error:
        raise InputError("--out", f"{path} cannot be written: {error.strerror}") from error


@family.command()
@with_context()
def export(
    context: CommandContext,
    path: Annotated[Path, typer.Argument(help="File to write (JSON lines).")],
) -> None:
    """Write one namespace, with its pictures, to a file."""
    with context.open_ledger(read_only=True) as ledger:
        count = ledger.export(path)
    context.emit({"path": str(path), "events": count}, lambda: console.print(f"{count:,} events in {path}"))


@family.command(name="import")
@with_context(namespace=False)
def import_(
    context: CommandContext,
    path: Annotated[Path, typer.Argument(help="A file that 'ledger export' wrote.")],
    public_key: Annotated[
        list[str] | None,
        typer.Option(help="Key that must have signed it all (64 characters); repeat it. Default: the policy's."),
    ] = None,
    head: Annotated[Path | None, typer.Option(help="A head of it that was kept earlier.")] = None,
    witness: Annotated[str | None, typer.Option(help="Where its checkpoints were sent: file:PATH or a store.")] = None,
    unsigned: Annotated[
        bool, typer.Option("--unsigned", help="Accept a file without signatures, although a key is known.")
    ] = False,
) -> None:
    """Read an exported namespace into a store, verifying every link and signature: all of it or nothing."""
    keys = _trusted(context, public_key or ())
    kept = None if head is None else _read_head(head)
    checkpoints = [] if witness is None else _kept_by(witness, transfer.read_head(path).namespace)
    with Ledger.import_(
        path, context.store, keys=keys, head=kept, checkpoints=checkpoints, unsigned=unsigned
    ) as ledger:
        found = ledger.head()
    data = {"namespace": found.namespace, "seq": found.seq, "hash": found.hash, "proof": ledger.imported}

    def show() -> None:
        console.print(f"{found.seq:,} events in namespace {found.namespace}")
        print_plain(_PROOFS[str(ledger.imported)])

    context.emit(data, show)


@family.command()
@with_context(namespace=False)
def backup(
    context: CommandContext,
    folder: Annotated[Path, typer.Argument(help="A folder that is empty or not there.")],
) -> None:
    """Write every namespace of the store to a folder, with its heads; others may write meanwhile."""
    found = back_up(context.store, folder)
    _show_saved(context, found, f"in {folder}; try it: lazaretto ledger restore {folder} --store sqlite:///drill.db")


@family.command()
@with_context(namespace=False)
def restore(
    context: CommandContext,
    folder: Annotated[Path, typer.Argument(help="A folder that 'ledger backup' wrote.")],
    unsigned: Annotated[
        bool, typer.Option("--unsigned", help="Take files without signatures, although a key is known.")
    ] = False,
) -> None:
    """Read a back-up into an empty store, and verify every namespace against the heads that were kept with it."""
    found = bring_back(context.store, folder, _trusted(context, ()), unsigned=unsigned)
    _show_saved(context, found, "restored, every link holds")


def _show_saved(context: CommandContext, found: Sequence[Saved], words: str) -> None:
    events = sum(saved.head.seq for saved in found)
    summary = f"{events:,} events of {len(found)} namespaces {words}"
    data = [{"namespace": saved.head.namespace, "seq": saved.head.seq, "file": saved.file} for saved in found]
    context.emit({"namespaces": data, "events": events}, lambda: print_plain(summary))


def _trusted(context: CommandContext, given: Sequence[str]) -> list[PublicKey]:
    """Keys that must have signed the input: the named ones, else the policy's."""
    keys = [PublicKey.from_hex(key) for key in given]
    if not keys and context.policy.record.key:
        keys = [SigningKey.load(Path(context.policy.record.key)).public]
    return keys


@family.command()
@with_context()
def stats(
    context: CommandContext,
) -> None:
    """How much a namespace holds."""
    with context.open_ledger(read_only=True) as ledger:
        data: dict[str, Any] = {"store": ledger.url, **ledger.stats()}

    def show() -> None:
        table = Table(show_header=False)
        for name, value in data.items():
            words = ", ".join(f"{kind} {number:,}" for kind, number in value.items()) if name == "kinds" else value
            table.add_row(name.replace("_", " "), f"{words:,}" if isinstance(words, int) else str(words))
        print_table(table)

    context.emit(data, show)


@family.command()
@with_context(namespace=False)
def upgrade(
    context: CommandContext,
) -> None:
    """Bring an old store to the newest schema. Any command that writes does it too."""
    opened = context.open_store()
    try:
        steps = opened.upgrade()
    finally:
        opened.close()

    def show() -> None:
        for step in steps:
            console.print(f"added: {step}")
        if not steps:
            console.print("nothing to do: the schema is the newest")

    context.emit({"store": opened.url, "steps": steps}, show)


def _finish_erasing(ledger: Ledger) -> None:
    from lazaretto.cases.casebook import erase_cases_of_erased  # and the library with it

    erase_cases_of_erased(ledger)
    if not ledger.scrubbed:
        errors.print(
            "erased, but a reader keeps the old bytes in the database's log; they go with the next write after it ends",
            markup=False,
        )


@family.command()
@with_context()
def erase(
    context: CommandContext,
    reason: Annotated[str, typer.Option(help="Why; it stays readable in the tombstone.")],
    item: Annotated[str | None, typer.Argument(help="Id of an item or a decision.")] = None,
    by: Annotated[str, typer.Option(help="Who erases it; it stays readable, too.")] = "operator",
    agent: Annotated[str, typer.Option(help="Instead of an id: all that this agent wrote and reported.")] = "",
    descendants: Annotated[bool, typer.Option("--descendants", help="Also what was made from it.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would go, and erase nothing.")] = False,
) -> None:
    """Remove the content of an item, or of an agent's items, for good. Ids, agents and times stay, and so does the
    chain."""
    with context.open_ledger(create=False) as ledger:
        if item is not None and not (agent or descendants or dry_run):
            event = ledger.erase(item, reason, by=by)
            _finish_erasing(ledger)
            context.emit(event, lambda: console.print(f"erased {item}: tombstone is event {event.seq}", markup=False))
            return
        ids = to_erase(ledger, ProvenanceGraph(ledger), item or "", agent=agent, descendants=descendants)
        texts = {subject: _first_words(ledger, subject) for subject in ids} if dry_run else {}
        if not dry_run:
            for subject in ids:
                ledger.erase(subject, reason, by=by)
            _finish_erasing(ledger)

    def show() -> None:
        for subject, words in texts.items():
            print_plain(f"{subject}  {words}")
        print_plain(f"would erase {len(ids)}; nothing was erased" if dry_run else f"erased {len(ids)}")

    context.emit({"items": ids, "erased": not dry_run}, show)


def _first_words(ledger: Ledger, subject: str) -> str:
    """The writer of an item, and its first words."""
    for event in ledger.events_about([subject], (EventKind.SEEN, EventKind.REPORTED)):
        body = event.body or {}
        return f"{event.agent}: {printable(str(body.get('text') or body.get('what') or ''))[:80]}"
    return ""


@family.command()
@with_context()
def retain(
    context: CommandContext,
    days: Annotated[float | None, typer.Option(help="Keep the content of this many days.", min=0)] = None,
    before: Annotated[datetime | None, typer.Option(help="Erase what was recorded before this moment (UTC).")] = None,
    by: Annotated[str, typer.Option(help="Who erases it; it stays readable, too.")] = "operator",
) -> None:
    """Erase the content of everything older than a limit."""
    if (days is None) == (before is None):
        problem = "is missing, and so is before" if days is None else "is given beside before"
        example = ": --days 30, or --before 2026-01-31" if days is None else ""
        raise InputError("days", problem, f"Give one of them{example}")
    moment = time.time() - 86_400 * (days or 0) if before is None else before.replace(tzinfo=UTC).timestamp()
    with context.open_ledger(create=False) as ledger:
        count = ledger.erase_older_than(moment, by=by)
        _finish_erasing(ledger)
    context.emit({"erased": count, "before": moment}, lambda: console.print(f"erased the content of {count:,} items"))
