"""The hits of a search on their page: the words of the query are marked, and every text stays text."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from inspecting import inspected, shown
from siltstone import Entry, MemoryStore
from siltstone.inspector.format import marked
from siltstone.memory.hits import Passage

EVIL = '<mark>walrus</mark> "><script>alert(1)</script> Walruses & a \u202ewalrus\u202c <b>'


def texts(page: str) -> list[str]:
    """The texts of the hits, as they stand in the page."""
    (hits,) = re.findall(r'<section id="hits".*?</section>', page, re.DOTALL)
    return re.findall(r"<pre>(.*?)</pre>", hits, re.DOTALL)


@pytest.mark.parametrize("ranker", ["lexical", "cosine", "hybrid"])
def test_the_words_of_the_query_are_marked_and_nothing_else_is_markup(tmp_path: Path, ranker: str) -> None:
    with MemoryStore.open(tmp_path) as store:
        store.index("s", [Entry(EVIL), Entry("silt")])
    with inspected(tmp_path) as (client, _):
        (text,) = texts(shown(client, f"/search?session=s&q=walrus&ranker={ranker}"))
    assert re.findall(r"<mark>(.*?)</mark>", text) == ["walrus", "Walruses", "walrus"]
    assert "&lt;mark&gt;<mark>walrus</mark>&lt;/mark&gt;" in text
    bare = re.sub("</?mark>", "", text)
    assert "<" not in bare
    assert html.unescape(bare) == EVIL.replace("\u202e", "«U+202E»").replace("\u202c", "«U+202C»")


def test_a_long_hit_shows_its_best_part_and_all_of_it_with_marks(tmp_path: Path) -> None:
    long = f"{'gneiss and slate ' * 200}the walrus sleeps {'basalt and chert ' * 200}a walrus again"
    with MemoryStore.open(tmp_path) as store:
        store.index("s", [Entry(long), Entry("silt")])
    with inspected(tmp_path) as (client, _):
        part, whole = texts(shown(client, "/search?session=s&q=walrus"))
    assert part.startswith("… ")
    assert part.endswith(" …")
    assert "<mark>walrus</mark>" in part
    assert len(part) < 800
    assert re.sub("</?mark>", "", whole) == long
    assert whole.count("<mark>") == 2


@given(st.text(), st.lists(st.integers(0, 30), max_size=6, unique=True))
def test_marks_add_nothing_but_marks(text: str, places: list[int]) -> None:
    ends = sorted(place for place in places if place <= len(text))
    marks = tuple(zip(ends[::2], ends[1::2], strict=False))
    page = str(marked(Passage(text, 0, len(text), marks)))
    assert page.count("<mark>") == page.count("</mark>") == len(marks)
    assert re.sub("</?mark>", "", page) == str(marked(Passage(text, 0, len(text), ())))
    assert "<" not in re.sub("</?mark>", "", page)
