"""The last gate: may this agent call this tool now, with these arguments? See docs/actions.md.

It asks who wanted the call, and where each value comes from: the user, a directory, a trusted memory or a stranger.
"""
