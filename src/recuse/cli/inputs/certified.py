"""The option `--certificate`: decisions at a certified threshold of a model file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recuse.cli.inputs.costs import CostChoice
from recuse.cli.printing.output import counted
from recuse.usage_errors import UsageError

if TYPE_CHECKING:
    from recuse.guarantees.certificate import Certificate
    from recuse.model_file.served import ServedModel

__all__ = ["certified_choice"]


def certified_choice(model: ServedModel, number: int | None, choice: CostChoice | None) -> CostChoice | None:
    """Return the cost for decisions by a certificate; raise an error if another one is given.

    Parameters
    ----------
    model : ServedModel
    number : int or None
        Number of the certificate, counted from 1; None to decide without.
    choice : CostChoice or None
        The cost that is given.
    """
    if number is None:
        return choice
    certificate = _certificate(model, number)
    if certificate.cost is None:
        if choice is None or choice.column is None:
            raise UsageError(f"certificate {number} is for one cost per row: give --cost column:NAME")
        return choice
    if choice is None:
        return CostChoice(certificate.cost)
    if choice.value != certificate.cost:
        raise UsageError(
            f"--cost must be {_text(certificate.cost)}, which certificate {number} is for, got {_text(choice.value)}"
        )
    return choice


def _certificate(model: ServedModel, number: int) -> Certificate:
    certificates = model.certificates
    if not 1 <= number <= len(certificates):
        held = counted(len(certificates), "certificate")
        raise UsageError(f"--certificate must be the number of a certificate, the model file has {held}, got {number}")
    return certificates[number - 1]


def _text(cost: float | str) -> str:
    return f"column:{cost}" if isinstance(cost, str) else f"{cost:g}"
