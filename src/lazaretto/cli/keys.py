"""``lazaretto keys``: the callers of the server, and their roles."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import platformdirs
import typer

from lazaretto.api.access import KeyFile, Role
from lazaretto.cli.common import JsonFlag, console, emit, new_table, plain_errors, print_plain, print_table
from lazaretto.types import SourceClass

family = typer.Typer(help="Who may call the server, and as what.", no_args_is_help=True)
FileOption = Annotated[
    Path | None, typer.Option("--file", envvar="LAZARETTO_KEYS", help="Key file. Default: in the user's data folder.")
]


def key_file(path: Path | None) -> KeyFile:
    """The file that is meant."""
    return KeyFile(path or Path(platformdirs.user_data_dir("lazaretto")) / "keys.json")


@family.command("add")
@plain_errors
def add(
    name: Annotated[str, typer.Argument(help="Name of the key.")],
    role: Annotated[Role, typer.Option(help="What it is for.")] = Role.AGENT,
    tenant: Annotated[str, typer.Option(help="The namespace it opens. Default: any.")] = "",
    agent: Annotated[
        list[str] | None, typer.Option(help="Agent it may speak for; repeat it. An agent's key needs one.")
    ] = None,
    any_agent: Annotated[
        bool, typer.Option("--any-agent", help="The key may write as any agent; all count as one writer.")
    ] = False,
    grant: Annotated[
        list[SourceClass] | None,
        typer.Option(help="Source that it may claim, with all that are trusted no more; repeat it."),
    ] = None,
    file: FileOption = None,
) -> None:
    """Make a key and print its secret, once."""
    keys = key_file(file)
    secret = keys.add(name, role, namespace=tenant, agents=agent or (), any_agent=any_agent, grants=grant or ())
    print_plain(secret)
    console.print(f"Kept as a hash in {keys.path}; serve with --keys {keys.path}", markup=False)


@family.command("list")
@plain_errors
def show(file: FileOption = None, json: JsonFlag = False) -> None:
    """List the keys; secrets are not stored."""
    keys = key_file(file).keys()
    rows = [
        {"name": k.name, "role": k.role.value, "namespace": k.namespace, "agents": list(k.agents),
         "any_agent": k.unbound, "grants": [source.value for source in k.grants]}
        for k in keys
    ]  # fmt: skip

    def table() -> None:
        drawn = new_table("name", "role", "namespace", "agents", "grants")
        for key in keys:
            spoken = ", ".join(key.agents) or ("any name, one writer" if key.unbound else "any")
            granted = (
                "every source" if key.role is Role.ADMIN else ", ".join(source.value for source in key.grants) or "none"
            )
            drawn.add_row(key.name, key.role.value, key.namespace or "any", spoken, granted)
        print_table(drawn)

    emit(rows, json, table)


@family.command("revoke")
@plain_errors
def revoke(name: Annotated[str, typer.Argument(help="Name of the key.")], file: FileOption = None) -> None:
    """Make a key open nothing any more, in running servers too."""
    key_file(file).revoke(name)
    console.print(f"revoked {name}", markup=False)
