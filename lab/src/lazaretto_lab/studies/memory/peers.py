"""Other guards for agents' memories, each as one function from a text to 'held'; measured as they come.

They are installed for comparison alone (agent-memory-guard, agent-immune, memory-blackbox), never as a dependency.
"""

from __future__ import annotations

import datetime
import importlib
import itertools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from lazaretto.errors import InputError

Judge = Callable[[str], bool]


def open_peer(name: str) -> Judge:
    """A peer with a new store; ``InputError`` says what to install where it is absent."""
    if name not in PEERS:
        raise InputError("peer", f"{name!r} is unknown", f"Use one of {', '.join(PEERS)}")
    try:
        return PEERS[name]()
    except ImportError:
        raise InputError("peer", f"{name} is not installed", f"pip install {name}") from None


def _memory_guard() -> Judge:
    package: Any = importlib.import_module("agent_memory_guard")
    guard, names = package.MemoryGuard(policy=package.Policy.strict()), itertools.count()

    def judge(text: str) -> bool:
        try:
            return str(guard.write(f"notes.n{next(names)}", text)).lower().rsplit(".", 1)[-1] != "allow"
        except package.PolicyViolation:
            return True

    return judge


def _immune() -> Judge:
    package: Any = importlib.import_module("agent_immune")
    system = package.AdaptiveImmuneSystem()
    return lambda text: bool(system.assess(text).action.value != "allow")


def _blackbox() -> Judge:
    """Its two detectors that read content; the others compare records over time."""
    base: Any = importlib.import_module("memory_blackbox.detectors.base")
    scan: Any = importlib.import_module("memory_blackbox.detectors.injection_scan")
    unicode: Any = importlib.import_module("memory_blackbox.detectors.unicode_smuggling")
    detectors = (scan.InjectionScanDetector(), unicode.UnicodeSmugglingDetector())
    context = base.DetectorContext("default", datetime.datetime.now(datetime.UTC))
    return lambda text: any(d.inspect(SimpleNamespace(record_id="r"), text, context) for d in detectors)


PEERS: dict[str, Callable[[], Judge]] = {
    "agent-memory-guard": _memory_guard,
    "agent-immune": _immune,
    "memory-blackbox": _blackbox,
}
"""Name on PyPI -> a new instance."""
