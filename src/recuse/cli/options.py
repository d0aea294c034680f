"""Options that several commands have, and the cost that they give."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from recuse.cli.printing import Output
from recuse.inspection.savings import Prices
from recuse.usage_errors import UNUSABLE, UsageError, one_sentence_errors

if TYPE_CHECKING:
    from recuse.model_file.served import ServedModel


def option(value: str, text: str, *names: str, **limits: Any) -> Any:
    """Return an option with a value, by what the help calls the value and says about the option."""
    return typer.Option(*names, metavar=value, help=text, **limits)


Model = Annotated[Path, typer.Argument(help="Model file of recuse fit or recuse.save.")]
Labelled = Annotated[str, typer.Argument(help="Table with the true target: CSV, Parquet, Arrow, or -.")]
Target = Annotated[str | None, option("COLUMN", "Column with the target, if its name differs from training.")]
Cost = Annotated[str | None, option("COST", "Cost of a rejection in units of the loss: a number, or column:NAME.")]
CostMoney = Annotated[
    str | None,
    option("PRICES", "The cost by prices, such as error=10,error_cost=50,review_cost=18."),
]
Encoding = Annotated[str | None, option("NAME", "Encoding of CSV files that are not UTF-8, such as latin-1.")]
Certificate = Annotated[int | None, option("N", "Decide by certificate N of the model file, counted from 1.")]
SpreadsheetSafe = Annotated[
    bool, typer.Option("--spreadsheet-safe", help="Write ' before text of CSV files that spreadsheets would run.")
]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
_SHARED = {
    "as_json": Annotated[bool, typer.Option("--json", help="Print one JSON object instead of messages.")],
    "quiet": Annotated[bool, typer.Option("--quiet", help="Print no messages, only warnings and errors.")],
    "debug": Debug,
}

_COLUMN = "column:"
_PRICES = ("error", "error_cost", "review_cost")


def command(run: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options --json, --quiet and --debug, and print its errors as one sentence.

    The first parameter of the command is the `Output` that these options make.
    """

    @wraps(run)
    def with_shared_options(as_json: bool, quiet: bool, debug: bool, **given: Any) -> None:
        with one_sentence_errors(code=UNUSABLE, debug=debug, as_json=as_json):
            run(Output(as_json, silent=as_json or quiet), **given)

    own = list(inspect.signature(run, eval_str=True).parameters.values())[1:]
    shared = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=option)
        for name, option in _SHARED.items()
    ]
    with_shared_options.__signature__ = inspect.Signature([*own, *shared])  # type: ignore[attr-defined]
    return with_shared_options


@dataclass(frozen=True)
class GivenCost:
    """The cost of a rejection: a number or the name of a column."""

    value: float | str
    prices: Prices | None = None

    @property
    def column(self) -> str | None:
        """The name of the column, if the cost is one."""
        return self.value if isinstance(self.value, str) else None

    def describe(self, loss: str, target: str) -> str:
        """Return what the cost means, in words."""
        if isinstance(self.value, str):
            return f"column {self.value} holds the cost of each row, in units of the {loss} loss"
        if self.prices is not None:
            prices = self.prices
            return (
                f"{self.value:g}: a review costs {prices.review_cost:g}, an error of {prices.error:g} in {target} "
                f"costs {prices.error_cost:g}"
            )
        size = self.value**0.5 if loss == "squared" else self.value
        if loss in ("squared", "absolute"):
            return f"{self.value:g}: a rejection costs as much as an error of {size:.3g} in {target}"
        return f"{self.value:g}, in units of the {loss} loss"


def given_cost(cost: str | None, money: str | None) -> GivenCost | None:
    """Read --cost and --cost-money; None if neither is given.

    Examples
    --------
    >>> given_cost("6", None).value, given_cost("column:fee", None).value
    (6.0, 'fee')
    >>> given_cost(None, "error=10,error_cost=50,review_cost=18").value
    36.0
    """
    if cost is not None and money is not None:
        raise UsageError("--cost and --cost-money cannot both be given")
    if money is not None:
        prices = _prices(money)
        return GivenCost(prices.cost, prices)
    if cost is None:
        return None
    if cost.startswith(_COLUMN) and len(cost) > len(_COLUMN):
        return GivenCost(cost.removeprefix(_COLUMN))
    number = _number(cost)
    if not 0 <= number < math.inf:
        raise UsageError(f"--cost must be a number >= 0, or column:NAME for a column of the table, got {cost!r}")
    return GivenCost(number)


def _prices(text: str) -> Prices:
    pairs = {part.partition("=")[0].strip(): _number(part.partition("=")[2]) for part in text.split(",")}
    if set(pairs) != set(_PRICES) or not all(math.isfinite(price) for price in pairs.values()):
        raise UsageError(f"--cost-money must look like error=10,error_cost=50,review_cost=18, got {text!r}")
    try:
        return Prices(**pairs)
    except ValueError as error:
        raise UsageError(f"--cost-money: {error}") from error


def _number(text: str) -> float:
    """Return a text as a number, NaN if it is none."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def check_prices(given: GivenCost | None, model: ServedModel) -> None:
    """Raise an error for prices, which are those of squared errors, and a model of another loss."""
    if given is not None and given.prices is not None and model.loss_.name != "squared":
        raise UsageError(
            f"--cost-money needs a model of the squared loss, got {model.loss_.name!r}: "
            "give --cost in units of that loss"
        )


def chosen_cost(model: ServedModel, given: GivenCost | None, certificate: int | None = None) -> GivenCost:
    """Return the cost for decisions about rows with a target: that which is given, of the certificate, or the model's.

    Raises
    ------
    UsageError, ValueError
        If there is no cost, or if it does not fit the model or the certificate.
    """
    from recuse.scoring import plan

    check_prices(given, model)
    value = plan.chosen_cost(model, None if given is None else given.value, certificate)
    if value is None:
        raise UsageError("the model defers rows to experts, whose fees are the costs: use recuse predict")
    return given or GivenCost(value)
