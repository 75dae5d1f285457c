"""What the guard goes by: the policy (``policy``), how its tables are read (``settings``) and written out
(``written_out``), whole policies by name (``presets``), and plug-ins by name (``plugins``)."""

from lazaretto.policy.policy import (
    DEFAULT_LIMITS,
    DEFAULT_TRUST,
    AnyStage,
    ChannelPolicy,
    Channels,
    Influence,
    LearnPolicy,
    Limits,
    Policy,
    ProxySources,
    Record,
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
    "Limits",
    "Policy",
    "ProxySources",
    "Record",
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
