"""Batches: resumed after any interruption, nothing twice, nothing lost, nothing silently dropped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from lazaretto.errors import InputError
from lazaretto.gates.content.batch import BatchOptions, read_items, run_batch
from lazaretto.gates.content.chat_roles import RoleModel, chat_panel
from lazaretto.gates.content.gate import content_settings, make_panel
from lazaretto.gates.content.records import Panel, Role
from lazaretto.models.openai_chat import Endpoint, OpenAIChat
from lazaretto.policy import DEFAULT_LIMITS

STUB = Path(__file__).resolve().parents[2] / "stub_endpoint.py"
ROLES = (Role.SUPPORTER, Role.STRICT, Role.LOOSE, Role.ARBITER)
pytest.importorskip("openai", reason="needs the openai extra")


@pytest.fixture(scope="module")
def stub(request: pytest.FixtureRequest) -> str:
    """A stub endpoint with a delay of 20 ms, which keeps nothing between two tests."""
    command = [sys.executable, str(STUB), "--delay-ms", "20"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None and process.stdout is not None
    request.addfinalizer(process.stdin.close)
    return process.stdout.readline().strip()


def _items(path: Path, count: int) -> Path:
    rows = [
        {"id": f"i{n}", "text": f"item number {n}", "description": "a picture" if n % 2 else ""} for n in range(count)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def _panel(url: str, model: str = "stub", **options: object) -> Panel:
    patience = {
        "backoff_s": 0.002,
        "timeout_s": 0.3,
        "retries": 1,
        "breaker_faults": 10_000,
        **options,
    }
    chat = OpenAIChat(Endpoint(model, url, **patience))  # type: ignore[arg-type]
    return chat_panel({role: RoleModel(role, chat) for role in ROLES})


def _lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


async def test_every_item_gets_one_line_with_the_promised_fields(stub: str, tmp_path: Path) -> None:
    out = tmp_path / "out" / "verdicts.jsonl"
    summary = await run_batch(_panel(stub), _items(tmp_path / "items.jsonl", 20), out)
    lines = _lines(out)
    assert {line["id"] for line in lines} == {f"i{n}" for n in range(20)}
    assert list(lines[0]) == ["id", "label", "risk", "rule", "report", "tokens", "ms"]
    assert all(line["label"] == "unsafe" and line["rule"] == "confirmed-risk" and line["tokens"] for line in lines)
    assert (summary.judged, summary.already, summary.unsafe, summary.undecided) == (20, 0, 20, 0)
    again = await run_batch(_panel(stub), tmp_path / "items.jsonl", out)
    assert (again.judged, again.already) == (0, 20) and len(_lines(out)) == 20


@pytest.mark.slow
async def test_on_ray_the_verdicts_are_the_same(stub: str, tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="needs ray")
    from lazaretto.gates.content.batch import RayPanels

    models = {"default": {"model": "stub", "base_url": stub, "timeout_s": 30.0}}
    settings = content_settings({"jury": "chat", "without": ["retrieval"], "models": models})
    items = _items(tmp_path / "items.jsonl", 20)
    made = []
    for name, panel in (
        ("here", make_panel(settings, None)),
        ("ray", RayPanels(settings, None, DEFAULT_LIMITS)),
    ):
        summary = await run_batch(panel, items, tmp_path / name)
        assert (summary.judged, summary.undecided) == (20, 0)
        lines = _lines(tmp_path / name)
        for line in lines:
            line.pop("ms")
            for name in ("cost", "made"):
                line["report"].pop(name)  # type: ignore[attr-defined]
        made.append(lines)
    assert made[0] == made[1]


def test_kill_nine_in_the_middle_then_a_rerun_completes(stub: str, tmp_path: Path) -> None:
    items, out = _items(tmp_path / "items.jsonl", 100), tmp_path / "verdicts.jsonl"
    policy = tmp_path / "policy.toml"
    policy.write_text(
        f'[gates.content]\njury = "chat"\nwithout = ["retrieval"]\n'
        f'[gates.content.models.default]\nmodel = "stub"\nbase_url = "{stub}"\n'
    )
    code = "from lazaretto.cli import main; main()"
    command = [sys.executable, "-c", code, "audit", "--batch", str(items), "--out", str(out), "--policy", str(policy)]
    command += ["--at-once", "4", "--store", f"sqlite:///{tmp_path / 'store.db'}"]
    environment = {**os.environ, "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    killed = 0
    for wanted in (15, 45):
        process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and process.poll() is None:
            if out.exists() and out.read_bytes().count(b"\n") >= wanted:
                process.send_signal(signal.SIGKILL)
                killed += 1
                break
            time.sleep(0.02)
        process.wait()
    assert killed == 2
    with out.open("ab") as file:
        file.write(b'{"id": "i99", "label": "sa')  # the torn line that a crash inside a write leaves
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=200, check=False)
    lines = _lines(out)
    assert done.returncode == int(any(line["label"] != "safe" for line in lines)), done.stderr
    counts = Counter(str(line["id"]) for line in lines)
    assert set(counts) == {f"i{n}" for n in range(100)} and set(counts.values()) == {1}


@pytest.mark.parametrize("model", ["stub-429", "stub-500", "stub-garbage", "stub-nothing", "stub-half", "stub-babble"])
async def test_a_broken_endpoint_ends_in_undecided_verdicts_and_the_batch_ends(
    stub: str, tmp_path: Path, model: str
) -> None:
    out = tmp_path / "verdicts.jsonl"
    summary = await run_batch(_panel(stub, model, timeout_s=0.1), _items(tmp_path / "items.jsonl", 6), out)
    assert (summary.judged, summary.undecided) == (6, 6)
    for line in _lines(out):
        assert line["rule"] == "undecided"
        assert line["report"]["interval"] == [0.0, 1.0] and line["report"]["undecided"]  # type: ignore[index]


async def test_undecided_items_can_be_asked_for_again(stub: str, tmp_path: Path) -> None:
    items, out = _items(tmp_path / "items.jsonl", 5), tmp_path / "verdicts.jsonl"
    await run_batch(_panel(stub, "stub-500"), items, out)
    untouched = await run_batch(_panel(stub), items, out)
    assert (untouched.judged, untouched.undecided) == (0, 5)
    healed = await run_batch(_panel(stub), items, out, BatchOptions(retry_undecided=True))
    assert (healed.judged, healed.undecided) == (5, 0)
    assert sorted(str(line["id"]) for line in _lines(out)) == [f"i{n}" for n in range(5)]


async def test_an_unreadable_picture_is_undecided_and_never_safe(stub: str, tmp_path: Path) -> None:
    (tmp_path / "bad.png").write_bytes(b"not a picture at all")
    items = tmp_path / "items.jsonl"
    rows = [{"id": "a", "image": "bad.png"}, {"id": "b", "image": "missing.png"}, {"id": "c", "text": "fine"}]
    items.write_text("".join(json.dumps(r) + "\n" for r in rows))
    await run_batch(_panel(stub), items, tmp_path / "out.jsonl")
    by_id = {line["id"]: line for line in _lines(tmp_path / "out.jsonl")}
    assert by_id["c"]["rule"] == "confirmed-risk"
    for key, words in (("a", "not a picture"), ("b", "missing.png")):
        assert (by_id[key]["rule"], by_id[key]["label"]) == ("undecided", "review")
        assert words in by_id[key]["report"]["undecided"]  # type: ignore[index]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('{"id": "a", "text": "x"}\n{"id": "a", "text": "y"}\n', "occurs twice"),
        ("not json\n", "line 1: not JSON"),
        ("[1]\n", "not an object"),
        ('{"text": "x"}\n', "no id"),
        ('{"id": "a"}\n', "no content"),
    ],
)
def test_a_wrong_items_file_is_refused_before_anything_is_spent(tmp_path: Path, content: str, words: str) -> None:
    path = tmp_path / "items.jsonl"
    path.write_text(content)
    with pytest.raises(InputError, match=words):
        read_items(path)


async def test_two_runs_cannot_write_the_same_output(stub: str, tmp_path: Path) -> None:
    import fcntl

    out = tmp_path / "out.jsonl"
    with out.open("ab") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(InputError, match="in use"):
            await run_batch(_panel(stub), _items(tmp_path / "items.jsonl", 1), out)
