"""Hostile files and values at every border: whatever comes in, what comes out is an answer or an error of our tree."""

from __future__ import annotations

import asyncio
import io
import string
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image
from pydantic import TypeAdapter, ValidationError

import lazaretto
from lazaretto import Guard, LazarettoError, Policy, pictures
from lazaretto.learn.curate import case_rows, labelled_rows
from lazaretto.ledger import Ledger
from lazaretto.policy import Limits, RepairLimits
from lazaretto.repair import engine
from lazaretto.types import RepairPlan

FEW = settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)
KEYS = (
    "channels",
    "gates",
    "limits",
    "trust",
    "repair",
    "record",
    "influence",
    "taint",
    "review",
    "learn",
    "mode",
    "preset",
)


def mangled(data: bytes, edits: list[tuple[float, bytes]]) -> bytes:
    made = bytearray(data)
    for place, noise in edits:
        at = int(place * len(made))
        made[at : at + max(1, len(noise))] = noise
    return bytes(made)


EDITS = st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.binary(max_size=6)), min_size=1, max_size=5)


@FEW
@given(st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=8), JSON, max_size=4))
def test_a_policy_of_any_values_is_read_or_refused(table: dict[str, Any]) -> None:
    try:
        Policy.read(table)
    except LazarettoError as error:
        assert str(error)


@FEW
@given(
    text=st.text(max_size=200) | st.text(string.ascii_letters + "[]=\".'\n#{}, 0123456789", max_size=300), edits=EDITS
)
def test_a_policy_file_of_any_text_is_read_or_refused(tmp_path: Path, text: str, edits: Any) -> None:
    shipped = (Path(lazaretto.__file__).parent / "policy" / "presets" / "strict.toml").read_bytes()
    for data in (text.encode("utf-8", "surrogatepass"), mangled(shipped, edits)):
        (tmp_path / "policy.toml").write_bytes(data)
        try:
            Policy.read(tmp_path / "policy.toml")
        except LazarettoError as error:
            assert "policy.toml" in str(error)


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("exported")

    async def fill() -> None:
        async with Guard.open(f"sqlite:///{folder / 'crew.db'}", Policy.minimal()) as guard:
            first = await guard.remember("The ferry leaves at nine.", agent="ada")
            await guard.remember("The ferry leaves at ten.", agent="bob", parents=[first.item])
            await guard.label(first.item, "harmful", by="dana")
            guard.ledger.export(folder / "crew.export")

    asyncio.run(fill())
    return (folder / "crew.export").read_bytes()


@FEW
@given(edits=EDITS, cut=st.floats(0, 1))
def test_an_export_that_was_altered_is_refused_and_leaves_nothing(
    tmp_path: Path, exported: bytes, edits: Any, cut: float
) -> None:
    altered = mangled(exported, edits)[: int(cut * len(exported)) + 1]
    (tmp_path / "crew.export").write_bytes(altered)
    store = tmp_path / "imported.db"
    store.unlink(missing_ok=True)
    try:
        Ledger.import_(tmp_path / "crew.export", f"sqlite:///{store}").close()
    except LazarettoError:
        if store.exists():
            with Ledger.open(f"sqlite:///{store}") as ledger:
                assert ledger.events() == () or not list(ledger.events())
    else:
        with Ledger.open(f"sqlite:///{store}") as ledger:
            assert ledger.verify().ok


@FEW
@given(lines=st.lists(JSON, max_size=4), noise=st.binary(max_size=60))
def test_case_files_of_any_lines_are_read_or_refused(tmp_path: Path, lines: list[Any], noise: bytes) -> None:
    rows = b"\n".join(orjson.dumps(line, option=orjson.OPT_PASSTHROUGH_SUBCLASS) for line in lines if _plain(line))
    (tmp_path / "cases.jsonl").write_bytes(rows + b"\n" + noise)
    try:
        case_rows(tmp_path / "cases.jsonl")
        labelled_rows(tmp_path / "cases.jsonl")
    except LazarettoError as error:
        assert str(error)


def _plain(value: Any) -> bool:
    try:
        orjson.dumps(value)
    except TypeError:
        return False
    return True


ADAPTER = TypeAdapter(RepairPlan)
REPLACEMENT = st.fixed_dictionaries(
    {"id": st.text(max_size=6), "text": st.text(max_size=9) | JSON, "agent": st.sampled_from(("ada", "eve")) | JSON},
    optional={"parents": JSON, "fields": JSON, "image": JSON},
)
STEP = st.fixed_dictionaries(
    {
        "item": st.text(max_size=8),
        "action": st.sampled_from(("hide", "show", "replace", "remove", "cut", "x")),
        "detail": st.fixed_dictionaries(
            {"was": st.just({"ruling": "allow"}) | JSON},
            optional={"parents": JSON, "replacement": REPLACEMENT | JSON, "frees": JSON},
        ),
    }
)
PLAN = st.fixed_dictionaries(
    {
        "repair": st.sampled_from(("isolate", "remove", "rewrite", "contain", "sweep", "")) | st.text(max_size=6),
        "origin": st.text(max_size=8),
        "steps": st.lists(STEP, max_size=3),
    },
    optional={"reason": st.text(max_size=9), "price": JSON, "left": JSON, "agents": JSON, "id": st.text(max_size=6)},
)


def test_any_plan_is_applied_or_refused(open_guard: Callable[..., Guard]) -> None:
    guard = open_guard()
    known = asyncio.run(guard.remember("The ferry leaves at nine.", agent="ada")).item

    @FEW
    @given(body=PLAN, of_known=st.booleans())
    def tried(body: dict[str, Any], of_known: bool) -> None:
        if of_known:
            body = {**body, "origin": known, "steps": [{**step, "item": known} for step in body["steps"][:1]]}
        try:
            plan = ADAPTER.validate_python(body)
        except ValidationError:
            return
        for act in (
            lambda: engine.preview(plan, guard.ledger),
            lambda: engine.apply(plan, guard.ledger, RepairLimits()),
        ):
            try:
                act()
            except LazarettoError as error:
                assert str(error)

    tried()
    assert guard.ledger.verify().ok


def _encoded(kind: str) -> bytes:
    made = io.BytesIO()
    frames = [Image.new("RGB", (24, 16), colour) for colour in ("red", "blue")]
    exif = Image.Exif()
    exif[0x010E] = "The harbour opens at nine."
    more = {"save_all": True, "append_images": frames[1:]} if kind in ("GIF", "WEBP", "PNG") else {}
    frames[0].save(made, kind, **more, **({"exif": exif} if kind in ("JPEG", "PNG", "WEBP") else {}))  # type: ignore[arg-type]
    return made.getvalue()


SAMPLES = {kind: _encoded(kind) for kind in pictures.FORMATS}


@FEW
@given(kind=st.sampled_from(pictures.FORMATS), edits=EDITS, cut=st.floats(0.1, 1))
def test_any_picture_is_opened_or_refused(kind: str, edits: Any, cut: float) -> None:
    data = mangled(SAMPLES[kind], edits)[: int(cut * len(SAMPLES[kind]))]
    try:
        pictures.frames_for_judges(pictures.opened(data, Limits(max_pixels=1_000_000)))
    except LazarettoError as error:
        assert str(error)
