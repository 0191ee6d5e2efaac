"""A pool of processes that turn payloads into text.

A parser that crashes, is killed for its memory, or does not end costs the one record it was working on.
The pool talks to its workers over pipes with the frames of `dedup_pipeline.sources.extraction_worker`;
one thread moves the bytes and never blocks on a worker. The workers end when the pool is closed or this
process is gone: their input ends.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import struct
import subprocess
import sys
import threading
import time
from collections import deque
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Self

from dedup_pipeline.errors import BackendError
from dedup_pipeline.sources.extraction_worker import ANSWER, REQUEST

_PIPE_BYTES = 1 << 20  # asked of the system for each pipe: whole payloads pass without waiting for room
_AHEAD_BYTES = 256 << 10  # of payloads given to a worker beyond the one it works on
_AHEAD_TICKETS = 8
# glibc: keep the memory of one document for the next instead of returning it page by page (other systems ignore it)
_ALLOCATOR = {"MALLOC_MMAP_THRESHOLD_": "33554432", "MALLOC_TRIM_THRESHOLD_": "33554432"}
_READY = struct.Struct(">I")
_MAX_START_FAILURES = 3


def extractor_version() -> str:
    """Name and version of what extracts text; texts of two versions are not comparable."""
    try:
        return f"resiliparse {version('Resiliparse')}"
    except PackageNotFoundError:
        return "resiliparse (absent)"


class ExtractionFailed(Exception):
    """A payload that could not be turned into text; ``reason`` is ``parser_crash`` or ``parser_timeout``."""

    def __init__(self, reason: str, detail: str) -> None:
        self.reason = reason
        self.detail = detail
        super().__init__(detail)


@dataclass(frozen=True, slots=True)
class Extracted:
    """Text and title as UTF-8, and the charset that the payload was read in."""

    text: bytes
    title: bytes | None
    charset: str


class Ticket:
    """The answer to come for one payload."""

    __slots__ = ("_pool", "answer", "awaited", "charset", "kind", "payload")

    def __init__(self, pool: Extraction, payload: bytes, kind: int, charset: bytes) -> None:
        self._pool = pool
        self.payload = payload
        self.kind = kind
        self.charset = charset
        self.answer: Extracted | Exception | None = None
        self.awaited = False

    @property
    def ready(self) -> bool:
        """Whether `result` returns at once."""
        return self.answer is not None

    def result(self) -> Extracted:
        """Waits for the answer.

        Raises:
            ExtractionFailed: the worker died of this payload or took too long.
            BackendError: no worker can be started, or the pool was closed.
        """
        return self._pool.wait(self)


class _Worker:
    """One process, its pipes, and what it has been asked."""

    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            bufsize=0,
        )
        if self.process.stdin is None or self.process.stdout is None:
            raise BackendError("an extraction worker was started without pipes. Try again.")
        self.inlet = self.process.stdin.fileno()
        self.outlet = self.process.stdout.fileno()
        for pipe in (self.inlet, self.outlet):
            os.set_blocking(pipe, False)
            with contextlib.suppress(ImportError, AttributeError, OSError):  # Linux only, and bounded per user
                import fcntl  # not on every system

                fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        self.ready = False
        self.writable = True
        self.tickets: deque[Ticket] = deque()
        self.asked = 0
        self.outbox: deque[memoryview] = deque()
        self.inbox = bytearray()
        self.since = time.monotonic()

    @property
    def sated(self) -> bool:
        """Whether it has enough before it."""
        return len(self.tickets) >= _AHEAD_TICKETS or (len(self.tickets) >= 2 and self.asked >= _AHEAD_BYTES)

    def ask(self, ticket: Ticket) -> None:
        """Puts a payload in the outbox."""
        if not self.tickets:
            self.since = time.monotonic()
        self.tickets.append(ticket)
        self.asked += len(ticket.payload)
        head = REQUEST.pack(len(ticket.payload), ticket.kind, len(ticket.charset)) + ticket.charset
        if len(ticket.payload) < 1 << 16:
            self.outbox.append(memoryview(head + ticket.payload))
        else:
            self.outbox.extend((memoryview(head), memoryview(ticket.payload)))

    def write(self) -> None:
        """Writes what the pipe takes."""
        try:
            while self.outbox:
                view = self.outbox[0]
                written = os.write(self.inlet, view)
                if written < len(view):
                    self.outbox[0] = view[written:]
                    return
                self.outbox.popleft()
        except BlockingIOError:
            return
        except OSError:  # it has died; the end of its output says so in order
            self.writable = False
            self.outbox.clear()

    def read(self) -> bool:
        """Takes what has come; False at the end."""
        try:
            while True:
                part = os.read(self.outlet, 1 << 16)
                if not part:
                    return False
                self.inbox += part
                if len(part) < 1 << 16:
                    return True
        except BlockingIOError:
            return True
        except OSError:
            return False

    def next_answer(self) -> Extracted | None:
        if len(self.inbox) < ANSWER.size:
            return None
        text_size, title_size, charset_size, has_title = ANSWER.unpack_from(self.inbox)
        end = ANSWER.size + charset_size + title_size + text_size
        if len(self.inbox) < end:
            return None
        at = ANSWER.size + charset_size
        charset = bytes(self.inbox[ANSWER.size : at]).decode("ascii", "replace")
        title = bytes(self.inbox[at : at + title_size])
        text = bytes(self.inbox[at + title_size : end])
        del self.inbox[:end]
        return Extracted(text, title if has_title else None, charset)

    def end(self) -> None:
        """Ends the process, by its own id, and closes the pipes."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


class Extraction:
    """The pool, a context manager; no process is started before the first payload.

    Args:
        workers: number of processes, at least 1.
        time_limit: seconds a payload may take.
        in_flight_bytes: bytes of payloads waiting or being worked on; `submit` waits while there are more.
        memory_bytes: address space of each worker, None for no bound.
    """

    def __init__(
        self,
        workers: int,
        *,
        time_limit: float = 120.0,
        in_flight_bytes: int = 16 << 20,
        memory_bytes: int | None = None,
    ) -> None:
        self._count = max(1, workers)
        self._time_limit = time_limit
        self._in_flight_bytes = in_flight_bytes
        self._command = [sys.executable, "-P", "-m", "dedup_pipeline.sources.extraction_worker"]
        self._command += [str(time_limit + 30), str(memory_bytes or 0)]
        self._changed = threading.Condition()
        self._queue: deque[Ticket] = deque()
        self._bytes = 0
        self._crowded = False
        self._closed = False
        self._failure: BackendError | None = None
        self._thread: threading.Thread | None = None
        self._wake_read = self._wake_write = -1
        self._workers: list[_Worker] = []
        self._selector: selectors.BaseSelector | None = None
        self._start_failures = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the workers; tickets that are not ready raise `BackendError`."""
        with self._changed:
            self._closed = True
            thread = self._thread
        if thread is not None:
            self._wake()
            thread.join()
            os.close(self._wake_read)
            os.close(self._wake_write)
            self._thread = None

    def submit(self, payload: bytes, kind: int, charset: str | None) -> Ticket:
        """Hands a payload over.

        Args:
            payload: the bytes.
            kind: a `dedup_pipeline.sources.payloads.Payload` other than NO_TEXT.
            charset: what the HTTP header says, or None.

        Returns:
            The ticket for the answer. Waits first while too much is in flight.
        """
        ticket = Ticket(self, payload, kind, (charset or "").encode("ascii", "replace")[:255])
        with self._changed:
            if self._thread is None and not self._closed:
                self._start()
            if self._bytes > self._in_flight_bytes:
                # once full, wait until half is done: fewer wake-ups than one per answer
                self._crowded = True
                while self._bytes > self._in_flight_bytes // 2 and not self._stopped:
                    self._changed.wait()
                self._crowded = False
            if self._stopped:
                ticket.answer = self._reason()
                return ticket
            self._queue.append(ticket)
            self._bytes += len(payload)
            wake = len(self._queue) == 1
        if wake:
            self._wake()
        return ticket

    def wait(self, ticket: Ticket) -> Extracted:
        """The answer to ``ticket``, see `Ticket.result`."""
        if ticket.answer is None:
            with self._changed:
                ticket.awaited = True
                while ticket.answer is None:
                    self._changed.wait()
        if isinstance(ticket.answer, Exception):
            raise ticket.answer
        return ticket.answer

    @property
    def pids(self) -> tuple[int, ...]:
        """Process ids of the workers running now."""
        return tuple(worker.process.pid for worker in self._workers)

    @property
    def _stopped(self) -> bool:
        return self._closed or self._failure is not None

    def _reason(self) -> BackendError:
        return self._failure or BackendError("the extraction pool was closed before it answered. Run again.")

    def _start(self) -> None:
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        os.set_blocking(self._wake_write, False)
        self._thread = threading.Thread(target=self._run, name="extraction", daemon=True)
        self._thread.start()

    def _wake(self) -> None:
        try:
            os.write(self._wake_write, b"\0")
        except (BlockingIOError, OSError):
            return

    # From here on: the thread.

    def _run(self) -> None:
        selector = self._selector = selectors.DefaultSelector()
        selector.register(self._wake_read, selectors.EVENT_READ, None)
        try:
            for _ in range(self._count):
                self._hire()
            while not self._stopped:
                self._step(selector)
        except Exception as error:  # noqa: BLE001 - the callers wait for this thread, whatever ends it
            self._failure = BackendError(f"text extraction failed: {error!r}. Run again.")
        finally:
            for worker in self._workers:
                worker.end()
            selector.close()
            with self._changed:
                waiting = [ticket for worker in self._workers for ticket in worker.tickets] + list(self._queue)
                self._workers = []
                self._queue.clear()
                self._bytes = 0
                for ticket in waiting:
                    ticket.answer = self._reason()
                self._changed.notify_all()

    def _hire(self) -> None:
        root = str(Path(__file__).resolve().parents[2])
        path = os.environ.get("PYTHONPATH")
        environment = {**os.environ, **_ALLOCATOR, "PYTHONPATH": root + os.pathsep + path if path else root}
        worker = _Worker(self._command, environment)
        self._workers.append(worker)
        if self._selector is not None:
            self._selector.register(worker.outlet, selectors.EVENT_READ, worker)

    def _step(self, selector: selectors.BaseSelector) -> None:
        self._assign()
        for worker in self._workers:
            if worker.outbox and worker.writable and worker.ready:
                worker.write()
            self._watch(selector, worker)
        for key, events in selector.select(self._patience()):
            if key.data is None:
                os.read(self._wake_read, 4096)
                continue
            worker = key.data
            if events & selectors.EVENT_WRITE:
                worker.write()
            if key.fd == worker.outlet and not self._listen(worker):
                self._replace(selector, worker, "parser_crash", "the parser crashed on this payload")
        for worker in list(self._workers):
            if worker.tickets and worker.ready and time.monotonic() - worker.since > self._time_limit:
                self._replace(selector, worker, "parser_timeout", f"the parser took over {self._time_limit:g} s")

    def _assign(self) -> None:
        with self._changed:
            while self._queue:
                worker = min(self._workers, key=lambda worker: (worker.asked, len(worker.tickets)))
                if worker.sated:
                    return
                worker.ask(self._queue.popleft())

    def _watch(self, selector: selectors.BaseSelector, worker: _Worker) -> None:
        wanted = bool(worker.outbox) and worker.writable and worker.ready
        watched = worker.inlet in selector.get_map()
        if wanted and not watched:
            selector.register(worker.inlet, selectors.EVENT_WRITE, worker)
        elif watched and not wanted:
            selector.unregister(worker.inlet)

    def _patience(self) -> float | None:
        busy = [worker.since for worker in self._workers if worker.tickets and worker.ready]
        return max(0.0, min(busy) + self._time_limit - time.monotonic()) + 0.01 if busy else None

    def _listen(self, worker: _Worker) -> bool:
        """Takes answers; False when the worker has gone."""
        alive = worker.read()
        if not worker.ready and len(worker.inbox) >= _READY.size:
            (size,) = _READY.unpack_from(worker.inbox)
            if size:
                words = bytes(worker.inbox[_READY.size :]).decode("utf-8", "replace")
                raise BackendError(f"Resiliparse cannot be used: {words}")
            del worker.inbox[: _READY.size]
            worker.ready = True
            worker.since = time.monotonic()
            self._start_failures = 0
        while worker.ready and (answer := worker.next_answer()):
            with self._changed:
                self._settle(worker, answer)
            worker.since = time.monotonic()
        return alive

    def _settle(self, worker: _Worker, answer: Extracted | Exception) -> None:
        ticket = worker.tickets.popleft()
        worker.asked -= len(ticket.payload)
        self._bytes -= len(ticket.payload)
        ticket.payload = b""
        ticket.answer = answer
        if ticket.awaited or (self._crowded and self._bytes <= self._in_flight_bytes // 2):
            self._changed.notify_all()

    def _replace(self, selector: selectors.BaseSelector, worker: _Worker, reason: str, detail: str) -> None:
        """Ends a worker, blames the record it worked on, and gives the others to a new one."""
        for descriptor in (worker.inlet, worker.outlet):
            if descriptor in selector.get_map():
                selector.unregister(descriptor)
        worker.end()
        self._workers.remove(worker)
        with self._changed:
            if worker.ready and worker.tickets:
                self._settle(worker, ExtractionFailed(reason, detail))
            self._queue.extendleft(reversed(worker.tickets))
            worker.tickets.clear()
        if not worker.ready:
            self._start_failures += 1
            if self._start_failures >= _MAX_START_FAILURES:
                raise BackendError("the extraction workers end as soon as they are started")
        self._hire()
