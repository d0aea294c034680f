"""The most recent rows of a model: how they differ from its training rows, and what loss they let expect."""

from __future__ import annotations

from collections import Counter, deque

import numpy as np
from numpy.typing import NDArray

from recuse.decision import Decision
from recuse.model_file.table_report import CellComparison
from recuse.out_of_fold import OutOfFold
from recuse.serving.model_store import DecidedRows, LoadedModel

__all__ = ["RecentRows"]

_WINDOW = 5000  # rows that the shares, distances and quantiles are about
_PENDING = 1000  # rows that wait for `digest`; with more the oldest are left out
_SAMPLE = 200  # rows of one request

Floats = NDArray[np.float64]


class RecentRows:
    """A rolling window of the rows that one version of a model decided.

    `add` only stores a reference, because it runs with each request. `digest` does the work, every few seconds, in one
    thread at a time.

    Parameters
    ----------
    loaded : LoadedModel
    """

    def __init__(self, loaded: LoadedModel) -> None:
        self.loaded = loaded
        self._pending: deque[DecidedRows] = deque(maxlen=_PENDING)
        self._batches: deque[tuple[int, Counter[tuple[str, str]], dict[str, Floats]]] = deque()

    def add(self, outcome: DecidedRows) -> None:
        """Note some decided rows; of a large request some rows at equal distances."""
        count = len(outcome.decision)
        self._pending.append(outcome if count <= _SAMPLE else outcome[:: -(-count // _SAMPLE)])

    def digest(self) -> bool:
        """Compare the rows since the last call with the training rows; return whether there were any."""
        noted = [self._pending.popleft() for _ in range(len(self._pending))]
        if not noted:
            return False
        recent, count = [], 0
        for outcome in reversed(noted):  # the newest first
            recent.append(outcome)
            count += len(outcome.decision)
            if count >= _PENDING:
                break
        compared = [each.comparison for each in recent if each.comparison is not None]
        problems = CellComparison.concatenate(compared).counts() if compared else {}
        outputs = [_outputs(each.decision, each.expected_loss) for each in recent]
        joined = {name: np.concatenate([each[name] for each in outputs]) for name in outputs[0]}
        self._batches.append((count, Counter(problems), joined))
        while len(self._batches) > 1 and sum(batch[0] for batch in self._batches) > _WINDOW:
            self._batches.popleft()
        return True

    def column_shares(self) -> dict[tuple[str, str], float]:
        """Return the shares of rows with a cell that training did not have, by column and problem."""
        total = Counter[tuple[str, str]]()
        for _, problems, _ in list(self._batches):
            total.update(problems)
        rows = sum(batch[0] for batch in list(self._batches))
        return {key: count / rows for key, count in total.items()}

    def expected_loss_quantiles(self, levels: tuple[float, ...]) -> dict[float, float]:
        """Return quantiles of the expected loss; none if the model has no expected loss."""
        losses = self._outputs().get("expected_loss", np.zeros(0))
        finite = losses[np.isfinite(losses)]
        return dict(zip(levels, np.quantile(finite, levels).tolist(), strict=True)) if len(finite) else {}

    def distances(self) -> dict[str, float]:
        """Return how far predictions, scores and expected losses are from the out-of-fold ones of training.

        The distance is that of `recuse.audit.drift`: the largest difference of the distribution functions, 0 to 1.
        """
        known = OutOfFold.of(self.loaded.model)
        training = {} if known is None else _outputs(known.decision(), known.expected_loss)
        recent = self._outputs()
        names = [name for name in training if name in recent and len(recent[name]) == len(recent["score"])]
        return {name: _distance(training[name], recent[name]) for name in names}

    def _outputs(self) -> dict[str, Floats]:
        batches = [outputs for _, _, outputs in list(self._batches)]
        if not batches:
            return {}
        return {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}


def _distance(reference: Floats, current: Floats) -> float:
    """Return the distance of Kolmogorov and Smirnov of the finite values."""
    first, second = np.sort(reference[np.isfinite(reference)]), np.sort(current[np.isfinite(current)])
    if not len(first) or not len(second):
        return 0.0
    places = np.concatenate([first, second])
    below = np.searchsorted(first, places, side="right") / len(first)
    return float(np.abs(below - np.searchsorted(second, places, side="right") / len(second)).max())


def _outputs(decision: Decision, expected_loss: Floats | None) -> dict[str, Floats]:
    outputs = {"score": decision.score}
    if decision.prediction.ndim == 1:
        outputs["prediction"] = decision.prediction
    return outputs if expected_loss is None else {**outputs, "expected_loss": expected_loss}
