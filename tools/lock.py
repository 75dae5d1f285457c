"""Write requirements.lock: every package that the product with its extras needs, pinned, each with its hashes.

    python tools/lock.py            # after changing pyproject.toml or constraints.txt
    make locked                     # an environment from exactly these files

pip resolves under constraints.txt and says which file it would install; its sha256 is written down, and those of
the version's other files where the index offers them, so that other platforms may install from the same list.
torch is left out: its wheels differ by index. Without network access to an index that knows the packages it fails.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
EXTRAS = ("gates", "privacy", "vision", "openai", "sign", "api", "postgres")
LOCK = ROOT / "requirements.lock"


def resolved() -> list[dict[str, Any]]:
    """What pip would install into an empty environment."""
    command = [
        sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--report", "-",
        "--constraint", str(ROOT / "constraints.txt"), f"{ROOT}[{','.join(EXTRAS)}]",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"pip cannot resolve the product:\n{done.stderr}")
    found: list[dict[str, Any]] = json.loads(done.stdout)["install"]
    return [one for one in found if one["metadata"]["name"] != "lazaretto"]


def hashes(one: dict[str, Any]) -> list[str]:
    """sha256 of the chosen file first, then of the version's others where the package index tells."""
    chosen = one["download_info"]["archive_info"]["hashes"]["sha256"]
    name, version = one["metadata"]["name"], one["metadata"]["version"]
    url = f"https://pypi.org/pypi/{name}/{version}/json"
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            offered = [file["digests"]["sha256"] for file in json.load(answer)["urls"]]
    except (urllib.error.URLError, TimeoutError, KeyError, ValueError):
        offered = []
    return [chosen, *sorted(set(offered) - {chosen})]


def main() -> None:
    """Resolve, and write the list."""
    lines = ["# Made by `python tools/lock.py`; do not edit. Installed by `make locked`."]
    packages = sorted(resolved(), key=lambda one: _normal(one["metadata"]["name"]))
    for one in packages:
        sums = " \\\n".join(f"    --hash=sha256:{digest}" for digest in hashes(one))
        lines.append(f"{_normal(one['metadata']['name'])}=={one['metadata']['version']} \\\n{sums}")
    LOCK.write_text("\n".join(lines) + "\n", encoding="ascii")
    print(f"wrote {LOCK.name}: {len(packages)} packages")


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    main()
