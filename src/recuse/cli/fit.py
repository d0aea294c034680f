"""The command `recuse fit`: train on the user's table and save the model."""

from __future__ import annotations

import shlex
from collections import Counter
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

import recuse
from recuse.cli import options
from recuse.cli.methods import FitPreset, FitSettings, Method, build, check_settings
from recuse.cli.options import option
from recuse.cli.printing import (
    Output,
    comparison_table,
    leaderboard_records,
    leaderboard_table,
    saved_facts,
    savings_sentence,
    size_of,
)
from recuse.cli.tables import AddedReviews, LabelledTable, Roles, add_reviews, read_rows, training_table
from recuse.files.names import source_name
from recuse.phrases import counted
from recuse.usage_errors import UsageError

if TYPE_CHECKING:
    import pandas as pd

_KINDS = {"number": "numbers", "date": "dates or times", "category": "categories"}


@options.command
def fit(
    printer: Output,
    data: Annotated[str, typer.Argument(help="Table to train on: CSV, Parquet, Arrow, or - for standard input.")],
    target: Annotated[str, option("COLUMN", "Column to predict.")],
    cost: options.Cost = None,
    cost_money: options.CostMoney = None,
    method: Annotated[Method, option("METHOD", f"One of {', '.join(Method)}.")] = Method.AUTO,
    preset: Annotated[
        FitPreset, option("PRESET", f"One of {', '.join(FitPreset)}: less time or a lower loss.")
    ] = FitPreset.DEFAULT,
    loss: Annotated[str, option("LOSS", "squared, absolute, huber:1.35, pinball:0.9")] = "squared",
    groups: Annotated[str | None, option("COLUMN", "Column whose equal values keep rows together in folds.")] = None,
    weights: Annotated[str | None, option("COLUMN", "Column with the weights of the rows.")] = None,
    drop: Annotated[list[str] | None, option("COLUMN", "Column to leave out; can be repeated.")] = None,
    time_limit: Annotated[float | None, option("SECONDS", "Seconds for the fit, with --method auto.")] = None,
    test: Annotated[str | None, option("DATA", "Table to test on, instead of out-of-fold rows.")] = None,
    test_share: Annotated[float | None, option("SHARE", "Share of the rows to test on, such as 0.2.")] = None,
    test_rows: Annotated[
        Path | None, option("FILE", "Write the rows of --test-share, for recuse certify and recuse report.")
    ] = None,
    with_reviews: Annotated[
        Path | None, option("FILE", "Review queue of recuse serve, whose answers are learned, too.")
    ] = None,
    reviews_model: Annotated[str | None, option("NAME", "Model of the review queue, if it has several.")] = None,
    seed: Annotated[int, option("N", "Seed of all random choices.")] = 0,
    jobs: Annotated[int | None, option("N", "Processes, with --method auto or risk.", min=1)] = None,
    output: Annotated[Path, option("FILE", "Model file to write.", "-o", "--output")] = Path("model.recuse"),
    encoding: options.Encoding = None,
) -> None:
    """Train on a table and save the model.

    \b
    Examples:
      recuse fit cars.csv --target mpg --cost 6 -o cars.recuse
      recuse fit cars.csv --target mpg --cost 6 --time-limit 60 --drop id
      recuse fit kw.parquet --target kw --cost-money error=10,error_cost=50,review_cost=18
      recuse fit visits.csv --target days --cost column:review_cost --groups patient
      recuse fit cars.csv --target mpg --cost 6 --method rcr --preset fast --test-share 0.2
      recuse fit cars.csv --target mpg --cost 6 --test-share 0.3 --test-rows fresh.csv -o cars.recuse
      recuse fit cars.csv --target mpg --cost 6 --with-reviews reviews.sqlite -o cars.recuse
    """  # noqa: D301
    given = options.given_cost(cost, cost_money)
    if given is None:
        raise UsageError(
            "the cost of a rejection is missing: give --cost, such as --cost 6 or --cost column:NAME, "
            "or --cost-money error=10,error_cost=50,review_cost=18"
        )
    if given.prices is not None and loss != "squared":
        raise UsageError(f"--cost-money needs --loss squared, got {loss!r}: give --cost in units of that loss")
    settings = FitSettings(method, preset, loss, seed, time_limit, jobs, test, test_share, test_rows)
    roles = Roles(target, given.column, groups, weights, tuple(drop or ()))
    if reviews_model is not None and with_reviews is None:
        raise UsageError("--reviews-model needs --with-reviews")
    roles.check()
    for message in check_settings(settings, grouped=groups is not None):
        printer.warn(message)
    _FitRun(printer, data, encoding, roles, given, settings, with_reviews, reviews_model, output).run()


@dataclass(frozen=True)
class _FitRun:
    """One run of the command, step by step."""

    printer: Output
    data: str
    encoding: str | None
    roles: Roles
    cost: options.GivenCost
    settings: FitSettings
    reviews: Path | None
    reviews_model: str | None
    path: Path

    def run(self) -> None:
        from recuse.files.atomic import check_writable

        # The training takes long, so files that cannot be written are found before it.
        for path in (self.path, self.settings.test_rows):
            if path is not None:
                check_writable(path)
        table, added = self._read()
        table, held = self._divided(table)
        self._describe(table, added)
        model = self._fit(table)
        recuse.save(model, self.path)
        self._print(model, table, added, self._judge(model, table, held))

    def _read(self) -> tuple[LabelledTable, AddedReviews | None]:
        """Return the rows of the table and, if there is a review queue, what its answers added to them."""
        frame = read_rows(self.data, self.encoding)
        table = training_table(frame, self.roles, source_name(self.data))
        for name in table.X.columns:
            if name != self.roles.cost and _numbers_rows(frame[name]):
                self.printer.warn(
                    f"column {name!r} numbers the rows, so new rows are outside its range: leave it out by --drop"
                )
        if self.reviews is None:
            return table, None
        added = add_reviews(table, self.roles, self.reviews, self.reviews_model)
        if not added.accepted:
            self.printer.warn(
                "no accepted row has an answer, so hard rows are too frequent among the rows to learn from: "
                "serve with an audit share above 0"
            )
        return added.table, added

    def _divided(self, table: LabelledTable) -> tuple[LabelledTable, LabelledTable | None]:
        """Return the training rows and the rows to test on, if there are any."""
        settings, roles = self.settings, self.roles
        if settings.test is not None:
            text = [name for name in table.X.columns if table.X[name].dtype.kind not in "iufcMm"]
            other = read_rows(settings.test, self.encoding, text)
            dropped = (*roles.dropped, *([] if roles.groups is None else [roles.groups]))
            needed = replace(roles, groups=None, dropped=tuple(name for name in dropped if name in other.columns))
            return table, training_table(other, needed, source_name(settings.test))
        if settings.held_share == 0:
            return table, None
        table, rest = table.split(settings.held_share, settings.seed)
        if settings.test_rows is not None:
            import pandas as pd

            from recuse.files.tables import write_table

            parts = (rest.X, rest.y, rest.groups, rest.weights)
            write_table(pd.concat([part for part in parts if part is not None], axis=1), str(settings.test_rows))
        return table, rest

    def _kinds(self, table: LabelledTable) -> dict[str, int]:
        """Count the features of each kind, in words."""
        from recuse.tabular.schema import kind_of

        features = table.X.drop(columns=self.roles.cost or [], errors="ignore")
        columns = [features[name] for name in features.columns]
        return dict(Counter(_KINDS[kind_of(each)] if each.notna().any() else "empty" for each in columns))

    def _describe(self, table: LabelledTable, added: AddedReviews | None) -> None:
        kinds, target = self._kinds(table), self.roles.target
        listed = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
        left_out = f"; {counted(table.left_out, 'row')} without a target left out" if table.left_out else ""
        facts = {
            "data": f"{table.source}, {counted(len(table), 'training row')}{left_out}",
            "target": target,
            "features": f"{sum(kinds.values())} columns: {listed}",
            "cost": self.cost.describe(self.settings.loss, target),
            "method": f"{self.settings.method}, preset {self.settings.preset}, {self.settings.loss} loss",
            "reviews": None if added is None else added.describe(),
            "groups": self.roles.groups,
            "weights": self.roles.weights,
            "dropped": ", ".join(self.roles.dropped),
        }
        self.printer.facts({name: fact for name, fact in facts.items() if fact})

    def _fit(self, table: LabelledTable) -> Any:
        model = build(self.settings, self.cost.value, verbose=not self.printer.silent)
        extra = {"sample_weight": table.weights, "groups": table.groups}
        given = {name: values for name, values in extra.items() if values is not None}
        console = Console(stderr=True)
        waits = console.is_terminal and not self.printer.silent and not self.settings.shows_progress
        with self.printer.warnings_as_lines(), console.status("fitting") if waits else nullcontext():
            return model.fit(table.X, table.y, **given)

    def _judge(self, model: Any, table: LabelledTable, held: LabelledTable | None) -> dict[str, Any]:
        """Measure the model on the rows to test on or else on its out-of-fold rows, and say which rows these are."""
        from recuse.out_of_fold import OutOfFold

        of_folds = OutOfFold.of(model)
        if held is None and of_folds is None:
            return {"evaluated_on": None, "measures": None}
        rows = table if held is None else held
        weights = rows.weights if rows.judge_weights is None else rows.judge_weights
        if held is None:
            assert of_folds is not None
            name, known = "out-of-fold rows: models that were not fitted to a row decide about it", of_folds.known
            decision, y = of_folds.decision(), of_folds.target[known]
            weights = None if weights is None else weights.to_numpy()[known]
        else:
            name = "held-out rows, which the model was not fitted to"
            with self.printer.warnings_as_lines():
                decision, y = model.decide(held.X), held.y
        if self.settings.test is not None:
            name = f"rows of {rows.source}"
        elif self.reviews is not None:
            name += "; weighted by the rows of the table and of the service that they represent"
        judged = {"evaluated_on": name, "measures": decision.evaluate(y, sample_weight=weights)}
        self.printer.say(f"\nResult on {len(decision):,} {escape(name)}")
        return judged

    def _print(self, model: Any, table: LabelledTable, added: AddedReviews | None, judged: dict[str, Any]) -> None:
        say, measures, prices = self.printer.say, judged["measures"], self.cost.prices
        records = leaderboard_records(getattr(model, "leaderboard_", None))
        if measures is not None:
            say(comparison_table(measures, prices))
        if records:
            say(leaderboard_table(records))
        if measures is not None:
            say(savings_sentence(measures, self.settings.loss, prices))
        path = escape(shlex.quote(str(self.path)))
        say(f"\nSaved [bold]{path}[/] ({size_of(self.path)}).")
        say(f"Next: [bold]recuse predict {path} NEW.csv -o decisions.csv[/]")
        self.printer.finish(
            {
                "model": str(self.path),
                "rows": len(table),
                "rows_without_target": table.left_out,
                "columns": self._kinds(table),
                "target": self.roles.target,
                "cost": self.cost.value,
                "method": str(self.settings.method),
                "preset": str(self.settings.preset),
                "loss": self.settings.loss,
                **judged,
                **saved_facts(measures, self.settings.loss, prices),
                "leaderboard": records,
                "reviews": None if added is None else added.facts(),
            }
        )


def _numbers_rows(column: pd.Series[Any]) -> bool:
    """Whether a column has whole numbers that grow by one from row to row."""
    return column.dtype.kind in "iu" and len(column) > 2 and bool((column.diff().iloc[1:] == 1).all())
