"""Repairs: planned, priced, tried dry, applied in one transaction, undone by their receipt."""
