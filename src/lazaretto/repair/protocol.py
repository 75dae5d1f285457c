"""The protocol of a repair: made from its name and options, it plans. All else is the same for all (``engine``)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

import orjson
from pydantic import TypeAdapter, ValidationError

from lazaretto.errors import InputError
from lazaretto.names import old_argument, warn_old_name
from lazaretto.policy import plugins
from lazaretto.provenance.carrying import reused_content
from lazaretto.types import Correction, Observation, RepairPlan

if TYPE_CHECKING:
    from lazaretto.ledger import Ledger
    from lazaretto.provenance.graph import ProvenanceGraph

ACTIONS = ("hide", "show", "replace", "remove", "cut")
"""The actions of a step. ``replace`` carries ``detail["replacement"]`` (``engine.replacement`` makes it), ``cut``
carries ``detail["parents"]``: the items from which this one is cut off."""

PutRight = Callable[[Observation], tuple[Correction, ...]]
"""Corrections of the parts of a poison that an item repeats; empty if it repeats none, not ``plain`` if it only names
a value of it."""


@dataclass(frozen=True, slots=True)
class RepairRequest:
    """The item to repair, and the reason."""

    item: str
    """The item it starts from."""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class RepairView:
    """The data a repair may read, of one namespace.

    ``ledger`` is the guard's own: nothing keeps a repair from writing to it. It must not: the engine applies the plan.
    """

    ledger: Ledger
    graph: ProvenanceGraph
    carries: Callable[[Observation, Observation], str] = reused_content
    """The part of a poison that an item carries, in words; empty for nothing."""
    objection: Callable[[Observation], str] = lambda _: ""
    """The gates' objection to an item today; empty for none, and if no gate can be asked."""
    copies: Callable[[Observation], Collection[str]] = lambda _: ()
    """Copies with exactly the item's content that wait, and are released with it."""
    correction: Callable[[str, Collection[str]], PutRight | None] = lambda _, __: None
    """For a poisoned item and everything that may be tainted by it: a function that corrects texts that repeat it,
    from memories that are not among these; None if no trusted memory contradicts the poison."""

    @property
    def judge(self) -> Callable[[Observation], str]:
        """Old name of ``objection``; it goes in 0.3."""
        warn_old_name("view.judge", "view.objection")
        return self.objection


if not TYPE_CHECKING:
    RepairView.__init__ = old_argument("RepairView", "judge", "objection")(RepairView.__init__)


def hops_of(descendants: bool, max_hops: int | None) -> int | None:
    """How far a repair follows what came from its item; ``InputError`` for a distance without ``descendants``."""
    if max_hops is not None and not descendants:
        raise InputError("max_hops", "is given without descendants", "Give descendants too, or leave it out")
    return max_hops if descendants else 0


@runtime_checkable
class Repair(Protocol):
    """Plans a repair. It changes nothing: the engine prices, applies and undoes the plan.

    A repair is a frozen dataclass whose fields are its options, each with a default; a field's type and
    ``pydantic.Field`` define the allowed values.
    """

    name: ClassVar[str]

    def plan(self, request: RepairRequest, view: RepairView) -> RepairPlan:
        """The steps, each naming an item and an action of ``ACTIONS``."""
        ...


# Making a repair from its name and options, read strictly: a misspelt option is an error and not a wider repair.


def make_repair(repair: str | Repair, options: Mapping[str, Any] | None = None) -> Repair:
    """The repair of a name with its options, or one that was made in Python, checked alike."""
    if isinstance(repair, str):
        return _read(plugins.REPAIRS.factory(repair), options or {})
    if options:
        raise InputError(next(iter(options)), "is given beside a repair", f"Give it to {type(repair).__name__}(...)")
    return _read(type(repair), {name: getattr(repair, name) for name in _names(type(repair))})


def _read(kind: Any, options: Mapping[str, Any]) -> Repair:
    known = _names(kind)
    for name in options:
        if name not in known:
            raise InputError(name, f"is not an option of {kind.name}", f"Use {', '.join(known) or 'none'}")
    try:
        # JSON's strict mode: lists may become tuples, but "5" never becomes 5
        made: Repair = _adapter(kind).validate_json(orjson.dumps(dict(options)), strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = str(first["loc"][0])
        if name not in options:
            raise InputError(name, "is missing", "Give it") from None
        wanted = first["msg"].removeprefix("Input should be ")
        raise InputError(name, f"is {options[name]!r}", f"It should be {wanted}") from None
    except TypeError as error:
        raise InputError("options", str(error), "Give text, numbers, truth values and lists of them") from None
    return made


def _names(kind: Any) -> list[str]:
    if not is_dataclass(kind):
        raise InputError("repair", f"{kind!r} is not a dataclass", "Make its options its fields; see docs/repair.md")
    return [field.name for field in fields(kind)]


@functools.cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)
