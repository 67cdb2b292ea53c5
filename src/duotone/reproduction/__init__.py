"""The five papers in full: every table and figure, what it claims, and what came of it here.

``papers/*.toml`` list them, ``studies/*.toml`` run them with the printed settings, and the pages
are written from committed numbers: ``python -m duotone.reproduction``.
"""
