"""Names in src/recuse: a class has its name alone, and a package reads the private attributes of no other."""

import ast
from collections import defaultdict
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "recuse"
TREES = {path.relative_to(SOURCE): ast.parse(path.read_text(encoding="utf-8")) for path in SOURCE.rglob("*.py")}

# Attributes of Python, scikit-learn and torch that have no public name.
OF_OTHER_LIBRARIES = {
    "_BatchNorm", "_baseline_prediction", "_exit", "_fit_X", "_fit_dtype", "_fit_method", "_forward_hooks",
    "_forward_pre_hooks", "_gamma", "_predictors", "_replace", "_transformer_to_input_indices",
    "_weights_not_none", "_work_ids", "_x_mean", "_y",
}  # fmt: skip


def package_of(path):
    """The folder below src/recuse, of which estimators has several; a module outside folders is its own package."""
    depth = 2 if path.parts[0] == "estimators" and len(path.parts) > 2 else 1
    return "/".join(path.parts[:depth])


def private(name):
    return name.startswith("_") and not name.endswith("__")


def test_no_two_classes_share_a_name():
    places = defaultdict(list)
    for path, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                places[node.name.lstrip("_")].append(path.as_posix())
    assert not {name: found for name, found in places.items() if len(found) > 1}


def test_no_package_reads_private_attributes_of_another():
    """An attribute is foreign if its name is private and nothing of that name is defined in the package."""
    defined, used = defaultdict(set), set()
    for path, tree in TREES.items():
        package = package_of(path)
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                defined[package].add(node.name)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                defined[package].add(node.id)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                defined[package].add(node.attr)
            if isinstance(node, ast.Attribute) and private(node.attr) and not of_self(node):
                used.add((package, node.attr))
    foreign = {f"{package}: {name}" for package, name in used if name not in defined[package] | OF_OTHER_LIBRARIES}
    assert not foreign


def of_self(node):
    """Whether the object is self, cls or super(), whose private attributes may be those of a base class."""
    owner = node.value.func if isinstance(node.value, ast.Call) else node.value
    return isinstance(owner, ast.Name) and owner.id in ("self", "cls", "super")
