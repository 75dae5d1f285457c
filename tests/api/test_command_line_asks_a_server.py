"""``LAZARETTO_URL``: the command line asks a running server, and lets nothing pass that the server did not judge."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

pytest.importorskip("fastapi", reason="needs the api extra")

from lazaretto import Guard
from lazaretto.api.app import create_app
from lazaretto.cli import build

Ask = Callable[..., tuple[int, str]]


@pytest.fixture
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ask:
    for name in ("LAZARETTO_STORE", "LAZARETTO_POLICY", "LAZARETTO_NAMESPACE", "LAZARETTO_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")  # never used: the key is for the server alone
    monkeypatch.chdir(tmp_path)

    def call(*words: str) -> tuple[int, str]:
        done = CliRunner().invoke(build(words[0]), list(words))
        assert "Traceback" not in done.output
        return done.exit_code, " ".join(done.output.split())

    return call


def test_the_server_judges_and_keeps(
    ask: Ask, guard: Guard, serve: Callable[[Any], str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LAZARETTO_URL", serve(create_app(guard, token="a-token-of-some-length")))
    code, told = ask("check", "the berth is nine", "-a", "ada")
    assert code != 0 and "Forbidden" in told and "LAZARETTO_TOKEN" in told
    monkeypatch.setenv("LAZARETTO_TOKEN", "a-token-of-some-length")
    code, told = ask("check", "the berth is nine", "-a", "ada", "--json")
    assert code == 0 and json.loads(told)["allowed"] is True
    code, told = ask("remember", "the berth is nine", "-a", "ada")
    assert code == 0 and told.startswith("allow it_")
    code, told = ask("remember", "\u202eolleh\u202c", "-a", "eve")
    assert code == 1 and told.startswith("quarantine it_")
    assert guard.ledger.head().seq >= 3, "the server's ledger has them"
    assert not list(tmp_path.rglob("lazaretto*.db")), "nothing is kept here"
    code, told = ask("check", "x", "-a", "ada", "--source", "oracle")
    assert code == 2 and "source" in told
    code, told = ask("check", "x", "-a", "ada", "--store", "sqlite:///other.db")
    assert code == 2 and "store: is given beside LAZARETTO_URL" in told
    code, told = ask("check", "x", "-a", "ada", "--namespace", "other")
    assert code == 2 and "namespace: is given beside LAZARETTO_URL" in told


@pytest.fixture
def liar() -> Iterator[Any]:
    """A server that says what it is told to."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            status, headers, data = self.server.sends  # type: ignore[attr-defined]
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *words: object) -> None:
            pass

    server: Any = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    ("sends", "words"),
    [
        ((200, {}, b"hello"), "gives no answer"),
        ((200, {}, b"{}"), "no decision"),
        ((200, {}, b'{"ruling": "allow", "allowed": "yes"}'), "no decision"),
        ((200, {}, b'{"ruling": "fine", "allowed": true}'), "no decision"),
        ((302, {"location": "http://127.0.0.1:9/"}, b""), "could not judge it"),
        ((503, {}, b'{"error": "Busy", "message": "too much"}'), "too much"),
        ((500, {}, b"oops"), "status 500"),
    ],
)
def test_what_is_no_decision_is_an_error(
    ask: Ask, liar: Any, monkeypatch: pytest.MonkeyPatch, sends: tuple[int, dict[str, str], bytes], words: str
) -> None:
    liar.sends = sends
    monkeypatch.setenv("LAZARETTO_URL", f"http://127.0.0.1:{liar.server_address[1]}")
    code, told = ask("check", "the berth is nine", "-a", "ada")
    assert code == 3 and words in told


@pytest.mark.parametrize(
    ("url", "code", "words"),
    [
        ("http://127.0.0.1:9", 3, "gives no answer"),
        ("localhost:8000", 2, "is not the address of a server"),
        ("file:///etc/passwd", 2, "is not the address of a server"),
        ("http://user:word@localhost", 2, "is not the address of a server"),
    ],
)
def test_an_address_that_is_none_or_nobody_is_told(
    ask: Ask, monkeypatch: pytest.MonkeyPatch, url: str, code: int, words: str
) -> None:
    monkeypatch.setenv("LAZARETTO_URL", url)
    assert (code, True) == ((answer := ask("check", "x", "-a", "ada"))[0], words in answer[1])
