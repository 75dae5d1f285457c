"""Credentials are found and taken out; what only looks like one is left alone."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

pytest.importorskip("detect_secrets")

from lazaretto import PolicyError, Ruling, SyncGuard
from lazaretto.gates.secrets import LINE, find_secrets, make, without_secrets
from lazaretto.testing import check_gate

KEY = "AKIAQ7ZL4M2WXT5RKD3P"
PICTURE = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3"
PEM = "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEIIa1b2c3d4\nZZZZ\n-----END EC PRIVATE KEY-----"


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        (f"the key is {KEY}, keep it", KEY),
        ("DB=postgres://bob:s3cr3tPw@db:5432/x", "s3cr3tPw"),
        ("DB=postgres://bob:s3@cr3t@db:5432/x", "s3@cr3t"),
        ("password: hunter22", "hunter22"),
        ("PASSWORD = 'correct-horse9'", "correct-horse9"),
        ("api_key=0a9b8c7d6e5f4a3b2c1d", "0a9b8c7d6e5f4a3b2c1d"),
        ("token glpat-abcdEFGH1234567890xy", "glpat-abcdEFGH1234567890xy"),
        ("client_secret: kjhsdf-KJHSDF-kjsdhfkjshdf-skdjfh", "kjhsdf-KJHSDF-kjsdhfkjshdf-skdjfh"),
        ("export HF=hf_aBcDeFgHiJ1234567890kLmNoPqRsTuV", "hf_aBcDeFgHiJ1234567890kLmNoPqRsTuV"),
        (f"x {JWT} y", JWT),
        (f"here it is:\n{PEM}\nthat was it", PEM),
        ("For the record, the secret is 9f8a7b6c5d4e3f2a.", "9f8a7b6c5d4e3f2a"),
        ("The password for the staging database is Tr0ub4dor&3, keep it", "Tr0ub4dor&3"),
        ("our API key is now a1b2c3d4e5f6g7h8", "a1b2c3d4e5f6g7h8"),
        ("The password was changed to winter-2025-door!", "winter-2025-door"),
        ("Das Passwort für den Server lautet Blau88Wal.", "Blau88Wal"),
    ],
)  # fmt: skip
def test_a_credential_is_found_and_taken_out_whole(text: str, secret: str) -> None:
    found = find_secrets(text)
    assert len(found) == 1
    cleaned = without_secrets(text, found)
    assert secret not in cleaned and " removed]" in cleaned
    assert find_secrets(cleaned) == [], "what is left may be kept"


@pytest.mark.parametrize(
    "text",
    [
        "The password is kept in the vault.",
        "password: ask Jo",
        "Reset your password: click the link below",
        "postgres://user:password@localhost/db",
        "password = os.environ['DB_PASSWORD']",
        "password: ${DB_PASSWORD}",
        "secret: see docs/setup2.md",
        "api_key = config.api_key2",
        "OPENAI_API_KEY=YOUR_API_KEY_HERE",
        "Passwords: minimum 12 characters",
        "The password is at least 12-character long and base64 encoded; the password is SHA256-hashed.",
        "The secret is AES256-encrypted at rest, and the token is RFC7519-compliant.",
        "The access key is order-2024-113; the deploy key is us-east-1-prod-2.",
        "The secret is out: token is checksum-verified, the secret of success is hard-work-24-7",
        "The primary key is 9f8a7b6c5d4e3f2a, the cache key is 3f9a1c2e7b4d5f60.",
        "commit 3f9a1c2e7b4d5f60819a2b3c4d5e6f708192a3b4",
        "uuid 123e4567-e89b-12d3-a456-426614174000",
        "https://example.com:8080/a@b",
        "a risk-adjusted-2026-report by the task-force-of-17-people",
        "",
    ],
)
def test_ordinary_notes_are_left_alone(text: str) -> None:
    assert find_secrets(text) == []


def test_a_secret_is_found_wherever_it_stands_in_a_long_line() -> None:
    for place in (0, LINE - 10, LINE, 2 * LINE - 5, 7 * LINE):
        text = f"{'x ' * (place // 2)}{KEY}{' y' * LINE}"
        (found,) = find_secrets(text)
        assert text[found.start : found.end] == KEY


def test_two_secrets_in_one_line_are_both_taken_out() -> None:
    text = f"password=abc12345 and api_key=zzz9999yyy8888 and {KEY}"
    cleaned = without_secrets(text, find_secrets(text))
    assert not any(secret in cleaned for secret in ("abc12345", "zzz9999yyy8888", KEY))


async def test_the_gate_keeps_the_contract() -> None:
    await check_gate(make({}))


def test_the_guard_offers_the_text_without_the_secret_and_never_repeats_it(tmp_path: Path) -> None:
    policy = {"preset": "minimal", "channels": {"memory": {"stages": [["secrets"]]}}}
    with SyncGuard.open(f"sqlite:///{tmp_path / 'crew.db'}", policy) as guard:
        decision = guard.remember(f"The deploy key is {KEY}.", agent="ada")
        assert decision.ruling is Ruling.REWRITE and not decision.allowed
        assert decision.replacement == "The deploy key is [AWS Access Key removed]."
        assert KEY not in repr(decision) and decision.reasons
        assert [one.id for one in guard.recall(agent="bob")] == [decision.kept]
        assert decision.kept and guard.ledger.item(decision.kept).text == decision.replacement
        assert guard.ledger.item(decision.kept).parents == (decision.item,) and guard.ledger.state(decision.item).held
        assert [one.text for one in guard.held()] == [decision.replacement], "no list shows the secret"
        assert "AKIA" not in str(guard.recall("deploy key", agent="ada"))
        again = guard.remember(f"The deploy key is {KEY}.", agent="ada", once="today")
        assert (
            guard.remember(f"The deploy key is {KEY}.", agent="ada", once="today").kept == again.kept != decision.kept
        )
    with SyncGuard.open(f"sqlite:///{tmp_path / 'all.db'}") as guard:  # a gate that has nothing against it quotes it
        made = guard.remember("The secret for the staging box is 9f8a7b6c5d4e3f2a.", agent="ada")
        assert made.kept and guard.recall("staging box", agent="bob"), "the note without it is kept"
        said = guard.remember(
            "Bob told me that 9f8a7b6c5d4e3f2a opens the staging box.", agent="bob", parents=[made.item]
        )
        assert not said.allowed, "and whoever repeats what was removed is held"
        guard.label(made.item, "harmful", by="dan")
        assert not guard.ledger.state(made.kept).visible, "called harmful, all of it is"
    with pytest.raises(PolicyError, match="rulling"):
        make({"rulling": "block"})


def test_where_nothing_takes_the_place_of_a_text_a_call_for_the_replacement_does(tmp_path: Path) -> None:
    stages = {"stages": [["secrets"]]}
    policy = {"preset": "minimal", "channels": dict.fromkeys(("memory", "message", "document"), stages)}
    text, ref = f"The deploy key is {KEY}.", ("notes", "crew", "deploy")
    with SyncGuard.open(f"sqlite:///{tmp_path / 'crew.db'}", policy) as guard:
        offers = [
            guard.check(text, agent="ada", channel="document"),
            guard.exchange(text, sender="ada", receiver="bob"),
            guard.remember(text, agent="ada", ref=ref),
            guard.remember(agent="ada", value={"note": text}),
            guard.remember(text, agent="ada", image=PICTURE),
        ]
        for offer in offers:
            assert offer.ruling is Ruling.REWRITE and offer.replacement == "The deploy key is [AWS Access Key removed]."
            assert not offer.kept
        assert len(guard.ledger.items(any_state=True)) == len(offers) and not guard.recall(agent="bob")
        assert not guard.stores.due_writes("notes"), "and none is written for you"
        instead = offers[2].replacement or ""
        kept = guard.remember(instead, agent="ada", ref=ref, parents=[offers[2].item])
        assert [one.id for one in guard.recall(agent="bob")] == [kept.item] and guard.ledger.item(kept.item).ref == ref
