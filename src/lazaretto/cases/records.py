"""Records of the case library: a case, what it is about, its label, and a precedent found for a content."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import StrEnum


class InputKind(StrEnum):
    """The kind of content under audit; instructions, thresholds and the order of the rules depend on it."""

    TEXT = "text"
    IMAGE = "image"
    PAIR = "pair"


class Label(StrEnum):
    """The two things content can be: what a case was ruled, and a debate's best guess."""

    SAFE = "safe"
    UNSAFE = "unsafe"


@dataclass(frozen=True, slots=True)
class Case:
    """One precedent of the library. Its label is never part of the text that is embedded or searched."""

    label: Label
    text: str = ""
    description: str = ""
    hazards: tuple[str, ...] = ()
    """MLCommons ids: S1 ... S14."""
    cues: tuple[str, ...] = ()
    summary: str = ""
    source: str = ""
    """Its origin: ``starter``, ``air-bench``, ``curated``, ``appeal`` ..."""

    @property
    def kind(self) -> InputKind:
        """Text alone, a picture alone, or both."""
        if not self.description.strip():
            return InputKind.TEXT
        return InputKind.PAIR if self.text.strip() else InputKind.IMAGE

    @property
    def words(self) -> str:
        """The text for retrieval: the content alone, without label, cues or summary."""
        return "\n".join(part.strip() for part in (self.text, self.description) if part.strip())

    @property
    def id(self) -> str:
        """The case's content address: the same content and label always have the same id."""
        body = "\x1f".join((self.text.strip(), self.description.strip(), self.label.value))
        return "ca_" + hashlib.sha256(body.encode("utf-8", "surrogatepass")).hexdigest()[:24]


@dataclass(frozen=True, slots=True)
class Precedent:
    """A case that retrieval found near the content."""

    case: Case
    similarity: float
    """Cosine in [-1, 1] where vectors are at hand, else the lexical rank's score in [0, 1]."""
    why: str = ""
    """Why it applies, in one sentence."""
    differs: str = ""
    """Its difference from the content, in one sentence."""
    bears: bool = True
    """Whether it is near enough to be cited; one that is not may still be weighed, for little."""
