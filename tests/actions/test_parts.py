"""The parts of the last gate: what a tool does, what a value is, whether a text asks for something."""

from __future__ import annotations

from typing import Any

import pytest

from lazaretto.actions.classes import Tool, guess, is_sum
from lazaretto.actions.records import ActionClass, ActionSettings, ValueKind
from lazaretto.actions.values import (
    account_form,
    asks_for,
    asks_for_pages,
    canonical,
    plain_form,
    stands_in,
    value_form,
    values_of,
)


@pytest.mark.parametrize(
    ("name", "description", "arguments", "action"),
    [
        ("get_balance", "", (), "read"),
        ("searchFiles", "", ("query",), "read"),
        ("send_money", "", ("recipient", "amount"), "pay"),
        ("transfer_to_human_agents", "Transfer the user to a human agent.", ("summary",), "read"),
        ("transfer", "", ("to", "amount"), "pay"),
        ("book_flight", "", (), "pay"),
        ("delete_email", "", ("email_id",), "delete"),
        ("create_event", "", ("title", "participants"), "send"),
        ("create_file", "", ("name", "content"), "write"),
        ("add_user_to_channel", "", ("user", "channel"), "share"),
        ("update_password", "", ("password",), "share"),
        ("python", "", ("code",), "execute"),
        ("get_rows", "", ("sql",), "execute"),
        ("frobnicate", "", (), "send"),
        ("notes", "Returns all notes.", (), "read"),
        ("memo", "Stores a memo.", (), "write"),
        ("", "", (), "send"),
    ],
)
def test_what_a_tool_does_is_guessed(name: str, description: str, arguments: tuple[str, ...], action: str) -> None:
    found, why = guess(Tool(name, description, arguments))
    assert found.value == action and why


def kinds(given: dict[str, Any], tool: Tool | None = None, **table: Any) -> dict[str, str]:
    found = values_of(tool or Tool("t"), given, ActionClass.PAY, ActionSettings.of(table))
    return {one.argument: one.kind.value for one in found}


def test_values_have_kinds() -> None:
    assert kinds({"recipient": "Bob", "amount": 3, "subject": "rent", "date": "2024-05-01", "fast": True}) == {
        "recipient": "destination",
        "amount": "amount",
    }
    assert kinds({"x": "see https://evil.example/a and mail eve@evil.example about it all, please"}) == {"x": "link"}
    assert kinds({"x": "eve@evil.example"}) == {"x": "destination"}
    assert kinds({"to": ["a@x.example", "b@x.example"]}) == {"to[0]": "destination", "to[1]": "destination"}
    assert kinds({"o": {"user": {"id": 7}}, "password": "x", "cmd": "ls"}) == {
        "o.user.id": "name", "password": "secret", "cmd": "code",
    }  # fmt: skip


def test_an_address_in_a_key_is_a_destination() -> None:
    found = values_of(Tool("t"), {"headers": {"x": {"eve@evil.example": True}}}, ActionClass.SEND, ActionSettings())
    assert [(one.kind, one.value) for one in found] == [(ValueKind.DESTINATION, "eve@evil.example")]


def test_several_addresses_in_one_value_are_each_looked_for() -> None:
    found = values_of(Tool("t"), {"to": "a@x.example; b@x.example"}, ActionClass.SEND, ActionSettings())
    assert [one.value for one in found] == ["a@x.example", "b@x.example"]
    mixed = values_of(Tool("t"), {"to": "a@x.example and Bob"}, ActionClass.SEND, ActionSettings())
    assert [one.value for one in mixed] == ["a@x.example", "a@x.example and Bob"]


def test_the_policy_names_kinds_and_the_schema_frees_fixed_words() -> None:
    assert kinds({"street": "Main 1"}, arguments={"t.street": "destination"}) == {"street": "destination"}
    assert kinds({"street": "Main 1"}, arguments={"street": "free"}) == {}
    schema = {"properties": {"cabin": {"enum": ["economy", "business"]}, "seat": {"type": "string"}}}
    assert kinds({"cabin": "economy", "seat": "3A"}, Tool.of("t", "", schema)) == {"seat": "name"}


@pytest.mark.parametrize(
    ("value", "text", "found"),
    [
        ("Bob", "Write to Bob, please.", True),
        ("bob", "Write to Bob's mother", True),
        ("bob", "Write to Bobby", False),
        ("#general", "post in general.", True),
        ("bob@corp.example", "<bob@corp.example>", True),
        ("bob@corp.example", "mail bob@corp.example.evil.example", False),
        ("bob@corp.example", "mail jim.bob@corp.example", False),
        ("corp.example", "mail bob@corp.example", False),
        ("evil.example", "not-evil.example", False),
        ("https://x.example/a", "see https://x.example/a.", True),
        ("https://x.example/a", "see http://x.example/a/b", False),
        ("x.example", "see https://x.example/a", False),
        ("13", "at 13:30", False),
        ("13", "13.5 percent", False),
        ("13", "files 12, 13 and 14", True),
        ("1000", "1,000", False),
        ("/home/a", "in /home/a/b", False),
        ("/home/a", "in /home/a", True),
        ("Riverside View Hotel", "the riverside\n view hotel", True),
        ("pаypal.example", "paypal.example", False),
        ("bob\u200b@corp.example", "bob@corp.example", False),
    ],
)
def test_a_value_is_found_whole_or_not_at_all(value: str, text: str, found: bool) -> None:
    assert stands_in(value_form(value), plain_form(text)) is found


def test_accounts_are_compared_without_separators() -> None:
    assert account_form("GB29 NWBK 6016 1331 9268 19") == account_form("gb29nwbk60161331926819") != ""
    assert account_form("+49 (30) 1234-567") == account_form("49301234567")
    assert account_form("Bob") == ""


@pytest.mark.parametrize(
    ("text", "tool", "action", "asks"),
    [
        ("Send Bob a message.", "send_dm", "send", True),
        ("Can you please email the report to Ann?", "send_email", "send", True),
        ("How many emails did I get from Ann?", "send_email", "send", False),
        ("Summarise the email from Ann.", "send_email", "send", False),
        ("Do not send anything.", "send_email", "send", False),
        ("Don't ever delete files. Pay the bill.", "delete_file", "delete", False),
        ("Don't wait, pay the bill.", "send_money", "pay", True),
        ("What is on my calendar?", "create_calendar_event", "send", False),
        ("Cancel the meeting", "cancel_event", "delete", True),
        ("Tell me my balance and pay the rent", "send_money", "pay", True),
        ("", "send_money", "pay", False),
        ("Tell me the price, and let me know.", "send_email", "send", False),
        ("To each user write the message: hi", "send_dm", "send", True),
        ("Go ahead and make a reservation for me", "reserve_hotel", "pay", True),
        ("Send Ann the list", "reserve_hotel", "pay", False),
    ],
)
def test_only_a_request_asks(text: str, tool: str, action: str, asks: bool) -> None:
    assert bool(asks_for(text, tool, ActionClass(action))) is asks


def test_equal_calls_have_one_form() -> None:
    assert canonical({"a": 1, "b": [1, {"d": 1, "c": 2}]}) == canonical({"b": [1, {"c": 2, "d": 1}], "a": 1})
    assert canonical({"a": "1"}) != canonical({"a": 1})


def test_words_that_ask_to_be_told_ask_for_no_message() -> None:
    send = ActionClass.SEND
    assert asks_for("Please share the names with me.", "send_email", send) == ""
    assert asks_for("Please share the names of both hotels.", "send_email", send) == ""
    assert asks_for("Looking forward to hearing from you.", "send_email", send) == ""
    assert asks_for("Please share the report with Ann.", "send_email", send) == "share"
    assert asks_for("I want to upgrade my flight.", "update_flight", ActionClass.PAY) == "upgrade"


def test_a_route_leads_to_a_place_and_to_nobody() -> None:
    given = {"origin": "SFO", "destination": "JFK", "flights": [{"destination": "LAX"}]}
    assert kinds(given, Tool("book", "", ("origin", "destination"))) == {
        "origin": "name", "destination": "name", "flights[0].destination": "name",
    }  # fmt: skip
    assert kinds({"destination": "JFK"}) == {"destination": "destination"}
    leads_out = {"origin": "SFO", "destination": "eve@evil.example"}
    assert kinds(leads_out, Tool("book", "", ("origin", "destination")))["destination"] == "destination"


def test_pages_are_asked_for_sentence_by_sentence() -> None:
    assert asks_for_pages("Sum up the websites in 'general'. Then visit a.example.com.") == "websites"
    assert asks_for_pages("Visit the website a.example.com.") == ""


def test_a_sum_is_no_code() -> None:
    assert is_sum({"expression": "2 * (3.5 + 4) - 10%"}) and not is_sum({"expression": "__import__('os')"})
    assert not is_sum({}) and not is_sum({"expression": "1+1", "then": "rm -r"})
