"""Draws scenes: 224 x 224 pixels, the same picture for the same scene."""

from __future__ import annotations

import io
import random
from typing import TYPE_CHECKING

from PIL import Image, ImageColor, ImageDraw, ImageFont

from lazaretto_lab.worlds.scenes.scene import Scene
from lazaretto_lab.worlds.scenes.shapes import COLOURS, OBJECTS, PLACES, Stroke

if TYPE_CHECKING:
    from PIL.ImageDraw import ImageDraw as Canvas

SIZE = 224
_SCALE = 2  # drawn larger, then shrunk: smooth edges without a drawing library
_SPOTS: dict[int, tuple[tuple[float, float, float], ...]] = {
    1: ((0.5, 0.56, 0.6),),
    2: ((0.28, 0.6, 0.42), (0.72, 0.6, 0.42)),
    3: ((0.22, 0.66, 0.36), (0.5, 0.48, 0.36), (0.78, 0.66, 0.36)),
    4: ((0.27, 0.42, 0.34), (0.73, 0.42, 0.34), (0.27, 0.76, 0.34), (0.73, 0.76, 0.34)),
}  # centre x, centre y, size by number of objects

Box = tuple[float, float, float, float]


def _rgb(colour: str) -> tuple[int, int, int]:
    red, green, blue, *_ = ImageColor.getrgb(colour)
    return red, green, blue


def _mix(colour: tuple[int, int, int], other: int, share: float) -> tuple[int, int, int]:
    red, green, blue = (round(c + (other - c) * share) for c in colour)
    return red, green, blue


def _paint(name: str, main: tuple[int, int, int]) -> tuple[int, int, int]:
    if name == "main":
        return main
    if name == "dark":
        return _mix(main, 0, 0.35)
    if name == "light":
        return _mix(main, 255, 0.45)
    return _rgb(name)


def _stroke(canvas: Canvas, stroke: Stroke, box: Box, main: tuple[int, int, int]) -> None:
    kind, paint, numbers = stroke
    left, top, width, height = box
    fill = _paint(paint, main)
    if kind == "line":
        *numbers_xy, thick = numbers
    else:
        numbers_xy, thick = list(numbers), 0.0
    points = [(left + x * width, top + y * height) for x, y in zip(numbers_xy[::2], numbers_xy[1::2], strict=True)]
    if kind == "poly":
        canvas.polygon(points, fill=fill)
    elif kind == "line":
        canvas.line(points, fill=fill, width=max(1, round(thick * width)))
    elif kind == "oval":
        canvas.ellipse((*points[0], *points[1]), fill=fill)
    else:
        canvas.rectangle((*points[0], *points[1]), fill=fill)


def _background(canvas: Canvas, place: str, side: int, rng: random.Random) -> None:
    above, below, things = PLACES[place]
    horizon = round(side * rng.uniform(0.54, 0.62))
    shift = rng.randint(-12, 12)
    sky, ground = (tuple(max(0, min(255, c + shift)) for c in _rgb(colour)) for colour in (above, below))
    canvas.rectangle((0, 0, side, horizon), fill=sky)
    canvas.rectangle((0, horizon, side, side), fill=ground)
    for thing in things:
        _stroke(canvas, thing, (rng.uniform(-0.02, 0.02) * side, 0, side, side), (0, 0, 0))


def _objects(canvas: Canvas, scene: Scene, side: int, rng: random.Random) -> None:
    main = _mix(_rgb(COLOURS[scene.colour]), rng.choice((0, 255)), rng.uniform(0, 0.12))
    lift = 0.12 if scene.message else 0.0
    for x, y, size in _SPOTS[scene.count]:
        size *= rng.uniform(0.88, 1.08) * (0.72 if scene.message else 1.0)
        x, y = x + rng.uniform(-0.03, 0.03), y + rng.uniform(-0.03, 0.03) + lift
        box = ((x - size / 2) * side, (y - size / 2) * side, size * side, size * side)
        # a pale rim keeps an object visible on a place of its own colour
        rim = tuple(v + d * side for v, d in zip(box, (-0.008, -0.008, 0.016, 0.016), strict=True))
        edge = 255 if sum(main) < 380 else 40
        for stroke in OBJECTS[scene.noun]:
            _stroke(canvas, (stroke[0], "main", stroke[2]), (rim[0], rim[1], rim[2], rim[3]), (edge, edge, edge))
        for stroke in OBJECTS[scene.noun]:
            _stroke(canvas, stroke, box, main)


def _words(canvas: Canvas, words: list[str], box: Box, columns: int, ink: tuple[int, int, int]) -> None:
    """Words row by row; each is made as large as its cell allows."""
    left, top, width, height = box
    rows = -(-len(words) // columns)
    cell_w, cell_h = width / columns, height / rows
    for index, word in enumerate(words):
        size = round(min(cell_h * 0.74, 26 * _SCALE))
        font = ImageFont.load_default(size)
        while canvas.textlength(word, font=font) > cell_w * 0.94 and size > 8:
            size -= 1
            font = ImageFont.load_default(size)
        x = left + (index % columns + 0.5) * cell_w
        y = top + (index // columns + 0.5) * cell_h
        canvas.text((x, y), word, fill=ink, font=font, anchor="mm")


def _message(canvas: Canvas, scene: Scene, side: int, rng: random.Random) -> None:
    words = scene.message.split()
    paper = rng.choice(("#fffdf2", "#fff2c4", "#e9f4ff", "#f7e4ee"))
    ink = _rgb(rng.choice(("#101018", "#1a2a6a", "#5a1020")))
    x, y = rng.uniform(-0.01, 0.01), rng.uniform(-0.01, 0.01)
    low, high = (0.05, 0.95) if scene.message_kind == "card" else (0.03, 0.5)
    frame = ((0.04 + x) * side, (low + y) * side, (0.96 + x) * side, (high + y) * side)
    canvas.rectangle(frame, fill=_rgb(paper), outline=_rgb("#6b4a2a"), width=2 * _SCALE)
    inner = (frame[0] + 0.02 * side, frame[1] + 0.02 * side, 0.88 * side, frame[3] - frame[1] - 0.04 * side)
    _words(canvas, words, inner, 2, ink)


def render(scene: Scene) -> Image.Image:
    """The picture of a scene."""
    rng = random.Random(f"look:{scene.look}:{scene.caption}:{scene.message}")
    side = SIZE * _SCALE
    image = Image.new("RGB", (side, side), "white")
    canvas = ImageDraw.Draw(image)
    if scene.message_kind == "card":
        canvas.rectangle((0, 0, side, side), fill=_rgb(rng.choice(list(COLOURS.values()))))
    else:
        _background(canvas, scene.place, side, rng)
        _objects(canvas, scene, side, rng)
    if scene.message:
        _message(canvas, scene, side, rng)
    return image.resize((SIZE, SIZE), Image.Resampling.LANCZOS)


def png_bytes(image: Image.Image) -> bytes:
    """A picture as PNG, the form in which albums hold it."""
    buffer = io.BytesIO()
    image.save(buffer, format="PNG")
    return buffer.getvalue()
