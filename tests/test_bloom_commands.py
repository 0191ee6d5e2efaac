"""The commands around saved seen-sets, in this process and through the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from dedup_pipeline import BloomFilter, ExactSet, RoutedSeenSet, ScalableBloomFilter, load_seen, save_seen
from dedup_pipeline.bloom_commands import info, info_text, merge, parse_count, read_secret, readable, size_table, sizes
from dedup_pipeline.cli import app
from dedup_pipeline.errors import ConfigError, FilterFull, OutputError, StateError

SECRET = bytes(range(16))


def call(*arguments: object) -> tuple[int, str, str]:
    """Return exit code, stdout and stderr of ``bloom ARGUMENTS``."""
    told = CliRunner().invoke(app, ["bloom", *map(str, arguments)])
    return told.exit_code, told.stdout, told.stderr


def saved(path: Path, start: int = 0, count: int = 400, **options: Any) -> Path:
    """Write a filter with some URLs in it."""
    seen = BloomFilter(**{"capacity": 1000, **options})
    seen.add([f"http://example.com/{n}" for n in range(start, start + count)])
    save_seen(seen, path)
    return path


@pytest.mark.parametrize(
    ("text", "number"),
    [("7", 7), ("1_000_000", 10**6), ("1,000", 1000), ("1e6", 10**6), ("1.5E3", 1500), ("250M", 250 * 10**6)]
    + [("2.5k", 2500), ("1G", 10**9), (" 12 ", 12)],
)
def test_numbers_as_people_write_them(text: str, number: int) -> None:
    assert parse_count(text) == number


@pytest.mark.parametrize("text", ["", "many", "-5", "1e", "0", "0.1", "1T", "1e99", "0x10", "1 000"])
def test_what_is_no_number_of_urls_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"give (a|the) number of URLs"):
        parse_count(text)


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1 kB"), (2_859_072, "2.86 MB"), (10**12, "1 TB")],
)
def test_sizes_for_people(size: float, text: str) -> None:
    assert readable(size) == text


def test_the_rows_are_what_the_filters_take() -> None:
    rows = {row["kind"]: row for row in sizes(100_000, 1e-3)}
    report = BloomFilter(100_000, 1e-3).describe()
    assert rows["bloom"]["bytes"] == report.bytes
    assert rows["bloom"]["error_rate"] == report.final_error_rate
    assert rows["text book"]["bits_per_item"] == pytest.approx(14.38, abs=0.01)
    assert rows["exact"]["error_rate"] == rows["exact"]["expected_lost"] == 0
    assert rows["counting"]["bytes"] > 3 * rows["bloom"]["bytes"]


def test_the_table_says_what_a_run_would_take() -> None:
    assert "would take exact" in size_table(1_000_000, 1e-3, 2 * 10**9)
    assert "would take confirmed" in size_table(10**9, 1e-3, 2 * 10**9)


def test_size_on_the_command_line() -> None:
    code, out, _ = call("size", "1M", "0.001")
    assert code == 0
    assert "1,000,000 URLs, error rate 0.001" in out
    code, out, _ = call("size", "1M", "0.001", "--json")
    assert [row["kind"] for row in json.loads(out)] == ["bloom", "counting", "text book", "exact"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("lots", "0.01"), "number of URLs"),
        (("10", "0"), "error_rate"),
        (("10", "1.0"), "error_rate"),
        (("10", "0.1", "--memory-limit", "much"), "--memory-limit"),
    ],
)
def test_a_wrong_size_is_exit_2(arguments: tuple[str, ...], said: str) -> None:
    code, _, err = call("size", *arguments)
    assert code == 2
    assert said in err
    assert "Traceback" not in err


def test_info_tells_how_a_filter_stands(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.seen")
    known = info(path, None)
    assert known["kind"] == "bloom"
    assert (known["inserted"], known["capacity"]) == (400, 1000)
    assert known["file_bytes"] == path.stat().st_size
    code, out, _ = call("info", path)
    assert code == 0
    assert "URLs        400 of 1,000" in out
    assert "Lost        about" in out
    assert "80 %" not in out
    code, out, _ = call("info", path, "--json")
    assert json.loads(out) == known


def test_info_warns_when_nearly_full(tmp_path: Path) -> None:
    assert "80 % of the capacity" in info_text(info(saved(tmp_path / "a.seen", count=800), None))


@pytest.mark.parametrize(
    "seen", [ExactSet(), ScalableBloomFilter(10), RoutedSeenSet(["example.com"], ExactSet(), BloomFilter(10))]
)
def test_info_of_every_kind(seen: Any, tmp_path: Path) -> None:
    seen.add([f"http://example.org/{n}" for n in range(8)])
    save_seen(seen, tmp_path / "a.seen")
    text = info_text(info(tmp_path / "a.seen", None))
    assert f"Kind        {seen.kind}" in text
    assert "{" not in text


def test_info_of_a_stranger_is_exit_4(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("no filter")
    for path in (tmp_path / "a", tmp_path / "absent"):
        code, _, err = call("info", path)
        assert code == 4
        assert str(path) in err


def test_merging_gives_what_either_has_seen(tmp_path: Path) -> None:
    files = [saved(tmp_path / f"{n}.seen", start=100 * n, count=200) for n in range(3)]
    code, out, err = call("merge", *files, "-o", tmp_path / "all.seen")
    assert (code, err) == (0, "")
    assert "about 400 of 1,000" in out or "URLs        about" in out
    merged = load_seen(tmp_path / "all.seen")
    assert merged.contains([f"http://example.com/{n}" for n in range(400)]).all()


def test_merging_into_one_of_the_files_needs_overwrite(tmp_path: Path) -> None:
    one, other = saved(tmp_path / "a.seen", count=100), saved(tmp_path / "b.seen", start=100, count=100)
    before = one.read_bytes()
    code, _, err = call("merge", one, other, "-o", one)
    assert code == 5
    assert "--overwrite" in err
    assert one.read_bytes() == before
    assert call("merge", one, other, "-o", one, "--overwrite")[0] == 0
    assert len(load_seen(one)) > 150


def test_what_cannot_be_merged_names_file_and_parameter(tmp_path: Path) -> None:
    one, other = saved(tmp_path / "a.seen"), saved(tmp_path / "b.seen", capacity=2000)
    with pytest.raises(ConfigError, match=r"b\.seen: .*capacity is 1000 in one, 2000 in the other"):
        merge([one, other], tmp_path / "c.seen", None, False)
    with pytest.raises(ConfigError, match="at least two"):
        merge([one], tmp_path / "c.seen", None, False)
    full = [saved(tmp_path / f"full{n}.seen", start=1000 * n, count=900) for n in range(2)]
    with pytest.raises(ConfigError, match=r"full1\.seen: the bloom filter is full"):
        merge(full, tmp_path / "c.seen", None, False)
    assert issubclass(FilterFull, ConfigError)
    assert not (tmp_path / "c.seen").exists()
    with pytest.raises(OutputError):
        merge([one, one], tmp_path / "absent" / "c.seen", None, False)


def test_a_secret_comes_from_a_file(tmp_path: Path) -> None:
    raw, digits = tmp_path / "raw", tmp_path / "digits"
    raw.write_bytes(SECRET)
    digits.write_text(SECRET.hex() + "\n")
    assert read_secret(None) is None
    assert read_secret(raw) == read_secret(digits) == SECRET
    path = saved(tmp_path / "a.seen", secret=SECRET)
    assert call("info", path)[0] == 4
    assert call("info", path, "--secret-file", digits)[0] == 0
    with pytest.raises(StateError, match="with a secret"):
        info(path, None)


@pytest.mark.parametrize("content", [b"", b"short", b"zz" * 16, b"\xff" * 32])
def test_a_file_that_holds_no_secret_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(content)
    with pytest.raises(ConfigError, match="32 hex digits"):
        read_secret(tmp_path / "secret")
    with pytest.raises(ConfigError, match="No such file"):
        read_secret(tmp_path / "absent")
