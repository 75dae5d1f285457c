"""One unit of the study by hand, with any model:

python -m lazaretto_lab.studies.crews --model hf:FOLDER --defence guard --tasks 5
python -m lazaretto_lab.studies.crews --model endpoint:http://127.0.0.1:8080/v1#NAME --out unit.json
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import orjson

from lazaretto.errors import LazarettoError
from lazaretto_lab.harness.context import RunContext
from lazaretto_lab.studies.crews.runner import run


def main() -> None:
    """Run, print the shares, and keep every case where ``--out`` says so."""
    options = argparse.ArgumentParser(prog="python -m lazaretto_lab.studies.crews", description=__doc__)
    options.add_argument("--model", required=True, help="hf:FOLDER, endpoint:URL#NAME or scripted:obedient")
    options.add_argument(
        "--defence", default="none", help="none, spotlighting, agent-memory-guard, guard, guard+deep, guard+actions"
    )
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--tasks", type=int, help="the first so many; default: all")
    options.add_argument("--out", type=Path, help="file for every case, as JSON")
    given = options.parse_args()
    settings = {"model": given.model, "defence": given.defence, "limit": given.tasks}
    try:
        with tempfile.TemporaryDirectory() as folder:
            found = dict(run(settings, given.seed, RunContext(Path(folder))))
    except (LazarettoError, RuntimeError) as error:
        raise SystemExit(str(error)) from None
    if given.out:
        given.out.write_bytes(orjson.dumps({"settings": settings, "seed": given.seed, **found}))
    del found["cases"]
    print(orjson.dumps(found, option=orjson.OPT_INDENT_2).decode())


if __name__ == "__main__":
    main()
