"""Decisions of a model file by Spark's `mapInPandas` on this machine, compared with those of `recuse predict`.

recuse predict cars.recuse new.parquet -o decisions.parquet
python benchmarks/spark.py cars.recuse new.parquet decisions.parquet

Needs Java and an environment with pyspark, pandas, pyarrow, onnxruntime, narwhals, rich and typer; torch and
scikit-learn are not used.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
from pyspark.sql import SparkSession

from recuse.scoring import Scorer


def decided(spark: SparkSession, model: Path, data: Path) -> pd.DataFrame:
    """Decide about the rows of a Parquet file, with a column that keeps their order."""
    from pyspark.sql.functions import monotonically_increasing_id

    scorer = Scorer(model, keep=["place"])
    rows = spark.read.parquet(str(data)).withColumn("place", monotonically_increasing_id()).repartition(8)
    table = rows.mapInPandas(scorer.frames, schema=f"place long, {scorer.spark_schema}")
    return table.toPandas().sort_values("place", ignore_index=True).drop(columns="place")


def main() -> None:
    """Compare the two."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("decisions", type=Path, help="output of recuse predict, without kept columns")
    arguments = parser.parse_args()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    builder = SparkSession.builder.master("local[2]").appName("recuse")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    start = time.perf_counter()
    found = decided(spark, arguments.model, arguments.data)
    seconds = time.perf_counter() - start
    wanted = pd.read_parquet(arguments.decisions)
    same = all(np.array_equal(found[name], wanted[name]) for name in wanted.columns if name == "accepted")
    differences = {
        name: float(np.abs(found[name] - wanted[name]).max()) for name in wanted.columns if name != "accepted"
    }
    print(f"Spark {spark.version}: {len(found):,} rows of {len(wanted):,} in {seconds:.1f} s")
    print(f"columns alike: {list(found.columns) == list(wanted.columns)}; same acceptances: {same}")
    print(f"largest differences: {differences}")
    spark.stop()


if __name__ == "__main__":
    main()
