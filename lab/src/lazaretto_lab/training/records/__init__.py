"""Training and judging the detector for structured memories."""
