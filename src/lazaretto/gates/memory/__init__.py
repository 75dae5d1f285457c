"""The memory gate: orders in texts, claims that contradict what is known, structured memories."""
