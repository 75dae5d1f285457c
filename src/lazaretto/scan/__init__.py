"""Scanning a store that others keep: what in it is poisoned, contradicts itself, or should never have been kept."""
