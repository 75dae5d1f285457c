"""The guard's settings: the policy (``policy``), how its tables are read (``settings``) and written out
(``written_out``), whole policies by name (``presets``), and plug-ins by name (``plugins``)."""

from typing import TYPE_CHECKING, Any

from lazaretto.names import warn_old_name
from lazaretto.policy.policy import (
    DEFAULT_LIMITS,
    DEFAULT_TRUST,
    AnyStage,
    ChannelPolicy,
    Channels,
    Influence,
    LearnPolicy,
    LedgerProofPolicy,
    Limits,
    Policy,
    ProxySources,
    RepairLimits,
    Review,
    Stage,
    TaintPolicy,
    TrustPolicy,
    When,
)
from lazaretto.policy.settings import CLOSED, RulingWord, Share, read_settings
from lazaretto.policy.written_out import commented_toml, markdown_table, rows

__all__ = [
    "CLOSED",
    "DEFAULT_LIMITS",
    "DEFAULT_TRUST",
    "AnyStage",
    "ChannelPolicy",
    "Channels",
    "Influence",
    "LearnPolicy",
    "LedgerProofPolicy",
    "Limits",
    "Policy",
    "ProxySources",
    "RepairLimits",
    "Review",
    "RulingWord",
    "Share",
    "Stage",
    "TaintPolicy",
    "TrustPolicy",
    "When",
    "commented_toml",
    "markdown_table",
    "read_settings",
    "rows",
]


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name != "Record":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        warn_old_name("lazaretto.policy.Record", "LedgerProofPolicy")
        return LedgerProofPolicy
