"""The explorer: a local web page that shows what is shared and what is local, and moves it.

duotone explore runs/demo/feddva          opens the page
run.explore()                             shows it in a notebook

Nothing here changes a run, and nothing leaves this machine.
"""

from __future__ import annotations

from duotone.explorer.local_server import LocalServer, beside, start

__all__ = ["LocalServer", "beside", "start"]
