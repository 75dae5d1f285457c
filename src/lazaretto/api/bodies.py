"""What the HTTP calls take: pydantic models at the border, with the same names as the guard's own calls."""

from __future__ import annotations

import base64
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from lazaretto.errors import InputError
from lazaretto.types import Channel, SourceClass


class Body(BaseModel):
    """Unknown keys are errors: a misspelt one must not be silently ignored."""

    model_config = ConfigDict(extra="forbid")


class Content(Body):
    """Something to be judged."""

    text: str = ""
    image: Annotated[str | None, Field(description="A picture, base64.")] = None
    parents: Annotated[list[str], Field(description="Ids of the items it was made from.")] = []
    source: SourceClass | None = None

    def picture(self) -> bytes | None:
        """The picture's bytes."""
        if self.image is None:
            return None
        try:
            return base64.b64decode(self.image, validate=True)
        except ValueError:  # not base64, or not even ASCII
            raise InputError("image", "is not base64", "Send the picture's bytes in base64") from None


class CheckBody(Content):
    """``POST /v1/check``."""

    agent: str
    channel: Channel | None = None


class RememberBody(Content):
    """``POST /v1/remember``; leave ``parents`` out to have influence inferred."""

    agent: str
    parents: list[str] | None = None  # type: ignore[assignment]
    key: Annotated[str | None, Field(description="The name under which your own store keeps it.")] = None


class ExchangeBody(Content):
    """``POST /v1/exchange``; leave ``parents`` out to have influence inferred."""

    sender: str
    receiver: str
    parents: list[str] | None = None  # type: ignore[assignment]


class RecallBody(Body):
    """``POST /v1/recall``."""

    agent: str
    query: str | None = None
    items: list[str] | None = None
    limit: int = 5
    min_trust: float = 0.0


class ReportBody(Body):
    """``POST /v1/report``."""

    agent: str
    what: str
    success: bool | None = None
    rests_on: list[str] | None = None


class LabelBody(Body):
    """``POST /v1/items/{item}/label``."""

    label: str
    by: Annotated[str, Field(description="Who says so; a reviewer's key signs with its own name.")] = ""


class PlanBody(Body):
    """``POST /v1/repairs/plan``; ``options`` are the repair's own."""

    repair: str
    item: str
    reason: str = ""
    options: dict[str, bool | int | float | str | list[str]] = {}
