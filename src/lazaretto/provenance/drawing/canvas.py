"""Shapes, and two ways to put them on a page: SVG with nothing but this file, PNG with matplotlib.

Shapes are plain records, so the picture is composed once and both outputs show the same.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from io import BytesIO
from typing import Any, Literal
from xml.sax.saxutils import escape, quoteattr

from lazaretto.errors import MissingExtra

FONT = "'Inter','Helvetica Neue',Helvetica,Arial,'DejaVu Sans',sans-serif"


def showable(text: str, limit: int | None = None) -> str:
    """Text that cannot play tricks on a reader: one line, no control, hidden or direction-changing characters."""
    safe = "".join(
        "\ufffd" if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Co", "Cn") else c for c in " ".join(text.split())
    )
    return safe if limit is None or len(safe) <= limit else safe[: max(1, limit - 1)].rstrip() + "…"


@dataclass(frozen=True, slots=True)
class Style:
    """How a shape is painted."""

    fill: str = "none"
    stroke: str = "none"
    width: float = 1.0
    dash: tuple[float, ...] = ()
    opacity: float = 1.0


@dataclass(frozen=True, slots=True)
class Circle:
    """A disc, with a hint for whoever points at it."""

    x: float
    y: float
    radius: float
    style: Style
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Polygon:
    """A closed shape."""

    points: tuple[tuple[float, float], ...]
    style: Style
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle with round corners."""

    x: float
    y: float
    width: float
    height: float
    style: Style
    corner: float = 0.0


@dataclass(frozen=True, slots=True)
class Curve:
    """A cubic curve from start to end; a straight line is one whose handles lie on it."""

    start: tuple[float, float]
    first: tuple[float, float]
    second: tuple[float, float]
    end: tuple[float, float]
    style: Style
    arrow: bool = False


@dataclass(frozen=True, slots=True)
class Words:
    """One line of text."""

    x: float
    y: float
    text: str
    size: float = 12.0
    fill: str = "#1f2933"
    anchor: Literal["start", "middle", "end"] = "start"
    bold: bool = False
    halo: bool = False
    """Whether a white rim keeps it readable over lines."""


Shape = Circle | Polygon | Box | Curve | Words


def line(x1: float, y1: float, x2: float, y2: float, style: Style) -> Curve:
    """A straight line."""
    return Curve((x1, y1), (x1, y1), (x2, y2), (x2, y2), style)


@dataclass(frozen=True, slots=True)
class Page:
    """A finished picture."""

    width: float
    height: float
    title: str
    shapes: tuple[Shape, ...]

    def svg(self) -> str:
        """The page as one self-contained SVG document: no script, no link, no outside font."""
        body = "\n".join(_svg_shape(shape) for shape in self.shapes)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width:g} {self.height:g}" '
            f'width="{self.width:g}" height="{self.height:g}" font-family="{FONT}" role="img">\n'
            f"<title>{escape(showable(self.title))}</title>\n{body}\n</svg>\n"
        )

    def png(self, scale: float = 2.0) -> bytes:
        """The page as a PNG; needs matplotlib."""
        try:
            from matplotlib.backends.backend_agg import FigureCanvasAgg
            from matplotlib.figure import Figure
        except ImportError:
            raise MissingExtra("PNG pictures", "plot") from None
        figure = Figure(figsize=(self.width / 72, self.height / 72), dpi=72 * scale, facecolor="white")
        FigureCanvasAgg(figure)
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set_xlim(0, self.width)
        axes.set_ylim(self.height, 0)
        axes.axis("off")
        for order, shape in enumerate(self.shapes):
            _paint(axes, shape, order)
        out = BytesIO()
        figure.savefig(out, format="png")
        return out.getvalue()


def _svg_style(style: Style) -> str:
    parts = [f'fill="{style.fill}"', f'stroke="{style.stroke}"']
    if style.stroke != "none":
        parts.append(f'stroke-width="{style.width:g}"')
    if style.dash:
        parts.append(f'stroke-dasharray="{" ".join(f"{d:g}" for d in style.dash)}"')
    if style.opacity != 1.0:
        parts.append(f'opacity="{style.opacity:g}"')
    return " ".join(parts)


def _hinted(tag: str, hint: str) -> str:
    return f"<{tag}><title>{escape(showable(hint))}</title></{tag.split()[0]}>" if hint else f"<{tag}/>"


def _svg_shape(shape: Shape) -> str:
    match shape:
        case Circle(x, y, radius, style, hint):
            return _hinted(f'circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}" {_svg_style(style)}', hint)
        case Polygon(points, style, hint):
            corners = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
            return _hinted(f'polygon points="{corners}" {_svg_style(style)} stroke-linejoin="round"', hint)
        case Box(x, y, width, height, style, corner):
            size = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="{corner:g}"'
            return f"<rect {size} {_svg_style(style)}/>"
        case Curve():
            return _svg_curve(shape)
        case Words(x, y, text, size, fill, anchor, bold):
            weight = ' font-weight="600"' if bold else ""
            halo = (
                ' paint-order="stroke" stroke="#ffffff" stroke-width="3" stroke-linejoin="round"' if shape.halo else ""
            )
            where = f'x="{x:.1f}" y="{y:.1f}" font-size="{size:g}" fill="{fill}" text-anchor="{anchor}"{weight}{halo}'
            return f"<text {where}>{escape(showable(text))}</text>"


def _svg_curve(curve: Curve) -> str:
    points = [f"{x:.1f},{y:.1f}" for x, y in (curve.start, curve.first, curve.second, curve.end)]
    path = quoteattr(f"M{points[0]} C{points[1]} {points[2]} {points[3]}")
    drawn = f'<path d={path} {_svg_style(curve.style)} stroke-linecap="round"/>'
    if curve.arrow:
        head = Polygon(arrow_head(curve), Style(fill=curve.style.stroke, opacity=curve.style.opacity))
        drawn += _svg_shape(head)
    return drawn


def arrow_head(curve: Curve, length: float = 7.0, half_width: float = 3.2) -> tuple[tuple[float, float], ...]:
    """The triangle at the end of a curve, along the direction in which it arrives."""
    (x, y), (fx, fy) = curve.end, curve.second if curve.second != curve.end else curve.start
    dx, dy = x - fx, y - fy
    norm = (dx * dx + dy * dy) ** 0.5 or 1.0
    ux, uy = dx / norm, dy / norm
    bx, by = x - ux * length, y - uy * length
    return (x, y), (bx - uy * half_width, by + ux * half_width), (bx + uy * half_width, by - ux * half_width)


def _paint(axes: Any, shape: Shape, order: int) -> None:
    from matplotlib import patches, patheffects
    from matplotlib.path import Path

    if isinstance(shape, Words):
        sides = {"start": "left", "middle": "center", "end": "right"}
        axes.text(
            shape.x,
            shape.y,
            showable(shape.text).replace("$", r"\$"),  # a dollar would start a formula
            fontsize=shape.size,
            color=shape.fill,
            ha=sides[shape.anchor],
            va="baseline",
            weight="bold" if shape.bold else "normal",
            zorder=order,
            path_effects=[patheffects.withStroke(linewidth=3, foreground="white")] if shape.halo else [],
        )
        return
    style = shape.style
    look: dict[str, Any] = {
        "facecolor": style.fill,
        "edgecolor": style.stroke,
        "linewidth": style.width if style.stroke != "none" else 0,
        "linestyle": (0, style.dash) if style.dash else "solid",
        "alpha": style.opacity,
        "zorder": order,
    }
    if isinstance(shape, Circle):
        axes.add_patch(patches.Circle((shape.x, shape.y), shape.radius, **look))
    elif isinstance(shape, Polygon):
        axes.add_patch(patches.Polygon(shape.points, closed=True, **look))
    elif isinstance(shape, Box):
        rounding = f"round,pad=0,rounding_size={shape.corner}" if shape.corner else "square,pad=0"
        axes.add_patch(patches.FancyBboxPatch((shape.x, shape.y), shape.width, shape.height, boxstyle=rounding, **look))
    else:
        codes = [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4]
        road = Path([shape.start, shape.first, shape.second, shape.end], codes)
        axes.add_patch(patches.PathPatch(road, capstyle="round", **look))
        if shape.arrow:
            _paint(axes, Polygon(arrow_head(shape), Style(fill=style.stroke, opacity=style.opacity)), order)
