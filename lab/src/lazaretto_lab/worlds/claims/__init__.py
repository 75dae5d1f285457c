"""Scenarios of claims: a few memories, something new, and what it truly is."""
