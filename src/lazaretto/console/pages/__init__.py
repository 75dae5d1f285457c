"""Pages of the console, by task."""
