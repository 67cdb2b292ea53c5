from __future__ import annotations

import sys
from pathlib import Path

# Studies are scripts beside the package, not part of it.
sys.path.insert(0, str(Path(__file__).parents[2]))
