"""The description of the calls at ``/docs``, from files of this machine alone: no browser asks anybody else for it."""

from __future__ import annotations

from importlib.resources import as_file, files

from lazaretto.errors import MissingExtra

try:
    from fastapi import FastAPI, Response
    from fastapi.openapi.docs import get_swagger_ui_html
except ImportError:
    raise MissingExtra("the HTTP server", "api") from None

ASSETS = {"swagger-ui-bundle.js": "text/javascript", "swagger-ui.css": "text/css", "favicon.png": "image/png"}
"""What the page needs; the files come with the package fastapi-offline."""
CACHED = {"cache-control": "max-age=86400", "x-content-type-options": "nosniff"}


def add_docs(app: FastAPI) -> None:
    """The page, and the files it needs."""

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return get_swagger_ui_html(
            openapi_url="/openapi.json",
            title="Lazaretto",
            swagger_js_url="/docs/swagger-ui-bundle.js",
            swagger_css_url="/docs/swagger-ui.css",
            swagger_favicon_url="/docs/favicon.png",
        )

    @app.get("/docs/{name}", include_in_schema=False)
    async def asset(name: str) -> Response:
        if name not in ASSETS:
            return Response(status_code=404)
        with as_file(files("fastapi_offline") / "static" / name) as path:
            return Response(path.read_bytes(), media_type=ASSETS[name], headers=CACHED)
