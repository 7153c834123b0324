"""The best part of a hit, with the words that were looked for: any script, and no half grapheme."""

import copy
import html
import pickle
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from siltstone import _native
from siltstone.errors import ConfigError
from siltstone.knowledge import KnowledgeConfig
from siltstone.memory import Entry, SearchHit
from siltstone.memory.hits import Passage
from siltstone.session import Session
from siltstone.stores import MemoryStore, SimpleMemoryStore

FILLER = "It rained all day and nobody came to the house by the lake. " * 40


def hit_of(path: Path, text: str, query: str, **options: Any) -> SearchHit:
    with MemoryStore.open(path, **options) as store:
        store.index("s", [Entry(text, (0, 1))])
        (hit,) = store.search("s", query)
        return hit


@pytest.mark.parametrize(
    ("text", "query", "expected"),
    [
        ("The rivers settle.", "river", "The **rivers** settle."),
        ("She went home.", "where did she go", "She **went** home."),
        ("A kettle, a (kettle).", "kettel", "A **kettle**, a (**kettle**)."),  # a typo
        ("我今天去公园散步", "公园", "我今天去**公园**散步"),
        ("ฉันมีแมวดำ", "แมว", "ฉันมี**แมว**ดำ"),
        ("Без защиты нельзя", "защита", "Без **защиты** нельзя"),
        ("Irmağın kıyısındaki eski kapıların anahtarları nerede ve nasıl?", "kapı", "**kapıların**"),
        ("Die Schlüssel der alten Häuser sind in dem Schrank.", "Haus", "alten **Häuser** sind"),
        ("see src/memoryStore.rs", "memory", "see src/**memoryStore**.rs"),
        ("Le cafe\u0301 noir", "café", "Le **cafe\u0301** noir"),
        ("two\n\n lines   of **stars**", "lines", "two **lines** of **stars**"),
    ],
)
def test_a_snippet_marks_what_was_found(tmp_path: Path, text: str, query: str, expected: str) -> None:
    assert expected in hit_of(tmp_path, text, query).snippet


def test_the_passage_of_a_long_text_is_the_part_that_answers(tmp_path: Path) -> None:
    text = f"{FILLER}The vault code is 7731. {FILLER}"
    hit = hit_of(tmp_path, text, "code of the vault")
    passage = hit.passage
    assert hit.content == text
    assert passage.text == text[passage.start : passage.end]
    assert len(passage.text) <= 1_000
    assert [text[start:end] for start, end in passage.marks] == ["vault", "code"]
    assert "vault code is 7731" in hit.best_passage(60).text
    assert hit.snippet.startswith("… ")
    assert hit.snippet.endswith(" …")
    assert "**vault** **code** is 7731" in hit.snippet
    assert len(hit.snippet) <= 240 + 4 + 4 * 2


def test_marks_can_be_written_for_a_page_with_the_text_escaped(tmp_path: Path) -> None:
    hit = hit_of(tmp_path, "a <b>kettle</b> & more", "kettle")
    shown = hit.passage.marked("<mark>", "</mark>", html.escape)
    assert shown == "a &lt;b&gt;<mark>kettle</mark>&lt;/b&gt; &amp; more"


def test_an_answer_beside_a_match_has_no_marks(tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path) as store:
        store.index("s", [Entry("Where is the kettle?", (0, 1)), Entry("In the shed.", (1, 2))])
        _, beside = store.search("s", "kettle")
        assert (beside.snippet, beside.passage.marks) == ("In the shed.", ())


def test_hits_of_a_namespace_of_the_store_in_memory_and_saved_facts_mark(tmp_path: Path) -> None:
    with Session.open(tmp_path, "one", namespace="team") as one:
        one.append({"role": "user", "content": "the kettle whistles"})
        with Session.open(None, "two", namespace="team", memory=one.store) as two:
            (hit,) = two.search("kettles", scope="namespace")
            assert hit.snippet == "the **kettle** whistles"
    with SimpleMemoryStore() as store:
        store.index("s", [Entry("a kettle", (0, 1))])
        assert store.search("s", "kettle")[0].snippet == "a **kettle**"
    with Session.open(tmp_path / "facts", "s", knowledge=KnowledgeConfig()) as session:
        session.save("The kettle is in the shed.")
        (fact,) = session._calls._search_all("kettle", 5)
        assert fact.snippet == "The **kettle** is in the shed."


def test_a_hit_keeps_its_marks_in_a_copy_and_is_equal_without_them(tmp_path: Path) -> None:
    hit = hit_of(tmp_path, "a kettle", "kettel")
    for again in (pickle.loads(pickle.dumps(hit)), copy.copy(hit), copy.deepcopy(hit)):
        assert again == hit
        assert again.snippet == "a **kettle**"
    by_hand = SearchHit(
        hit.content, hit.score, hit.source_range, hit.entry_id, hit.role, hit.created_at, None, hit.session_id
    )
    assert by_hand == hit
    assert hash(by_hand.content) == hash(hit.content)
    assert (by_hand.snippet, by_hand.passage) == ("a kettle", Passage("a kettle", 0, 8, ()))
    assert "_asked" not in repr(hit)


def test_a_search_that_nobody_asks_for_passages_makes_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def refuse(*_: object) -> None:
        raise AssertionError("a passage was made")

    monkeypatch.setattr("siltstone.memory.hits.best_passage", refuse)
    assert hit_of(tmp_path, "a kettle", "kettle").content == "a kettle"


@pytest.mark.parametrize("size", [0, -1, 1.5, True, None])
def test_a_passage_of_no_size_is_refused(tmp_path: Path, size: Any) -> None:
    with pytest.raises(ConfigError, match="at least 1 character"):
        hit_of(tmp_path, "a kettle", "kettle").best_passage(size)


PIECES = st.lists(
    st.one_of(
        st.sampled_from(
            ["kettle ", "e\u0301\u0302", "👩‍👩‍👧", "🇩🇪🇫🇷", "क्षि", "แมวดำ", "公园", "각", "\r\n", "👍🏽", " "]
        ),
        st.text(max_size=4),
    ),
    max_size=60,
).map("".join)


@given(text=PIECES, query=PIECES, size=st.integers(1, 80))
def test_a_passage_holds_its_size_and_its_marks_lie_in_it(text: str, query: str, size: int) -> None:
    start, end, marks = _native.Asked.of(query).best_part(text, size)
    assert 0 <= start <= end <= len(text)
    assert end - start <= size
    at = start
    for first, last in marks:
        assert at <= first < last <= end
        at = last + 1
    for edge in (start, end, *(place for mark in marks for place in mark)):
        if 0 < edge < len(text):
            assert not unicodedata.combining(text[edge])
            assert text[edge] not in "\u200d\ufe0f"
            assert text[edge - 1] != "\u200d" or not unicodedata.category(text[edge]).startswith("So")
