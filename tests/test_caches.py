"""What a process keeps of contents is cleared when something is erased: every cache of the product is in a list."""

from __future__ import annotations

import ast
import gc
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lazaretto
from lazaretto import SyncGuard, kept_texts
from lazaretto.adapters.border import Border
from lazaretto.errors import StoreUnavailable
from lazaretto.gates.content.chat_roles import DebateCodes
from lazaretto.gates.content.records import Content, PreparedContent
from lazaretto.ledger import Ledger, Store
from lazaretto.models.caches import CachedChat, EmbeddingCache
from lazaretto.models.protocol import Completion, Message, Request
from lazaretto.models.record_embedding import tag_vector
from lazaretto.models.scripted import HashingEmbedder, ScriptedChatModel
from lazaretto.testing import ScriptedGate
from lazaretto.types import Channel, Observation, Ruling, Verdict

SOURCE = Path(lazaretto.__file__).parent
NO_CONTENT = {
    "actions/authority.py": {"_answered", "_calls_made"},  # digests of lines and calls
    "actions/call_log.py": {"_answers"},  # fingerprints and trust of values
    "adapters/border.py": {"_judged"},  # digests and item ids
    "adapters/heard.py": {"_heard", "_stored"},  # digests
    "adapters/langgraph_state.py": {"_given", "_others", "_writers"},  # digests, and names of nodes
    "adapters/langgraph_writers.py": {"_writers"},  # digests
    "adapters/mem0.py": {"_facts"},  # digests
    "api/request_limits.py": {"_left"},  # callers
    "console/sessions.py": {"_seen"},  # sessions of people
    "gates/content/gate.py": {"_chat_model", "_guard_model", "text_embedder"},  # models, by their settings
    "gates/content/chat_roles.py": {"_known"},  # a code, by a weak reference
    "gates/content/jury/second_opinion.py": {"_say_silent", "joint"},  # warnings; the numbers of a reader
    "gates/foresight/ledger_memory.py": {"_about", "_kept"},  # item ids; numbers of a reading, by key
    "gates/structure.py": {"script"},  # single characters
    "gates/memory/claims/relation.py": {"_second_model"},
    "ledger/appending.py": {"insert_sql"},  # statements
    "ledger/contents.py": {"_known"},  # digests, by item id
    "ledger/queries.py": {"_by_kind", "_edges_at", "_events_query", "_items_query"},  # statements
    "models/deep/base.py": {"_checked"},  # weights
    "models/deep/network.py": {"_buckets"},  # numbers
    "models/deep/reader.py": {"shared_reader"},
    "models/minilm/encoder.py": {"_shared_tensor"},
    "models/record_embedding.py": {"_projection"},  # by the name of a field
    "models/scripted.py": {"_answers"},  # a recording that the caller made
    "models/weight_files.py": {"_manifest"},
    "policy/plugins.py": {"_read_points"},
    "policy/presets/__init__.py": {"_table"},
    "policy/settings.py": {"_adapter"},
    "provenance/adjacency.py": {"_recent"},  # edges between item ids
    "repair/engine.py": {"_reader"},  # readers of plans
    "repair/protocol.py": {"_adapter"},
    "types.py": {"_field_names"},
}
"""Caches that hold nothing of contents, or not beyond one call."""
CLEARED = {
    "gates/foresight/community.py": {"removed"},  # by ``Foresight.clear``
    "gates/foresight/ledger_memory.py": {"_histories"},
    "pictures/__init__.py": {"known"},  # by ``also_forget``
}
FOLLOWS_ERASURES = {
    "actions/known_claims.py": {"_read"},  # of one call
    "actions/mind.py": {"_known", "_read", "_looks"},  # read anew at the agent's next call (``CallLog._take``)
    "cases/casebook.py": {"_cases"},  # and those who keep one let it go (``LiveLibrary.clear``)
    "gates/memory/record_watch.py": {"_kept"},  # numbers of records
    "ingest/read_history.py": {"_read"},  # item ids
    "provenance/taint.py": {"_read"},  # of one question
}
"""Working state that follows the events of erasure, or lives for one question."""
_NAME = re.compile(
    r"_?(cache|known|seen|images|texts|answers|answered|judged|facts|read|recent|kept|looks|cases|histories|removed)\Z"
)
_MAPPINGS = ("OrderedDict[", "dict[", "defaultdict[")


def _cached(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    words = [ast.unparse(one) for one in node.decorator_list]
    takes = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    return bool(takes) and any(re.match(r"(functools\.)?(lru_)?cache\b", word) for word in words)


def _caches(file: Path) -> Iterator[str]:
    """Functions of something that are cached, mappings in the order of use, and mappings with a cache's name."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and _cached(node):
            yield node.name
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, (ast.Attribute, ast.Name)):
            kind = ast.unparse(node.annotation)
            kept = isinstance(node.target, ast.Attribute) or node.col_offset == 0
            name = node.target.attr if isinstance(node.target, ast.Attribute) else node.target.id
            ordered = kind.startswith("OrderedDict[")
            if kept and (ordered or (kind.startswith(_MAPPINGS) and _NAME.match(name))):
                yield name


def test_every_cache_is_cleared_with_the_others_or_is_known_to_hold_nothing() -> None:
    found = {
        file.relative_to(SOURCE).as_posix(): names
        for file in sorted(SOURCE.rglob("*.py"))
        if file.name != "kept_texts.py" and (names := set(_caches(file)))
    }
    listed: dict[str, set[str]] = {}
    for table in (NO_CONTENT, CLEARED, FOLLOWS_ERASURES):
        for name, names in table.items():
            listed.setdefault(name, set()).update(names)
    assert found == listed, "use KeptTexts or @remembered for what is made of contents, or say here why not"


def test_pictures_that_were_embedded_are_forgotten() -> None:
    cache = EmbeddingCache(HashingEmbedder(lambda data: data.decode()))
    first = cache.embed_images([b"boat"])
    cache.embed_texts(["boat"])
    assert len(cache._images) == len(cache._texts) == 1
    kept_texts.forget()
    assert len(cache._images) == len(cache._texts) == 0
    np.testing.assert_array_equal(cache.embed_images([b"boat"]), first)
    assert cache.images_encoded == 2
    many = EmbeddingCache(HashingEmbedder(lambda data: data.decode()), texts_kept=2)
    assert many.embed_images([b"a", b"b", b"c", b"d"]).shape[0] == 4 and len(many._images) == 2, "and they are bounded"


async def test_answers_of_models_are_forgotten() -> None:
    chat = CachedChat(ScriptedChatModel(lambda request: Completion(request.messages[0].text.upper())))
    request = Request((Message("user", "the code is 4711"),))
    for computed in (1, 1):
        assert (await chat.complete([request, request]))[1].text == "THE CODE IS 4711"
        assert chat.computed == computed
    kept_texts.forget()
    assert len(chat._known) == 0 and (await chat.complete([request]))[0].text and chat.computed == 2


def test_tags_are_forgotten() -> None:
    first = tag_vector("a private word")
    assert tag_vector("a private word") is first
    kept_texts.forget()
    again = tag_vector("a private word")
    assert again is not first and (again == first).all()


def test_a_debate_keeps_its_code_and_not_its_content() -> None:
    codes, prepared = DebateCodes(), PreparedContent(Content("a private word"))
    assert codes(prepared) is codes(prepared)
    del prepared
    gc.collect()
    assert all(reference() is None for reference, _ in codes._known.values())


async def test_an_adapters_replacements_are_forgotten_and_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut(seen: Observation) -> Ruling | Verdict:
        if "4711" not in seen.text:
            return Ruling.ALLOW
        return Verdict("scripted", seen.id, Ruling.REWRITE, 0.9, (0.8, 1.0), "cut", replacement="The code is removed.")

    policy = {"preset": "minimal", "channels": {"document": {"stages": [["scripted"]]}}}
    gates = {"scripted": ScriptedGate(cut)}
    with SyncGuard.open(f"sqlite:///{tmp_path / 'crew.db'}", policy, gates=gates) as guard:
        border = Border(guard, "ada")
        for _ in range(2):
            assert await border.document("The code is 4711.") == "The code is removed."
        assert len(border._replacements) == 1 and len(guard.ledger.items(any_state=True)) == 2, "judged once"
        kept_texts.forget()
        assert len(border._replacements) == 0
        assert await border.document("The code is 4711.") == "The code is removed."
        kept_texts.forget()
        plain = guard.guard.check

        async def erased_meanwhile(*given: Any, **named: Any) -> Any:
            decision = await plain(*given, **named)
            kept_texts.forget()
            return decision

        monkeypatch.setattr(guard.guard, "check", erased_meanwhile)
        assert await border.document("The code is 4711.") == "The code is removed."
        assert len(border._replacements) == 0, "it was erased after it was judged, and before it was kept"


def test_caches_forget_also_where_an_erasure_fails_at_its_end(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    item = Observation("ada", Channel.MEMORY, "a private word")
    ledger.append_item(item)
    kept = tag_vector("a private word")

    def broken(_: Store) -> bool:
        raise StoreUnavailable("the disk failed")

    monkeypatch.setattr(Store, "scrub", broken)
    with pytest.raises(StoreUnavailable):
        ledger.erase(item.id, "asked for")
    assert ledger.state(item.id).erased and tag_vector("a private word") is not kept
