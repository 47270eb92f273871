"""The documentation as a site: ``make docs``. Paths on the site are those of the repository."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

from sitta import __version__

project = "Sitta"
author = "The Sitta authors"
project_copyright = "The Sitta authors, Apache-2.0"
version = release = __version__

# The source folder is that of the repository, so that a link that works there works here too.
root_doc = "docs/index"
include_patterns = ["docs/**", "benchmarks/*.md", "CHANGELOG.md", "CONTRIBUTING.md"]
exclude_patterns = [".*", "src", "tests", "docs/_*"]
templates_path = ["_templates"]

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "notebooks",
    "pages",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext", ".ipynb": "notebook"}
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4

autodoc_typehints = "none"  # signatures are short; the docstrings say what each argument is
autodoc_member_order = "bysource"
add_module_names = False
nitpicky = True
# Other projects have sites of their own, which a build without a network cannot look into.
nitpick_ignore_regex = [("py:.*", r"(collections|monai|numpy|pathlib|torch|typing)\..*")]

html_theme = "furo"
html_math_renderer = "picture"
html_title = f"Sitta {release}"
html_additional_pages = {"index": "forward.html"}
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_copy_source = False
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "sidebar/search.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "sidebar/versions.html",
        "sidebar/scroll-end.html",
    ]
}
