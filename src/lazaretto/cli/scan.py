"""``lazaretto scan``: poisoned and contradicting texts and secrets in a store that others keep."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import orjson
import typer

from lazaretto.cli.common import (
    EXIT_FLAGGED,
    EXIT_USAGE,
    console,
    errors,
    plain_errors,
    print_plain,
    printable,
    progress_bar,
)
from lazaretto.errors import InputError
from lazaretto.files import write_file
from lazaretto.policy.plugins import require
from lazaretto.reports import spelled_json

if TYPE_CHECKING:
    from lazaretto.scan.run import ScanReport

_SHOWN = 20


@plain_errors
def scan(
    path: Annotated[
        list[str], typer.Argument(help="A folder, files, or a database URL (sqlite:///..., postgresql://...).")
    ],
    json: Annotated[Path | None, typer.Option("--json", help="Write the report as JSON; '-' prints it.")] = None,
    sarif: Annotated[Path | None, typer.Option("--sarif", help="Write the report as SARIF 2.1.0.")] = None,
    html: Annotated[Path | None, typer.Option("--html", help="Write the report as a page.")] = None,
    false_positive_rate: Annotated[
        float, typer.Option(min=0.001, max=0.1, help="Share of honest memories that may be called poisoned.")
    ] = 0.01,
    contradictions: Annotated[bool, typer.Option(help="Also look for memories that contradict each other.")] = True,
    workers: Annotated[int, typer.Option(min=0, help="Processes that judge; 0: chosen by the size of the store.")] = 0,
    ray: Annotated[bool, typer.Option("--ray", help="Judge on a Ray cluster (RAY_ADDRESS, else here).")] = False,
    journal: Annotated[Path | None, typer.Option(help="Where an interrupted scan keeps what it judged.")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Forget what an interrupted scan judged.")] = False,
    baseline: Annotated[
        Path | None, typer.Option("--baseline", help="What was found and accepted earlier; only more than that counts.")
    ] = None,
    accept_all: Annotated[
        Path | None, typer.Option("--write-baseline", help="Accept all that is found, in this file; ends with 0.")
    ] = None,
    inline_ignores: Annotated[
        bool, typer.Option("--inline-ignores", help="Let notes say 'lazaretto: ignore RULE', where people review them.")
    ] = False,
    unjudged_ok: Annotated[
        bool,
        typer.Option(
            "--allow-unjudged", "--unjudged-ok", help="Exit with 0 although some memories could not be judged."
        ),
    ] = False,
) -> None:
    """Find poisoned, contradicting and secret texts in a store: notes, JSON lines, LangGraph, mem0, Chroma, Qdrant.

    Nothing is written to the store. A scan that was interrupted goes on where it stopped.

    Exit code 0: nothing found, 1: findings, 2: the input is wrong, or a part of it could not be read or judged.
    """
    from lazaretto.scan.judge import Journal, ScanSettings, journal_path
    from lazaretto.scan.reports import accept, read_baseline
    from lazaretto.scan.run import judges
    from lazaretto.scan.run import scan as run_scan
    from lazaretto.scan.sources import open_source

    started = time.monotonic()
    settings = ScanSettings(false_positive_rate, max(0.05, false_positive_rate), contradictions)
    source = open_source(path)
    require("a scan", "gates", "onnxruntime", "safetensors", "tokenizers", "py3langid", "detect_secrets")
    if baseline is not None:
        read_baseline(baseline)  # a wrong baseline is reported before the work
    for out in (json, sarif, html, accept_all):
        if out is not None and str(out) != "-" and not out.absolute().parent.is_dir():
            raise InputError("report", f"there is no folder for {out}", "Make it first")
    where = journal or journal_path("\0".join([source.name, *path]), settings)
    if fresh:
        where.unlink(missing_ok=True)
    kept = Journal(where)
    count, finished = source.count(), False
    try:
        with progress_bar() as bar, judges(settings, workers, ray=ray) as jury:
            tasks = {what: bar.add_task(what, total=count if what == "judging" else None, start=what == "judging")
                     for what in ("judging", "comparing")}  # fmt: skip
            report = run_scan(
                source, settings, jury, kept, lambda what, more, _of: bar.update(tasks[what], advance=more)
            )
        accept(report, getattr(source, "base", Path()), baseline=baseline, inline=inline_ignores)
        _save(report, json, sarif, html)
        finished = True
    finally:
        kept.close(finished=finished)
    if str(json) != "-":
        _show(report, time.monotonic() - started)
    _finish(report, accept_all, unjudged_ok)


def _save(report: ScanReport, json: Path | None, sarif: Path | None, html: Path | None) -> None:
    from lazaretto.scan.reports import as_html, as_json, as_sarif

    for out, made in ((json, as_json), (sarif, as_sarif)):
        if out is not None:
            written = orjson.dumps(made(report), option=orjson.OPT_INDENT_2).decode()
            _write(out, f"{spelled_json(written)}\n".encode())
    if html is not None:
        _write(html, as_html(report).encode())


def _finish(report: ScanReport, accept_all: Path | None, unjudged_ok: bool) -> None:
    """The exit code; the accepted findings are written first."""
    from lazaretto.scan.records import Level
    from lazaretto.scan.reports import write_baseline

    if accept_all is not None and report.complete:
        number = write_baseline(report, accept_all)
        errors.print(f"{number:,} findings accepted in {accept_all}", markup=False, highlight=False)
        return
    if not report.complete:
        raise typer.Exit(EXIT_USAGE)
    if report.of(Level.ERROR, Level.WARNING):
        raise typer.Exit(EXIT_FLAGGED)
    if not report.clean and not unjudged_ok:
        errors.print("not called clean: some could not be judged; --allow-unjudged accepts that", markup=False)
        raise typer.Exit(EXIT_USAGE)


def _write(out: Path, data: bytes) -> None:
    if str(out) == "-":
        typer.echo(data.decode(), nl=False)
        return
    try:
        write_file(out, data)
    except OSError as error:
        raise InputError("report", f"{out} cannot be written ({error.strerror})", "Name another file") from None


def _show(report: ScanReport, seconds: float) -> None:
    from lazaretto.scan.records import Level
    from lazaretto.scan.reports import RULES, summary

    counts = summary(report)
    colours = {Level.ERROR: "red", Level.WARNING: "yellow"}
    serious = sorted(report.of(Level.ERROR, Level.WARNING), key=lambda finding: finding.level is not Level.ERROR)
    for finding in serious[:_SHOWN]:
        console.print(f"[{colours[finding.level]}]{finding.level.value:<7}[/] ", end="")
        line = "" if finding.line is None or finding.record.endswith(f":{finding.line}") else f" (line {finding.line})"
        print_plain(f"{finding.kind:<13} {printable(finding.record)}{line}")
        print_plain(f"        {printable(finding.message)}")
        print_plain(f"        do: {RULES[finding.rule][2]}")
    if len(serious) > _SHOWN:
        console.print(f"... and {len(serious) - _SHOWN:,} more: --html, --json or --sarif has them all")
    for place in counts["unreadable"][:_SHOWN]:
        errors.print(f"unreadable: {printable(place)}", markup=False, highlight=False)
    found = ", ".join(f"{count:,} {kind}" for kind, count in counts["found"].items())
    before = f", {report.judged_before:,} of them by the scan that was interrupted" if report.judged_before else ""
    records, remarks = (
        f"{n:,} {what}{'s' * (n != 1)}" for n, what in ((report.records, "record"), (counts["notes"], "remark"))
    )
    words = f"{records} judged in {seconds:.0f} s{before}: {found}; {remarks}"
    if counts["accepted"]:
        words += "; accepted earlier: " + ", ".join(f"{count:,} by {by}" for by, count in counts["accepted"].items())
    if counts["not_judged"]:
        words += f"; {counts['not_judged']:,} not judged for orders (language)"
    if counts["skipped_files"]:
        words += f"; {counts['skipped_files']:,} files of other kinds were not read"
    if counts["skipped_folders"]:
        named = ", ".join(map(printable, counts["skipped_folders"][:5]))
        words += f"; {len(counts['skipped_folders']):,} folders were left out ({named})"
    print_plain(words)
    if not report.records:
        errors.print("nothing to read there: no notes, JSON lines or known database", markup=False)
