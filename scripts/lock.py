"""Write the tested set with its hashes, and the licences of what it consists of.

python scripts/lock.py REPORT.json

REPORT.json is what ``pip install --dry-run --ignore-installed --report REPORT.json`` leaves:
the packages that pip would install, with the hash of each file. Written: ``requirements.lock``
and ``docs/licences.md``.
"""

from __future__ import annotations

import json
import sys
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
HEAD = """\
# The tested set with its hashes, made by `make lock` for Linux on x86-64 and Python 3.11:
#     pip install --require-hashes -r requirements.lock
# torch is the build without CUDA; the hash of another build differs.
"""
TABLE = """\
# Licences

What the tested set consists of; duotone itself is under Apache-2.0. Made by `make lock`.
Nothing of it is copied into this package.

| package | version | licence, in its own words |
|---|---|---|
"""
PREFIX = "License :: OSI Approved :: "


def licence(name: str, report: dict[str, Any]) -> str:
    """Return a package's licence in a few words: an expression, a classifier or a first line."""
    try:
        found = metadata(name)  # the installed package says more than pip's report
    except PackageNotFoundError:
        return str(report.get("license_expression") or "not installed here")
    if found["License-Expression"]:
        return str(found["License-Expression"])
    known = [c.removeprefix(PREFIX) for c in found.get_all("Classifier") or () if PREFIX in c]
    if known:
        return ", ".join(known)
    lines = str(found["License"] or "").strip().splitlines()
    return lines[0].strip()[:60] if lines else "in its files"


def main() -> None:
    """Write both files."""
    report = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    locked, rows = [], []
    for item in report["install"]:
        facts = item["metadata"]
        if facts["name"] == "duotone":
            continue
        name = facts["name"].lower().replace("_", "-")
        version = facts["version"].partition("+")[0]
        sha256 = item["download_info"]["archive_info"]["hashes"]["sha256"]
        locked.append(f"{name}=={version} \\\n    --hash=sha256:{sha256}\n")
        rows.append(f"| {name} | {version} | {licence(name, facts)} |\n")
    (ROOT / "requirements.lock").write_text(HEAD + "".join(sorted(locked)), encoding="utf-8")
    (ROOT / "docs" / "licences.md").write_text(TABLE + "".join(sorted(rows)), encoding="utf-8")


if __name__ == "__main__":
    main()
