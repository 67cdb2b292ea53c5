"""Cards as HTML: one part for a notebook, or a page that needs nothing else."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from duotone.data.dataset import Array
from duotone.explain.pixels import Attribution
from duotone.runs.result_files import tiles_png

_PLACE = Path(__file__).parent / "template"
_SHARED, _LOCAL = np.array([0, 121, 138]), np.array([213, 94, 0])  # the two inks of reports


def html_part(card: Any, template: str = "card.html.j2") -> str:
    """Return a card as a part of a page."""
    environment = Environment(
        loader=FileSystemLoader(_PLACE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["picture"] = picture_uri
    environment.filters["heat"] = heat_uri
    style = Markup((_PLACE / "card.css").read_text("utf-8"))
    return environment.get_template(template).render(card=card, style=style)


def html_page(title: str, part: str) -> str:
    """Return a part as a page of its own; it forbids itself to fetch anything."""
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{Markup.escape(title)}</title></head>\n<body>{part}</body></html>\n"
    )


def picture_uri(image: Array) -> str:
    """Return one image in bytes, ``(height, width, channels)``, as an address that holds it."""
    return _uri(tiles_png(image[np.newaxis, np.newaxis], (0, 0)))


def heat_uri(found: Attribution) -> str:
    """Return the values of pixels as an image: vermilion adds, blue-green takes away."""
    values = found.values.sum(axis=0)
    scale = float(np.abs(values).max()) or 1.0
    strength = np.abs(values)[..., np.newaxis] / scale
    ink = np.where(values[..., np.newaxis] >= 0, _LOCAL, _SHARED)
    shown = np.rint(255 * (1 - strength) + ink * strength).astype(np.uint8)
    return picture_uri(shown)


def _uri(png: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"
