"""Loss ratios of AutoRejector and AutoGluon by table, and the page about them."""

from __future__ import annotations

import numpy as np
import pandas as pd

AUTOREJECTOR, NO_LIMIT, AUTOGLUON = "AutoRejector", "AutoRejector, no limit", "AutoGluon"
_MIN_SPLITS, _DRAWS = 5, 10_000  # of intervals by splits drawn anew
PAPER_TABLES = ("abalone", "airfoil", "auto_mpg", "concrete", "housing")

_INTRODUCTION = """# AutoRejector against AutoML

AutoGluon as a regressor with rejection: one predictor with its preset is the regressor h. Its squared out-of-fold
errors are the target of a second predictor, whose features are those of the table and the prediction of h. A row is
accepted if this risk is below the cost. Each of the two has half of the time. `AutoRejector` has the whole time as its
`time_limit`, is fitted once, at the geometric mean of the costs, and may use less. Both use the same cores, one after
the other.

Both learn from the same rows and decide about the same test rows. The tables of the paper have its splits, with
training and validation rows together to learn from, and its costs. The others have random splits, 80% to learn from,
with the number of the split as the seed. Their costs are a half, once and twice the mean squared out-of-fold error of
boosted trees on the training rows; those of the paper are about as large. The friedman tables are simulated.

In random splits, test rows may have the same features as training rows: 80% of those of randhie do, where several rows
are years of one person. `AutoRejector` keeps rows with equal features in one fold by default, for new values of the
features. Here each row is a group of its own (`groups=np.arange(len(X))`), as the documentation advises for such rows;
the folds of AutoGluon are random too.

The ratio is the RcR loss of `AutoRejector` over that of AutoGluon: means over the splits, then the geometric mean over
the costs. Below 1, `AutoRejector` is better. Its 95% interval is by splits drawn anew, for tables with five splits or
more; it is a little too narrow, since some rows are test rows of several splits. Expected over observed loss is that of
the accepted rows of all splits. Shares of accepted rows and seconds of fits are means over the splits. In brackets are
the seconds of processor time of the process that fits: much less than the seconds before them means that the machine
had other work. No choice in either method looks at test rows.

Reproduce with

    OMP_NUM_THREADS=1 python benchmarks/automl.py --autogluon PYTHON

where PYTHON is the interpreter of an environment with autogluon.tabular; the option `--seconds` sets the limit.
losses.csv has the losses of each split.
"""


def geometric_mean(values: pd.Series) -> float:
    """Return the geometric mean of positive values."""
    return float(np.exp(np.log(values).mean()))


def paired(results: pd.DataFrame, method: str, rival: str = AUTOGLUON) -> pd.DataFrame:
    """Join the lines of two methods with equal table, split and cost; the rival's columns end in `_rival`."""
    ours, theirs = (results[results["method"] == name] for name in (method, rival))
    return ours.merge(theirs, on=["table", "split", "level"], suffixes=("", "_rival"))


def by_cost(pairs: pd.DataFrame) -> pd.DataFrame:
    """Return means over the splits for each table and cost, the ratio of the mean losses, and the calibration.

    The calibration is the expected over the observed loss of the accepted rows of all splits; NaN if there is none.
    """
    for suffix in ("", "_rival"):
        rows = pairs[f"accepted{suffix}"] * pairs[f"test_rows{suffix}"]
        sums = {f"{name}_sum{suffix}": pairs[f"{name}{suffix}"].fillna(0.0) * rows for name in ("expected", "observed")}
        pairs = pairs.assign(**sums)
    means = pairs.groupby(["table", "level"], sort=False).mean(numeric_only=True).reset_index()
    for suffix in ("", "_rival"):
        observed = means[f"observed_sum{suffix}"]
        means[f"calibration{suffix}"] = means[f"expected_sum{suffix}"] / observed.where(observed > 0)
    return means.assign(ratio=means["loss"] / means["loss_rival"])


def by_table(pairs: pd.DataFrame) -> pd.DataFrame:
    """Return one line for each table, with the geometric mean over the costs of the ratios, lowest first."""
    ratios = pairs.assign(ratio=pairs["loss"] / pairs["loss_rival"])
    of_splits = ratios.groupby(["table", "split"])["ratio"].agg(geometric_mean).groupby("table")
    averages = ["accepted", "fit_seconds", "processor_seconds"]
    table = pairs.groupby("table")[
        ["train_rows", "features", *averages, *(f"{name}_rival" for name in averages)]
    ].mean()
    table["splits"] = of_splits.size()
    table["ratio"] = by_cost(pairs).groupby("table")["ratio"].agg(geometric_mean)
    table["lowest"], table["highest"] = of_splits.min(), of_splits.max()
    table[["low", "high"]] = [_interval(pairs[pairs["table"] == name]) for name in table.index]
    return table.sort_values("ratio").reset_index()


def _interval(pairs: pd.DataFrame) -> tuple[float, float]:
    """Return the 95% interval of the ratio of one table, by splits drawn anew; NaN with few splits."""
    if pairs["split"].nunique() < _MIN_SPLITS:
        return np.nan, np.nan
    ours, theirs = (pairs.pivot(index="split", columns="level", values=name) for name in ("loss", "loss_rival"))
    drawn = np.random.default_rng(0).integers(len(ours), size=(_DRAWS, len(ours)))
    logarithms = np.log(ours.to_numpy()[drawn].mean(axis=1) / theirs.to_numpy()[drawn].mean(axis=1))
    low, high = np.exp(np.quantile(logarithms.mean(axis=1), [0.025, 0.975]))
    return float(low), float(high)


def page(results: pd.DataFrame) -> str:
    """Return the page as Markdown."""
    parts = [_INTRODUCTION]
    runs = results[results["method"] != NO_LIMIT].groupby(["limit", "cores"])
    for (limit, cores), run in sorted(runs, key=lambda item: float(item[0][0])):
        unlimited = results[(results["method"] == NO_LIMIT) & (results["cores"] == cores)]
        parts.append(_section(run, unlimited, limit, cores))
    return "\n".join(parts)


def _section(run: pd.DataFrame, unlimited: pd.DataFrame, limit: str, cores: int) -> str:
    _check_settings(run)
    pairs = paired(run, AUTOREJECTOR)
    where = f"{limit} seconds, {'one core' if cores == 1 else f'{cores} cores'}"
    if pairs.empty:
        return f"## {where}\n\nNo split was run by both methods.\n"
    settings = ", ".join(f"{method} `{setting}`" for method, setting in _settings(run).items())
    tables = by_table(pairs)
    text = f"## {where}\n\n{settings}.\n\n{_summary(tables)}\n{_table_of_tables(tables)}"
    free = paired(pd.concat([unlimited, run[run["method"] == AUTOGLUON]]), NO_LIMIT)
    if not free.empty:
        text += f"\n### AutoRejector without a limit\n\n{_summary(by_table(free))}\n{_table_of_tables(by_table(free))}"
    return text + f"\n### By cost\n\n{_table_of_costs(by_cost(pairs))}"


def _settings(run: pd.DataFrame) -> dict[str, str]:
    return {str(method): lines["setting"].iloc[0] for method, lines in run.groupby("method")}


def _check_settings(run: pd.DataFrame) -> None:
    for method, lines in run.groupby("method"):
        found = sorted(lines["setting"].unique())
        if len(found) > 1:
            raise ValueError(f"results of one folder must have one setting for each method, got {found} for {method}")


def _summary(tables: pd.DataFrame) -> str:
    designed = tables["table"].isin(PAPER_TABLES)
    text = "| tables | number | ratio of losses | below 1 | highest |\n| --- | --- | --- | --- | --- |\n"
    for name, part in (("all", tables), ("of the paper", tables[designed]), ("others", tables[~designed])):
        if len(part):
            ratio, below, highest = geometric_mean(part["ratio"]), (part["ratio"] < 1).sum(), part["ratio"].max()
            text += f"| {name} | {len(part)} | {ratio:.3f} | {below} | {highest:.3f} |\n"
    return text


def _table_of_tables(tables: pd.DataFrame) -> str:
    text = (
        "| table | rows | features | splits | ratio of losses | 95% interval | of single splits | accepted | "
        "AutoGluon | seconds | AutoGluon |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n"
    )
    for line in tables.itertuples():
        text += (
            f"| {line.table} | {line.train_rows:.0f} | {line.features:.0f} | {line.splits} | {line.ratio:.3f} | "
            f"{_range(line.low, line.high)} | {_range(line.lowest, line.highest)} | "
            f"{line.accepted:.0%} | {line.accepted_rival:.0%} | "
            f"{line.fit_seconds:.0f} ({line.processor_seconds:.0f}) | "
            f"{line.fit_seconds_rival:.0f} ({line.processor_seconds_rival:.0f}) |\n"
        )
    return text


def _table_of_costs(costs: pd.DataFrame) -> str:
    text = (
        "| table | level | cost | AutoRejector | AutoGluon | ratio | accepted | AutoGluon | expected / observed | "
        "AutoGluon |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n"
    )
    for line in costs.itertuples():
        text += (
            f"| {line.table} | {line.level} | {line.cost:.4g} | {line.loss:.4g} | {line.loss_rival:.4g} | "
            f"{line.ratio:.3f} | {line.accepted:.0%} | {line.accepted_rival:.0%} | {_known(line.calibration)} | "
            f"{_known(line.calibration_rival)} |\n"
        )
    return text


def _range(low: float, high: float) -> str:
    return "" if np.isnan(low) else f"{low:.2f} to {high:.2f}"


def _known(ratio: float) -> str:
    return "" if np.isnan(ratio) else f"{ratio:.2f}"
