"""One request to the console: the visitor, the form, and the page that answers."""

from __future__ import annotations

import datetime
import functools
import time
import tomllib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from importlib import resources
from typing import Any
from urllib.parse import parse_qs, quote, unquote

import orjson

from lazaretto.console import item_view
from lazaretto.console.activity import Activity, Histories
from lazaretto.console.map_data import Maps
from lazaretto.console.sessions import Entrance, Session, Sessions
from lazaretto.errors import InputError, MissingExtra
from lazaretto.guard import Guard
from lazaretto.identity import Identity, ProvedBy
from lazaretto.incidents.observed import ObservedLog
from lazaretto.types import plain

try:
    import jinja2
    from starlette.requests import Request
    from starlette.responses import RedirectResponse
    from starlette.responses import Response as Response
except ImportError:
    raise MissingExtra("the console", "api") from None

ROOT = "/console"
MOST_FIELDS = 240
NOTICE = "lz_notice"
"""The cookie with the message of the next page, shown once."""
MOST_NOTICE = 300
OPERATOR = "operator"
"""The signature of a user of a server without keys."""
NOBODY = (OPERATOR, "admin", Identity(ProvedBy.OPERATOR, OPERATOR, shared=True))
"""The identity of that user: the operator, as far as the server knows."""
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Sent with every answer: nothing from elsewhere, nothing inline, nothing kept."""
PAGES = ("now", "map", "incidents", "queue", "many", "memories", "learning", "health")


@functools.cache
def texts() -> Mapping[str, Any]:
    """Every sentence of the console, from one file."""
    return tomllib.loads(resources.files(__package__).joinpath("texts.toml").read_text(encoding="utf-8"))


@functools.cache
def _templates() -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.PackageLoader(__package__),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "moment": _moment,
        "ago": _ago,
        "line": item_view.line,
        "word": _word,
        "shown": item_view.prepared,
        "url": _url_part,
        "json": lambda data: orjson.dumps(plain(data)).decode(),
    }
    made.globals["root"] = ROOT
    made.globals["t"] = texts()
    return made


def _moment(seconds: float) -> str:
    """A moment as people read it, UTC."""
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _word(number: int, name: str) -> str:
    """The word for one or for several of something."""
    single, several = texts()["words"][name]
    return str(single if number == 1 else several)


def _ago(seconds: float) -> str:
    """How long ago something was, in one unit."""
    words: Mapping[str, str] = texts()["ago"]
    past = max(0.0, time.time() - seconds)
    for unit, length in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if past >= length:
            return words[unit].format(int(past // length))
    return words["now"]


def _url_part(name: str) -> str:
    return quote(name, safe="")


@dataclass(slots=True)
class Desk:
    """Shared by all pages."""

    guard: Guard
    entrance: Entrance
    sessions: Sessions = field(init=False)
    activity: Activity = field(init=False)
    maps: Maps = field(init=False)
    observed: ObservedLog = field(init=False)
    histories: Histories = field(init=False)

    def __post_init__(self) -> None:
        self.sessions = Sessions(self.entrance, self.guard.ledger, NOBODY)
        self.activity = Activity(self.guard.ledger)
        self.maps = Maps(self.guard)
        self.observed = ObservedLog(self.guard.ledger)
        self.histories = Histories(self.guard)


@dataclass(slots=True)
class Visit:
    """One request of a caller who is signed in."""

    desk: Desk
    request: Request
    session: Session
    form: Mapping[str, str]

    @property
    def guard(self) -> Guard:
        """The crew's guard."""
        return self.desk.guard

    def path(self, name: str) -> str:
        """A part of the address."""
        return str(self.request.path_params[name])

    def query(self, name: str, default: str = "") -> str:
        """A part of the address behind the question mark."""
        return str(self.request.query_params.get(name, default))

    def field(self, name: str) -> str:
        """A field of the form; ``InputError`` where it is missing."""
        try:
            return self.form[name]
        except KeyError:
            raise InputError(name, "is missing from the form", "Go back and send it again") from None

    def page(self, template: str, *, here: str, status: int = 200, **data: Any) -> Response:
        """A whole page."""
        notice = unquote(self.request.cookies.get(NOTICE, ""))[:MOST_NOTICE]
        shared = {
            "here": here,
            "pages": PAGES,
            "session": self.session,
            "namespace": self.guard.ledger.namespace,
            "notice": notice,
            "closed": not self.desk.entrance.open,
        }
        answer = html(template, status, **shared, **data)
        if notice:
            answer.delete_cookie(NOTICE, path=ROOT)
        return answer

    def to(self, place: str, notice: str = "") -> Response:
        """Go to another page of the console, which says ``notice`` once."""
        answer = RedirectResponse(ROOT + place, 303, HEADERS)
        if notice:  # carried by the visitor: the next page may come from another process
            secure = self.request.url.scheme == "https"
            answer.set_cookie(
                NOTICE, quote(notice[:MOST_NOTICE]), 60, path=ROOT, httponly=True, samesite="strict", secure=secure
            )
        return answer


Handler = Callable[[Visit], Awaitable[Response]]


def html(template: str, status: int = 200, **data: Any) -> Response:
    """A template as an answer."""
    body = _templates().get_template(template).render(**data)
    return Response(body.encode("utf-8", "replace"), status, HEADERS, "text/html; charset=utf-8")


def json(data: Any) -> Response:
    """Data for the console's own scripts."""
    body = orjson.dumps(plain(data), option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS)
    return Response(body, 200, HEADERS, "application/json")


async def read_form(request: Request) -> dict[str, str]:
    """The fields of a form, the last of each name."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip()
    if kind != "application/x-www-form-urlencoded":
        raise InputError("content-type", f"is {kind!r}", "Send a form")
    try:
        fields = parse_qs((await request.body()).decode(), keep_blank_values=True, max_num_fields=MOST_FIELDS)
    except ValueError:
        raise InputError("form", "cannot be read", "Go back and send it again") from None
    return {name: values[-1] for name, values in fields.items()}
