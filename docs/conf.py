"""How the documentation becomes a site: ``make docs``.

Pages are Markdown that also reads well in a plain view of the repository. So links to files outside
this folder stay relative paths there, and become downloads or pages here.
"""

from __future__ import annotations

import re
from importlib.metadata import version as installed
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent

project = "duotone"
author = "the duotone authors"
release = version = installed("duotone")
language = "en"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]

myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence", "deflist"]
myst_links_external_new_tab = False

autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "show-inheritance": False}
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_rtype = False
napoleon_attr_annotations = False  # they would be read as links

html_theme = "pydata_sphinx_theme"
html_title = "duotone"
html_static_path = ["_static"]
html_css_files = ["duotone.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options: dict[str, Any] = {
    "navbar_end": ["theme-switcher"],
    "show_prev_next": False,
    "footer_start": [],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
    "navigation_with_keys": False,
    "back_to_top_button": False,
    "show_toc_level": 2,
}

PAGES = {
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "vulnerabilities.md",
    "benchmarks/README.md": "benchmarks.md",
}
"""Documents outside this folder that have a page here."""
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((\.\./[^)#\s]+)(#[^)]*)?\)")


def at_home(document: str, source: str) -> str:
    """Return a page whose links to files outside this folder lead somewhere within the site.

    Args:
        document: The page's name, such as ``methods/fedbn``.
        source: Its text.
    """
    place = (HERE / document).parent

    def changed(found: re.Match[str]) -> str:
        text, target, anchor = found[1], (place / found[2]).resolve(), found[3] or ""
        if target.is_relative_to(HERE):
            return found[0]
        outside = target.relative_to(HERE.parent).as_posix()
        if outside in PAGES:
            return f"[{text}](/{PAGES[outside]}{anchor})"
        if target.is_dir():
            return text
        return f"{{download}}`{text.replace('`', '')} </../{outside}>`"

    return _LINK.sub(changed, source)


def _read(app: Any, document: str, source: list[str]) -> None:
    source[0] = at_home(document, source[0])


def _included(app: Any, path: Path, parent: str, source: list[str]) -> None:
    """Links of an included document are relative to where it lies, the root of the repository."""
    inside = re.sub(r"\]\(docs/", "](/", source[0])
    source[0] = at_home("x", re.sub(r"\]\((?![a-z]+:|[/#.])", "](../", inside))


def setup(app: Any) -> None:
    """Connect what is done to every page."""
    app.connect("source-read", _read)
    app.connect("include-read", _included)
