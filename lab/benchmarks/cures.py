"""Seeks the cures that Cowpox answers the shipped attack pictures with, as hard as those pictures were sought.

    python lab/benchmarks/cures.py --out runs/cures --device cuda --rows pixel

The experiments find them in ``studies/outbreak/cures``, and what lies there is not sought again: take it away to make
it anew. A cure that is not there is sought when it is needed, which takes hours without a GPU.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

from lazaretto_lab.harness.experiment import load_experiment
from lazaretto_lab.studies.outbreak.attack import viruses_for
from lazaretto_lab.studies.outbreak.components import DefenceContext
from lazaretto_lab.studies.outbreak.cowpox import cowpox
from lazaretto_lab.studies.outbreak.models import models_for
from lazaretto_lab.studies.outbreak.settings import read_settings
from lazaretto_lab.worlds.album_chat.cowpox import Cowpox


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("runs/cures"))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rows", default="", help="only rows with this text in their name")
    options = parser.parse_args()
    os.environ["LAZARETTO_CACHE"] = str(options.out)
    for row in load_experiment("foresight/table1").expanded_rows():
        if row.settings.get("defence") != "cowpox" or options.rows not in row.name:
            continue
        settings = read_settings({**row.settings, "models": {"device": options.device}})
        chat, embedder = models_for(settings.models, notes=False)
        (virus,) = viruses_for(settings)
        context = DefenceContext(chat, embedder, (), (virus,), settings, 0, options.out)
        defence, began = cowpox(settings.defence_settings, context), time.perf_counter()
        assert isinstance(defence, Cowpox)
        cure = defence.make_cure(virus.album_item, virus.target)
        print(f"{row.name}: cure {cure.key[:12]} after {time.perf_counter() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
