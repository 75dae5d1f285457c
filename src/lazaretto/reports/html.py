"""A report as one HTML file: no script, nothing loaded from outside, every text escaped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape

from lazaretto.reports.encoding import encodable

__all__ = ["badge", "bullets", "escape", "page", "table"]

_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;max-width:72rem;margin:2rem auto;padding:0 1rem;color:#1d2730;background:#fff}
h1{font-size:1.5rem;margin-bottom:.3rem}
h2{font-size:1.1rem;margin-top:2.2rem;border-bottom:1px solid #d5dde3;padding-bottom:.2rem}
.badge{display:inline-block;padding:.1rem .7rem;border-radius:1rem;color:#fff;font-weight:600;font-size:1rem;
vertical-align:middle}.red{background:#b3261e}.amber{background:#8a6100}.green{background:#1b6e3c}.gray{background:#4d5b66}
.meta{color:#4d5b66}.wide{overflow-x:auto}table{border-collapse:collapse;width:100%;font-size:.92rem}
td,th{text-align:left;padding:.35rem .5rem;border-bottom:1px solid #e3e9ee;vertical-align:top;overflow-wrap:break-word}
td:last-child{overflow-wrap:anywhere}th{color:#4d5b66;font-weight:600}
figure{margin:0}svg,img{max-width:100%;height:auto}
"""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def page(title: str, body: Iterable[str], style: str = "") -> str:
    """The whole file. ``title`` is escaped here; ``body`` and ``style`` are markup."""
    head = (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width'>"
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        f"<title>{escape(title)}</title><style>{_STYLE}{style}</style></head><body>"
    )
    whole: str = encodable("\n".join((head, *(part for part in body if part), "</body></html>\n")))
    return whole


def badge(colour: str, words: str) -> str:
    """A word on ``red``, ``amber``, ``green`` or ``gray``."""
    return f"<span class='badge {colour}'>{escape(words)}</span>"


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], marked: Mapping[int, str] | None = None) -> str:
    """A table; cells are escaped. ``marked``: number of a row -> its class."""
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = []
    for place, row in enumerate(rows):
        cells = "".join(f"<td>{escape(cell) or '-'}</td>" for cell in row)
        body.append(f"<tr class='{marked.get(place, '')}'>{cells}</tr>" if marked else f"<tr>{cells}</tr>")
    return f"<div class='wide'><table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table></div>"


def bullets(title: str, lines: Sequence[str]) -> str:
    """A heading with a list below it; nothing without lines."""
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f"<h2>{escape(title)}</h2><ul>{items}</ul>" if lines else ""
