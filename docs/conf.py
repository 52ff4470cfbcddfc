"""Settings of Sphinx.

Pages are Markdown (MyST); the API is read from the source, without importing fairseq or torch.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
INIT = (ROOT / "fairseq_plugins" / "__init__.py").read_text(encoding="utf-8")

project = "fairseq_plugins"
author = "The fairseq_plugins authors"
copyright = f"{author}, MIT licence"
release = version = re.search(r'^__version__ = "([^"]+)"', INIT, re.MULTILINE).group(1)

extensions = ["myst_parser", "autoapi.extension", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3

autoapi_dirs = [str(ROOT / "fairseq_plugins")]
autoapi_root = "api"
autoapi_add_toctree_entry = False
autoapi_options = ["members", "show-inheritance", "show-module-summary"]
autoapi_python_class_content = "class"
suppress_warnings = ["autoapi.python_import_resolution"]  # constants that another module imports
napoleon_custom_sections = [("Source", "notes")]
# Types in signatures, and short names of other modules in docstrings, are shown as code. Full names
# must resolve.
nitpick_ignore_regex = [("py:(class|obj)", r".*"), ("py:.*", r"(?!fairseq_plugins\.).*")]

smartquotes = False  # two dashes begin an option
html_theme = "furo"
html_title = f"fairseq_plugins {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False


def fill_in(app, name, source):
    """Replace ``<!-- python -m fairseq_plugins WHAT -->`` by the output of that command."""

    def printed(found):
        command = [sys.executable, "-W", "ignore", "-m", "fairseq_plugins", found[1]]
        text = subprocess.run(
            command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
        ).stdout
        parts = text.split("`")  # outside of code <s> would be HTML
        return "`".join(
            part if index % 2 else part.replace("<", "&lt;") for index, part in enumerate(parts)
        )

    source[0] = re.sub(r"<!-- python -m fairseq_plugins (\w+) -->", printed, source[0])


def shorten(app, name, source):
    """Leave the package out of the API's titles, so that they fit into the sidebar."""
    if name.startswith("api/fairseq_plugins/"):
        source[0] = re.sub(r"\Afairseq_plugins\.(\S+\n=+)", r"\1", source[0])


def setup(app):
    """Connect the functions of this file to Sphinx."""
    app.connect("source-read", fill_in)
    app.connect("source-read", shorten)
