"""Values from the tables of `results/` for the text of the pages, as substitutions of MyST."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from recuse import __version__
from recuse.bench.methods import METHODS

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.config import Config

RANKS = Path(__file__).parents[2] / "results" / "methods" / "ranks.csv"
SHOWN = (
    "auto",
    "rcr_any_cost",
    "risk_rejector",
    "selectivenet",
    "rcr_mae",
    "mlp_plug",
    "always_accept",
    "always_reject",
)


def values() -> dict[str, str]:
    """Return the text of each substitution."""
    ranks = pd.read_csv(RANKS).set_index("method")
    titles = {name: method.title for name, method in METHODS.items()} | {
        "always_accept": "accept all rows",
        "always_reject": "reject all rows",
    }
    lines = ["| method | loss over the paper's best | lower in |", "| --- | --- | --- |"]
    for name in SHOWN:
        row = ranks.loc[name]
        lines.append(f"| {titles[name]} | {row['ratio']:.2f} | {row['below_paper']:.0f} of {row['printed']:.0f} |")
    return {
        "leaderboard": "\n".join(lines),
        "version": __version__,
        "cells": f"{ranks['printed'].max():.0f}",
        "joint_ratio": f"{ranks.loc['rcr_mae', 'ratio']:.2f}",
        "crossfit_ratio": f"{ranks.loc['rcr_any_cost', 'ratio']:.2f}",
    }


def add_values(app: Sphinx, config: Config) -> None:
    """Set the substitutions before MyST reads them."""
    config["myst_substitutions"] = values()


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the event."""
    app.connect("config-inited", add_values, priority=1)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
