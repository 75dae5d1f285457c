"""What runs the gates: which, in which order, for how long, and what becomes of their verdicts."""
