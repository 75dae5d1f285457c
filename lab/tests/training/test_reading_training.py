"""The training of one trunk: nobody reads what they leave out, a cut training goes on, what is scored is what ships."""

from __future__ import annotations

import io
import json
import lzma
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from lazaretto_lab.training.reader.bundle import FAMILIES, left_out
from lazaretto_lab.training.reading import evaluation, prepare, teachers, training, transfer, trunk
from lazaretto_lab.training.reading.batches import Batches, LoggedSampler
from lazaretto_lab.training.screener import leave_one_out
from lazaretto_lab.training.screener import training as screener

SIZE, INNER, PIECES = 24, 32, 1100
ROLES = ("order", "inside", "request", "clean", "note", "alone", "context")
SMALL = trunk.Plan(
    steps=6, seconds=60, orders=6, quiet=2, tools=2, risky=4, transfer=4, tokens=1024, rank=2, word_rank=2, workers=0
)
SEATS = (0, 1, 2)
"""Two splits, and a seat that leaves nothing out."""


def _texts(rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    several = [rng.integers(200, PIECES, int(rng.integers(4, 30))) for _ in range(count)]
    starts = np.cumsum([0, *(len(one) for one in several)], dtype=np.uint32)
    return np.concatenate(several).astype(np.uint16), starts


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A folder as ``prepare.py`` writes it, of random texts; the sources a0 and a1 belong to the splits 0 and 1."""
    rng = np.random.default_rng(5)
    ids, starts = _texts(rng, 84)
    case_ids, case_starts = _texts(rng, 4 * 12)
    names = {
        "role": ROLES, "source": ["a0", "a1", "b"], "language": ["en"], "weights": {}, "inside_weights": {},
        "case_sources": ["written_0", "rules_0", "rules_1", "tools_1"], "numbers": [[201, 202]],
    }  # fmt: skip
    about = [[n % 4, (n // 4) % 2 if n % 4 else 1] for n in range(12)]
    material = {
        "ids": ids, "starts": starts, "places": np.zeros(0, np.uint16), "place_starts": np.zeros(85, np.uint32),
        "role": np.arange(84, dtype=np.uint8) % 7, "source": (np.arange(84) // 7 % 3).astype(np.uint8),
        "language": np.zeros(84, np.uint8), "names": np.frombuffer(json.dumps(names).encode(), np.uint8),
        "case_ids": case_ids, "case_starts": case_starts, "case_about": np.array(about, np.uint8),
    }  # fmt: skip
    raw = io.BytesIO()
    np.savez(raw, **material)
    (tmp_path / "material.npz.xz").write_bytes(lzma.compress(raw.getvalue(), preset=0))
    (tmp_path / "splits.json").write_text(json.dumps([["a0", "written_0", "rules_0"], ["a1", "rules_1", "tools_1"]]))
    text, begin = _texts(rng, 30)
    zeros = np.zeros(30, np.uint8)
    np.savez(
        tmp_path / "input.npz", text=text, text_size=np.diff(begin).astype(np.uint16), picture=text[:0],
        picture_size=zeros, address=text[:8], address_size=np.array([8]), kind=zeros, head=zeros,
        fold=np.arange(30) % 2, label=np.arange(30) % 3 == 0, noisy=zeros, hazard=np.full(30, -1),
        contexts=np.zeros((30, 6)), known=zeros, trust=np.ones(30), chance=np.ones(30), weight_class=zeros,
    )  # fmt: skip
    seen = np.stack([np.arange(30) % 2 != k for k in (0, 1)])
    np.savez(tmp_path / "judged.npz", judged=np.ones(30, bool), seen=seen)
    free, at = _texts(rng, 40)
    np.savez(
        tmp_path / "transfer.npz", ids=free, starts=at, seen=np.stack([np.arange(40) % 2 != k for k in (0, 1)]),
        source=np.arange(40) % 4, task=np.zeros(40, np.uint8), names=np.frombuffer(b"[]", np.uint8),
    )  # fmt: skip
    return tmp_path


def _frozen(relative: bool = False) -> dict[str, torch.Tensor]:
    made = torch.Generator().manual_seed(2)
    found = {trunk.WORDS: (PIECES, SIZE), trunk.PLACES: (256, SIZE), trunk.KINDS: (2, SIZE)}
    for name in ("query", "key", "value"):
        found[f"encoder.layer.0.attention.self.{name}.weight"] = (SIZE, SIZE)
    found["encoder.layer.0.attention.output.dense.weight"] = (SIZE, SIZE)
    found["encoder.layer.0.intermediate.dense.weight"] = (INNER, SIZE)
    found["encoder.layer.0.output.dense.weight"] = (SIZE, INNER)
    arrays = {name: torch.randn(shape, generator=made) * 0.1 for name, shape in found.items()}
    arrays |= {name.replace(".weight", ".bias"): torch.zeros(len(v)) for name, v in arrays.items() if "layer" in name}
    for name in ("embeddings", "encoder.layer.0.attention.output", "encoder.layer.0.output"):
        arrays |= {f"{name}.LayerNorm.weight": torch.ones(SIZE), f"{name}.LayerNorm.bias": torch.zeros(SIZE)}
    return arrays | ({trunk.RELATIVE: torch.randn(32, 12, generator=made)} if relative else {})


def test_a_seat_never_sees_a_text_of_a_source_that_it_leaves_out(work: Path) -> None:
    sampler = LoggedSampler(Batches(work, SMALL, SEATS).sampler.material, screener.Recipe())
    own = {i: {sampler.material.names["source"][int(s)]} for i, s in enumerate(sampler.material.source)}
    lines = {tuple(sampler.material.tokens(i).tolist()): own[i] for i in range(len(own))}
    cases = {tuple(part.tolist()): case.source for several in sampler.cases.values() for case in several
             for part in (case.inside,)}  # fmt: skip
    rng = np.random.default_rng(0)
    rows = [*sampler.rows(rng, 200), *sampler.quiet_rows(rng, 60), *sampler.tool_rows(rng, 60)]
    found = 0
    for ids, _, _, sources in rows:
        whole = tuple(ids[1:-1].tolist())
        if whole in lines:
            found += 1
            assert lines[whole] <= sources
        for inside, source in cases.items():
            text = " ".join(map(str, whole))
            if " ".join(map(str, inside)) in text:
                found += 1
                assert source in sources
    assert found > 100
    assert {name for *_, sources in rows for name in sources} >= {"a0", "a1", "b", "written_0", "rules_0", "tools_1"}


def test_what_a_batch_says_of_the_seats(work: Path) -> None:
    for part in Batches(work, SMALL, (*SEATS, 0))[0]:
        assert part["seen"].shape[0] == 4
        assert (part["seen"][2] == 1).all()
        assert (part["seen"][3] == part["seen"][0]).all()
        assert ((part["order"] + part["risk"]) <= 1).all()
        assert (part["weight"][:, part["risk"] == 0] == 0).all()


def test_a_text_without_labels_made_of_several_is_seen_where_all_are(work: Path) -> None:
    pool = Batches(work, SMALL, SEATS).unlabelled
    assert pool is not None
    rng = np.random.default_rng(1)
    drawn = [pool.draw(rng)[2] for _ in range(300)]
    assert any(seen.tolist() == [0.0, 0.0] for seen in drawn)
    assert not any(seen.tolist() == [1.0, 1.0] for seen in drawn)


def test_a_training_that_was_cut_goes_on_as_if_it_had_not_been(work: Path) -> None:
    def trained(steps: int, path: Path) -> trunk.Trunk:
        plan = replace(SMALL, steps=6, dropout=0.0, pooled_dropout=0.0)
        made = trunk.Trunk(_frozen(), plan, "cpu", len(SEATS))
        batches = Batches(work, plan, SEATS)
        if steps < 6:
            groups = [{"params": list(made.changes.values())}, {"params": list(made.heads.values())}]
            optimizer = torch.optim.AdamW(groups, weight_decay=plan.decay)
            averages = [p.detach().clone() for p in made.parameters()]
            at = training.Progress(made, optimizer, averages, steps=6, path=path)
            mean = (batches.factors * batches.risky.chance).sum(1) / batches.risky.chance.sum()
            for step in range(steps):
                training._step(at, batches[step], torch.tensor(mean), None)
                share = min(plan.averaged, (step + 1) / (step + 10))
                torch._foreach_lerp_(at.averages, [p.detach() for p in made.parameters()], 1 - share)
                at.step += 1
            at.keep()
        else:
            training.train(made, batches, lambda words: None, path=path)
        return made

    whole = trained(6, work / "whole.pt")
    trained(3, work / "cut.pt")
    again = trained(6, work / "cut.pt")
    for one, other in zip(whole.parameters(), again.parameters(), strict=True):
        assert torch.allclose(one, other, atol=1e-6)


class _Jury:
    """Says of every text that it is harmless (Strict, seats 0 to 2) or harmful (Loose, 3 to 5)."""

    def merged(self) -> dict[str, torch.Tensor]:
        return {}

    def pool(self, ids: torch.Tensor, mask: torch.Tensor, merged: object) -> torch.Tensor:
        return torch.ones(6, len(ids), 1)

    def read(self, pooled: torch.Tensor) -> dict[str, torch.Tensor]:
        said = torch.tensor([-3.0] * 3 + [3.0] * 3)
        return {"risk": (pooled * said[:, None, None]).expand(-1, -1, 4)}


def test_students_come_closer_to_their_teachers(work: Path) -> None:
    plan = replace(SMALL, steps=40, rate=5e-3, head_rate=2e-2, dropout=0.0, pooled_dropout=0.0, vectors=0.0)
    orders, larger = (trunk.Trunk(_frozen(relative=r), plan, "cpu", 3) for r in (False, True))
    with torch.no_grad():
        for name, value in (*orders.heads.items(), *larger.heads.items()):
            value.mul_(20 if "weight" in name else 1)
    batches = Batches(work, plan, SEATS)
    student = trunk.Trunk(_frozen(), plan, "cpu", 3)
    taught = teachers.Teachers.of(orders, _Jury(), larger, SEATS)  # type: ignore[arg-type]
    part = {k: torch.from_numpy(v) for k, v in batches[999][0].items()}
    said = taught.says(part)
    assert said["strict"].shape == said["loose"].shape == (3, len(part["taught"]))
    assert float((said["loose"] - said["strict"]).mean()) > 1.0

    def apart(name: str) -> float:
        with torch.no_grad():
            states = student.states(part["ids"], student.merged())
            pooled = training.mean_state(states, part["ids"] != 0)
            risk = training.risk_of(student, name, pooled, part["head"])[:, part["taught"]]
            return float((risk - said[name]).abs().mean())

    before = apart("strict") + apart("loose")  # the larger teacher counts for most, so that the two pull at each other
    training.train(student, batches, lambda words: None, taught)
    assert apart("strict") + apart("loose") < 0.85 * before


def test_a_pass_without_texts_of_risk_is_taught_orders_alone(work: Path) -> None:
    made = trunk.Trunk(_frozen(), SMALL, "cpu", 3)
    part = {k: torch.from_numpy(v) for k, v in Batches(work, SMALL, SEATS)[0][0].items()}
    said = teachers.Teachers.of(made, _Jury(), made, SEATS).says({**part, "taught": part["taught"][:0]})  # type: ignore[arg-type]
    assert said["value"].shape == (3, len(part["ids"]))
    assert said["strict"].shape == (3, 0)


def test_a_seat_that_begins_with_changes_of_a_lower_rank_reads_as_they_do() -> None:
    low, high = (trunk.Trunk(_frozen(), replace(SMALL, rank=rank), "cpu", 2) for rank in (2, 5))
    with torch.no_grad():
        for value in low.changes.values():
            value.add_(torch.randn_like(value))
    high.take(1, {name: value[0] for name, value in (low.changes | low.heads).items()})
    ids = torch.tensor([[101, 300, 301, 102]])
    assert torch.allclose(low.states(ids, low.merged())[0], high.states(ids, high.merged())[1], atol=1e-5)


def test_tasks_that_a_plan_leaves_out_are_not_trained(work: Path) -> None:
    for left, heads in (({"risky": 0, "transfer": 0}, "strict"), ({"orders": 0, "quiet": 0, "tools": 0}, "marks")):
        plan = replace(SMALL, vectors=0.0, **left)
        made = trunk.Trunk(_frozen(), plan, "cpu", 3)
        before = made.heads[f"head.{heads}.weight"].detach().clone()
        training.train(made, Batches(work, plan, SEATS), lambda words: None)
        assert torch.equal(before, made.heads[f"head.{heads}.weight"])
        assert all(bool(value.isfinite().all()) for value in made.parameters())
        assert any(bool(value.any()) for name, value in made.changes.items() if name.endswith("lora_b"))


def test_what_seats_leave_out_is_what_their_split_leaves_out() -> None:
    for split, several in FAMILIES.items():
        outs = [prepare.left_out_with(family) for family in several]
        assert set().union(*outs) == left_out(split)
        assert all(set(leave_one_out.FOLDS[family]) <= out for family, out in zip(several, outs, strict=True))


def test_what_is_scored_is_what_ships() -> None:
    made = trunk.Trunk(_frozen(), SMALL, "cpu", 3)
    with torch.no_grad():
        for value in made.changes.values():
            value.add_(torch.randn_like(value))
    made.round()
    held = trunk.unpacked_changes(made.packed(1))
    for name, value in (made.changes | made.heads).items():
        assert np.allclose(held[name], value[1].detach().numpy().reshape(held[name].shape), atol=1e-3)
    again = {name: value.detach().clone() for name, value in made.changes.items()}
    made.round()
    for name, value in made.changes.items():
        assert torch.allclose(again[name], value, atol=2e-3)


def test_the_larger_trunk_reads_the_same_numbers(tmp_path: Path) -> None:
    words = np.arange(30527, dtype=np.float32)[:, None] * np.ones((1, 12), np.float32)
    scale = np.ones(514, np.float32) * 0.5
    np.savez(
        tmp_path / "mpnet.npz", **{
            trunk.WORDS: words, f"q8/{trunk.PLACES}": np.ones((514, 12), np.int8), f"scale/{trunk.PLACES}": scale,
            "encoder.layer.0.attention.attn.q.bias": np.zeros(12, np.float32),
        },
    )  # fmt: skip
    found = trunk.mpnet(tmp_path / "mpnet.npz", "cpu")
    read = found[trunk.WORDS][:, 0].tolist()
    assert (len(read), read[0], read[101], read[102], read[2000]) == (30522, 1, 0, 2, 2004)
    assert found[trunk.PLACES].shape[0] == 512
    assert float(found[trunk.PLACES][0, 0]) == 0.5
    assert "encoder.layer.0.attention.self.query.bias" in found


def test_seven_words_in_a_row_are_the_same_text() -> None:
    first = "please send the list of all late orders to the office"
    other = "Yesterday: send the list of ALL late orders, thanks"
    assert not set(transfer.rows_of_words(first)).isdisjoint(transfer.rows_of_words(other))
    assert set(transfer.rows_of_words("send the list of all")).isdisjoint(transfer.rows_of_words(first))
    assert set(transfer.rows_of_words("One, two!")) == set(transfer.rows_of_words("one two"))


def test_lists_that_judge_are_known() -> None:
    assert len(transfer.judging_words()) > 20_000


def test_stored_figures_follow_from_stored_scores() -> None:
    folder = Path(__file__).parents[2] / "results" / "reading"
    told = json.loads((folder / "distilled.json").read_text(encoding="utf-8"))
    with np.load(folder / "distilled_orders.npz") as stored:
        scores = {name: stored[name] for name in stored.files}
    again = evaluation.orders(evaluation.scored_by_source(scores, "student_logit"))
    assert again["thresholds"] == told["orders"]["student"]["thresholds"]
    assert again["written by language"] == told["orders"]["student"]["written by language"]
    assert again["documents AUC"] == told["orders"]["student"]["documents AUC"]
    assert evaluation._splits(folder / "distilled_risk_plain.npz") == [0, 2]


@pytest.mark.parametrize("reader", evaluation.BEGUN)
def test_stored_figures_of_the_third_trial_follow_from_stored_scores(reader: str) -> None:
    folder = Path(__file__).parents[2] / "results" / "reading"
    told = json.loads((folder / "begun.json").read_text(encoding="utf-8"))
    with np.load(folder / "begun_orders.npz") as stored:
        scores = {name: stored[name] for name in stored.files}
    scored = evaluation.scored_by_source(scores, f"{reader}_logit")
    assert evaluation.orders(scored) == told["orders"][reader]
    assert evaluation._short(scores, scores["short"], f"{reader}_logit", scored) == told["short lines"][reader]
