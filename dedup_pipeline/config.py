"""What a run is asked to do: one TOML file or mapping, checked whole before anything is read.

Every problem found stands in one `ConfigError`: unknown keys with the nearest known one, wrong types,
values out of range, and combinations that cannot be run.
"""

from __future__ import annotations

import copy
import difflib
import json
import math
import os
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import asdict, dataclass, field, fields, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import xxhash

from dedup_pipeline.errors import ConfigError
from dedup_pipeline.urls.clearurls import ClearUrls, load_clearurls
from dedup_pipeline.urls.options import HOST_SWITCHES, SUFFIX_SWITCHES, UrlOptions, UrlSwitches, host_name

NORMALISERS = ("nfc", "case", "relative_time", "whitespace")
"""Field normalisations for fingerprints, in the order in which they are applied."""

_MOST_THREADS = 1024
_MOST_NUMBER = 1 << 50
"""No setting means anything beyond this: a petabyte, a quadrillion records."""
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(i?)B?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class InputConfig:
    """``[input]``: what is read. ``id``, ``url`` and ``text`` name columns; empty means the default name,
    which may be absent. ``batch_rows`` bounds a batch and changes no result.
    """

    format: str = "auto"
    status: tuple[int, ...] = (200,)
    id: str = ""
    url: str = ""
    text: str = ""
    batch_rows: int = 10_000


@dataclass(frozen=True, slots=True)
class UrlsConfig(UrlSwitches):
    """``[urls]``: the first stage. ``hosts`` holds switches by host, which stand there in place of those here.
    ``clearurls`` names a file.
    """

    enabled: bool = True
    profile: str = "default"
    seen: str = "auto"
    error_rate: float = 1e-4
    capacity: int | str = "auto"
    changed: str = "drop"
    full: str = "grow"
    clearurls: str = ""
    clearurls_referral_marketing: bool = False
    clearurls_redirections: bool = False
    hosts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


_ONLY_IF_SET = (
    *(entry.name for entry in fields(UrlSwitches)),
    "clearurls",
    "clearurls_referral_marketing",
    "clearurls_redirections",
    "hosts",
    "full",
)
"""Settings of ``[urls]`` that have no part in the fingerprint while they have their defaults: they came later."""


@dataclass(frozen=True, slots=True)
class RecordsConfig:
    """``[records]``: the second stage. Empty ``fields`` means the text column."""

    enabled: bool = True
    fields: tuple[str, ...] = ()
    normalise: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NearConfig:
    """``[near]``: the third stage."""

    enabled: bool = True
    method: str = "minhash"
    measure: str = "jaccard"
    shingle: str = "word"
    n: int = 3
    num_perm: int = 128
    threshold: float = 0.8
    target_recall: float = 0.99
    boilerplate: str = "off"
    mask: tuple[str, ...] = ()
    max_bucket: int | str = "auto"


@dataclass(frozen=True, slots=True)
class KeepConfig:
    """``[keep]``: which of several records is kept; criteria in order of weight."""

    policy: tuple[str, ...] = ("first",)


@dataclass(frozen=True, slots=True)
class SafetyConfig:
    """``[safety]``: what ends a run before anything is published."""

    max_bad_fraction: float = 0.001
    broken_sources: str = "stop"
    max_dropped_fraction: float = 0.9
    max_cluster: int = 100_000


@dataclass(frozen=True, slots=True)
class LimitsConfig:
    """``[limits]``: what one record or file may cost."""

    record_bytes: int = 64 * 1000**2
    decompression_ratio: int = 2000
    url_bytes: int = 16384


@dataclass(frozen=True, slots=True)
class OutputConfig:
    """``[output]``: how results are written."""

    compression: str = "zstd"


_SECTIONS: dict[str, type] = {
    "input": InputConfig,
    "urls": UrlsConfig,
    "records": RecordsConfig,
    "near": NearConfig,
    "keep": KeepConfig,
    "safety": SafetyConfig,
    "limits": LimitsConfig,
    "output": OutputConfig,
}


@dataclass(frozen=True, slots=True)
class Config:
    """Everything a run needs. Make it with `load_config`, which checks it.

    The sections decide the result. ``threads``, ``memory_limit`` (bytes) and ``input.batch_rows`` decide
    only how fast it comes and how much memory that takes.
    """

    inputs: tuple[str, ...]
    output: Path
    input: InputConfig = InputConfig()
    urls: UrlsConfig = UrlsConfig()
    records: RecordsConfig = RecordsConfig()
    near: NearConfig = NearConfig()
    keep: KeepConfig = KeepConfig()
    safety: SafetyConfig = SafetyConfig()
    limits: LimitsConfig = LimitsConfig()
    output_options: OutputConfig = OutputConfig()
    threads: int = 0
    memory_limit: int = 2 * 1000**3
    overwrite: bool = False
    dry_run: bool = False
    report: bool = True
    clearurls: ClearUrls | None = None

    def url_options(self) -> UrlOptions:
        """Return the options of the canonical form on hosts that have none of their own."""
        switches = {entry.name: getattr(self.urls, entry.name) for entry in fields(UrlSwitches)}
        return UrlOptions(**switches, clearurls=self.clearurls)

    def host_options(self) -> dict[str, UrlOptions]:
        """Return the options by host: those of ``[urls]``, but for what the host's own table says."""
        options = self.url_options()
        return {host: replace(options, **switches) for host, switches in self.urls.hosts.items()}

    def sections(self) -> dict[str, Any]:
        """Return the sections as plain values, without what cannot change the result."""
        plain = {name: asdict(self.output_options if name == "output" else getattr(self, name)) for name in _SECTIONS}
        del plain["input"]["batch_rows"]
        urls, default = plain["urls"], asdict(UrlsConfig())
        for name in _ONLY_IF_SET:
            if urls[name] == default[name]:
                del urls[name]
        if self.clearurls is not None:
            urls["clearurls"] = self.clearurls.digest
        if any(table.get(name) for table in (urls, *urls.get("hosts", {}).values()) for name in SUFFIX_SWITCHES):
            urls["public_suffix_list"] = version("publicsuffixlist")
        return plain

    def fingerprint(self) -> str:
        """Return 32 hex digits that change with every setting that can change the result."""
        return xxhash.xxh3_128_hexdigest(json.dumps(self.sections(), sort_keys=True).encode())


def load_config(
    path: str | os.PathLike[str] | None = None,
    *,
    inputs: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    output: str | os.PathLike[str],
    set: Mapping[str, Any] | None = None,
    threads: int | None = None,
    memory_limit: int | str = "2GB",
    overwrite: bool = False,
    dry_run: bool = False,
    report: bool = True,
) -> Config:
    """Return a checked `Config` from a TOML file and settings that override it.

    Args:
        path: TOML file; None for the defaults.
        inputs: a file, folder or glob, or several.
        output: folder to write.
        set: settings by dotted name, for instance ``{"near.threshold": 0.7}``.
        threads: worker threads; None for the processors this process may use.
        memory_limit: bytes, or a size such as ``"2GB"``; at least 256 MB.
        overwrite: replace an existing output folder.
        dry_run: do everything but publish.
        report: write ``report.html``.

    Raises:
        ConfigError: naming every problem found.
    """
    if isinstance(inputs, str | os.PathLike):
        inputs = [inputs]
    problems: list[str] = []
    tree = _read_toml(path) if path is not None else {}
    for name, value in (set or {}).items():
        section, _, key = name.partition(".")
        if not key or not isinstance(tree.setdefault(section, {}), dict):
            problems.append(f"{name}: a setting is named SECTION.KEY, for instance near.threshold")
            continue
        keys = [part.strip('"') for part in re.findall(r'"[^"]*"|[^."]+', key)] if '"' in key else key.split(".")
        _place(tree[section], keys, copy.deepcopy(value))
    made = {name: _section(name, kind, tree.get(name, {}), problems) for name, kind in _SECTIONS.items()}
    problems.extend(_unknown_top(name, value) for name, value in tree.items() if name not in _SECTIONS)
    made["output_options"] = made.pop("output")
    clearurls = _clearurls(made["urls"], problems)
    limit = _bytes("memory_limit", memory_limit, problems)
    if not inputs:
        problems.append("INPUT: name at least one file, folder or glob")
    if not os.fspath(output):
        problems.append("--output is empty: name the folder to write")
    config = Config(
        inputs=tuple(os.fspath(name) for name in inputs),
        output=Path(output),
        threads=threads if threads is not None else len(os.sched_getaffinity(0)),
        memory_limit=limit,
        overwrite=overwrite,
        dry_run=dry_run,
        report=report,
        clearurls=clearurls,
        **made,
    )
    config = _settled(config)
    problems.extend(_check(config, {problem.split(" ", 1)[0] for problem in problems}))
    if problems:
        where = f" of {os.fspath(path)}" if path is not None else ""
        lines = "\n".join(f"  - {problem}" for problem in problems)
        raise ConfigError(f"The configuration{where} cannot be run; mend these and start again:\n{lines}")
    return config


def parse_setting(text: str) -> tuple[str, Any]:
    """Return name and value of a ``key=value`` setting; the value is TOML, or text where it is none.

    >>> parse_setting("near.threshold=0.7")
    ('near.threshold', 0.7)
    >>> parse_setting("urls.profile=strict")
    ('urls.profile', 'strict')
    """
    name, separator, value = text.partition("=")
    if not separator:
        raise ConfigError(f"--set {text!r}: write SECTION.KEY=VALUE, for instance near.threshold=0.7")
    try:
        tree = tomllib.loads(f"value = {value}")
    except (tomllib.TOMLDecodeError, ValueError, RecursionError):  # the latter two: digits or brackets without end
        tree = {}
    # More than one key: a line break in the text, which must not smuggle in another setting.
    return name.strip(), tree["value"] if len(tree) == 1 else value.strip()


def _read_toml(path: str | os.PathLike[str]) -> dict[str, Any]:
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"--config {os.fspath(path)}: {error.strerror}. Name a readable TOML file.") from None
    except RecursionError:
        raise ConfigError(f"--config {os.fspath(path)} is nested too deeply. A setting is SECTION.KEY.") from None
    except ValueError as error:  # no TOML, no UTF-8, a number of thousands of digits, a NUL in the path
        raise ConfigError(f"--config {os.fspath(path)} is no valid TOML: {error}") from None


def _place(tree: dict[str, Any], keys: list[str], value: Any) -> None:
    for key in keys[:-1]:
        below = tree.setdefault(key, {})
        if not isinstance(below, dict):
            below = tree[key] = {}
        tree = below
    tree[keys[-1]] = value


def _unknown(shown: str, name: str, known: Iterable[str]) -> str:
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    return f"{shown} is unknown; " + (f"did you mean {near[0]}?" if near else f"known are {', '.join(names)}")


def _unknown_top(name: str, value: Any) -> str:
    """Return the complaint about a name outside the sections: a misspelt section, or a setting without its own."""
    if not isinstance(value, dict):
        known = [f"{section}.{entry.name}" for section, kind in _SECTIONS.items() for entry in fields(kind)]
        bare = [full for full in known if full.partition(".")[2] == name]
        return f"{name} stands outside of a section; did you mean {bare[0]}?" if bare else _unknown(name, name, known)
    return _unknown(f"[{name}]", name, _SECTIONS)


def _section(name: str, kind: type, given: Any, problems: list[str]) -> Any:
    """Return one section from its TOML table, collecting problems."""
    default = kind()
    if not isinstance(given, dict):
        problems.append(f"[{name}] must be a table")
        return default
    known = {entry.name: getattr(default, entry.name) for entry in fields(kind)}
    values: dict[str, Any] = {}
    for key, value in given.items():
        if key not in known:
            problems.append(_unknown(f"{name}.{key}", key, known))
            continue
        try:
            values[key] = _typed(f"{name}.{key}", value, known[key])
        except ValueError as error:
            problems.append(str(error))
    return replace(default, **values)


def _typed(name: str, value: Any, default: Any) -> Any:
    """Return ``value`` in the type of ``default``; ValueError says what is wrong."""
    if name == "records.normalise":
        return _normalise(value)
    if name == "urls.hosts":
        return _hosts(value)
    if name in ("limits.record_bytes",):
        problems: list[str] = []
        size = _bytes(name, value, problems)
        if problems:
            raise ValueError(problems[0])
        return size
    if default == "auto" and name in ("urls.capacity", "near.max_bucket"):
        if value == "auto" or (isinstance(value, int) and not isinstance(value, bool)):
            return value
        raise ValueError(f'{name} = {value!r}: give a whole number or "auto"')
    if isinstance(default, bool):
        return _need(name, value, bool, "true or false")
    if isinstance(default, int | float):
        return _number(name, value, isinstance(default, int))
    if isinstance(default, tuple):
        kind: type = int if name == "input.status" else str
        if not isinstance(value, list | tuple) or not all(type(entry) is kind for entry in value):
            example = "[200, 203]" if kind is int else json.dumps([value if isinstance(value, str) else "one"])
            raise ValueError(
                f"{name} = {value!r}: give a list of {'numbers' if kind is int else 'texts'}, as {example}"
            )
        return tuple(value)
    return _need(name, value, str, "a text")


def _number(name: str, value: Any, whole: bool) -> int | float:
    """Return a number of a size that some setting could mean."""
    number: int | float = _need(name, value, int if whole else (int, float), "a whole number" if whole else "a number")
    if isinstance(number, int) and abs(number) > _MOST_NUMBER:
        raise ValueError(f"{name}: give a number of at most {_MOST_NUMBER}")
    if not math.isfinite(number):
        raise ValueError(f"{name} = {value!r}: give a finite number")
    return number if whole else float(number)


def _need(name: str, value: Any, kind: type | tuple[type, ...], wanted: str) -> Any:
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise ValueError(f"{name} = {value!r}: give {wanted}")
    return value


def _normalise(value: Any) -> dict[str, tuple[str, ...]]:
    if not isinstance(value, Mapping):
        raise ValueError(f'records.normalise = {value!r}: give a table, for instance {{ title = ["case"] }}')
    chosen: dict[str, tuple[str, ...]] = {}
    for column, names in value.items():
        if not isinstance(names, list | tuple) or not all(name in NORMALISERS for name in names):
            raise ValueError(f"records.normalise.{column} = {names!r}: give a list out of {', '.join(NORMALISERS)}")
        chosen[column] = tuple(name for name in NORMALISERS if name in names)
    return chosen


def _hosts(value: Any) -> dict[str, dict[str, Any]]:
    """Return switches by host, hosts as they stand in keys; ValueError names all problems."""
    if not isinstance(value, Mapping):
        raise ValueError(f'urls.hosts = {value!r}: give a table by host, as [urls.hosts."example.com"]')
    problems: list[str] = []
    hosts: dict[str, dict[str, Any]] = {}
    default = UrlSwitches()
    for given, switches in value.items():
        shown = f'urls.hosts."{given}"'
        try:
            host = host_name(given)
        except ConfigError as error:
            problems.append(f"{shown}: {error}")
            continue
        if host in hosts:
            problems.append(f"{shown}: the host {host} is named twice")
        if not isinstance(switches, Mapping):
            problems.append(f"{shown} = {switches!r}: give a table, for instance {{ drop_www = true }}")
            continue
        hosts[host] = {}
        for key, entry in switches.items():
            if key not in HOST_SWITCHES:
                problems.append(_unknown(f"{shown}.{key}", key, HOST_SWITCHES))
                continue
            try:
                hosts[host][key] = _typed(f"{shown}.{key}", entry, getattr(default, key))
                UrlOptions(**{key: hosts[host][key]})
            except (ValueError, ConfigError) as error:
                problems.append(f"{shown}.{error}" if isinstance(error, ConfigError) else str(error))
    if problems:
        raise ValueError("\n  - ".join(problems))
    return dict(sorted(hosts.items()))


def _clearurls(urls: UrlsConfig, problems: list[str]) -> ClearUrls | None:
    """Return the rules of the file that ``urls.clearurls`` names, collecting what is wrong with it."""
    if not urls.clearurls:
        return None
    try:
        return load_clearurls(
            urls.clearurls,
            referral_marketing=urls.clearurls_referral_marketing,
            redirections=urls.clearurls_redirections,
        )
    except ConfigError as error:
        problems.append(f"urls.clearurls: {error}")
        return None


def _check_switches(urls: UrlsConfig) -> list[str]:
    problems = []
    for entry in fields(UrlSwitches):
        try:
            UrlOptions(**{entry.name: getattr(urls, entry.name)})
        except ConfigError as error:
            problems.append(f"urls.{error}")
    return problems


def _bytes(name: str, value: Any, problems: list[str]) -> int:
    """Return a size in bytes from a number or a text such as ``2GB`` (powers of 1000; GiB of 1024)."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    match = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        problems.append(f'{name} = {value!r}: give bytes or a size such as "2GB"')
        return 0
    power = " KMGT".index(match[2].upper() or " ")
    return int(min(float(match[1]), 2.0 * _MOST_NUMBER) * (1024 if match[3] else 1000) ** power)


def parse_bytes(name: str, value: int | str) -> int:
    """Return a size in bytes from a number or a text such as ``2GB``.

    Raises:
        ConfigError: it is none.
    """
    problems: list[str] = []
    size = _bytes(name, value, problems)
    if problems:
        raise ConfigError(problems[0])
    return size


def _settled(config: Config) -> Config:
    """Return the config with its defaults that depend on each other filled in."""
    if not config.records.fields:
        config = replace(config, records=replace(config.records, fields=(config.input.text or "text",)))
    return config


def _check(config: Config, wrong: Set[str]) -> list[str]:
    """Return what is wrong with values that have the right types; those of the settings in ``wrong`` have not."""
    near, urls, safety, limits = config.near, config.urls, config.safety, config.limits
    open_unit: Callable[[float], bool] = lambda value: 0.0 < value < 1.0  # noqa: E731
    rules: list[tuple[bool, str]] = [
        (1 <= config.threads <= _MOST_THREADS, f"threads = {config.threads}: give 1 to {_MOST_THREADS}"),
        (
            "memory_limit" in wrong or config.memory_limit >= 256 * 1000**2,
            f"memory_limit = {config.memory_limit}: give at least 256MB",
        ),
        (
            "memory_limit" in wrong or config.memory_limit <= _MOST_NUMBER,
            "memory_limit: give at most 1000TB",
        ),
        (config.input.batch_rows >= 1, f"input.batch_rows = {config.input.batch_rows}: give at least 1"),
        _one_of("input.format", config.input.format, ("auto", "parquet", "jsonl", "csv", "warc", "arc")),
        (bool(config.input.status), "input.status = []: give at least one HTTP status"),
        _one_of("urls.profile", urls.profile, ("strict", "default", "aggressive")),
        _one_of("urls.seen", urls.seen, ("auto", "exact", "confirmed", "bloom")),
        _one_of("urls.changed", urls.changed, ("drop", "keep")),
        (
            not (urls.seen == "bloom" and urls.changed == "keep"),
            'urls.changed = "keep" needs to know whose URL it was, which urls.seen = "bloom" forgets: take "confirmed"',
        ),
        _one_of("urls.full", urls.full, ("grow", "stop")),
        (1e-15 <= urls.error_rate < 1.0, f"urls.error_rate = {urls.error_rate}: give at least 1e-15, below 1"),
        (urls.capacity == "auto" or int(urls.capacity) >= 1, f"urls.capacity = {urls.capacity}: give at least 1"),
        _one_of("near.method", near.method, ("minhash",)),
        _one_of("near.measure", near.measure, ("jaccard",)),
        _one_of("near.shingle", near.shingle, ("word", "char")),
        (1 <= near.n <= 100, f"near.n = {near.n}: give 1 to 100"),
        (1 <= near.num_perm <= 4096, f"near.num_perm = {near.num_perm}: give 1 to 4096"),
        (0.0 < near.threshold <= 1.0, f"near.threshold = {near.threshold}: give a number above 0, at most 1"),
        (open_unit(near.target_recall), f"near.target_recall = {near.target_recall}: give a number between 0 and 1"),
        _one_of("near.boilerplate", near.boilerplate, ("off",)),
        (not near.mask, f"near.mask = {list(near.mask)}: no masks are known; give []"),
        (near.max_bucket == "auto", f'near.max_bucket = {near.max_bucket!r}: only "auto" is known'),
        (0.0 <= safety.max_bad_fraction <= 1.0, f"safety.max_bad_fraction = {safety.max_bad_fraction}: give 0 to 1"),
        _one_of("safety.broken_sources", safety.broken_sources, ("stop", "quarantine")),
        (0.0 <= safety.max_dropped_fraction <= 1.0, "safety.max_dropped_fraction: give 0 to 1"),
        (safety.max_cluster >= 1, f"safety.max_cluster = {safety.max_cluster}: give at least 1"),
        (1 <= limits.record_bytes <= 2**31 - 1, "limits.record_bytes: give 1 byte to 2 GB"),
        (limits.url_bytes <= 2**31 - 1, "limits.url_bytes: give at most 2147483647"),
        (limits.decompression_ratio >= 1, "limits.decompression_ratio: give at least 1"),
        (limits.url_bytes >= 1, "limits.url_bytes: give at least 1"),
        _one_of("output.compression", config.output_options.compression, ("zstd", "snappy", "gzip", "none")),
    ]
    problems = [message for holds, message in rules if not holds]
    problems += [
        f"records.normalise.{column}: records.fields does not name {column}"
        for column in config.records.normalise
        if column not in config.records.fields and "records.fields" not in wrong
    ]
    problems += _check_switches(config.urls)
    return problems + [problem for entry in config.keep.policy for problem in _check_policy(entry)]


def _one_of(name: str, value: str, known: Sequence[str]) -> tuple[bool, str]:
    return value in known, f"{name} = {value!r}: give one of {', '.join(known)}"


def _check_policy(entry: str) -> list[str]:
    name, _, argument = entry.partition(":")
    if name in ("first", "last", "longest") and not argument:
        return []
    if name in ("newest", "highest") and argument:
        return []
    if name == "prefer" and argument.partition("=")[1]:
        return []
    return [
        f"keep.policy: {entry!r} is none of first, last, longest, newest:COLUMN, highest:COLUMN, prefer:COLUMN=VALUE"
    ]
