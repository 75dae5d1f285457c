"""A record that proves itself: signatures, checkpoints, witnesses, and what an attacker who has the database lacks."""

from __future__ import annotations

import contextlib
import http.server
import json
import sqlite3
import stat
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from lazaretto.cli import build as build_cli
from lazaretto.errors import InputError
from lazaretto.ledger import Ledger, PublicKey, SigningKey, chain, seen_draft
from lazaretto.ledger.checkpoints import Checkpoint, ConsistencyProof, read_checkpoints, witness_at
from lazaretto.ledger.ledger import keep_in
from lazaretto.policy import LedgerProofPolicy
from lazaretto.types import Channel, Draft, EventKind, Observation


def tree(size: int) -> tuple[chain.Node, list[bytes]]:
    leaves = [n.to_bytes(4, "big") for n in range(size)]
    nodes = {(0, n): chain.leaf(one) for n, one in enumerate(leaves)}
    builder = chain.Builder()
    for one in leaves:
        nodes |= {(level, place): node for level, place, node in builder.add(one)}
    assert chain.root(lambda level, place: nodes[level, place], 0, size) == builder.root()
    return lambda level, place: nodes[level, place], leaves


def plain_root(leaves: list[bytes]) -> bytes:
    """As the standard writes it down, without any tree."""
    if len(leaves) == 1:
        return chain.leaf(leaves[0])
    middle = 1
    while middle * 2 < len(leaves):
        middle *= 2
    return chain.join(plain_root(leaves[:middle]), plain_root(leaves[middle:]))


@settings(max_examples=150, deadline=None)
@given(st.integers(1, 200), st.integers(1, 200), st.integers(0, 40), st.integers(0, 255))
def test_proofs_hold_and_altered_ones_do_not(one: int, other: int, place: int, mask: int) -> None:
    old, new = sorted((one, other))
    node, leaves = tree(new)
    before, after = plain_root(leaves[:old]), plain_root(leaves)
    proof = chain.prove(node, old, new)
    assert chain.consistent(old, new, before, after, proof)
    assert len(proof) <= 2 * new.bit_length()
    wrong = bytes([after[0] ^ 1]) + after[1:]
    assert not chain.consistent(old, new, before, wrong, proof)
    if old != new:
        assert not chain.consistent(old, new, wrong, after, proof)
    if proof and mask:
        at = place % len(proof)
        bent = [*proof[:at], bytes([proof[at][0] ^ mask]) + proof[at][1:], *proof[at + 1 :]]
        assert not chain.consistent(old, new, before, after, bent)
        assert not chain.consistent(old, new, before, after, proof[:-1])


def note(text: str) -> Draft:
    return seen_draft(Observation("ada", Channel.MEMORY, text))


def signed_ledger(url: str, folder: Path) -> tuple[Ledger, SigningKey]:
    pytest.importorskip("cryptography", reason="needs the sign extra")
    key = SigningKey.create(folder / "key")
    ledger = Ledger.open(url, key=key)
    for n in range(5):
        ledger.append([note(f"note {n}"), note(f"more {n}")])
    return ledger, key


def test_checkpoints_prove_that_a_chain_only_grew(store_url: str) -> None:
    with Ledger.open(store_url) as ledger:
        kept: list[Checkpoint] = []
        for size in (1, 2, 5, 9, 3):
            ledger.append([note(f"{size} {n}") for n in range(size)])
            kept.append(ledger.checkpoint())
        for old, new in ((0, 1), (0, 4), (1, 3), (2, 4), (3, 3)):
            proof = ledger.prove(kept[old], kept[new])
            assert proof.holds(kept[old], kept[new])
            assert not proof.holds(replace(kept[old], root="00" * 32), kept[new])
            assert old == new or not ConsistencyProof(proof.old, proof.new, ()).holds(kept[old], kept[new])
        assert ledger.verify(checkpoints=kept).ok
        forged = replace(kept[1], root="00" * 32)
        assert not ledger.verify(checkpoints=[forged]).ok
        assert not ledger.verify(checkpoints=[replace(kept[4], seq=99)]).ok
        with pytest.raises(InputError):
            ledger.prove(kept[3], kept[1])


def test_everything_is_signed_and_a_stranger_is_found(store_url: str, tmp_path: Path) -> None:
    ledger, key = signed_ledger(store_url, tmp_path)
    with ledger:
        trusted = [key.public]
        assert ledger.verify(keys=trusted).ok
        ledger.erase(ledger.items()[0].id, "asked")
        assert ledger.verify(keys=trusted).ok, "an erasure is signed as well"
        stranger = SigningKey.create(tmp_path / "other")
        found = ledger.verify(keys=[stranger.public])
        assert not found.ok and "not trusted" in found.reason
        with Ledger.open(store_url) as unsigned:
            held = ledger.items()[0].id
            unsigned.append([Draft(EventKind.RELEASED, held, body={"by": "mallory"})])
            assert unsigned.verify().ok, "the chain itself holds"
        found = ledger.verify(keys=trusted)
        assert not found.ok and found.first_bad == 12 and "nothing is signed" in found.reason
        with Ledger.open(store_url, key=stranger) as other:
            other.append([note("signed by a stranger")])
        assert not ledger.verify(keys=trusted).ok


def test_a_rewritten_chain_is_found_by_the_key_and_a_cut_one_by_the_witness(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'crew.db'}"
    ledger, key = signed_ledger(url, tmp_path)
    with ledger:
        kept = ledger.checkpoint()
    with contextlib.closing(sqlite3.connect(tmp_path / "crew.db")) as file:
        for table in ("lz_events", "lz_edges", "lz_items", "lz_signatures", "lz_tree", "lz_heads"):
            file.execute(f"DELETE FROM {table}")
        file.execute("DROP TABLE lz_search_1")
        file.commit()
    with Ledger.open(url) as forged:  # a whole new chain, perfectly linked
        forged.append([note(f"forged {n}") for n in range(10)])
        assert forged.verify().ok
        assert not forged.verify(keys=[key.public]).ok
        assert not forged.verify(checkpoints=[kept]).ok


def test_a_key_hands_over_and_the_old_one_counts_no_more(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'crew.db'}"
    ledger, old = signed_ledger(url, tmp_path)
    new = SigningKey.create(tmp_path / "new")
    with ledger:
        ledger.hand_over(new)
        ledger.append([note("signed with the new key")])
        assert ledger.verify(keys=[old.public]).ok, "whoever trusts the old key follows it to the new one"
        assert ledger.verify(keys=[old.public], checkpoints=[ledger.checkpoint()]).ok
    with Ledger.open(url, key=old) as stolen:
        stolen.append([note("signed with the old key")])
        assert not stolen.verify(keys=[old.public]).ok


def test_keys_lie_in_files_of_ones_own(tmp_path: Path) -> None:
    pytest.importorskip("cryptography", reason="needs the sign extra")
    path = tmp_path / "key"
    made = SigningKey.create(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert SigningKey.load(path).public == made.public
    with pytest.raises(InputError, match="already there"):
        SigningKey.create(path)
    path.chmod(0o644)
    with pytest.raises(InputError, match="chmod 600"):
        SigningKey.load(path)
    (tmp_path / "odd").write_text("no key")
    (tmp_path / "odd").chmod(0o600)
    with pytest.raises(InputError, match="holds no key"):
        SigningKey.load(tmp_path / "odd")
    with pytest.raises(InputError, match="public key"):
        PublicKey.from_hex("abc")


def test_witnesses_are_told_by_themselves(tmp_path: Path) -> None:
    heard: list[dict[str, object]] = []

    class Endpoint(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            heard.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Endpoint) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        second = f"sqlite:///{tmp_path / 'second.db'}"
        for where in (f"file:{tmp_path / 'heads.jsonl'}", second, f"http://127.0.0.1:{server.server_port}/heads"):
            with Ledger.open(f"sqlite:///{tmp_path / 'crew.db'}") as ledger:
                ledger.configure_signing(LedgerProofPolicy(witness=where, witness_every=3))
                for n in range(7):
                    ledger.append([note(f"note {n}")])
                kept = _kept(where, ledger.namespace, second, tmp_path, heard)
                assert len(kept) == 2 and ledger.verify(checkpoints=kept).ok
        server.shutdown()
    with pytest.raises(InputError, match="witness"):
        witness_at("carrier pigeon", keep_in)
    (tmp_path / "heads.jsonl").write_text("{}\n")
    with pytest.raises(InputError, match="line 1 holds no checkpoint"):
        read_checkpoints(tmp_path / "heads.jsonl")


def _kept(where: str, namespace: str, second: str, folder: Path, heard: list[dict[str, object]]) -> list[Checkpoint]:
    if where.startswith("file:"):
        return read_checkpoints(folder / "heads.jsonl")
    if where == second:
        with Ledger.open(second, "witness") as ledger:
            return ledger.witnessed(namespace)
    return [Checkpoint(**one) for one in heard]  # type: ignore[arg-type]


def test_a_witness_that_is_away_stops_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with Ledger.open(f"sqlite:///{tmp_path / 'crew.db'}") as ledger:
        ledger.configure_signing(
            LedgerProofPolicy(witness=f"file:{tmp_path / 'absent' / 'heads.jsonl'}", witness_every=1)
        )
        ledger.append([note("a note")])
        assert ledger.head().seq == 1
    assert "could not be sent to the witness" in caplog.text


Change = Callable[[sqlite3.Connection], object]


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM lz_signatures WHERE seq = 4",
        "UPDATE lz_signatures SET signature = zeroblob(64)",
        "UPDATE lz_signatures SET key = 'other'",
        "UPDATE lz_signatures SET seq = 99 WHERE seq = 10",
        "UPDATE lz_tree SET hash = zeroblob(32) WHERE level = 7",
        "UPDATE lz_tree SET hash = (SELECT hash FROM lz_tree WHERE place = 1) WHERE level = 6 AND place = 0",
        "DELETE FROM lz_tree WHERE level = 6 AND place = 0",
        "INSERT INTO lz_tree VALUES (1, 9, 0, zeroblob(32))",
        "INSERT INTO lz_tree SELECT 1, 2, 0, hash FROM lz_events WHERE seq = 4",
        "DELETE FROM lz_tree",
        "DELETE FROM lz_tree WHERE level = 7",
    ],
)
def test_the_proofs_themselves_are_verified(tmp_path: Path, statement: str) -> None:
    url = f"sqlite:///{tmp_path / 'crew.db'}"
    ledger, key = signed_ledger(url, tmp_path)
    with ledger:
        ledger.append([note(f"one of many {n}") for n in range(2 * chain.BLOCK)])
        assert ledger.verify(keys=[key.public]).ok
    with contextlib.closing(sqlite3.connect(tmp_path / "crew.db")) as file:
        file.execute(statement)
        file.commit()
    with Ledger.open(url) as again:
        found = again.verify(keys=[key.public])
    assert not found.ok and statement.split("lz_")[1].split()[0] in found.table


def test_the_commands_sign_rotate_and_verify(tmp_path: Path) -> None:
    pytest.importorskip("cryptography", reason="needs the sign extra")

    def lazaretto(*words: object, code: int = 0) -> str:
        answer = CliRunner().invoke(build_cli(str(words[0])), [str(word) for word in words])
        assert answer.exit_code == code, answer.output
        return answer.output

    public = lazaretto("ledger", "key", tmp_path / "one").strip()
    lazaretto("ledger", "key", tmp_path / "two")
    policy, kept = tmp_path / "policy.toml", tmp_path / "kept.jsonl"
    policy.write_text(
        f'store = "sqlite:///{tmp_path / "crew.db"}"\npreset = "minimal"\n'
        f'[record]\nkey = "{tmp_path / "one"}"\nwitness = "file:{kept}"\nwitness_every = 2\n'
    )
    with_policy = ("--policy", policy)
    lazaretto("remember", "-a", "ada", "-t", "The gate code is 4711.", *with_policy)
    lazaretto("ledger", "checkpoint", "--to", f"file:{kept}", *with_policy)
    proof = ("--public-key", public, "--witness", f"file:{kept}")
    assert "good" in lazaretto("ledger", "verify", *proof, *with_policy)
    lazaretto("ledger", "rotate-key", tmp_path / "two", *with_policy)
    policy.write_text(policy.read_text().replace("/one", "/two"))
    lazaretto("remember", "-a", "ada", "-t", "The harbour is closed.", *with_policy)
    assert "good" in lazaretto("ledger", "verify", *proof, *with_policy)
    with Ledger.open(f"sqlite:///{tmp_path / 'crew.db'}") as forged:
        forged.append([note("nobody signed this")])
    assert "nothing is signed" in " ".join(lazaretto("ledger", "verify", *proof, *with_policy, code=1).split())
