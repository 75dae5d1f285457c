"""Old place of ``lazaretto.policy.plugins``, for one version more."""

from __future__ import annotations

import warnings
from typing import Any

from lazaretto.policy import plugins


def __getattr__(name: str) -> Any:
    found = getattr(plugins, name)
    text = "lazaretto.plugins is now lazaretto.policy.plugins; the old place goes in 0.3"
    warnings.warn(text, DeprecationWarning, stacklevel=2)
    return found
