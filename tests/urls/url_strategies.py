"""URL-like texts for property tests: real shapes, odd bytes, and everything between."""

from __future__ import annotations

from dataclasses import fields

from hypothesis import strategies as st

from dedup_pipeline.urls.options import UrlOptions, UrlSwitches

schemes = st.sampled_from(
    ["http://", "https://", "HTTP://", "http:", "http:/", "http:\\\\", "ftp://", "mailto:", "//", ""]
)
hosts = st.one_of(
    st.from_regex(r"[a-z0-9.\-]{1,12}", fullmatch=True),
    st.sampled_from(
        [
            "e.com",
            "E.com",
            "e.com.",
            "e.com..",
            ".",
            "1.2.3.4",
            "0x7f.1",
            "[::1]",
            "[::FFFF:1.2.3.4]",
            "bücher.example",
            "xn--bcher-kva.example",
            "xn--",
            "e%2ecom",
            "user:word@e.com",
            "@e.com",
            "e.com:80",
            "e.com:",
            "e.com:0443",
            "a_b.c",
            "e.com:99999",
            "",
            "1.a",
            "a.1",
            "a.0x",
            "a..b",
            "e。com",
        ]
    ),
)
_pieces = [
    "/",
    "//",
    "/.",
    "/..",
    "/%2e",
    ".",
    "a",
    "B",
    "~",
    "%",
    "%4",
    "%41",
    "%2f",
    "%2F",
    "%7e",
    "%e9",
    "%25",
    "%20",
    "+",
    " ",
    ";",
    ";jsessionid=0123456789ABCDEF0123456789ABCDEF",
    ";jsessionid=a",
    "/(S(lit3py55t21z5v55vlm25s55))",
    "http://x",
    "http:/",
    "http%3A//",
    "x:",
    ":",
    "=",
    "&",
    "?",
    "#",
    "'",
    "\\",
    "^",
    "|",
    "é",
    "\t",
    "\n",
    "\ud800",
    "\udce9",
    "\x00",
    "\x7f",
    "utm_source",
    "utm_zone",
    "_ga",
    "_gallery",
    "PHPSESSID=0123456789abcdef0123456789abcdef",
    "sid=1",
    "&amp;",
]
tails = st.lists(st.sampled_from(_pieces), max_size=12).map("".join)
pairs = st.lists(
    st.sampled_from(
        [
            "a",
            "a=",
            "a=1",
            "b=2",
            "A=1",
            "",
            "utm_source=x",
            "FBCLID=y",
            "=",
            "=z",
            "%61=3",
            "c=+",
            "c=%20",
            "c=%2B",
            "a=%zz",
        ]
    ),
    max_size=6,
).map("&".join)

urls = st.builds("".join, st.tuples(schemes, hosts, tails))
urls_with_query = st.builds(
    lambda head, query, tail: f"{head}/p?{query}{tail}", st.builds("".join, st.tuples(schemes, hosts)), pairs, tails
)
texts = st.one_of(
    urls,
    urls_with_query,
    st.text(alphabet=st.characters(exclude_categories=())),
    st.text(alphabet=st.characters(exclude_categories=())).map(lambda text: f"http://e.com/{text}"),
)
"""Any text, lone surrogates included."""

anything = st.one_of(
    texts,
    st.binary(),
    st.binary().map(lambda tail: b"http://e.com/" + tail),
    urls.map(lambda url: url.encode("utf-8", "surrogatepass")),
)

_parameters = st.lists(st.sampled_from(["a", "amp", "A", "caf%c3%a9", "utm_source", "sid", "b"]), max_size=2).map(tuple)
options = st.builds(
    UrlOptions,
    default_scheme=st.sampled_from(["", "http", "https"]),
    strip_parameters=_parameters,
    keep_parameters=_parameters,
    only_parameters=st.one_of(st.just(()), _parameters),
    **{entry.name: st.booleans() for entry in fields(UrlSwitches) if entry.type == "bool"},
)
"""Any combination of options."""

_option_pieces = [
    "/",
    "//",
    "/index.html",
    "/Default.aspx",
    "/amp",
    ".amp",
    ".amp.html",
    "a",
    "B",
    "e",
    "%CC%81",
    "%cc%b8",
    "%CD%BE",
    "%E9",
    "%",
    "%25",
    "25",
    "2e",
    "%252e%252e",
    "%2F",
    "%3A",
    "http://www.example.com/",
    "/http://x.example",
    "u=http%3A%2F%2Fm.e.com",
    "http%3A%2F%2F",
    "https:/",
    "=",
    "&",
    "&amp;",
    "amp;",
    "amp=1",
    ";",
    "?",
    "#",
    "#!",
    "#/",
    "click=1",
    "track_a",
    "/ref=x",
    "sid=0123456789abcdef",
    ";jsessionid=0123456789ABCDEF0123456789ABCDEF",
]
_option_heads = [
    "http://",
    "https://",
    "http://www.",
    "https://m.",
    "http://amp.www.",
    "http://www.www.",
    "//",
    "",
    "http://u:p@",
]
_option_hosts = [
    "example.com",
    "e.com",
    "e.com:80",
    "e.com:443",
    "com",
    "co.uk",
    "x.example.",
    "1.2.3.4",
    "[::1]",
    "shop.example",
]
option_urls = st.builds(
    lambda head, host, tail: f"{head}{host}/{tail}",
    st.sampled_from(_option_heads),
    st.sampled_from(_option_hosts),
    st.lists(st.sampled_from(_option_pieces), max_size=10).map("".join),
)
"""URLs that options change."""
