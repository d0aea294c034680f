"""Big networks on any hardware: a network and data in, a Lightning training with Slow-Start and checkpoints out."""

from recuse.extras import import_extra

import_extra("lightning.pytorch", extra="images")

from recuse.deep.lightning.batches import GlobalBatches  # noqa: E402
from recuse.deep.lightning.callbacks import BestAndLast, History, SeedEpochs, StopEarly  # noqa: E402
from recuse.deep.lightning.data import RejectionData, SeededRows  # noqa: E402
from recuse.deep.lightning.module import RejectionModule  # noqa: E402
from recuse.deep.lightning.run import Outcome, Run, train  # noqa: E402

__all__ = [
    "BestAndLast",
    "GlobalBatches",
    "History",
    "Outcome",
    "RejectionData",
    "RejectionModule",
    "Run",
    "SeedEpochs",
    "SeededRows",
    "StopEarly",
    "train",
]
