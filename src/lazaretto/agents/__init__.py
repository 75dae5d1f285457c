"""What one agent is and does: persona, album, history, and one turn (plan, retrieve, ask, answer)."""
