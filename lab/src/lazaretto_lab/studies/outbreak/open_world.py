"""How open the open world is: the chance of arrivals that ``outbreak/benign`` settles, before any virus is tried in it.

    lazaretto bench run outbreak/benign
    python -m lazaretto_lab.studies.outbreak.open_world runs    # writes open_world.json beside this file

The rule was written down before the runs: of the chances that were run, the one whose dispersion over the last four
rounds (mean of the seeds) is nearest to .58 of the first four; of two as near, the smaller one.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

from lazaretto.errors import InputError, LazarettoError
from lazaretto.files import write_file

KEPT = 0.58
"""Of the first rounds' dispersion in the last: the paper's benign talk (.38 of .65)."""
_NAME = "lazaretto_lab.studies.outbreak.open_world"
SETTLED = Path(__file__).with_name("open_world.json")


def chosen(kept: Mapping[float, float]) -> float:
    """The chance whose kept dispersion is nearest to ``KEPT``."""
    return min(sorted(kept), key=lambda chance: abs(kept[chance] - KEPT))


def settle(results: Path, place: Path = SETTLED) -> float:
    """Choose by the stored results of ``outbreak/benign`` and write it down; a choice that was made is not changed."""
    from lazaretto_lab.harness.experiment import load_experiment
    from lazaretto_lab.harness.tables import load_results

    experiment = load_experiment("outbreak/benign")
    kept: dict[float, float] = {}
    for result in load_results(experiment, results):
        values = result.values("narrowed")
        if len(values) < int(str(experiment.seeds)):
            raise InputError("results", f"{len(values)} of {experiment.seeds} seeds of {result.row.name!r}", "Run them")
        kept[float(result.row.settings["arrivals"])] = sum(values) / len(values)
    chance = chosen(kept)
    if place.is_file() and (before := settled_arrivals(place)) != chance:
        raise InputError("arrivals", f"{before:g} was settled before, now it would be {chance:g}", f"See {place}")
    data = {"arrivals": chance, "kept": {f"{key:g}": round(value, 4) for key, value in sorted(kept.items())}}
    write_file(place, json.dumps(data, indent=1) + "\n")
    return chance


def settled_arrivals(place: Path = SETTLED) -> float:
    """The chance that was settled."""
    if not place.is_file():
        raise InputError(
            "arrivals", "the open world is not settled yet", f"Run outbreak/benign, then python -m {_NAME}"
        )
    return float(json.loads(place.read_text())["arrivals"])


if __name__ == "__main__":
    try:
        print(f"arrivals {settle(Path(sys.argv[1] if len(sys.argv) > 1 else 'runs')):g}")
    except LazarettoError as error:
        sys.exit(str(error))
