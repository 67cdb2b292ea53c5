"""``python -m duotone``."""

from duotone.cli import main

main()
