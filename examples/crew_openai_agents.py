"""An OpenAI Agents crew that is poisoned through its session: python examples/crew_openai_agents.py"""

from __future__ import annotations

import asyncio
from typing import Any

from poisoned_notes import NOTES, main

from lazaretto import SyncGuard

try:
    from agents.testing import ScriptedModel, assistant_message

    from agents import Agent, RunConfig, Runner, SQLiteSession
    from lazaretto.adapters.openai_agents import guard_model, guard_run_config, guard_session
except ImportError:
    raise SystemExit("this example needs the OpenAI Agents SDK: pip install 'lazaretto[gates,openai-agents]'") from None


async def crew(guard: SyncGuard | None) -> list[str]:
    """A scout leaves its notes in the session; the clerk's model is shown all of them."""
    session: Any = SQLiteSession("crew")
    script = ScriptedModel([[assistant_message("I have read the notes.")]])
    model: Any = script
    config = RunConfig(tracing_disabled=True)
    if guard is not None:
        session = guard_session(guard, session, agent="scout")
        model = guard_model(guard, model, agent="clerk")
        config = guard_run_config(guard, config)
    await session.add_items([{"role": "assistant", "content": note} for note in NOTES])
    await Runner.run(Agent("clerk", model=model), "Act on the notes.", session=session, run_config=config)
    return [str(script.calls[0].input)]


def run(guard: SyncGuard | None) -> list[str]:
    """One run of the crew."""
    return asyncio.run(crew(guard))


if __name__ == "__main__":
    main("OpenAI Agents SDK", run)
