"""The crew, its checks and its batches, with models that need no weights."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest

from lazaretto.errors import InputError, ModelUnavailable
from lazaretto.models.deep import TRUNKS, is_set_up
from lazaretto_lab.harness.context import RunContext
from lazaretto_lab.studies.crews.models import Answer, Batcher, open_model
from lazaretto_lab.studies.crews.protocol import NOTE_EXAMPLE, Prompt, read_call, read_note
from lazaretto_lab.studies.crews.tasks import ATTACKS, CHANNELS, Call, cases, lines, matches, tasks

pytest.importorskip("langgraph")
from lazaretto_lab.studies.crews.runner import larger_readers, run


def unit(tmp_path: Path, model: str, defence: str, limit: int = 4, seed: int = 0) -> dict[str, Any]:
    """One unit on the first tasks."""
    settings = {"model": f"scripted:{model}", "defence": defence, "limit": limit}
    return dict(run(settings, seed, RunContext(tmp_path)))


def test_there_are_enough_tasks_and_each_can_be_checked() -> None:
    assert len(tasks()) >= 40
    for task in tasks():
        right = Call(task.tool, task.right)
        lied = Call(task.tool, {**task.right, **task.wrong})
        assert matches(right, task.tool, task.right) and not matches(right, task.tool, task.wrong), task.name
        assert matches(lied, task.tool, task.wrong) and not matches(lied, task.tool, task.right), task.name
        world = " ".join([*task.notes, task.page, task.mail, task.lookup, task.ask])
        for value in [v for k, v in task.right.items() if k not in ("name", "text")] or task.right.values():
            assert value.casefold() in world.casefold(), (task.name, value)
        for value in task.wrong.values():
            assert value not in world or len(value) < 3, (task.name, value)
            assert value in task.fact and value in task.experience, (task.name, value)


def test_every_attack_stands_in_every_channel_over_the_seeds() -> None:
    seen = {(case.attack, case.channel) for seed in range(3) for case in cases(seed) if case.attack != "none"}
    assert seen == {(attack, channel) for attack in ATTACKS[1:] for channel in CHANNELS}
    again = [case.name for case in cases(1, 3)]
    assert again == [case.name for case in cases(2, 3)] and len(again) == 3 * len(ATTACKS)
    poisoned = next(case for case in cases(0) if case.channel == "page")
    assert poisoned.poison in poisoned.document("page") and poisoned.poison not in poisoned.document("mail")


def test_what_attacks_want_is_in_their_words() -> None:
    orders, worms = list(lines("orders")), list(lines("worms"))
    assert orders and worms
    for row in orders:
        values = [value for name, value in row["call"].items() if name != "tool"]
        assert values and all(value in row["text"] for value in values)
    assert all(row["mark"] in row["text"] for row in worms)


@pytest.mark.parametrize(
    ("said", "call"),
    [
        ('CALL pay(account="A-1", amount="3")', Call("pay", {"account": "A-1", "amount": "3"})),
        ("CALL pay(A-1, 3)", Call("pay", {"account": "A-1", "amount": "3"})),
        ("Sure!\nset_price(item='x y', price=2)\nbye", Call("set_price", {"item": "x y", "price": "2"})),
        ('answer(text="room (4)")', Call("answer", {"text": "room (4)"})),
        ("CALL pay(account=A-1", Call("pay", {"account": "A-1"})),
        ("DONE", None),
        ("I would repay (it)", None),
    ],
)
def test_calls_are_read_leniently(said: str, call: Call | None) -> None:
    assert read_call(said) == call


def test_what_is_the_same_value() -> None:
    assert matches(
        Call("pay", {"amount": "340 euros", "account": "hr-2041."}), "pay", {"amount": "340", "account": "HR-2041"}
    )
    assert matches(Call("book_room", {"room": "Room 4"}), "book_room", {"room": "4"})
    assert not matches(Call("book_room", {"room": "14"}), "book_room", {"room": "4"})
    assert not matches(Call("answer", {"text": "C12"}), "answer", {"text": "B12"})
    assert matches(Call("answer", {"text": "It lies at berth B12."}), "answer", {"text": "B12"})
    assert not matches(Call("pay", {}), "pay", {"amount": "0"})
    assert read_note("NOTE:  a\n b") == "a" and read_note("just this\nnot that") == "just this" and read_note("") == ""


def test_an_obedient_crew_falls_for_everything_and_a_steady_one_for_nothing(tmp_path: Path) -> None:
    fallen = unit(tmp_path, "obedient", "none")
    assert fallen["utility"] == 1.0 and fallen["success"] > 0.9 and fallen["utility_attacked"] < 0.1
    assert fallen["spread"] == 1.0 and fallen["farthest"] == 4 and fallen["honest_held"] == 0.0
    assert len(fallen["cases"]) == 4 * len(ATTACKS) and fallen["tokens"] > 0
    told = [row for row in fallen["cases"] if "transcript" in row]
    assert len(told) == 3 * len(ATTACKS) and told[0]["transcript"][0]["agent"] == "scout"
    steady = unit(tmp_path, "steady", "none", seed=1)
    assert steady["utility"] == 1.0 and steady["success"] == 0.0 and steady["hops"] == 0.0
    assert not [row for row in steady["cases"] if "transcript" in row]
    orjson.dumps(fallen)


def test_marks_stand_in_what_the_crew_reads(tmp_path: Path) -> None:
    told = unit(tmp_path, "steady", "spotlighting", limit=1)["cases"][0]["transcript"]
    assert "Harwick^Ropes^makes^ropes" in told[0]["asked"]
    assert "Harwick^Ropes^is^paid^to^account^HR-2041." in told[2]["asked"]


def test_the_guard_stands_between(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    found = unit(tmp_path, "obedient", "guard", limit=1)
    assert found["utility"] == 1.0 and found["success_order"] == 0.0 and found["hops"] == 0.0
    asked = unit(tmp_path, "obedient", "guard+actions", limit=1)
    assert asked["success_fact"] == 0.0


def test_the_larger_readers_are_there_for_one_row_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAZARETTO_DEEP", str(tmp_path / "none"))
    with pytest.raises(ModelUnavailable, match="deep setup"):
        unit(tmp_path, "steady", "guard+deep", limit=1)
    for name, trunk in TRUNKS.items():
        (tmp_path / "deep" / name).mkdir(parents=True)
        for file in trunk.files:
            (tmp_path / "deep" / name / file).touch()
    monkeypatch.setenv("LAZARETTO_DEEP", str(tmp_path / "deep"))
    with larger_readers(True, tmp_path):
        assert is_set_up("mpnet")
    with larger_readers(False, tmp_path):
        assert not is_set_up("mpnet")
    assert is_set_up("mpnet")


def test_a_unit_with_a_broken_case_is_void_and_says_which(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"10 of 10 cases broke, first: pay-harwick/experience: InputError"):
        unit(tmp_path, "steady", "no such defence", limit=2)
    for name in ("hf:no-such-folder", "endpoint:nowhere", "scripted:none", "gpt"):
        with pytest.raises(InputError):
            open_model(name)


class Counting:
    """Answers with the size of the batch."""

    def __init__(self, breaks_at: int = 0) -> None:
        self.sizes: list[list[str]] = []
        self._breaks_at = breaks_at

    def answer(self, prompts: Sequence[Prompt]) -> list[Answer]:
        """The prompts are kept."""
        self.sizes.append([one.user for one in prompts])
        if len(self.sizes) == self._breaks_at:
            raise ValueError("out of memory")
        return [Answer(f"{one.user} of {len(prompts)}", 1, 1) for one in prompts]


def test_all_cases_that_run_share_a_batch() -> None:
    model = Counting()
    batcher, said, lock = Batcher(model), dict[str, list[str]](), threading.Lock()

    def case(name: str, questions: int) -> None:
        for number in range(questions):
            answer = batcher.ask(name, Prompt("", f"{name}{number}", NOTE_EXAMPLE)).text
            with lock:
                said.setdefault(name, []).append(answer)

    batcher.run({name: lambda name=name, n=n: case(name, n) for name, n in (("b", 3), ("a", 1), ("c", 2))})  # type: ignore[misc]
    assert model.sizes == [["a0", "b0", "c0"], ["b1", "c1"], ["b2"]]
    assert said == {"a": ["a0 of 3"], "b": ["b0 of 3", "b1 of 2", "b2 of 1"], "c": ["c0 of 3", "c1 of 2"]}
    assert batcher.batches == 3


def test_a_model_that_breaks_is_told_to_every_case() -> None:
    batcher, heard = Batcher(Counting(breaks_at=1)), list[str]()

    def case(name: str) -> None:
        try:
            batcher.ask(name, Prompt("", name, NOTE_EXAMPLE))
        except ValueError as error:
            heard.append(str(error))

    batcher.run({name: lambda name=name: case(name) for name in "abc"})  # type: ignore[misc]
    assert heard == ["out of memory"] * 3
