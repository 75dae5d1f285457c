"""Trains all seats of a trunk at once on shared batches, by labels and, where there is one, by a teacher.

Seat k never sees fold k of the risky texts nor the families of orders that belong to it; the last split leaves nothing
out. Heads: marks per token for orders, quiet lies and poisoned descriptions; risk for four kinds of content, once for
Strict and once for Loose; hazards; benign contexts; a vector that is close to what the plain encoder makes of a stretch
by itself. A student's seat is taught by teachers that left out the same; ``distil.py`` runs both.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch
from torch.nn import functional
from torch.utils.data import DataLoader, Subset

from lazaretto_lab.training.reading.batches import RECIPES, Batches
from lazaretto_lab.training.reading.trunk import Trunk
from lazaretto_lab.training.screener import training as screener

KEPT_EVERY = 40.0
"""Seconds between two states of a training on the disk."""
_CHECKS = (40, 120, 300, 700, 1200, 1800, 2500)
"""Steps at which the number of steps is reckoned anew from the pace."""


class Teaches(Protocol):
    """What a student learns from besides labels."""

    def says(self, part: Mapping[str, Any]) -> dict[str, Any]:
        """``marks`` and ``value``, one row for each student; risk by both recipes, of the rows ``taught``."""
        ...


def mean_state(states: Any, mask: Any) -> Any:
    """The mean over the tokens of a mask (batch, length)."""
    share = mask.float() / mask.sum(1, keepdim=True).clamp(min=1)
    return (states.float() * share[None, :, :, None]).sum(2)


def inner_of(ids: Any) -> Any:
    """Which tokens are marked: all but padding and the first, (1, batch, length)."""
    inner = (ids != 0).float()[None].clone()
    inner[:, :, 0] = 0
    return inner


def marks_of(trunk: Trunk, states: Any, part: Mapping[str, Any]) -> Any:
    """A logit per token, of what each text is read for: (seats, batch, length)."""
    marks = trunk.head("marks", states)
    return marks.gather(3, part["task"][None, :, None, None].expand(*marks.shape[:3], 1))[..., 0]


def value_of(marks: Any, inner: Any) -> Any:
    """A logit per text: the mean of its top marks, (seats, batch)."""
    hidden = marks.masked_fill(inner == 0, -1e4)
    top = torch.topk(hidden, min(screener.TOP_TOKENS, hidden.shape[2]), dim=2).values
    valid = (top > -9e3).float()
    return (top * valid).sum(2) / valid.sum(2).clamp(min=1)


def risk_of(trunk: Trunk, seat: str, pooled: Any, kind: Any) -> Any:
    """A logit per text for its kind of content (batch): (seats, batch)."""
    return trunk.head(seat, pooled).gather(2, kind[None, :, None].expand(trunk.count, -1, 1))[:, :, 0]


@dataclass(frozen=True)
class Moment:
    """How far a training is."""

    later: bool
    risk: float
    """Weight of the labels of risk, where there is a teacher."""


def loss_of(
    trunk: Trunk, part: Mapping[str, Any], merged: Mapping[str, Any], moment: Moment, teacher: Teaches | None
) -> Any:
    """One loss per seat, a sum over the rows of a pass."""
    plan, ids = trunk.plan, part["ids"]
    rows = plan.orders + plan.quiet + plan.tools + plan.risky + plan.transfer
    said = teacher.says(part) if teacher else None
    states = trunk.states(ids, merged, drop=plan.dropout)
    loss = torch.zeros(trunk.count, device=ids.device)
    if plan.orders:
        marks, inner = marks_of(trunk, states, part), inner_of(ids)
        value = value_of(marks, inner)
        loss = loss + _orders_loss(marks, value, inner, part) / plan.orders
        if said is not None:
            loss = loss + plan.taught_orders * _taught_orders((marks, value, inner), part, said, plan.softness) / rows
    if plan.risky:
        pooled = functional.dropout(mean_state(states, ids != 0), plan.pooled_dropout)
        share = 1.0
        if said is not None:
            share = moment.risk
            loss = loss + plan.taught_risk * _taught_risk(trunk, pooled, part, said) / rows
        loss = loss + share * _risk_loss(trunk, pooled, part, moment.later)
    if plan.vectors:
        loss = loss + plan.vectors * _vector_loss(trunk, states, part) * len(ids) / rows
    return loss


def _orders_loss(marks: Any, value: Any, inner: Any, part: Mapping[str, Any]) -> Any:
    """Every token's mark, and every text's label."""
    token = functional.binary_cross_entropy_with_logits(marks, part["marks"][None].expand_as(marks), reduction="none")
    per_text = (token * inner).sum(2) / inner.sum(2).clamp(min=1)
    record = functional.binary_cross_entropy_with_logits(value, part["label"][None].expand_as(value), reduction="none")
    return ((per_text + record) * part["seen"] * part["order"]).sum(1)


def _apart(mine: Any, theirs: Any, soft: float) -> Any:
    """How far logits are from a teacher's."""
    wanted = torch.sigmoid(theirs / soft)
    return soft * functional.binary_cross_entropy_with_logits(mine / soft, wanted, reduction="none")


def _taught_orders(made: Sequence[Any], part: Mapping[str, Any], said: Mapping[str, Any], soft: float) -> Any:
    """How far a seat is from its teacher in marks and value, over every text that both may see."""
    marks, value, inner = made
    per_text = (_apart(marks, said["marks"], soft) * inner).sum(2) / inner.sum(2).clamp(min=1)
    return ((per_text + _apart(value, said["value"], soft)) * part["seen"]).sum(1)


def _taught_risk(trunk: Trunk, pooled: Any, part: Mapping[str, Any], said: Mapping[str, Any]) -> Any:
    """How far a seat is from its teachers of risk, over the texts of risk and those without labels."""
    rows = part["taught"]
    if not len(rows):
        return torch.zeros(trunk.count, device=pooled.device)
    several = pooled[:, rows], part["head"][rows]
    apart = sum(_apart(risk_of(trunk, seat, *several), said[seat], trunk.plan.softness) for seat in RECIPES)
    return (apart * part["seen"][:, rows]).sum(1) / len(RECIPES)


def _risk_loss(trunk: Trunk, pooled: Any, part: Mapping[str, Any], later: bool) -> Any:
    plan, count, seen = trunk.plan, trunk.count, part["seen"] * part["risk"]
    total = torch.zeros(count, device=pooled.device)
    share = part["risk"].sum() / plan.risky
    for n, (seat, recipe) in enumerate(RECIPES.items()):
        logits = risk_of(trunk, seat, pooled, part["head"])
        weight = seen * part["weight"][n][None]
        target = (part["label"] * (1 - 2 * recipe.smoothing) + recipe.smoothing)[None].expand_as(logits)
        if later:
            mixed = recipe.given * target + (1 - recipe.given) * torch.sigmoid(logits.detach())
            target = torch.where(part["noisy"][None], mixed, target)
        miss = functional.binary_cross_entropy_with_logits(logits, target, reduction="none")
        total = total + (miss * weight).sum(1) / (plan.risky * part["mean_weight"][n])
        text = (part["head"] == 0).float()[None]
        bad, good = weight * text * (part["label"] > 0.5), weight * text * (part["label"] < 0.5)
        gap = functional.softplus(logits[:, None, :] - logits[:, :, None])
        pairs = bad[:, :, None] * good[:, None, :]
        total = total + share * recipe.rank * (gap * pairs).sum((1, 2)) / pairs.sum((1, 2)).clamp(min=1e-3)
    named = seen * (part["hazard"] >= 0).float()[None]
    odds = functional.log_softmax(trunk.head("hazard", pooled), 2)
    odds = odds.gather(2, part["hazard"].clamp(min=0)[None, :, None].expand(count, -1, 1))[:, :, 0]
    total = total - share * plan.hazard * (odds * named).sum(1) / named.sum(1).clamp(min=4)
    known = seen * part["known"][None]
    wrong = functional.binary_cross_entropy_with_logits(
        trunk.head("context", pooled), part["contexts"].expand(count, -1, -1), reduction="none"
    ).mean(2)
    return total + share * plan.context * (wrong * known).sum(1) / known.sum(1).clamp(min=4)


def _vector_loss(trunk: Trunk, states: Any, part: Mapping[str, Any]) -> Any:
    """How far a stretch's vector lies from the plain encoder's: a mean over the rows, per seat."""
    with torch.no_grad():
        wanted = mean_state(trunk.states(part["span_ids"], None), part["span_ids"] != 0)[0]
    places = torch.arange(states.shape[2], device=states.device)[None]
    inside = (places >= part["span"][:, :1]) & (places < part["span"][:, 1:])
    made = mean_state(states, inside) @ trunk.heads["head.vector.weight"].transpose(1, 2)
    return (1 - functional.cosine_similarity(made, wanted[None], dim=2)).mean(1)


@dataclass
class Progress:
    """Where a training stands; kept on the disk, so that one that was cut goes on."""

    trunk: Trunk
    optimizer: Any
    averages: list[Any]
    step: int = 0
    steps: int = 0
    spent: float = 0.0
    path: Path | None = None
    losses: list[float] = field(default_factory=list)

    def keep(self) -> None:
        """Write the state; half a file never stands in its place."""
        if self.path is not None:
            part = self.path.with_suffix(".part")
            torch.save(
                {
                    "parameters": [p.detach() for p in self.trunk.parameters()], "averages": self.averages,
                    "optimizer": self.optimizer.state_dict(), "step": self.step, "steps": self.steps,
                    "spent": self.spent, "losses": self.losses,
                },
                part,
            )  # fmt: skip
            part.replace(self.path)

    def take_up(self) -> None:
        """Go on from the state on the disk, if there is one."""
        if self.path is not None and self.path.exists():
            held = torch.load(self.path, map_location=self.trunk.device, weights_only=True)
            with torch.no_grad():
                for mine, kept in zip(self.trunk.parameters(), held["parameters"], strict=True):
                    mine.copy_(kept)
                torch._foreach_copy_(self.averages, held["averages"])
            self.optimizer.load_state_dict(held["optimizer"])
            self.step, self.steps, self.spent, self.losses = (held[k] for k in ("step", "steps", "spent", "losses"))


def train(
    trunk: Trunk,
    batches: Batches,
    tell: Callable[[str], None],
    teacher: Teaches | None = None,
    path: Path | None = None,
) -> Progress:
    """All seats together, for the plan's time; afterwards the trunk holds the running mean of its weights."""
    plan, device = trunk.plan, trunk.device
    torch.manual_seed(plan.seed)
    optimizer = torch.optim.AdamW(
        [
            {"params": list(trunk.changes.values()), "lr": plan.rate},
            {"params": list(trunk.heads.values()), "lr": plan.head_rate},
        ],
        weight_decay=plan.decay,
        fused=device == "cuda",
    )
    at = Progress(trunk, optimizer, [p.detach().clone() for p in trunk.parameters()], steps=plan.steps, path=path)
    at.take_up()
    if at.step:
        tell(f"goes on at step {at.step} of {at.steps} after {at.spent:.0f} s")
    if at.step < at.steps:
        _run(at, batches, tell, teacher)
    at.keep()
    with torch.no_grad():
        torch._foreach_copy_(trunk.parameters(), at.averages)
    return at


def _run(at: Progress, batches: Batches, tell: Callable[[str], None], teacher: Teaches | None) -> None:
    trunk, plan, parameters = at.trunk, at.trunk.plan, at.trunk.parameters()
    chance, factors = batches.risky.chance, batches.factors
    mean_weight = torch.tensor((factors * chance).sum(1) / chance.sum(), device=trunk.device)
    loader: Any = DataLoader(
        Subset(batches, range(at.step, plan.steps)), batch_size=None, shuffle=False, num_workers=plan.workers,
        collate_fn=_as_it_is, prefetch_factor=4 if plan.workers else None,
    )  # fmt: skip
    started, before, first = time.monotonic(), at.spent, at.step
    measured, kept, total = started, started, torch.zeros((), device=trunk.device)
    for parts in loader:
        now, done = time.monotonic(), at.step - first
        at.spent = before + now - started
        if done == 15:
            measured = now
        if done in _CHECKS:
            pace = (now - measured) / (done - 15)
            at.steps = max(at.step + 10, min(plan.steps, at.step + int((plan.seconds - now + started) / pace)))
            tell(f"step {at.step}: {pace:.3f} s a step, {at.steps} steps in all")
        if at.step >= at.steps or now - started > plan.seconds * 1.05:
            break
        if now - kept > KEPT_EVERY:
            at.keep()
            kept = time.monotonic()
        total += _step(at, parts, mean_weight, teacher)
        share = min(plan.averaged, (at.step + 1) / (at.step + 10))
        torch._foreach_lerp_(at.averages, [p.detach() for p in parameters], 1 - share)
        at.step += 1
        if at.step % 100 == 0:
            at.losses.append(round(float(total) / 100, 4))
            tell(f"step {at.step}/{at.steps}, loss {at.losses[-1]:.3f}, {at.spent:.0f} s")
            total.zero_()


def _step(at: Progress, parts: Sequence[Mapping[str, Any]], mean_weight: Any, teacher: Teaches | None) -> Any:
    trunk, plan, done = at.trunk, at.trunk.plan, at.step / at.steps
    slope = min((at.step + 1) / max(1.0, 0.05 * at.steps), max(0.01, 1 - done))
    for group, rate in zip(at.optimizer.param_groups, (plan.rate, plan.head_rate), strict=True):
        group["lr"] = rate * slope
    at.optimizer.zero_grad(set_to_none=True)
    merged = trunk.merged()
    leaves = {k: v.detach().requires_grad_() for k, v in merged.items()}
    moment = Moment(done > 1 / 3, 1 - (1 - plan.least_risk) * done)
    total = torch.zeros((), device=trunk.device)
    for made in parts:
        part = {k: torch.from_numpy(v).to(trunk.device, non_blocking=True) for k, v in made.items()}
        loss = loss_of(trunk, {**part, "mean_weight": mean_weight}, leaves, moment, teacher)
        loss.sum().backward()
        total += loss.detach().mean()
    torch.autograd.backward(list(merged.values()), [leaf.grad for leaf in leaves.values()])
    _clip_each(trunk.parameters())
    at.optimizer.step()
    return total


def _as_it_is(batch: Any) -> Any:
    return batch


def _clip_each(parameters: Sequence[Any], most: float = 1.0) -> None:
    """Clips the gradient of each seat by its own norm, as if it were trained alone."""
    gradients = [p.grad for p in parameters if p.grad is not None]
    squares = torch.stack([g.flatten(1).pow(2).sum(1) for g in gradients]).sum(0)
    factor = (most / (squares.sqrt() + 1e-6)).clamp(max=1.0)
    for g in gradients:
        g.mul_(factor.view(-1, *([1] * (g.dim() - 1))))
