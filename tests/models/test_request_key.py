"""Every field of a request, and of its messages, is part of the request's name."""

from __future__ import annotations

from dataclasses import fields, replace
from types import MappingProxyType
from typing import Any

import pytest

from lazaretto.models.caches import request_key
from lazaretto.models.protocol import Message, Request

PLAIN = Request((Message("user", "a", (b"x",)),), schema={"a": 1, "b": {"c": 2}})
OTHER: dict[str, Any] = {
    "messages": (*PLAIN.messages, Message("assistant", "b")),
    "max_tokens": 9,
    "temperature": 0.5,
    "schema": {"a": 1, "b": {"c": 3}},
}
OTHER_MESSAGE: dict[str, Any] = {"role": "system", "text": "b", "images": (b"y",)}


@pytest.mark.parametrize("name", [field.name for field in fields(Request)])
def test_a_change_in_any_field_is_another_request(name: str) -> None:
    changed = replace(PLAIN, **{name: OTHER[name]})  # a new field fails here until it has another value to try
    assert request_key("m", changed) != request_key("m", PLAIN)


@pytest.mark.parametrize("name", [field.name for field in fields(Message)])
def test_a_change_in_any_part_of_a_message_is_another_request(name: str) -> None:
    changed = replace(PLAIN, messages=(replace(PLAIN.messages[0], **{name: OTHER_MESSAGE[name]}),))
    assert request_key("m", changed) != request_key("m", PLAIN)


def test_the_model_counts_and_the_order_of_a_schemas_keys_does_not() -> None:
    assert request_key("m", PLAIN) != request_key("n", PLAIN)
    turned = replace(PLAIN, schema=MappingProxyType({"b": {"c": 2}, "a": 1}))
    assert request_key("m", turned) == request_key("m", PLAIN)


def test_words_that_move_between_messages_make_another_request() -> None:
    one = Request((Message("user", "ab"), Message("user", "c")))
    two = Request((Message("user", "a"), Message("user", "bc")))
    assert request_key("m", one) != request_key("m", two)
