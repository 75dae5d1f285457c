"""What an outbreak experiment may set, checked, so that a typing error is one clear line."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import platformdirs
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from lazaretto.errors import InputError
from lazaretto.models.own_networks import default_device
from lazaretto_lab.studies.outbreak.open_world import settled_arrivals
from lazaretto_lab.worlds.album_chat.scenario import Scenario


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class AttackSettings(_Strict):
    """The virus: crafted against the pocket models within a budget, a picture made elsewhere, or a note."""

    budget: Literal["pixel", "border", "text"] = "pixel"
    size: float = 16
    """``pixel``: largest change in 1/255; ``border``: width of the frame as published, of 336 pixels."""
    target: str = "marker-lantern"
    """Name of a target sentence."""
    steps: int = 120
    restarts: int = 1
    batch: int = 6
    """Chats looked at in each step."""
    chats: int = 96
    """Recorded chats that the search is trained on."""
    augment: tuple[str, ...] = ()
    seed: int = 0
    variants: int = 1
    """How many viruses of the same kind, each from another picture."""
    strategy: str = ""
    """How an attacker who knows foresight bends the search: see docs/foresight-study.md."""
    picture: str = ""
    """A picture made before instead of one crafted now: a path, also relative to this study's folder."""
    sha256: str = ""
    """What that picture must be, so that results are never of another one."""
    title: str = ""
    """Its title in album listings."""
    opening: str = ""
    """How a text virus made before opens, instead of one bred now."""
    bank: str = ""
    """A folder of many viruses instead (also relative to this study's folder): the run's seed draws ``variants`` of
    them; ``sha256`` is then that of its index."""
    part: Literal["design", "test"] = "test"
    """Of the bank."""
    betas: tuple[float, float] = (0.0, 1.0)
    """Of the bank: how often they are fetched where they are carried, least and most."""
    sentence: str = ""
    """What it makes agents say, where that is none of the named targets."""


class ModelSettings(_Strict):
    """Who speaks and who retrieves."""

    chat: str = "pocket"
    """``pocket``, ``transformers:<path or hub name>``, or ``endpoint:<model>@<base url>``."""
    embedder: str = "pocket"
    """``pocket``, ``pocket:wide`` (texts as far from pictures as CLIP's), or ``transformers:<path or hub name>`` (CLIP,
    SigLIP)."""
    device: str = Field(default_factory=default_device)
    """``cpu``, ``cuda``, ``auto`` ...; not named: ``LAZARETTO_DEVICE``, else the processor."""
    batch: int = 8
    """Requests per forward pass, for transformers models."""

    @property
    def gap(self) -> str:
        """Of pocket-clip, for who seeks attacks and cures against it: empty as trained, or ``wide``."""
        return self.embedder.partition(":")[2] if self.embedder.startswith("pocket") else ""


class OutbreakSettings(_Strict):
    """One row of an outbreak experiment."""

    agents: int = 128
    rounds: int = 64
    album: int = 10
    history: int = 3
    infected: int = 4
    placement: Literal["first", "random"] = "first"
    pairing: Literal["streams", "reference"] = "streams"
    symptom: Literal["equals", "contains"] = "equals"
    memory: Literal["pictures", "notes"] = "pictures"
    pictures: str = "scenes"
    """``scenes`` (drawn by our own generator) or a folder of images."""
    pool: int = 600
    """How many distinct pictures or notes the albums are drawn from."""
    models: ModelSettings = ModelSettings()
    attack: AttackSettings = AttackSettings()
    arrivals: Annotated[float, Field(ge=0, le=1)] | Literal["settled"] = 0.0
    """Chance per agent and round that a new picture comes into its album: 0 is the published world, which narrows;
    ``settled`` is what ``outbreak/benign`` gave (``open_world.py``)."""
    arrives: int = 0
    """Round before which the viruses come in."""
    mutates: bool = False
    """Whoever is handed a virus keeps the next one: of a bank, viruses of one base and budget, with other sentences."""
    defence: str = "none"
    """A name of the table of defences, or ``module:factory``."""
    defence_settings: Mapping[str, Any] = {}
    diversity: bool = True
    """Compare with a benign run of the same seed."""
    ledger: bool = False
    """Write the run as a ledger into its work folder."""

    @model_validator(mode="after")
    def _consistent(self) -> OutbreakSettings:
        if (self.memory == "notes") != (self.attack.budget == "text") and self.infected:
            raise ValueError("a world of notes takes an attack with budget 'text', and no other world does")
        if (self.arrivals or self.arrives or self.mutates) and self.defence == "guard":
            raise ValueError("the world on a ledger knows no arrivals and no mutation; use defence 'lazaretto'")
        if self.mutates and self.attack.variants < 2:
            raise ValueError("a virus that mutates needs attack.variants of 2 or more")
        return self

    def chance(self) -> float:
        """``arrivals`` as a number."""
        return settled_arrivals() if self.arrivals == "settled" else self.arrivals

    def scenario(self, seed: int) -> Scenario:
        """The world's own scenario for one seed."""
        return Scenario(
            self.agents, self.rounds, self.album, self.history, self.infected,
            self.placement, self.pairing, self.symptom, seed, self.chance(), self.arrives, self.mutates,
        )  # fmt: skip


def read_settings(settings: Mapping[str, Any]) -> OutbreakSettings:
    """Settings from an experiment file; what is wrong is named with its place."""
    try:
        return OutbreakSettings.model_validate(dict(settings))
    except ValidationError as error:
        fault = error.errors()[0]
        place = ".".join(["settings", *(str(part) for part in fault["loc"])])
        raise InputError(place, fault["msg"], "See docs/worlds.md") from None


def cache_folder() -> Path:
    """Where things that many runs share are kept: ``LAZARETTO_CACHE`` or the user's cache folder."""
    return Path(os.environ.get("LAZARETTO_CACHE") or platformdirs.user_cache_dir("lazaretto"))
