"""Pure functions that turn what happened into figures: infection, diversity, detection, purification, intervals."""
