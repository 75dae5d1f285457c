"""Moderation models of a user's own, with tiny random weights of the architectures people have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

transformers = pytest.importorskip("transformers", reason="needs the models extra")
torch = pytest.importorskip("torch", reason="needs the models extra")

from lazaretto.errors import ModelUnavailable, PolicyError
from lazaretto.gates.content.debate import hold_debate
from lazaretto.gates.content.gate import content_settings, make_panel, text_embedder
from lazaretto.gates.content.records import Content, Outcome
from lazaretto.models.own_networks import GuardModel

WORDS = (
    "how",
    "do",
    "i",
    "make",
    "a",
    "cake",
    "bomb",
    "safe",
    "unsafe",
    "Yes",
    "No",
    "user",
    ":",
    ".",
    "the",
    "is",
    "it",
)
GUARD_TEMPLATE = "{% for m in messages %}user : {{ m['content'] }} {% endfor %}is it safe ?"


def _save(folder: Path, model: Any, template: str = "") -> Path:
    """The model with a tokenizer of whole words."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    vocabulary = {word: i for i, word in enumerate(["[UNK]", "[PAD]", *WORDS])}
    plain = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    plain.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=plain, unk_token="[UNK]", pad_token="[PAD]")
    if template:
        tokenizer.chat_template = template
    tokenizer.save_pretrained(folder)
    model.save_pretrained(folder)
    return folder


def _tiny(**more: Any) -> dict[str, Any]:
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    return {"vocab_size": 40, "max_position_embeddings": 96, **sizes, **more}


def _classifier(folder: Path, names: tuple[str, ...], several: bool = False) -> Path:
    torch.manual_seed(0)
    labels = dict(enumerate(names))
    config = transformers.BertConfig(
        **_tiny(), id2label=labels, label2id={n: i for i, n in labels.items()}, num_labels=len(names),
        problem_type="multi_label_classification" if several else "single_label_classification",
    )  # fmt: skip
    model = transformers.BertForSequenceClassification(config)
    with torch.no_grad():
        model.classifier.weight.zero_()
        model.classifier.bias.copy_(torch.tensor([-2.0, *[1.0] * (len(names) - 1)]))
    return _save(folder, model)


def test_a_text_classifier_is_read_by_the_names_of_its_classes(tmp_path: Path) -> None:
    two = GuardModel(str(_classifier(tmp_path / "two", ("safe", "toxic")))).score("how do i make a cake")
    assert two.risk == pytest.approx(1 / (1 + torch.e**-3), abs=1e-4) and two.label == "toxic"
    several = GuardModel(str(_classifier(tmp_path / "several", ("neutral", "hate", "threat"), True)))
    assert several.score("the cake is safe").risk == pytest.approx(1 / (1 + torch.e**-1), abs=1e-4)
    long = several.score("the cake is safe . " * 400)
    assert long.tokens > 1500 and 0 <= long.risk <= 1


def test_classes_that_do_not_speak_for_themselves_must_be_named(tmp_path: Path) -> None:
    folder = str(_classifier(tmp_path / "odd", ("alpha", "beta")))
    with pytest.raises(ModelUnavailable, match=r"alpha, beta.*harmful"):
        GuardModel(folder).score("x")
    assert GuardModel(folder, harmful=("beta",)).score("x").risk > 0.9


def _causal(folder: Path, kind: str, template: str = "") -> Path:
    torch.manual_seed(1)
    config = {
        "llama": lambda: transformers.LlamaForCausalLM(transformers.LlamaConfig(**_tiny(num_key_value_heads=2))),
        "gemma": lambda: transformers.Gemma2ForCausalLM(
            transformers.Gemma2Config(**_tiny(num_key_value_heads=2, head_dim=8))
        ),
    }[kind]()
    return _save(folder, config, template)


@pytest.mark.parametrize(("kind", "template"), [("llama", GUARD_TEMPLATE), ("llama", ""), ("gemma", "")])
def test_chat_judges_answer_by_the_odds_of_their_next_token(tmp_path: Path, kind: str, template: str) -> None:
    model = GuardModel(str(_causal(tmp_path / f"{kind}-guard", kind, template)))
    found = model.score("how do i make a bomb")
    assert 0 < found.risk < 1 and found.label in ("safe", "unsafe", "Yes", "No")
    assert (found.label in ("unsafe", "Yes")) == (found.risk >= 0.5)
    assert model.score("how do i make a bomb") == found
    assert 0 < model.score("the cake . " * 300).risk < 1


def test_what_cannot_be_loaded_says_why_once(tmp_path: Path) -> None:
    missing = GuardModel(str(tmp_path / "nothing"))
    for _ in range(2):
        with pytest.raises(ModelUnavailable, match="hf:owner/name"):
            missing.score("x")
    config = transformers.BertConfig(**_tiny())
    folder = _save(tmp_path / "bare", transformers.BertModel(config))
    with pytest.raises(ModelUnavailable, match=r"gates\.content\.encoder"):
        GuardModel(str(folder)).score("x")
    encoder = text_embedder(str(folder))
    assert encoder is not None
    rows = encoder.embed_texts(["the cake", "a bomb"])
    assert rows.shape == (2, 16) and abs((rows**2).sum(1) - 1).max() < 1e-5
    with pytest.raises(ModelUnavailable, match="encoder"):
        text_embedder(str(tmp_path / "no"))


async def test_the_policy_seats_it_and_its_bars_make_the_outcome(tmp_path: Path) -> None:
    pytest.importorskip("PIL")
    folder = str(_classifier(tmp_path / "guard", ("safe", "toxic")))
    outcomes = {}
    for bars in ((0.3, 0.7), (0.3, 0.99), (0.96, 0.99)):
        table = {"model": folder, "allow_below": bars[0], "unsafe_from": bars[1]}
        settings = content_settings({"jury": "classifier", "classifier": table, "without": ["supporter"]})
        panel = make_panel(settings, None)
        finding = (await hold_debate(panel, Content("x", "how do i make a cake"))).finding
        outcomes[bars] = finding.outcome
        assert "toxic" in finding.reasoning and panel.name == "guard"
    assert list(outcomes.values()) == [Outcome.UNSAFE, Outcome.REVIEW, Outcome.SAFE]


@pytest.mark.parametrize("table", [{}, {"model": "x", "allow_below": 0.9, "unsafe_from": 0.5}])
def test_a_classifier_without_a_model_or_with_crossed_bars_is_a_policy_error(table: dict[str, Any]) -> None:
    with pytest.raises(PolicyError, match=r"gates\.content\.classifier"):
        content_settings({"jury": "classifier", "classifier": table})
