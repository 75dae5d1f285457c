"""The graph over the ledger's events: where items came from, what they reached, how far they are trusted."""
