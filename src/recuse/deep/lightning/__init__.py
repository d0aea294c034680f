"""Training of large networks with Lightning: Slow-Start, checkpoints, and any number of devices."""

from recuse.extras import import_extra

import_extra("lightning.pytorch", extra="images")

from recuse.deep.lightning.batches import GlobalBatches  # noqa: E402
from recuse.deep.lightning.callbacks import (  # noqa: E402
    BestAndLast,
    EarlyStoppingAfterSlowStart,
    History,
    SeedEpochs,
)
from recuse.deep.lightning.data import RejectionData, SeededRows  # noqa: E402
from recuse.deep.lightning.environment import training_environment  # noqa: E402
from recuse.deep.lightning.module import RejectionModule  # noqa: E402
from recuse.deep.lightning.run import Outcome, Run, train  # noqa: E402
from recuse.deep.lightning.trainer_options import check_trainer_options  # noqa: E402

__all__ = [
    "BestAndLast",
    "EarlyStoppingAfterSlowStart",
    "GlobalBatches",
    "History",
    "Outcome",
    "RejectionData",
    "RejectionModule",
    "Run",
    "SeedEpochs",
    "SeededRows",
    "check_trainer_options",
    "train",
    "training_environment",
]
