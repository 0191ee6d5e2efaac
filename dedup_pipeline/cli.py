"""The command line: arguments in, exit codes out. What is done stands in `pipeline`."""

from __future__ import annotations

import gc
import io
import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer

from dedup_pipeline import __version__
from dedup_pipeline.errors import DedupError

app = typer.Typer(
    name="dedup-pipeline",
    help="Find duplicates and near-duplicates in crawl dumps.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

_INTERRUPTED = 130
_OUTPUT = 5
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def _show_version(wanted: bool) -> None:
    if wanted:
        _print(f"dedup-pipeline {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    """Find duplicates and near-duplicates in crawl dumps."""


@app.command()
def run(
    inputs: Annotated[list[str], typer.Argument(metavar="INPUT...", help="Files, folders or globs.")],
    output: Annotated[str, typer.Option("--output", "-o", metavar="OUT", help="Folder to write; must not exist.")],
    config: Annotated[Path | None, typer.Option(help="TOML file with settings.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="One setting, e.g. near.threshold=0.7.")
    ] = None,
    engine: Annotated[str, typer.Option(help="Where the run takes place: local.")] = "local",
    threads: Annotated[int | None, typer.Option(help="Worker threads; default: the processors at hand.")] = None,
    memory_limit: Annotated[str, typer.Option(help="Memory beyond 300 MB of libraries, e.g. 2GB.")] = "2GB",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing output folder.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Do everything but publish.")] = False,
    no_report: Annotated[bool, typer.Option("--no-report", help="Write no report.html.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print counts as JSON on stdout.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
) -> None:
    """Deduplicate a crawl dump by URL, by record, and by near-duplicate text."""
    with _exit_codes(), _collecting_rarely():
        from dedup_pipeline.config import load_config, parse_setting
        from dedup_pipeline.console import Console, summary
        from dedup_pipeline.errors import ConfigError

        if engine != "local":
            raise ConfigError(f"--engine {engine}: this version has the engine local only.")
        chosen = load_config(
            config,
            inputs=inputs,
            output=output,
            set=dict(parse_setting(text) for text in settings or []),
            threads=threads,
            memory_limit=memory_limit,
            overwrite=overwrite,
            dry_run=dry_run,
            report=not no_report,
        )
        _leave_pandas_out()
        with Console(sys.stderr, quiet=quiet) as console:
            from dedup_pipeline.pipeline import run as run_pipeline

            gc.freeze()  # what was imported lives as long as the process
            gc.enable()
            result = run_pipeline(chosen, console)
        if as_json:
            _print(json.dumps(_machine_summary(result.manifest, result.output, result.published)))
        elif not quiet:
            _print(summary(result))


bloom = typer.Typer(no_args_is_help=True, help="Size, look at and merge saved seen-sets.", rich_markup_mode=None)
app.add_typer(bloom, name="bloom")

_SecretFile = Annotated[
    Path | None, typer.Option("--secret-file", help="File with the secret it was made with: 16 bytes or 32 hex digits.")
]
_AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@bloom.command("size")
def bloom_size(
    items: Annotated[str, typer.Argument(metavar="N", help="URLs expected, e.g. 1000000, 1e9 or 250M.")],
    error_rate: Annotated[float, typer.Argument(metavar="P", help="Error rate when full, e.g. 0.0001.")] = 1e-4,
    memory_limit: Annotated[str, typer.Option(help="Memory limit of the run in question.")] = "2GB",
    as_json: _AsJson = False,
) -> None:
    """Tell what each kind of seen-set takes for N URLs at error rate P."""
    with _exit_codes():
        from dedup_pipeline import bloom_commands
        from dedup_pipeline.config import parse_bytes

        count, limit = bloom_commands.parse_count(items), parse_bytes("--memory-limit", memory_limit)
        if as_json:
            _print(json.dumps(bloom_commands.sizes(count, error_rate)))
        else:
            _print(bloom_commands.size_table(count, error_rate, limit))


@bloom.command("info")
def bloom_info(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A saved seen-set.")],
    secret_file: _SecretFile = None,
    as_json: _AsJson = False,
) -> None:
    """Tell fill, errors and expected loss of a saved seen-set."""
    with _exit_codes():
        from dedup_pipeline import bloom_commands

        known = bloom_commands.info(file, bloom_commands.read_secret(secret_file))
        _print(json.dumps(known) if as_json else bloom_commands.info_text(known))


@bloom.command("merge")
def bloom_merge(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Saved seen-sets of one kind and shape.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="File to write.")],
    secret_file: _SecretFile = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing file.")] = False,
    as_json: _AsJson = False,
) -> None:
    """Write a seen-set that has seen what any of the files has."""
    with _exit_codes():
        from dedup_pipeline import bloom_commands

        known = bloom_commands.merge(files, output, bloom_commands.read_secret(secret_file), overwrite)
        _print(json.dumps(known) if as_json else bloom_commands.info_text(known))


@contextmanager
def _collecting_rarely() -> Iterator[None]:
    """Take no garbage collection while modules are imported, few while records pass: a tenth of the start.

    Only a process of our own may be told so; whoever calls the command from Python gets the collector back as it was.
    """
    before = gc.get_threshold()
    gc.disable()
    gc.set_threshold(20_000, 20, 20)
    try:
        yield
    finally:
        gc.unfreeze()
        gc.enable()
        gc.set_threshold(*before)


def _leave_pandas_out() -> None:
    """Keep pyarrow from importing pandas, which takes it half a second, at the first list it converts.

    A run needs no pandas. pyarrow asks once and remembers the answer; whoever calls ``to_pandas`` later
    gets it all the same. Only a process of our own may be told so, never one that imports us.
    """
    if "pandas" in sys.modules:
        return
    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        import pyarrow as pa

        pa.array([0])
    finally:
        sys.meta_path.remove(finder)


class _NoPandas(MetaPathFinder):
    """Finds no pandas."""

    def find_spec(self, fullname: str, *_: object) -> None:
        """Refuse pandas, pass on everything else."""
        if fullname == "pandas":
            raise ModuleNotFoundError(fullname)


def _machine_summary(manifest: dict[str, Any], output: Path, published: bool) -> dict[str, Any]:
    names = ("run", "counts", "config_fingerprint", "bloom", "lsh", "warnings", "timings")
    return {"output": str(output), "published": published, **{name: manifest[name] for name in names}}


def _print(text: str) -> None:
    """Write to stdout; a reader that has gone away, or never was, does no harm.

    Raises:
        OutputError: the disk behind it refused.
    """
    stream = sys.stdout
    if stream is None:  # started with stdout closed
        return
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")
    try:
        stream.write(text + "\n")
        stream.flush()
    except OSError as error:
        # What is still in the buffer would fail again when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        if not isinstance(error, BrokenPipeError):
            from dedup_pipeline.errors import OutputError

            raise OutputError(f"stdout cannot be written: {error.strerror}. Direct it elsewhere.") from error


@contextmanager
def _exit_codes() -> Iterator[None]:
    """Turn what ends a command into one plain message on stderr and the exit code of the contract."""
    caught: list[int] = []

    def interrupt(number: int, _: object) -> None:
        caught.append(number)
        if not _is_interrupted(sys.exception()):  # a second signal must not disturb the clearing up
            raise KeyboardInterrupt

    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup and background jobs ignore some on purpose
            signal.signal(number, interrupt)
    try:
        yield
    except (Exception, KeyboardInterrupt) as error:
        if caught:
            for number in _SIGNALS:
                signal.signal(number, signal.SIG_IGN)
            # A library may have turned the interruption into an error of its own.
            _fail(*_ending(KeyboardInterrupt()))
        if not isinstance(error, DedupError | KeyboardInterrupt | MemoryError):
            raise
        _fail(*_ending(error))


def _is_interrupted(error: BaseException | None) -> bool:
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


def _ending(error: BaseException) -> tuple[str, int]:
    """Return message and exit code."""
    if isinstance(error, DedupError):
        return str(error), error.exit_code
    if isinstance(error, KeyboardInterrupt):
        return "Interrupted; nothing half-made was published.", _INTERRUPTED
    advice = "Lower --memory-limit or --threads, or use a larger machine."
    return f"Out of memory; nothing was published. {advice}", _OUTPUT


def _fail(message: str, code: int) -> None:
    from dedup_pipeline.console import plain

    with suppress(OSError, AttributeError):  # stderr may be closed, or its reader gone
        sys.stderr.write(f"dedup-pipeline: {plain(message)}\n")
    raise typer.Exit(code)


def main() -> None:
    """Run the command line."""
    try:
        app()
    finally:
        _let_go(sys.stdout)
        _let_go(sys.stderr)


def _let_go(stream: TextIO | None) -> None:
    """Flush a stream; where nobody reads it, send what is left nowhere.

    The interpreter flushes once more while it ends, and would end with 120 instead of the exit code.
    """
    if stream is None:
        return
    try:
        stream.flush()
    except (OSError, ValueError):
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
