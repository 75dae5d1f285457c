"""Descriptions of a server's tools, prompts and resources: whether an agent may read them.

The rules for instructions apply (``gates/instructions.py``) to every string, hidden words included. With the ``gates``
extra, the screener's head for descriptions is one more sign, or is enough where it is sure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib.util import find_spec
from typing import Any

from lazaretto.errors import ModelError
from lazaretto.gates.instructions import tool_faults
from lazaretto.gates.structure import StructureSettings, text_findings
from lazaretto.ingest.strings import read_strings
from lazaretto.reading.text import reading_of
from lazaretto.types import Ruling

_FORM = StructureSettings()
_FEWEST_HIDDEN_WORDS = 4
_CODED = ("base64", "hex", "binary", "codes", "escapes", "percent")


def description_fault(described: Mapping[str, Any], *, quoted: bool = True) -> str:
    """The fault in a server's description, in one sentence; empty if there is none.

    ``quoted``: with the words themselves, for a person; an agent must not read them.
    """
    reading = read_strings(dict(described))
    if not reading.whole:
        return f"a part of its description cannot be read ({reading.unread[0].why})"
    for text in dict.fromkeys([*(found.text for found in reading.texts), reading.text]):
        fault = _fault(text, quoted)
        if fault:
            return fault
    return ""


def _fault(text: str, quoted: bool) -> str:
    hidden = next((d for d in text_findings(text, _FORM) if d.ruling > Ruling.WARN), None)
    if hidden is not None:
        return f"its description hides something ({hidden.rule})"
    for view in reading_of(text).views():
        coded = view.name.partition(" ")[0] in _CODED
        if coded and view.text != text and len(view.text.split()) >= _FEWEST_HIDDEN_WORDS:
            return f"its description hides words ({view.name})"
        for fault in tool_faults(view.text, _order()):
            quote = f": “{view.text[fault.start : fault.end][:120]}”" if quoted else ""
            return f"{fault.words.lower()} ({fault.rule}){quote}"
    return ""


@cache
def _order() -> Callable[[str], int] | None:
    """How much in a description reads like poison: 0, 1 or 2; None where the screener is not installed."""
    if any(find_spec(module) is None for module in ("onnxruntime", "safetensors", "tokenizers", "py3langid")):
        return None
    from lazaretto.gates.memory.text_screener import shared_screener

    try:
        screener = shared_screener()
    except ModelError:
        return None

    bars = screener.calibration.tools

    def order(text: str) -> int:
        logit = screener.poison_in_description(text)
        return int(logit > bars["sign"]) + int(logit > bars["refuse"])

    return order
