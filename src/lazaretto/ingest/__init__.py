"""Input of callers (texts, pictures, tool results, memories), read into observations or refused."""
