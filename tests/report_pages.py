"""What a report's page holds packed."""

from __future__ import annotations

import base64
import gzip
import json
import re
from typing import Any


def unpacked(text: str) -> str:
    return gzip.decompress(base64.b85decode(text.replace("/", "<"))).decode()


def figures_of(page: str) -> list[dict[str, Any]]:
    """The figures of a page, or of a part of one, in their order."""
    return [
        json.loads(unpacked(text))
        for text in re.findall(r'<script type="text/plain">([^<]+)</script>', page)
    ]
