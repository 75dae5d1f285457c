"""The sentences that explain a ruling: why an item is held, or why it passed.

``verdicts`` are rows of a verdict's ``gate:rule``, its ruling (0: it allows) and its sentences.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Row = tuple[str, int, Sequence[str]]


def reasons_in_order(rule: str, verdicts: Iterable[Row], *, held: bool) -> tuple[str, ...]:
    """The sentences of the verdict whose ``gate:rule`` decided first, then the strictest. If the item is held, a
    verdict that allows it explains nothing and is left out."""
    counting = [verdict for verdict in verdicts if verdict[0] == rule or not held or verdict[1] > 0]
    ordered = sorted(counting, key=lambda verdict: (verdict[0] != rule, -verdict[1]))
    return tuple(dict.fromkeys(sentence for _, _, sentences in ordered for sentence in sentences))


def why_it_passed(
    rule: str, verdicts: Sequence[Row], *, looked: Sequence[str], cleared: Sequence[str]
) -> tuple[str, ...]:
    """One plain line on the gates that looked at an item, then other sentences on it; where the findings of some
    gates were cleared, the sentences of the verdict that cleared them come first."""
    others = reasons_in_order(rule, verdicts, held=False)
    if not looked:
        return "Passed: no gate looked at it.", *others
    if not cleared:
        return f"Passed: {in_a_row(looked)} found nothing to hold it for.", *others
    plain = f"Passed: {in_a_row(looked)} looked at it, and the findings of {in_a_row(cleared)} were cleared."
    first = sum(len(sentences) for name, _, sentences in verdicts if name == rule)
    return *others[:first], plain, *others[first:]


def in_a_row(names: Iterable[str]) -> str:
    """Names as a sentence lists them, each once: "a, b and c"."""
    *others, last = dict.fromkeys(names)
    return f"{', '.join(others)} and {last}" if others else last
