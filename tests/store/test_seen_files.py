"""Saved seen-sets: whole or refused by name, in every process alike."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from failing_disk import FailingDisk

from dedup_pipeline.errors import ConfigError, OutputError, StateError
from dedup_pipeline.store import seen_files
from dedup_pipeline.store.seen_files import describe_file, load_seen, save_seen
from dedup_pipeline.urls.bloom import BloomFilter, CountingBloomFilter, ScalableBloomFilter
from dedup_pipeline.urls.seen import ConfirmedBloom, ExactSet, RoutedSeenSet

SECRET = bytes(range(16))
URLS = [f"http://example.com/{n}" for n in range(2000)]
ABSENT = [f"http://example.org/{n}" for n in range(2000)]


def kinds() -> list[Any]:
    """Return one of each kind that hashes URLs, empty."""
    return [
        ExactSet(),
        ConfirmedBloom(100),
        BloomFilter(5000, 1e-2),
        BloomFilter(5000, 1e-4),
        BloomFilter(5000, 1e-6),
        ScalableBloomFilter(100, 1e-2),
        CountingBloomFilter(5000, 1e-2),
        RoutedSeenSet(["example.com"], ExactSet(), BloomFilter(5000)),
    ]


def test_another_process_with_another_hash_seed_answers_alike(tmp_path: Path) -> None:
    expected = []
    for number, seen in enumerate(kinds()):
        seen.add(URLS)
        save_seen(seen, tmp_path / f"{number}.seen")
        expected.append([int(seen.contains(URLS).sum()), int(seen.contains(ABSENT).sum()), len(seen)])
    code = (
        "import sys; from dedup_pipeline import load_seen\n"
        "urls = [f'http://example.com/{n}' for n in range(2000)]\n"
        "absent = [f'http://example.org/{n}' for n in range(2000)]\n"
        "for n in range(int(sys.argv[2])):\n"
        "    seen = load_seen(f'{sys.argv[1]}/{n}.seen')\n"
        "    print([int(seen.contains(urls).sum()), int(seen.contains(absent).sum()), len(seen)])\n"
    )
    told = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path), str(len(expected))],
        env={**os.environ, "PYTHONHASHSEED": "4711"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout.splitlines() == [str(each) for each in expected]


@pytest.mark.parametrize("number", range(8))
def test_any_damaged_byte_is_noticed(number: int, tmp_path: Path) -> None:
    path, seen = tmp_path / "a.seen", kinds()[number]
    seen.add(URLS[:50])
    save_seen(seen, path)
    content = bytearray(path.read_bytes())
    entries_end = len(content)
    chosen = np.random.default_rng(number)
    places = {0, 9, 15, 30, 200, entries_end - 1, *(int(at) for at in chosen.integers(0, entries_end, 40))}
    for place in places:
        broken = bytearray(content)
        broken[place] ^= 0x40
        path.write_bytes(broken)
        try:
            opened = load_seen(path)
        except StateError as error:
            assert str(path) in str(error)  # noqa: PT017 - padding may change
        else:  # padding between the arrays carries nothing
            assert content[place] == 0
            assert opened.contains(URLS[:50]).all()


@pytest.mark.parametrize("keep", [0, 1, 7, 8, 19, 20, 100, -1, -64])
def test_a_cut_file_is_refused(keep: int, tmp_path: Path) -> None:
    path, seen = tmp_path / "a.seen", BloomFilter(5000)
    seen.add(URLS)
    save_seen(seen, path)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(StateError, match=r"a\.seen: (no saved seen-set|the header is damaged|cut short|the checksum)"):
        load_seen(path)


def test_a_stranger_is_refused(tmp_path: Path) -> None:
    for name, content in (("text", b"http://example.com/\n" * 50), ("pickle", b"\x80\x04\x95" + bytes(60))):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(StateError, match="no saved seen-set"):
            load_seen(tmp_path / name)
    with pytest.raises(StateError, match="No such file"):
        load_seen(tmp_path / "absent")
    with pytest.raises(StateError, match="Is a directory"):
        load_seen(tmp_path)


def test_another_version_is_refused_by_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.seen"
    monkeypatch.setattr(seen_files, "_VERSION", 9)
    save_seen(ExactSet(), path)
    monkeypatch.undo()
    with pytest.raises(StateError, match="format 9, this version reads 1"):
        load_seen(path)


@pytest.mark.parametrize(
    ("expect", "said"),
    [
        ({"kind": "exact"}, "kind is 'bloom' there, but 'exact'"),
        ({"error_rate": 1e-3}, r"error_rate is 0\.0001 there, but 0\.001"),
        ({"kind": "bloom", "capacity": 7}, "capacity is 5000 there, but 7"),
        ({"layout": "classic"}, "layout is 'blocked' there"),
        ({"colour": 1}, "no parameter 'colour'; it has kind, capacity"),
    ],
)
def test_what_differs_from_what_is_expected_is_named(expect: dict[str, Any], said: str, tmp_path: Path) -> None:
    path = tmp_path / "a.seen"
    save_seen(BloomFilter(5000), path)
    with pytest.raises(StateError, match=said):
        load_seen(path, expect)
    assert len(load_seen(path, {"kind": "bloom", "capacity": 5000, "error_rate": 1e-4})) == 0


def test_the_secret_is_asked_for_and_never_written(tmp_path: Path) -> None:
    path, plain = tmp_path / "secret.seen", tmp_path / "plain.seen"
    seen = BloomFilter(5000, secret=SECRET)
    seen.add(URLS)
    save_seen(seen, path)
    save_seen(BloomFilter(5000), plain)
    assert SECRET not in path.read_bytes()
    assert SECRET.hex().encode() not in path.read_bytes()
    with pytest.raises(StateError, match="made with a secret"):
        load_seen(path)
    with pytest.raises(StateError, match="made with another secret"):
        load_seen(path, secret=bytes(16))
    with pytest.raises(StateError, match="made without a secret"):
        load_seen(plain, secret=SECRET)
    with pytest.raises(ConfigError, match="16 random bytes"):
        load_seen(path, secret=b"short")
    assert load_seen(path, secret=SECRET).contains(URLS).all()


def test_a_set_goes_on_where_it_was_saved(tmp_path: Path) -> None:
    for number, seen in enumerate(kinds()):
        path = tmp_path / f"{number}.seen"
        seen.add(URLS[:1000])
        for _ in range(3):
            save_seen(seen, path)
            seen = load_seen(path)  # noqa: PLW2901 - that is the point
            assert not seen.add(URLS[:1000]).any()
        before = seen.describe()
        seen.add(URLS)
        assert seen.describe().inserted > before.inserted
        save_seen(seen, path)
        assert load_seen(path).contains(URLS).all()


def test_a_set_may_be_saved_over_the_file_it_reads(tmp_path: Path) -> None:
    path, seen = tmp_path / "a.seen", ExactSet()
    seen.add(URLS[:1000])
    save_seen(seen, path)
    opened = load_seen(path)
    opened.add(URLS)
    save_seen(opened, path)
    assert opened.contains(URLS).all()
    assert len(load_seen(path)) == 2000


def test_saving_is_all_or_nothing_whichever_operation_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, seen, failures = tmp_path / "a.seen", ExactSet(), 0
    seen.add(URLS)
    save_seen(seen, path)
    before = path.read_bytes()
    seen.add(ABSENT)
    for nth in range(1, 50):
        disk = FailingDisk(nth)
        with monkeypatch.context() as patch:
            disk.install(patch)
            try:
                save_seen(seen, path)
            except OutputError as error:
                failures += 1
                assert "cannot be written" in str(error)  # noqa: PT017 - some operation no longer fails
        assert os.listdir(tmp_path) == ["a.seen"]
        if not disk.failed:
            break
        if "replace" not in disk.names[: nth - 1]:  # else only the folder's own flush is missing
            assert path.read_bytes() == before
    assert failures > 4
    assert load_seen(path).contains(ABSENT).all()


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="absent"):
        save_seen(ExactSet(), tmp_path / "absent" / "a.seen")


def test_what_lives_elsewhere_cannot_be_saved(tmp_path: Path) -> None:
    class Server(ExactSet):
        @property
        def kind(self) -> str:
            return "server"

    with pytest.raises(ConfigError, match="lives where it is"):
        save_seen(Server(), tmp_path / "a.seen")
    with pytest.raises(ConfigError, match="no parameters to save"):
        save_seen(RoutedSeenSet(["example.com"], ExactSet(), Server()), tmp_path / "a.seen")


def test_a_file_is_described_without_reading_it_all(tmp_path: Path) -> None:
    path = tmp_path / "a.seen"
    save_seen(BloomFilter(5000, 1e-3), path)
    kind, parameters = describe_file(path)
    assert kind == "bloom"
    assert parameters["capacity"] == 5000
    with pytest.raises(StateError, match="cannot be read"):
        describe_file(tmp_path / "absent")


def test_parameters_that_do_not_fit_the_bits_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, seen = tmp_path / "a.seen", BloomFilter(5000)
    shape = seen.parameters()
    for change, said in (({"bits": 512}, "bits is 512"), ({"hashes": 3}, "hashes is 3"), ({"capacity": 0}, "capacity")):
        monkeypatch.setattr(BloomFilter, "parameters", lambda _, change=change: {**shape, **change})
        save_seen(seen, path)
        monkeypatch.undo()
        with pytest.raises(StateError, match=said):
            load_seen(path)
