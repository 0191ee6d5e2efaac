from __future__ import annotations

import csv
import gzip
import io

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dedup_pipeline.schema import Kind
from dedup_pipeline.sources.tabular import sniff_delimiter

from .conftest import Read, Reading

FIELDS = st.text(st.characters(exclude_characters="\r", exclude_categories=["Cs"]), max_size=12)
TABLES = st.lists(st.tuples(FIELDS, FIELDS, FIELDS), max_size=12)


def table(got: Reading) -> dict[int, list[bytes | None]]:
    for row in got.rows.values():
        assert all(kind == Kind.TEXT for kind, _ in row.values())
    return {position: [text for _, text in row.values()] for position, row in got.rows.items()}


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=TABLES,
    delimiter=st.sampled_from(",;\t"),
    end=st.sampled_from(["\n", "\r\n"]),
    batch_rows=st.sampled_from([1, 100]),
)
def test_what_the_csv_module_writes_is_read(
    read: Read, rows: list[tuple[str, str, str]], delimiter: str, end: str, batch_rows: int
) -> None:
    out = io.StringIO(newline="")
    writer = csv.writer(out, delimiter=delimiter, lineterminator=end)
    writer.writerows([("id", "some text", "n"), *rows])
    got = read(out.getvalue().encode(), "x.csv", batch_rows=batch_rows)
    assert got.broken is None
    assert got.bad == []
    assert got.columns == ["id", "some text", "n"]
    assert table(got) == {n: [field.encode() for field in row] for n, row in enumerate(rows)}


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=st.text(st.sampled_from('ab",\n'), max_size=40))
def test_anything_goes_as_in_the_csv_module_or_is_named(read: Read, body: str) -> None:
    got = read(f"h,i\n{body}\n".encode(), "x.csv")
    expected = [row for row in csv.reader(io.StringIO(f"{body}\n", newline="")) if row]
    if got.broken is None:
        assert list(table(got).values()) == [[f.encode() for f in row] for row in expected if len(row) == 2]
        assert list(got.reasons.values()) == ["wrong_field_count"] * sum(len(row) != 2 for row in expected)
    else:
        assert got.reason == "truncated"
        assert list(table(got).values()) == [[f.encode() for f in row] for row in expected[:-1] if len(row) == 2]


@pytest.mark.parametrize(
    ("header", "delimiter"),
    [("a,b", ","), ("a;b", ";"), ("a\tb", "\t"), ("a", ","), ('"x,y,z";b', ";"), ("a,b;c", ","), ("a;b;c,d", ";")],
)
def test_delimiter(header: str, delimiter: str) -> None:
    assert sniff_delimiter(header) == delimiter


def test_faults_of_one_record_cost_itself(read: Read) -> None:
    got = read(b'a,b\n1,x\n2\n3,x,y\n\n4,nul\0nul\n5,"two\nlines"\n6,\xff\n', "x.csv")
    assert got.reasons == {1: "wrong_field_count", 2: "wrong_field_count"}
    assert table(got) == {0: [b"1", b"x"], 4: [b"4", b"nul\0nul"], 5: [b"5", b"two\nlines"], 6: [b"6", b"\xff"]}
    assert got.skipped == {"blank_line": 1}
    assert got.repaired == 1


def test_long_fields(read: Read) -> None:
    long = b"x" * 200_000
    assert table(read(b"a,b\n1," + long + b"\n", "x.csv")) == {0: [b"1", long]}
    quoted = b'"' + (b"y" * 300 + b"\n") * 50 + b'"'
    content = b"a,b\n1,2\n3," + long + b"\n4,5\n6," + quoted + b'\n7,"8"\n'
    for batch_rows in (1, 100):
        got = read(content, "y.csv", record_bytes=1000, batch_rows=batch_rows)
        assert got.reasons == {1: "too_large", 3: "too_large"}
        assert table(got) == {0: [b"1", b"2"], 2: [b"4", b"5"], 4: [b"7", b"8"]}


def test_open_quote_is_truncation(read: Read) -> None:
    got = read(b'a,b\n1,2\n3,"open\n4,5\n6,7\n', "x.csv")
    assert (got.reason, got.broken and got.broken.position, table(got)) == ("truncated", 1, {0: [b"1", b"2"]})
    got = read(b'a,b\n1,2\n3,"open' + b"\n4,5" * 1000, "y.csv", record_bytes=100)
    assert (got.reason, table(got)) == ("truncated", {0: [b"1", b"2"]})


def test_last_record(read: Read) -> None:
    assert table(read(b"a,b\n1,2", "x.csv")) == {0: [b"1", b"2"]}
    got = read(b"a,b\n1,2\n3", "x.csv")
    assert (got.reason, got.broken and got.broken.position) == ("truncated", 1)
    assert read(b"a,b\n1,2\n3\n", "x.csv").reasons == {1: "wrong_field_count"}


@pytest.mark.parametrize("header", [b"a,,b", b"a,a", b'a,"b', b"a, ,c", b",".join(b"c%d" % n for n in range(5000))])
def test_bad_headers(read: Read, header: bytes) -> None:
    got = read(header + b"\n1,2,3\n", "x.csv")
    assert (got.reason, got.rows) == ("bad_header", {})


def test_header_alone_names_its_columns(read: Read) -> None:
    got = read(b"\xef\xbb\xbfa,b\n", "x.csv")
    assert (got.columns, got.rows, got.broken) == (["a", "b"], {}, None)


def test_carriage_returns_alone_are_named(read: Read) -> None:
    got = read(b"a,b\n1,2\r3,4\n5,6\n", "x.csv")
    assert got.reasons == {0: "not_csv"}
    assert table(got) == {1: [b"5", b"6"]}


def test_truncated_gzip(read: Read) -> None:
    content = b"a,b\n" + b"".join(b"%d,%d\n" % (n, n * n % 10007) for n in range(20_000))
    packed = gzip.compress(content)
    got = read(packed[: len(packed) // 2], "x.csv.gz")
    assert got.reason == "truncated"
    rows = table(got)
    assert 1000 < len(rows) < 19_900
    assert all(row == [b"%d" % n, b"%d" % (n * n % 10007)] for n, row in rows.items())
