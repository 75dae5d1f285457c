"""Raw input: every field is checked before anything else runs, and a refusal names the field."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lazaretto import Channel, InputError, MemoryFields, SourceClass, TooLarge
from lazaretto.ingest.raw_input import USUAL_SOURCE, RawInput, read_observation, read_text
from lazaretto.names import MAX_NAME
from lazaretto.policy import Limits

LIMITS = Limits(max_text_bytes=20, max_image_bytes=10, max_parents=3, max_fields_bytes=200)
SOUND = RawInput("ada", Channel.MEMORY, "a note")


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("agent", {"agent": ""}),
        ("agent", {"agent": " \t"}),
        ("agent", {"agent": "a\nb"}),
        ("agent", {"agent": 7}),
        ("agent", {"agent": None}),
        ("channel", {"channel": "pigeon"}),
        ("channel", {"channel": 3}),
        ("channel", {"channel": None}),
        ("text", {"text": ""}),
        ("text", {"text": " \n\u3000"}),
        ("text", {"text": b""}),
        ("text", {"text": None}),
        ("text", {"text": ["a"]}),
        ("text", {"text": b"caf\xe9"}),
        ("text", {"text": "\udcff"}),
        ("image", {"image": b""}),
        ("image", {"image": "cat.png"}),
        ("image", {"image": bytearray(b"xx")}),
        ("fields", {"fields": 3}),
        ("fields", {"fields": {"colour": 1}}),
        ("fields.state", {"fields": {"state": 3}}),
        ("fields.state", {"fields": {"state": ["x"]}}),
        ("fields.context", {"fields": {"context": [math.inf]}}),
        ("fields.action", {"fields": MemoryFields(action=(math.nan,))}),
        ("fields.tags", {"fields": {"tags": [1]}}),
        ("fields.meta", {"fields": {"meta": {"at": object()}}}),
        ("parents", {"parents": "it_1"}),
        ("parents", {"parents": {"it_1"}}),
        ("parents", {"parents": [""]}),
        ("parents", {"parents": [None]}),
        ("source", {"source": "oracle"}),
        ("source", {"source": 1}),
        ("principal", {"principal": ""}),
        ("principal", {"principal": 7}),
        ("principal", {"principal": "scout"}),
        ("principal", {"principal": "key:"}),
        ("principal", {"principal": "key:a\nb"}),
        ("principal", {"principal": "key:" + "a" * (2 * MAX_NAME + 2)}),
        ("principal", {"principal": "a kind:scout"}),
    ],
)
def test_every_field_is_refused_by_its_name(field: str, change: dict[str, Any]) -> None:
    with pytest.raises(InputError) as caught:
        read_observation(replace(SOUND, **change), "crew", LIMITS)
    assert caught.value.field == field
    assert caught.value.fix, "and says how to put it right"


@pytest.mark.parametrize(
    ("field", "change", "size", "limit"),
    [
        ("agent", {"agent": "a" * (MAX_NAME + 1)}, MAX_NAME + 1, MAX_NAME),
        ("text", {"text": "x" * 21}, 21, 20),
        ("text", {"text": b"x" * 21}, 21, 20),
        ("text", {"text": "é" * 11}, 22, 20),
        ("image", {"image": b"x" * 11}, 11, 10),
        ("parents", {"parents": ["a", "b", "c", "d"]}, 4, 3),
        ("fields", {"fields": {"tags": ["x" * 200]}}, None, 200),
    ],
)
def test_a_limit_is_told_with_its_size(field: str, change: dict[str, Any], size: int | None, limit: int) -> None:
    with pytest.raises(TooLarge) as caught:
        read_observation(replace(SOUND, **change), "crew", LIMITS)
    assert (caught.value.field, caught.value.limit) == (field, limit)
    assert caught.value.size == size if size else caught.value.size > limit
    unit = {"agent": "characters", "parents": "ids"}.get(field, "bytes")
    assert f" {unit} are past the limit of {limit:,}. " in str(caught.value)
    setting = "" if field == "agent" else f"limits.max_{field}" + "_bytes" * (unit == "bytes")
    assert caught.value.setting == setting and setting in str(caught.value)


def test_what_stands_exactly_at_a_limit_passes() -> None:
    made = read_observation(
        RawInput("a" * MAX_NAME, "memory", "é" * 10, b"x" * 10, None, ["a", "b", "c"]), "crew", LIMITS
    )  # fmt: skip
    assert (len(made.agent), made.text, made.parents) == (MAX_NAME, "é" * 10, ("a", "b", "c"))


@pytest.mark.parametrize("channel", list(Channel))
def test_the_source_is_the_callers_or_what_the_channel_suggests(channel: Channel) -> None:
    assert read_observation(replace(SOUND, channel=channel.value), "crew", LIMITS).source is USUAL_SOURCE[channel]
    told = read_observation(replace(SOUND, channel=channel, source="direct_user"), "crew", LIMITS)
    assert (told.channel, told.source) == (channel, SourceClass.DIRECT_USER)


def test_one_of_text_picture_and_record_is_enough() -> None:
    picture = read_observation(replace(SOUND, text="", image=b"png"), "crew", LIMITS)
    assert picture.text == "" and picture.image is None, "its digest is known once the ledger has it"
    record = read_observation(replace(SOUND, text="", fields={"state": [1, 2], "tags": ["dock"]}), "crew", LIMITS)
    assert record.fields == MemoryFields(state=(1.0, 2.0), tags=("dock",))
    same = read_observation(replace(SOUND, text="", fields=record.fields), "crew", LIMITS)
    assert same.fields == record.fields


def test_namespace_and_time_are_kept() -> None:
    assert read_observation(replace(SOUND, time=12.5), "crew", LIMITS).time == 12.5
    made = read_observation(SOUND, "crew", LIMITS)
    assert (made.namespace, made.time > 1_000_000_000) == ("crew", True)


@given(st.text(max_size=200))
def test_text_of_any_kind_comes_back_or_is_refused(text: str) -> None:
    try:
        assert read_text(text, 1_000) == text
    except InputError as refused:
        assert refused.field == "text"


@given(st.binary(max_size=60))
def test_bytes_are_decoded_strictly(data: bytes) -> None:
    try:
        expected: str | None = data.decode("utf-8")
    except UnicodeDecodeError:
        expected = None
    if expected is not None:
        assert read_text(data, 60) == expected
        return
    with pytest.raises(InputError, match="is not UTF-8"):
        read_text(data, 60)
