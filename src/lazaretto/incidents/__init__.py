"""Incidents: patient zero, items, agents, decisions and repairs of one outbreak; its reports."""
