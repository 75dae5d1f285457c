"""``lazaretto attack``: make the pictures and notes that outbreaks are tried with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from lazaretto.cli.common import JsonFlag, console, emit, errors, plain_errors
from lazaretto.errors import InputError
from lazaretto_lab.attacks.adaptive.strategies import STRATEGIES, TITLED, AdaptiveCraft
from lazaretto_lab.attacks.infectious.settings import Budget, Craft
from lazaretto_lab.attacks.infectious.targets import TARGETS, target
from lazaretto_lab.studies.outbreak.settings import cache_folder

if TYPE_CHECKING:
    from lazaretto.agents.album import AlbumItem
    from lazaretto.agents.model import AgentModel
    from lazaretto_lab.attacks.infectious.differentiable import Differentiable
    from lazaretto_lab.attacks.infectious.recorded_chats import Chat

BASES, TRAIN_PICTURES, VALIDATION_PICTURES = 33, 11, 22
"""Seeds of the drawn pictures: what an attack starts from, what it is trained among, what it is judged among."""

TargetOption = Annotated[
    str, typer.Option("--target", help="What infected agents say; see `lazaretto attack targets`.")
]
OutArgument = Annotated[Path, typer.Argument(help="File to write.")]
SeedOption = Annotated[int, typer.Option("--seed")]
ChatsOption = Annotated[int, typer.Option("--chats", min=1, help="Recorded chats to train on.")]
CheckOption = Annotated[int, typer.Option("--validate", min=0, help="Unseen chats to measure on; 0 measures nothing.")]


def register(app: typer.Typer) -> None:
    """Add ``attack craft``, ``attack note`` and ``attack targets``."""
    family = typer.Typer(help="Craft infectious pictures and notes (harmless targets only).", no_args_is_help=True)
    family.command("targets")(list_targets)
    family.command("craft")(craft_picture)
    family.command("note")(craft_text)
    app.add_typer(family, name="attack")


@plain_errors
def list_targets(as_json: JsonFlag = False) -> None:
    """The sentences and tool-call strings an attack may aim at."""

    def show() -> None:
        table = Table("name", "what infected agents say")
        for name, sentence in TARGETS.items():
            table.add_row(name, sentence)
        console.print(table, soft_wrap=False)

    emit(TARGETS, as_json, show)


@plain_errors
def craft_picture(
    out: OutArgument,
    target_name: TargetOption = "marker-lantern",
    budget: Annotated[str, typer.Option(help="pixel:EPS in 1/255, or border:WIDTH of 336 px.")] = "pixel:16",
    base: Annotated[Path | None, typer.Option(help="Picture to start from. Default: a drawn scene.")] = None,
    search: Annotated[str, typer.Option(help="steps,restarts,batch of the search.")] = "200,1,4",
    augment: Annotated[str, typer.Option(help="Comma-separated: jpeg, flip, resize.")] = "",
    strategy: Annotated[str, typer.Option(help=f"Against foresight: {', '.join(STRATEGIES)}.")] = "",
    title: Annotated[str, typer.Option(help=f"What a picture of strategy {', '.join(TITLED)} stays close to.")] = "",
    chats: ChatsOption = 96,
    validate: CheckOption = 48,
    seed: SeedOption = 0,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, ...")] = "auto",
    chat: Annotated[str, typer.Option(help="Who speaks: pocket, or transformers:<folder or hub name>.")] = "pocket",
    embedder: Annotated[str, typer.Option(help="Who retrieves: pocket, or transformers:<CLIP or SigLIP>.")] = "pocket",
    pictures: Annotated[str, typer.Option(help="Folder of the attacker's own pictures. Default: drawn ones.")] = "",
    side: Annotated[int, typer.Option(min=28, help="Side of the picture, for transformers models.")] = 336,
    as_json: JsonFlag = False,
) -> None:
    """Search for an infectious picture; writes it, and beside it original and difference.

    Against the pocket models, or with --chat and --embedder against any vision-language model and dual encoder that the
    laboratory loads (docs/reproduce-llava.md). Interrupted, the same command goes on where it was.
    """
    kinds = tuple(a for a in augment.split(",") if a)
    settings = Craft(target_name, _budget(budget), *_search(search), augment=kinds, seed=seed)
    if strategy:
        settings = AdaptiveCraft(
            target_name, _budget(budget), *_search(search), augment=kinds, seed=seed, strategy=strategy, title=title
        )
    origin = _origin(base, seed)
    if not out.parent.is_dir():
        raise InputError("out", f"no folder {out.parent}", "Make it first")
    against = _Against(chat, embedder, device, pictures, side)
    report = _crafted(settings, origin, out, (chats, validate), against)

    def show() -> None:
        table = Table("measure", "value", title=f"{out}: {settings.budget.label}, says {target(target_name)!r}")
        for name, value in report.items():
            table.add_row(name.replace("_", " "), f"{value:.3f}" if isinstance(value, float) else str(value))
        console.print(table, soft_wrap=False)

    emit(report, as_json, show)


@dataclass(frozen=True, slots=True)
class _Against:
    """Whom an attack is made against."""

    chat: str
    embedder: str
    device: str
    pictures: str
    side: int

    def __post_init__(self) -> None:
        if (self.chat == "pocket") != (self.embedder == "pocket"):
            raise InputError("embedder", "the pocket models go together", "Name two transformers models, or neither")

    def models(self) -> tuple[Differentiable, AgentModel]:
        """Both models, with gradients and as agents think with them."""
        from lazaretto.agents.model import AgentModel
        from lazaretto.models.caches import CachedChat, EmbeddingCache

        if self.chat == "pocket":
            from lazaretto_lab.pocket import load_pocket_models
            from lazaretto_lab.pocket.gradients import PocketGradients

            vlm, clip = load_pocket_models(self.device)
            return PocketGradients(vlm, clip), AgentModel(vlm, EmbeddingCache(clip))
        from lazaretto_lab.models.transformers_clip import TransformersClip
        from lazaretto_lab.models.transformers_gradients import TransformersGradients
        from lazaretto_lab.models.transformers_vlm import TransformersVlm

        speaks, places = (
            TransformersVlm(_named("chat", self.chat), self.device),
            TransformersClip(_named("embedder", self.embedder), self.device),
        )
        kept = cache_folder() / "attacks" / f"chats-{speaks.fingerprint[-24:]}"
        kept.mkdir(parents=True, exist_ok=True)
        return TransformersGradients(speaks, places, self.side), AgentModel(
            CachedChat(speaks, kept), EmbeddingCache(places, kept)
        )

    def pool(self, count: int, seed: int) -> tuple[AlbumItem, ...]:
        """Pictures that the attacker plays with."""
        from lazaretto_lab.worlds.album_chat.pools import folder_pictures, scene_pictures

        return folder_pictures(self.pictures, count, seed) if self.pictures else scene_pictures(count, seed)


def _named(option: str, value: str) -> str:
    kind, _, name = value.partition(":")
    if kind != "transformers" or not name:
        raise InputError(option, f"{value!r} is not a model", "Use pocket or transformers:<folder or hub name>")
    return name


def _crafted(
    settings: Craft, origin: AlbumItem, out: Path, sizes: tuple[int, int], against: _Against
) -> dict[str, Any]:
    """Everything slow, with progress: load, record, search, measure."""
    from lazaretto.agents.album import picture_item
    from lazaretto_lab.attacks.infectious.measure import fetched_share, measure
    from lazaretto_lab.attacks.infectious.picture_cache import crafted_picture

    adaptive = isinstance(settings, AdaptiveCraft)
    if adaptive:
        from lazaretto_lab.attacks.adaptive.search import seek

    with _bar() as bar:
        task = bar.add_task("loading models", total=settings.steps)
        models, agent_model = against.models()
        bar.update(task, description="recording chats")
        training = _recorded(agent_model, sizes[0], validation=False, pool=against.pool)
        folder = cache_folder() / "attacks"
        kept = crafted_picture(
            models, origin, training, settings, folder,
            lambda p: bar.update(task, completed=p.step, description=(
                f"loss {p.speech_loss + p.retrieval_loss:.3f}  alpha {p.alpha:.2f}  beta {p.beta:.2f}")),
            seek if adaptive else None,
        )  # fmt: skip
        bar.update(task, completed=settings.steps, description="measuring")
        out.write_bytes(kept.data)
        beside = _beside(models, origin.picture, kept.data, out)
        frame = settings.budget.frame_of(models.pixels(kept.data).shape[0])
        report: dict[str, Any] = {"picture": str(out), "beside": str(beside), "target": target(settings.target)}
        report |= {
            "budget": settings.budget.label,
            "frame_px": frame,
            "from_cache": not kept.fresh,
        }
        report |= {"alpha_train": kept.alpha_train, "beta_train": kept.beta_train}
        if sizes[1]:
            unseen = _recorded(agent_model, sizes[1], validation=True, pool=against.pool)
            virus = picture_item(kept.data, origin.title)
            # what an adaptive virus says depends on who is asked, and when: a world has to show it
            report |= (
                {"beta": fetched_share(agent_model, virus, unseen)}
                if adaptive
                else asdict(measure(agent_model, virus, target(settings.target), unseen))
            )
    return report


@plain_errors
def craft_text(
    out: OutArgument,
    target_name: TargetOption = "marker-lantern",
    openings: Annotated[int, typer.Option(help="Openings to begin with, from the attacker's own notes.", min=1)] = 60,
    generations: Annotated[int, typer.Option(help="How often they are bred; 0 keeps the best as it is.", min=0)] = 40,
    chats: ChatsOption = 192,
    validate: CheckOption = 128,
    seed: SeedOption = 0,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, ...")] = "auto",
    as_json: JsonFlag = False,
) -> None:
    """Breed a note that agents choose and fetch, wherever it stands, and that asks to be passed on."""
    from lazaretto.agents.model import AgentModel
    from lazaretto.models.caches import CachedChat, EmbeddingCache
    from lazaretto_lab.attacks.infectious.measure import fetched_share, measure
    from lazaretto_lab.attacks.infectious.text import Breeding, bred_virus
    from lazaretto_lab.pocket import load_pocket_models
    from lazaretto_lab.worlds.album_chat.pools import scene_notes

    first = [note.title for note in scene_notes(max(300, openings), TRAIN_PICTURES)[:openings]]
    with _bar() as bar:
        task = bar.add_task("recording chats", total=generations)
        vlm, clip = load_pocket_models(device)
        agent_model = AgentModel(CachedChat(vlm), EmbeddingCache(clip.texts))
        recorded = _recorded(agent_model, chats, validation=False, pool=scene_notes)
        virus, share = bred_virus(
            agent_model, first, target_name, recorded, Breeding(generations, seed=seed),
            lambda done, best: bar.update(task, completed=done, description=f"fetched in {best:.0%} of chats"),
        )  # fmt: skip
        report: dict[str, Any] = {"note": virus.note, "opening": virus.title, "beta_train": share}
        if validate:
            unseen = _recorded(agent_model, validate, validation=True, pool=scene_notes)
            report |= asdict(measure(agent_model, virus, target(target_name), unseen))
            report["beta_any_place"] = fetched_share(agent_model, virus, unseen, newest=False)
    out.write_text(virus.note + "\n")
    figures = "  ".join(f"{k} {v:.2f}" for k, v in report.items() if isinstance(v, float))
    emit(report, as_json, lambda: console.print(f"{virus.note}\n\n{figures}"))


def _bar() -> Progress:
    return Progress(
        BarColumn(), TextColumn("{task.completed}/{task.total}"), TextColumn("{task.description}"), TimeElapsedColumn(),
        console=errors, transient=True,
    )  # fmt: skip


def _budget(text: str) -> Budget:
    kind, _, size = text.partition(":")
    try:
        return Budget(kind, float(size))  # type: ignore[arg-type]
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError("budget", f"{text!r} has no size", "Write pixel:16 or border:6") from None


def _search(text: str) -> tuple[int, int, int]:
    try:
        steps, restarts, batch = (int(part) for part in text.split(","))
    except ValueError:
        raise InputError("search", f"{text!r} is not steps,restarts,batch", "Write for example 200,1,4") from None
    return steps, restarts, batch


def _origin(base: Path | None, seed: int) -> AlbumItem:
    from lazaretto.agents.album import picture_item
    from lazaretto.agents.prompts import picture_title
    from lazaretto_lab.pocket.eyes import pixels
    from lazaretto_lab.worlds.album_chat.pools import scene_pictures

    if base is None:
        return scene_pictures(seed + 1, BASES)[seed]
    if not base.is_file():
        raise InputError("base", f"no file {base}", "Name a picture")
    data = base.read_bytes()
    pixels(data)  # raises for bytes that are no picture, before anything slow begins
    return picture_item(data, picture_title(base.name))


def _recorded(
    agent_model: AgentModel,
    count: int,
    validation: bool,
    pool: Callable[[int, int], tuple[AlbumItem, ...]] | None = None,
) -> tuple[Chat, ...]:
    """Chats over drawn pictures, or over what ``pool`` makes."""
    from lazaretto_lab.attacks.infectious.recorded_chats import TRAIN_PERSONAS, VALIDATION_PERSONAS, record_chats
    from lazaretto_lab.worlds.album_chat.pools import scene_pictures

    size, seed = max(30, min(300, count * 2)), VALIDATION_PICTURES if validation else TRAIN_PICTURES
    people = VALIDATION_PERSONAS if validation else TRAIN_PERSONAS
    return record_chats(agent_model, (pool or scene_pictures)(size, seed), count, 2 if validation else 1, people)


def _beside(models: Differentiable, before: bytes, after: bytes, out: Path) -> Path:
    """Original, attack picture and their difference (made visible), side by side."""
    import numpy as np
    from PIL import Image

    first, second = models.pixels(before).astype(int), models.pixels(after).astype(int)
    change = second - first
    visible = 128 + change * 127 // max(1, int(np.abs(change).max()))
    path = out.with_name(f"{out.stem}-beside.png")
    Image.fromarray(np.concatenate([first, second, visible], axis=1).astype(np.uint8)).save(path)
    return path
