"""The decisions that the page shows, from the thresholds that it holds."""

import numpy as np


def accepted_rows(rows, position, budget=1.0):
    """Whether each sorted row is accepted, if at most a share `budget` of the rows may be rejected."""
    accepted = rows.threshold < position
    allowed = int(np.floor(budget * len(rows.loss) + 1e-9))
    if (~accepted).sum() <= allowed:
        return accepted
    if rows.expected is None:
        return np.arange(len(rows.loss)) < len(rows.loss) - allowed
    score = position * rows.unit - rows.expected
    return score >= np.partition(score, allowed)[allowed]
