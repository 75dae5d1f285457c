"""Scans a store that others keep, for poisoned and contradicting texts and secrets."""
