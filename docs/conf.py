"""Settings of the documentation site; `make docs` builds it."""

import os
import sys
from importlib.metadata import version as installed_version
from pathlib import Path

os.environ.setdefault("MPLBACKEND", "Agg")
sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

project = "recuse"
author = "The recuse developers"
copyright = "The recuse developers"
release = installed_version("recuse")
version = release

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_parser",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "drawings",
    "mathml",
    "own_members",
    "pictures",
    "repository_pages",
    "result_values",
]
templates_path = ["_templates"]
exclude_patterns = ["_build", "_templates", "generated/gallery/**/*.md5"]
suppress_warnings = ["config.cache"]  # the gallery's settings contain functions
nitpicky = True
nitpick_ignore_regex = [
    ("py:.*", r"(?!recuse).*"),  # names of other libraries are not links
    ("py:.*", r"recuse\.(tabular|audit\.intervals|guarantees\.betting|reviews\.summary)\b.*"),  # internal modules
]
default_role = "autolink"
highlight_language = "none"

myst_enable_extensions = ["amsmath", "colon_fence", "dollarmath", "substitution"]
myst_heading_anchors = 4

autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "inherited-members": True}
numpydoc_show_class_members = False
numpydoc_use_plots = False

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "generated/gallery",
    "filename_pattern": r"\.py$",
    "copyfile_regex": r".*\.rst",
    "plot_gallery": "True",
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "write_computation_times": False,
    "min_reported_time": 10_000,
    "remove_config_comments": True,
    "reset_modules": ("matplotlib",),
    "within_subsection_order": "FileNameSortKey",
}

html_theme = "pydata_sphinx_theme"
html_title = "recuse"
html_static_path = ["_static", "generated/static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {"text": "recuse"},
    "navbar_align": "left",
    "header_links_before_dropdown": 7,
    "navigation_with_keys": False,
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_sidebars = {"index": [], "comparison": []}
html_math_renderer = "mathml"
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
