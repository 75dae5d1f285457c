"""The layout of a map: a force layout in whole arrays, quick enough for ten thousand nodes.

Nodes repel each other (a field on a grid, one convolution per round) and edges attract. Placed nodes keep their place.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Points = NDArray[np.float64]
ROUNDS = 140
_FEW = 1_200
"""Up to so many nodes every pair is looked at."""
_GRID = 128


def place(edges: NDArray[np.int64], count: int, known: Points | None = None, rounds: int = ROUNDS) -> Points:
    """Positions of ``count`` nodes; the first ``len(known)`` stay where they are."""
    fixed = 0 if known is None else len(known)
    points = np.random.default_rng(11).normal(0.0, np.sqrt(max(count, 1)), (count, 2))
    if known is not None and fixed:
        points[:fixed] = known
        _beside_neighbours(points, edges, fixed)
    if count - fixed < 1:
        return points
    degree = np.bincount(edges.ravel(), minlength=count).astype(float)
    weight = 1.0 + np.sqrt(degree)
    heat = np.sqrt(max(count, 2)) * (0.5 if not fixed else 0.05)
    for step in range(rounds if not fixed else rounds // 4):
        force = _pull(points, edges, degree) + _push(points, weight)
        force -= 0.02 * points * weight[:, None]
        length = np.sqrt((force**2).sum(axis=1, keepdims=True)) + 1e-9
        move = force / length * np.minimum(length, heat * (1 - step / rounds) + 0.01)
        points[fixed:] += move[fixed:]
    return points


def _beside_neighbours(points: Points, edges: NDArray[np.int64], fixed: int) -> None:
    """New nodes begin near those they belong to, in order, so that chains find their way."""
    chance = np.random.default_rng(len(points))
    settled = np.arange(len(points)) < fixed
    for _ in range(4):
        for side, other in ((0, 1), (1, 0)):
            ready = settled[edges[:, side]] & ~settled[edges[:, other]]
            targets = edges[ready, other]
            points[targets] = points[edges[ready, side]] + chance.normal(0.0, 1.5, (len(targets), 2))
            settled[targets] = True


def _pull(points: Points, edges: NDArray[np.int64], degree: NDArray[np.float64]) -> Points:
    if not len(edges):
        return np.zeros_like(points)
    a, b = edges[:, 0], edges[:, 1]
    strength = 1.0 / (1.0 + np.sqrt(np.minimum(degree[a], degree[b])))
    along = (points[b] - points[a]) * strength[:, None]
    count = len(points)
    columns = [np.bincount(a, along[:, k], count) - np.bincount(b, along[:, k], count) for k in (0, 1)]
    return np.stack(columns, axis=1)


def _push(points: Points, weight: NDArray[np.float64]) -> Points:
    return _push_pairs(points, weight) if len(points) <= _FEW else _push_grid(points, weight)


def _push_pairs(points: Points, weight: NDArray[np.float64]) -> Points:
    apart = points[:, None, :] - points[None, :, :]
    near = (apart**2).sum(axis=2) + 0.05
    pushed: Points = (apart / near[:, :, None] * weight[None, :, None]).sum(axis=1) * weight[:, None]
    return pushed


def _push_grid(points: Points, weight: NDArray[np.float64]) -> Points:
    low = points.min(axis=0)
    cell = max(float((points.max(axis=0) - low).max()) / (_GRID - 2), 1e-6)
    at = (points - low) / cell
    corner = at.astype(np.int64)
    share = at - corner
    cells = [corner + np.array(step) for step in ((0, 0), (1, 0), (0, 1), (1, 1))]
    sides = [np.abs(1 - np.array(step) - share).prod(axis=1) for step in ((0, 0), (1, 0), (0, 1), (1, 1))]
    density = np.zeros((_GRID, _GRID))
    for where, part in zip(cells, sides, strict=True):
        np.add.at(density, (where[:, 0], where[:, 1]), weight * part)
    offsets = np.fft.fftfreq(2 * _GRID, 1 / (2 * _GRID))
    x, y = np.meshgrid(offsets, offsets, indexing="ij")
    near = (x**2 + y**2 + 0.5) * cell
    spread = np.fft.rfft2(density, (2 * _GRID, 2 * _GRID))
    pushed = np.zeros_like(points)
    for axis, kernel in enumerate((x / near, y / near)):
        field = np.fft.irfft2(spread * np.fft.rfft2(kernel), (2 * _GRID, 2 * _GRID))
        for where, part in zip(cells, sides, strict=True):
            pushed[:, axis] += field[where[:, 0], where[:, 1]] * part
    return pushed * weight[:, None]
