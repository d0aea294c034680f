"""The structure of the documentation site: toctrees, links, pictures, and the reference of all public names.

`make docs` builds the site; these checks need neither Sphinx nor a build.
"""

import importlib
import inspect
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
BUILT = {"_build", "generated", "api"}  # folders that `make docs` writes
PAGES = [page for page in sorted(DOCS.rglob("*.md")) if not BUILT & set(page.parts)]
REFERENCE = sorted((DOCS / "reference").glob("*.md"))
PUBLIC = [
    *("recuse", "recuse.audit", "recuse.costs", "recuse.datasets", "recuse.displays", "recuse.estimators"),
    *("recuse.guarantees", "recuse.losses", "recuse.metrics", "recuse.mlflow"),
    *("recuse.model_file", "recuse.report", "recuse.reviews", "recuse.scoring", "recuse.serving", "recuse.surrogates"),
]
MADE_BY = {"ServedModel": "recuse.load"}  # the example of a class that users do not construct themselves


def short(path):
    return path.relative_to(ROOT).as_posix()


@pytest.fixture
def extension(monkeypatch):
    """Imports a module of `docs/_extensions`."""
    monkeypatch.syspath_prepend(DOCS / "_extensions")
    yield importlib.import_module
    for name in ("repository_pages", "result_values"):
        sys.modules.pop(name, None)


def toctree_entries(page):
    """The entries of all toctrees of a page, as paths relative to its folder, without options and titles."""
    entries = []
    for block in re.findall(r"^```\{toctree\}\n(.*?)^```", page.read_text("utf-8"), re.DOTALL | re.MULTILINE):
        lines = [line.strip() for line in block.splitlines() if line.strip() and not line.startswith(":")]
        entries += [re.sub(r".*<(.*)>", r"\1", line) for line in lines]
    return entries


def anchors(page):
    """The anchors of the headings of a page."""
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def reference_names():
    """(module, name) of everything that the reference lists."""
    for page in REFERENCE:
        listed = r"\.\. (?:current)?module:: (\S+)\n.*?:nosignatures:\n\n(.*?)```"
        for module, names in re.findall(listed, page.read_text("utf-8"), re.DOTALL):
            for name in names.split():
                yield module, name


def test_every_page_is_in_one_toctree_and_every_entry_is_a_page(extension):
    made = extension("repository_pages")
    built = {*made.PAGES.values(), DOCS / "generated" / "gallery" / "index.rst"}
    reached = []
    for page in PAGES:
        for entry in toctree_entries(page):
            target = (page.parent / entry).resolve()
            if "*" in entry:
                found = [path for path in built if path.match(f"{target}.md")]
                assert found, f"{short(page)} lists {entry}, which matches nothing"
            else:
                found = [
                    path for path in (target.with_suffix(".md"), target.with_suffix(".rst")) if path in {*PAGES, *built}
                ]
                assert len(found) == 1, f"{short(page)} lists {entry}, which is no page"
            reached += found
    assert sorted(reached) == sorted({*PAGES, *built} - {DOCS / "index.md"})


@pytest.mark.parametrize("page", PAGES, ids=short)
def test_anchors_of_links_are_headings(page):
    for target, anchor in re.findall(r"\]\((?!https?://)([^)#]*)#([^)]+)\)", page.read_text("utf-8")):
        other = (page.parent / target).resolve() if target else page
        assert anchor in anchors(other), f"{short(page)} links {target}#{anchor}, which is no heading"


@pytest.mark.parametrize("page", PAGES, ids=short)
def test_pictures_are_drawings_or_written_by_a_script(page):
    text = page.read_text("utf-8")
    scripts = "".join(script.read_text("utf-8") for script in (DOCS / "pictures").glob("*.py"))
    for picture in re.findall(r"^```\{image\} (\S+)$", text, re.MULTILINE):
        assert (page.parent / picture).resolve().parent == DOCS / "generated" / "static"
        name = re.sub(r"_(light|dark)$", "", Path(picture).stem)
        assert name in scripts, f"no script draws {picture} of {short(page)}"
    for picture in re.findall(r"^!\[.+\]\((\S+)\)$", text, re.MULTILINE):
        assert (page.parent / picture).exists()
    assert text.count("only-light") == text.count("only-dark")


def test_links_to_files_of_the_repository_lead_to_pages_of_the_site(extension):
    made = extension("repository_pages")
    page = DOCS / "howto" / "tables.md"
    text = "[a](../../results/methods/README.md#ranks) [b](../../examples/audit.py) [c](networks.md) [d](https://x.org)"
    assert made.with_site_links(text, page, page) == (
        "[a](../generated/results/methods.md#ranks) [b](../generated/gallery/audit.rst) [c](networks.md) [d](https://x.org)"
    )
    readme = ROOT / "results" / "methods" / "README.md"
    assert (
        made.with_site_links("![r](ranks.png)", readme, made.PAGES[readme])
        == "![r](../../../results/methods/ranks.png)"
    )


def test_values_of_results_that_pages_use_are_there(extension):
    values = extension("result_values").values()
    used = {name for page in PAGES for name in re.findall(r"\{\{ (\w+) \}\}", page.read_text("utf-8"))}
    assert used == set(values)
    assert "| AutoRejector |" in values["leaderboard"]


@pytest.mark.parametrize("module", PUBLIC)
def test_the_reference_lists_all_public_names(module):
    package = importlib.import_module(module)
    public = {
        name
        for name in package.__all__
        if inspect.isclass(getattr(package, name)) or inspect.isfunction(getattr(package, name))
    }
    elsewhere = {id(getattr(importlib.import_module(other), name)) for other, name in reference_names()}
    missing = sorted(name for name in public if id(getattr(package, name)) not in elsewhere)
    assert not missing, f"the reference lacks {missing} of {module}"


@pytest.mark.parametrize(("module", "name"), sorted(set(reference_names())), ids=lambda text: text)
def test_public_names_have_a_docstring_with_an_example(module, name):
    thing = getattr(importlib.import_module(module), name)
    assert thing.__doc__, f"{module}.{name} has no docstring"
    if name in MADE_BY:
        package, function = MADE_BY[name].rsplit(".", 1)
        assert ">>>" in inspect.getdoc(getattr(importlib.import_module(package), function))
        return
    own = [thing, *(member for member in vars(thing).values())] if inspect.isclass(thing) else [thing]
    assert any("Examples\n" in (inspect.getdoc(part) or "") for part in own), f"{module}.{name} has no example"


@pytest.mark.parametrize(("module", "name"), sorted(set(reference_names())), ids=lambda text: text)
def test_a_section_of_parameters_is_complete(module, name):
    thing = getattr(importlib.import_module(module), name)
    described = inspect.getdoc(thing) or ""
    if "\nParameters\n---" not in described:
        return
    lines = re.findall(r"^([\w, *]+?) :|^\*\*(\w+)$|^(\w+(?:, \w+)+)$", described, re.MULTILINE)
    known = {word for line in lines for text in line for word in re.split(r"[,\s*]+", text)}
    unknown = [parameter for parameter in inspect.signature(thing).parameters if parameter not in known]
    assert not unknown, f"{module}.{name} does not describe {unknown}"


def test_methods_of_public_classes_have_docstrings():
    lacking = []
    for module, name in sorted(set(reference_names())):
        thing = getattr(importlib.import_module(module), name)
        if not inspect.isclass(thing) or getattr(thing, "_is_protocol", False):
            continue
        for member, value in vars(thing).items():
            documented = isinstance(value, property | classmethod | staticmethod) or inspect.isfunction(value)
            if documented and not member.startswith("_") and not inspect.getdoc(getattr(thing, member)):
                lacking.append(f"{module}.{name}.{member}")
    assert not lacking
