"""Text and marks of the page can be read: WCAG AA, on paper and on panels, light and dark."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

STYLE = (files("duotone.report") / "template" / "page.css").read_text("utf-8")


def palette(dark):
    blocks = re.findall(r":root[^{]*\{([^}]*)\}", STYLE)
    chosen = blocks[1] if dark else blocks[0]
    return dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", chosen))


def luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, two):
    low, high = sorted((luminance(one), luminance(two)))
    return (high + 0.05) / (low + 0.05)


def test_black_on_white_is_21_to_1():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("ground", ["paper", "wash"])
@pytest.mark.parametrize("ink", ["text", "quiet", "shared", "local", "focus"])
def test_every_ink_can_be_read(dark, ground, ink):
    colours = palette(dark)
    assert contrast(colours[ink], colours[ground]) >= 4.5
