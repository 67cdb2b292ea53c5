"""What a run looks like in a notebook: the first screen of its report, without JavaScript."""

from __future__ import annotations

from html import escape

from duotone.errors import DuotoneError
from duotone.report.record import read_record
from duotone.report.sections import MOST_LEADS, headline, inks, leads
from duotone.runs import Run

_SHARED, _LOCAL = "#00798a", "#c2570c"


def run_html(run: Run) -> str:
    """Return a run as a piece of a page; one that is not finished says how far it is."""
    place = f"<code>{escape(str(run.path))}</code>"
    try:
        record = read_record(run)
    except DuotoneError as error:
        return f"<p>Run in {place}: {escape(str(error))}</p>"
    shared, local = inks(record)
    pictures = "".join(
        f'<figure style="margin:0 1em 0 0"><figcaption>{escape(picture.title)}</figcaption>'
        f'<img src="{escape(uri)}" alt="" style="max-width:100%"></figure>'
        for picture in leads(record)[:MOST_LEADS]
        for _, uri in picture.images[:1]
    )
    return (
        f"<p><b>{escape(headline(record))}</b></p>"
        f'<div style="display:flex;gap:2px;max-width:40em">{_bar(shared, _SHARED)}'
        f"{_bar(local, _LOCAL)}</div>"
        f"<p>{shared:,} parameters shared · {local:,} local to each client · {place}</p>"
        f'<div style="display:flex;flex-wrap:wrap">{pictures}</div>'
    )


def _bar(size: int, ink: str) -> str:
    style = f"flex:{size} 0 0;min-width:3px;height:10px;background:{ink}"
    return f'<div style="{style}"></div>' if size else ""
