"""Structured memories as vectors of 768 dimensions, field by field.

Each field (state, context, action, tags) has a block in proportion to its share of a memory: a fixed random projection
of its numbers, brought to a fixed length. So a change in one field moves the cosine only by that field's share. Nothing
is trained: projections come from a named seed, tags from the hash of their words.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from lazaretto.errors import InputError
from lazaretto.kept_texts import remembered

Floats = NDArray[np.float32]

NAME = "lazaretto-records-1"
DIMENSION = 768
BLOCKS = {"state": 384, "context": 192, "action": 96, "tags": 96}
"""Dimensions of each field's block; its share of the squared length is the same proportion."""
LONGEST_FIELD = 256
_SEED = 20_261_115


@cache
def _projection(field: str) -> Floats:
    """Rows for the constant and up to ``LONGEST_FIELD`` numbers of a field."""
    place = list(BLOCKS).index(field)
    rng = np.random.default_rng([_SEED, place])
    return rng.standard_normal((LONGEST_FIELD + 1, BLOCKS[field]), dtype=np.float32)


@remembered(4 << 20, lambda vector: int(vector.nbytes))
def tag_vector(tag: str) -> Floats:
    """The direction of one tag: the same word always has the same one."""
    digest = hashlib.blake2b(tag.encode(), digest_size=16).digest()
    rng = np.random.default_rng(list(digest))
    return rng.standard_normal(BLOCKS["tags"], dtype=np.float32)


def embed(state: Floats, context: Floats, action: Floats, tags: Floats) -> Floats:
    """Unit vectors (n, 768) from fields as rows; ``tags`` is the sum of each memory's tag vectors."""
    parts = [_numbers(name, rows) for name, rows in (("state", state), ("context", context), ("action", action))]
    return np.concatenate([*parts, _scaled("tags", np.asarray(tags, dtype=np.float32))], axis=1)


def tags_block(tags: Sequence[Iterable[str]]) -> Floats:
    """Summed tag vectors, one row per memory."""
    rows = [sum((tag_vector(t) for t in sorted(set(names))), np.zeros(BLOCKS["tags"], np.float32)) for names in tags]
    return np.stack(rows) if rows else np.zeros((0, BLOCKS["tags"]), np.float32)


def _numbers(field: str, rows: Floats) -> Floats:
    values = np.asarray(rows, dtype=np.float32)
    if values.ndim != 2 or values.shape[1] > LONGEST_FIELD:
        raise InputError(field, f"has shape {values.shape}", f"Give rows of at most {LONGEST_FIELD} numbers")
    weights = _projection(field)[: values.shape[1] + 1]
    # arcsinh keeps small numbers as they are and bounds the sway of huge ones; the constant keeps the length visible
    return _scaled(field, weights[0] + np.arcsinh(values) @ weights[1:])


def _scaled(field: str, block: Floats) -> Floats:
    length = np.linalg.norm(block, axis=1, keepdims=True)
    share = np.float32(np.sqrt(BLOCKS[field] / DIMENSION))
    return np.asarray(block / np.where(length > 0, length, 1.0) * share, dtype=np.float32)
