"""Gathers the pages of the documentation site: ``docs/``, the pages at the root, decisions, and generated references.

    python tools/make_docs.py build/docs        # then: mkdocs build (make docs does both)

The pages stay plain Markdown that reads well in the repository; only their links are turned here, because the site's
root is another. The references of commands and of the Python interface are made from the code.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lazaretto

REPOSITORY = Path(__file__).resolve().parent.parent
ROOT_PAGES = ("ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
LINK = re.compile(r"(\]\()([^)#\s:]+)((?:#[^)]*)?\))")


def pages() -> dict[Path, Path]:
    """Where each page of the repository stands on the site."""
    found = {REPOSITORY / "README.md": Path("index.md")}
    found |= {REPOSITORY / name: Path(name.lower()) for name in ROOT_PAGES}
    found |= {
        page: page.relative_to(REPOSITORY / "docs") for page in (REPOSITORY / "docs").rglob("*") if page.is_file()
    }
    for folder in ("decisions", "research"):
        found |= {page: page.relative_to(REPOSITORY) for page in (REPOSITORY / folder).rglob("*.md")}
    return found


def turned(text: str, page: Path, places: dict[Path, Path]) -> str:
    """A page with its links leading to where things stand on the site; what is not there is named without a link."""

    def link(match: re.Match[str]) -> str:
        target = (page.parent / match[2]).resolve()
        if target.is_dir():
            target = target / "README.md"
        if target not in places:
            return f"]({match[2]})" if not target.exists() else "](#)"
        return match[1] + Path(os.path.relpath(places[target], places[page].parent)).as_posix() + match[3]

    return LINK.sub(link, text)


def gather(out: Path) -> None:
    """Write the whole site's sources."""
    shutil.rmtree(out, ignore_errors=True)
    places = pages()
    for page, place in places.items():
        target = out / place
        target.parent.mkdir(parents=True, exist_ok=True)
        if page.suffix == ".md":
            target.write_text(turned(page.read_text(encoding="utf-8"), page, places), encoding="utf-8")
        else:
            shutil.copy(page, target)
    reference = out / "reference"
    reference.mkdir()
    (reference / "commands.md").write_text(commands_page(), encoding="utf-8")
    (reference / "python.md").write_text(python_page(), encoding="utf-8")


def commands_page() -> str:
    """Every command of the product with its arguments and options."""
    import typer.main

    from lazaretto.cli import FAMILIES
    from lazaretto.cli.application import add_family

    app = typer.Typer()
    for family in FAMILIES:
        add_family(app, family)
    codes = "0 fine, 1 bad news, 2 wrong input, 3 store, 4 refused, 5 missing part"
    parts = [f"# Commands\n\nMade from the code. Exit codes: {codes}.\n"]
    for name, command in _commands(typer.main.get_command(app)):
        parts.append(f"## lazaretto {name}\n\n{inspect.cleandoc(command.help or '')}\n")
        rows = [_parameter(one) for one in command.params if one.name != "help"]
        if rows:
            parts.append("| option | default | what it is |\n|---|---|---|\n" + "\n".join(rows) + "\n")
    return "\n".join(parts)


def _commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if command.hidden:  # old names
            continue
        if hasattr(command, "commands"):
            yield from _commands(command, (*path, name))
        else:
            yield " ".join((*path, name)), command


def _parameter(one: Any) -> str:
    argument = one.param_type_name == "argument"
    names = one.name.upper() if argument else ", ".join(one.opts)
    default = (
        "required"
        if one.required
        else ""
        if one.default in (None, False, "", ()) or callable(one.default)
        else one.default
    )
    variable = f" Environment: `{one.envvar}`." if getattr(one, "envvar", None) else ""
    words = f"{getattr(one, 'help', None) or ''}{variable}".replace("|", "\\|").replace("\n", " ")
    return f"| `{names}` | {default} | {words} |"


def python_page() -> str:
    """Everything that users import from ``lazaretto`` and ``lazaretto.testing``."""
    parts = ["# Python\n\nMade from the code: what `lazaretto` and `lazaretto.testing` offer.\n"]
    for module in (lazaretto, importlib.import_module("lazaretto.testing")):
        names = sorted(getattr(module, "__all__", ()) or [n for n in vars(module) if not n.startswith("_")])
        for name in names:
            thing = getattr(module, name)
            own = module is lazaretto or getattr(thing, "__module__", "") == module.__name__
            if own and (inspect.isclass(thing) or inspect.isfunction(thing)):
                parts.append(_described(f"{module.__name__}.{name}", thing))
    return "\n".join(parts)


def _described(name: str, thing: Any) -> str:
    lines = [f"## {name}\n", f"```text\n{_signature(name, thing)}\n```\n", inspect.getdoc(thing) or "", ""]
    if inspect.isclass(thing):
        own = [one for one in reversed(thing.__mro__) if one.__module__.startswith("lazaretto")]
        for method, call in {name: call for one in own for name, call in vars(one).items()}.items():
            call = getattr(call, "__func__", call)
            if not method.startswith("_") and inspect.isfunction(call) and call.__doc__:
                lines += [
                    f"### {method}\n",
                    f"```text\n{_signature(method, call)}\n```\n",
                    inspect.cleandoc(call.__doc__),
                    "",
                ]
    return "\n".join(lines)


def _signature(name: str, thing: Any) -> str:
    try:
        return f"{name}{inspect.signature(thing)}"
    except (TypeError, ValueError):
        return name


def main() -> None:
    """Gather the sources of the site."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    gather(options.out)
    print(f"{sum(1 for _ in options.out.rglob('*.md'))} pages in {options.out}")


if __name__ == "__main__":
    main()
