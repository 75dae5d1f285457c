"""Crews that work from shared notes: documents, tools and colleagues say what the account, the host, the dose is."""
