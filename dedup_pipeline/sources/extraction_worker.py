"""A process that turns payloads into text, one after the other, until its input ends.

Started by `dedup_pipeline.sources.extraction`, which speaks to it over pipes. Only the standard library and Resiliparse
are imported, so that a worker stays small. All numbers are big-endian.

- First the worker sends ``u32`` length and that many bytes: empty when it is ready, else why it is not.
- A request: ``u64`` size of the payload, ``u8`` `dedup_pipeline.sources.payloads.Payload`, ``u8`` size of the
  charset, the charset (ASCII), the payload.
- Its answer: ``u64`` size of the text, ``u32`` size of the title, ``u8`` size of the charset, ``u8`` 1 where
  there is a title, the charset, the title, the text (UTF-8).
"""

from __future__ import annotations

import os
import re
import signal
import struct
import sys

REQUEST = struct.Struct(">QBB")
ANSWER = struct.Struct(">QIBB")
HTML = 1

_BOMS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))


def main(time_limit: float, memory_bytes: int) -> None:
    """Answers requests from file descriptor 0 on file descriptor 1.

    Args:
        time_limit: seconds after which a request ends the process, whatever native code is doing.
        memory_bytes: address space allowed; 0 for no bound.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interrupt means
    answers = os.dup(1)
    os.dup2(2, 1)  # nothing that a library prints may reach the pipe
    try:
        extract_payload(b"<p>ready</p>", HTML, "")
        if memory_bytes:
            import resource  # not on every system

            resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    except (ImportError, OSError, ValueError) as error:
        words = f"{type(error).__name__}: {error}".encode()
        _write(answers, struct.pack(">I", len(words)) + words)
        return
    _write(answers, struct.pack(">I", 0))
    while head := _read(REQUEST.size):
        size, kind, charset_size = REQUEST.unpack(head)
        charset = _read(charset_size).decode("ascii", "replace")
        payload = _read(size)
        signal.setitimer(signal.ITIMER_REAL, time_limit)
        text, title, used = extract_payload(payload, kind, charset)
        signal.setitimer(signal.ITIMER_REAL, 0)
        body = text.encode("utf-8", "replace")
        heading = (title or "").encode("utf-8", "replace")
        name = used.encode("ascii", "replace")[:255]
        _write(answers, ANSWER.pack(len(body), len(heading), len(name), title is not None) + name + heading)
        _write(answers, body)


def extract_payload(payload: bytes, kind: int, declared: str) -> tuple[str, str | None, str]:
    """Text, title and charset of a payload.

    HTML: the main content as Resiliparse finds it; where it finds none although the page has text, all
    the text. Other text: as it is. Charset: a byte order mark, else ``declared`` (of the HTTP header) where it names
    one, else for HTML its ``meta`` element, else UTF-8 where the bytes are that, else what Resiliparse detects.
    Bytes that the charset does not have become U+FFFD.
    """
    from resiliparse.extract.html2text import extract_plain_text
    from resiliparse.parse.encoding import bytes_to_str
    from resiliparse.parse.html import HTMLTree

    charset = _charset(payload, kind, declared)
    document = _plain_utf8(payload) if charset == "utf-8" else None
    if document is None:
        document = bytes_to_str(payload, charset, errors="replace", fallback_encodings=())
    if kind != HTML:
        return document, None, charset
    tree = HTMLTree.parse(document)
    text = extract_plain_text(tree, main_content=True)
    if not text.strip():
        text = extract_plain_text(tree)
    title = (tree.title or "").strip()
    return text, title or None, charset


def _charset(payload: bytes, kind: int, declared: str) -> str:
    from resiliparse.parse.encoding import detect_encoding, map_encoding_to_html5

    for mark, charset in _BOMS:
        if payload.startswith(mark):
            return charset
    if declared and (known := map_encoding_to_html5(declared, fallback_utf8=False)):
        return known
    if kind == HTML and (meta := _meta_charset(payload)):
        return meta
    try:
        payload.decode("utf-8")
    except UnicodeDecodeError:
        return detect_encoding(payload) or "utf-8"
    return "utf-8"


def _plain_utf8(payload: bytes) -> str | None:
    """The text of valid UTF-8 without a byte order mark, twice as fast as Resiliparse has it; else None."""
    if payload.startswith(b"\xef\xbb\xbf"):
        return None
    try:
        return payload.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _meta_charset(payload: bytes) -> str | None:
    """The charset that a ``meta`` element in the first 1024 bytes names (HTML standard, prescan)."""
    from resiliparse.parse.encoding import map_encoding_to_html5

    for element in re.findall(rb"<meta\s[^>]{1,500}", payload[:1024], re.IGNORECASE):
        found = re.search(rb"charset\s*=\s*[\"']?\s*([A-Za-z0-9_.:-]{1,40})", element, re.IGNORECASE)
        if found:
            known = map_encoding_to_html5(found[1].decode("ascii"), fallback_utf8=False)
            if known:  # a page that could be read as ASCII up to here is no UTF-16
                return "utf-8" if known.startswith("utf-16") else known
    return None


def _read(size: int) -> bytes:
    parts: list[bytes] = []
    while size:
        part = os.read(0, min(size, 1 << 20))
        if not part:
            sys.exit(0)
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _write(descriptor: int, text: bytes) -> None:
    view = memoryview(text)
    while view:
        view = view[os.write(descriptor, view) :]


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]))
