"""``python -m dedup_pipeline``."""

from __future__ import annotations

from dedup_pipeline.cli import main

if __name__ == "__main__":
    main()
