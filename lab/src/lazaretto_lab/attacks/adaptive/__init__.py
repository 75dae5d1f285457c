"""Attackers that know the foresight gate, its measures and its thresholds, and bend the search around them."""
