"""Who is told what the guard does: spans and events, and nothing of any content."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lazaretto import Guard
from lazaretto.guard.telemetry import Tracing, Watchers
from lazaretto.testing import ScriptedGate
from lazaretto.types import Observation, Ruling, Verdict

POLICY = {"preset": "minimal", "channels": {"memory": {"stages": [["scripted"]]}}}


def script(seen: Observation) -> Any:
    bad = "poison" in seen.text
    ruling = Ruling.BLOCK if bad else Ruling.ALLOW
    return Verdict("scripted", seen.id, ruling, 0.9 if bad else 0.1, (0.0, 1.0), "rule")


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Any, Any]]:
    """A provider of its own and what it was given. Whatever the process's environment, global provider or current
    span are, they have no say: the settings are cleared, the sampler takes everything, the context is empty."""
    pytest.importorskip("opentelemetry.sdk", reason="needs the dev extra")
    import os

    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        monkeypatch.delenv(name)
    from opentelemetry.context import Context, attach, detach
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
    from opentelemetry.sdk.trace.sampling import ALWAYS_ON

    provider, exporter = TracerProvider(sampler=ALWAYS_ON), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    token = attach(Context())
    yield provider, exporter
    detach(token)
    provider.shutdown()


def test_every_decision_is_a_span(open_guard: Callable[..., Guard], spans: tuple[Any, Any]) -> None:
    provider, exporter = spans
    guard = open_guard(POLICY, gates={"scripted": ScriptedGate(script)})
    guard._core.watchers = Watchers(Tracing(provider))
    note = guard.run(guard.remember("the harmless word", agent="scout"))
    bad = guard.run(guard.remember("the poison word", agent="scout"))
    guard.run(guard.recall(agent="ada"))
    guard.run(guard.check("a message", agent="ada"))
    guard.run(guard.screen("a message", channel="message"))
    guard.run(guard.repairs.apply(guard.run(guard.repairs.plan(note.item, "isolate"))))
    told = exporter.get_finished_spans()
    assert [one.name for one in told] == [
        "update_memory", "update_memory", "search_memory", "apply_guardrail", "apply_guardrail", "delete_memory",
    ]  # fmt: skip
    first, second, search = told[0], told[1], told[2]
    assert first.attributes["gen_ai.memory.record.id"] == note.item
    assert first.attributes["gen_ai.memory.store.id"] == "default"
    assert (first.attributes["lazaretto.ruling"], second.attributes["lazaretto.ruling"]) == ("allow", "block")
    (event,) = second.events
    assert event.name == "gen_ai.evaluation.result"
    assert event.attributes["gen_ai.evaluation.score.label"] == "block"
    assert not second.status.is_ok and second.attributes["gen_ai.memory.record.id"] == bad.item
    assert search.attributes["lazaretto.items"] == (note.item,)
    assert first.start_time <= first.end_time
    assert "word" not in str([(one.attributes, [event.attributes for event in one.events]) for one in told])


def test_a_watcher_that_fails_stops_nobody(guard: Guard, caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        def decided(self, *_: Any) -> None:
            raise RuntimeError("no")

    guard.watchers.add(Broken())  # type: ignore[arg-type]
    assert guard.run(guard.check("hello", agent="ada")).allowed
    assert "a watcher failed" in caplog.text


def test_without_a_provider_nothing_is_asked(guard: Guard) -> None:
    guard._core.watchers = Watchers(Tracing())
    assert guard.run(guard.check("hello", agent="ada")).allowed
