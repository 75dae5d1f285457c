"""Requests that nobody thought of, drawn from the OpenAPI document: no call may crash, and answers are as declared."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="needs the api extra")
schemathesis = pytest.importorskip("schemathesis", reason="needs the dev extra")

from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from lazaretto import Guard, Policy
from lazaretto.api.app import ServerSettings, create_app

CHECKS = (not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance)
EXAMPLES = 3


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A guard without models that knows some items, one of them held."""
    guard = Guard.open(f"sqlite:///{tmp_path_factory.mktemp('any') / 'crew.db'}", Policy.minimal())

    async def fill() -> None:
        first = await guard.remember("The ferry leaves at nine.", agent="ada")
        second = await guard.remember("The ferry leaves at ten.", agent="bob", parents=[first.item])
        await guard.label(second.item, "harmful", by="dana")

    asyncio.run(fill())
    yield create_app(guard, settings=ServerSettings(hosts=("testserver",)))
    guard.close()


@pytest.fixture(scope="module")
def schema(served: Any) -> Any:
    return schemathesis.openapi.from_asgi("/openapi.json", served)


def test_no_request_crashes_the_server_and_answers_are_as_declared(schema: Any) -> None:
    found: dict[str, str] = {}
    for result in schema.get_all_operations():
        operation = result.ok()

        @settings(
            max_examples=EXAMPLES,
            deadline=None,
            derandomize=True,
            database=None,
            phases=(Phase.generate,),
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy())
        def ask(case: Any) -> None:
            case.call_and_validate(checks=CHECKS)

        try:
            ask()
        except (Exception, BaseExceptionGroup) as error:
            found[operation.label] = str(error)[:1_500]
    assert not found, "\n\n".join(f"{name}\n{problem}" for name, problem in found.items())
