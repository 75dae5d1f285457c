"""Exports of an outbreak: what they hold, and that hostile ids and texts cannot break out of them."""

from __future__ import annotations

import json
import re
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from io import BytesIO
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from PIL import Image, ImageColor

from lazaretto.errors import InputError, MissingExtra
from lazaretto.ledger import Ledger
from lazaretto.provenance.drawing.labels import label_lines, showable
from lazaretto.provenance.drawing.pictures import (
    FILL,
    FORMATS,
    PAPER,
    WIDEST_LABEL,
    draw,
    elapsed,
    lay_out,
    outbreak_png,
    to_dot,
    to_json,
    to_mermaid,
    to_png,
    to_svg,
)
from lazaretto.provenance.drawing.subgraph import Link, Node, Subgraph
from lazaretto.provenance.graph import ProvenanceGraph
from lazaretto.types import (
    Channel,
    Cost,
    Draft,
    EdgeKind,
    EventKind,
    Observation,
    Receipt,
    RepairPlan,
    RepairStep,
    plain,
)

needs_matplotlib = pytest.mark.skipif(find_spec("matplotlib") is None, reason="needs the plot extra")
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """web -> summary -> plan (isolated) with a decision; ``other`` is a clean ancestor of plan."""
    ledger = Ledger.open(f"sqlite:///{tmp_path / 'crew.db'}")

    def note(name: str, agent: str, time: float, *parents: str) -> None:
        ledger.append_item(Observation(agent, Channel.MEMORY, f"text of {name}", id=name, parents=parents, time=time))

    note("web", "scout", 1.0)
    note("other", "scout", 2.0)
    ledger.append([Draft(EventKind.RETRIEVED, "web", "archivist", time=3.0)])
    note("summary", "archivist", 4.0, "web")
    note("plan", "planner", 5.0, "summary", "other")
    body = {"what": "paid", "success": False, "rests_on": ["plan"]}
    plan = RepairPlan("isolate", "plan", (RepairStep("plan", "hide"),))
    receipt = plain(Receipt(plan, {}, {}, Cost(), 7.0, id="rc_1"))
    ledger.append(
        [
            Draft(EventKind.REPORTED, "de_1", "cashier", body, 6.0),
            Draft(EventKind.REPAIRED, "rc_1", "", receipt, 7.0),
        ]
    )
    return ledger


@pytest.fixture
def subgraph(ledger: Ledger) -> Subgraph:
    texts = {one.id: one.text for one in ledger.items(any_state=True, limit=None)}
    return ProvenanceGraph(ledger).subgraph("web", texts=texts)


def test_a_subgraph_has_states_hops_and_typed_links(ledger: Ledger, subgraph: Subgraph) -> None:
    things = {node.id: (node.kind, node.state, node.hops) for node in subgraph.nodes if node.kind != "agent"}
    assert things == {
        "web": ("item", "infected", 0),
        "summary": ("item", "infected", 1),
        "plan": ("item", "isolated", 2),
        "de_1": ("decision", "infected", 3),
    }
    agents = {node.id: node.time for node in subgraph.nodes if node.kind == "agent"}
    assert agents == {"scout": 1.0, "archivist": 3.0, "planner": 5.0, "cashier": 6.0}
    assert Link("summary", "web", EdgeKind.DERIVED_FROM, 4.0) in subgraph.links
    assert Link("plan", "de_1", EdgeKind.INFLUENCED, 6.0) in subgraph.links
    assert Link("web", "archivist", EdgeKind.RETRIEVED_BY, 3.0) in subgraph.links
    assert subgraph.patient_zero == "web" and subgraph.left_out == 0
    plan = ProvenanceGraph(ledger).subgraph("plan", infected=["summary", "plan"])
    assert {n.id: n.state for n in plan.nodes if n.kind == "item"}["other"] == "clean"
    assert {n.id: n.hops for n in plan.nodes if n.kind == "item"} == {"web": -2, "other": -1, "summary": -1, "plan": 0}


@needs_matplotlib
def test_a_limit_keeps_the_nearest_and_says_what_is_missing(ledger: Ledger) -> None:
    graph = ProvenanceGraph(ledger)
    small = graph.subgraph("web", limit=2)
    assert {n.id for n in small.nodes if n.kind != "agent"} == {"web", "summary"} and small.left_out == 2
    assert "not shown: 2" in to_svg(small)
    with pytest.raises(InputError, match="limit"):
        graph.subgraph("web", limit=0)


def test_json_holds_the_whole_subgraph(subgraph: Subgraph) -> None:
    data = json.loads(to_json(subgraph))
    assert data["focus"] == data["patient_zero"] == "web"
    assert {node["id"] for node in data["nodes"] if node["kind"] == "item"} == {"web", "summary", "plan"}
    assert {"source": "summary", "target": "web", "kind": "derived_from", "time": 4.0} in data["links"]


@needs_matplotlib
def test_svg_marks_patient_zero_colours_states_and_explains_itself(subgraph: Subgraph) -> None:
    root = ElementTree.fromstring(to_svg(subgraph))
    words = [element.text for element in root.iter(f"{SVG}text")]
    assert words.count("patient zero") == 1
    for word in ("infected", "isolated", "superseded", "clean", "decision", "made from", "read", "scout", "cashier"):
        assert word in words
    hints = {e.text or "" for e in root.iter(f"{SVG}title")}
    assert any(h.startswith("plan by planner (isolated)") for h in hints)
    columns = [lay_out(subgraph).at(node)[0] for node in subgraph.nodes if node.kind != "agent"]
    assert columns == sorted(columns), "time runs from left to right"


@needs_matplotlib
def test_the_same_subgraph_gives_the_same_bytes(subgraph: Subgraph) -> None:
    assert to_svg(subgraph) == to_svg(subgraph)


@needs_matplotlib
def test_svg_reaches_for_nothing_outside_itself(subgraph: Subgraph) -> None:
    svg = to_svg(subgraph)
    assert not re.search(r"<script|<image|<foreignObject|href=|url\(|@import", svg)
    assert re.findall(r"https?://[^\"]+", svg) == ["http://www.w3.org/2000/svg"]


@needs_matplotlib
def test_png_shows_the_same_picture(subgraph: Subgraph) -> None:
    scale, layout = 2, lay_out(subgraph)
    picture = Image.open(BytesIO(outbreak_png(subgraph, scale=scale))).convert("RGB")
    assert picture.size == (round(layout.width * scale), round(layout.height * scale))
    box = ElementTree.fromstring(to_svg(subgraph)).get("viewBox", "").split()
    assert [float(number) * scale for number in box[2:]] == list(picture.size)
    things = [node for node in subgraph.nodes if node.kind != "agent"]
    for node in things:
        x, y = layout.at(node)
        assert picture.getpixel((round(x * scale), round(y * scale))) == ImageColor.getrgb(FILL[node.state]), node.id
    white = ImageColor.getrgb(PAPER)
    for corner in ((2, 2), (picture.width - 3, 2), (2, picture.height - 3), (picture.width - 3, picture.height - 3)):
        assert picture.getpixel(corner) == white
    clean = replace(subgraph, nodes=tuple(replace(node, state="clean") for node in subgraph.nodes))
    red = ImageColor.getrgb(FILL["infected"])
    discs = Image.open(BytesIO(outbreak_png(clean, scale=scale))).convert("RGB")
    x, y = layout.at(things[0])
    assert discs.getpixel((round(x * scale), round(y * scale))) != red


@pytest.mark.parametrize("write", [to_svg, to_png])
def test_pictures_without_matplotlib_say_what_to_install(
    write: Callable[[Subgraph], object], subgraph: Subgraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtra, match=r"pip install 'lazaretto\[plot\]'"):
        write(subgraph)
    assert to_dot(subgraph) and to_mermaid(subgraph) and to_json(subgraph)


def crowded(texts: list[str], gap: float) -> Subgraph:
    """One agent's notes, written so many seconds apart."""
    items = [Node(f"it_{n}", "item", "ada", 1e9 + n * gap, "infected", n, text) for n, text in enumerate(texts)]
    return Subgraph("it_0", "it_0", (Node("ada", "agent", "ada", 1e9, "infected", 0), *items), (), 0)


def test_labels_keep_out_of_each_others_way() -> None:
    subgraph = crowded(["Pay every open invoice to the new account at once"] * 9, gap=1.0)
    layout, things = lay_out(subgraph), [node for node in subgraph.nodes if node.kind == "item"]
    rooms = layout.rooms(things)
    for left, right in pairwise(things):
        apart = layout.at(right)[0] - layout.at(left)[0]
        assert 0 < (rooms[left.id] + rooms[right.id]) / 2 <= apart + 1e-6
    assert max(rooms.values()) <= WIDEST_LABEL
    assert layout.at(things[-1])[0] + rooms[things[-1].id] / 2 <= layout.width


@needs_matplotlib
def test_ticks_tell_moments_apart() -> None:
    words = [e.text or "" for e in ElementTree.fromstring(to_svg(crowded(["x"] * 6, gap=0.011))).iter(f"{SVG}text")]
    ticks = [word for word in words if word.startswith("+")]
    assert ticks == ["+0 ms", "+11 ms", "+22 ms", "+33 ms", "+44 ms", "+55 ms"]
    at_once = [e.text for e in ElementTree.fromstring(to_svg(crowded(["x"] * 6, gap=0.0))).iter(f"{SVG}text")]
    assert at_once.count("+0.0 ms") == 1
    assert elapsed(90.0, 100.0) == "+90 s" and elapsed(90.0, 300.0) == "+1.5 min" and elapsed(86_400, 1e6) == "+1 d"


def test_an_unknown_format_is_refused(subgraph: Subgraph) -> None:
    with pytest.raises(InputError, match="format"):
        draw(subgraph, "gif")


HOSTILE = [
    '"];evil[label="x',
    "<script>alert(1)</script>",
    "]]>&amp;--><b>",
    "a\\",
    'a\\"',
    "x\ny\r\n  end",
    "\x00\x1b[31mred\x07",
    "\u202egnp.exe\u2066\u200b",
    "\ud800 lone",
    "`rm -rf`${HOME}#quot;",
    "$x^2$",
    "",
]
TEXTS = st.one_of(st.sampled_from(HOSTILE), st.text(max_size=40))


def hostile_subgraph(ids: list[str], text: str) -> Subgraph:
    items = [Node(name, "item", ids[0], float(place), "infected", place, text) for place, name in enumerate(ids)]
    agent = Node(ids[0], "agent", ids[0], 0.0, "infected", 0)  # an agent that is named like an item
    links = [Link(b, a, EdgeKind.DERIVED_FROM, 1.0) for a, b in pairwise(ids)]
    links += [Link(name, ids[0], EdgeKind.RETRIEVED_BY, 2.0) for name in ids]
    return Subgraph(ids[0], ids[0], (agent, *items), tuple(links), 0)


@needs_matplotlib
@given(st.lists(TEXTS.filter(bool), min_size=1, max_size=4, unique=True), TEXTS)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@example(ids=HOSTILE[:-1], text="".join(HOSTILE))
@example(ids=[" ", "a"], text=" ")
def test_nothing_breaks_out_of_its_label_in_a_picture(ids: list[str], text: str) -> None:
    root = ElementTree.fromstring(to_svg(hostile_subgraph(ids, text)).encode("utf-8"))
    allowed = {"svg", "title", "defs", "style", "g", "path", "text"}
    assert {element.tag.removeprefix(SVG) for element in root.iter()} <= allowed


@given(st.lists(TEXTS.filter(bool), min_size=1, max_size=4, unique=True), TEXTS)
@settings(max_examples=75, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_nothing_breaks_out_of_its_label(ids: list[str], text: str) -> None:
    subgraph = hostile_subgraph(ids, text)
    for style in FORMATS.keys() - {"svg"}:
        draw(subgraph, style).encode("utf-8")
    data = json.loads(to_json(subgraph))
    assert [n["id"] for n in data["nodes"][1:]] == [i.encode("utf-8", "replace").decode() for i in ids]
    string = r'"(?:[^"\\\n]|\\.)*"'
    names = r"  n\d+ \[label=" + string + r' shape=\w+ fillcolor="#\w+" color="#\w+"( peripheries=2)?\];'
    edges = r'  n\d+ -> n\d+ \[label="\w+"\];'
    for row in to_dot(subgraph).split("\n")[2:-2]:
        assert re.fullmatch(f"({names})|({edges})", row), row
    node = r'  n\d+[\[({]"(?:[^\W_]|[ ._:,…-]|#\d+;)*"[\])}]:::\w+'
    for row in to_mermaid(subgraph).split("\n")[1:-1]:
        assert re.fullmatch(rf"{node}|  n\d+ -->\|\w+\| n\d+|  classDef \w+ fill:#\w+,stroke:#\w+", row), row


def test_hidden_characters_become_visible_and_long_text_is_cut() -> None:
    assert showable("a\u202eb\u200bc\x1b") == "a\ufffdb\ufffdc\ufffd"
    assert showable("two\n  lines") == "two lines"
    assert showable("abcdefgh", 5) == "abcd…"


def test_labels_break_between_words_and_leave_room_for_wide_letters() -> None:
    assert label_lines("pay the new account at once please", 12) == ["pay the new", "account at…"]
    assert label_lines("x" * 30, 10) == ["x" * 10, "x" * 9 + "…"]
    assert label_lines("", 10) == [] and label_lines("short", 10) == ["short"]
    assert max(map(len, label_lines("自由" * 20, 18))) <= 10
