"""Trains the one trunk that reads every text: orders, risk, hazards, contexts and vectors by heads on one pass."""
