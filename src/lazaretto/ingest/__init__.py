"""What callers hand in (texts, pictures, tool results, memories), read into observations or refused."""
