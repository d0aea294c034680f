"""Run scikit-learn's estimator checks on the default AutoRejector, in one process.

python benchmarks/estimator_checks.py        about ten minutes; the tests check a smaller AutoRejector
"""

from __future__ import annotations

import os
import time
import warnings
from collections import Counter

from sklearn.utils.estimator_checks import check_estimator

from recuse import AutoRejector

BY_DESIGN = {"check_regressors_no_decision_function": "a rejecting regressor has a score of acceptance by design"}


def main() -> None:
    """Run the checks and count their results."""
    warnings.simplefilter("ignore")
    start = time.monotonic()
    results = check_estimator(AutoRejector(), expected_failed_checks=BY_DESIGN, on_fail=None)
    for result in results:
        if result["status"] == "failed":
            print(f"{result['check_name']}: {result['exception']!r}")
    counts = Counter(result["status"] for result in results)
    files = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    print(f"{dict(counts)} in {time.monotonic() - start:.0f} s; {files} open files at the end")


if __name__ == "__main__":
    main()
