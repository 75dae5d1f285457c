"""Watchers of the guard: traces for OpenTelemetry, numbers for Prometheus, lines for a log.

A watcher is notified after the fact and changes nothing; one that fails is logged. All attribute names of
OpenTelemetry are in this file: those of the conventions for generative AI where they exist, ours for the rest.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from lazaretto.types import Channel, Decision, Observation, Receipt, Ruling

if TYPE_CHECKING:
    from opentelemetry.trace import Span, TracerProvider

log = logging.getLogger("lazaretto")

STORE, RECORD = "gen_ai.memory.store.id", "gen_ai.memory.record.id"
OPERATION, AGENT = "gen_ai.operation.name", "gen_ai.agent.name"
EVALUATION = "gen_ai.evaluation.result"
EVALUATION_NAME, EVALUATION_SCORE = "gen_ai.evaluation.name", "gen_ai.evaluation.score.value"
EVALUATION_LABEL, EVALUATION_WHY = "gen_ai.evaluation.score.label", "gen_ai.evaluation.explanation"
RULING, RULE, CHANNEL, COMPLETE = "lazaretto.ruling", "lazaretto.rule", "lazaretto.channel", "lazaretto.complete"
FOUND, REPAIR, ITEMS = "lazaretto.found", "lazaretto.repair", "lazaretto.items"
UPDATE, SEARCH, DELETE, GUARDRAIL = "update_memory", "search_memory", "delete_memory", "apply_guardrail"
"""Names of spans; guardrails have no name of their own in the conventions yet."""


class Watcher(Protocol):
    """Is notified of events. ``began`` is ``time.time_ns()`` when the call came in."""

    def decided(self, observation: Observation, decision: Decision, began: int) -> None:
        """Something was judged."""

    def recalled(self, namespace: str, agent: str, items: Sequence[str], began: int) -> None:
        """An agent was given memories."""

    def repaired(self, namespace: str, receipt: Receipt, began: int) -> None:
        """A repair was applied."""

    def undone(self, namespace: str, receipt: Receipt, began: int) -> None:
        """A repair was undone, wholly or in part (``receipt.restored``). A watcher without this method is left out."""


class Watchers:
    """All watchers; ``add`` another."""

    def __init__(self, *watchers: Watcher) -> None:
        self._all = list(watchers)

    def add(self, watcher: Watcher) -> None:
        """Tell this one too from now on."""
        self._all.append(watcher)

    def tell(self, what: str, *news: Any) -> None:
        """Call the method ``what`` of every watcher."""
        for watcher in self._all:
            if what == "undone" and not hasattr(watcher, what):
                continue  # written before there was this method
            try:
                getattr(watcher, what)(*news)
            except Exception:
                log.exception("a watcher failed at %r", what)


class Tracing:
    """Spans and events of calls, through OpenTelemetry's API; silent if that is not installed.

    No content is passed on: an explanation is the name of a rule, never a quotation.
    """

    def __init__(self, provider: TracerProvider | None = None) -> None:
        """``provider``: where spans go; None: wherever the process sends its own."""
        try:
            from opentelemetry import trace
        except ImportError:
            self._tracer = None
            return
        self._trace = trace
        self._tracer = trace.get_tracer("lazaretto", tracer_provider=provider)

    def decided(self, observation: Observation, decision: Decision, began: int) -> None:
        """A span for the item, an event for each verdict."""
        operation = UPDATE if observation.channel is Channel.MEMORY else GUARDRAIL
        facts = {
            RECORD: observation.id, CHANNEL: observation.channel.value, RULING: decision.ruling.label,
            RULE: decision.rule, COMPLETE: decision.complete,
        }  # fmt: skip
        span = self._span(operation, observation.namespace, observation.agent, facts, began)
        if span is None:
            return
        for verdict in decision.verdicts:
            attributes: dict[str, Any] = {EVALUATION_NAME: verdict.gate, EVALUATION_SCORE: float(verdict.risk)}
            span.add_event(
                EVALUATION, {**attributes, EVALUATION_LABEL: verdict.ruling.label, EVALUATION_WHY: verdict.rule}
            )
        if decision.ruling is Ruling.BLOCK:
            span.set_status(self._trace.Status(self._trace.StatusCode.ERROR, decision.rule))
        span.end()

    def recalled(self, namespace: str, agent: str, items: Sequence[str], began: int) -> None:
        """A span for the search."""
        span = self._span(SEARCH, namespace, agent, {FOUND: len(items), ITEMS: tuple(items)}, began)
        if span is not None:
            span.end()

    def repaired(self, namespace: str, receipt: Receipt, began: int) -> None:
        """A span for a repair."""
        steps = receipt.plan.steps
        facts = {REPAIR: receipt.plan.repair, RECORD: receipt.plan.origin, ITEMS: tuple(step.item for step in steps)}
        span = self._span(DELETE, namespace, "", facts, began)
        if span is not None:
            span.end()

    def undone(self, namespace: str, receipt: Receipt, began: int) -> None:
        """A span for an undone repair."""
        facts = {REPAIR: f"undo {receipt.plan.repair}", RECORD: receipt.plan.origin, ITEMS: receipt.restored}
        span = self._span(UPDATE, namespace, "", facts, began)
        if span is not None:
            span.end()

    def _span(self, operation: str, store: str, agent: str, facts: dict[str, Any], began: int) -> Span | None:
        if self._tracer is None:
            return None
        named = {OPERATION: operation, STORE: store, **({AGENT: agent} if agent else {})}
        span = self._tracer.start_span(operation, attributes={**named, **facts}, start_time=began)
        return span if span.is_recording() else None


class Logging:
    """Logs calls, without content: a line for each call, and on level DEBUG one for each gate."""

    def decided(self, observation: Observation, decision: Decision, began: int) -> None:
        """Log a decision."""
        log.info(
            "%s of %s: %s is %s by %s, risk %.2f, %d ms", observation.channel.value, observation.agent, observation.id,
            decision.ruling.label, decision.rule or "no gate", decision.risk, _ms_since(began),
        )  # fmt: skip
        for run in decision.runs:
            log.debug("gate %s: %s, %d ms%s", run.gate, run.status.value, run.ms, f" ({run.detail})" * bool(run.detail))

    def recalled(self, namespace: str, agent: str, items: Sequence[str], began: int) -> None:
        """How many memories an agent was given."""
        log.info("%s was given %d memories of %s, %d ms", agent, len(items), namespace, _ms_since(began))

    def repaired(self, namespace: str, receipt: Receipt, began: int) -> None:
        """Log a repair."""
        what = (receipt.plan.repair, receipt.plan.origin, len(receipt.plan.steps))
        log.info("%s of %s: %d steps, receipt %s, %d ms", *what, receipt.id, _ms_since(began))

    def undone(self, namespace: str, receipt: Receipt, began: int) -> None:
        """Log an undone repair."""
        what = (receipt.plan.repair, receipt.plan.origin, len(receipt.restored), len(receipt.plan.steps))
        log.info("%s of %s: %d of %d steps undone, receipt %s, %d ms", *what, receipt.id, _ms_since(began))


def _ms_since(began: int) -> int:
    return (time.time_ns() - began) // 1_000_000


def now() -> int:
    """The time at which a call began, in the form that watchers get."""
    return time.time_ns()
