"""Poisoned and honest tool descriptions of our own, and the small model that is trained on them."""
