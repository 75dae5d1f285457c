"""``lazaretto init | check | remember | recall | recheck | suspects``: the guard from a shell, here or on a server."""

from __future__ import annotations

import base64
import importlib
import os
import urllib.error
import urllib.request
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import orjson
import typer
from rich.text import Text

from lazaretto.cli.common import (
    EXIT_FLAGGED,
    JsonFlag,
    console,
    emit,
    new_table,
    plain_errors,
    print_plain,
    print_table,
    read_file,
    standard_input,
)
from lazaretto.cli.context import CommandContext, with_context
from lazaretto.cli.trace import clock
from lazaretto.errors import Forbidden, InputError, LazarettoError, StoreUnavailable
from lazaretto.guard.recall import Recalled
from lazaretto.guard.rechecking import Rechecked
from lazaretto.ingest.raw_input import channel_for, read_text
from lazaretto.policy import Limits, Policy, commented_toml, presets
from lazaretto.provenance.drawing.labels import showable
from lazaretto.provenance.suspects import Suspect
from lazaretto.types import Channel, Decision, Ruling, RunStatus, decision_data

AgentOption = Annotated[str, typer.Option("--agent", "-a", help="Who brought it in, wrote it, or reads it.")]
TextArgument = Annotated[
    str | None, typer.Argument(help="The text itself; '-' reads standard input.", show_default=False)
]
TextOption = Annotated[str, typer.Option("--text", "-t", help="The text itself; '-' reads standard input.")]
FileOption = Annotated[Path | None, typer.Option("--file", "-f", help="A file with the text (UTF-8).")]
ImageOption = Annotated[Path | None, typer.Option("--image", "-i", help="A picture (PNG, JPEG, GIF, WebP, BMP).")]
REASONS_SHOWN = 3
"""Reasons of one gate that are shown to a person; a debate brings a page of them."""
SourceOption = Annotated[str | None, typer.Option("--source", help="Source class, for example direct_user.")]

GATE_SETTINGS = {
    "structure": "structure:StructureSettings",
    "blocklist": "blocklist:BlocklistSettings",
    "protected": "protected:ProtectedSettings",
    "secrets": "secrets:SecretsSettings",
    "personal": "personal:PersonalSettings",
    "memory": "memory.gate:MemorySettings",
    "content": "content.gate:ContentSettings",
    "second_reader": "second_reader:SecondReaderSettings",
}
"""Places of the settings of every gate that ships, within ``lazaretto.gates``, for the file that ``init`` writes."""


def _gate_settings() -> dict[str, type]:
    found = {}
    for gate, place in GATE_SETTINGS.items():
        module, _, name = place.partition(":")
        found[gate] = getattr(importlib.import_module(f"lazaretto.gates.{module}"), name)
    return found


def _content(limits: Limits, text: str, file: Path | None, image: Path | None) -> tuple[str | bytes, bytes | None]:
    """The text and the picture that the options name."""
    if file is not None and text:
        raise InputError("text", "is given twice, as text and by --file", "Give one of them")
    content: str | bytes = text
    if file is not None:
        content = read_file(file, "file", limits.max_text_bytes, "limits.max_text_bytes")
    elif text == "-":
        content = standard_input(limits.max_text_bytes)
    picture = read_file(image, "image", limits.max_image_bytes, "limits.max_image_bytes") if image else None
    return content, picture


def one_text(words: str | None, text: str) -> str:
    """The text that is given as an argument or by ``--text``."""
    if words is not None and text:
        raise InputError("text", "is given twice, as an argument and by --text", "Give one of them")
    return words if words is not None else text


def show_decision(decision: Decision) -> None:
    """A decision for a person: what to do, why, and which gates really ran."""
    colour = "red" if not decision.allowed else "green" if decision.complete else "yellow"
    console.print(f"[bold {colour}]{decision.ruling.label}[/]  {decision.item}", highlight=False)
    if decision.would is not None:
        console.print(f"this policy only observes; it would have ruled {decision.would.label}", highlight=False)
    low, high = decision.interval
    risk = f"risk {decision.risk:.2f} in ({low:.2f}, {high:.2f})"
    print_plain(f"rule {decision.rule}, {risk}")
    for reason in _deciding_reasons(decision):
        print_plain(f"- {showable(reason)}")
    if decision.ruling is Ruling.REWRITE and decision.replacement is not None:
        words = f"kept instead as {decision.kept}" if decision.kept else "use instead"
        print_plain(f"{words}: {showable(decision.replacement, 400)}")
    if not decision.complete:
        console.print("Not every gate and reader looked at it:", highlight=False)
    for run in decision.runs:
        if run.status not in (RunStatus.RAN, RunStatus.SKIPPED):
            print_plain(f"gate {run.gate}: {run.status.value} {run.detail}")
    for words in decision.unheard:
        print_plain(f"reader: {words}")


def _deciding_reasons(decision: Decision) -> list[str]:
    """The reasons: those of gates that object, strictest first, else why it passed; ``--json`` has all."""
    objecting = sorted((v for v in decision.active_verdicts if v.ruling > Ruling.ALLOW), key=lambda v: -v.ruling)
    if not objecting:
        return list(decision.reasons[:REASONS_SHOWN])
    shown = (e for v in objecting for e in v.evidence[:REASONS_SHOWN] if not e.weighs or v.evidence[0].weighs)
    return list(dict.fromkeys(e.summary for e in shown))


def _finish(context: CommandContext, decision: Decision) -> None:
    context.emit(decision_data(decision), lambda: show_decision(decision))
    if not decision.allowed:
        raise typer.Exit(EXIT_FLAGGED)


def _finish_remote(
    context: CommandContext, url: str, call: str, asked: dict[str, Any], content: str | bytes, picture: bytes | None
) -> None:
    text = read_text(content, context.policy.limits.max_text_bytes)
    body = {**asked, "text": text, "image": base64.b64encode(picture).decode() if picture else None}
    data = decide(url, call, {name: value for name, value in body.items() if value is not None})
    context.emit(data, lambda: show(data))
    if not data["allowed"]:
        raise typer.Exit(EXIT_FLAGGED)


@plain_errors
def init(
    path: Annotated[Path, typer.Argument(help="Where to write it.")] = Path("policy.toml"),
    preset: Annotated[str, typer.Option("--preset", help=f"What to start from: {', '.join(presets.NAMES)}.")] = (
        presets.DEFAULT
    ),
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    json: JsonFlag = False,
) -> None:
    """Write a policy file with everything its preset says written out and explained."""
    text = commented_toml(_gate_settings(), Policy.read({"preset": preset}))
    try:
        with path.open("w" if force else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise InputError("path", f"{path} exists", "Choose another path, or pass --force") from None
    except OSError as error:
        raise InputError("path", f"{path} cannot be written ({error.strerror})", "Choose another path") from None
    emit({"policy": str(path)}, json, lambda: console.print(f"wrote {path}; use it with --policy or LAZARETTO_POLICY"))


@with_context()
def check(
    context: CommandContext,
    agent: AgentOption,
    words: TextArgument = None,
    text: TextOption = "",
    file: FileOption = None,
    image: ImageOption = None,
    channel: Annotated[
        Channel | None, typer.Option("--channel", "-c", help="Channel: message, memory, tool, document or image.")
    ] = None,
    source: SourceOption = None,
    parent: Annotated[list[str] | None, typer.Option("--parent", help="Id it was derived from; may repeat.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Record nothing, and learn nothing from it.")] = False,
) -> None:
    """Judge something an agent is about to read or say. Exit code 1 when it should not be used.

    It is recorded, and a held item is known when it comes again; --dry-run only shows the gates' decision.
    Where LAZARETTO_URL names a running server, that one judges; LAZARETTO_TOKEN is its key.
    """
    content, picture = _content(context.policy.limits, one_text(words, text), file, image)
    if dry_run and parent:
        raise InputError("parent", "stands beside --dry-run, which records nothing", "Give one of them")
    by = channel or channel_for(content, picture)
    if url := server_of(context):
        asked: dict[str, Any] = {"source": source, "channel": by if dry_run else channel}
        asked |= {} if dry_run else {"agent": agent, "parents": parent or []}
        _finish_remote(context, url, "screen" if dry_run else "check", asked, content, picture)
        return
    with context.open_to_screen() if dry_run else context.open_guard() as guard:
        fields: dict[str, Any] = {"agent": agent, "channel": by, "image": picture, "source": source}
        decision = guard.screen(content, **fields) if dry_run else guard.check(content, parents=parent or (), **fields)
    _finish(context, decision)


@with_context()
def remember(
    context: CommandContext,
    agent: AgentOption,
    words: TextArgument = None,
    text: TextOption = "",
    file: FileOption = None,
    image: ImageOption = None,
    parent: Annotated[
        list[str] | None,
        typer.Option("--parent", help="Id it was derived from; may repeat. What the agent read lately counts besides."),
    ] = None,
    source: SourceOption = None,
    key: Annotated[str | None, typer.Option("--key", help="The name under which your own store keeps it.")] = None,
) -> None:
    """Judge and keep a memory. Exit code 1 when it is held back. LAZARETTO_URL counts as for check."""
    content, picture = _content(context.policy.limits, one_text(words, text), file, image)
    if url := server_of(context):
        asked = {"agent": agent, "source": source, "parents": parent, "key": key}
        _finish_remote(context, url, "remember", asked, content, picture)
        return
    with context.open_guard() as guard:
        decision = guard.remember(content, agent=agent, parents=parent, image=picture, source=source, key=key)
    _finish(context, decision)


@with_context()
def recall(
    context: CommandContext,
    agent: AgentOption,
    query: Annotated[str | None, typer.Argument(help="What to look for. Default: the newest memories.")] = None,
    item: Annotated[list[str] | None, typer.Option("--item", help="Only these ids; held ones stay left out.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-l", help="Most rows to show.")] = 5,
    min_trust: Annotated[float, typer.Option("--min-trust", help="Least trust, from 0 to 1.")] = 0.0,
) -> None:
    """Memories that an agent may use, without held ones. The reading is recorded."""
    with context.open_guard() as guard:
        found = guard.recall(query, agent=agent, items=item, limit=limit, min_trust=min_trust)
    context.emit(found, lambda: _show_recalled(found))


def _show_recalled(found: tuple[Recalled, ...]) -> None:
    if not found:
        console.print("nothing that may be used")
        return
    table = new_table("id", "by", "trust", "text")
    for memory in found:
        table.add_row(
            memory.id,
            Text(showable(memory.agent)),
            f"{memory.trust:.2f}",
            Text(showable(memory.text, 200) or "(picture)"),
        )
    print_table(table)


# ``LAZARETTO_URL``: commands that ask a running ``lazaretto serve`` instead of loading gates and models themselves.
#
# A server that is away, refuses or answers with anything but a decision is an error: nothing passes.
# ``LAZARETTO_TOKEN`` goes to that address alone: redirects are not followed, proxies are not used.

URL, TOKEN = "LAZARETTO_URL", "LAZARETTO_TOKEN"
SECONDS = 180.0
_LARGEST = 20_000_000


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *given: Any) -> None:
        """None: the redirect is the answer, and no decision."""


_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirect())


def server_of(context: CommandContext) -> str:
    """The address to ask; empty where this process judges itself. The server has its own store, policy and tenant."""
    url = os.environ.get(URL, "").strip().rstrip("/")
    if not url:
        return ""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.query:
        raise InputError(URL, f"{url!r} is not the address of a server", "For example http://127.0.0.1:8787")
    beside = {
        "policy": context.policy_given,
        "store": context.store,
        "namespace": context.namespace != context.policy.namespace,
    }
    for name, given in beside.items():
        if given:
            raise InputError(name, f"is given beside {URL}; the server has its own", f"Leave it out, or unset {URL}")
    return url


def decide(url: str, call: str, body: dict[str, Any]) -> dict[str, Any]:
    """The server's decision."""
    headers = {"content-type": "application/json"}
    if token := os.environ.get(TOKEN, "").strip():
        headers["authorization"] = f"Bearer {token}"
    request = urllib.request.Request(f"{url}/v1/{call}", orjson.dumps(body), headers, method="POST")
    try:
        with _opener.open(request, timeout=SECONDS) as answer:
            data = orjson.loads(answer.read(_LARGEST))
    except urllib.error.HTTPError as error:
        raise _refusal(url, error) from None
    except (OSError, ValueError) as error:
        reason = str(getattr(error, "reason", error))[:200]
        fix = f"start it with 'lazaretto serve', or unset {URL}"
        raise StoreUnavailable(f"{url} gives no answer ({reason}): {fix}; nothing was judged") from None
    known = {ruling.label for ruling in Ruling}
    if not isinstance(data, dict) or data.get("ruling") not in known or not isinstance(data.get("allowed"), bool):
        raise StoreUnavailable(f"{url} answers with something that is no decision; is it a lazaretto server?")
    return data


def _refusal(url: str, error: urllib.error.HTTPError) -> LazarettoError:
    try:
        body = orjson.loads(error.read(100_000))
        message, field = str(body["message"]), body.get("field")
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        message, field = f"status {error.code}", None
    if error.code in (401, 403):
        return Forbidden(f"{url} refuses: {message} (key: {TOKEN})")
    if error.code in (400, 413, 422):
        return InputError(str(field or "request"), f"{url} refuses it: {message}", "See the message")
    return StoreUnavailable(f"{url} could not judge it ({message}); nothing was decided")


def show(data: dict[str, Any]) -> None:
    """A decision of a server for a person."""
    colour = "green" if data["allowed"] else "red"
    console.print(f"[bold {colour}]{data['ruling']}[/]  ", end="", highlight=False)
    print_plain(f"{data.get('item', '')}\nrule {data.get('rule', '')}")
    for reason in data.get("reasons") or ():
        print_plain(f"- {showable(str(reason))}")
    if not data.get("complete", False):
        console.print("Not every gate and reader looked at it.", highlight=False)


# ``lazaretto recheck | suspects``: memories are judged again; suspects behind failed decisions.


@with_context()
def recheck(
    context: CommandContext,
    limit: Annotated[
        int | None, typer.Option("--limit", "-l", help="Most memories to judge again. Default: the policy's.")
    ] = None,
) -> None:
    """Judge memories again: release clean ones, hold missed ones, propose repairs of items made
    from them."""
    with context.open_guard(create=False) as guard:
        done = guard.recheck(limit=limit)
    context.emit(done, lambda: _show_rechecked(done))


def _show_rechecked(done: Rechecked) -> None:
    words = f"looked at {done.looked}, held {len(done.held)}, released {len(done.released)}"
    words += f", rewritten {len(done.rewritten)}, proposed {len(done.proposed)}, left {done.left}"
    console.print(f"{words}, new cases {len(done.cases)}" if done.cases else words, highlight=False)
    named = (
        ("held", done.held),
        ("released", done.released),
        ("rewritten", done.rewritten),
        ("unjudged", done.unjudged),
    )
    for name, items in named:
        for item in items:
            print_plain(f"{name} {item}")
    for name in done.proposed:
        print_plain(f"proposed {name}: look at it with: lazaretto repair proposal {name}")


@with_context()
def suspects(
    context: CommandContext,
    limit: Annotated[int, typer.Option("--limit", "-l", help="Most rows to show.")] = 10,
) -> None:
    """List items that failed decisions share and the others do not, the strongest suspicion first."""
    with context.open_guard(create=False) as guard:
        found = guard.incidents.suspects(limit=limit)
    context.emit(found, lambda: _show_suspects(found))


def _show_suspects(found: tuple[Suspect, ...]) -> None:
    if not found:
        console.print("nothing stands behind failed decisions more often than chance lets it")
        return
    table = new_table("item", "by", "time (UTC)", "failed", "succeeded", "by chance", "unexplained")
    for suspect in found:
        chance = "nothing to compare" if suspect.chance is None else f"{suspect.chance:.2g}"
        counts = (str(suspect.failed), str(suspect.succeeded), chance, str(suspect.unexplained))
        table.add_row(suspect.item, Text(showable(suspect.agent)), clock(suspect.time), *counts)
    print_table(table)
