"""Agents with albums who meet in pairs, show each other things and talk: the world of infectious pictures and notes."""
