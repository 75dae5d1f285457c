"""Translates a database's errors into ours, in one place."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import exc

from lazaretto.errors import InputError, StoreDamaged, StoreError, StoreUnavailable

# SQLite's primary result codes (sqlite.org/rescode.html); the low byte of the extended code
_SQLITE_AWAY = {
    3: "access denied",
    5: "locked by another process for too long",
    6: "locked",
    7: "out of memory",
    8: "read-only",
    10: "the disk failed to read or write",
    13: "the disk is full",
    14: "the file or its folder cannot be opened (missing, or no permission)",
}
_SQLITE_DAMAGED = {11: "the file is damaged", 26: "the file is not a SQLite database"}
_SQLITE_TOO_BIG = 18
# PostgreSQL's error classes (first two characters of SQLSTATE) that say "not now"
_POSTGRES_AWAY = ("08", "28", "3D", "40", "53", "55", "57", "58")
_POSTGRES_DAMAGED = ("42", "XX")


def is_transient(error: exc.DBAPIError) -> bool:
    """Whether the same transaction may well succeed at once on a fresh connection: nothing of it was kept."""
    return error.connection_invalidated or str(getattr(error.orig, "sqlstate", ""))[:2] == "40"


def translate(error: exc.SQLAlchemyError, url: str) -> StoreError | InputError:
    """Our error for a database's; the caller raises it."""
    original = getattr(error, "orig", None)
    text = " ".join(str(original or error).split())[:300]
    if isinstance(error, exc.TimeoutError):
        return StoreUnavailable(f"{url}: every connection is in use")
    sqlite_code = getattr(original, "sqlite_errorcode", None)
    if sqlite_code is not None:
        return _translate_sqlite(sqlite_code & 0xFF, text, url)
    state = str(getattr(original, "sqlstate", None) or "")
    if state.startswith(("22", "54")) or isinstance(error, exc.DataError):  # the driver itself refuses NUL: no state
        return InputError("body", f"the store refused it: {text}")
    if state == "25006":
        return StoreUnavailable(f"{url}: read-only: {text}")
    if state.startswith(_POSTGRES_DAMAGED) or "decode to UTF-8" in text or isinstance(error, exc.IntegrityError):
        return StoreDamaged(f"{url}: not what a ledger should be: {text}")
    if state.startswith(_POSTGRES_AWAY) or isinstance(error, (exc.OperationalError, exc.InterfaceError)):
        return StoreUnavailable(f"{url}: the store does not answer: {text}")
    return StoreDamaged(f"{url}: {text}")


def _translate_sqlite(code: int, text: str, url: str) -> StoreError | InputError:
    if code == _SQLITE_TOO_BIG:
        return InputError("body", f"too big for the store: {text}")
    if code in _SQLITE_AWAY:
        return StoreUnavailable(f"{url}: {_SQLITE_AWAY[code]} ({text})")
    return StoreDamaged(f"{url}: {_SQLITE_DAMAGED.get(code, 'not what a ledger should be')} ({text})")


@contextmanager
def plain_store_errors(url: str) -> Iterator[None]:
    """Every database error inside becomes one of ours."""
    try:
        yield
    except exc.SQLAlchemyError as error:
        raise translate(error, url) from error
    except UnicodeDecodeError as error:  # the driver's own way to say that text in the file is no longer text
        raise StoreDamaged(f"{url}: the file is damaged: it holds text that is not Unicode") from error
    except UnicodeEncodeError as error:
        raise InputError(
            "body", f"character {error.start} of a text is a lone surrogate, which no store keeps"
        ) from error
