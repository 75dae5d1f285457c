"""The command line. Each file of this folder holds one family of commands and adds it with ``register(app)``."""

from __future__ import annotations

import importlib

import typer

FAMILIES: tuple[str, ...] = (
    "guarding",
    "tracing",
    "repairing",
    "ledger",
    "doctor",
    "serve",
    "audit",
    "data",
    "learn",
    "epidemic",
    "bench",
    "attack",
    "screen",
)
"""Modules of this folder, in the order ``--help`` lists them."""


def build() -> typer.Typer:
    """The whole application."""
    app = typer.Typer(
        name="lazaretto",
        help="An immune system for multi-agent AI: inspect, hold, clean and release what agents read, keep and say.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
    )
    for family in FAMILIES:
        importlib.import_module(f"lazaretto.cli.{family}").register(app)
    return app


def main() -> None:
    """Entry point of the ``lazaretto`` command."""
    build()()
