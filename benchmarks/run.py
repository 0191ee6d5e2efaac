"""Measures dedup_pipeline as whole processes, beside a plain copy of the files and beside other tools.

    python -m benchmarks.run                      speed beside the plain copy and all peers
    python -m benchmarks.run --peers none         without peers
    python -m benchmarks.run --memory             memory limit and growth, 1 and 10 copies
    python -m benchmarks.run --warc               extraction from a generated WARC

README.md in this folder explains the rows.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from benchmarks import scenarios
from benchmarks.peers import PEERS

CACHE = Path.home() / ".cache" / "dedup-benchmarks"


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The options; ends the process with a message when they make no sense."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description="Whole-process benchmarks.")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--memory", action="store_true", help="memory limit and growth instead of speed")
    what.add_argument("--warc", action="store_true", help="extraction from a WARC instead of speed")
    parser.add_argument("--inputs", nargs="+", type=Path, help="Parquet files (default: the shared corpus)")
    parser.add_argument(
        "--copies", type=_numbers, help="corpus sizes, for instance 1,2,4,8 (default 1; --memory: 1,10)"
    )
    parser.add_argument("--repeats", type=int, default=3, help="rounds (default %(default)s)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--level", type=int, help="zstd level of the plain copy (default: pyarrow's own, 1)")
    parser.add_argument("--set", action="append", default=[], help="key=value passed on to our run (repeatable)")
    parser.add_argument("--timeout", type=float, default=1800, help="seconds for the plain copy and ours")
    parser.add_argument("--no-ours", action="store_true", help="only the plain copy and the peers")
    parser.add_argument("--peers", type=_peers, default=list(PEERS), help=f"none, or some of {','.join(PEERS)}")
    parser.add_argument("--peer-timeout", type=float, default=900, help="seconds for a run of a peer")
    parser.add_argument("--peer-repeats", type=int, help="rounds in which peers take part (default: all)")
    parser.add_argument("--memory-limit", default="1GB", help="of --memory (default %(default)s)")
    parser.add_argument("--warc-megabytes", type=float, default=500, help="of --warc (default %(default)s)")
    parser.add_argument("--warc-gzip", action="store_true", help="of --warc: one gzip member a record")
    parser.add_argument("--venvs", type=Path, default=CACHE, help="folder of the peers' virtualenvs")
    parser.add_argument("--work", type=Path, default=CACHE / "generated", help="folder of generated inputs")
    parser.add_argument(
        "--scratch", type=Path, help="folder for outputs that are removed again (default: a temporary one)"
    )
    parser.add_argument("--json", type=Path, help="also write every figure of every round there")
    options = parser.parse_args(arguments)
    options.inputs = options.inputs or scenarios.default_inputs()
    if not options.warc and not options.inputs:
        parser.error("no input files: name them with --inputs or set DEDUP_SHARED_DATA")
    for file in options.inputs:
        if not file.is_file():
            parser.error(f"--inputs: {file} is no file")
    options.set = [word for setting in options.set for word in ("--set", setting)]
    return options


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


def _peers(text: str) -> list[str]:
    names = [] if text == "none" else text.split(",")
    if unknown := [name for name in names if name not in PEERS]:
        raise argparse.ArgumentTypeError(f"unknown: {', '.join(unknown)}; there are {', '.join(PEERS)}")
    return names


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    options = parse(arguments)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # so that a measured tree ends with us
    scenario = scenarios.memory if options.memory else scenarios.extraction if options.warc else scenarios.speed
    print(
        f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, "
        f"pyarrow {pa.__version__}"
    )
    with tempfile.TemporaryDirectory(prefix="dedup-benchmark-", dir=options.scratch) as scratch:
        results = scenario(options, Path(scratch))
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")
    sys.exit(1 if any(c["failure"] for contest in results.values() for c in contest.values()) else 0)


if __name__ == "__main__":
    main()
