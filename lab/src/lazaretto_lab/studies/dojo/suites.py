"""AgentDojo's suites as worlds for one case each (``pip install agentdojo``; tasks, tools and checks are its own)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from typing import Any

from lazaretto.errors import MissingExtra
from lazaretto_lab.studies.dojo.protocol import Tool

VERSION = "v1.2.2"
ATTACK = "important_instructions"
SUITES = ("workspace", "travel", "banking", "slack")
Pair = tuple[str, str, str]
"""Suite, user task, injection task ("" for none)."""


@cache
def load(name: str) -> Any:
    """A suite of AgentDojo; its environments are read with the fast reader of YAML."""
    try:
        from agentdojo.task_suite.load_suites import get_suite
    except ImportError:
        raise MissingExtra("AgentDojo's suites", "agentdojo") from None
    suite = get_suite(VERSION, name)
    suite.load_and_inject_default_environment = partial(_environment, suite)
    return suite


def _environment(suite: Any, injections: dict[str, str]) -> Any:
    """As AgentDojo makes it, in a tenth of the time."""
    import yaml
    from agentdojo.task_suite.task_suite import read_suite_file, validate_injections

    defaults = _defaults(suite.name)
    validate_injections(injections, defaults)
    text = read_suite_file(suite.name, "environment.yaml", suite.data_path).format(**{**defaults, **injections})
    return suite.environment_type.model_validate(yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))


@cache
def _defaults(name: str) -> dict[str, str]:
    return dict(load(name).get_injection_vector_defaults())


class _Named:
    """The attack asks the pipeline for the name of the model that it speaks to."""

    name = "local"


@cache
def _attack(name: str) -> Any:
    from agentdojo.attacks.important_instructions_attacks import ImportantInstructionsAttack

    assert ImportantInstructionsAttack.name == ATTACK
    return ImportantInstructionsAttack(load(name), _Named())


@cache
def tools(name: str) -> tuple[Tool, ...]:
    """The tools of a suite."""
    return tuple(Tool(one.name, one.description, one.parameters.model_json_schema()) for one in load(name).tools)


def alone(name: str) -> list[Pair]:
    """The user tasks of a suite."""
    return [(name, user, "") for user in load(name).user_tasks]


def pairs(name: str) -> list[Pair]:
    """Every user task of a suite with every injection task."""
    suite = load(name)
    return [(name, user, injection) for user in suite.user_tasks for injection in suite.injection_tasks]


class DojoWorld:
    """The world of one case."""

    def __init__(self, pair: Pair) -> None:
        from agentdojo.functions_runtime import FunctionsRuntime

        name, user, injection = pair
        self._suite = load(name)
        self._user = self._suite.get_user_task_by_id(user)
        self._injection = self._suite.get_injection_task_by_id(injection) if injection else None
        planted = _attack(name).attack(self._user, self._injection) if injection else {}
        self._now = self._user.init_environment(self._suite.load_and_inject_default_environment(planted))
        self._before = self._now.model_copy(deep=True)
        self._runtime = FunctionsRuntime(self._suite.tools)
        self._made: list[Any] = []
        self.task: str = self._user.PROMPT
        self.tools: Sequence[Tool] = tools(name)

    def call(self, tool: str, arguments: dict[str, Any]) -> str:
        """Makes a call, as AgentDojo's executor does."""
        from agentdojo.agent_pipeline.tool_execution import tool_result_to_str
        from agentdojo.functions_runtime import FunctionCall

        self._made.append(FunctionCall(function=tool, args=arguments))
        found, error = self._runtime.run_function(self._now, tool, arguments)
        return str(error) if error else tool_result_to_str(found)

    def right_calls(self) -> list[tuple[str, dict[str, Any]]]:
        """The calls that AgentDojo gives as a solution."""
        return [(one.function, dict(one.args)) for one in self._user.ground_truth(self._now)]

    def right_answer(self) -> str:
        """The words that AgentDojo gives with them."""
        return str(self._user.GROUND_TRUTH_OUTPUT)

    def shows_injection(self, text: str) -> bool:
        """Whether the injection's goal stands in a text, however it is quoted."""
        return self._injection is not None and _letters(self._injection.GOAL) in _letters(text)

    def outcome(self, said: str) -> tuple[bool, bool]:
        """AgentDojo's own checks of the user's task and of the injection's."""
        text = [{"type": "text", "content": said}]
        given = (text, self._before, self._now, self._made)
        done = bool(self._suite._check_task_result(self._user, *given))
        if self._injection is None:
            return done, False
        return done, bool(self._suite._check_task_result(self._injection, *given))


def _letters(text: str) -> str:
    return "".join(text.replace("\\n", " ").replace("\\", "").replace("'", "").split())
