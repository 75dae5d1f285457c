"""One screener out of several trainings: the average of their weights, and what it scores on texts it never saw.

    lazaretto train screener average --data ../shared/data --work runs/averaged

Trainings of one recipe on one base differ in their texts and their chance. The average of their weights scores like the
average of their logits (``agreement``), errs less than any of them, and costs what one costs. Members are read from
the history of this repository: their weights, and the left-out scores that were stored with them. They were tested on
the same texts, each by its fold that left the text out.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lazaretto_lab.training.screener.material import REAL

REPOSITORY = Path(__file__).resolve().parents[5]


class Member(NamedTuple):
    """A training that takes part: its files by the names of their contents in git, which no rebase changes."""

    name: str
    weights: str
    scores: str = ""
    """Its left-out scores; empty: it was trained on all texts alone, and counts in the weights alone."""


MEMBERS = (
    Member("1700_steps", "db9e52c7ca18dc74e6efc06e645cbff4384d66b2", "0d7576b4753c60e950a82723ca8ca3f6d7453fe9"),
    Member("1000_steps", "e4eb5495292f02183f00f4395e11981a4a56bc44", "499110bbda65ef63380f67d4c9bafef642c5d077"),
)
"""The two trainings that saw the working days; the first drew them half as often."""
TEXTS = REPOSITORY / "lab" / "results" / "screener" / "left_out_texts.npz"
"""Checksums of the texts that the first two members were tested on, row by row."""
WEIGHTS = "src/lazaretto/models/weights/screener/screener.safetensors"
"""The average."""
RANK, WORD_RANK = 32, 16
"""As of one training. The average has the sum of the members' ranks, of which this keeps 97 % and more."""
WORDS = "embeddings.word_embeddings.weight"
WINDOWS, STRIDE = 24, 127
COMPARED = 1500
"""Texts on which the average's logits are compared with the members'."""

Columns = dict[str, NDArray[Any]]


def stored(content: str) -> bytes:
    """A file out of the history of this repository."""
    command = ["git", "cat-file", "blob", content]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, check=True).stdout


def weights_of(member: Member) -> dict[str, NDArray[Any]]:
    """The arrays of a member."""
    from safetensors.numpy import load

    return dict(load(stored(member.weights)))


def scores_of(member: Member) -> Columns:
    """The left-out scores of a member, with the checksum of each row's text: the first two kept none themselves."""
    with np.load(io.BytesIO(stored(member.scores))) as arrays:
        table = {name: arrays[name] for name in arrays.files}
    if "crc" not in table:
        with np.load(TEXTS) as arrays:
            table["crc"] = arrays["crc"]
    return table


def average(members: Sequence[Mapping[str, NDArray[Any]]]) -> dict[str, NDArray[np.float16]]:
    """Their changes to each matrix averaged and cut back to the rank of one; their heads averaged."""
    made: dict[str, NDArray[np.float16]] = {}
    for key in members[0]:
        name, _, kind = key.rpartition(".")
        if kind == "lora_a":
            rank = WORD_RANK if name == WORDS else RANK
            wide = np.concatenate([member[f"{name}.lora_b"].astype(np.float64) for member in members], axis=1)
            wide /= len(members)
            tall = np.concatenate([member[f"{name}.lora_a"].astype(np.float64) for member in members], axis=0)
            (left, upper), (right, lower) = np.linalg.qr(wide), np.linalg.qr(tall.T)
            u, size, v = np.linalg.svd(upper @ lower.T, full_matrices=False)
            root = np.sqrt(size[:rank])
            made[f"{name}.lora_b"] = (left @ u[:, :rank] * root).astype(np.float16)
            made[f"{name}.lora_a"] = np.ascontiguousarray((right @ v.T[:, :rank] * root).T.astype(np.float16))
        elif key.startswith("head."):
            made[key] = np.mean([member[key].astype(np.float32) for member in members], axis=0).astype(np.float16)
    return made


def logits(weights: Mapping[str, NDArray[Any]], texts: Sequence[str]) -> NDArray[np.float32]:
    """A row for each text, a column for each head: the strongest window, as in training, in full precision."""
    from lazaretto.models.minilm import Encoder, split_heads, window_texts
    from lazaretto_lab.training.screener.training import TOP_TOKENS

    adapter, head = split_heads(weights)
    encoder = Encoder(adapter)
    found = np.full((len(texts), len(head["bias"])), -np.inf, np.float32)
    order = sorted(range(len(texts)), key=lambda n: len(texts[n]))
    for at in range(0, len(order), 256):
        some = order[at : at + 256]
        windows = window_texts([texts[n] for n in some], WINDOWS, STRIDE)
        owners = [n for n, several in zip(some, windows, strict=True) for _ in several]
        states = encoder.token_states([window.ids for several in windows for window in several])
        for n, state in zip(owners, states, strict=True):
            marks = np.sort(head["weight"] @ state[1:].T + head["bias"][:, None], axis=1)
            found[n] = np.maximum(found[n], marks[:, -TOP_TOKENS:].mean(axis=1))
        print(f"\rread {at + len(some)} of {len(order)}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return found


def texts_of(data: Path) -> dict[int, str]:
    """The tested texts by their checksums; descriptions of real tools are not among them."""
    from lazaretto_lab.training.screener.leave_one_out import FOLDS, held_out

    sources = [source for several in FOLDS.values() for source in several]
    samples = (sample for source in sources for sample, _ in held_out(data, source))
    return {zlib.crc32(sample.text.encode()): sample.text for sample in samples}


def keys(columns: Columns) -> list[tuple[str, int, int]]:
    """The text of each row: its source, checksum, and how often both stood before it. Descriptions of real tools
    come in one order and need no checksum."""
    seen = Counter[tuple[str, int]]()
    found = []
    for source, crc, kind in zip(*(columns[name].tolist() for name in ("source", "crc", "kind")), strict=True):
        known = (source, 0 if kind == REAL else crc)
        found.append((*known, seen[known]))
        seen[known] += 1
    return found


def scores(members: Sequence[Member]) -> Columns:
    """The rows that all members with left-out scores were tested on, as in the last of them, with ``logit`` and
    ``quiet`` of each (``logit_NAME``)."""
    tables = {member.name: scores_of(member) for member in members if member.scores}
    rows = {name: {key: row for row, key in enumerate(keys(table))} for name, table in tables.items()}
    last = list(tables)[-1]
    common = [key for key in rows[last] if all(key in numbers for numbers in rows.values())]
    columns: Columns = {}
    for name, table in tables.items():
        places = np.array([rows[name][key] for key in common])
        if name == last:
            columns |= {column: table[column][places] for column in ("label", "source", "language", "kind", "crc")}
        columns |= {f"{column}_{name}": table[column][places] for column in ("logit", "quiet")}
    return columns


def agreement(
    made: Mapping[str, NDArray[Any]], members: Sequence[Mapping[str, NDArray[Any]]], texts: Sequence[str]
) -> dict[str, list[float]]:
    """For each head: slope and offset from the mean of the members' logits to the average's, correlation, and error."""
    mean = np.mean([logits(member, texts) for member in members], axis=0)
    mine = logits(made, texts)
    found = {}
    for head, name in enumerate(("orders", "quiet", "tools")):
        slope, offset = np.polyfit(mean[:, head], mine[:, head], 1)
        rest = mine[:, head] - slope * mean[:, head] - offset
        related = np.corrcoef(mean[:, head], mine[:, head])[0, 1]
        found[name] = [round(float(value), 3) for value in (slope, offset, related, np.sqrt(np.mean(rest**2)))]
    return found


def left_out(columns: Columns, members: Sequence[str], agrees: Mapping[str, Sequence[float]]) -> Columns:
    """The scores of the average on each row if it, too, had left it out: the members' mean, on its own scale."""
    from lazaretto_lab.training.screener.training import task_of

    heads = ("orders", "quiet", "tools")
    made = {name: columns[name] for name in ("label", "source", "language", "kind", "crc")}
    means = {
        name: np.mean([columns[f"{name}_{member}"].astype(np.float32) for member in members], axis=0)
        for name in ("logit", "quiet")
    }
    scales = np.array([agrees[heads[task_of(source)]][:2] for source in columns["source"].tolist()])
    slope, offset = agrees["quiet"][:2]
    made["logit"] = means["logit"] * scales[:, 0] + scales[:, 1]
    made["quiet"] = means["quiet"] * slope + offset
    return made


def write_average(data: Path, work: Path, members: Sequence[Member] = MEMBERS) -> Columns:
    """``screener.safetensors`` and ``left_out_scores.npz`` under ``work``; returns the scores."""
    from safetensors.numpy import save_file

    work.mkdir(parents=True, exist_ok=True)
    several = [weights_of(member) for member in members]
    made = average(several)
    save_file(made, work / "screener.safetensors")
    columns, texts = scores(members), texts_of(data)
    rng = np.random.default_rng(0)
    readable = [text for crc in columns["crc"].tolist() if len(text := texts.get(crc, "")) in range(1, 1000)]
    compared = [readable[n] for n in rng.choice(len(readable), COMPARED, replace=False)]
    agrees = agreement(made, several, compared)
    print(json.dumps(agrees), flush=True)
    found = left_out(columns, [member.name for member in members if member.scores], agrees)
    half = {name: found[name].astype(np.float16) for name in ("logit", "quiet")}
    np.savez_compressed(work / "left_out_scores.npz", allow_pickle=False, **(found | half))
    summary = {"members": [member.name for member in members], **agrees}
    (work / "agreement.json").write_text(json.dumps(summary, indent=1) + "\n")
    return found
