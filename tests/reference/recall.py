"""A recalled block, of lines that were made harmless.

Facts may take 30 % of the cap and details the rest; each is filled, the best first, until the first that does
not fit, and has one at least. Where the whole is over the cap, the details of the lowest scores leave, then
all facts, then everything. Details stand oldest first.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def block(
    facts: Sequence[str],
    details: Sequence[tuple[str, float, str, int, int]],
    cap: int,
    count: Callable[[str], int],
) -> tuple[str, int, int]:
    """The block of *facts*, the best first, and *details* (text, score, role, ms, id); how many are in it."""
    share = cap * 30 // 100
    known = filled(list(facts), share, count)
    ranked = sorted(details, key=lambda detail: -detail[1])
    lines = {line_of(detail) + f"\0{place}": detail for place, detail in enumerate(ranked)}
    said = filled(list(lines), cap - share, lambda line: count(line.rpartition("\0")[0]))
    while known or said:
        oldest = sorted(said, key=lambda line: (lines[line][3], lines[line][4]))
        text = written(known, [line.rpartition("\0")[0] for line in oldest])
        if count(text) <= cap:
            return text, len(known), len(said)
        if said:
            said = said[:-1]
        else:
            known = []
    return "", 0, 0


def filled(lines: list[str], budget: int, count: Callable[[str], int]) -> list[str]:
    """The first lines that fit, one at least."""
    used = 0
    for place, line in enumerate(lines):
        used += count(line)
        if place and used > budget:
            return lines[:place]
    return lines


def line_of(detail: tuple[str, float, str, int, int]) -> str:
    """A detail as it stands in a block."""
    text, _, role, moment, _ = detail
    when = (EPOCH + timedelta(milliseconds=moment)).strftime("%Y-%m-%d %H:%M")
    return f"[{when} {role}] {text}"


def written(facts: list[str], details: list[str]) -> str:
    """The lines between their tags."""
    sections = ['<recalled-context source="memory-context">']
    if facts:
        sections.append("<knowledge>\n" + "\n".join(facts) + "\n</knowledge>")
    if details:
        sections.append("<detail>\n" + "\n\n".join(details) + "\n</detail>")
    return "\n\n".join([*sections, "</recalled-context>"])
