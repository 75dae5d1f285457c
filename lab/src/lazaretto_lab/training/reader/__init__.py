"""Trains readers that judge both tasks with one trunk: orders out of place (marks per token) and harm (one score)."""
