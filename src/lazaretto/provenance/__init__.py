"""The graph over the ledger's events: the lineage, reach and trust of items."""
