"""Names that the guard had before its parts had one each: they work for one version more, with a warning."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from lazaretto.names import warn_old_name

OLD_NAMES = {
    **{name: f"repairs.{name}" for name in ("plan", "dry_run", "apply", "undo", "receipts")},
    **{name: f"repairs.{name}" for name in ("proposals", "proposal", "accept", "dismiss")},
    **{name: f"stores.{name}" for name in ("join", "forget", "import_records", "reconcile")},
    **{name: f"stores.{name}" for name in ("write_back", "due_writes", "note_written")},
    **{name: f"foresight.{name}" for name in ("rehearse_with", "before_turn", "before_round")},
    "incident": "incidents.one",
    "suspects": "incidents.suspects",
    "contacts_to_screen": "incidents.contacts",
    "note_screened": "incidents.note_screened",
    "answer_action": "approvals.answer",
    "waiting_actions": "approvals.waiting",
    "endorse": "approvals.endorse",
    "tend": "recheck",
}
"""Old name: where it is now."""


class OldNames:
    """Finds old names of a guard; type checkers see the new ones alone."""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            new = OLD_NAMES.get(name)
            if new is None:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            warn_old_name(f"guard.{name}", f"guard.{new}")
            return functools.reduce(getattr, new.split("."), self)
