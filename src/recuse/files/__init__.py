"""Files: tables as CSV, Parquet and Arrow; files that are written as a whole or not at all."""
