"""Backends for chat, vision and embeddings: local, OpenAI-compatible, scripted, recorded."""
