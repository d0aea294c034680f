"""Decisions about files of any size: row groups over processes or a Dask cluster, with output that can be resumed."""

from typing import TYPE_CHECKING

from recuse.lazy_names import lazy_names

if TYPE_CHECKING:
    from recuse.scoring.run import score_files
    from recuse.scoring.scorer import Scorer
    from recuse.scoring.summary import ScoringSummary
else:  # these need pandas and ONNX Runtime
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "Scorer": "recuse.scoring.scorer",
            "ScoringSummary": "recuse.scoring.summary",
            "score_files": "recuse.scoring.run",
        },
    )

__all__ = ["Scorer", "ScoringSummary", "score_files"]
