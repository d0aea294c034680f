"""Figures for the light and the dark theme of the site."""

from collections.abc import Callable, Mapping
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

# the blue, orange and green of Okabe and Ito, lighter on a dark ground; text, and lines of the axes
THEMES: Mapping[str, Mapping[str, str]] = {
    "light": {"blue": "#0072B2", "orange": "#D55E00", "green": "#00795A", "text": "#222832", "line": "#B3B3B3"},
    "dark": {"blue": "#56B4E9", "orange": "#F0924A", "green": "#3DC79B", "text": "#D8DCE2", "line": "#5A6270"},
}


def save_for_both_themes(draw: Callable[[Mapping[str, str]], Figure], folder: Path, name: str) -> None:
    """Write ``name_light.svg`` and ``name_dark.svg``; `draw` gets the colours of the theme."""
    for theme, colour in THEMES.items():
        settings = {
            **dict.fromkeys(("text.color", "axes.labelcolor", "xtick.labelcolor", "ytick.labelcolor"), colour["text"]),
            **dict.fromkeys(("axes.edgecolor", "xtick.color", "ytick.color"), colour["line"]),
            "axes.spines.right": False,
            "axes.spines.top": False,
            "font.size": 11,
            "svg.hashsalt": name,
        }
        with mpl.rc_context(settings):
            figure = draw(colour)
            figure.savefig(folder / f"{name}_{theme}.svg", transparent=True, metadata={"Date": None})
            plt.close(figure)


def end_label(ax: Axes, x: float, y: float, text: str, colour: str) -> None:
    """Write the name of a line at its end."""
    ax.annotate(text, (x, y), (6, 0), textcoords="offset points", color=colour, va="center", annotation_clip=False)
