"""Trained changes for the larger models of Lazaretto's second reader. Files only; ``lazaretto.models.deep``
reads them.
"""
