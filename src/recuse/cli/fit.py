"""The command `recuse fit`: train on the user's table and save the model."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

import recuse
from recuse.cli.inputs import options
from recuse.cli.inputs.columns import (
    LabelledTable,
    Roles,
    kinds_of,
    labelled_table,
    row_counters,
    table_to_test,
    text_columns,
)
from recuse.cli.inputs.costs import CostChoice, required_cost
from recuse.cli.inputs.held_out import Held, as_decision, split_rows
from recuse.cli.inputs.methods import Method, Preset, Settings, build, check_settings
from recuse.cli.inputs.reviews import REVIEW_WEIGHTS, AddedReviews, add_reviews
from recuse.cli.printing.leaderboard import leaderboard_records, leaderboard_table
from recuse.cli.printing.measures import comparison_table, savings_sentence
from recuse.cli.printing.output import Output, counted, short
from recuse.inspection.savings import saved_per_row
from recuse.usage_errors import UNUSABLE, UsageError, one_sentence_errors

__all__ = ["fit"]

_TEST_SHARE = 0.2  # of methods without out-of-fold results


def fit(
    data: Annotated[str, typer.Argument(help="Table to train on: CSV, Parquet, Arrow, or - for standard input.")],
    target: Annotated[list[str], typer.Option(metavar="COLUMN", help="Column to predict; repeat it for several.")],
    cost: options.Cost = None,
    cost_money: options.CostMoney = None,
    method: Annotated[Method, typer.Option(metavar="METHOD", help=f"One of {', '.join(Method)}.")] = Method.AUTO,
    preset: Annotated[
        Preset, typer.Option(metavar="PRESET", help=f"One of {', '.join(Preset)}: less time or a lower loss.")
    ] = Preset.DEFAULT,
    loss: Annotated[str, typer.Option(metavar="LOSS", help="squared, absolute, huber:1.35, pinball:0.9")] = "squared",
    groups: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Column whose equal values keep rows together in folds.")
    ] = None,
    weights: Annotated[str | None, typer.Option(metavar="COLUMN", help="Column with the weights of the rows.")] = None,
    drop: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="Column to leave out; can be repeated.")
    ] = None,
    time_limit: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Seconds for the fit, with --method auto.")
    ] = None,
    test: Annotated[
        str | None, typer.Option(metavar="DATA", help="Table to test on, instead of out-of-fold rows.")
    ] = None,
    test_share: Annotated[
        float | None, typer.Option(metavar="SHARE", help="Share of the rows to test on, such as 0.2.")
    ] = None,
    test_rows: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the rows of --test-share, for recuse certify and recuse report."),
    ] = None,
    with_reviews: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Review queue of recuse serve, whose answers are learned, too.")
    ] = None,
    reviews_model: Annotated[
        str | None, typer.Option(metavar="NAME", help="Model of the review queue, if it has several.")
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of all random choices.")] = 0,
    jobs: Annotated[int | None, typer.Option(min=1, metavar="N", help="Processes, with --method auto or risk.")] = None,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="Model file to write.")] = Path(
        "model.recuse"
    ),
    encoding: options.Encoding = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    debug: options.Debug = False,
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
    with one_sentence_errors(code=UNUSABLE, debug=debug, as_json=as_json):
        choice = required_cost(cost, cost_money, loss)
        settings = Settings(method, preset, loss, seed, time_limit, jobs, groups is not None)
        if reviews_model is not None and with_reviews is None:
            raise UsageError("--reviews-model needs --with-reviews")
        if test_rows is not None and not test_share:
            raise UsageError("--test-rows needs --test-share, the share of the rows to write")
        job = _Job(
            data,
            Roles(tuple(target), choice.column, groups, weights, tuple(drop or ())),
            choice,
            settings,
            test,
            _checked_share(settings, test, test_share),
            output,
            encoding,
            Output(as_json, quiet),
            with_reviews,
            reviews_model,
            test_rows,
        )
        job.run()


def _checked_share(settings: Settings, test: str | None, share: float | None) -> float:
    if test is not None and share is not None:
        raise UsageError("--test and --test-share cannot both be given")
    if share is not None and not 0 <= share < 1:
        raise UsageError(f"--test-share must be at least 0 and below 1, got {share:g}")
    if share is not None:
        return share
    return 0.0 if test is not None or settings.has_out_of_fold else _TEST_SHARE


@dataclass(frozen=True)
class _Job:
    """One run of the command, step by step."""

    data: str
    roles: Roles
    cost: CostChoice
    settings: Settings
    test: str | None
    test_share: float
    model_path: Path
    encoding: str | None
    output: Output
    reviews_path: Path | None = None
    reviews_model: str | None = None
    test_rows: Path | None = None

    def run(self) -> None:
        from recuse.files.atomic import check_writable

        self.roles.check()
        for message in check_settings(self.settings):
            self.output.warn(message)
        for path in (self.model_path, *([] if self.test_rows is None else [self.test_rows])):
            check_writable(path)  # before the training, which takes long
        table, added = self._add_reviews(self._read())
        table, held = self._held_out(table)
        self._describe(table, added)
        model = self._fit(table)
        held = held or self._out_of_fold(model, table)
        recuse.save(model, self.model_path)
        self._report(model, table, held, added)

    def _read(self) -> LabelledTable:
        """Return the rows of the table."""
        from recuse.files.names import source_name
        from recuse.files.tables import read_table

        frame = read_table(self.data, encoding=self.encoding)
        table = labelled_table(frame, self.roles, source_name(self.data))
        for name in set(row_counters(frame)) & set(table.X.columns) - {self.roles.cost}:
            self.output.warn(
                f"column {name!r} numbers the rows, so new rows are outside its range: leave it out by --drop"
            )
        return table

    def _add_reviews(self, table: LabelledTable) -> tuple[LabelledTable, AddedReviews | None]:
        """Add the answers of the review queue, if there is one."""
        if self.reviews_path is None:
            return table, None
        added = add_reviews(table, self.roles, self.reviews_path, self.reviews_model)
        if not added.accepted:
            self.output.warn(
                "no accepted row has an answer, so hard rows are too frequent among the rows to learn from: "
                "serve with an audit share above 0"
            )
        return added.table, added

    def _held_out(self, table: LabelledTable) -> tuple[LabelledTable, Held | None]:
        """Return the training rows and the test rows, if there are any."""
        from recuse.files.names import source_name
        from recuse.files.tables import read_table, write_table

        if self.test is not None:
            other = read_table(self.test, encoding=self.encoding, text_columns=text_columns(table.X))
            source = source_name(self.test)
            return table, Held(table_to_test(other, self.roles, source), f"rows of {source}")
        if self.test_share > 0:
            table, rest = split_rows(table, self.test_share, self.settings.seed)
            if self.test_rows is not None:
                write_table(rest.to_frame(), str(self.test_rows))
            return table, Held(rest, self._named("held-out rows, which the model was not fitted to"))
        return table, None

    def _describe(self, table: LabelledTable, added: AddedReviews | None) -> None:
        from recuse.files.names import source_name

        say = self.output.say
        kinds = kinds_of(table.X.drop(columns=self.roles.cost or [], errors="ignore"))
        listed = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
        names = short(list(self.roles.targets))
        left_out = f"; {counted(table.left_out, 'row')} without a target left out" if table.left_out else ""
        more = {} if added is None else {"reviews": added.describe()}
        facts = {
            "data": f"{source_name(self.data)}, {counted(len(table), 'training row')}{left_out}",
            "target": names,
            "features": f"{sum(kinds.values())} columns: {listed}",
            "cost": self.cost.describe(self.settings.loss, names),
            "method": f"{self.settings.method}, preset {self.settings.preset}, {self.settings.loss} loss",
        }
        others = {"groups": self.roles.groups, "weights": self.roles.weights, "dropped": short([*self.roles.dropped])}
        for name, fact in {**facts, **more, **{name: text for name, text in others.items() if text}}.items():
            say(options.fact(name, fact))

    def _fit(self, table: LabelledTable) -> Any:
        model = build(self.settings, self.cost.value, verbose=not self.output.silent)
        extra = {"sample_weight": table.weights, "groups": table.groups}
        given = {name: values for name, values in extra.items() if values is not None}
        with self.output.warnings_as_lines(), self._progress():
            return model.fit(table.X, table.y, **given)

    @contextmanager
    def _progress(self) -> Iterator[None]:
        """Show that a fit runs, if its estimator shows nothing itself."""
        from rich.console import Console

        console = Console(stderr=True)
        if self.output.silent or self.settings.shows_progress or not console.is_terminal:
            yield
        else:
            with console.status("fitting"):
                yield

    def _out_of_fold(self, model: Any, table: LabelledTable) -> Held | None:
        if not hasattr(model, "out_of_fold_"):
            return None
        name = self._named("out-of-fold rows: models that were not fitted to a row decide about it")
        return Held(table, name, model.out_of_fold_)

    def _named(self, rows: str) -> str:
        return rows if self.reviews_path is None else f"{rows}; {REVIEW_WEIGHTS}"

    def _report(self, model: Any, table: LabelledTable, held: Held | None, added: AddedReviews | None) -> None:
        say, measures, money = self.output.say, None, self.cost.money
        if held is not None:
            with self.output.warnings_as_lines():
                decision, target, weight = as_decision(model, held)
            measures = decision.evaluate(target, sample_weight=weight)
            say(f"\nResult on {len(decision):,} {options.escaped(held.name)}")
            say(comparison_table(measures, money))
        records = leaderboard_records(getattr(model, "leaderboard_", None))
        if records:
            say(leaderboard_table(records))
        if measures is not None:
            say(savings_sentence(measures, self.settings.loss, money))
        path = shlex.quote(str(self.model_path))
        say(f"\nSaved [bold]{options.escaped(path)}[/] ({options.size_of(self.model_path)}).")
        say(f"Next: [bold]recuse predict {options.escaped(path)} NEW.csv -o decisions.csv[/]")
        reviews = None if added is None else {name: fact for name, fact in vars(added).items() if name != "table"}
        self.output.finish({**self._result(table, held, measures, records), "reviews": reviews})

    def _result(self, table: LabelledTable, held: Held | None, measures: Any, records: list[dict[str, Any]]) -> Any:
        money = self.cost.money
        scale = 1.0 if money is None else money.per_unit
        return {
            "model": str(self.model_path),
            "rows": len(table),
            "rows_without_target": table.left_out,
            "columns": kinds_of(table.X.drop(columns=self.roles.cost or [], errors="ignore")),
            "targets": list(self.roles.targets),
            "cost": self.cost.value,
            "method": str(self.settings.method),
            "preset": str(self.settings.preset),
            "loss": self.settings.loss,
            "evaluated_on": None if held is None else held.name,
            "measures": measures,
            "saved_per_1000_rows": None if measures is None else 1000 * scale * saved_per_row(measures),
            "saved_unit": f"{self.settings.loss} loss" if money is None else "money",
            "leaderboard": records,
        }
