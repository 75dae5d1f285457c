"""The policy's settings for claims: the table ``[gates.memory.claims]``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import Field

from lazaretto.errors import PolicyError
from lazaretto.gates.memory.claims.update_rule import ChangeRule
from lazaretto.models.openai_chat import Endpoint
from lazaretto.policy import CLOSED, RulingWord, Share
from lazaretto.types import Ruling


@dataclass(frozen=True, slots=True)
class ClaimSettings:
    """The settings for who may change a known claim."""

    __pydantic_config__ = CLOSED
    compare: Annotated[bool, Field(description="Compare a text's claims with known claims.")] = True
    ruling: Annotated[RulingWord, Field(description="Ruling for a claim that its source may not change.")] = (
        Ruling.QUARANTINE
    )
    announcement: Annotated[
        RulingWord,
        Field(
            description="Ruling for a change of what moves money, access, safety or permissions that a source "
            "below `sensitive_trust` announces, where nothing known speaks for it."
        ),
    ] = Ruling.REVIEW
    little_trust: Annotated[Share, Field(description="Sources trusted less than this are sources of little trust.")] = (
        0.5
    )
    voices: Annotated[
        int, Field(ge=1, description="So many independent principals and roots may change a claim together.")
    ] = 2
    voice_trust: Annotated[Share, Field(description="Least trust of a voice that counts for a change.")] = 0.4
    sensitive_trust: Annotated[
        Share, Field(description="Least trust for changing what moves money, access, safety or permissions.")
    ] = 0.8
    sensitive_equals: Annotated[
        Share,
        Field(
            description="From this trust on, sources trusted alike may change such claims of each other; below it, "
            "only the writer of the claim or a source trusted more may."
        ),
    ] = 0.9
    sensitive_voices: Annotated[
        int, Field(ge=0, description="The same as `voices`, for such claims; 0: no number of voices changes them.")
    ] = 0
    sensitive_voice_trust: Annotated[
        Share, Field(description="The same as `voice_trust`, for such claims: strangers do not change them together.")
    ] = 0.6

    models: Annotated[
        Mapping[str, Endpoint],
        Field(description="'default': a language model that is asked where the small one is not sure of a relation."),
    ] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in self.models:
            if name != "default":
                raise PolicyError("gates.memory.claims.models", f"{name!r} is unknown", "'default'")

    def rule(self) -> ChangeRule:
        """As the judge takes it."""
        return ChangeRule(
            self.voices, self.voice_trust, self.sensitive_trust, self.sensitive_equals, self.little_trust,
            self.sensitive_voices, self.sensitive_voice_trust,
        )  # fmt: skip


DEFAULT_CLAIMS = ClaimSettings()
