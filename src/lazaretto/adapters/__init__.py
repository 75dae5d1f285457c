"""Lazaretto inside the frameworks that crews are built with: one module each, which needs that framework alone."""
