"""``python -m duotone.reproduction [STUDY_FOLDER…]``: commit results, and write the pages anew."""

from __future__ import annotations

import sys
from pathlib import Path

from duotone.reproduction.committed import repository
from duotone.reproduction.reproduction_page import write_pages


def main(folders: list[str]) -> int:
    """Keep the results of finished studies in ``docs/results``, then write the pages."""
    root = repository()
    if root is None:
        sys.stderr.write("error: the pages are those of a checkout, and this is none.\n")
        return 2
    for folder in folders:
        from duotone.reproduction.gathered import keep

        sys.stdout.write(f"{keep(Path(folder), root)}\n")
    for path in write_pages(root):
        sys.stdout.write(f"{path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
