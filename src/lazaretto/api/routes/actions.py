"""The last gate over HTTP: tasks, calls, and people's answers about them."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Response
from pydantic import Field

from lazaretto.actions.records import Asked, Authorization
from lazaretto.api.answers import ERRORS, DecisionAnswer, answer, ruled
from lazaretto.api.callers import Anyone, Reviewer, TheGuard, claimed, signature
from lazaretto.api.requests import Body
from lazaretto.types import Channel, SourceClass, plain

router = APIRouter(prefix="/v1", tags=["actions"], responses=ERRORS)


class TaskBody(Body):
    """``POST /v1/tasks``."""

    text: str
    agent: str
    tools: Annotated[list[str], Field(description="Tools the task may need, names or patterns; none: any.")] = []  # noqa: RUF012
    source: SourceClass = SourceClass.DIRECT_USER


class AuthorizeBody(Body):
    """``POST /v1/authorize``."""

    tool: str
    arguments: dict[str, Any]
    agent: str
    description: str = ""
    schema_: Annotated[
        dict[str, Any] | None, Field(alias="schema", description="JSON schema of the tool's arguments.")
    ] = None
    task: Annotated[str | None, Field(description="Id of an earlier task than the agent's last.")] = None


class AnswerBody(Body):
    """``POST /v1/actions/{token}/answer``."""

    agree: bool
    by: str = ""


class EndorseBody(Body):
    """``POST /v1/endorse``."""

    value: str
    purpose: Annotated[str, Field(description="A tool, or a class of actions such as `pay`.")]
    by: str = ""


class Endorsed(Body):
    """The receipt of an endorsement."""

    receipt: str


@router.post("/tasks", response_model=DecisionAnswer)
async def begin_task(body: TaskBody, guard: TheGuard, caller: Anyone) -> Response:
    """Give an agent a task; needs a key that may speak as the user."""
    claim = claimed(caller, guard, body.agent, body.source, Channel.MESSAGE)
    return ruled(await guard.begin_task(body.text, tools=body.tools, **plain(claim)))


@router.post("/authorize", response_model=Authorization)
async def authorize(body: AuthorizeBody, guard: TheGuard, caller: Anyone) -> Response:
    """May this agent call this tool now? Recorded before it is answered."""
    caller.identity.speak_as(body.agent)
    made = await guard.authorize(
        body.tool, body.arguments, agent=body.agent, description=body.description, schema=body.schema_, task=body.task,
        principal=caller.identity.principal(body.agent),
    )  # fmt: skip
    return answer(made)


@router.get("/actions/waiting", response_model=list[Asked])
async def waiting(guard: TheGuard, _: Reviewer) -> Response:
    """Calls that wait for a person, the newest first."""
    return answer(await guard.approvals.waiting())


@router.post("/actions/{token}/answer", response_model=Asked)
async def answer_action(token: str, body: AnswerBody, guard: TheGuard, caller: Reviewer) -> Response:
    """A person's decision on a call that waits. Nobody agrees to a call of their own."""
    by = signature(caller, body.by)
    return answer(await guard.approvals.answer(token, body.agree, by=by, caller=caller.identity))


@router.post("/endorse", response_model=Endorsed)
async def endorse(body: EndorseBody, guard: TheGuard, caller: Reviewer) -> Response:
    """Raise the trust of a value for one purpose. Nobody endorses a value that they brought in."""
    by = signature(caller, body.by)
    receipt = await guard.approvals.endorse(body.value, purpose=body.purpose, by=by, caller=caller.identity)
    return answer({"receipt": receipt})
