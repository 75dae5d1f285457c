"""Foresight: agents rehearse what they would say, on copies, and are found out before they say it."""
