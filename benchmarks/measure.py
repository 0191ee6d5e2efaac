"""Time and memory of a command as a whole: its process and everything that process starts.

Linux only: memory comes from ``/proc``. The measuring happens outside the measured processes; the
sampler reads only the files of the measured tree, so that it costs them next to nothing.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h: orphans of the tree come to us and not to init
INTERVAL_S = 0.02
WALK_EVERY = 3  # samples; looking for new processes costs more than reading those known


@dataclass(frozen=True, slots=True)
class Measurement:
    """What one run of a command took.

    Attributes:
        wall_s: seconds from start to the end of the started process.
        cpu_s: user and system seconds of the whole tree, as the kernel accounts for reaped processes.
        peak_anon: largest sum of RssAnon over the tree in one sample, bytes. A peak shorter than the
            sampling interval can be missed.
        peak_rss: largest sum of resident memory over the tree in one sample, bytes; pages that
            processes share count once for each of them.
        max_rss: resident peak (VmHWM) of the largest single process, bytes, as last seen before it ended.
            The kernel keeps that peak, so only growth in the last moment is missed. (The ``ru_maxrss`` of
            wait4 would not do: a child that is started by vfork inherits the peak of its parent.)
        exit_code: as a shell would give it (128 + signal for a killed process).
        timed_out: whether the run was ended for exceeding its time.
        stdout, stderr: the last 64 kB of what the command wrote.
    """

    wall_s: float
    cpu_s: float
    peak_anon: int
    peak_rss: int
    max_rss: int
    exit_code: int
    timed_out: bool
    stdout: str
    stderr: str

    @property
    def ok(self) -> bool:
        """Whether the command ended by itself with exit code 0."""
        return self.exit_code == 0 and not self.timed_out


def measure(
    command: Sequence[str],
    *,
    scratch: Path,
    timeout_s: float | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Measurement:
    """Runs ``command`` in a session of its own and measures it.

    Args:
        command: program and arguments; no shell is involved.
        scratch: existing folder for the files that take the command's output (a pipe could stall it).
        timeout_s: the whole session is killed after this many seconds; None for never.
        env: the command's whole environment; None for ours.
        cwd: the command's working folder; None for ours.

    Raises:
        OSError: the command cannot be started.
        RuntimeError: this is no Linux.
    """
    if not sys.platform.startswith("linux"):
        raise RuntimeError("memory is measured through /proc: run the benchmarks on Linux")
    _adopt_orphans()
    outputs = scratch / "stdout", scratch / "stderr"
    with outputs[0].open("wb") as out, outputs[1].open("wb") as err:
        started = time.perf_counter()
        child = subprocess.Popen(
            list(command), stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=env, cwd=cwd, start_new_session=True
        )
        sampler = _Sampler(child.pid, None if timeout_s is None else started + timeout_s)
        sampler.start()
        try:
            _, status, usage = os.wait4(child.pid, 0)
            wall = time.perf_counter() - started
            child.returncode = os.waitstatus_to_exitcode(status)
        except BaseException:
            _kill_session(child.pid)
            raise
        finally:
            sampler.stop()
    cpu = usage.ru_utime + usage.ru_stime
    cpu += sum(orphan.ru_utime + orphan.ru_stime for orphan in _reap_orphans(child.pid))
    code = child.returncode
    return Measurement(
        wall_s=wall,
        cpu_s=cpu,
        peak_anon=sampler.peak_anon,
        peak_rss=sampler.peak_rss,
        max_rss=sampler.max_rss,
        exit_code=code if code >= 0 else 128 - code,
        timed_out=sampler.timed_out,
        stdout=_tail(outputs[0]),
        stderr=_tail(outputs[1]),
    )


class _Sampler(threading.Thread):
    """Sums the memory of a process tree every `INTERVAL_S` seconds and enforces the time limit."""

    def __init__(self, root: int, deadline: float | None) -> None:
        super().__init__(daemon=True)
        self.root = root
        self.deadline = deadline
        self.peak_anon = self.peak_rss = self.max_rss = 0
        self.timed_out = False
        self._stopped = threading.Event()

    def run(self) -> None:
        members: list[int] = []
        for sample in itertools.count():
            if self._stopped.wait(INTERVAL_S):
                return
            if sample % WALK_EVERY == 0:
                members = list(session_members(self.root))
            anon = rss = 0
            for pid in members:
                memory = resident(pid)
                anon, rss = anon + memory["RssAnon"], rss + memory["VmRSS"]
                self.max_rss = max(self.max_rss, memory["VmHWM"])
            self.peak_anon, self.peak_rss = max(self.peak_anon, anon), max(self.peak_rss, rss)
            if self.deadline is not None and time.perf_counter() > self.deadline:
                self.timed_out = True
                _kill_session(self.root)
                return

    def stop(self) -> None:
        self._stopped.set()
        self.join()


def resident(pid: int) -> dict[str, int]:
    """VmHWM, VmRSS and RssAnon of a process in bytes; zeros when it has gone. Source: proc_pid_status(5)."""
    found = {"VmHWM": 0, "VmRSS": 0, "RssAnon": 0}
    with contextlib.suppress(OSError), open(f"/proc/{pid}/status") as status:
        for line in status:
            name, _, value = line.partition(":")
            if name in found:
                found[name] = int(value.split()[0]) * 1024
    return found


def session_members(root: int) -> Iterator[int]:
    """The process ``root``, its descendants, and those of our own children that share its session
    (descendants whose parent has ended)."""
    seen = {root}
    pending = [root] + [pid for pid in _children(os.getpid()) if pid != root and _session(pid) == root]
    while pending:
        pid = pending.pop()
        seen.add(pid)
        yield pid
        pending.extend(child for child in _children(pid) if child not in seen)


def _children(pid: int) -> list[int]:
    """Children of all threads of a process. Source: proc_tid_children(5)."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{thread}/children", "rb") as children:
                found.extend(map(int, children.read().split()))
    return found


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except OSError:
        return -1


def _adopt_orphans() -> None:
    """Makes this process the parent of processes whose own parent ends, so that their time is counted."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _reap_orphans(session: int, grace_s: float = 5.0) -> Iterator[resource.struct_rusage]:
    """Waits for what is left of a session; what outlives the grace time is killed. Yields their usage."""
    deadline = time.perf_counter() + grace_s
    while orphans := [pid for pid in _children(os.getpid()) if _session(pid) == session]:
        if time.perf_counter() > deadline:
            _kill_session(session)
        for pid in orphans:
            with contextlib.suppress(ChildProcessError):
                reaped, _, usage = os.wait4(pid, os.WNOHANG)
                if reaped:
                    yield usage
        time.sleep(INTERVAL_S)


def _kill_session(leader: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


def _tail(path: Path, limit: int = 65536) -> str:
    with path.open("rb") as stream:
        stream.seek(max(0, path.stat().st_size - limit))
        return stream.read().decode(errors="replace")
