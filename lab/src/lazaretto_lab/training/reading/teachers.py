"""What a student learns from: screeners that read orders, and for risk a mean of juries and of mpnet.

Every teacher leaves out what its student leaves out. For the student that ships the screener and the jury that ship
take the place of those that are trained here by their recipes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from lazaretto_lab.training.jury import multi_seat
from lazaretto_lab.training.reading import trunk as trunks
from lazaretto_lab.training.reading.batches import RECIPES, Batches
from lazaretto_lab.training.reading.training import inner_of, marks_of, mean_state, risk_of, train, value_of
from lazaretto_lab.training.reading.trunk import Plan, Trunk

SCREENER = Plan(
    steps=1000, orders=256, quiet=48, tools=48, risky=0, rank=32, rate=1.5e-3, head_rate=1.5e-3, decay=0.01,
    vectors=0.0, averaged=0.99, seed=5,
)  # fmt: skip
"""The screener's recipe."""
MPNET = Plan(
    steps=1300, orders=0, quiet=0, tools=0, risky=112, tokens=16384, rank=16, rate=5e-4, head_rate=1e-3, vectors=0.0,
    pooled_dropout=0.1, averaged=0.995, seed=3,
)  # fmt: skip
JURY = multi_seat.Plan(seconds=0.0, most_steps=1000, rank=20, dropout=0.2, decay=0.05, tokens=24576)
LARGER_SHARE = 0.75
"""Of what teaches risk, mpnet's part; juries have the rest."""
_HAZARD_CONTEXT: Mapping[str, Any] = {"loose": {"hazard": 0.05, "context": 0.4, "start": 2}}
Tell = Callable[[str], None]


def shipped(work: Path, name: str) -> dict[str, NDArray[np.float32]]:
    """The arrays of the screener (``screener``) or of a debater (``strict``, ``loose``) that ship."""
    with np.load(work / "shipped.npz") as stored:
        begin = f"{name}/"
        return {
            key.removeprefix(begin): stored[key].astype(np.float32) for key in stored.files if key.startswith(begin)
        }


def screeners(frozen: Mapping[str, Any], batches: Batches, work: Path, device: str, tell: Tell) -> Trunk:
    """A screener for each family that it leaves out, and last the one that ships."""
    count = len(batches.seats)
    trained = Trunk(frozen, batches.plan, device, count)
    train(trained, batches, tell, path=work / "screeners.pt")
    found = Trunk(frozen, batches.plan, device, count + 1)
    for seat in range(count):
        found.take(seat, {name: value[seat] for name, value in (trained.changes | trained.heads).items()})
    arrays = shipped(work, "screener")
    heads = {f"head.marks.{part}": arrays.pop(f"head.{part}") for part in ("weight", "bias")}
    found.take(count, arrays | heads)
    return found


class _Seen(multi_seat.Data):
    """The jury's examples; a seat sees none of those that its split leaves out."""

    def __init__(self, work: Path, splits: Sequence[int]) -> None:
        super().__init__(str(work / "input.npz"))
        with np.load(work / "judged.npz") as stored:
            self._seen = stored["seen"][list(splits)]

    def weights(self, recipe: multi_seat.Recipe) -> NDArray[np.float32]:
        """How much each example counts for a seat whenever it is drawn."""
        found: NDArray[np.float32] = super().weights(replace(recipe, unseen=()))
        found[~self._seen[recipe.unseen[0]]] = 0.0
        return found


def juries(
    frozen: Mapping[str, Any], work: Path, splits: Sequence[int], plan: multi_seat.Plan, tell: Tell
) -> multi_seat.Seats:
    """Strict for each split, Strict as it ships, Loose for each split, Loose as it ships.

    ``splits``: a family of each split, by its place.
    """
    count, device = len(splits), str(frozen[trunks.WORDS].device.type)
    recipes = [
        replace(recipe, name=name, unseen=(k,), **_HAZARD_CONTEXT.get(name, {}))
        for name, recipe in RECIPES.items()
        for k in range(count)
    ]
    trained, path = multi_seat.Seats(frozen, recipes, plan, device), work / "juries.pt"
    if path.exists():
        held = torch.load(path, map_location=device, weights_only=True)
        with torch.no_grad():
            for name, value in (trained.adapters | trained.heads).items():
                value.copy_(held[name])
    else:
        steps = multi_seat.train(trained, _Seen(work, splits), tell)
        torch.save({name: value.detach() for name, value in (trained.adapters | trained.heads).items()}, path)
        tell(f"{steps} steps")
    found = multi_seat.Seats(frozen, [recipes[0]] * (len(RECIPES) * (count + 1)), plan, device)
    with torch.no_grad():
        for n, role in enumerate(RECIPES):
            arrays = shipped(work, role)
            for name, value in (found.adapters | found.heads).items():
                first = n * (count + 1)
                value[first : first + count].copy_(
                    (trained.adapters | trained.heads)[name][n * count : (n + 1) * count]
                )
                value[first + count].copy_(torch.from_numpy(arrays[name]).view_as(value[first + count]))
    return found


@dataclass(frozen=True)
class Teachers:
    """All of them; ``splits``: which split's teacher of risk teaches each seat of the student."""

    orders: Trunk
    jury: multi_seat.Seats
    larger: Trunk
    splits: tuple[int, ...]
    merged: tuple[Mapping[str, Any], Mapping[str, Any], Mapping[str, Any]]

    @classmethod
    def of(cls, orders: Trunk, jury: multi_seat.Seats, larger: Trunk, splits: Sequence[int]) -> Teachers:
        """With all changes merged in once."""
        with torch.no_grad():
            return cls(orders, jury, larger, tuple(splits), (orders.merged(), jury.merged(), larger.merged()))

    def says(self, part: Mapping[str, Any]) -> dict[str, Any]:
        """Marks and values of all texts, risk by both recipes of the rows ``taught``; a row for each student."""
        ids, rows = part["ids"], part["taught"]
        with torch.no_grad():
            marks = marks_of(self.orders, self.orders.states(ids, self.merged[0]), part)
            found = {"marks": marks, "value": value_of(marks, inner_of(ids))}
            some, kind = ids[rows], part["head"][rows]
            picked, count = torch.tensor(self.splits, device=ids.device), self.larger.count
            if not len(rows):
                return found | {name: torch.zeros(len(picked), 0, device=ids.device) for name in RECIPES}
            pooled = mean_state(self.larger.states(some, self.merged[2]), some != 0)
            debaters = self.jury.read(self.jury.pool(some, some != 0, self.merged[1]))["risk"]
            debaters = debaters.gather(2, kind[None, :, None].expand(len(debaters), -1, 1))[:, :, 0]
            for n, name in enumerate(RECIPES):
                larger = risk_of(self.larger, name, pooled, kind)
                found[name] = LARGER_SHARE * larger[picked] + (1 - LARGER_SHARE) * debaters[n * count + picked]
            return found
