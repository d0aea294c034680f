"""Decisions about files of any size: row groups over processes or a Dask cluster, with output that can be resumed."""

from recuse.scoring.run import score_files
from recuse.scoring.scorer import Scorer
from recuse.scoring.summary import ScoringSummary

__all__ = ["Scorer", "ScoringSummary", "score_files"]
