"""The guard over HTTP, for crews that are not written in Python."""
