"""Makes the embedded jury's weights from public data, and the figures of its model card.

    lazaretto train jury prepare  --data ../shared/data --work runs/jury
    lazaretto train jury train    --work runs/jury --variant deep  (a GPU: minutes)
    lazaretto train jury assemble --work runs/jury --data ../shared/data

``train`` may be run for several ways of training (``learn.jury.runs.VARIANTS``); ``assemble`` ships those that inner
folds choose, one for Strict and one for Loose.

``train`` needs nothing but the work folder, torch, transformers and safetensors, so that it can run on another machine.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from lazaretto.files import write_file

ADDRESSES = Path(__file__).with_name("judge_addresses.txt")


def prepare(arguments: argparse.Namespace) -> None:
    """Data folder -> tokenized data and a half-precision copy of the encoder, ready to travel."""
    from safetensors.torch import load_file, save_file

    from lazaretto.models.minilm import minilm_folder, minilm_tokenizer
    from lazaretto_lab.training.jury.runs import prepare as make
    from lazaretto_lab.training.jury.runs import save_prepared

    arguments.work.mkdir(parents=True, exist_ok=True)
    made = make(arguments.data, ADDRESSES.read_text(encoding="utf-8").splitlines(), minilm_tokenizer())
    save_prepared(made, arguments.work / "prepared.json.gz")
    weights = load_file(minilm_folder() / "model.safetensors")
    halved = {k: v.half() for k, v in weights.items() if v.is_floating_point()}
    save_file(halved, arguments.work / "model.safetensors")
    shutil.copy(minilm_folder() / "config.json", arguments.work)
    print(f"{len(made.items)} examples, {sum(e.fold >= 0 for e in made.items)} of them in folds")


def train(arguments: argparse.Namespace) -> None:
    """Tokenized data -> the two seats and the scores of all cross-validated ones."""
    import torch
    from safetensors.numpy import save_file

    from lazaretto_lab.training.jury.runs import VARIANTS, load_prepared, run

    prepared = load_prepared(arguments.work / "prepared.json.gz")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.backends.cuda.matmul.allow_tf32 = True
    started = time.monotonic()
    marks: dict[int, float] = {}

    def report(step: int, steps: int, loss: float) -> None:
        spent = time.monotonic() - started
        if step % 50 == 0:
            marks[step] = spent
            print(f"step {step}/{steps}, loss {loss:.3f}, {spent:.0f} s", flush=True)
        if step == 150 and arguments.limit:
            # The first steps are slow (kernels are chosen, memory is taken): the next hundred tell the pace.
            whole = spent + (spent - marks[50]) / 100 * (steps - step)
            if whole > arguments.limit:
                sys.exit(f"would take {whole:.0f} s, past the limit of {arguments.limit:.0f} s")

    if arguments.some:
        prepared = replace(prepared, items=prepared.items[:: arguments.some])
    shipped, scores = run(prepared, arguments.encoder or arguments.work, device, report, VARIANTS[arguments.variant])
    arguments.results.mkdir(parents=True, exist_ok=True)
    for name, weights in shipped.items():
        save_file(weights, arguments.results / f"{name}.safetensors")
    np.savez_compressed(arguments.results / "scores.npz", **scores)  # type: ignore[arg-type]
    print(json.dumps({"device": device, "seconds": round(time.monotonic() - started)}))


def assemble(arguments: argparse.Namespace) -> None:
    """All ways of training -> those inner folds choose, figures, fitted numbers, and the folder that is shipped."""
    from lazaretto_lab.training.jury.assembly import assemble_jury, lexicons_of, precedents_of
    from lazaretto_lab.training.jury.evaluation import SEATS
    from lazaretto_lab.training.jury.scores import load_development

    kept = arguments.work / "precedents.json"
    if not kept.is_file():
        write_file(kept, json.dumps(precedents_of(arguments.data / "air_bench")))
    lexical = lexicons_of(arguments.data, arguments.work)
    development = load_development(arguments.work, json.loads(kept.read_text(encoding="utf-8")), lexical)
    arguments.out.mkdir(parents=True, exist_ok=True)
    for seat, way in zip(SEATS, development.final, strict=True):
        shutil.copyfile(arguments.work / way / f"{seat}.safetensors", arguments.out / f"{seat}.safetensors")
    shutil.copyfile(arguments.work / "lexicon.safetensors", arguments.out / "lexicon.safetensors")
    manifest = assemble_jury(development, arguments.out)
    (arguments.out / "jury.json").write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(manifest["measured"], indent=1))


def main() -> None:
    """The three steps."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    steps = parser.add_subparsers(required=True)
    one = steps.add_parser("prepare")
    one.add_argument("--data", type=Path, required=True)
    two = steps.add_parser("train")
    two.add_argument("--limit", type=float, default=0.0, help="give up early when it would take longer, in seconds")
    two.add_argument("--results", type=Path, default=None)
    two.add_argument("--variant", default="deep", help="which of the ways in learn.jury.runs.VARIANTS")
    two.add_argument("--encoder", type=Path, default=None, help="folder of all-MiniLM-L6-v2, else the work folder's")
    two.add_argument("--some", type=int, default=0, help="train on every n-th example only, to try the road")
    three = steps.add_parser("assemble")
    three.add_argument("--data", type=Path, required=True)
    three.add_argument("--out", type=Path, default=Path("src/lazaretto/models/weights/jury"))
    for step, function in ((one, prepare), (two, train), (three, assemble)):
        step.add_argument("--work", type=Path, required=True)
        step.set_defaults(function=function)
    arguments = parser.parse_args()
    if getattr(arguments, "results", 0) is None:
        arguments.results = arguments.work / arguments.variant
    arguments.function(arguments)


if __name__ == "__main__":
    main()
