"""``lazaretto audit``: judge one item, or a file of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from lazaretto.cases.casebook import Casebook
from lazaretto.cli.common import EXIT_FLAGGED, console, print_plain, progress_bar, standard_input
from lazaretto.cli.context import CommandContext, with_context
from lazaretto.cli.guard import TextArgument, TextOption, one_text
from lazaretto.errors import InputError
from lazaretto.gates.content.batch import BatchOptions, RayPanels, flagged, run_batch
from lazaretto.gates.content.debate import DebateSettings, hold_debate, markdown, report_data
from lazaretto.gates.content.gate import ContentSettings, content_settings, live_library, make_panel, require_jury
from lazaretto.gates.content.people import with_peoples_word
from lazaretto.gates.content.records import Content, Outcome, Panel
from lazaretto.gates.content.report_html import page
from lazaretto.ingest.raw_input import read_text
from lazaretto.ledger import Ledger
from lazaretto.names import counted
from lazaretto.provenance.drawing.labels import showable
from lazaretto.provenance.graph import ProvenanceGraph
from lazaretto.reports import spelled


def content_policy(context: CommandContext) -> ContentSettings:
    """The content gate's settings of the context's policy."""
    return content_settings(context.policy.gates.get("content", {}), context.policy_file or "policy")


def _panel(settings: ContentSettings, context: CommandContext) -> Panel:
    """The panel of the settings, with the tenant's live case library."""
    limits = context.policy.limits
    if "retrieval" in settings.without:
        return make_panel(settings, None, limits)
    with context.open_ledger() as ledger:
        library = live_library(Casebook(ledger), settings.encoder)
    return make_panel(settings, library, limits)


def _ray_panels(settings: ContentSettings, context: CommandContext) -> RayPanels:
    """The same panel on every core of a cluster."""
    if "retrieval" in settings.without:
        return RayPanels(settings, None, context.policy.limits)
    with context.open_ledger() as ledger:
        return RayPanels(settings, tuple(Casebook(ledger).cases()), context.policy.limits)


def _write_report(path: Path, report: dict[str, Any]) -> None:
    import orjson

    writers = {".html": page, ".md": markdown}
    if path.suffix == ".json":
        path.write_bytes(orjson.dumps(report, option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS))
    elif path.suffix in writers:
        path.write_text(writers[path.suffix](report), encoding="utf-8")
    else:
        raise InputError("report", f"unknown kind {path.suffix!r}", "Use a name that ends in .json, .md or .html")


def _read_picture(path: Path | None) -> bytes | None:
    if path is None:
        return None
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError("image", f"cannot read {path} ({error.strerror})", "Check the path") from None


@with_context()
def audit(
    context: CommandContext,
    words: TextArgument = None,
    text: TextOption = "",
    image: Annotated[Path | None, typer.Option("--image", help="Picture to judge.")] = None,
    description: Annotated[
        str, typer.Option("--description", help="Description of the picture, if you have one.")
    ] = "",
    report: Annotated[Path | None, typer.Option("--report", help="Write the report: .json, .md or .html.")] = None,
    batch: Annotated[Path | None, typer.Option("--batch", help="JSON lines: id, text, description | image.")] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Verdicts of a batch; kept if it is interrupted.")] = None,
    rounds: Annotated[int | None, typer.Option("--rounds", min=1, max=3, help="Rounds of debate.")] = None,
    adaptive: Annotated[bool, typer.Option("--adaptive", help="Stop a debate that is settled.")] = False,
    at_once: Annotated[int, typer.Option("--at-once", min=1, help="Debates at once.")] = 64,
    retry_undecided: Annotated[bool, typer.Option("--retry-undecided", help="Judge undecided items again.")] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Judge again what --out holds already.")] = False,
    ray: Annotated[
        bool, typer.Option("--ray", help="Judge a batch on a Ray cluster (RAY_ADDRESS, else here).")
    ] = False,
) -> None:
    """Judge a text, a picture or both by debate, with reasons; exit code 1 when it is unsafe or needs review."""
    settings = content_policy(context)
    require_jury(settings)
    debate = DebateSettings(rounds or settings.rounds, adaptive or settings.adaptive)
    text = one_text(words, text)
    if batch is not None:
        if out is None or text or image or description:
            raise InputError("batch", "a batch needs --out and nothing else to judge", "See lazaretto audit --help")
        options = BatchOptions(debate, at_once, retry_undecided, fresh)
        panel = _ray_panels(settings, context) if ray else _panel(settings, context)
        _batch(context, panel, batch, out, options)
        return
    if ray:
        raise InputError("ray", "is for a batch", "Give --batch and --out, or leave it out")
    limit = context.policy.limits.max_text_bytes
    if text == "-":
        text = read_text(standard_input(limit), limit)
    content = Content("item", text, _read_picture(image), description)
    if not text.strip() and content.image is None and not description.strip():
        raise InputError("text", "there is nothing to judge", "Give --text, --image or both")
    transcript = asyncio.run(hold_debate(_panel(settings, context), content, debate))
    with context.open_ledger() as ledger:
        data = _by_people(context, ledger)(content, report_data(transcript))
    data["allowed"] = data["label"] == Outcome.SAFE.value
    data["reasons"] = [data["reasoning"] or data["rule_text"], *(row["summary"] for row in data["evidence"])]
    if report is not None:
        _write_report(report, data)
    context.emit(data, lambda: _show(data, report))
    if not data["allowed"]:
        raise typer.Exit(EXIT_FLAGGED)


def _by_people(context: CommandContext, ledger: Ledger) -> Callable[[Content, dict[str, Any]], dict[str, Any]]:
    """Puts the word of people in the place of a debate's outcome."""
    graph = ProvenanceGraph(ledger)
    return lambda content, report: with_peoples_word(report, content, ledger, graph, context.policy)


def _show(data: dict[str, Any], written: Path | None) -> None:
    colour = {"safe": "green", "unsafe": "red", "review": "yellow"}[data["label"]]
    low, high = data["interval"]
    console.print(
        f"[bold {colour}]{data['label'].upper()}[/]  risk {data['risk']:.2f} ({low:.2f} to {high:.2f})  rule "
        f"{data['rule']}"
    )
    print_plain(showable(data["reasoning"] or data["rule_text"]))
    for turn in data["transcript"]:
        name = f"  round {turn['round']} {turn['role']:<6} {turn['score']:.2f}"
        print_plain(f"{name}  {showable(turn['argument'], 160)}")
    for row in (*data["evidence"][:5], *data["notices"][:3]):
        print_plain(f"  - {showable(row['summary'], 160)}")
    for precedent in data["precedents"]:
        words = showable(precedent["summary"], 120)
        print_plain(f"  precedent ({precedent['label']}, {precedent['similarity']:.2f}): {words}")
    for fault in data["faults"]:
        console.print(f"  fault: {spelled(fault)}", markup=False, highlight=False, style="yellow")
    cost = data["cost"]
    price = f", ${cost['dollars']:.6f}" if cost["dollars"] else ""
    console.print(f"  {cost['ms']:.0f} ms, {counted(cost['calls'], 'call')}, {counted(cost['tokens'], 'token')}{price}")
    if written is not None:
        console.print(f"  report written to {written}", markup=False)


def _batch(context: CommandContext, panel: Panel | RayPanels, items: Path, out: Path, options: BatchOptions) -> None:
    with progress_bar(context.as_json) as bar:
        task = bar.add_task("judging", total=None)
        step = lambda done, total: bar.update(task, completed=done, total=total)  # noqa: E731
        with context.open_ledger() as ledger:
            spoken = _by_people(context, ledger)
            summary = asyncio.run(run_batch(panel, items, out, options, step, spoken))

    def show() -> None:
        console.print(
            f"{summary.judged} judged ({summary.already} were done before), {summary.unsafe} unsafe, "
            f"{summary.review} for review ({summary.undecided} undecided) of {summary.items}; verdicts in {out}",
            highlight=False,
        )

    context.emit(summary, show)
    if flagged(out):
        raise typer.Exit(EXIT_FLAGGED)
