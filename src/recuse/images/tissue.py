"""Rendering of stained tissue patches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.floating[Any]]

_MOST_CELLS = 72
_STRETCH = 0.55  # the long axis of a cell is up to 1.55 times the short one
_NUCLEUS = 0.84  # radius of the nucleus in that of its cell
_LONGEST = 8.6  # half of the longest cell, in pixels at size 64
_CANDIDATES = 5  # candidate positions per cell
_COARSE, _MIDDLE, _CLOSE = 5, 14, 30  # side lengths of the noise grids
_HAEMATOXYLIN = np.array([0.65, 0.70, 0.29], np.float32)  # optical density of the two stains in red, green and blue
_EOSIN = np.array([0.09, 0.95, 0.28], np.float32)
_TINT = np.array([1.0, 0.0, -1.0], np.float32)  # more red and less blue, or the other way round


@dataclass(frozen=True)
class Patches:
    """Rendered patches and their visible parameters, one value per patch.

    Parameters
    ----------
    images : ndarray of shape (n, 3, size, size), uint8
        Red, green and blue.
    share : ndarray of shape (n,)
        Share of the area that cells cover, in [0, 1].
    blur : ndarray of shape (n,)
        Defocus: 0 sharp, 1 worst.
    pallor : ndarray of shape (n,)
        Faintness of the stain: 0 deep, 1 faint.
    """

    images: npt.NDArray[np.uint8]
    share: Floats
    blur: Floats
    pallor: Floats


@dataclass(frozen=True)
class _Draws:
    """The random numbers of all patches, one row per patch."""

    patch: Floats  # (n, 16) uniform
    cells: Floats  # (n, cell, 8) uniform
    places: Floats  # (n, cell, candidate, 2) uniform
    coarse: Floats  # (n, 3, _COARSE, _COARSE) normal
    middle: Floats  # (n, _MIDDLE, _MIDDLE) normal
    close: Floats  # (n, _CLOSE, _CLOSE) normal
    fine: Floats  # (n, 2, size, size) normal


def draw_patches(streams: Sequence[np.random.Generator], size: int) -> Patches:
    """Render one patch for each random stream; a patch depends on its own stream and the size only.

    Parameters
    ----------
    streams : sequence of numpy Generators
        One per patch; rendering advances each of them.
    size : int
        Height and width in pixels. All lengths are proportional to it: 128 shows the same patch as 64, in more detail.

    Returns
    -------
    Patches

    Examples
    --------
    >>> import numpy as np
    >>> patches = draw_patches([np.random.default_rng(seed) for seed in range(3)], size=32)
    >>> patches.images.shape
    (3, 3, 32, 32)
    """
    draws = _draw(streams, size)
    blur, pallor = draws.patch[:, 0], draws.patch[:, 1]
    cells, nuclei = _paint_cells(draws, size)
    haematoxylin, eosin = _stain(draws, cells, nuclei, size)
    transmitted = _transmitted_light(draws, haematoxylin, eosin)
    sigma = 0.35 * np.exp(2.1 * blur) * size / 64  # 0.35 to 2.9 pixels wide at size 64
    return Patches(_blur_and_noise(draws, transmitted, sigma), cells.mean(axis=(1, 2), dtype=np.float64), blur, pallor)


def _draw(streams: Sequence[np.random.Generator], size: int) -> _Draws:
    rows = [
        (
            stream.random(16),
            stream.random((_MOST_CELLS, 8), np.float32),
            stream.random((_MOST_CELLS, _CANDIDATES, 2), np.float32),
            stream.standard_normal((3, _COARSE, _COARSE), np.float32),
            stream.standard_normal((_MIDDLE, _MIDDLE), np.float32),
            stream.standard_normal((_CLOSE, _CLOSE), np.float32),
            stream.standard_normal((2, size, size), np.float32),
        )
        for stream in streams
    ]
    return _Draws(*(np.stack(column) for column in zip(*rows, strict=True)))


# --------------------------------------------------------------------------------------------------- cells


def _paint_cells(draws: _Draws, size: int) -> tuple[Floats, Floats]:
    """Paint the cells in turn, in all patches at once; return cover and nucleus density, (n, size, size)."""
    count, radius = _plan_cells(draws)
    x, y = _place_cells(draws, radius, int(count.max()))
    reach = int(np.ceil(_LONGEST * size / 64)) + 1
    side = size + 4 * reach  # a margin for cells that cross the edge
    cover, nuclei = (np.zeros(len(count) * side * side, np.float32) for _ in range(2))
    for cell in range(int(count.max())):
        rows = np.flatnonzero(count > cell)
        column, row = (np.floor(place[rows, cell] * size).astype(np.int64) for place in (x, y))
        corner = (rows * side + row + reach) * side + column + reach
        dx, dy = (np.float32(size) * place[rows, cell] - at for place, at in ((x, column), (y, row)))
        inside, density = _paint_one(draws.cells[rows, cell], radius[rows, cell], dx, dy, size, reach)
        step = np.arange(2 * reach + 1)
        where = corner[:, None, None] + side * step[:, None] + step
        left = 1.0 - inside
        cover[where] = cover.take(where) * left + inside
        nuclei[where] = nuclei.take(where) * left + density
    middle = slice(2 * reach, 2 * reach + size)
    shape = (len(count), side, side)
    return cover.reshape(shape)[:, middle, middle], nuclei.reshape(shape)[:, middle, middle]


def _paint_one(u: Floats, radius: Floats, dx: Floats, dy: Floats, size: int, reach: int) -> tuple[Floats, Floats]:
    """Return one cell of each patch in a window around its centre: cover and nucleus density, (n, side, side)."""
    u, radius, dx, dy = (values.astype(np.float32)[..., None, None] for values in (u, radius, dx, dy))
    line = np.arange(-reach, reach + 1, dtype=np.float32) + np.float32(0.5)
    angle, stretch = np.float32(np.pi) * u[:, 2], np.sqrt(1 + _STRETCH * u[:, 1])
    long, short = radius * np.float32(size / 64) * stretch, radius * np.float32(size / 64) / stretch
    right, down = line - dx, line[:, None] - dy
    cos, sin = np.cos(angle), np.sin(angle)
    along = cos / long * right + sin / long * down
    across = cos / short * down - sin / short * right
    # an asymmetric outline, wider on one side
    distance = np.sqrt(along * along + across * across * (1 + 0.5 * (u[:, 3] - 0.5) * along))
    inside = np.clip((0.5 + short) - short * distance, 0, 1)
    nucleus = np.clip((0.5 + _NUCLEUS * short) - short * distance, 0, 1)
    rim = 1 - np.square(5 * (distance - 0.72))  # a darker membrane, and one dark spot inside
    spot = 1 - 4 * (np.square(along - 0.4 * (u[:, 4] - 0.5)) + np.square(across - 0.2))
    shade = 0.62 + 0.34 * np.maximum(rim, 0) + 0.5 * u[:, 6] * np.maximum(spot, 0)
    return inside, nucleus * shade * (0.75 + 0.5 * u[:, 5])


def _plan_cells(draws: _Draws) -> tuple[npt.NDArray[np.int64], Floats]:
    """Return the number of cells (n,) and their radii (n, cell), in pixels at size 64."""
    wanted = 0.02 + 0.76 * draws.patch[:, 2:3]  # share of the area to cover
    mean_radius = (3.9 + 1.6 * draws.patch[:, 3:4]).astype(np.float32)
    radius = mean_radius * np.exp(0.45 * (draws.cells[:, :, 0] - 0.5))
    area = np.cumsum(np.pi * radius**2, axis=1) / 64**2
    # cells overlap, so covering a share s needs a total area of about -log(1 - s)
    return np.maximum((area < -1.05 * np.log1p(-wanted)).sum(axis=1), 1), radius


def _place_cells(draws: _Draws, radius: Floats, most: int) -> tuple[Floats, Floats]:
    """Return cell centres in units of the side; of its candidates, a cell takes a free one near the cluster."""
    tries = np.moveaxis(1.1 * draws.places - 0.05, 3, 0)  # (2, n, cell, candidate)
    centre = np.moveaxis(0.2 + 0.6 * draws.patch[:, 4:6], 1, 0).astype(np.float32)[:, :, None, None]
    pull = 1.6 * np.maximum(draws.patch[:, 6] - 0.45, 0.0).astype(np.float32)  # 45 % have no cluster
    away = pull[:, None, None] * np.sqrt(np.square(tries - centre).sum(axis=0))
    x, y = (np.empty((len(radius), most), np.float32) for _ in range(2))
    every = np.arange(len(radius))
    for cell in range(most):
        right, down = tries[:, :, cell, :, None]  # (n, candidate, 1)
        gap = np.square(right - x[:, None, :cell]) + np.square(down - y[:, None, :cell])
        touching = np.square((radius[:, None, :cell] + radius[:, None, cell : cell + 1]) * np.float32(0.9 / 64))
        nearest = np.sqrt((gap / touching).min(axis=2, initial=1.0))  # 1 where nothing touches
        best = (nearest - away[:, cell]).argmax(axis=1)
        x[:, cell], y[:, cell] = tries[:, every, cell, best]
    return x, y


# ----------------------------------------------------------------------------------------- tissue and light


def _stain(draws: _Draws, cells: Floats, nuclei: Floats, size: int) -> tuple[Floats, Floats]:
    """Return the amount of blue and of pink stain at each pixel, (n, size, size)."""
    bend, shade, rift = np.moveaxis(_interpolate(draws.coarse, size), 1, 0)
    grain = draws.fine[:, 0]
    fibres = _fibres(draws, bend, _interpolate(draws.middle, size), size)
    gaps = 1.0 / (1.0 + np.exp(-9.0 * (rift - _column(draws, 7, 1.0, 3.0))))  # tears in the tissue
    stroma = (0.42 + 0.10 * shade + 0.34 * fibres + 0.05 * grain) * (1.0 - 0.85 * gaps)
    chromatin = 1.0 + 0.20 * _interpolate(draws.close, size) + 0.14 * grain
    eosin = np.maximum(stroma, 0.02) * (1.0 - 0.75 * cells) + 0.16 * cells
    haematoxylin = 0.05 + 0.07 * fibres * (1.0 - cells) + 0.26 * cells + 1.05 * nuclei * np.maximum(chromatin, 0.3)
    return haematoxylin, eosin


def _fibres(draws: _Draws, bend: Floats, ripple: Floats, size: int) -> Floats:
    """Return wavy bundles of fibres in [0, 1], with a density that varies over the patch."""
    line = (np.arange(size, dtype=np.float32) + 0.5) / size
    angle = _column(draws, 8, 0.0, np.pi)
    across = np.cos(angle) * line[None, :, None] + np.sin(angle) * line[None, None, :]
    phase = 2 * np.pi * (_column(draws, 9, 6.0, 12.0) * across + 0.55 * bend + 0.16 * ripple)
    wave = 0.5 + 0.5 * np.sin(phase)
    fine = 0.5 + 0.5 * np.sin(2.3 * phase + 3.0 * bend + 1.5)
    return np.asarray((0.6 * wave * wave + 0.4 * fine * fine * fine) * np.clip(0.75 + 0.35 * ripple, 0.15, 1.3))


def _transmitted_light(draws: _Draws, haematoxylin: Floats, eosin: Floats) -> Floats:
    """Return the light that passes both stains by the Beer-Lambert law, (n, 3, size, size)."""
    strength = 1.25 * np.exp(-1.0 * draws.patch[:, 1]).astype(np.float32)
    balance = np.exp(0.24 * (draws.patch[:, 10] - 0.5)).astype(np.float32)
    tint = (0.08 * (draws.patch[:, 11:13, None] - 0.5)).astype(np.float32) * _TINT
    blue, pink = _HAEMATOXYLIN + tint[:, 0], _EOSIN + tint[:, 1]
    density = (strength * balance)[:, None, None, None] * blue[:, :, None, None] * haematoxylin[:, None]
    density += (strength / balance)[:, None, None, None] * pink[:, :, None, None] * eosin[:, None]
    return np.asarray(np.exp(-density))


def _blur_and_noise(draws: _Draws, light: Floats, sigma: Floats) -> npt.NDArray[np.uint8]:
    """Blur each patch by its own Gaussian kernel, and add camera noise."""
    size = light.shape[-1]
    here = np.arange(size, dtype=np.float32)
    # reflect at the edges: weights for the pixel itself and its two mirror images
    mirrors = np.stack([here, -1 - here, 2 * size - 1 - here])[:, None, None, :]
    steps = (here[:, None] - mirrors) / sigma[:, None, None].astype(np.float32)  # (mirror, n, to, from)
    kernel = np.exp(-0.5 * np.square(steps)).sum(axis=0)
    kernel = (kernel / kernel.sum(axis=2, keepdims=True))[:, None]
    seen = kernel @ light.astype(np.float32) @ np.swapaxes(kernel, 2, 3)
    white = _column(draws, 13, 240.0, 250.0)[:, None]
    return np.asarray(np.clip(white * seen + 1.2 * draws.fine[:, 1, None] + 0.5, 0, 255), dtype=np.uint8)


def _interpolate(grid: Floats, size: int) -> Floats:
    """Interpolate noise on a coarse grid to `size` pixels, with about unit variance."""
    points = grid.shape[-1]
    place = (np.arange(size) + 0.5) / size * (points - 1)
    weight = np.exp(-0.5 * ((place[:, None] - np.arange(points)) / 0.55) ** 2)
    weight = (weight / np.sqrt((weight**2).sum(axis=1, keepdims=True))).astype(np.float32)
    return np.asarray(np.swapaxes(grid @ weight.T, -1, -2) @ weight.T)


def _column(draws: _Draws, index: int, low: float, high: float) -> Floats:
    """Return one uniform number per patch, scaled to a range, of shape (n, 1, 1)."""
    return (low + (high - low) * draws.patch[:, index]).astype(np.float32)[:, None, None]
