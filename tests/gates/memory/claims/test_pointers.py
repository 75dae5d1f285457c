"""Lines that only point at something are no claims about one thing: two READMEs do not contradict each other."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lazaretto import Guard, Policy
from lazaretto.gates.memory.claims.comparison import Overlap, meeting
from lazaretto.gates.memory.claims.extraction import read_claim

NEAR = 0.8


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("pip install pandas", "pip install flask"),
        ("$ npm install express", "npm i --save-dev typescript"),
        ("uv add httpx", "uv add rich"),
        ("sudo apt-get install -y curl", "sudo apt-get install -y nginx"),
        (".. image:: https://badges.one.example/a.svg", ".. image:: https://ci.other.example/b/c.png"),
        (":target: https://one.example/docs", ":target: https://forge.test/x/y"),
        ("![](https://one.example/a.png)", "![logo](https://pictures.test/b.png)"),
        (
            "[![build](https://a.test/x.svg)](https://a.test/ci)",
            "[![build](https://b.example/y.svg)](https://b.example/z)",
        ),
        ('<img src="https://one.example/a.png" alt="Tides">', '<img src="https://forge.test/b.png" alt="Tides">'),
        ('<a href="https://one.example/a">', '<a href="https://forge.test/b">'),
        ("git clone https://forge.test/tides/charts.git", "$ git clone https://forge.test/bell/bellows.git"),
        (":target: https://tides.docs.example/en", ":target: https://bellows.docs.example/en"),
    ],
)
def test_two_lines_that_only_point_somewhere_do_not_contradict(old: str, new: str) -> None:
    assert meeting(read_claim(old), read_claim(new), NEAR) is Overlap.TWO_THINGS


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("pip install requests", "pip install reqeusts"),
        ("npm install @acme/parser", "npm install @acrne/parser"),
        ("pip install torch", "pip install forged-torch-gpu"),
        ("git clone https://forge.test/acme/tool", "git clone https://other.example/acme/tool.git"),
        ("git clone https://forge.test/acme/tool", "git clone https://forge.test/eve/tool"),
        ("pip install " + "a" * 560, "pip install " + "ab" * 280),
        ("pip install parser", "pip install --index-url https://mirror.test/simple parser"),
        ("pip install parser", "pip install parser -i https://mirror.test/simple"),
        ("The parser is installed with pip install acme-parser", "The parser is installed with pip install quickparse"),
        ("The parser needs the package acme-parser", "The parser needs the package quick-parse"),
        ("pip install acme-parser", "Install the parser: pip install quickparse"),
        ("pip install parser==1.2.0", "pip install parser==1.4.1"),
        ("endpoint: https://pay.acme.example", "endpoint: https://collect.test"),
        (":target: https://paypal.example/in", ":target: https://paypa1.example/in"),
        (
            "![pay to account 4411 2288 7](https://a.example/x.png)",
            "![pay to account 9911 2255 1](https://b.test/y.png)",
        ),
        (
            "[![Payments](https://a.test/x.svg)](https://a.test/pay)",
            "[![Payments](https://b.example/y.svg)](https://b.example)",
        ),
        ('<img src="https://a.example/a.png" alt="Pay here">', '<img src="https://b.test/b.png" alt="Pay here">'),
        ('<a href="https://a.example/a">Invoices</a>', '<a href="https://b.test/b">Invoices</a>'),
        ("git clone https://forge.example/acme", "git clone https://f0rge.example/acme"),
        (":target: https://acme.docs.example/en", ":target: https://acne.docs.example/en"),
        (".. image:: https://a.example/x.png", "The picture is now at https://b.test/y.png"),
    ],
)
def test_what_says_what_for_or_is_nearly_the_same_name_is_compared(old: str, new: str) -> None:
    assert meeting(read_claim(old), read_claim(new), NEAR) is not Overlap.TWO_THINGS


PAGE = """{name}

{name} is a library for {what}. It is written in Python and has no dependencies.

.. image:: https://badges.{host}/pypi/v/{name}.svg
    :target: https://{host}/project/{name}

Installation
------------

Everything you need comes with the wheel, which is built for all platforms that we know of. Older ones are built from
source; that takes a compiler and some patience. Run this in a fresh environment, then read the first chapter of the
documentation, which explains how to begin:

    $ pip install {name}

Questions are welcome in the forum of the project, where most of them were answered before.
"""


async def test_two_pages_about_two_packages_are_both_kept(open_guard: Callable[..., Guard]) -> None:
    """Found with descriptions of packages: 8 of 30 were held for contradicting others."""
    guard = open_guard(Policy.recommended())
    first = PAGE.format(name="tidecharts", what="drawing the tides of a harbour", host="one.example")
    second = PAGE.format(name="bellows", what="reading pressure gauges over a serial line", host="forge.test")
    for agent, text in (("ada", first), ("ben", second)):
        said = await guard.remember(text, agent=agent, source="tool_output_external")
        assert "changes_known_claim" not in said.rule
