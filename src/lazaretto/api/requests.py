"""Bodies of the HTTP calls: pydantic models at the border, with the same names as the guard's own calls."""

from __future__ import annotations

import base64
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from lazaretto.errors import InputError
from lazaretto.types import Channel, SourceClass

MOST_AT_ONCE = 256
"""Most items of one batch."""


class Body(BaseModel):
    """Unknown keys are errors: a misspelt one must not be silently ignored."""

    model_config = ConfigDict(extra="forbid")


class Fields(Body):
    """A structured memory: numbers, tags and plain meta data."""

    state: list[float] = []
    context: list[float] = []
    action: list[float] = []
    tags: list[str] = []
    meta: dict[str, Any] = {}


def decoded(image: str | None) -> bytes | None:
    """A picture's bytes from base64."""
    if image is None:
        return None
    try:
        return base64.b64decode(image, validate=True)
    except ValueError:  # not base64, or not even ASCII
        raise InputError("image", "is not base64", "Send the picture's bytes in base64") from None


Picture = Annotated[str | None, Field(description="A picture, base64.")]
Record = Annotated[Fields | None, Field(description="A structured memory, beside the text or instead of it.")]


class Content(Body):
    """Something to be judged."""

    text: str = ""
    image: Picture = None
    parents: Annotated[list[str], Field(description="Ids of the items it was made from.")] = []
    source: SourceClass | None = None

    def picture(self) -> bytes | None:
        """The picture's bytes."""
        return decoded(self.image)


class CheckBody(Content):
    """``POST /v1/check``."""

    agent: str
    channel: Channel | None = None
    tool: Annotated[
        str | None,
        Field(
            description="The tool that answered with it. Where the policy names it as a directory, its whole values"
            " count as the crew's own; that needs a key that may claim `tool_output_internal`."
        ),
    ] = None


RefParts = Annotated[
    list[str], Field(min_length=3, max_length=3, description="Where your own store keeps it: system, namespace, key.")
]


class RememberBody(Content):
    """``POST /v1/remember``; leave ``parents`` out to have influence inferred."""

    agent: str
    parents: list[str] | None = None  # type: ignore[assignment]
    fields: Record = None
    key: Annotated[str | None, Field(description="The name under which your own store keeps it.")] = None
    ref: RefParts | None = None
    value: Annotated[Any, Field(description="What your store keeps under `ref`, as JSON, instead of `text`.")] = None


class NamedRememberBody(RememberBody):
    """One of ``POST /v1/remember/batch``."""

    once: Annotated[
        str | None,
        Field(
            max_length=200,
            description="A name of yours for this write, as the header Idempotency-Key of a single one: sent again with"
            " it, nothing is recorded twice.",
        ),
    ] = None


class RememberBatch(Body):
    """``POST /v1/remember/batch``."""

    items: Annotated[list[NamedRememberBody], Field(min_length=1, max_length=MOST_AT_ONCE)]


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


class RecallRefsBody(Body):
    """``POST /v1/recall/refs``."""

    agent: str
    refs: Annotated[list[RefParts], Field(min_length=1)]
    min_trust: float = 0.0


class ForgetBody(Body):
    """``POST /v1/forget``."""

    agent: str
    ref: RefParts


class ImportedRecord(Body):
    """One record of your own store, with its known origins."""

    ref: RefParts
    value: Annotated[Any, Field(description="The stored value, as JSON; its texts are judged.")]
    agent: Annotated[str | None, Field(description="Who wrote it.")] = None
    source: SourceClass | None = None
    parents: Annotated[list[str | RefParts], Field(description="What it was made from: ids of items, or refs.")] = []
    time: Annotated[float | None, Field(description="When it was written, in seconds since 1970.")] = None


class ImportBody(Body):
    """``POST /v1/records/import``."""

    agent: Annotated[str, Field(description="Counts as the writer of records that name none.")]
    records: Annotated[list[ImportedRecord], Field(min_length=1, max_length=MOST_AT_ONCE)]


class StandingRecord(Body):
    """The value under one key of a namespace of your own store."""

    key: str
    value: Any


class ReconcileBody(Body):
    """``POST /v1/records/reconcile``."""

    system: str
    namespace: str
    records: Annotated[list[StandingRecord], Field(description="Everything that the namespace holds.")]


class Written(Body):
    """One write as ``GET /v1/write-backs`` named it."""

    ref: RefParts
    item: str
    write: Literal["put", "delete"]
    error: Annotated[str, Field(description="Why it could not be done; empty where it was.")] = ""


class WrittenBody(Body):
    """``POST /v1/write-backs/done``."""

    writes: Annotated[list[Written], Field(min_length=1, max_length=MOST_AT_ONCE)]


class ReportBody(Body):
    """``POST /v1/report``."""

    agent: str
    what: str
    success: bool | None = None
    rests_on: list[str] | None = None


class BeforeTurnBody(Body):
    """``POST /v1/before-turn``."""

    agent: str
    others: Annotated[list[str], Field(description="Agents within reach that do not speak now.")] = []


class ScreenBody(Body):
    """``POST /v1/screen``: the gates' decision; nothing is recorded."""

    text: str = ""
    image: Picture = None
    fields: Record = None
    channel: Channel = Channel.MEMORY
    source: SourceClass | None = None
    key: Annotated[str | None, Field(description="The name under which your own store would keep it.")] = None


class ScreenBatch(Body):
    """``POST /v1/screen/batch``."""

    items: Annotated[list[ScreenBody], Field(min_length=1, max_length=MOST_AT_ONCE)]


class AuditBody(Body):
    """``POST /v1/audit``: a text, a picture or both, judged by debate."""

    text: str = ""
    image: Picture = None
    description: Annotated[str, Field(description="Words for the picture, if you have them.")] = ""


class AuditBatch(Body):
    """``POST /v1/audit/batch``."""

    items: Annotated[list[AuditBody], Field(min_length=1, max_length=MOST_AT_ONCE)]


class LabelBody(Body):
    """``POST /v1/items/{item}/label``."""

    label: str
    by: Annotated[str, Field(description="Who says so; a reviewer's key signs with its own name.")] = ""


class UnlabelBody(Body):
    """``POST /v1/labels/{decision}/undo``."""

    by: Annotated[str, Field(description="Who takes it back; a reviewer's key signs with its own name.")] = ""


class AppealBody(Body):
    """``POST /v1/items/{item}/appeal``."""

    reason: str
    by: Annotated[str, Field(description="Who disputes it; a personal key signs with its name.")] = ""


class ReleaseBody(Body):
    """``POST /v1/items/{item}/release``."""

    reason: str = ""
    descendants: Annotated[bool, Field(description="Also items that are held because of it.")] = False
    by: Annotated[str, Field(description="Who releases it; a reviewer's key signs with its own name.")] = ""


class SettleBody(Body):
    """``POST /v1/conflicts/settle``."""

    keep: str
    over: str
    by: Annotated[str, Field(description="Who decides; a reviewer's key signs with its own name.")] = ""


class PlanBody(Body):
    """``POST /v1/repairs/plan``; ``options`` are the repair's own."""

    repair: str
    item: str
    reason: str = ""
    options: dict[str, bool | int | float | str | list[str]] = {}


class AcceptBody(Body):
    """``POST /v1/repairs/proposals/{proposal}/apply``; ``seen`` is that of the proposal as it was shown."""

    seen: str = Field(min_length=64, max_length=64)


class DismissBody(Body):
    """``POST /v1/repairs/proposals/{proposal}/dismiss``."""

    reason: str = ""


class RollbackBody(Body):
    """``POST /v1/cases/rollback``."""

    to: Annotated[str | None, Field(description="Version; the live one's parent by default.")] = None
    by: Annotated[str, Field(description="Who decides it; a personal key signs with its name.")] = ""
