"""Nobody clears what they wrote, by any route: the routes of the application are enumerated, so that a new one without
an attempt here fails."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="needs the api extra")
pytest.importorskip("httpx", reason="needs the dev extra")

from fastapi.routing import APIRoute
from starlette.routing import Mount, Route
from starlette.testclient import TestClient

from lazaretto import Guard, Policy
from lazaretto.api.access import KeyFile, Role
from lazaretto.api.app import create_app
from lazaretto.console.pages.queue import CHOSEN

TOKEN = re.compile(r'name="csrf" value="([^"]+)"')


class Crew:
    """A server with keys: ``ada`` and ``mule`` are reviewers that also write, ``vera`` is one that does not."""

    def __init__(self, guard: Guard, folder: Path) -> None:
        self.guard, self._made = guard, 0
        keys = KeyFile(folder / "keys.json")
        self.secrets = {
            "ada": keys.add("ada", Role.REVIEWER, agents=["ada"]),
            "mule": keys.add("mule", Role.REVIEWER),
            "boss": keys.add("boss", Role.ADMIN),
            "vera": keys.add("vera", Role.REVIEWER),
        }
        self.app = create_app(guard, keys=keys)
        self.clients = {name: TestClient(self.app, base_url="http://localhost") for name in self.secrets}
        self.writer, self.names = "ada", {"ada": "ada", "mule": "p9", "boss": "p9"}

    def call(self, who: str, path: str, body: dict[str, Any]) -> Any:
        headers = {"authorization": f"Bearer {self.secrets[who]}"}
        return self.clients[who].post(path, json=body, headers=headers)

    def form(self, who: str, path: str, **fields: str) -> Any:
        """A form of the console, sent from a page of it."""
        client = self.clients[who]
        if not client.cookies:
            client.post("/console/login", data={"key": self.secrets[who]})
        token = TOKEN.search(client.get("/console/map").text)
        assert token
        return client.post(f"/console{path}", data={"csrf": token.group(1), **fields}, follow_redirects=False)

    def door(self) -> str:
        """A note of bob's that no other note repeats."""
        self._made += 1
        return self.guard.run(self.guard.remember(f"Door {self._made} of the cellar is open.", agent="bob")).item

    def write(self, parents: list[str] | None = None, text: str = "") -> str:
        """A note of the writer's, sent with the writer's key."""
        self._made += 1
        body = {"agent": self.names[self.writer], "text": text or f"Crate {self._made} of pears goes to quay three."}
        said = self.call(self.writer, "/v1/remember", {**body, "parents": parents})
        assert said.status_code == 200 and said.json()["item"], said.text
        return str(said.json()["item"])

    def poison(self, parents: list[str] | None = None) -> str:
        """A note of the writer's that a person found harmful."""
        item = self.write(parents)
        self.guard.run(self.guard.label(item, "harmful", by="carol"))
        return item


Attempt = Callable[[Crew, str], tuple[str, Any]]
"""Tries to clear an item of the writer's as somebody; gives the item and the answer."""


def label(crew: Crew, who: str) -> tuple[str, Any]:
    item = crew.poison()
    return item, crew.call(who, f"/v1/items/{item}/label", {"label": "benign"})


def label_what_it_was_made_from(crew: Crew, who: str) -> tuple[str, Any]:
    root = crew.door()
    item = crew.write(parents=[root])
    crew.guard.run(crew.guard.label(root, "harmful", by="carol"))
    assert crew.guard.ledger.state(item).held
    return item, crew.call(who, f"/v1/items/{root}/label", {"label": "benign"})


def unlabel(crew: Crew, who: str) -> tuple[str, Any]:
    item = crew.write()
    decision = crew.guard.run(crew.guard.label(item, "harmful", by="carol")).seq
    return item, crew.call(who, f"/v1/labels/{decision}/undo", {})


def unlabel_what_it_was_made_from(crew: Crew, who: str) -> tuple[str, Any]:
    root = crew.door()
    item = crew.write(parents=[root])
    decision = crew.guard.run(crew.guard.label(root, "harmful", by="carol")).seq
    assert crew.guard.ledger.state(item).held
    return item, crew.call(who, f"/v1/labels/{decision}/undo", {})


def console_unlabel(crew: Crew, who: str) -> tuple[str, Any]:
    item = crew.write()
    decision = crew.guard.run(crew.guard.label(item, "harmful", by="carol")).seq
    return item, crew.form(who, "/decisions", sure="yes", **{f"decision:{decision}": "1"})


def release(crew: Crew, who: str) -> tuple[str, Any]:
    item = crew.poison()
    return item, crew.call(who, f"/v1/items/{item}/release", {})


def release_with_what_came_from_it(crew: Crew, who: str) -> tuple[str, Any]:
    root = crew.door()
    item = crew.poison(parents=[root])
    crew.guard.run(crew.guard.label(root, "harmful", by="carol"))
    return item, crew.call(who, f"/v1/items/{root}/release", {"descendants": True})


def plan_and_apply(crew: Crew, who: str) -> tuple[str, Any]:
    item = crew.poison()
    plan = crew.call(who, "/v1/repairs/plan", {"repair": "release", "item": item})
    return item, crew.call(who, "/v1/repairs/apply", plan.json())


def undo(crew: Crew, who: str) -> tuple[str, Any]:
    item = crew.write()
    receipt = crew.guard.run(_isolated(crew.guard, item))
    return item, crew.call(who, f"/v1/repairs/{receipt}/undo", {})


def settle(crew: Crew, who: str) -> tuple[str, Any]:
    item = crew.write()
    other = crew.guard.run(crew.guard.remember("Pears go to quay four.", agent="bob")).item
    crew.guard.run(crew.guard.settle(other, over=item, by="carol"))
    return item, crew.call(who, "/v1/conflicts/settle", {"keep": item, "over": other})


def console_decide(crew: Crew, who: str) -> tuple[str, Any]:
    item = crew.poison()
    return item, crew.form(who, f"/decide/{item}", label="benign")


def console_many(crew: Crew, who: str) -> tuple[str, Any]:
    item = crew.poison()
    return item, crew.form(who, "/many", label="benign", sure="yes", **{f"{CHOSEN}{item}": "on"})


def console_apply(crew: Crew, who: str) -> tuple[str, Any]:
    item = crew.poison()
    page = crew.form(who, "/plan", item=item, repair="release").text
    plan = re.search(r"/console/apply/(pl_[0-9a-f]+)", page)
    assert plan, page[-2000:]
    return item, crew.form(who, f"/apply/{plan.group(1)}")


def console_undo(crew: Crew, who: str) -> tuple[str, Any]:
    item = crew.write()
    receipt = crew.guard.run(_isolated(crew.guard, item))
    return item, crew.form(who, f"/undo/{receipt}")


async def _isolated(guard: Guard, item: str) -> str:
    return (await guard.repairs.apply(await guard.repairs.plan(item, "isolate"))).id


CLEARING: dict[str, tuple[Attempt, ...]] = {
    "/v1/items/{item}/label": (label, label_what_it_was_made_from),
    "/v1/labels/{decision}/undo": (unlabel, unlabel_what_it_was_made_from),
    "/console/decisions": (console_unlabel,),
    "/v1/items/{item}/release": (release, release_with_what_came_from_it),
    "/v1/repairs/apply": (plan_and_apply,),
    "/v1/repairs/{receipt}/undo": (undo,),
    "/v1/conflicts/settle": (settle,),
    "/console/decide/{item:path}": (console_decide,),
    "/console/many": (console_many,),
    "/console/apply/{plan:path}": (console_apply,),
    "/console/undo/{receipt:path}": (console_undo,),
}
"""Routes that can show an item again: each is tried by its writer, who is refused, and by another, who is not."""

Request = Callable[[Crew, str], dict[str, Any]]
WRITER = "ada"
HARMLESS: dict[str, Request] = {
    "/v1/check": lambda c, i: {"agent": WRITER, "text": c.guard.ledger.item(i).text, "parents": [i]},
    "/v1/remember": lambda c, i: {"agent": WRITER, "text": "It was fine after all.", "parents": [i]},
    "/v1/remember/batch": lambda c, i: {"items": [{"agent": WRITER, "text": "It was fine.", "parents": [i]}]},
    "/v1/recall": lambda c, i: {"agent": WRITER, "items": [i]},
    "/v1/recall/refs": lambda c, i: {"agent": WRITER, "refs": [["notes", "crew", "pears"]]},
    "/v1/forget": lambda c, i: {"agent": WRITER, "ref": ["notes", "crew", "pears"]},
    "/v1/exchange": lambda c, i: {"sender": WRITER, "receiver": "bob", "text": "Please use it.", "parents": [i]},
    "/v1/report": lambda c, i: {"agent": WRITER, "what": "used it", "success": True, "rests_on": [i]},
    "/v1/before-turn": lambda c, i: {"agent": WRITER},
    "/v1/screen": lambda c, i: {"text": "It was fine."},
    "/v1/screen/batch": lambda c, i: {"items": [{"text": "It was fine."}]},
    "/v1/moderations": lambda c, i: {"input": "It was fine."},
    "/beta/litellm_basic_guardrail_api": lambda c, i: {"input_type": "request", "texts": ["It was fine."]},
    "/v1/items/{item}/appeal": lambda c, i: {"reason": "It was fine."},
    "/v1/records/import": lambda c, i: {
        "agent": WRITER,
        "records": [{"ref": ["notes", "crew", "pears"], "value": c.guard.ledger.item(i).text, "parents": [i]}],
    },
    "/v1/records/reconcile": lambda c, i: {
        "system": "notes", "namespace": "crew", "records": [{"key": "pears", "value": "It was fine."}],
    },
    "/v1/write-backs/done": lambda c, i: {
        "writes": [{"ref": ["notes", "crew", "pears"], "item": i, "write": "put"}]
    },
    "/v1/recheck": lambda c, i: {},
    "/v1/tend": lambda c, i: {},
    "/v1/tasks": lambda c, i: {"agent": WRITER, "text": "Use it.", "source": "agent_message"},
    "/v1/authorize": lambda c, i: {"agent": WRITER, "tool": "release", "arguments": {"item": i}},
    "/v1/actions/{token}/answer": lambda c, i: {"agree": True},
    "/v1/endorse": lambda c, i: {"value": c.guard.ledger.item(i).text, "purpose": "send"},
    "/v1/repairs/plan": lambda c, i: {"repair": "release", "item": i},
    "/v1/repairs/dry-run": lambda c, i: c.call(WRITER, "/v1/repairs/plan", {"repair": "release", "item": i}).json(),
    "/v1/repairs/proposals/{proposal}/apply": lambda c, i: {"seen": "0" * 64},
    "/v1/repairs/proposals/{proposal}/dismiss": lambda c, i: {},
    "/console/calls/{token:path}": lambda c, i: {"answer": "allow"},
    "/console/accept/{proposal:path}": lambda c, i: {"seen": "0" * 64},
    "/console/dismiss/{proposal:path}": lambda c, i: {},
    "/v1/cases/rollback": lambda c, i: {"to": "starter"},
    "/console/plan": lambda c, i: {"item": i, "repair": "release"},
    "/console/appeal/{item:path}": lambda c, i: {"reason": "It was fine."},
    "/console/learning/now": lambda c, i: {},
    "/console/learning/use": lambda c, i: {"version": "starter"},
    "/console/learning/thresholds": lambda c, i: {},
    "/console/learning/revert": lambda c, i: {"to": "0"},
    "/console/logout": lambda c, i: {},
}  # fmt: skip
"""Routes that show nothing again: each is called about a held item, which stays held."""
NOTHING_RECORDED = {"/v1/audit", "/v1/audit/batch", "/console/login"}
"""Routes that record nothing about any item."""


@pytest.fixture
def crew(open_guard: Callable[..., Guard], store_url: str, tmp_path: Path) -> Iterator[Crew]:
    yield Crew(open_guard(Policy.minimal(), store=store_url), tmp_path)


def changing_routes(app: Any, before: str = "") -> Iterator[str]:
    """Every path that takes anything but a reading."""
    for route in app.routes:
        if isinstance(route, Mount):
            yield from changing_routes(route, before + route.path)
        elif hasattr(route, "original_router"):  # newer FastAPI keeps an included router whole
            yield from changing_routes(route.original_router, before)
        else:
            assert isinstance(route, (APIRoute, Route)), f"{route!r} is a kind of route that this test does not know"
            if (route.methods or set()) - {"GET", "HEAD"}:
                yield before + route.path


def test_every_route_that_may_change_something_is_tried_here(open_guard: Callable[..., Guard], tmp_path: Path) -> None:
    found = set(changing_routes(Crew(open_guard(), tmp_path).app))
    tried = {*CLEARING, *HARMLESS, *NOTHING_RECORDED}
    assert found - tried == set(), "a route that nobody tried: add an attempt to CLEARING, or a call to HARMLESS"
    assert tried - found == set(), "a route that is gone"


@pytest.mark.parametrize("attempt", [one for several in CLEARING.values() for one in several])
def test_a_writer_cannot_clear_and_another_can(crew: Crew, attempt: Attempt) -> None:
    for crew.writer in ("ada", "mule", "boss"):  # one server for all: building it takes longer than asking it
        item, refused = attempt(crew, crew.writer)
        assert refused.status_code == 403 and "cannot clear" in refused.text, (crew.writer, refused.text)
        assert not crew.guard.ledger.state(item).visible, crew.writer
        item, done = attempt(crew, "vera")
        assert done.status_code in (200, 303), (crew.writer, done.text)
        assert crew.guard.ledger.state(item).visible, "the attempt is a real one"


def test_no_other_route_shows_what_is_held(crew: Crew) -> None:
    item = crew.poison()
    for path, request in HARMLESS.items():
        body, where = request(crew, item), path.replace("{item}", item).replace("{item:path}", item)
        if where.startswith("/console"):
            crew.form("ada", where.removeprefix("/console"), **body)
        else:
            answer = crew.call("ada", where, body)
            assert answer.status_code < 500, (path, answer.text)
        assert crew.guard.ledger.state(item).held, path
    assert crew.guard.ledger.verify().ok


def test_what_a_decision_is_signed_with_counts_too(crew: Crew) -> None:
    item = crew.guard.run(crew.guard.remember("Pears are cheap.", agent="bob")).item
    crew.guard.run(crew.guard.label(item, "harmful", by="carol"))
    said = crew.call("boss", f"/v1/items/{item}/label", {"label": "benign", "by": "bob"})
    assert said.status_code == 403
    assert crew.call("boss", f"/v1/items/{item}/label", {"label": "benign", "by": "carol"}).status_code == 200
