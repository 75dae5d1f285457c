"""The routes, one file per family; ``app.create_app`` puts them together. They need ``lazaretto[api]``."""

from lazaretto.errors import MissingExtra

try:
    import fastapi  # noqa: F401
except ImportError:
    raise MissingExtra("the HTTP server", "api") from None
