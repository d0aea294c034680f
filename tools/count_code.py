"""Count the lines of code in src/recuse, without docstrings, comments and empty lines, and hold them under limits.

python tools/count_code.py              # the counts; fails if one is above its limit
python tools/count_code.py --packages   # the counts of each package as well
"""

import argparse
import ast
import io
import tokenize
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "recuse"

# Most lines and files that each set may have. A change that removes code lowers them; they are not raised.
LIMITS = {
    "all of src/recuse": (25_650, 256),
    "without estimators/auto, bench, engine, deep and images": (19_350, 181),
}

# Parts of paths that the second limit leaves out.
LEFT_OUT = ("estimators/auto/", "bench/", "engine/", "deep/", "images")

# Tokens that are no code.
BLANK = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING,
    tokenize.ENDMARKER,
}  # fmt: skip


def main() -> int:
    """Print the counts, and fail if one is above its limit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--packages", action="store_true", help="print the counts of each package")
    counts = {path.relative_to(SOURCE).as_posix(): code_lines(path) for path in sorted(SOURCE.rglob("*.py"))}
    if parser.parse_args().packages:
        print_packages(counts)
    rest = [path for path in counts if not any(part in path for part in LEFT_OUT)]
    passed = [within_limit(counts, paths, name) for name, paths in zip(LIMITS, (list(counts), rest), strict=True)]
    return 0 if all(passed) else 1


def code_lines(path: Path) -> int:
    """Count the lines of a file that hold code."""
    text = path.read_text(encoding="utf-8")
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in BLANK:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        documented = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        if documented and ast.get_docstring(node, clean=False) is not None:
            lines.difference_update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    return len(lines)


def within_limit(counts: dict[str, int], paths: Iterable[str], name: str) -> bool:
    """Print the lines and files of one set, and say whether both are within its limits."""
    of_paths = [counts[path] for path in paths]
    lines, files = sum(of_paths), len(of_paths)
    most_lines, most_files = LIMITS[name]
    passed = lines <= most_lines and files <= most_files
    print(
        f"{name}: {lines:,} lines of code (at most {most_lines:,}) in {files} files (at most {most_files})"
        f"{'' if passed else ': TOO MANY'}"
    )
    return passed


def print_packages(counts: dict[str, int]) -> None:
    """Print the lines and files of each package."""
    lines: Counter[str] = Counter()
    files: Counter[str] = Counter()
    for path, number in counts.items():
        depth = 2 if path.startswith("estimators/") else 1
        package = "/".join(path.split("/")[:depth])
        lines[package] += number
        files[package] += 1
    for package in sorted(lines):
        print(f"{package:<40} {lines[package]:>6,} {files[package]:>4}")


if __name__ == "__main__":
    raise SystemExit(main())
