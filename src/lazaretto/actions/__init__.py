"""The last gate: may this agent call this tool now, with these arguments?

Two questions decide. Who wanted it: what the agent has in mind, or a task that asks for it. Where each value comes
from: what the user said, a directory, a trusted memory, or a stranger's page. See docs/actions.md.
"""
