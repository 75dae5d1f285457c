"""Who talks to whom: random streams that any worker can recompute, and two ways to draw the pairs.

Random numbers are a pure function of (seed, stream, round, position), from the counter-based Philox generator. So a run
split over workers needs no shared generator, and runs that differ only in their defence meet the same pairs.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]
Words = NDArray[np.uint64]

POP_LIMIT = 16_000
"""Up to this many agents a Python list pops faster than the merging decoder works (measured; both are exact)."""
SCALAR_LIMIT = 2_048
"""Draws below this list length are made one by one; above, a whole range of lengths at once."""


class Stream(IntEnum):
    """Named random streams; the numbers are part of the results and never change."""

    ROLE = 0
    PARTNER = 1
    RETRIEVE = 2
    ASK = 3
    ANSWER = 4
    RECOVER = 5
    FLAG = 6
    REMOVE = 7
    CURE = 8
    BALANCE = 9
    FIND_ASKING = 10
    FIND_ANSWERING = 11


def raw_words(seed: int, stream: Stream, round_: int, count: int, start: int = 0) -> Words:
    """``count`` random 64-bit words of a stream's round, from position ``start`` (a multiple of 4: Philox makes four
    at once)."""
    if start % 4:
        raise ValueError("start must be a multiple of 4")
    counter = np.array([start // 4, 0, 0, round_], dtype=np.uint64)
    words: Words = np.random.Philox(counter=counter, key=np.array([seed, stream], dtype=np.uint64)).random_raw(count)
    return words


def uniforms(seed: int, stream: Stream, round_: int, count: int, start: int = 0) -> NDArray[np.float64]:
    """``count`` uniform numbers in [0, 1) with 53 random bits each."""
    bits = raw_words(seed, stream, round_, count, start) >> np.uint64(11)
    return bits.astype(np.float64) * 2.0**-53


def random_pairs(seed: int, round_: int, agents: int, part: int = 0, parts: int = 1) -> tuple[Ids, Ids, int]:
    """Questioners and answerers of a round: every ordered perfect matching equally likely.

    Coin tosses choose the answerers (made exactly half by moving a few at random), whose order stays; the others get
    random keys, and the order of their keys says whom they meet. Keys carry the agent's number in their low bits, so
    one sort of plain integers does it; 2^40 possible keys and more make ties, which would favour low numbers,
    negligible. With ``parts`` > 1 only the pairs whose key lies in the ``part``-th range are returned, with the
    position of the first: the parts put together are the whole, whatever their number.
    """
    answers, asks = _halves(seed, round_, agents)
    width = np.uint64(max(1, (agents - 1).bit_length()))
    keys = raw_words(seed, Stream.PARTNER, round_, asks.size)
    keys <<= width
    keys |= asks.view(np.uint64)
    first = 0
    if parts > 1:
        low, high = (np.uint64((2**64 - 1) * p // parts) for p in (part, part + 1))
        first = int(np.count_nonzero(keys < low))
        keys = keys[(keys >= low) & (keys < high if part + 1 < parts else True)]
    keys.sort()
    keys &= (np.uint64(1) << width) - np.uint64(1)
    questioners = keys.view(np.int64)
    answerers = answers[first : first + keys.size]
    return questioners[: answerers.size], answerers, first  # an odd agent, the one of the largest key, sits out


def _halves(seed: int, round_: int, agents: int) -> tuple[Ids, Ids]:
    """A uniformly random set of exactly half the agents (rounded down), and the rest."""
    words = raw_words(seed, Stream.ROLE, round_, -(-agents // 64))
    mask = np.unpackbits(words.astype("<u8", copy=False).view(np.uint8), count=agents).view(np.bool_)
    chosen, rest = np.flatnonzero(mask), np.flatnonzero(~mask)
    surplus = chosen.size - agents // 2
    if surplus > 0:
        chosen, rest = _moved(chosen, rest, _distinct(seed, round_, chosen.size, surplus))
    elif surplus < 0:
        rest, chosen = _moved(rest, chosen, _distinct(seed, round_, rest.size, -surplus))
    return chosen, rest


def _moved(giving: Ids, taking: Ids, places: list[int]) -> tuple[Ids, Ids]:
    return np.delete(giving, places), np.concatenate([taking, giving[places]])


def _distinct(seed: int, round_: int, below: int, count: int) -> list[int]:
    """``count`` distinct numbers below a limit, every set equally likely (up to 2^-40 of modulo bias)."""
    chosen: dict[int, None] = {}
    start, batch = 0, 4 * (count // 2 + 4)
    while len(chosen) < count:
        drawn = raw_words(seed, Stream.BALANCE, round_, batch, start) % np.uint64(below)
        chosen.update(dict.fromkeys(drawn.tolist()))
        start += batch
    return list(chosen)[:count]


def reference_pairs(seed: int, agents: int, rounds: int) -> Iterator[tuple[Ids, Ids]]:
    """The pairs that ``lst.pop(random.randrange(0, len(lst)))`` draws, round after round, after one ``random.seed``."""
    draws = ReferenceDraws(seed)
    for _ in range(rounds):
        code = draws.falling(agents, 2 * (agents // 2))
        order = pop_order(code, agents)
        yield order[0::2], order[1::2]


class ReferenceDraws:
    """``random.randrange(0, n)`` for n = N, N-1, ..., exactly, many at once.

    Python draws ``n.bit_length()`` bits from a Mersenne Twister word and draws again while the number is not below n.
    NumPy has the same twister: the words are fetched in bulk and the rejections worked out afterwards.
    """

    def __init__(self, seed: int) -> None:
        state = random.Random(seed).getstate()[1]
        self._twister = np.random.MT19937()
        self._twister.state = {
            "bit_generator": "MT19937",
            "state": {"key": np.array(state[:-1], dtype=np.uint32), "pos": state[-1]},
        }
        self._words: Ids = np.empty(0, dtype=np.int64)

    def _peek(self, count: int) -> Ids:
        if self._words.size < count:
            fresh = self._twister.random_raw(max(count - self._words.size, 4096)).astype(np.int64)
            self._words = np.concatenate([self._words, fresh])
        return self._words[:count]

    def falling(self, top: int, count: int) -> Ids:
        """``count`` draws, the first below ``top``, each next below one less."""
        out = np.empty(count, dtype=np.int64)
        done = 0
        while done < count and top - done >= SCALAR_LIMIT:
            done += self._band(top - done, out[done:])
        self._one_by_one(top - done, out[done:])
        return out

    def _band(self, top: int, out: Ids) -> int:
        """Fill ``out`` for limits that share a bit length; returns how many draws that made."""
        bits = top.bit_length()
        wanted = min(out.size, top - (1 << (bits - 1)) + 1)
        values = self._peek(2 * wanted + 64) >> (32 - bits)
        accepted = values < top
        while True:  # the limit at each word depends on the acceptances before it: iterate to the fixed point
            before: Ids = np.cumsum(accepted) - accepted
            again = values < top - before
            if np.array_equal(again, accepted):
                break
            accepted = again
        places = np.flatnonzero(accepted)[:wanted]
        out[: places.size] = values[places]
        self._words = self._words[places[-1] + 1 :] if places.size else self._words[values.size :]
        return int(places.size)

    def _one_by_one(self, top: int, out: Ids) -> None:
        drawn: list[int] = []
        words = self._peek(2 * out.size + 64).tolist()
        used = 0
        for limit in range(top, top - out.size, -1):
            shift = 32 - limit.bit_length()
            value = limit
            while value >= limit:
                if used == len(words):
                    words = self._peek(2 * len(words)).tolist()
                value = words[used] >> shift
                used += 1
            drawn.append(value)
        out[:] = drawn
        self._words = self._words[used:]


def pop_order(code: Ids, agents: int) -> Ids:
    """The agents in the order in which ``lst.pop(code[i])`` takes them from ``list(range(agents))``."""
    if agents > POP_LIMIT:
        return merged_pop_order(code)
    left = list(range(agents))
    return np.array([left.pop(place) for place in code.tolist()], dtype=np.int64)


def merged_pop_order(code: Ids) -> Ids:
    """``pop_order`` without a list: neighbouring blocks of pops are merged, log2(N) times, each time all at once.

    A block is first read as if its pops were the only ones. Merging block B behind block A moves each place v of B past
    the places that A has taken: v + (number of sorted a_k with a_k - k <= v).
    """
    count = code.size
    size = 1 << max(1, (count - 1).bit_length())
    span = np.int64(2 * size + int(code.max(initial=0)) + 2)
    values = np.full(size, span - 1 - size, dtype=np.int64)  # padding lies behind everything real
    values[:count] = code
    width = 1
    while width < size:
        blocks = values.reshape(-1, 2, width)
        offsets = np.arange(blocks.shape[0], dtype=np.int64)[:, None] * span
        taken = np.sort(blocks[:, 0], axis=1) - np.arange(width) + offsets
        places = (blocks[:, 1] + offsets).ravel()
        passed = np.searchsorted(taken.ravel(), places, side="right")
        blocks[:, 1] += passed.reshape(-1, width) - np.arange(blocks.shape[0])[:, None] * width
        width *= 2
    return values[:count]
