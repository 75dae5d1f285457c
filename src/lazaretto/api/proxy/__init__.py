"""A guard between a crew and its model's endpoint: no line of the crew changes but the base URL."""
