"""The policy: settings of the guard, as TOML on disk and frozen dataclasses inside.

Every setting has a default, so no file is needed. A file may set any part of it; a fault in it is a
``PolicyError`` that names the file, the key, the value found and the values allowed (``settings``).
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    Discriminator,
    Field,
    Tag,
)

from lazaretto.errors import PolicyError
from lazaretto.policy import presets
from lazaretto.policy.settings import (
    CLOSED,
    PLAIN,
    TABLE,
    Band,
    RulingWord,
    Share,
    read_settings,
    setting_form,
    suggestion,
)
from lazaretto.types import Channel, Ruling, SourceClass

BEFORE_TURN = frozenset({"foresight"})
"""Gates that look at agents before they speak; they have settings, but stand in no channel's stages."""

OF_PRESET: Any = None
"""A part of the policy that is not given, and so is the preset's (``Policy.__post_init__``)."""


@dataclass(frozen=True, slots=True)
class When:
    """The items that a stage is for; every given condition must hold."""

    __pydantic_config__ = CLOSED
    gray: bool = False
    """Only items that the gates so far leave gray: see ``ChannelPolicy.gray``."""
    risk: Band | None = None
    """Only items with a highest risk inside this band so far."""
    sources: tuple[SourceClass, ...] = ()
    """Only items of these source classes."""


@dataclass(frozen=True, slots=True)
class Stage:
    """Gates that run at the same time, and which items they are for. A plain list of gates is for all items."""

    __pydantic_config__ = CLOSED
    gates: Annotated[tuple[str, ...], Field(min_length=1)]
    when: Annotated[
        Annotated[Literal["always", "gray"], Tag(PLAIN)] | Annotated[When, Tag(TABLE)], Discriminator(setting_form)
    ] = "always"
    clears: bool = True
    """Whether these gates, asked because an item was gray, may clear it by all finding nothing."""

    @classmethod
    def of(cls, given: Stage | tuple[str, ...]) -> Stage:
        """The stage that a policy means."""
        return given if isinstance(given, Stage) else cls(given)

    @property
    def condition(self) -> When:
        """``when``, spelled out."""
        return self.when if isinstance(self.when, When) else When(gray=self.when == "gray")


AnyStage = Annotated[Annotated[Stage, Tag(TABLE)] | Annotated[tuple[str, ...], Tag(PLAIN)], Discriminator(setting_form)]


@dataclass(frozen=True, slots=True)
class ChannelPolicy:
    """The handling of an item that comes by one channel."""

    __pydantic_config__ = CLOSED
    stages: Annotated[
        tuple[AnyStage, ...],
        Field(
            description="Gates in order. A stage is a list of gates that run at the same time, or a table with "
            "`gates`, `when` and `clears`."
        ),
    ] = (("structure",), ("blocklist",))
    gray: Annotated[
        Band, Field(description="Risk of an allowed item that is gray all the same; `review` and `warn` always are.")
    ] = (1.0, 1.0)
    optional: Annotated[
        tuple[str, ...],
        Field(description="Gates to do without where their packages are not installed; the decision still says so."),
    ] = ()
    run_all: Annotated[bool, Field(description="Run later stages even when an earlier one has already blocked.")] = (
        False
    )
    fail_mode: Annotated[
        RulingWord, Field(description="Ruling when a gate fails, times out, is missing or is over budget.")
    ] = Ruling.REVIEW
    timeout_s: Annotated[float, Field(gt=0, le=3600, description="Longest time one gate may take.")] = 5.0
    budget_s: Annotated[float, Field(gt=0, le=3600, description="Longest time all gates together may take.")] = 30.0
    processor_s: Annotated[
        float,
        Field(
            gt=0,
            le=3600,
            description="Processor time all gates together may work on one item, in seconds of a quiet machine (up to "
            "three times as many on a busy one); a text shorter than 4,000 characters gets less, at least a fifth. "
            "What there was no time to read makes it `review`.",
        ),
    ] = 4.0
    budget_tokens: Annotated[
        int, Field(ge=0, description="Model tokens all gates together may spend; 0 means no limit.")
    ] = 0


@dataclass(frozen=True, slots=True)
class Channels:
    """One policy per channel. A channel that is left out is as in the preset of the ``Policy`` that takes these."""

    __pydantic_config__ = CLOSED
    message: ChannelPolicy = OF_PRESET
    memory: ChannelPolicy = OF_PRESET
    image: ChannelPolicy = OF_PRESET
    tool: ChannelPolicy = OF_PRESET
    document: ChannelPolicy = OF_PRESET

    def __getitem__(self, channel: Channel) -> ChannelPolicy:
        policy: ChannelPolicy = getattr(self, channel.value)
        return policy


@dataclass(frozen=True, slots=True)
class TrustPolicy:
    """How far each kind of source is trusted, from 0 (not at all) to 1 (fully)."""

    __pydantic_config__ = CLOSED
    direct_user: Annotated[Share, Field(description="A person who speaks to the agent.")] = 0.9
    model_inference: Annotated[Share, Field(description="What a model concluded by itself.")] = 0.6
    tool_output_internal: Annotated[Share, Field(description="A tool under your control.")] = 0.8
    tool_output_external: Annotated[Share, Field(description="A tool that others control.")] = 0.4
    untrusted_document: Annotated[Share, Field(description="Web pages, mail, uploads.")] = 0.2
    agent_message: Annotated[Share, Field(description="Another agent.")] = 0.5
    system: Annotated[Share, Field(description="Your own instructions.")] = 1.0

    def table(self) -> dict[SourceClass, float]:
        """Trust by source class, as the provenance graph takes it."""
        return {source: getattr(self, source.value) for source in SourceClass}


DEFAULT_TRUST = TrustPolicy()


@dataclass(frozen=True, slots=True)
class Limits:
    """Inputs beyond these limits are refused before any gate looks at them."""

    __pydantic_config__ = CLOSED
    max_text_bytes: Annotated[int, Field(gt=0, description="Longest text, in bytes of UTF-8.")] = 1_000_000
    max_image_bytes: Annotated[int, Field(gt=0, description="Largest encoded picture.")] = 20_000_000
    max_pixels: Annotated[
        int,
        Field(gt=0, description="Most pixels of a picture that are ever decoded, over all frames that are looked at."),
    ] = 40_000_000
    max_picture_seconds: Annotated[
        float,
        Field(
            gt=0,
            le=600,
            description="Most processor time that decoding a picture may take; by the clock, three times it.",
        ),
    ] = 20.0
    max_parents: Annotated[int, Field(ge=0, description="Most items one item may be derived from.")] = 256
    max_fields_bytes: Annotated[int, Field(gt=0, description="Largest structured memory record, as JSON.")] = 1_000_000
    max_results: Annotated[int, Field(gt=0, description="Most items one recall returns.")] = 1_000


DEFAULT_LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class RepairLimits:
    """The limits of a repair, and the automatic repairs of ``recheck``."""

    __pydantic_config__ = CLOSED
    automatic: Annotated[
        Literal["hold", "ask", "apply"],
        Field(
            description="What follows when something is held late, for what was made from it: hold: it is held, no "
            "more; ask: cutting loose and rewriting are proposed to a person; apply: they are done."
        ),
    ] = "ask"
    max_items: Annotated[int, Field(gt=0, description="Most items one repair may touch.")] = 1_000
    max_agents: Annotated[int, Field(gt=0, description="Most agents one repair may affect.")] = 1_000


@dataclass(frozen=True, slots=True)
class LedgerProofPolicy:
    """Proofs of the record: signatures and witnesses."""

    __pydantic_config__ = CLOSED
    key: Annotated[str, Field(description="File of the key that signs appended events; empty: nothing is signed.")] = ""
    witness: Annotated[
        str,
        Field(description="Who is sent checkpoints: stdout, file:PATH, an http(s) URL, a store URL; empty: nobody."),
    ] = ""
    witness_every: Annotated[int, Field(gt=0, description="Events between two checkpoints.")] = 1_000


@dataclass(frozen=True, slots=True)
class Influence:
    """How the guard links a memory or message to items its writer had read, beside the named parents."""

    __pydantic_config__ = CLOSED
    infer: Annotated[bool, Field(description="Record probable influence of what the agent read before it wrote.")] = (
        True
    )
    window_s: Annotated[
        float, Field(gt=0, description="How long what an agent read stays in its mind, in seconds.")
    ] = 900.0
    max_sources: Annotated[
        int,
        Field(ge=0, description="At most so many sources: those the new text repeats, then the least trusted."),
    ] = 100
    believe_from: Annotated[
        Share,
        Field(description="Trust of a source class from which its word counts that nothing but `parents` was used."),
    ] = 0.8
    messages: Annotated[bool, Field(description="Count messages sent to the agent as read, not only recalls.")] = True


@dataclass(frozen=True, slots=True)
class Review:
    """The times at which memories are judged again."""

    __pydantic_config__ = CLOSED
    every: Annotated[
        int, Field(gt=0, description="New memories, outcomes and labels after which a server looks again.")
    ] = 25
    interval_s: Annotated[float, Field(gt=0, description="Seconds between the steps of a server that looks again.")] = (
        5.0
    )
    limit: Annotated[int, Field(gt=0, description="Most memories that one step looks at.")] = 100
    most_rechecked: Annotated[
        int, Field(ge=0, description="Most memories that one recall judges again before it returns them.")
    ] = 50


@dataclass(frozen=True, slots=True)
class TaintPolicy:
    """The handling of items that were made from a held one."""

    __pydantic_config__ = CLOSED
    ruling: Annotated[
        RulingWord,
        Field(description="Least ruling for an item made from a held one, or repeating it; `allow` turns it off."),
    ] = Ruling.REVIEW


@dataclass(frozen=True, slots=True)
class RefsPolicy:
    """Records in stores of your own: they belong to their first writer."""

    __pydantic_config__ = CLOSED
    others: Annotated[
        RulingWord,
        Field(
            description="Least ruling for a write to another writer's record by a source that may not change it; "
            "`allow` turns it off."
        ),
    ] = Ruling.REVIEW


@dataclass(frozen=True, slots=True)
class LearnPolicy:
    """Automatic learning, and how far people's labels may move the gates' thresholds (docs/cases.md)."""

    __pydantic_config__ = CLOSED
    gates: Annotated[tuple[str, ...], Field(description="Gates whose line between warn and review may be moved.")] = (
        "memory",
        "content",
    )
    min_labels: Annotated[
        int, Field(ge=1, description="So many labels must agree, and none contradict, before a line moves.")
    ] = 5
    clears_up_to: Annotated[Share, Field(description="Highest risk at which review may become warn.")] = 0.7
    reviews_from: Annotated[Share, Field(description="Lowest risk at which allow or warn may become review.")] = 0.3
    cases: Annotated[
        int, Field(ge=0, description="Most labels and repairs that one step of looking again makes cases of; 0: none.")
    ] = 20


@dataclass(frozen=True, slots=True)
class ProxySources:
    """Source class of each part of a request to the proxy: only user and system may give orders (docs/proxy.md)."""

    __pydantic_config__ = CLOSED
    system: Annotated[
        SourceClass, Field(description="Roles system and developer, instructions, definitions of tools.")
    ] = SourceClass.SYSTEM
    user: Annotated[SourceClass, Field(description="Role user, where the crew marked nothing.")] = (
        SourceClass.DIRECT_USER
    )
    assistant: Annotated[SourceClass, Field(description="Texts of the model, now or earlier.")] = (
        SourceClass.MODEL_INFERENCE
    )
    tool: Annotated[SourceClass, Field(description="What tools and functions returned, here or at the endpoint.")] = (
        SourceClass.TOOL_OUTPUT_EXTERNAL
    )
    document: Annotated[SourceClass, Field(description="Documents, files, pictures and fields nobody here knows.")] = (
        SourceClass.UNTRUSTED_DOCUMENT
    )
    kept_by_endpoint: Annotated[
        Literal["refuse", "pass"],
        Field(description="A request that names what the endpoint keeps and this proxy did not judge (docs/proxy.md)."),
    ] = "refuse"


@dataclass(frozen=True, slots=True)
class Policy:
    """Everything the guard needs to know.

    ``Policy()`` is ``Policy.recommended()``, and so is the policy of a guard that is given none, of an empty mapping
    and of an empty file. Channels and ``gates`` are those of the preset unless they are given, and then replace them
    whole; to change single settings of a preset, give a mapping to ``Policy.read`` or to ``Guard.open``.
    """

    __pydantic_config__ = CLOSED
    preset: Annotated[
        Literal["minimal", "recommended", "strict"], Field(description="What this policy starts from.")
    ] = "recommended"
    mode: Annotated[
        Literal["enforce", "observe"],
        Field(
            description="observe: everything is judged and recorded, with what would have been ruled; no gate holds."
        ),
    ] = "enforce"
    store: Annotated[str, Field(description="Store URL; empty means one SQLite file in the user's data folder.")] = ""
    namespace: Annotated[str, Field(min_length=1, description="Tenant, when the caller names none.")] = "default"
    channels: Channels = OF_PRESET
    trust: TrustPolicy = TrustPolicy()
    limits: Limits = Limits()
    repair: RepairLimits = RepairLimits()
    influence: Influence = Influence()
    record: LedgerProofPolicy = LedgerProofPolicy()
    review: Review = Review()
    taint: TaintPolicy = TaintPolicy()
    refs: RefsPolicy = RefsPolicy()
    learn: LearnPolicy = LearnPolicy()
    actions: Annotated[
        Mapping[str, Any],
        Field(description="What tools may do: see docs/actions.md. Adapters ask only where this table says anything."),
    ] = field(default_factory=dict)
    proxy: ProxySources = ProxySources()
    gates: Annotated[Mapping[str, Mapping[str, Any]], Field(description="One table per gate: its own settings.")] = (
        OF_PRESET
    )

    def __post_init__(self) -> None:
        if self.preset not in presets.NAMES:
            allowed = f"{suggestion(str(self.preset), presets.NAMES)}one of {', '.join(presets.NAMES)}"
            raise PolicyError("preset", str(self.preset), allowed)
        channels = Channels() if self.channels is OF_PRESET else self.channels
        if not isinstance(channels, Channels):
            allowed = "a Channels; Policy.read({'channels': {...}}) takes tables"
            raise PolicyError("channels", type(channels).__name__, allowed)
        left_out = [item.name for item in fields(channels) if getattr(channels, item.name) is OF_PRESET]
        if left_out:
            table = presets.on_preset({"preset": self.preset})["channels"]
            own = {name: read_settings(ChannelPolicy, table[name], key=f"channels.{name}") for name in left_out}
            object.__setattr__(self, "channels", replace(channels, **own))
        if self.gates is OF_PRESET:
            object.__setattr__(self, "gates", presets.on_preset({"preset": self.preset})["gates"])

    @classmethod
    def minimal(cls) -> Policy:
        """The gates that need no model: form, and content that was ruled harmful before."""
        return cls.read({"preset": "minimal"})

    @classmethod
    def recommended(cls) -> Policy:
        """Every gate whose packages are installed, on the channels it is for."""
        return cls.read({"preset": "recommended"})

    @classmethod
    def strict(cls) -> Policy:
        """As recommended, but items that it only warns about are held, and a gate that is not installed is a fault."""
        return cls.read({"preset": "strict"})

    @classmethod
    def read(cls, given: Policy | Mapping[str, Any] | str | Path | None) -> Policy:
        """The policy that is given: a ``Policy``, a preset's name, a mapping with a file's keys, or a file's path.

        ``None`` is the preset ``recommended``. The path of a file that is called like a preset begins with ``./``.
        """
        if given is None:
            return cls.recommended()
        if isinstance(given, Policy):
            return given
        if isinstance(given, str) and given in presets.NAMES:
            if Path(given).is_file():
                raise PolicyError("(policy)", given, f"./{given} for the file here, Policy.{given}() for the preset")
            return cls.read({"preset": given})
        if isinstance(given, (str, Path)):
            return cls.load(given)
        if isinstance(given, Mapping):
            return read_settings(cls, presets.on_preset(given))
        allowed = "a Policy, a preset's name, a mapping such as {'namespace': 'crew'}, or the path of a TOML file"
        raise PolicyError("(policy)", type(given).__name__, allowed)

    @classmethod
    def load(cls, path: str | Path) -> Policy:
        """The policy in a TOML file; settings that the file leaves out are as in its preset."""
        file = str(path)
        try:
            data = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            allowed = f"a readable TOML file, or a preset: {', '.join(presets.NAMES)}"
            hint = suggestion(file, presets.NAMES)
            raise PolicyError("(file)", error.strerror or str(error), f"{hint}{allowed}", file) from None
        except UnicodeDecodeError as error:
            raise PolicyError(
                "(file)", f"bytes that are not UTF-8 at offset {error.start}", "UTF-8 text", file
            ) from None
        except tomllib.TOMLDecodeError as error:
            raise PolicyError("(file)", str(error), "TOML 1.0; https://toml.io explains the syntax", file) from None
        return read_settings(cls, presets.on_preset(data), file=file)

    def gate_names(self) -> Iterator[tuple[str, str]]:
        """Every gate a stage names, with the key that names it."""
        for channel in Channel:
            for number, stage in enumerate(self.channels[channel].stages):
                for name in Stage.of(stage).gates:
                    yield name, f"channels.{channel.value}.stages[{number}]"

    def require_gates(self, known: Iterable[str], file: str = "policy") -> None:
        """``PolicyError`` for a gate that is named here and known nowhere."""
        names = sorted(known)
        tables = [name for name in self.gates if name not in BEFORE_TURN]
        keyed = [*self.gate_names(), *((name, f"gates.{name}") for name in tables)]
        for name, key in keyed:
            if name not in names:
                raise PolicyError(key, name, f"{suggestion(name, names)}one of {', '.join(names)}", file)

    def unused_tables(self) -> tuple[str, ...]:
        """Gates that have a table of their own here, but stand in no stage: their settings do nothing."""
        named = {name for name, _ in self.gate_names()} | BEFORE_TURN
        given = presets.on_preset({"preset": self.preset}).get("gates", {})
        return tuple(name for name, table in self.gates.items() if name not in named and table != given.get(name))
