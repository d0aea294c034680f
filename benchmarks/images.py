"""The paper's experiments on images, and the same on generated tissue whose Bayes risk is known.

OMP_NUM_THREADS=1 python benchmarks/images.py cellularity --repeats 1 --jobs 2 -o results/images   # 5 minutes
python benchmarks/images.py agedb --root data/AgeDB --accelerator gpu --precision bf16-mixed --workers 8
python benchmarks/images.py breastpathq --root data/BreastPathQ --accelerator gpu

Every training is stored, so the same command continues an interrupted run, also in the middle of a training. Slow-Start
depends on neither cost nor surrogate: it is trained once for each repeat, and every pair resumes from its checkpoint,
as does the regressor without a rejector ("sup"). Each ends with the numbers of a training from the start.
The output folder gets a CSV file of all cells, figures, the protocol as JSON, and a page about all data sets in it.
"""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import time
import tomllib
import warnings
import zlib
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from importlib.metadata import version
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy.stats import spearmanr
from sklearn.utils import check_random_state
from torch import Tensor

from recuse import Decision, RcRImageRegressor, TwoHeads, metrics, surrogates, theory
from recuse.datasets import AgeDB, BreastPathQ, make_cellularity
from recuse.images import crop_and_flip
from recuse.images.backbones import make_backbone
from recuse.images.batches import SeededRows
from recuse.images.module import RejectionModule, TrainingSettings
from recuse.images.rows import ImageRows
from recuse.images.rule import ImageRule, image_of
from recuse.images.training import train

Floats = NDArray[np.float64]

PAPER = Path(__file__).parents[1] / "papers" / "rcr2023.toml"
FOLDERS = {"agedb": AgeDB, "breastpathq": BreastPathQ}
BACKBONES = {"small_cnn": None, "resnet50": "resnet50"}
SUP, SLOW_START = "sup", "slow_start"
MEASURES = {
    "rcrloss": "rcr_loss", "al": "accepted_loss", "rl": "rejected_loss", "rej": "rejection_rate",
    "ar": "false_rejection_rate", "ra": "false_acceptance_rate", "always_reject": "always_reject", "oracle": "oracle",
}  # fmt: skip
PERCENT = ("rej", "ar", "ra")
# Measures that need the mean and the variance of each target.
KNOWN = ("bayes_risk", "bayes_ratio", "risk_ratio", "bayes_al", "bayes_rej", "rank_correlation")
SQUARED = ("rcrloss", "al", "rl", "sup", "always_reject", "oracle", "bayes_risk", "bayes_al")
# The paper pads images of 224 pixels by 16 before a random crop.
PADDING = 16 / 224
# Number of images of each kind on the contact sheet, and in one of its lines.
SHOWN, LINE = 16, 8


@dataclass(frozen=True)
class Experiment:
    """One data set with the settings of its trainings; costs are in squared units of the target.

    Attributes
    ----------
    printed_scale : float
        The paper prints costs and losses multiplied by this.
    augment : str
        "crop_and_flip" as in the paper, or "turn", which rotates and mirrors images in one of eight ways.
    rows : tuple of int
        Training, validation and test images of a generated data set; empty for a folder.
    """

    name: str
    model: str
    surrogates: tuple[str, ...]
    costs: tuple[float, ...]
    repeats: int
    epochs: int
    slow_start: int
    batch_size: int
    learning_rate: float
    schedule: str
    augment: str
    size: int
    rows: tuple[int, ...] = ()
    printed_scale: float = 1.0
    precision: str = "32"

    @property
    def mark(self) -> str:
        """A checksum of everything that changes one training."""
        left_out = dict.fromkeys(("surrogates", "costs", "repeats", "printed_scale"))
        return f"{zlib.crc32(repr({**asdict(self), **left_out}).encode()):08x}"

    @property
    def alone(self) -> int:
        """Number of epochs in which the regressor trains alone."""
        return min(self.slow_start, self.epochs // 2)


def experiment_of(name: str, changes: dict[str, Any]) -> Experiment:
    """Return an experiment of the paper with some settings changed; Slow-Start and rows keep their proportions."""
    table = tomllib.loads(PAPER.read_text(encoding="utf-8"))["images"][name]
    usual = Experiment(
        name, **{key: tuple(value) if isinstance(value, list) else value for key, value in table.items()}
    )
    given = {key: value for key, value in changes.items() if value is not None}
    if "epochs" in given:
        given["slow_start"] = round(usual.slow_start * given["epochs"] / usual.epochs)
    if "rows" in given:
        if not usual.rows:
            raise ValueError(f"rows can be set for a generated data set only, got rows={given['rows']} for {name}")
        given["rows"] = tuple(max(round(part * given["rows"] / usual.rows[0]), 2) for part in usual.rows)
    for surrogate in given.get("surrogates", ()):
        surrogates.get(surrogate)
    return replace(usual, **given)


@dataclass(frozen=True)
class Parts:
    """Training, validation and test images of one repeat, and mean and variance of the test targets if known."""

    train: Any
    validation: Any
    test: Any
    mean: Floats | None = None
    variance: Floats | None = None

    @property
    def images(self) -> Any:
        """The test images without their targets."""
        return self.test[0] if isinstance(self.test, tuple) else self.test

    @property
    def y(self) -> Floats:
        """The targets of the test images."""
        return ImageRows.check(self.test, None, 0.0).y


def load_parts(experiment: Experiment, root: Path | None, repeat: int) -> Parts:
    """Return the images of one repeat; those of a folder are split at random into 60 / 20 / 20 %."""
    if not experiment.rows:
        # Without a folder, the error of the data set explains how to obtain one.
        folder = Path("--root FOLDER") if root is None else root
        return Parts(*FOLDERS[experiment.name](folder, size=experiment.size, verbose=True).split(repeat))
    images, y, mean, variance = make_cellularity(sum(experiment.rows), random_state=repeat, size=experiment.size)
    ends = [slice(*each) for each in pairwise(accumulate(experiment.rows, initial=0))]
    parts = [(images[part], y[part]) for part in ends]
    return Parts(*parts, *(np.asarray(values[ends[-1]], dtype=np.float64) for values in (mean, variance)))


def turn(image: Tensor, generator: np.random.Generator) -> Tensor:
    """Rotate and mirror a square image in one of the eight possible ways, since tissue has no orientation."""
    way = int(generator.integers(8))
    turned = torch.rot90(image, way % 4, (-2, -1))
    return (turned.flip(-1) if way >= 4 else turned).contiguous()


@dataclass(frozen=True)
class Repeat:
    """All trainings of one repeat; an interrupted one resumes from its checkpoints in the folder."""

    experiment: Experiment
    number: int
    parts: Parts
    folder: Path
    accelerator: str = "auto"
    workers: int = 0

    @property
    def augment(self) -> Callable[[Tensor, np.random.Generator], Tensor]:
        """The random transform of training images."""
        padding = round(self.experiment.size * PADDING)
        return {"turn": turn, "crop_and_flip": partial(crop_and_flip, padding=padding)}[self.experiment.augment]

    @property
    def trainer(self) -> dict[str, Any]:
        """Arguments of Lightning's Trainer."""
        return {"accelerator": self.accelerator, "precision": self.experiment.precision}

    def pair(self, surrogate: str, cost: float) -> RcRImageRegressor:
        """Train regressor and rejector together, from the end of Slow-Start."""
        folder, experiment = self.folder / f"{surrogate}-{cost:g}", self.experiment
        self._begin(folder)
        model = RcRImageRegressor(
            cost,
            surrogate,
            BACKBONES[experiment.model],
            experiment.epochs,
            experiment.slow_start,
            experiment.batch_size,
            experiment.learning_rate,
            schedule=experiment.schedule,
            augment=self.augment,
            num_workers=self.workers,
            trainer=self.trainer,
            checkpoint_dir=folder,
            random_state=self.number,
        )
        return model.fit(self.parts.train, validation=self.parts.validation)

    def supervised(self) -> Floats:
        """Train the regressor on squared error; return predictions of the test images by its best epoch of all."""
        folder, test = self.folder / SUP, ImageRows.check(self.parts.test, None, 0.0)
        self._begin(folder)
        module = self._train_regressor(folder, None)
        network = module.network.float().eval()
        rule = ImageRule(network, (), float(module.target_mean), float(module.target_scale), self.experiment.batch_size)
        return rule.decide(test.images, np.ones(len(test)))[0]

    def slow_start(self) -> None:
        """Train the regressor for the epochs of Slow-Start, unless that is done."""
        folder, alone = self.folder / SLOW_START, self.experiment.alone
        last = folder / "last.ckpt"
        done = len(torch.load(last, map_location="cpu", weights_only=True)["history"]) if last.exists() else 0
        if done < alone:
            self._train_regressor(folder, alone)

    def _begin(self, folder: Path) -> None:
        """Copy the checkpoints of Slow-Start to the folder of a training that has not started."""
        if self.experiment.alone and not (folder / "last.ckpt").exists():
            self.slow_start()
            folder.mkdir(parents=True, exist_ok=True)
            names = ("best.ckpt", "last.ckpt") if folder.name == SUP else ("last.ckpt",)
            for name in names:  # where last.ckpt exists, the other one does too
                partial_copy = shutil.copyfile(self.folder / SLOW_START / name, folder / f"{name}.partial")
                partial_copy.replace(folder / name)

    def _train_regressor(self, folder: Path, last_epoch: int | None) -> RejectionModule:
        experiment = self.experiment
        # The seed that RcRImageRegressor draws, so that a pair has the same batches in Slow-Start as after it.
        seed = int(check_random_state(self.number).randint(2**31 - 1))
        settings = TrainingSettings(
            experiment.epochs,
            experiment.epochs,
            experiment.batch_size,
            experiment.learning_rate,
            seed,
            schedule=experiment.schedule,
            num_workers=self.workers,
            folder=folder,
            trainer=self.trainer,
            monitor="val/always_accept",
            last_epoch=last_epoch,
        )
        rows, held_out = (ImageRows.check(part, None, 0.0) for part in (self.parts.train, self.parts.validation))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            network = TwoHeads(*make_backbone(BACKBONES[experiment.model], 3))
        module = RejectionModule(network, settings, float(rows.y.mean()), float(rows.y.std()))
        train(module, SeededRows(rows, self.augment, seed), SeededRows(held_out))
        return module


def measured(repeat: Repeat, surrogate: str, cost: float | None) -> dict[str, Any]:
    """Train and test one cell."""
    parts = repeat.parts
    if surrogate == SLOW_START:
        repeat.slow_start()
        return {}
    if surrogate == SUP:
        return {SUP: float(metrics.squared_error(parts.y, repeat.supervised()).mean())}
    decision = repeat.pair(surrogate, cost).decide(parts.images)
    values = decision.evaluate(parts.y)
    found = {short: values[name] * (100 if short in PERCENT else 1) for short, name in MEASURES.items()}
    return {**found, **against_bayes(decision, parts), "clearest": clearest(decision, parts.y)}


def against_bayes(decision: Decision, parts: Parts) -> dict[str, float]:
    """Compare with the Bayes decision, if mean and variance of every target are known.

    ``risk_ratio`` uses the expected loss of each decision instead of the loss on the drawn target, so it does not
    depend on the draw and is never below one.
    """
    if parts.mean is None or parts.variance is None:
        return {}
    best = theory.bayes_risk(parts.variance, decision.cost)
    calm = parts.variance < decision.cost  # what the Bayes rejector accepts
    expected = parts.variance + (decision.prediction - parts.mean) ** 2
    loss = metrics.rcr_loss(parts.y, decision.prediction, decision.accepted, decision.cost)
    return {
        "bayes_risk": best,
        "bayes_ratio": loss / best,
        "risk_ratio": float(np.where(decision.accepted, expected, decision.cost).mean()) / best,
        "bayes_al": float(parts.variance[calm].mean()) if calm.any() else float("nan"),
        "bayes_rej": 100 * float(1 - calm.mean()),
        "rank_correlation": float(spearmanr(-decision.score, parts.variance).statistic),
    }


def clearest(decision: Decision, y: Floats) -> dict[str, list[dict[str, float]]]:
    """Return the test rows with the highest and the lowest scores, most extreme first."""
    order = np.argsort(decision.score, kind="stable")
    shown = min(SHOWN, len(order) // 2)
    return {
        name: [{"row": int(row), "prediction": float(decision.prediction[row]), "y": float(y[row])} for row in rows]
        for name, rows in {"accepted": order[::-1][:shown], "rejected": order[:shown]}.items()
    }


def run_cell(repeat: Repeat, surrogate: str, cost: float | None, threads: int) -> dict[str, Any]:
    """Return one cell from its file; run it first unless that is done."""
    torch.set_num_threads(threads)
    warnings.filterwarnings("ignore", ".*NumPy array is not writable", UserWarning)  # processes share the images
    name = surrogate if cost is None else f"{surrogate}-{cost:g}"
    file = repeat.folder / f"{name}.json"
    if not file.exists():
        start = time.process_time()
        found = measured(repeat, surrogate, cost)
        found["seconds"] = round(time.process_time() - start, 2)
        partial_file = repeat.folder / f"{name}.partial"
        partial_file.write_text(json.dumps(found), encoding="utf-8")
        partial_file.replace(file)
        if surrogate != SLOW_START:
            shutil.rmtree(repeat.folder / name)  # the checkpoints
    identity = {"surrogate": surrogate, "cost": cost, "repeat": repeat.number}
    return {**identity, **json.loads(file.read_text(encoding="utf-8"))}


def run(experiment: Experiment, options: argparse.Namespace) -> tuple[pd.DataFrame, Parts]:
    """Run all cells that are not stored; return one record for each, and the images of the first repeat."""
    first = load_parts(experiment, options.root, 0)
    pairs = [(SUP, None), *((name, cost) for name in experiment.surrogates for cost in experiment.costs)]
    records, pool, cell = [], Parallel(n_jobs=options.jobs), delayed(run_cell)
    for number in range(experiment.repeats):
        folder = options.output / "cells" / f"{experiment.name}-{experiment.mark}" / str(number)
        folder.mkdir(parents=True, exist_ok=True)
        parts = load_parts(experiment, options.root, number) if number else first
        repeat = Repeat(experiment, number, parts, folder, options.accelerator, options.workers)
        records.append(run_cell(repeat, SLOW_START, None, options.threads))  # all cells resume from it
        records += pool(cell(repeat, *pair, options.threads) for pair in pairs)
        shutil.rmtree(folder / SLOW_START, ignore_errors=True)  # all results are stored
    return pd.DataFrame(records), first


def table_of(records: pd.DataFrame, experiment: Experiment) -> pd.DataFrame:
    """Return mean and deviation over the repeats of every measure, beside the printed numbers in the same units."""
    names = [*MEASURES, SUP, *(name for name in KNOWN if name in records)]
    sup = records[records["surrogate"] == SUP].set_index("repeat")[SUP]
    pairs = records[records["cost"].notna()].drop(columns=SUP)
    pairs = pairs.assign(sup=pairs["repeat"].map(sup))  # it depends on neither surrogate nor cost
    long = pairs.melt(["surrogate", "cost", "repeat"], names, var_name="metric").astype({"value": float})
    cell = ["surrogate", "cost", "metric"]
    table = long.groupby(cell, sort=False)["value"].agg(["mean", "std", "count"]).reset_index()
    table = table.rename(columns={"count": "repeats"}).merge(printed(experiment), on=cell, how="left")
    table.insert(0, "dataset", experiment.name)
    table.insert(1, "model", experiment.model)
    order = {"surrogate": experiment.surrogates, "cost": experiment.costs, "metric": (*list(MEASURES)[:6], SUP, *names)}
    ranks = table.assign(**{column: table[column].map(list(values).index) for column, values in order.items()})
    return table.loc[ranks.sort_values(list(order)).index].reset_index(drop=True)


def printed(experiment: Experiment) -> pd.DataFrame:
    """Return the printed numbers with costs and losses in squared units of the target."""
    table = pd.read_csv(PAPER.with_suffix("") / "results.csv")
    own = table[(table["dataset"] == experiment.name) & (table["model"] == experiment.model)]
    factor = own["metric"].isin(SQUARED).map({True: experiment.printed_scale, False: 1.0})
    # A cost read from a file and the same cost divided may differ in the last bit.
    cost = (own["cost"] / experiment.printed_scale).round(12)
    own = own.assign(cost=cost, paper_mean=own["mean"] / factor, paper_std=own["std"] / factor)
    return own[["surrogate", "cost", "metric", "paper_mean", "paper_std"]]


def draw_losses(table: pd.DataFrame, experiment: Experiment, path: Path) -> None:
    """Plot RcR loss, accepted loss and rejection rate against the cost, with reference lines."""
    from matplotlib import pyplot

    scale, first = experiment.printed_scale, experiment.surrogates[0]
    panels = {"rcrloss": "RcR loss", "al": "loss of accepted images", "rej": "rejected (%)"}
    lines = {
        "rcrloss": {
            "sup": ("always accept", "--"),
            "always_reject": ("always reject", ":"),
            "bayes_risk": ("best", "-"),
        },
        "al": {"bayes_al": ("best", "-")},
        "rej": {"bayes_rej": ("best", "-")},
    }
    figure, axes = pyplot.subplots(1, len(panels), figsize=(10.5, 3.6), layout="constrained")
    for ax, (metric, title) in zip(axes, panels.items(), strict=True):
        factor = scale if metric in SQUARED else 1.0
        for number, name in enumerate(experiment.surrogates):
            rows = table[(table["metric"] == metric) & (table["surrogate"] == name)]
            cost, mean, std = rows["cost"] * scale, rows["mean"] * factor, rows["std"].fillna(0) * factor
            ax.plot(cost, mean, color=f"C{number}", marker="o", label=f"RcR, {name}")
            ax.fill_between(cost, (mean - std).clip(lower=0), mean + std, color=f"C{number}", alpha=0.12, lw=0)
            if rows["paper_mean"].notna().any():
                paper = {"marker": "o", "mfc": "none", "ms": 9, "ls": "none", "color": f"C{number}"}
                ax.plot(cost, rows["paper_mean"] * factor, **paper, label=f"{name}, printed")
        for other, (label, style) in lines[metric].items():
            rows = table[(table["metric"] == other) & (table["surrogate"] == first)]
            if len(rows):
                ax.plot(rows["cost"] * scale, rows["mean"] * factor, color="grey", ls=style, label=label)
        ax.set(title=title, xlabel=f"cost of a rejection (times {scale:g})", ylim=(0, None))
    highest = table[table["metric"].isin(["rcrloss", "sup"])]["mean"].max()
    axes[0].set_ylim(0, 1.2 * highest * scale)  # the line of always rejecting may leave the axes
    axes[0].legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def draw_pictures(records: pd.DataFrame, parts: Parts, experiment: Experiment, path: Path) -> None:
    """Show the test images with the highest and the lowest scores, in the first repeat at the middle cost."""
    from matplotlib import pyplot

    cost, surrogate = sorted(experiment.costs)[len(experiment.costs) // 2], experiment.surrogates[0]
    chosen = (records["repeat"] == 0) & (records["cost"] == cost) & (records["surrogate"] == surrogate)
    cases = records[chosen].iloc[0]["clearest"]
    lines = -(-len(cases["accepted"]) // LINE)
    figure = pyplot.figure(figsize=(10.5, 2 * (lines * 1.5 + 0.45)), layout="constrained")
    for block, (kind, shown) in zip(figure.subfigures(2, 1, hspace=0.04), cases.items(), strict=True):
        block.suptitle(f"most clearly {kind}", x=0.01, ha="left", fontsize=12, weight="bold")
        for ax in (axes := block.subplots(lines, LINE, squeeze=False)).flat:
            ax.axis("off")
        for ax, case in zip(axes.flat, shown, strict=False):
            image = (image_of(parts.images, case["row"]) + 1) * 127.5
            ax.imshow(np.moveaxis(image.round().clamp(0, 255).byte().numpy(), 0, 2))
            text = f"{case['prediction']:.3g} for {case['y']:.3g}"
            known = "" if parts.variance is None else f", sd {parts.variance[case['row']] ** 0.5:.2f}"
            ax.set_title(text + known, fontsize=8, pad=3)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def write_page(folder: Path) -> None:
    """Write the page about all data sets in a folder."""
    parts = [PAGE.strip()]
    discussion = folder / "discussion.md"  # written by hand, copied unchanged
    if discussion.is_file():
        parts.append(discussion.read_text(encoding="utf-8").strip())
    for name in ("agedb", "breastpathq", "cellularity"):
        if (folder / f"{name}.json").is_file():
            parts += section(name, folder)
    (folder / "README.md").write_text("\n\n".join(parts) + "\n", encoding="utf-8")


PAGE = """
# Regression with rejection on images

Cheng, Cao, Wang, Wei, An, Feng: Regression with Cost-based Rejection. NeurIPS 2023.

A regressor and a rejector share a backbone and are trained together. *sup* is the same network trained on squared
error alone, which accepts all images. The loss of *always_reject* is the cost. The *oracle* makes the best decisions
about the predictions of the pair. Cells show means over the repeats, with standard deviations where there is more than
one, and after a slash the printed numbers; rej, ar and ra are in percent. For generated images, *bayes_risk* is the
lowest possible loss and *bayes_ratio* our rcrloss divided by it; *risk_ratio* uses the expected loss of each decision
instead of the loss on the drawn target, so it does not depend on the draw. *bayes_al* and *bayes_rej* are the accepted
loss and the rejection rate of the Bayes decision, and *rank_correlation* is Spearman's correlation between our scores
(with the sign changed) and the true variances.
"""


def section(name: str, folder: Path) -> list[str]:
    """Return the paragraphs about one data set."""
    facts = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    table, protocol, scale = pd.read_csv(folder / f"{name}.csv"), facts["protocol"], facts["scale"]
    wide = table.pivot(index=["surrogate", "cost"], columns="metric", values="mean")
    lower = (wide["rcrloss"] < wide[["sup", "always_reject"]].min(axis=1)).sum()
    summary = f"In {lower} of {len(wide)} cells, rcrloss is below both sup and the cost."
    if "bayes_ratio" in wide:
        summary += (
            f" It is at most {wide['bayes_ratio'].max():.3f} times the Bayes risk; the rank correlation between our "
            f"scores and the true variance is at least {wide['rank_correlation'].min():.2f}."
        )
    rows = " / ".join(f"{count:,}" for count in protocol["rows"]) or "60% / 20% / 20% of the"
    settings = (
        f"{rows} images for training, validation and test, {protocol['size']} x {protocol['size']} pixels; network "
        f"{table['model'].iloc[0]}; {protocol['epochs']} epochs, of which the regressor trains alone in "
        f"{min(protocol['slow_start'], protocol['epochs'] // 2)}; batches of {protocol['batch_size']}; Adam with a "
        f"{protocol['schedule']} learning rate of {protocol['learning_rate']:g}; repeats: "
        f"{int(table['repeats'].max())}. All trainings and tests took {facts['processor seconds'] / 60:.1f} minutes of "
        "processor time."
    )
    unit = "" if scale == 1 else f"Costs and losses are times {scale:g}."
    figures = [f"![{name} {kind}]({name}_{kind}.png)" for kind in ("losses", "pictures")]
    measures = list(dict.fromkeys(table["metric"]))
    tables = [markdown(table[table["metric"].isin(half)], scale) for half in (measures[:7], measures[7:])]
    title = f"## {name}\n\nReproduce with\n\n    {facts['command']}"
    return [title, settings, summary, *figures, *([unit] if unit else []), *tables]


def markdown(table: pd.DataFrame, scale: float) -> str:
    """Return a Markdown table with a row for each surrogate and cost, ours beside the printed numbers."""
    names = list(dict.fromkeys(table["metric"]))
    lines = ["| surrogate | cost | " + " | ".join(names) + " |", "| " + " | ".join(["---"] * (2 + len(names))) + " |"]
    for (surrogate, cost), cells in table.groupby(["surrogate", "cost"], sort=False):
        texts = [cell_text(row, scale if row["metric"] in SQUARED else 1.0) for row in cells.to_dict("records")]
        lines.append(f"| {surrogate} | {cost * scale:g} | " + " | ".join(texts) + " |")
    return "\n".join(lines)


def cell_text(row: dict[str, Any], factor: float) -> str:
    """Return mean and deviation, ours and the printed ones."""

    def number(mean: float, std: float) -> str:
        text = "-" if np.isnan(mean) else f"{mean * factor:.2f}"
        return text if np.isnan(std) else f"{text} ({std * factor:.2f})"

    ours = number(row["mean"], row["std"])
    return ours if np.isnan(row["paper_mean"]) else f"{ours} / {number(row['paper_mean'], row['paper_std'])}"


def command_of(options: argparse.Namespace) -> str:
    """Return the command that reproduces a run; the folder of the images is not named."""
    words = ["python", "benchmarks/images.py", options.dataset]
    for name, value in vars(options).items():
        if name in ("dataset", "figures", "jobs", "output", "threads", "workers", "accelerator") or value is None:
            continue
        text = "FOLDER" if name == "root" else ",".join(map(str, value)) if isinstance(value, list) else str(value)
        words += [f"--{name}", text]
    return shlex.join([*words, "--jobs", "2", "-o", str(options.output)])


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parse = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parse.add_argument("dataset", choices=["agedb", "breastpathq", "cellularity"])
    parse.add_argument("--root", type=Path, help="folder of the images of agedb or breastpathq")
    parse.add_argument("--model", choices=list(BACKBONES))
    parse.add_argument("--surrogates", type=lambda text: text.split(","), help="separated by commas")
    parse.add_argument("--costs", type=lambda text: [float(cost) for cost in text.split(",")], help="by commas")
    parse.add_argument("--repeats", type=int, help="random splits")
    parse.add_argument("--epochs", type=int, help="Slow-Start keeps its share of them")
    parse.add_argument("--size", type=int, help="height and width in pixels")
    parse.add_argument("--rows", type=int, help="training images, if they are generated")
    parse.add_argument("--precision", help="of Lightning's Trainer: 32, 16-mixed, bf16-mixed, ...")
    parse.add_argument("-o", "--output", type=Path, default=Path("results/images"))
    parse.add_argument("--jobs", type=int, default=1, help="trainings in parallel; the numbers do not depend on it")
    parse.add_argument("--threads", type=int, default=1, help="threads of each training on the CPU")
    parse.add_argument("--workers", type=int, default=0, help="processes that read images for each training")
    parse.add_argument("--accelerator", default="auto", help="accelerator of Lightning: auto, cpu, gpu, ...")
    parse.add_argument("--no-figures", dest="figures", action="store_false")
    return parse


def main() -> None:
    """Run one data set, and write its table, figures and the page."""
    options = parser().parse_args()
    names = {field.name for field in fields(Experiment)}
    changes = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in vars(options).items()
        if name in names
    }
    try:
        experiment = experiment_of(options.dataset, changes)
        if experiment.rows and options.root is not None:
            raise ValueError(f"{experiment.name} is generated: root must not be given, got {str(options.root)!r}")
        records, first = run(experiment, options)
    except (ValueError, FileNotFoundError) as error:
        parser().exit(2, f"{error}\n")
    table, output, name = table_of(records, experiment), options.output, experiment.name
    table.to_csv(output / f"{name}.csv", index=False, float_format="%.6g", lineterminator="\n")
    if options.figures:
        draw_losses(table, experiment, output / f"{name}_losses.png")
        draw_pictures(records, first, experiment, output / f"{name}_pictures.png")
    packages = ("recuse", "torch", "lightning", "monai", "numpy", "pillow")
    facts = {"command": command_of(options), "scale": experiment.printed_scale, "protocol": asdict(experiment)}
    facts |= {"processor seconds": round(float(records["seconds"].sum()))}
    facts |= {"packages": {package: version(package) for package in packages}}
    (output / f"{name}.json").write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    write_page(output)
    shown = table[table["metric"].isin(["rcrloss", "rej", "sup", "bayes_ratio", "rank_correlation"])]
    print(markdown(shown, experiment.printed_scale))


if __name__ == "__main__":
    main()
