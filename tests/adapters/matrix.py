"""What is guarded where, and which test shows it: the table of docs/adapters-matrix.md comes from here.

``python tests/adapters/matrix.py`` writes it there.
"""

from __future__ import annotations

from pathlib import Path

PLACES = ("memory write", "recall", "message or handoff", "tool result", "model input", "model output", "stream")
NONE = "-"
"""The framework has no such thing of its own."""
NOT_SHOWN = "not shown"
"""There is an example and no adapter, and the example leaves it out: nobody judges it."""
SHOWN = ("guarded", "after the fact", "not possible")
"""What a test must show."""
OUTCOME = Path(__file__).resolve().parents[2] / "lab" / "results" / "adapters" / "results.json"
"""What ``make adapters`` came to."""
Cell = tuple[str, str]
"""What the guard can do there, and the test that shows it: file::function."""

_GRAPH = "test_langgraph.py::test_"
_PLAIN = "test_plain.py::test_"
_AGENTS = "test_openai_agents.py::test_"
_MEM0 = "test_mem0.py::test_"
_CREW = "test_crewai.py::test_"
_ADK = "test_google_adk.py::test_"
_FRAMEWORK = "test_agent_framework.py::test_"
_EXAMPLE = "test_example_crews.py::test_"
MATRIX: dict[str, tuple[Cell, ...]] = {
    "LangGraph": (
        ("guarded", _GRAPH + "what_is_held_is_not_written"),
        ("guarded", _GRAPH + "what_is_held_is_not_found_and_reads_are_recorded"),
        ("guarded", _GRAPH + "a_handoff_is_judged_before_the_next_node_reads_it"),
        ("guarded", _GRAPH + "what_a_tool_returns_is_judged"),
        ("guarded", _GRAPH + "a_handoff_is_judged_before_the_next_node_reads_it"),
        ("after the fact", _GRAPH + "a_saved_state_holds_a_notice_in_the_place_of_what_is_held"),
        ("not possible", _GRAPH + "a_plain_graph_streams_before_anybody_judges"),
    ),
    "LangChain agents": (
        (NONE, ""),
        (NONE, ""),
        ("guarded", _GRAPH + "the_model_reads_no_held_message"),
        ("guarded", _GRAPH + "the_model_reads_no_held_tool_result"),
        ("guarded", _GRAPH + "the_model_reads_no_held_message"),
        ("guarded", _GRAPH + "what_the_model_says_is_judged_before_anybody_acts_on_it"),
        ("guarded", _GRAPH + "a_stream_shows_nothing_before_it_was_judged"),
    ),
    "OpenAI Agents SDK": (
        ("guarded", _AGENTS + "a_session_keeps_and_shows_nothing_held"),
        ("guarded", _AGENTS + "a_session_keeps_and_shows_nothing_held"),
        ("guarded", _AGENTS + "a_handoff_carries_nothing_held"),
        ("guarded", _AGENTS + "a_held_tool_result_is_no_result"),
        ("guarded", _AGENTS + "the_model_reads_nothing_held"),
        ("guarded", _AGENTS + "what_the_model_says_is_judged_before_anybody_acts_on_it"),
        ("guarded", _AGENTS + "a_stream_shows_nothing_before_it_was_judged"),
    ),
    "mem0": (
        ("guarded", _MEM0 + "the_fact_is_judged_and_not_the_chat"),
        ("guarded", _MEM0 + "a_held_fact_is_not_found"),
        (NONE, ""),
        (NONE, ""),
        (NONE, ""),
        (NONE, ""),
        (NONE, ""),
    ),
    "CrewAI": (
        ("guarded", _CREW + "a_held_memory_is_not_saved_and_nothing_raises"),
        ("guarded", _CREW + "a_held_memory_is_not_found"),
        ("guarded", _CREW + "the_model_reads_nothing_held_from_another_task"),
        ("guarded", _CREW + "the_model_reads_no_held_tool_result"),
        ("guarded", _CREW + "the_model_reads_nothing_held_from_another_task"),
        ("guarded", _CREW + "what_the_model_says_is_judged"),
        ("not possible", _CREW + "streamed_chunks_leave_before_the_hooks"),
    ),
    "Google ADK": (
        ("guarded", _ADK + "a_held_memory_is_not_kept_and_not_found"),
        ("guarded", _ADK + "a_held_memory_is_not_kept_and_not_found"),
        ("guarded", _ADK + "a_transfer_carries_nothing_held"),
        ("guarded", _ADK + "the_model_reads_no_held_tool_result"),
        ("guarded", _ADK + "the_model_reads_no_held_message"),
        ("guarded", _ADK + "what_the_model_says_is_judged_before_anybody_acts_on_it"),
        ("guarded", _ADK + "a_stream_shows_nothing_before_it_was_judged"),
    ),
    "Microsoft Agent Framework": (
        ("guarded", _FRAMEWORK + "a_history_keeps_and_shows_nothing_held"),
        ("guarded", _FRAMEWORK + "a_history_keeps_and_shows_nothing_held"),
        ("guarded", _FRAMEWORK + "the_model_reads_no_held_message"),
        ("guarded", _FRAMEWORK + "the_model_reads_no_held_tool_result"),
        ("guarded", _FRAMEWORK + "the_model_reads_no_held_message"),
        ("guarded", _FRAMEWORK + "what_the_model_says_is_judged_before_anybody_acts_on_it"),
        ("guarded", _FRAMEWORK + "a_stream_shows_nothing_before_it_was_judged"),
    ),
    "LlamaIndex": (
        ("guarded", _EXAMPLE + "llama_index_keeps_and_shows_nothing_held"),
        ("guarded", _EXAMPLE + "llama_index_retrieves_nothing_held"),
        ("guarded", _EXAMPLE + "llama_index_keeps_and_shows_nothing_held"),
        ("guarded", _PLAIN + "a_decorated_tool_returns_notices"),
        (NOT_SHOWN, ""),
        (NOT_SHOWN, ""),
        (NOT_SHOWN, ""),
    ),
    "PydanticAI": (
        (NONE, ""),
        (NONE, ""),
        ("guarded", _EXAMPLE + "pydantic_ai_reads_nothing_held"),
        ("guarded", _EXAMPLE + "pydantic_ai_reads_no_held_tool_result"),
        ("guarded", _EXAMPLE + "pydantic_ai_reads_nothing_held"),
        ("guarded", _EXAMPLE + "pydantic_ai_answers_are_judged"),
        ("not possible", _EXAMPLE + "pydantic_ai_streams_before_anybody_judges"),
    ),
    "AutoGen": (
        ("guarded", _EXAMPLE + "autogen_keeps_and_shows_nothing_held"),
        ("guarded", _EXAMPLE + "autogen_keeps_and_shows_nothing_held"),
        ("guarded", _EXAMPLE + "autogen_drops_held_messages"),
        ("guarded", _PLAIN + "a_decorated_tool_returns_notices"),
        (NOT_SHOWN, ""),
        (NOT_SHOWN, ""),
        (NOT_SHOWN, ""),
    ),
    "any Python code": (
        (NONE, ""),
        (NONE, ""),
        ("guarded", _PLAIN + "a_decorated_agent_is_held_back"),
        ("guarded", _PLAIN + "a_decorated_tool_returns_notices"),
        (NONE, ""),
        ("guarded", _PLAIN + "a_decorated_agent_is_held_back"),
        ("guarded", _PLAIN + "a_decorated_agent_is_held_back"),
    ),
}


def table() -> str:
    """The matrix as the page shows it."""
    rows = [f"| framework | {' | '.join(PLACES)} |", "|---" * (len(PLACES) + 1) + "|"]
    rows += [f"| {name} | {' | '.join(cell for cell, _ in cells)} |" for name, cells in MATRIX.items()]
    return "\n".join(rows) + "\n"


def with_outcome(page: str, rows: str) -> str:
    """The page with what ``make adapters`` came to."""
    start, end = "<!-- adapters run -->\n", "<!-- end of adapters run -->"
    before, _, rest = page.partition(start)
    return f"{before}{start}{rows}{end}{rest.partition(end)[2]}"


def written(page: str) -> str:
    """The page with the table as it is today."""
    before, _, rest = page.partition("<!-- matrix -->\n")
    return f"{before}<!-- matrix -->\n{table()}<!-- end -->{rest.partition('<!-- end -->')[2]}"


if __name__ == "__main__":
    path = Path(__file__).resolve().parents[2] / "docs" / "adapters-matrix.md"
    path.write_text(written(path.read_text()))
