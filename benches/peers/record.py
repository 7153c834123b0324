"""How the figures are written down, and how growth is drawn."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

from targets import targets

COLUMNS = (
    "| | insert us | query us | p99 us | batch us | recall@10 | bytes an entry | windows us | LoCoMo us |"
)
COLOURS = {"siltstone HashedTfIndex": "#0b6e99", "siltstone Bm25Index": "#b4541a"}
WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 640, 400, 70, 50, 20, 150

ABOUT = """\
One thread; contenders take turns, piece by piece when filled and pass by pass when asked.
A query counts by its quickest of five passes (three for FTS5, one for rank-bm25), by the clock, or by
CPU time where it takes more than 100 us; then the median over queries.
Inserts and batches are CPU time; `batch` is the contender's own call for all queries.
All are called from Python.
Ours gets the text of a query, and embeds or analyses it; peers get the vector, the terms or the parsed
query ready-made.
Peers over 4,096 floats are filled from `embed_batch`, which is in their inserts.
BM25 peers get the terms that ours makes, and making them is in their inserts.
Their recall is agreement with bm25s, ties counted; that of the others is of the nearest by brute force.
`portable` is `SILTSTONE_SIMD=portable` in a process of its own, in turn with the others.

Texts: 100,000 pieces of 200 to 1,500 characters of the Python sources, documentation and man pages of
the machine, each paragraph once, in a seeded order; 1,000,000 are put together from their paragraphs.
Queries: 200 windows of 5 to 15 words, half of texts that are in no index, and 100 questions of LoCoMo
(Maharana et al., ACL 2024, CC BY-NC 4.0). Dense rows: a seeded 384-d LSA of the same texts.
Turns: those of six conversations of LoCoMo and the blocks of two sessions of a coding agent, in their
order; queries are 300 questions of LoCoMo.
"""

Numbers = dict[str, Any]


def page(numbers: Numbers, command: str) -> str:
    """The whole record as Markdown."""
    about = next(iter(numbers.values()))["machine"]
    commits = " and ".join(sorted({each["machine"]["commit"] for each in numbers.values()}))
    loads = ", ".join(f"{part} {each['machine']['load']}" for part, each in numbers.items())
    lines = [
        f"# Beside others, {datetime.now(UTC):%Y-%m-%d}",
        "",
        f"`{command}` on commit {commits}, siltstone {about['siltstone']}.",
        f"{about['processor']}, {about['system']}, {about['python']}; best path: {about['path']}.",
        f"{about['packages']}.",
        f"Other work ran beside it; load averages at the start of the parts: {loads}.",
        "Ratios carry further than times.",
        "",
        *ABOUT.splitlines(),
        "",
        "## Must show",
        "",
        "Times as quick as the peer, unless another unit is given; met where both paths are.",
        "",
        "| measure | at least | aim | best path | portable | met |",
        "| :--- | ---: | ---: | ---: | ---: | :--- |",
        *(target.row() for target in targets(numbers)),
    ]
    for title, part in (("Cosine over texts", "text_search"), ("BM25 over texts", "words")):
        for size, figures in _part(numbers, part).items():
            if size.isdigit():
                lines += ["", *_heading(title, int(size), figures), *_figures(figures)]
            elif figures:
                lines += ["", *_efs(figures)]
    said = _part(numbers, "conversations")
    for title, kind in (("Cosine over turns", "cosine"), ("BM25 over turns", "words")):
        for size, figures in said.get(kind, {}).items():
            if size.isdigit():
                lines += ["", *_heading(title, int(size), figures), *_figures(figures)]
    for size, found in _part(numbers, "vectors").items():
        lines += ["", f"## Dense rows of 384, {int(size):,}", "", *_figures(found["at ef 200"])]
        lines += ["", *_efs(found["ours at ef"])]
    lines += [*_growth(numbers), *_crossover(numbers), *_rest(numbers)]
    return "\n".join(lines) + "\n"


def _part(numbers: Numbers, part: str) -> Numbers:
    found: Numbers = numbers.get(part, {}).get("numbers", {})
    return found


def _heading(title: str, size: int, figures: list[Numbers]) -> list[str]:
    asked = max(each["asked"] for each in figures)
    fewer = ", ".join(f"{each['name']} {each['asked']}" for each in figures if each["asked"] < asked)
    some = f"; {fewer}" if fewer else ""
    return [f"## {title}, {size:,} entries", "", f"Queries: {asked}{some}.", ""]


def _figures(figures: list[Numbers]) -> list[str]:
    lines = [COLUMNS, "| :--- |" + " ---: |" * 8]
    for each in figures:
        groups = [_number(each["groups"].get(group)) for group in ("windows", "LoCoMo")]
        values = [_number(each[name]) for name in ("insert", "query", "p99", "batch")]
        cells = [*values, f"{each['recall']:.4f}", _number(each["bytes"]), *groups]
        lines.append(f"| {each['name']} | {' | '.join(cells)} |")
    return lines


def _efs(by_name: Numbers) -> list[str]:
    efs = list(next(iter(by_name.values())))
    lines = [f"| us / recall@10 at ef | {' | '.join(efs)} |", "| :--- |" + " ---: |" * len(efs)]
    for name, by_ef in by_name.items():
        lines.append(f"| {name} | {' | '.join(f'{us:.1f} / {found:.4f}' for us, found in by_ef.values())} |")
    return lines


def _growth(numbers: Numbers) -> list[str]:
    grown = _part(numbers, "growth")
    if not grown:
        return []
    sizes = list(next(iter(grown.values())))
    lines = ["", "## Growth", "", f"| | {' | '.join(f'{int(size):,}' for size in sizes)} |"]
    lines.append("| :--- |" + " ---: |" * len(sizes))
    for name, by_size in grown.items():
        there = [by_size.get(size, {}) for size in sizes]
        total = [each["bytes"] * int(s) / 1e6 if each else None for s, each in zip(sizes, there, strict=True)]
        for what, values in (
            ("us a query", [each.get("query") for each in there]),
            ("bytes an entry", [each.get("bytes") for each in there]),
            ("MB", total),
        ):
            lines.append(f"| {name}, {what} | {' | '.join(map(_number, values))} |")
    return lines


def _crossover(numbers: Numbers) -> list[str]:
    found = _part(numbers, "crossover")
    if not found:
        return []
    lines = ["", "## Scan or graph", "", "Microseconds of CPU a query.", ""]
    lines += [
        "| rows x dimension | numbers | scan | graph, ef 100 | graph, ef 200 |",
        "| :--- |" + " ---: |" * 4,
    ]
    for shape, ways in found.items():
        total = math.prod(int(each) for each in shape.split(" x "))
        lines.append(f"| {shape} | {total:,} | {' | '.join(f'{each:.0f}' for each in ways.values())} |")
    return lines


def _rest(numbers: Numbers) -> list[str]:
    lines: list[str] = []
    if embedded := _part(numbers, "embedding"):
        lines += ["", "## Embedding", ""]
        lines.append(
            f"{embedded['texts']:,} texts of {embedded['bytes']:.0f} bytes: `embed_sparse` "
            f"{embedded['embed_sparse']:.2f} us a text ({embedded['MB/s']:.0f} MB/s), a Python loop with "
            f"xxhash {embedded['python']:.1f} us."
        )
    return lines


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 1_000 else f"{value:,.0f}"


def plot(grown: Numbers) -> str:
    """Growth as an SVG, both axes logarithmic."""
    points = {
        name: [(int(size), found["query"]) for size, found in by_size.items()]
        for name, by_size in grown.items()
    }
    sizes = sorted({size for each in points.values() for size, _ in each})
    spent = [each for line in points.values() for _, each in line]
    low, high = math.floor(math.log10(min(spent))), math.ceil(math.log10(max(spent)))
    first, last = math.log10(sizes[0]), math.log10(sizes[-1])

    def across(size: float) -> float:
        share = (math.log10(size) - first) / (last - first or 1)
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def up(value: float) -> float:
        share = (math.log10(value) - low) / (high - low or 1)
        return HEIGHT - BOTTOM - share * (HEIGHT - BOTTOM - TOP)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}">',
        "<style>text { font: 12px sans-serif }</style>",
        "<title>Microseconds of a query, by the number of entries</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
    ]
    for power in range(low, high + 1):
        y = up(10**power)
        parts.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{10**power:,} us</text>')
    for size in sizes:
        x = across(size)
        parts.append(f'<path d="M{x:.1f} {TOP}V{HEIGHT - BOTTOM}" stroke="#ddd"/>')
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{size:,}</text>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(f'<text x="{middle:.1f}" y="{HEIGHT - 10}" text-anchor="middle">entries</text>')
    for name, line in points.items():
        colour = COLOURS.get(name, "#555")
        path = "L".join(f"{across(size):.1f} {up(value):.1f}" for size, value in line)
        parts.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for size, value in line:
            parts.append(f'<circle cx="{across(size):.1f}" cy="{up(value):.1f}" r="3" fill="{colour}"/>')
        size, value = line[-1]
        short = name.removeprefix("siltstone ")
        parts.append(
            f'<text x="{across(size) + 8:.1f}" y="{up(value) + 4:.1f}" fill="{colour}">{short}</text>'
        )
    return "\n".join([*parts, "</svg>"]) + "\n"
