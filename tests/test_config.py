"""The configuration: every problem in one message, nothing taken that cannot be run, one fingerprint per result."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dedup_pipeline
from dedup_pipeline.config import NORMALISERS, Config, UrlsConfig, load_config, parse_setting
from dedup_pipeline.errors import ConfigError
from dedup_pipeline.urls.options import UrlOptions, UrlSwitches

CLEARURLS = Path(__file__).parent / "urls" / "clearurls.json"


def made(settings: dict[str, Any] | None = None, path: Path | None = None, **options: Any) -> Config:
    return load_config(path, **{"inputs": ["a.jsonl"], "output": "out", "set": settings, "threads": 1, **options})


def refusal(settings: dict[str, Any] | None = None, path: Path | None = None, **options: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        made(settings, path, **options)
    assert caught.value.exit_code == 2
    return str(caught.value)


# --- defaults -----------------------------------------------------------------------------------------


def test_the_documented_defaults() -> None:
    config = made()
    assert config.sections() == {
        "input": {"format": "auto", "status": (200,), "id": "", "url": "", "text": ""},
        "urls": {
            "enabled": True,
            "profile": "default",
            "seen": "auto",
            "error_rate": 1e-4,
            "capacity": "auto",
            "changed": "drop",
        },
        "records": {"enabled": True, "fields": ("text",), "normalise": {}},
        "near": {
            "enabled": True,
            "method": "minhash",
            "measure": "jaccard",
            "shingle": "word",
            "n": 3,
            "num_perm": 128,
            "threshold": 0.8,
            "target_recall": 0.99,
            "boilerplate": "off",
            "mask": (),
            "max_bucket": "auto",
        },
        "keep": {"policy": ("first",)},
        "safety": {
            "max_bad_fraction": 0.001,
            "broken_sources": "stop",
            "max_dropped_fraction": 0.9,
            "max_cluster": 100_000,
        },
        "limits": {"record_bytes": 64_000_000, "decompression_ratio": 2000, "url_bytes": 16384},
        "output": {"compression": "zstd"},
    }
    assert (config.memory_limit, config.overwrite, config.dry_run, config.report) == (2_000_000_000, False, False, True)


def test_the_fields_default_to_the_text_column() -> None:
    assert made({"input.text": "body"}).records.fields == ("body",)
    assert made({"input.text": "body", "records.fields": ["title"]}).records.fields == ("title",)


def test_a_config_is_frozen() -> None:
    config = made()
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.threads = 3  # type: ignore[misc]


def test_the_package_exports_it() -> None:
    assert dedup_pipeline.load_config is load_config
    assert dedup_pipeline.Config is Config


# --- files and overriding settings --------------------------------------------------------------------


def test_a_file_and_settings_that_override_it(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text(
        '[near]\nthreshold = 0.7\nn = 5\n[records]\nfields = ["title", "text"]\n'
        'normalise = { title = ["whitespace", "case"] }\n'
        '[limits]\nrecord_bytes = "8MiB"\n[input]\nstatus = [200, 203]\n'
    )
    config = made({"near.threshold": 0.9, "records.normalise.text": ["nfc"]}, path)
    assert (config.near.threshold, config.near.n) == (0.9, 5)
    assert config.records.normalise == {"title": ("case", "whitespace"), "text": ("nfc",)}
    assert config.limits.record_bytes == 8 << 20
    assert config.input.status == (200, 203)


def test_settings_are_not_changed_for_the_caller() -> None:
    settings: dict[str, Any] = {"records.normalise": {"text": ["case"]}, "records.normalise.text": ["nfc"]}
    assert made(settings).records.normalise == {"text": ("nfc",)}
    assert settings["records.normalise"] == {"text": ["case"]}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"[near\n", "no valid TOML"),
        (b"near.threshold = \n", "no valid TOML"),
        (b"[near]\nn = 3\nn = 4\n", "no valid TOML"),
        (b"# \xff\n", "no valid TOML"),
        (b"near = 3\n", "[near] must be a table"),
        (b"[[near]]\nn = 3\n", "[near] must be a table"),
        (b"threshold = 0.7\n", "threshold stands outside of a section; did you mean near.threshold?"),
    ],
)
def test_a_file_that_is_no_configuration(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "broken.toml"
    path.write_bytes(content)
    message = refusal(None, path)
    assert words in message
    assert "broken.toml" in message


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    message = refusal(None, tmp_path / "no.toml")
    assert "no.toml" in message
    assert "No such file" in message
    assert "Is a directory" in refusal(None, tmp_path)


# --- what is wrong ------------------------------------------------------------------------------------


def test_every_problem_stands_in_one_message(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text(
        '[neer]\nn = 3\n[near]\ntreshold = 0.7\nn = "three"\nnum_perm = 0\n[keep]\npolicy = ["newest"]\n'
        '[urls]\nprofile = "strickt"\n[records]\nnormalise = { titel = ["case"] }\n'
    )
    message = refusal({"near": 1, "limits.record_bytes": "many"}, path, inputs=[], memory_limit="much", threads=0)
    for words in (
        "[neer] is unknown; did you mean near?",
        "near.treshold is unknown; did you mean threshold?",
        "near.n = 'three': give a whole number",
        "near.num_perm = 0: give 1 to 4096",
        "keep.policy: 'newest' is none of",
        "urls.profile = 'strickt': give one of strict, default, aggressive",
        "records.normalise.titel: records.fields does not name titel",
        "near: a setting is named SECTION.KEY",
        "limits.record_bytes = 'many': give bytes or a size",
        "memory_limit = 'much': give bytes or a size",
        "threads = 0: give 1 to 1024",
        "INPUT: name at least one",
    ):
        assert words in message
    assert message.count("\n  - ") == 12
    assert "c.toml" in message


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("near.treshold", "threshold"),
        ("near.shingles", "shingle"),
        ("records.normalize", "normalise"),
        ("records.field", "fields"),
        ("keep.policies", "policy"),
        ("safety.max_cluser", "max_cluster"),
        ("output.compresion", "compression"),
    ],
)
def test_an_unknown_key_names_the_nearest_known_one(name: str, nearest: str) -> None:
    assert f"{name} is unknown; did you mean {nearest}?" in refusal({name: 1})


def test_an_unknown_key_like_none_names_all() -> None:
    assert "keep.zzz is unknown; known are policy" in refusal({"keep.zzz": 1})
    assert "[zzz] is unknown; known are input, urls, records" in refusal({"zzz.a": 1})


TEXT_SETTINGS = [
    "input.format",
    "input.id",
    "input.url",
    "input.text",
    "urls.profile",
    "urls.seen",
    "urls.changed",
    "urls.full",
    "near.method",
    "near.measure",
    "near.shingle",
    "near.boilerplate",
    "safety.broken_sources",
    "output.compression",
]
WHOLE_SETTINGS = [
    "input.batch_rows",
    "near.n",
    "near.num_perm",
    "safety.max_cluster",
    "limits.decompression_ratio",
    "limits.url_bytes",
]
REAL_SETTINGS = [
    "urls.error_rate",
    "near.threshold",
    "near.target_recall",
    "safety.max_bad_fraction",
    "safety.max_dropped_fraction",
]
LIST_SETTINGS = ["records.fields", "near.mask", "keep.policy", "input.status"]
WRONG_TYPES = [
    *((name, value) for name in TEXT_SETTINGS for value in (1, True, ["a"], {"a": 1})),
    *((name, value) for name in WHOLE_SETTINGS for value in ("3", 3.0, True, [3], {"a": 1})),
    *((name, value) for name in REAL_SETTINGS for value in ("0.5", True, [0.5], float("nan"), float("inf"))),
    *((name, value) for name in LIST_SETTINGS for value in ("text", 1, {"a": 1}, [None], [True], [["a"]])),
    *((f"{stage}.enabled", value) for stage in ("urls", "records", "near") for value in (1, 0, "true", [True])),
    ("input.status", ["200"]),
    ("records.fields", [1]),
    ("urls.capacity", "many"),
    ("urls.capacity", True),
    ("urls.capacity", 1.5),
    ("near.max_bucket", "some"),
    ("records.normalise", ["case"]),
    ("records.normalise", {"text": "case"}),
    ("records.normalise", {"text": ["lower"]}),
    ("records.normalise", {"text": [["case"]]}),
    ("limits.record_bytes", 1.5),
    ("limits.record_bytes", True),
    ("limits.record_bytes", "64 bananas"),
    ("limits.record_bytes", ""),
]


@pytest.mark.parametrize(("name", "value"), WRONG_TYPES, ids=str)
def test_a_wrong_type_is_named(name: str, value: Any) -> None:
    message = refusal({name: value})
    assert message.count("\n  - ") == 1, message
    assert name in message
    assert "give " in message


OUT_OF_RANGE = [
    ("input.format", "xml"),
    ("input.status", []),
    ("input.batch_rows", 0),
    ("urls.profile", "Default"),
    ("urls.seen", "redis"),
    ("urls.full", "wrap"),
    ("urls.error_rate", 1e-16),
    ("urls.changed", ""),
    ("urls.error_rate", 0.0),
    ("urls.error_rate", 1.0),
    ("urls.capacity", 0),
    ("near.method", "simhash"),
    ("near.measure", "containment"),
    ("near.shingle", "words"),
    ("near.n", 0),
    ("near.n", 101),
    ("near.num_perm", 0),
    ("near.num_perm", 4097),
    ("near.threshold", 0.0),
    ("near.threshold", 1.0001),
    ("near.threshold", -0.5),
    ("near.target_recall", 0.0),
    ("near.target_recall", 1.0),
    ("near.boilerplate", "veto"),
    ("near.mask", ["date"]),
    ("near.max_bucket", 100),
    ("safety.max_bad_fraction", -0.1),
    ("safety.max_bad_fraction", 1.1),
    ("safety.broken_sources", "ignore"),
    ("safety.max_dropped_fraction", 2),
    ("safety.max_cluster", 0),
    ("limits.record_bytes", 0),
    ("limits.record_bytes", "2GiB"),
    ("limits.record_bytes", -5),
    ("limits.decompression_ratio", 0),
    ("limits.url_bytes", 0),
    ("output.compression", "lzma"),
    ("records.normalise", {"title": ["case"]}),
    *(
        ("keep.policy", [entry])
        for entry in (
            "",
            "First",
            "first:x",
            "last:x",
            "longest:x",
            "newest",
            "newest:",
            "highest",
            "prefer",
            "prefer:lang",
            "oldest:date",
            "random",
        )
    ),
]


@pytest.mark.parametrize(("name", "value"), OUT_OF_RANGE, ids=str)
def test_a_value_out_of_range_is_named(name: str, value: Any) -> None:
    message = refusal({name: value})
    assert message.count("\n  - ") == 1, message
    assert name in message


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("near.threshold", 1),
        ("near.threshold", 1e-9),
        ("near.n", 1),
        ("near.n", 100),
        ("near.num_perm", 1),
        ("safety.max_bad_fraction", 0),
        ("safety.max_bad_fraction", 1),
        ("urls.capacity", 10**12),
        ("urls.seen", "exact"),
        ("limits.record_bytes", 1),
        ("limits.record_bytes", 2**31 - 1),
        ("input.status", [200, 404]),
        ("keep.policy", []),
        ("keep.policy", ["prefer:lang=en", "newest:date", "highest:a:b", "prefer:x=", "longest", "last"]),
        ("records.normalise", {"text": list(NORMALISERS)}),
        ("output.compression", "none"),
        ("input.text", "Ünïcode; --"),
    ],
    ids=str,
)
def test_values_at_the_border_are_taken(name: str, value: Any) -> None:
    section, key = name.split(".")
    got = getattr(getattr(made({name: value}), {"output": "output_options"}.get(section, section)), key)
    if isinstance(value, dict):
        assert got == {column: tuple(names) for column, names in value.items()}
    else:
        assert got == (tuple(value) if isinstance(value, list) else value)


# --- sizes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given_size", "expected"),
    [
        ("256MB", 256_000_000),
        ("2GB", 2_000_000_000),
        ("2gb", 2_000_000_000),
        ("1.5 GB", 1_500_000_000),
        ("1GiB", 1 << 30),
        ("512MiB", 512 << 20),
        ("0.5TB", 500_000_000_000),
        ("300000000", 300_000_000),
        ("300000kB", 300_000_000),
        (" 1 G ", 1_000_000_000),
        (300_000_000, 300_000_000),
    ],
)
def test_sizes(given_size: int | str, expected: int) -> None:
    assert made(memory_limit=given_size).memory_limit == expected


@pytest.mark.parametrize("size", ["", "GB", "2PB", "-1GB", "1e9", "2 GB extra", "1,5GB", True, None, 1.5, [1]])
def test_what_is_no_size(size: Any) -> None:
    message = refusal(memory_limit=size)
    assert "memory_limit" in message
    assert message.count("\n  - ") == 1, message


@pytest.mark.parametrize("size", ["255MB", 255_999_999, "1", 0, -1])
def test_a_limit_below_the_least_one(size: int | str) -> None:
    assert "give at least 256MB" in refusal(memory_limit=size)


# --- one setting on the command line ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("near.threshold=0.7", "near.threshold", 0.7),
        ("near.n=5", "near.n", 5),
        ("near.enabled=false", "near.enabled", False),
        ("urls.profile=strict", "urls.profile", "strict"),
        ('urls.profile="strict"', "urls.profile", "strict"),
        ("urls.profile='strict'", "urls.profile", "strict"),
        ('records.fields=["title", "text"]', "records.fields", ["title", "text"]),
        ('records.normalise={ text = ["case"] }', "records.normalise", {"text": ["case"]}),
        ("keep.policy=[]", "keep.policy", []),
        (" input.text = body ", "input.text", "body"),
        ("input.text=", "input.text", ""),
        ("input.text=a=b", "input.text", "a=b"),
        ("input.text=C# notes", "input.text", "C# notes"),
        ("input.text=two words", "input.text", "two words"),
        ("limits.record_bytes=8MB", "limits.record_bytes", "8MB"),
        ("near.n=3\nnum_perm=1", "near.n", "3\nnum_perm=1"),
        ("input.text=über", "input.text", "über"),
    ],
)
def test_parse_setting(text: str, name: str, value: Any) -> None:
    assert parse_setting(text) == (name, value)
    assert type(parse_setting(text)[1]) is type(value)


@pytest.mark.parametrize("text", ["", "near.threshold", "near.threshold 0.7", "0.7"])
def test_a_setting_without_a_value(text: str) -> None:
    with pytest.raises(ConfigError, match=r"write SECTION\.KEY=VALUE"):
        parse_setting(text)


@given(st.text(max_size=30))
def test_parse_setting_never_fails_otherwise(text: str) -> None:
    try:
        name, _ = parse_setting(text)
    except ConfigError:
        assert "=" not in text
    else:
        assert name == text.partition("=")[0].strip()


@pytest.mark.parametrize("name", ["near", "near.", "", ".", "x"])
def test_a_setting_that_names_no_setting(name: str) -> None:
    assert name in refusal({name: 1})


# --- the fingerprint ----------------------------------------------------------------------------------

CHANGES: list[tuple[str, Any]] = [
    ("input.format", "jsonl"),
    ("input.status", [200, 404]),
    ("input.id", "key"),
    ("input.url", "link"),
    ("input.text", "body"),
    ("urls.enabled", False),
    ("urls.profile", "strict"),
    ("urls.seen", "exact"),
    ("urls.error_rate", 0.01),
    ("urls.capacity", 10),
    ("urls.changed", "keep"),
    ("records.enabled", False),
    ("records.fields", ["title"]),
    ("records.normalise", {"text": ["case"]}),
    ("near.enabled", False),
    ("near.shingle", "char"),
    ("near.n", 4),
    ("near.num_perm", 64),
    ("near.threshold", 0.81),
    ("near.target_recall", 0.9),
    ("keep.policy", ["last"]),
    ("safety.max_bad_fraction", 0.5),
    ("safety.broken_sources", "quarantine"),
    ("safety.max_dropped_fraction", 0.5),
    ("safety.max_cluster", 5),
    ("limits.record_bytes", 5),
    ("limits.decompression_ratio", 5),
    ("limits.url_bytes", 5),
    ("output.compression", "snappy"),
]
ONE_CHOICE = {"near.method", "near.measure", "near.boilerplate", "near.mask", "near.max_bucket"}
"""Settings that have one value in this version."""


def test_every_setting_that_can_change_the_result_changes_the_fingerprint() -> None:
    prints = [made().fingerprint(), *(made({name: value}).fingerprint() for name, value in CHANGES)]
    assert len(set(prints)) == len(prints)
    known = {f"{section}.{key}" for section, values in made().sections().items() for key in values}
    assert known == {name for name, _ in CHANGES} | ONE_CHOICE


def test_order_counts_where_it_decides() -> None:
    one = made({"records.fields": ["a", "b"], "keep.policy": ["longest", "last"]})
    for other in ({"records.fields": ["b", "a"]}, {"keep.policy": ["last", "longest"]}):
        changed = {"records.fields": ["a", "b"], "keep.policy": ["longest", "last"]} | other
        assert made(changed).fingerprint() != one.fingerprint()
    names = [{"text": ["case", "nfc"]}, {"text": ["nfc", "case"]}]
    assert made({"records.normalise": names[0]}).fingerprint() == made({"records.normalise": names[1]}).fingerprint()


@pytest.mark.parametrize(
    "options",
    [
        {"threads": 7},
        {"memory_limit": "256MB"},
        {"set": {"input.batch_rows": 1}},
        {"overwrite": True},
        {"dry_run": True},
        {"report": False},
        {"inputs": ["b.jsonl"]},
        {"output": "elsewhere"},
    ],
    ids=str,
)
def test_what_cannot_change_the_result_does_not_change_the_fingerprint(options: dict[str, Any]) -> None:
    assert made(**options).fingerprint() == made().fingerprint()


def test_a_file_and_settings_give_one_fingerprint(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text("[near]\nn = 4\nthreshold = 1\n")
    assert made(None, path).fingerprint() == made({"near.threshold": 1.0, "near.n": 4}).fingerprint()
    assert len(made().fingerprint()) == 32
    assert int(made().fingerprint(), 16)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("near.threshold", 10**400),
        ("near.n", 10**400),
        ("limits.url_bytes", 10**23),
        ("limits.record_bytes", "9" * 400),
        ("safety.max_cluster", 10**60),
    ],
)
def test_numbers_without_end_are_refused_by_name(name: str, value: Any) -> None:
    assert name in refusal({name: value})


@pytest.mark.parametrize("limit", [10**400, "9" * 400, "99999999999TB"])
def test_a_memory_limit_without_end_is_refused(limit: Any) -> None:
    assert "memory_limit" in refusal(memory_limit=limit)


@pytest.mark.parametrize("text", ["x = " + "[" * 5000, "x = " + "{a=" * 5000, "near.n = " + "9" * 5001])
def test_a_file_without_bottom_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "c.toml"
    path.write_text(text)
    assert "c.toml" in refusal(path=path)


def test_a_setting_without_bottom_is_a_text() -> None:
    assert parse_setting("near.n=" + "[" * 5000) == ("near.n", "[" * 5000)


def test_a_million_threads_are_refused() -> None:
    assert "threads" in refusal(threads=10**6)


# --- options of the canonical form --------------------------------------------------------------------

SWITCHES: list[tuple[str, Any]] = [
    ("urls.full", "stop"),
    *((f"urls.{entry.name}", True) for entry in dataclasses.fields(UrlSwitches) if entry.type == "bool"),
    ("urls.default_scheme", "https"),
    ("urls.strip_parameters", ["ref"]),
    ("urls.keep_parameters", ["ref"]),
    ("urls.only_parameters", ["ref"]),
    ("urls.clearurls", str(CLEARURLS)),
    ("urls.clearurls_redirections", True),
    ("urls.clearurls_referral_marketing", True),
    ("urls.hosts", {"e.com": {"drop_www": True}}),
    ("urls.hosts", {"e.com": {"drop_www": False}}),
    ("urls.hosts", {"e.com": {"drop_index": True}}),
]


def test_options_count_in_the_fingerprint_only_where_they_are_set() -> None:
    plain = made()
    prints = [plain.fingerprint(), *(made({name: value}).fingerprint() for name, value in SWITCHES)]
    assert len(set(prints)) == len(prints)
    known = {f"urls.{entry.name}" for entry in dataclasses.fields(UrlsConfig)}
    assert known - {f"urls.{name}" for name in plain.sections()["urls"]} == {name for name, _ in SWITCHES}
    for name, value in SWITCHES:
        off = getattr(plain.urls, name.partition(".")[2])
        assert made({name: type(value)(off)}).fingerprint() == plain.fingerprint()


def test_the_public_suffix_list_counts_where_it_is_used() -> None:
    for settings in ({"urls.drop_www": True}, {"urls.hosts": {"e.com": {"drop_mobile": True}}}):
        assert made(settings).sections()["urls"]["public_suffix_list"]
    assert "public_suffix_list" not in made({"urls.drop_index": True}).sections()["urls"]


def test_what_a_clearurls_file_holds_counts_and_not_where_it_lies(tmp_path: Path) -> None:
    copy, other = tmp_path / "copy.json", tmp_path / "other.json"
    copy.write_bytes(CLEARURLS.read_bytes())
    other.write_bytes(CLEARURLS.read_bytes() + b" ")
    prints = [made({"urls.clearurls": str(path)}).fingerprint() for path in (CLEARURLS, copy, other)]
    assert prints[0] == prints[1] != prints[2]


def test_options_by_host_stand_in_place_of_the_general_ones(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text(
        '[urls]\ndrop_www = true\nstrip_parameters = ["a"]\n'
        '[urls.hosts."Example.COM."]\ndrop_www = false\nkeep_fragment_routes = true\nstrip_parameters = ["b"]\n'
    )
    config = made(None, path)
    assert config.url_options() == UrlOptions(drop_www=True, strip_parameters=("a",))
    assert config.host_options() == {
        "example.com": UrlOptions(keep_fragment_routes=True, strip_parameters=("b",)),
    }


def test_a_setting_names_a_host_in_quotes() -> None:
    config = made({'urls.hosts."e.com".drop_www': True, 'urls.hosts."e.com".nfc': True})
    assert config.urls.hosts == {"e.com": {"drop_www": True, "nfc": True}}
    assert parse_setting('urls.hosts."e.com".drop_www=true') == ('urls.hosts."e.com".drop_www', True)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"urls.drop_ww": True}, "urls.drop_ww is unknown; did you mean drop_www?"),
        ({"urls.drop_www": "yes"}, "urls.drop_www = 'yes': give true or false"),
        ({"urls.default_scheme": "ftp"}, "urls.default_scheme = 'ftp': give http or https"),
        ({"urls.strip_parameters": "ref"}, "urls.strip_parameters = 'ref': give a list of texts"),
        ({"urls.strip_parameters": ["a=b"]}, "urls.strip_parameters: 'a=b' is no name of a parameter"),
        ({"urls.clearurls": "none.json"}, "urls.clearurls: ClearURLs file none.json: No such file"),
        ({"urls.hosts": 3}, "urls.hosts = 3: give a table by host"),
        ({"urls.hosts": {"e.com": 3}}, 'urls.hosts."e.com" = 3: give a table'),
        ({"urls.hosts": {"e.com/a": {}}}, "urls.hosts.\"e.com/a\": 'e.com/a' is no host"),
        ({"urls.hosts": {"e.com": {}, "E.com": {}}}, 'urls.hosts."E.com": the host e.com is named twice'),
        ({"urls.hosts": {"e.com": {"drop_ww": 1}}}, 'urls.hosts."e.com".drop_ww is unknown; did you mean drop_www?'),
        ({"urls.hosts": {"e.com": {"drop_www": 1}}}, 'urls.hosts."e.com".drop_www = 1: give true or false'),
        ({"urls.hosts": {"e.com": {"default_scheme": "http"}}}, 'urls.hosts."e.com".default_scheme is unknown'),
        ({"urls.hosts": {"e.com": {"keep_parameters": [""]}}}, "urls.hosts.\"e.com\".keep_parameters: '' is no name"),
    ],
    ids=str,
)
def test_options_that_cannot_be_are_named(settings: dict[str, Any], words: str) -> None:
    assert words in refusal(settings)


def test_all_problems_of_hosts_stand_in_one_message() -> None:
    message = refusal({"urls.hosts": {"e.com": {"a": 1, "nfc": 2}, "": {}}, "urls.profile": "x"})
    assert message.count("\n  - ") == 4
