"""A SARIF 2.1.0 log: the format that code hosts, editors and security dashboards read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from typing import Any

from lazaretto.reports.encoding import encodable

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def log(
    rules: Iterable[Mapping[str, Any]], results: Iterable[Mapping[str, Any]], unreadable: Sequence[str] = ()
) -> dict[str, Any]:
    """One run. ``unreadable``: what could not be judged; the run then counts as not successful."""
    driver = {"name": "Lazaretto", "semanticVersion": version("lazaretto"), "rules": list(rules)}
    failures = [{"level": "error", "message": {"text": f"could not be read: {place}"}} for place in unreadable]
    run = {
        "tool": {"driver": driver},
        "invocations": [{"executionSuccessful": not failures, "toolExecutionNotifications": failures}],
        "results": list(results),
        "columnKind": "unicodeCodePoints",
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [encodable(run)]}
