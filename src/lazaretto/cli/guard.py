"""``lazaretto init | check | remember | recall``: the guard from a shell."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from lazaretto.cli.common import (
    EXIT_FLAGGED,
    JsonFlag,
    NamespaceOption,
    PolicyOption,
    StoreOption,
    console,
    emit,
    plain_errors,
)
from lazaretto.errors import InputError, TooLarge
from lazaretto.gates.blocklist import BlocklistSettings
from lazaretto.gates.content.settings import ContentSettings
from lazaretto.gates.memory.gate import MemorySettings
from lazaretto.gates.structure import StructureSettings
from lazaretto.guard import Guard, Recalled
from lazaretto.policy import commented_toml
from lazaretto.types import Channel, Decision, RunStatus

AgentOption = Annotated[str, typer.Option("--agent", "-a", help="Who brought it in, wrote it, or reads it.")]
TextOption = Annotated[str, typer.Option("--text", "-t", help="The text itself.")]
FileOption = Annotated[Path | None, typer.Option("--file", "-f", help="A file with the text (UTF-8).")]
ImageOption = Annotated[Path | None, typer.Option("--image", "-i", help="A picture (PNG, JPEG, GIF, WebP, BMP).")]
SourceOption = Annotated[str | None, typer.Option("--source", help="Who stands behind it, for example direct_user.")]


def open_guard(store: str | None, policy: str | None, namespace: str) -> Guard:
    """The guard that the common options describe."""
    return Guard.open(store, policy, namespace or None)


def read_file(path: Path, field: str, limit: int) -> bytes:
    """A file's bytes, never more than the limit."""
    try:
        with path.open("rb") as file:
            data = file.read(limit + 1)
            size = path.stat().st_size
    except OSError as error:
        raise InputError(field, f"{path} cannot be read ({error.strerror})", "Check the path") from None
    if len(data) > limit:
        raise TooLarge(field, max(size, len(data)), limit)
    return data


def _content(guard: Guard, text: str, file: Path | None, image: Path | None) -> tuple[str | bytes, bytes | None]:
    """The text and the picture that the options name."""
    limits = guard.policy.limits
    said = read_file(file, "file", limits.max_text_bytes) if file else text
    return said, read_file(image, "image", limits.max_image_bytes) if image else None


def show_decision(decision: Decision) -> None:
    """A decision for a person: what to do, why, and which gates really ran."""
    colour = "green" if decision.allowed else "red"
    console.print(f"[bold {colour}]{decision.ruling.label}[/]  {decision.item}", highlight=False)
    console.print(
        f"rule {decision.rule}, risk {decision.risk:.2f} in {decision.interval}", markup=False, highlight=False
    )
    for reason in decision.reasons:
        console.print(f"- {reason}", markup=False, highlight=False)
    for run in decision.runs:
        if run.status is not RunStatus.RAN:
            console.print(f"gate {run.gate}: {run.status.value} {run.detail}", markup=False, highlight=False)


def _finish(decision: Decision, as_json: bool) -> None:
    emit(decision, as_json, lambda: show_decision(decision))
    if not decision.allowed:
        raise typer.Exit(EXIT_FLAGGED)


@plain_errors
def init(
    path: Annotated[Path, typer.Argument(help="Where to write it.")] = Path("policy.toml"),
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    json: JsonFlag = False,
) -> None:
    """Write a policy file with every default written out and explained."""
    text = commented_toml(
        {
            "structure": StructureSettings,
            "blocklist": BlocklistSettings,
            "memory": MemorySettings,
            "content": ContentSettings,
        }
    )
    try:
        with path.open("w" if force else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise InputError("path", f"{path} exists", "Choose another path, or pass --force") from None
    except OSError as error:
        raise InputError("path", f"{path} cannot be written ({error.strerror})", "Choose another path") from None
    emit({"policy": str(path)}, json, lambda: console.print(f"wrote {path}; use it with --policy or LAZARETTO_POLICY"))


@plain_errors
def check(
    agent: AgentOption,
    text: TextOption = "",
    file: FileOption = None,
    image: ImageOption = None,
    channel: Annotated[Channel | None, typer.Option("--channel", "-c", help="The road it came by.")] = None,
    source: SourceOption = None,
    parent: Annotated[list[str] | None, typer.Option("--parent", help="Id it was derived from; may repeat.")] = None,
    store: StoreOption = None,
    policy: PolicyOption = None,
    namespace: NamespaceOption = "",
    json: JsonFlag = False,
) -> None:
    """Judge something an agent is about to read or say. Exit code 1 when it should not be used."""
    with open_guard(store, policy, namespace) as guard:
        said, picture = _content(guard, text, file, image)
        decision = guard.run(
            guard.check(said, agent=agent, channel=channel, image=picture, source=source, parents=parent or ())
        )
    _finish(decision, json)


@plain_errors
def remember(
    agent: AgentOption,
    text: TextOption = "",
    file: FileOption = None,
    image: ImageOption = None,
    parent: Annotated[
        list[str] | None,
        typer.Option("--parent", help="Id it was derived from; may repeat. Default: what the agent has just recalled."),
    ] = None,
    source: SourceOption = None,
    store: StoreOption = None,
    policy: PolicyOption = None,
    namespace: NamespaceOption = "",
    json: JsonFlag = False,
) -> None:
    """Judge and keep a memory. Exit code 1 when it is held back."""
    with open_guard(store, policy, namespace) as guard:
        said, picture = _content(guard, text, file, image)
        decision = guard.run(guard.remember(said, agent=agent, parents=parent, image=picture, source=source))
    _finish(decision, json)


@plain_errors
def recall(
    agent: AgentOption,
    query: Annotated[str | None, typer.Argument(help="What to look for. Default: the newest memories.")] = None,
    item: Annotated[
        list[str] | None, typer.Option("--item", help="Only these ids, as far as they may be used.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-l", help="At most so many.")] = 5,
    store: StoreOption = None,
    policy: PolicyOption = None,
    namespace: NamespaceOption = "",
    json: JsonFlag = False,
) -> None:
    """Memories that an agent may use; what is held stays out. The reading is recorded."""
    with open_guard(store, policy, namespace) as guard:
        found = guard.run(guard.recall(agent, query, items=item, limit=limit))
    emit(found, json, lambda: _show_recalled(found))


def _show_recalled(found: tuple[Recalled, ...]) -> None:
    if not found:
        console.print("nothing that may be used")
        return
    table = Table("id", "by", "trust", "text")
    for one in found:
        table.add_row(one.id, one.agent, f"{one.trust:.2f}", one.text[:200] or "(picture)")
    console.print(table, markup=False)


def register(app: typer.Typer) -> None:
    """Add these commands to the application."""
    for command in (init, check, remember, recall):
        app.command()(command)
