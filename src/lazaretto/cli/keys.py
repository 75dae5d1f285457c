"""``lazaretto keys``: who may call the server, and as what."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import platformdirs
import typer

from lazaretto.api.access import KeyFile, Role
from lazaretto.cli.common import JsonFlag, console, emit, new_table, plain_errors, print_table

FileOption = Annotated[
    Path | None, typer.Option("--file", envvar="LAZARETTO_KEYS", help="Key file. Default: in the user's data folder.")
]


def key_file(path: Path | None) -> KeyFile:
    """The file that is meant."""
    return KeyFile(path or Path(platformdirs.user_data_dir("lazaretto")) / "keys.json")


@plain_errors
def add(
    name: Annotated[str, typer.Argument(help="Who will hold it.")],
    role: Annotated[Role, typer.Option(help="What it is for.")] = Role.AGENT,
    tenant: Annotated[str, typer.Option(help="The namespace it opens. Default: any.")] = "",
    agent: Annotated[list[str] | None, typer.Option(help="Agent it may speak for; repeat it. Default: any.")] = None,
    file: FileOption = None,
) -> None:
    """Make a key and print its secret, once."""
    keys = key_file(file)
    secret = keys.add(name, role, namespace=tenant, agents=agent or ())
    console.print(secret, markup=False, highlight=False)
    console.print(f"Kept as a hash in {keys.path}; serve with --keys {keys.path}", markup=False)


@plain_errors
def show(file: FileOption = None, json: JsonFlag = False) -> None:
    """List the keys; secrets are not among what is kept."""
    keys = key_file(file).keys()
    rows = [{"name": k.name, "role": k.role.value, "namespace": k.namespace, "agents": list(k.agents)} for k in keys]

    def table() -> None:
        drawn = new_table("name", "role", "namespace", "agents")
        for row in rows:
            drawn.add_row(
                str(row["name"]), str(row["role"]), str(row["namespace"]) or "any", ", ".join(row["agents"]) or "any"
            )
        print_table(drawn)

    emit(rows, json, table)


@plain_errors
def revoke(name: Annotated[str, typer.Argument(help="Whose key.")], file: FileOption = None) -> None:
    """Make a key open nothing any more; running servers learn of it when they start again."""
    key_file(file).revoke(name)
    console.print(f"revoked {name}", markup=False)


def register(app: typer.Typer) -> None:
    """Add ``keys`` to the application."""
    keys = typer.Typer(help="Who may call the server, and as what.", no_args_is_help=True)
    keys.command("add")(add)
    keys.command("list")(show)
    keys.command("revoke")(revoke)
    app.add_typer(keys, name="keys")
