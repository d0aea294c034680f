"""Embed a CSV file as a data set of `recuse.datasets`.

    python tools/add_dataset.py pumps.csv --target flow --costs 1 2 --description "..." --source "..." --licence "..."

writes src/recuse/datasets/csv/pumps.csv.gz and an entry of catalogue.toml. Columns with text become categories, all
others numbers; a column of numbers that are codes is named with --categories.
"""

import argparse
import csv
import gzip
import hashlib
import json
from pathlib import Path

TABLES = Path(__file__).parents[1] / "src" / "recuse" / "datasets" / "csv"


def main() -> None:
    """Check the table, and write it with its entry."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="a CSV file with a header and without gaps, named as the data set")
    parser.add_argument("--target", required=True)
    parser.add_argument("--costs", required=True, nargs="+", type=float, help="in squared units of the target")
    parser.add_argument("--categories", nargs="*", default=[], help="columns whose numbers are codes")
    parser.add_argument("--description", required=True, help="the target and the features, in one line")
    parser.add_argument("--source", required=True, help="the publication to cite")
    parser.add_argument("--licence", required=True, help="the terms of distribution")
    parser.add_argument("--note", default="", help="known peculiarities")
    options = parser.parse_args()
    rows = list(csv.reader(options.file.read_text(encoding="utf-8").splitlines()))
    check(rows, options.target)
    content = "".join(f"{','.join(row)}\n" for row in rows).encode()
    name, catalogue = options.file.stem, TABLES / "catalogue.toml"
    facts = {
        "target": options.target,
        "description": options.description,
        "source": options.source,
        "licence": options.licence,
        "note": options.note,
        "sha256": hashlib.sha256(content).hexdigest(),
        "costs": options.costs,
    }
    lines = [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in facts.items()]
    levels = ", ".join(f"{column} = {json.dumps(values)}" for column, values in levels_of(rows, options).items())
    text = catalogue.read_text(encoding="utf-8")
    if f"\n[{name}]\n" in text:
        raise SystemExit(f"the catalogue already has a data set {name}")
    (TABLES / f"{name}.csv.gz").write_bytes(gzip.compress(content, mtime=0))  # equal tables give equal files
    entry = "\n".join([f"[{name}]", *lines, f"levels = {{ {levels} }}"])
    catalogue.write_text(f"{text.rstrip()}\n\n{entry}\n", encoding="utf-8")
    print(f"{name}: {len(rows) - 1} rows; now write a test, as CONTRIBUTING.md shows")


def check(rows: list[list[str]], target: str) -> None:
    """Exit with an error unless the table is complete and needs no quotes."""
    header = rows[0]
    if target not in header:
        raise SystemExit(f"target must be one of {', '.join(header)}, got {target}")
    for number, row in enumerate(rows, start=1):
        if len(row) != len(header) or not all(row):
            raise SystemExit(f"line {number} must have {len(header)} cells without gaps, got {row}")
        if any(sign in cell for cell in row for sign in ',"\n'):
            raise SystemExit(f"line {number} must have no comma, quote or line break in a cell, got {row}")


def levels_of(rows: list[list[str]], options: argparse.Namespace) -> dict[str, list[str | int]]:
    """Give the categories of the columns that are not numbers, or that are named as categories."""
    columns = {name: [row[place] for row in rows[1:]] for place, name in enumerate(rows[0])}
    chosen = {name: set(cells) for name, cells in columns.items() if name in options.categories or not numeric(cells)}
    return {
        name: sorted(int(cell) for cell in cells) if all(cell.isdecimal() for cell in cells) else sorted(cells)
        for name, cells in chosen.items()
    }


def numeric(cells: list[str]) -> bool:
    """Whether all cells are numbers."""
    try:
        return all(float(cell) == float(cell) for cell in cells)
    except ValueError:
        return False


if __name__ == "__main__":
    main()
