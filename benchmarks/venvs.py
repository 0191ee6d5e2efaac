"""A virtualenv for each peer, made once and kept in a cache folder outside the repository."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks.peers import PEERS, Peer

SCRIPTS = Path(__file__).parent / "peers"


class PeerUnavailable(Exception):
    """A peer that cannot be run; the message says why."""


def python_of(name: str, folder: Path, timeout_s: float = 1800) -> Path:
    """The interpreter of a peer's virtualenv, which is made if it is absent or of other versions.

    Raises:
        PeerUnavailable: the virtualenv cannot be made, or a module does not import in it. The log beside
            it (``NAME.log``) tells all.
    """
    peer = PEERS[name]
    venv, log, stamp = folder / name, folder / f"{name}.log", folder / name / "requirements.txt"
    python = venv / "bin" / "python"
    wanted = "\n".join(peer.requirements) + "\n"
    if stamp.exists() and stamp.read_text() == wanted and python.exists():
        return python
    folder.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(venv, ignore_errors=True)
    print(f"making the virtualenv of {name} in {venv}", file=sys.stderr, flush=True)
    with log.open("wb") as output:
        for step in _steps(peer, venv, python):
            try:
                ended = subprocess.run(
                    step, stdout=output, stderr=subprocess.STDOUT, timeout=timeout_s, env=_clean(), check=False
                )
            except (OSError, subprocess.TimeoutExpired) as reason:
                raise PeerUnavailable(f"{step[-1]}: {reason} (log: {log})") from reason
            if ended.returncode:
                lines = log.read_text(errors="replace").strip().splitlines() or ["no output"]
                raise PeerUnavailable(f"{' '.join(step[1:4])} failed: {lines[-1]} (log: {log})")
    stamp.write_text(wanted)
    return python


def _steps(peer: Peer, venv: Path, python: Path) -> list[list[str]]:
    imports = "; ".join(f"import {module}" for module in peer.modules)
    return [
        [sys.executable, "-m", "venv", str(venv)],
        [str(python), "-m", "pip", "install", "--disable-pip-version-check", "--quiet", *peer.requirements],
        [str(python), "-c", imports],
    ]


def _clean() -> dict[str, str]:
    """Our environment without what would mix our packages into another virtualenv."""
    return {
        name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
    }


def peer_command(name: str, python: Path, files: list[Path], output: Path, threads: int) -> list[str]:
    """The command that deduplicates ``files`` with a peer."""
    script = SCRIPTS / PEERS[name].script
    return [str(python), str(script), *map(str, files), "--output", str(output), "--threads", str(threads)]
