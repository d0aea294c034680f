"""The options --cost and --cost-money."""

from __future__ import annotations

import math
from dataclasses import dataclass

from recuse.inspection.savings import Prices
from recuse.usage_errors import UsageError

__all__ = ["CostChoice", "check_money", "parse_cost", "required_cost"]

_COLUMN = "column:"
_PRICES = ("error", "error_cost", "review_cost")


@dataclass(frozen=True)
class CostChoice:
    """The cost of a rejection: a number or the name of a column."""

    value: float | str
    money: Prices | None = None

    @property
    def column(self) -> str | None:
        """The name of the column, if the cost is one."""
        return self.value if isinstance(self.value, str) else None

    def describe(self, loss: str, target: str) -> str:
        """Return what the cost means, in words."""
        if isinstance(self.value, str):
            return f"column {self.value} holds the cost of each row, in units of the {loss} loss"
        if self.money is not None:
            prices = self.money
            return (
                f"{self.value:g}: a review costs {prices.review_cost:g}, an error of {prices.error:g} in {target} "
                f"costs {prices.error_cost:g}"
            )
        size = self.value**0.5 if loss == "squared" else self.value
        if loss in ("squared", "absolute"):
            return f"{self.value:g}: a rejection costs as much as an error of {size:.3g} in {target}"
        return f"{self.value:g}, in units of the {loss} loss"


def parse_cost(cost: str | None, money: str | None, loss: str = "squared") -> CostChoice | None:
    """Read the two options; None if neither is given.

    Examples
    --------
    >>> parse_cost("6", None).value, parse_cost("column:fee", None).value
    (6.0, 'fee')
    >>> parse_cost(None, "error=10,error_cost=50,review_cost=18").value
    36.0
    """
    if cost is not None and money is not None:
        raise UsageError("--cost and --cost-money cannot both be given")
    if money is not None:
        return _from_money(money, loss)
    if cost is None:
        return None
    if cost.startswith(_COLUMN) and len(cost) > len(_COLUMN):
        return CostChoice(cost.removeprefix(_COLUMN))
    number = _number(cost)
    if number is None or number < 0:
        raise UsageError(f"--cost must be a number >= 0, or column:NAME for a column of the table, got {cost!r}")
    return CostChoice(number)


def required_cost(cost: str | None, money: str | None, loss: str) -> CostChoice:
    """Read the two options, of which one must be given."""
    choice = parse_cost(cost, money, loss)
    if choice is None:
        raise UsageError(
            "the cost of a rejection is missing: give --cost, such as --cost 6 or --cost column:NAME, "
            "or --cost-money error=10,error_cost=50,review_cost=18"
        )
    return choice


def _from_money(text: str, loss: str) -> CostChoice:
    if loss != "squared":
        raise _money_error("--loss squared", loss)
    pairs = {part.partition("=")[0].strip(): part.partition("=")[2] for part in text.split(",")}
    numbers = {name: _number(value) for name, value in pairs.items()}
    prices = {name: number for name, number in numbers.items() if number is not None}
    if set(numbers) != set(_PRICES) or set(prices) != set(_PRICES):
        raise UsageError(f"--cost-money must look like error=10,error_cost=50,review_cost=18, got {text!r}")
    try:
        return CostChoice(Prices(**prices).cost, Prices(**prices))
    except ValueError as error:
        raise UsageError(f"--cost-money: {error}") from error


def check_money(choice: CostChoice | None, loss: str) -> None:
    """Raise an error if prices are given for a model of another loss than the squared error."""
    if choice is not None and choice.money is not None and loss != "squared":
        raise _money_error("a model of the squared loss", loss)


def _money_error(needed: str, loss: str) -> UsageError:
    return UsageError(f"--cost-money needs {needed}, got {loss!r}: give --cost in units of that loss")


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
