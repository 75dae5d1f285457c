"""Makes the embedded jury's weights from public data, and the figures of its model card.

    lazaretto train jury prepare  --data ../shared/data --work runs/jury
    lazaretto train jury train    --work runs/jury                        (a GPU: minutes)
    lazaretto train jury assemble --work runs/jury

``prepare`` leaves a folder that can travel: ``multi_seat.py`` trains from it with torch and numpy alone, for the time
it is given. ``assemble`` fits what is shipped beside the weights and measures it.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path

from lazaretto_lab.training.jury import multi_seat

ADDRESSES = Path(__file__).with_name("judge_addresses.txt")


def prepare(arguments: argparse.Namespace) -> None:
    """Data folder -> tokenized data, the plan of the training, and the program that carries it out."""
    from lazaretto_lab.training.jury.bundle import LOOSE, STRICT, held_out, labelled, write_examples, write_input

    arguments.work.mkdir(parents=True, exist_ok=True)
    examples, numbers = labelled(arguments.data)
    write_input(examples, numbers, ADDRESSES.read_text(encoding="utf-8").splitlines(), arguments.work / "input.npz")
    write_examples(examples, numbers, arguments.work / "examples.jsonl")
    recipes = [recipe for seat in (STRICT, LOOSE) for recipe in held_out(seat, 0, 1)]
    plan = {"seconds": arguments.seconds, "most_steps": arguments.steps, "rank": 20, "dropout": 0.2, "decay": 0.05}
    job = {"name": "jury", "recipes": recipes, "plan": plan, "scoring": 40, "until": arguments.seconds + 60}
    (arguments.work / "plan.json").write_text(json.dumps([job]), encoding="utf-8")
    shutil.copy(Path(multi_seat.__file__), arguments.work)
    print(f"{len(examples)} examples, {sum(n >= 0 for n in numbers)} of them in folds; {len(recipes)} seats")


def train(arguments: argparse.Namespace) -> None:
    """Tokenized data -> the seats that may ship and the scores of all cross-validated ones."""
    from lazaretto.models.minilm import minilm_folder

    encoder = arguments.encoder or minilm_folder() / "model.safetensors"
    multi_seat.main(
        str(arguments.work / "input.npz"),
        str(arguments.work / "plan.json"),
        str(encoder),
        str(arguments.work),
        arguments.some,
    )


def assemble(arguments: argparse.Namespace) -> None:
    """Scores -> fitted numbers, figures, and the folder that is shipped."""
    from lazaretto_lab.training.jury.assembly import assemble_jury

    manifest = assemble_jury(arguments.work, arguments.out, arguments.seats.split(","))
    print(json.dumps(manifest["measured"], indent=1))


def main() -> None:
    """The three steps."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    steps = parser.add_subparsers(required=True)
    one = steps.add_parser("prepare")
    one.add_argument("--data", type=Path, required=True)
    one.add_argument("--seconds", type=float, default=200.0, help="time for the training")
    one.add_argument("--steps", type=int, default=1000, help="at most so many steps")
    two = steps.add_parser("train")
    two.add_argument("--encoder", type=Path, default=None, help="all-MiniLM-L6-v2's model.safetensors")
    two.add_argument("--some", type=int, default=0, help="train on every n-th example only, to try the road")
    three = steps.add_parser("assemble")
    three.add_argument("--seats", default="strict,loose", help="which trained seats are Strict and Loose")
    three.add_argument("--out", type=Path, default=Path("src/lazaretto/models/weights/jury"))
    for step, function in ((one, prepare), (two, train), (three, assemble)):
        step.add_argument("--work", type=Path, required=True)
        step.set_defaults(function=function)
    arguments = parser.parse_args()
    arguments.function(arguments)


if __name__ == "__main__":
    main()
