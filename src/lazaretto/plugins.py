"""Old place of ``lazaretto.policy.plugins``, for one version more."""

from __future__ import annotations

from typing import Any

from lazaretto.names import warn_old_name
from lazaretto.policy import plugins


def __getattr__(name: str) -> Any:
    found = getattr(plugins, name)
    warn_old_name("lazaretto.plugins", "lazaretto.policy.plugins")
    return found
