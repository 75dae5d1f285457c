"""Lazaretto: an immune system for multi-agent AI. This is the front door; ``lazaretto.testing`` is the other one.

>>> from lazaretto import SyncGuard
>>> with SyncGuard.open("sqlite:///crew.db") as guard:                                # doctest: +SKIP
...     decision = guard.remember("the door code is 4711", agent="ada")
...     decision.allowed
True

Inside async code the same is ``async with Guard.open(...) as guard`` and ``await guard.remember(...)``.
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

from lazaretto import old_modules

# onnxruntime writes a device id and reports to its vendor unless this is set before it is first imported. Every
# import of a part of Lazaretto comes through here first.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"
old_modules.install()

if TYPE_CHECKING:
    from lazaretto.actions.records import Authorization
    from lazaretto.agents.album import AlbumItem
    from lazaretto.agents.chat_agent import ChatAgent
    from lazaretto.agents.model import AgentModel
    from lazaretto.errors import (
        BadAnswer,
        ChainBroken,
        Forbidden,
        GuardClosed,
        InputError,
        LazarettoError,
        MissingExtra,
        ModelError,
        ModelUnavailable,
        NotYours,
        PictureWorkerFailed,
        PolicyError,
        RepairRefused,
        StaleState,
        StoreDamaged,
        StoreError,
        StoreMissing,
        StoreUnavailable,
        TooLarge,
        UnknownItem,
        UnreadablePicture,
    )
    from lazaretto.external_stores.records import DueWrite, ExternalRecord, ExternalStore, Imported, Reconciled
    from lazaretto.gates.protocol import Gate, GateContext
    from lazaretto.guard import Guard
    from lazaretto.guard.recall import Memories, Recalled
    from lazaretto.guard.rechecking import Rechecked
    from lazaretto.guard.sync_guard import SyncGuard
    from lazaretto.incidents.records import HeldItem, Incident
    from lazaretto.learn.withdrawals import LabelDecision, Withdrawal
    from lazaretto.policy import Policy
    from lazaretto.repair.proposals import Proposal
    from lazaretto.repair.protocol import Repair, RepairRequest, RepairView
    from lazaretto.types import (
        BeforeRound,
        BeforeTurn,
        Channel,
        Decision,
        Evidence,
        MemoryFields,
        Observation,
        Receipt,
        Ref,
        RepairPlan,
        RepairStep,
        Ruling,
        SourceClass,
        Verdict,
        WrittenBack,
    )

_HOMES = {
    # hold a guard
    "lazaretto.guard": ("Guard",),
    "lazaretto.guard.recall": ("Memories", "Recalled"),
    "lazaretto.guard.sync_guard": ("SyncGuard",),
    "lazaretto.policy": ("Policy",),
    "lazaretto.types": (
        "BeforeRound", "BeforeTurn", "Channel", "Decision", "Evidence", "MemoryFields", "Observation", "Receipt", "Ref",
        "RepairPlan", "RepairStep",
        "Ruling", "SourceClass", "Verdict", "WrittenBack",
    ),
    # read the guard's answers
    "lazaretto.actions.records": ("Authorization",),
    "lazaretto.guard.rechecking": ("Rechecked",),
    "lazaretto.incidents.records": ("HeldItem", "Incident"),
    "lazaretto.learn.withdrawals": ("LabelDecision", "Withdrawal"),
    "lazaretto.repair.proposals": ("Proposal",),
    # rehearse agents
    "lazaretto.agents.album": ("AlbumItem",),
    "lazaretto.agents.chat_agent": ("ChatAgent",),
    "lazaretto.agents.model": ("AgentModel",),
    # join a store of your own
    "lazaretto.external_stores.records": ("DueWrite", "ExternalRecord", "ExternalStore", "Imported", "Reconciled"),
    # write a gate
    "lazaretto.gates.protocol": ("Gate", "GateContext"),
    # write a repair
    "lazaretto.repair.protocol": ("Repair", "RepairRequest", "RepairView"),
    # catch what goes wrong
    "lazaretto.errors": (
        "BadAnswer", "ChainBroken", "Forbidden", "GuardClosed", "InputError", "LazarettoError", "MissingExtra",
        "ModelError", "ModelUnavailable", "NotYours", "PictureWorkerFailed", "PolicyError", "RepairRefused",
        "StaleState", "StoreDamaged", "StoreError", "StoreMissing", "StoreUnavailable", "TooLarge", "UnknownItem",
        "UnreadablePicture",
    ),
}  # fmt: skip
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "AgentModel",
    "AlbumItem",
    "Authorization",
    "BadAnswer",
    "BeforeRound",
    "BeforeTurn",
    "ChainBroken",
    "Channel",
    "ChatAgent",
    "Decision",
    "DueWrite",
    "Evidence",
    "ExternalRecord",
    "ExternalStore",
    "Forbidden",
    "Gate",
    "GateContext",
    "Guard",
    "GuardClosed",
    "HeldItem",
    "Imported",
    "Incident",
    "InputError",
    "LabelDecision",
    "LazarettoError",
    "Memories",
    "MemoryFields",
    "MissingExtra",
    "ModelError",
    "ModelUnavailable",
    "NotYours",
    "Observation",
    "PictureWorkerFailed",
    "Policy",
    "PolicyError",
    "Proposal",
    "Recalled",
    "Receipt",
    "Rechecked",
    "Reconciled",
    "Ref",
    "Repair",
    "RepairPlan",
    "RepairRefused",
    "RepairRequest",
    "RepairStep",
    "RepairView",
    "Ruling",
    "SourceClass",
    "StaleState",
    "StoreDamaged",
    "StoreError",
    "StoreMissing",
    "StoreUnavailable",
    "SyncGuard",
    "TooLarge",
    "UnknownItem",
    "UnreadablePicture",
    "Verdict",
    "Withdrawal",
    "WrittenBack",
]


_OLD_NAMES = {"ForeignRecord": "ExternalRecord", "ForeignStore": "ExternalStore"}
"""Names that go in 0.3, each with the one it has now."""


def __getattr__(name: str) -> Any:
    """Load a name when it is first used: a caller that needs one record should not load a database layer."""
    if name in _OLD_NAMES:
        names = importlib.import_module("lazaretto.names")
        names.warn_old_name(f"lazaretto.{name}", f"lazaretto.{_OLD_NAMES[name]}")
        return __getattr__(_OLD_NAMES[name])
    if name not in _HOME:
        raise AttributeError(f"module 'lazaretto' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
