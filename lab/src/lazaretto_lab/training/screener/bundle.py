"""Turns the material and the tested texts into token ids, in two small files that a training machine can read."""

from __future__ import annotations

import io
import json
import lzma
import re
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lazaretto.models.minilm import minilm_tokenizer
from lazaretto_lab.training.screener import material
from lazaretto_lab.training.screener.leave_one_out import ALSO_OUT, FOLDS, held_out

WINDOW = 256
ROLES = (material.ORDER, material.INSIDE, material.REQUEST, material.CLEAN, material.NOTE, material.ALONE, "context")
WEIGHTS = {
    "own": 12, "phrases": 3, "templates_dev": 4, "xquad_pairs": 2, "xsafety_goal_hijacking": 3, "purplellama": 3,
    "tasktracker": 3, "jailbreak_in_the_wild": 2, "prompt_shield": 2, "pyrit_templates": 1, "giskard": 0.3,
    "hinglish_stealth": 0.5, "prose_lines": 5, "tldr_pages": 3, "cursorrules": 4, "k8s_runbooks": 3,
    "todo_comments_dev": 2, "commit_messages_dev": 3, "persistbench_memories": 2, "security_docs_mentions": 3,
    "benign_lines": 1.5, "mentions": 2, "attributed": 2, "xsafety": 2, "xquad": 2, "hinglish_clean": 1,
    "stormfront_vicomtech": 0.5, "wikipedia_talk": 0.7, "realtoxicityprompts": 0.5, "identity_templates": 0.2,
    "toxigen_prompts": 0.3, "surge_toxicity": 0.5, "prompts_zh": 0.3, "prose": 2, "structured": 1.5, "tau_bench": 1.5,
    "bipia_email": 1, "bipia_table": 1, "bipia_code": 1, "asb": 0.7, "injecagent": 1.5, "memorybank": 1,
    "germeval2018": 1, "told_br": 1, "korean_hate_speech": 0.5, "cold_test": 0.5, "xcopa": 0.4, "safetext": 0.4,
    "ethics_commonsense": 0.4,
    **{f"written_{fold}": 5 for fold in range(5)}, **{f"rules_{fold}": 2 for fold in range(5)},
    **{f"stated_{fold}": 3 for fold in range(5)}, **{f"days_{fold}": 6 for fold in range(5)}, "noise": 3, "pages": 4,
}  # fmt: skip
"""How often a source is drawn; 1 where not named."""
INSIDE_WEIGHTS = {
    **WEIGHTS, **{f"written_{fold}": 1.5 for fold in range(5)}, **{f"days_{fold}": 3 for fold in range(5)},
    "own": 8, "phrases": 7, "bipia_email": 3, "bipia_code": 1.5, "injecagent": 3, "asb": 3, "advbench": 1,
    "code_orders": 1.5, "own_tasks": 8, "clinc150": 1.5, "hwu64": 1.5, "snips": 1, "oasst_sample": 0.7,
    "templates_everyday": 0.5, "dolly15k_sample": 1.5, "self_instruct_user": 1, "self_instruct_seed": 0.7, "koala": 0.5,
    "mt_bench": 0.3, "vicuna_bench": 0.3, "ifeval": 1, "jailbreak_in_the_wild": 0.7, "pyrit_templates": 0.4,
}  # fmt: skip
"""The same for what is put into a context."""
_END = re.compile(r"\n|[.!?。！？।] ?")


def write_bundle(data: Path, work: Path, seed: int, packages: Path | None = None) -> None:
    """``material.npz.xz`` and ``held.npz.xz`` under ``work``; ``packages``: real servers with honest descriptions."""
    work.mkdir(parents=True, exist_ok=True)
    lines, contexts = material.lines(data, seed), material.contexts(data, seed)
    more = material.described_cases(packages) if packages else []
    _write(work / "material.npz.xz", _material(lines, contexts, more))
    _write(work / "held.npz.xz", _held(data, lines, more))
    print(f"{len(lines)} lines, {len(contexts)} contexts, {len(more)} descriptions of real tools")


def read_rows(work: Path) -> dict[str, list[Any]]:
    """Fold, source, label, kind and language of every tested text."""
    with np.load(io.BytesIO(lzma.decompress((work / "held.npz.xz").read_bytes()))) as arrays:
        rows: dict[str, list[Any]] = json.loads(bytes(arrays["rows"]).decode())
    return rows


def _material(
    lines: Sequence[material.Line], contexts: Sequence[material.Context], more: Sequence[material.Case] = ()
) -> dict[str, NDArray[Any]]:
    items: list[material.Line | material.Context] = [*lines, *contexts]
    sources = sorted({item.source for item in items})
    languages = sorted({item.language for item in items})
    encoded = minilm_tokenizer().encode_batch([item.text for item in items], add_special_tokens=False)
    places: list[list[int]] = [[] for _ in lines]
    for context, got in zip(contexts, encoded[len(lines) :], strict=True):
        cuts = context.places or tuple(m.end() for m in _END.finditer(context.text))
        ends = np.array([end for _, end in got.offsets] or [0])
        places.append(sorted({int(np.searchsorted(ends, cut, side="right")) for cut in cuts}))
    names: dict[str, Any] = {
        "role": ROLES, "source": sources, "language": languages, "weights": WEIGHTS, "inside_weights": INSIDE_WEIGHTS,
        "folds": {name: (*sources, *ALSO_OUT.get(name, ())) for name, sources in FOLDS.items()},
    }  # fmt: skip
    cases = [case for case in (*material.written_cases(), *more) if case.language in material.KNOWN]
    names["numbers"] = number_tokens()
    names["case_sources"] = sorted({case.source for case in cases})
    pieces = [p for c in cases for p in (c.text[: c.start], c.text[c.start : c.end], c.text[c.end :], c.host)]
    encoded_pieces = minilm_tokenizer().encode_batch(pieces, add_special_tokens=False)
    case_ids, case_starts = _flat([e.ids[-600:] if n % 4 == 0 else e.ids[:600] for n, e in enumerate(encoded_pieces)])
    about = [[names["case_sources"].index(case.source), int(case.bad)] for case in cases]
    ids, starts = _flat([e.ids[:600] for e in encoded])
    cut_places, place_starts = _flat([[p for p in several if p < 600] for several in places])
    roles = [ROLES.index(line.role) for line in lines] + [ROLES.index("context")] * len(contexts)
    return {
        "ids": ids,
        "starts": starts,
        "places": cut_places,
        "place_starts": place_starts,
        "role": np.array(roles, np.uint8),
        "source": np.array([sources.index(item.source) for item in items], np.uint8),
        "language": np.array([languages.index(item.language) for item in items], np.uint8),
        "names": _text(names),
        "case_ids": case_ids,
        "case_starts": case_starts,
        "case_about": np.array(about, np.uint8),
    }


def number_tokens() -> list[list[int]]:
    """Word pieces that are numbers, those of one length and place in a word together: one stands for another."""
    found: dict[tuple[bool, int], list[int]] = {}
    for piece, number in sorted(minilm_tokenizer().get_vocab().items()):
        digits = piece.removeprefix("##")
        if digits.isascii() and digits.isdigit():
            found.setdefault((piece != digits, len(digits)), []).append(number)
    return [several for several in found.values() if len(several) > 1]


def _held(data: Path, lines: Sequence[material.Line], more: Sequence[material.Case] = ()) -> dict[str, NDArray[Any]]:
    """The tested texts of every fold; those that a line of another source repeats are not tested."""
    known: dict[str, set[str]] = {}
    for line in lines:
        known.setdefault(material.key_of(line.text), set()).add(line.source)
    rows: dict[str, list[Any]] = {name: [] for name in ("fold", "source", "label", "kind", "language", "text", "crc")}
    for fold, sources in FOLDS.items():
        for source in sources:
            for sample, language in held_out(data, source, more):
                if known.get(material.key_of(sample.text), set()) - set(sources):
                    continue
                row: tuple[Any, ...] = (
                    fold,
                    source,
                    int(sample.poisoned),
                    sample.kind,
                    language,
                    sample.text,
                    zlib.crc32(sample.text.encode()),
                )
                for name, value in zip(rows, row, strict=True):
                    rows[name].append(value)
    windows, owner = [], []
    body = WINDOW - 2
    texts = rows.pop("text")
    for n, got in enumerate(minilm_tokenizer().encode_batch(texts, add_special_tokens=False)):
        ids = got.ids
        starts = range(0, max(1, len(ids) - body // 2), body // 2) if len(ids) > body else [0]
        for start in list(starts)[:24]:
            windows.append([101, *ids[start : start + body], 102])
            owner.append(n)
    flat, begin = _flat(windows)
    return {"ids": flat, "starts": begin, "owner": np.array(owner, np.uint32), "rows": _text(rows)}


def _flat(several: Sequence[Sequence[int]]) -> tuple[NDArray[np.uint16], NDArray[np.uint32]]:
    sizes = np.cumsum([0, *(len(one) for one in several)], dtype=np.uint32)
    return np.fromiter((i for one in several for i in one), np.uint16, int(sizes[-1])), sizes


def _text(value: Any) -> NDArray[np.uint8]:
    return np.frombuffer(json.dumps(value, ensure_ascii=False).encode(), np.uint8)


def _write(path: Path, arrays: dict[str, NDArray[Any]]) -> None:
    raw = io.BytesIO()
    np.savez(raw, allow_pickle=False, **arrays)
    path.write_bytes(lzma.compress(raw.getvalue(), preset=6))
