"""``report.html``: the run on one page, in one file, without scripts and without the network."""

from __future__ import annotations

import json
from html import escape
from typing import Any

_STYLE = """
:root{color-scheme:light dark;--line:#8884;--bar:#3b7dd8;--soft:#7772}
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:0 auto;padding:1rem}
h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2rem}
table{border-collapse:collapse;width:100%}th,td{padding:.3rem .6rem;text-align:right}
th,td{border-bottom:1px solid var(--line)}
th:first-child,td:first-child{text-align:left;overflow-wrap:anywhere;min-width:9rem}
.track{min-width:8rem}
.wide{overflow-x:auto}.bar{display:block;height:.7rem;background:var(--bar)}
.track{background:var(--soft);width:100%}
li{margin:.3rem 0}@media print{body{max-width:none}}
"""


def render_report(manifest: dict[str, Any]) -> str:
    """Return the page for a manifest; equal manifests (but for what may differ) give equal pages."""
    counts = manifest["counts"]
    parts = [
        "<!doctype html><html lang=en><head><meta charset=utf-8>",
        "<meta http-equiv=Content-Security-Policy content=\"default-src 'none'; style-src 'unsafe-inline'\">",
        "<meta name=viewport content='width=device-width,initial-scale=1'>",
        f"<title>dedup-pipeline run {escape(manifest['run'][:8])}</title><style>{_STYLE}</style></head><body>",
        f"<h1>Deduplication run {escape(manifest['run'][:8])}</h1>",
        _headline(counts),
        _warnings(manifest["warnings"]),
        "<h2>What became of the documents</h2>",
        _funnel(counts),
        "<h2>By source</h2>",
        _sources(counts["sources"]),
        _skipped(counts["skipped"]),
        "<h2>How well near-duplicates are found</h2>",
        _curve(manifest["lsh"]),
        "<h2>Settings</h2>",
        _settings(manifest["config"]),
        "</body></html>\n",
    ]
    return "\n".join(part for part in parts if part)


def _headline(counts: dict[str, Any]) -> str:
    dropped = sum(counts["dropped"].values())
    return (
        f"<p>{counts['read']:,} documents read: {counts['kept']:,} kept, {dropped:,} dropped, "
        f"{counts['quarantined']:,} quarantined.</p>"
    )


def _warnings(warnings: list[str]) -> str:
    if not warnings:
        return ""
    return "<h2>Worth knowing</h2><ul>" + "".join(f"<li>{escape(text)}</li>" for text in warnings) + "</ul>"


def _table(head: list[str], rows: list[list[str]]) -> str:
    top = "".join(f"<th scope=col>{escape(name)}</th>" for name in head)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<div class=wide><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>"


def _bar(share: float) -> str:
    return f"<span class='bar' style='width:{100 * share:.2f}%'></span>"


def _funnel(counts: dict[str, Any]) -> str:
    dropped = counts["dropped"]
    steps = [
        ("kept", counts["kept"]),
        ("dropped: same URL", dropped["urls"]),
        ("dropped: same fields", dropped["records"]),
        ("dropped: nearly the same text", dropped["near"]),
        ("quarantined", counts["quarantined"]),
    ]
    read = max(1, counts["read"])
    rows = [
        [escape(name), f"{number:,}", f"{100 * number / read:.2f} %", f"<div class=track>{_bar(number / read)}</div>"]
        for name, number in steps
    ]
    return _table(["fate", "documents", "share", ""], rows)


def _sources(sources: list[dict[str, Any]]) -> str:
    rows = [
        [
            escape(source["source"]),
            *(f"{number:,}" for number in (source["read"], source["kept"], *source["dropped"].values())),
            f"{source['quarantined']:,}",
        ]
        for source in sources[:500]
    ]
    more = f"<p>and {len(sources) - 500:,} more sources: see manifest.json</p>" if len(sources) > 500 else ""
    return _table(["source", "read", "kept", "same URL", "same fields", "near", "quarantined"], rows) + more


def _skipped(skipped: dict[str, int]) -> str:
    if not skipped:
        return ""
    rows = [[escape(kind), f"{number:,}"] for kind, number in skipped.items()]
    return "<h2>Records that are no documents</h2>" + _table(["kind", "records"], rows)


def _curve(lsh: dict[str, Any]) -> str:
    text = (
        f"<p>{lsh['bands']} bands of {lsh['rows']} rows. A pair at the threshold of {lsh['threshold']} becomes a "
        f"candidate with probability {lsh['recall_at_threshold']:.4f}; every candidate is then compared by its true "
        f"similarity: {lsh['candidate_pairs']:,} were, {lsh['verified_pairs']:,} passed.</p>"
    )
    rows = [
        [escape(point), f"{chance:.4f}", f"<div class=track>{_bar(chance)}</div>"]
        for point, chance in lsh["curve"].items()
    ]
    return text + _table(["true similarity", "chance to be compared", ""], rows)


def _settings(sections: dict[str, Any]) -> str:
    rows = [
        [escape(f"{section}.{key}"), escape(json.dumps(value, ensure_ascii=False))]
        for section, values in sections.items()
        for key, value in values.items()
    ]
    return _table(["setting", "value"], rows)
