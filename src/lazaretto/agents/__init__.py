"""One agent: persona, album, history, and one turn (plan, retrieve, ask, answer)."""
