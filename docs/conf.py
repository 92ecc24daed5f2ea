"""How the site is built. `make docs` does it; PROBGEO_GALLERY=0 leaves the examples unrun."""

import os
import sys
from pathlib import Path

import matplotlib as mpl

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))
mpl.use("Agg")

import probgeo  # noqa: E402

sys.modules["probgeo.kernels"] = probgeo.kernels  # as users know it

project = "probgeo"
author = "The probgeo developers"
copyright = author
version = release = probgeo.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    "mathml",
    "docstrings",
    "public_names",
]
exclude_patterns = ["_build", "_ext", "_templates"]
templates_path = ["_templates"]

smartquotes = False  # c'' is a second derivative

# Markdown: $maths$, and headings that links can lead to
myst_enable_extensions = ["dollarmath", "amsmath", "deflist"]
myst_heading_anchors = 3

# The reference is made from docstrings, in which single backticks name things.
default_role = "py:obj"
autosummary_generate = True
autosummary_imported_members = True
autosummary_ignore_module_all = False
autodoc_member_order = "bysource"
autodoc_typehints = "none"
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_custom_sections = [("Attributes", "params_style")]

# Examples: each plot_*.py in examples/ is run, and one that fails fails the build.
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "ignore_pattern": r"^(?!plot_)",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "remove_config_comments": True,
    "write_computation_times": False,  # its page would load scripts from the network
}
plot_gallery = os.environ.get("PROBGEO_GALLERY", "1")

html_theme = "furo"
html_title = "probgeo"
html_static_path = ["_static"]
html_css_files = ["probgeo.css"]
html_show_sphinx = False
html_copy_source = False
html_show_search_summary = False  # summaries are fetched, which browsers refuse for local files
html_math_renderer = "mathml"
html_theme_options = {"sidebar_hide_name": False, "navigation_with_keys": True}

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
