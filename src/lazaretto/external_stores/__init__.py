"""Records that stand in stores of the caller's own: taken in, compared, and kept in step with repairs."""
