"""Draw the picture of the README, one sample with two answers: ``python docs/two_answers.py``.

It trains what the demo trains by fine-tuning, and shows the sample on which two members differ
most, as the run's own report does.
"""

from __future__ import annotations

import base64
import tempfile
from pathlib import Path

import duotone
from duotone.cli.demo import DEMO_METHODS, DEMO_SETTINGS
from duotone.config import merged
from duotone.measures.case import case_svg

PLACE = Path(__file__).parent / "images" / "two-answers.svg"
METHOD = "fedavg-ft"


def main() -> None:
    """Train and draw."""
    settings = merged(DEMO_SETTINGS, DEMO_METHODS[METHOD])
    with tempfile.TemporaryDirectory() as folder:
        run = duotone.run(merged(settings, {"method": {"name": METHOD}}), out=Path(folder) / "run")
        answers = run.folder.table("answers")
        assert answers is not None
        picture = base64.b64encode((run.path / "figures" / "case.png").read_bytes()).decode()
    names = {number: str(number) for number in range(10)}
    drawn = case_svg(answers["case"], names, f"data:image/png;base64,{picture}")
    PLACE.write_text(drawn, encoding="utf-8")


if __name__ == "__main__":
    main()
