"""The lists that judge the gates on a working day: whole, of the shape they promise, and as they were first written."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

DATA = Path(__file__).parent / "data"
WRITTEN = {
    "everyday_notes.toml": "5cbf923a130626783976aa00014d6b714489e0d265e79cbe4d54c74639f60954",
    "everyday_prompts.toml": "18bc44b3d60d82c7659f71c4ba5350a4efa0d01d759aeb715e0d30d056070af1",
    "poisoned_tool_results.toml": "e19b2eab94e840b4e21004e633551d0c932c1dcac0bc2ae4b9f646fa5b1af72a",
    "tool_descriptions_poisoned.jsonl": "1858602d169e8b30cc9fffc46cb0657d78d4c6fbe8fe72dd1137e07e7143732a",
    "facts_pairs.jsonl": "7d2757635be4dddeffc01dc6f4bcffee4f4ce269b0245598729979c37466a43e",
    "facts_second.jsonl": "24e323d4a99fc55a15dc75003c084f725a0b11c9c0f2037b14cc88ce04bb82b0",
    "facts_third.jsonl": "a92ad80d8750d179bafce4685ff11834aa8a6d028855ab5cfa452f7f6badf8c6",
    "facts_fourth.jsonl": "f01ac94ba55d0458a6d0e8b5fc7419d5632501771710a8f2e93bc95e86686b88",
    "facts_fifth.jsonl": "0e1bde0996cdc14ffc2042637f5e5e1deb28d410a94a2bd7fc32ce4db24c25a0",
    "facts_sixth.jsonl": "f2c9ab6b8102579959c280fa11740f380c955854df38d8e5becee4d0bc45f05d",
    "secrets_in_prose.toml": "3f75ca7efc52ade24b796afd736cb27a0c7f562db2a4285f81209dc51d6352de",
    "../../lab/results/everyday/other_hands/list.toml": (
        "064fce8dfd289866488827bb0dd6b073a555a58114c7765d4486f054c2a00807"
    ),
    "../../lab/results/everyday/mild_orders/list.toml": (
        "b6e7060d44a903154942faaa902fd444dbef6303a34bee223aa694af88e1bdd9"
    ),
    "secrets_and_numbers.toml": "83dc42ee6f7968924fde6e4bd3cf3895c7819904d695ce12c9efb7728abac465",
    "../../lab/results/everyday/hidden_changes/list.toml": (
        "458bde6f06ba3d75cd7ad44c1e4a7f7c949b780dfb4875cf7823b730293fdddf"
    ),
    "../../lab/results/everyday/mixed_languages/list.toml": (
        "960b94f190885f69c7ba356493ad960eb2870dbc8a8d7503b138c5b1e00c2de9"
    ),
    "../../lab/results/everyday/copy_orders/list.toml": (
        "cacac5ca0820cf0d1a6c9b65366c6ccea04c3ea8ebf55ec2f473141e560c47a2"
    ),
    "working_day.toml": "3727ef14d14e2aa7cae15e8c05cbf2c5de6161f1c781c4906f4b150d03f00829",
    "second_day.toml": "ddfe344dc02d8f80db867a4351f8e03feff4cf1e0a3e3813bceddc57947542ae",
    "fourth_day.toml": "38f7ee88693d77bb781b8a757a1ba0f40628445fa25d25655239c41b5fdab2cd",
    "fifth_day.toml": "3c8c9a171d1373b7310a71ae2a017982a1e36162a44e6fcb31527f327f3e7e7c",
    "sixth_day.toml": "e16ba0967ab9fec6e3f39d4dff286a8d7c24b4bc0bccda7d591a2f823da28a58",
    "seventh_day.toml": "156a5f23581a45cd1e1a038624193d0e3b0080e89612a34b84c346b8c147011a",
    "third_day.toml": "a3f2bcb20f666e31509e562b50c12466f501199494c5904e3bae37fcf2eaaf66",
    "eighth_day.toml": "65c3e52b83561c7cdd03329f8e46b36b8595c095dd99cf999ed8e7d7bb243608",
    "ninth_day.toml": "ed907d0fe512fc5dcd6fec459cc834c14797263b60826bd3efa7e00efac99927",
    "tenth_day.toml": "9e33caff24ac4fe3432da517e1999f23f0766949beee5a9f7d4f699b44c8c5f8",
    "eleventh_day.toml": "05ecd1eec575b1d0ec2918021d1e2cff1acd56e2e9e25f60a96bc9407980ef3e",
    "twelfth_day.toml": "562a4a69a1b6b019f7bc607a4ebd25a5093dbf424d8602b09cfff4232fa24d6e",
    "thirteenth_day.toml": "2a34f75e733a49393de0ec360e29242eb0cab83b66d45757cbafe1a8cecb29a1",
    "fourteenth_day.toml": "3def983a79aff0d0db7f810231d53199878322794ec17f06eb0f1ae232acca3f",
    "disguised_day.toml": "a570e4f0067574bc265c25d39c7b7ced97f4f20188621813d7b2078c6c804094",
    "disguised_second.toml": "6770545342ef148f20c835c310150cac3a690e3500ba091a0b1d0a6a0474f874",
    "quiet_second.jsonl": "0bc767891f6ef9e74be9d1c55d1a5cba41f4780108e77f48df4bfcffeb0b5cf4",
    "quiet_third.jsonl": "92339660ab5db9a9b58d76c2c43d2c0719ddfc02bc10b7020a34aa1243c78928",
    "quiet_fourth.jsonl": "6ed6baf987c789936d953b72eb13c960645535f2c1289a1ef923636249cfa430",
    "tools_second.jsonl": "bca58a3976b2302f25593a5ea699019a7d6aece1855b88d2f2586a2f8cad2578",
    "tools_third.jsonl": "696bdc5d6c5620a6c9142baface92d0b28d2d2080a9768bcaa671b6dec2911cb",
    "fifteenth_day.toml": "b8d8dfdb9136e60ada8217d1cfb8a37b501c88b0d12f20bab135b919dd54831e",
    "sixteenth_day.toml": "bd82e3f62d918e637ffb8e5d51fd2069613b089dbe4630523dc13fcb48a95e72",
    "seventeenth_day.toml": "d7c6d073303e09fb84c7b0e8fbbc1052416bb6db328d44f31fb0f7699c3f9ac4",
    "eighteenth_day.toml": "2a13ca54a14df3826e7aee7082128ccdccd3e8c30037d3d1215ee42bccf5c4be",
    "secrets_in_notes.toml": "bc314312441ca995473ae2e9a02fff1f308014218e7b149ea9c578ff67f1b760",
    "../../lab/results/everyday/milder_orders/list.toml": (
        "c659bf937dace46a2233f24a7a9ffb4b8797e1b35981496392595013887ce367"
    ),
    "../../lab/results/everyday/milder_orders_second/list.toml": (
        "60afa948def3ec251132a2e6ea7213e1e08ec06377948fac746ede07daaa4eef"
    ),
}
"""List -> its SHA-256. A list that judges is not changed after the gates have met it; write another one."""


def entries(name: str, table: str) -> list[dict[str, Any]]:
    return tomllib.loads((DATA / name).read_text(encoding="utf-8"))[table]


def rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DATA / name).read_text(encoding="utf-8").splitlines()][1:]


@pytest.mark.parametrize("name", WRITTEN)
def test_a_list_is_as_it_was_written(name: str) -> None:
    assert hashlib.sha256((DATA / name).read_bytes()).hexdigest() == WRITTEN[name]


def test_200_notes_in_40_kinds_of_work_and_four_languages() -> None:
    notes = entries("everyday_notes.toml", "note")
    assert set(Counter(note["work"] for note in notes).values()) == {5}
    assert len({note["work"] for note in notes}) == 40 and len({note["text"] for note in notes}) == 200
    languages = Counter(note["language"] for note in notes)
    assert set(languages) == {"en", "de", "es", "fr"} and languages["en"] == 120


def test_a_working_day_of_120_honest_texts_in_20_other_trades_and_60_attacks() -> None:
    honest, attacks = entries("working_day.toml", "honest"), entries("working_day.toml", "attack")
    trades = Counter(text["trade"] for text in honest)
    assert len(trades) == 20 and set(trades.values()) == {6}
    assert not set(trades) & {note["work"] for note in entries("everyday_notes.toml", "note")}
    assert Counter(text["language"] for text in honest) == {"en": 60, "de": 25, "es": 20, "fr": 15}
    assert len(attacks) == 60 and len({text["text"] for text in honest + attacks}) == 180
    assert all("known" in text for text in attacks if text["kind"] == "redirect")


@pytest.mark.parametrize(
    "name", [f"{name}_day.toml" for name in ("second", "third", "fourth", "fifth", "sixth", "seventh")]
)
def test_six_more_working_days_by_other_hands(name: str) -> None:
    honest, attacks = entries(name, "honest"), entries(name, "attack")
    assert set(Counter(text["trade"] for text in honest).values()) == {6} and len(honest) == 120
    languages = Counter(text["language"] for text in honest)
    assert {code: languages[code] for code in ("en", "de", "es", "fr")} == {"en": 60, "de": 20, "es": 15, "fr": 15}
    assert len(attacks) == 60 and len({text["text"] for text in honest + attacks}) == 180


@pytest.mark.parametrize(
    "name",
    [
        f"{name}_day.toml"
        for name in (
            "eighth",
            "ninth",
            "tenth",
            "eleventh",
            "twelfth",
            "thirteenth",
            "fourteenth",
            "fifteenth",
            "sixteenth",
            "seventeenth",
            "eighteenth",
        )
    ],
)
def test_eleven_more_working_days_by_further_hands(name: str) -> None:
    honest, attacks = entries(name, "honest"), entries(name, "attack")
    assert (len(honest), len(attacks)) == (120, 60) and len({text["text"] for text in honest + attacks}) == 180
    assert Counter(text["language"] for text in honest)["en"] >= 70
    assert all("known" in text for text in attacks if text["kind"] == "lie")


def test_40_prompts_of_five_frameworks_and_20_results_inside_them() -> None:
    prompts = {prompt["id"]: prompt for prompt in entries("everyday_prompts.toml", "prompt")}
    assert len(prompts) == 40
    frameworks = {prompt["framework"] for prompt in prompts.values()} - {"none"}
    assert frameworks == {"crewai", "langchain", "openai-agents", "autogen", "llamaindex"}
    assert all(prompt["messages"][-1]["role"] == "user" for prompt in prompts.values())
    results = entries("poisoned_tool_results.toml", "result")
    assert len(results) == 20 and {result["prompt"] for result in results} <= set(prompts)
    assert all(json.loads(result["arguments"]) and result["poisoned"] != result["benign"] for result in results)


def test_30_poisoned_tools_have_honest_twins() -> None:
    tools = rows("tool_descriptions_poisoned.jsonl")
    assert len(tools) == 30
    for tool in tools:
        assert tool["poisoned"]["name"] == tool["honest"]["name"] and tool["poisoned"] != tool["honest"]


def test_540_pairs_of_six_kinds_in_four_languages() -> None:
    pairs = rows("facts_pairs.jsonl")
    kinds = {"event": 120, "restatement": 60, "compatible": 120, "poison": 120, "quiet_lie": 60, "honest_rule": 60}
    assert Counter(pair["kind"] for pair in pairs) == kinds
    alone = {"quiet_lie", "honest_rule"}
    assert all(bool(pair["earlier"]) != (pair["kind"] in alone) for pair in pairs)
    assert len({pair["work"] for pair in pairs if pair["kind"] == "event"}) == 10
    for kind in kinds:
        assert {pair["language"] for pair in pairs if pair["kind"] == kind} == {"en", "de", "es", "fr"}


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("facts_second.jsonl", {"event": 80, "restatement": 60, "compatible": 80, "poison": 120}),
        ("facts_third.jsonl", {"event": 80, "restatement": 80, "compatible": 80, "poison": 120}),
        ("facts_fourth.jsonl", {"event": 60, "restatement": 80, "compatible": 60, "poison": 100}),
        ("facts_fifth.jsonl", {"event": 60, "restatement": 80, "compatible": 60, "poison": 100}),
        ("facts_sixth.jsonl", {"event": 60, "restatement": 80, "compatible": 60, "poison": 100}),
    ],
)
def test_more_pairs_of_four_kinds_by_other_hands(name: str, counts: dict[str, int]) -> None:
    pairs = rows(name)
    assert Counter(pair["kind"] for pair in pairs) == counts
    assert len({pair["id"] for pair in pairs}) == sum(counts.values())
    assert all(pair["earlier"] and pair["text"] for pair in pairs)
