"""Makes url_strategies.py importable by its bare name, whatever import mode pytest runs in."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
