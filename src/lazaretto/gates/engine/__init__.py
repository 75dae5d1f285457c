"""Runs the gates: chooses them, sets their order and time limits, and joins their verdicts."""
