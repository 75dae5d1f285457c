"""The error tree, drawn once.

    LazarettoError
    ├── InputError               the caller gave something unusable; names the field and the fix
    │   ├── PolicyError          a policy file or value is wrong
    │   ├── UnknownItem          an id that this namespace does not know
    │   ├── TooLarge             past a limit, most of them the policy's
    │   ├── NotYours             a caller would clear an item that it wrote itself
    │   └── UnreadablePicture    bytes that are no picture, damaged, or past a limit; ``rule`` says which
    ├── StoreError               the ledger's store cannot serve
    │   ├── StoreUnavailable     away for now; the same call may succeed later
    │   │   └── StoreMissing     nothing there yet, and the call does not create it
    │   ├── StoreDamaged         the file or schema is not what it should be
    │   └── ChainBroken          an event was altered, removed, inserted or reordered
    ├── Forbidden                the caller may not do this, or not say this of itself
    ├── GuardClosed              a call on a guard after it was closed
    ├── PictureWorkerFailed      the process that opens pictures could say nothing of one; not the picture's fault
    ├── StaleState               an item is no longer as the caller saw it; nothing was recorded
    ├── RepairRefused            a plan is too wide, stale, or was already undone
    ├── ModelError               a model backend failed
    │   ├── ModelUnavailable     missing weights, no endpoint, a device that is not there
    │   └── BadAnswer            it answered, but not usably
    └── MissingExtra             an optional part is not installed; says which ``pip install`` brings it

Errors carry their facts as attributes; a caller never has to parse the text.
"""

from __future__ import annotations


class LazarettoError(Exception):
    """Everything Lazaretto raises on purpose."""


class InputError(LazarettoError, ValueError):
    """The caller gave something unusable."""

    def __init__(self, field: str, problem: str, fix: str = "") -> None:
        self.field, self.problem, self.fix = field, problem, fix
        super().__init__(f"{field}: {problem}" + (f". {fix}" if fix else ""))


class PolicyError(InputError):
    """A policy is wrong: names the file, the key, the value found and the values allowed."""

    def __init__(self, key: str, found: object, allowed: str, file: str = "policy") -> None:
        self.key, self.found, self.allowed, self.file = key, found, allowed, file
        super().__init__(f"{file}: {key}", f"found {found!r}", f"Allowed: {allowed}")


class UnknownItem(InputError):
    """An id that this namespace does not know."""

    def __init__(self, item: str, namespace: str, field: str = "item") -> None:
        self.item, self.namespace = item, namespace
        super().__init__(field, f"no {item!r} in namespace {namespace!r}", "Check the id and the namespace")


class TooLarge(InputError):
    """A limit is exceeded, mostly one of the policy's: then ``setting`` names it."""

    def __init__(
        self, field: str, size: int, limit: int, fix: str = "Shorten it", *, unit: str = "bytes", setting: str = ""
    ) -> None:
        self.size, self.limit, self.unit, self.setting = size, limit, unit, setting
        more = f", or raise {setting} in the policy" if setting else ""
        super().__init__(field, f"{size:,} {unit} are past the limit of {limit:,}", fix + more)


class NotYours(InputError):
    """A caller would clear an item that it wrote itself."""

    def __init__(self, item: str, who: str) -> None:
        self.item, self.who = item, who
        super().__init__("item", f"{who!r} wrote {item} and cannot clear it", "Let another person look at it")


class UnreadablePicture(InputError):
    """The bytes are not a picture that may be decoded."""

    def __init__(self, rule: str, problem: str, fix: str = "") -> None:
        self.rule = rule
        """``not_a_picture``, ``damaged``, ``bomb`` (too much memory or time, too many pixels) or ``too_large``."""
        super().__init__("image", problem, fix)


class PictureWorkerFailed(LazarettoError):
    """The process that opens pictures was ended, is busy or cannot be started: nothing is known of the picture."""


class StoreError(LazarettoError):
    """The ledger's store cannot serve."""


class StoreUnavailable(StoreError):
    """The store is away for now: locked, full, read-only, or its server does not answer."""


class StoreMissing(StoreUnavailable):
    """There is no ledger at that URL, and the call does not create one."""

    fix = "Check the name; the first item that is recorded makes it"

    def __init__(self, url: str) -> None:
        self.url = url
        super().__init__(f"no ledger at {url}. {self.fix}")


class StoreDamaged(StoreError):
    """The file is not a ledger, or its schema is not what it should be."""


class ChainBroken(StoreError):
    """An event was altered, removed, inserted or reordered."""

    def __init__(self, namespace: str, seq: int, reason: str) -> None:
        self.namespace, self.seq, self.reason = namespace, seq, reason
        super().__init__(f"namespace {namespace!r}, event {seq}: {reason}")


class Forbidden(LazarettoError):
    """The caller may not do this, or not say this of itself."""


class GuardClosed(LazarettoError):
    """The guard was closed; nothing can be asked of it any more."""

    def __init__(self) -> None:
        super().__init__("the guard is closed. Open another, or call inside its 'with' block")


class StaleState(LazarettoError):
    """Something is no longer as the caller saw it, so nothing was recorded; look again."""

    def __init__(self, item: str) -> None:
        self.item = item
        super().__init__(f"{item} has changed meanwhile; nothing was recorded. Look again")


class RepairRefused(LazarettoError):
    """A repair plan is too wide, stale, or was already undone."""


class ModelError(LazarettoError):
    """A model backend failed."""


class ModelUnavailable(ModelError):
    """Missing weights, no endpoint, or a device that is not there."""


class BadAnswer(ModelError):
    """A model answered, but not usably."""


class MissingExtra(LazarettoError, ImportError):
    """An optional part is not installed."""

    def __init__(self, what: str, extra: str) -> None:
        self.what, self.extra = what, extra
        super().__init__(f"{what} needs an optional part: pip install 'lazaretto[{extra}]'")
