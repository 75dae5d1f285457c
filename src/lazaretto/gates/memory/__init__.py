"""The memory gate: orders in texts, claims that contradict known ones, structured memories."""
