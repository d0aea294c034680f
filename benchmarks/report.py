"""Time and size of the report page of 100,000 rows, and the time that a slider takes in headless Chromium.

python benchmarks/report.py
"""

from __future__ import annotations

import shutil
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from selenium import webdriver

from recuse import AutoRejector, datasets, report

MANY = 100_000

_SLIDE = """
    const done = arguments[0], slider = document.getElementById('cost'), times = [];
    const step = place => {
      if (place > 100) { times.sort((a, b) => a - b); done([times[50], times[100]]); return; }
      const start = performance.now();
      slider.value = place;
      slider.dispatchEvent(new Event('input', {bubbles: true}));
      requestAnimationFrame(() => setTimeout(() => { times.push(performance.now() - start); step(place + 1); }, 0));
    };
    step(0);
"""


def main() -> None:
    """Write the page and move its slider."""
    (X, y), _, (test, test_y) = datasets.split(datasets.load("concrete"), repeat=0)
    random = np.random.RandomState(0)
    chosen = random.randint(len(test), size=MANY)
    rows = test.to_numpy(float)[chosen] * random.uniform(0.97, 1.03, size=(MANY, test.shape[1]))
    new, target = pd.DataFrame(rows, columns=test.columns), np.asarray(test_y)[chosen]
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")
        model = AutoRejector(20.0, random_state=0, n_jobs=2).fit(X, y)
        path = Path(folder, "report.html")
        start = time.perf_counter()
        report.write(model, new, target, path, group="age_day", training=(X, y))
        print(f"{MANY:,} rows: written in {time.perf_counter() - start:.1f} s, {path.stat().st_size / 1e6:.2f} MB")
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium") or ""
        for argument in ("--headless=new", "--no-sandbox", "--disable-gpu"):
            options.add_argument(argument)
        browser = webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver") or ""))
        browser.set_script_timeout(120)
        browser.get(path.as_uri())
        median, slowest = browser.execute_async_script(_SLIDE)
        print(f"slider, until the next frame: median {median:.0f} ms, slowest of 101 {slowest:.0f} ms")
        browser.quit()


if __name__ == "__main__":
    main()
