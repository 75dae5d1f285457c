"""Shared by reports: one HTML page, one SARIF log, for incidents, audits and scans."""

from __future__ import annotations

import html
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from typing import Any

# Texts of strangers, for people to read.

_ACTS = ("Cc", "Cf", "Cs", "Zl", "Zp")
_JOINERS = "\u200c\u200d"
"""Zero-width signs without which words of Persian and Hindi and some emoji fall apart."""


def spelled(text: str) -> str:
    """The text with its signs spelled out that act on a page or terminal: escapes, hidden ones, turned writing."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        sign.encode("unicode_escape", "surrogatepass").decode()
        if unicodedata.category(sign) in _ACTS and sign not in f"\n\t{_JOINERS}"
        else sign
        for sign in text.replace("\r\n", "\n")
    )


def spelled_json(text: str) -> str:
    """A JSON document whose strings are the same, and in which nothing acts on a terminal."""
    if text.isascii():
        return text.replace("\x7f", "\\u007f")
    return "".join(
        _numbered(sign)
        if unicodedata.category(sign) in _ACTS and not (sign.isascii() and sign != "\x7f") and sign not in _JOINERS
        else sign
        for sign in text
    )


def _numbered(sign: str) -> str:
    numbers = sign.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{numbers[at : at + 4]}" for at in range(0, len(numbers), 4))


def escape(text: str) -> str:
    """Text as markup shows it: nothing in it is a tag, and nothing acts."""
    return html.escape(spelled(text))


# JSON data that any encoding can carry.


def encodable(data: Any) -> Any:
    """The same data without lone surrogates."""
    if isinstance(data, str):
        return data.encode("utf-8", "replace").decode()
    if isinstance(data, Mapping):
        return {key: encodable(value) for key, value in data.items()}
    return [encodable(value) for value in data] if isinstance(data, list) else data


# A report as one HTML file: no script, nothing loaded from outside, every text escaped.

_STYLE = """
:root{color-scheme:light dark;--ink:light-dark(#1d2730,#e7eef2);--paper:light-dark(#fff,#10181d);
--muted:light-dark(#4d5b66,#a9b8c2);--line:light-dark(#d5dde3,#33434d);--soft:light-dark(#f4f7f9,#1b272e)}
body{font:15px/1.5 system-ui,sans-serif;max-width:72rem;margin:2rem auto;padding:0 1rem;color:var(--ink);
background:var(--paper)}h1{font-size:1.5rem;margin-bottom:.3rem;overflow-wrap:anywhere}
h2{font-size:1.1rem;margin-top:2.2rem;border-bottom:1px solid var(--line);padding-bottom:.2rem}
p,li{overflow-wrap:break-word}:focus-visible{outline:3px solid light-dark(#0b5f68,#66cfd3);outline-offset:2px}
.badge{display:inline-block;padding:.1rem .7rem;border-radius:1rem;color:#fff;font-weight:600;font-size:1rem;
vertical-align:middle}.red{background:#b3261e}.amber{background:#8a6100}.green{background:#1b6e3c}.gray{background:#4d5b66}
.meta{color:var(--muted)}.wide{overflow-x:auto}table{border-collapse:collapse;width:100%;font-size:.92rem}
td,th{text-align:left;padding:.35rem .5rem;border-bottom:1px solid var(--line);vertical-align:top}
td{overflow-wrap:break-word}td:last-child{overflow-wrap:anywhere}th{color:var(--muted);font-weight:600}
figure{margin:0;overflow-x:auto;color-scheme:light;background:#fff;color:#1d2730;border-radius:.5rem}
svg,img{max-width:100%;height:auto}
@media(max-width:900px){body{margin:1rem auto}
figure svg{min-width:560px}table,tbody,tr,td{display:block}thead{position:absolute;left:-999px}
tr{border-bottom:1px solid var(--line);padding:.6rem 0}td,td:first-child{border:0;padding:.1rem 0}
td:before{content:attr(data-is) ": ";color:var(--muted)}td{overflow-wrap:anywhere}}
@media print{:root{color-scheme:light}}
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


def badge(colour: str, words: str, meaning: str) -> str:
    """A word on ``red``, ``amber``, ``green`` or ``gray``, and what it means."""
    return f"<span class='badge {colour}' title='{escape(meaning)}'>{escape(words)}</span>"


def figure(picture: str, name: str) -> str:
    """A drawing in a frame of its own, which scrolls where the page is narrow. ``picture`` is markup."""
    return f"<figure tabindex='0' role='group' aria-label='{escape(name)}'>{picture}</figure>"


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], marked: Mapping[int, str] | None = None) -> str:
    """A table; cells are escaped. ``marked``: number of a row -> its class."""
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = []
    for place, row in enumerate(rows):
        named = zip(columns, row, strict=True)
        cells = "".join(f"<td data-is='{escape(column)}'>{escape(cell) or '-'}</td>" for column, cell in named)
        body.append(f"<tr class='{marked.get(place, '')}'>{cells}</tr>" if marked else f"<tr>{cells}</tr>")
    inside = f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"
    return f"<div class='wide' tabindex='0'>{inside}</div>"


def bullets(title: str, lines: Sequence[str]) -> str:
    """A heading with a list below it; nothing without lines."""
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f"<h2>{escape(title)}</h2><ul>{items}</ul>" if lines else ""


# A SARIF 2.1.0 log: the format that code hosts, editors and security dashboards read.

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def log(
    rules: Iterable[Mapping[str, Any]], results: Iterable[Mapping[str, Any]], unreadable: Sequence[str] = ()
) -> dict[str, Any]:
    """One run. ``unreadable``: what could not be judged; the run then counts as not successful."""
    driver = {"name": "Lazaretto", "semanticVersion": version("lazaretto"), "rules": list(rules)}
    failures = [{"level": "error", "message": {"text": f"could not be read: {place}"}} for place in unreadable]
    run = {
        "tool": {"driver": driver},
        "invocations": [{"executionSuccessful": not failures, "toolExecutionNotifications": failures}],
        "results": list(results),
        "columnKind": "unicodeCodePoints",
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [encodable(run)]}
