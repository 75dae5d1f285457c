"""The fields that cannot carry text, by dialect: every reading of strings leaves them out. One table.

A field is left out only while its value looks as the table says: an id with a space in it is read like any string.
Base64 is left out where no model reads it as text; pictures are judged as pictures.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from lazaretto.ingest.strings import FEWEST_WORDS, KEY, LeaveOut, Path, words_of

ID = re.compile(r"[A-Za-z0-9_.:/|+=@\-]{1,200}")
WORD = re.compile(r"[A-Za-z0-9_.:/\-]{1,64}")
BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")

_IDS = ("id", "call_id", "tool_call_id", "tool_use_id", "item_id", "response_id", "previous_response_id", "file_id",
        "container_id", "request_id", "model", "system_fingerprint", "encrypted_index", "encrypted_content",
        "signature", "etag", "run_id", "parent_run_id", "thread_id")  # fmt: skip
_WORDS = ("type", "role", "object", "status", "finish_reason", "stop_reason", "service_tier", "detail", "media_type",
          "mime_type", "format", "effort", "verbosity", "truncation", "modality", "tool_choice", "include",
          "ttl", "model_provider", "model_name", "native_finish_reason", "name")  # fmt: skip
_KEYS = """
    messages role content name tool_calls tool_call_id function arguments type id index text image_url url detail
    model stream choices message delta finish_reason logprobs usage prompt_tokens completion_tokens total_tokens created
    object system_fingerprint service_tier refusal reasoning_content annotations audio input output instructions tools
    parameters properties required description strict response_format json_schema schema tool_choice temperature top_p
    max_tokens max_completion_tokens max_output_tokens n stop seed user metadata store stream_options include_usage
    parallel_tool_calls reasoning effort summary item_id output_index content_index sequence_number item part response
    status incomplete_details reason error code param created_at call_id action command env system max_tokens_to_sample
    thinking signature source media_type data title context citations cache_control ttl stop_reason stop_sequence
    input_tokens output_tokens cache_creation_input_tokens cache_read_input_tokens content_block partial_json
    tool_use_id is_error additional_kwargs response_metadata example invalid_tool_calls usage_metadata artifact args
    page_content prediction documents prompt variables version items enum additionalProperties anyOf default results
    outputs logs server_label custom token bytes logprob top_logprobs completion_tokens_details reasoning_tokens
    prompt_tokens_details cached_tokens input_tokens_details output_tokens_details audio_tokens
    step parents writes run_id thread_id token_usage model_name model_provider input_token_details output_token_details
    accepted_prediction_tokens rejected_prediction_tokens native_finish_reason provider
"""

_FIELDS = {**dict.fromkeys(_IDS, ID), **dict.fromkeys(_WORDS, WORD)}
LEFT_OUT: Mapping[str, Mapping[str, re.Pattern[str]]] = MappingProxyType(
    {
        "openai-chat": _FIELDS | {"data": BASE64},
        "openai-responses": _FIELDS | {"encrypted_content": BASE64},
        "anthropic": _FIELDS | {"signature": BASE64, "encrypted_content": BASE64, "encrypted_index": BASE64},
        "langchain": _FIELDS | dict.fromkeys(("checkpoint_ns", "checkpoint_id", "source", "langgraph_node"), ID),
        "mcp": {"type": WORD, "mimeType": WORD, "mime_type": WORD, "role": WORD},
        "plain": {},
    }
)
"""Dialect -> name of a field -> the form of its value while it carries no text."""
PROTOCOL_KEYS = frozenset(_KEYS.split())
"""Keys that the protocols themselves use; any other key is read."""


def left_out(dialect: str) -> LeaveOut:
    """The parts of a dialect's requests and answers that cannot carry text."""
    table, keys = LEFT_OUT[dialect], PROTOCOL_KEYS if dialect != "plain" else frozenset()

    def leave(path: Path, value: Any) -> bool:
        if path[-1] == KEY:
            return isinstance(value, str) and value in keys
        shape = table.get(_name(path))
        return shape is not None and isinstance(value, str) and cannot_carry_text(value, shape)

    return leave


def cannot_carry_text(value: str, shape: re.Pattern[str]) -> bool:
    """Whether a string has the shape of an id, word or code, and is no sentence in disguise."""
    return shape.fullmatch(value) is not None and len(words_of(value)) < FEWEST_WORDS


def _name(path: Path) -> str:
    """The last key of a path; items of a list count as the list."""
    return next((step for step in reversed(path) if isinstance(step, str)), "")
