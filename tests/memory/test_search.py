"""The hits of the store's rankers, held against the slow twin to the last bit."""

import itertools
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, TypeAlias

import pytest
from hypothesis import HealthCheck, assume, given, settings, strategies as st

from reference import analyse, lexical, search
from siltstone import _native
from siltstone.memory import Entry, Ranker
from siltstone.stores import MemoryStore
from storing import contents, entries

Rule: TypeAlias = Literal["xxh3", "poly31"]

WORDS = [
    "silt", "river", "delta", "the", "The", "slow", "x1", "naïve", "ΣΊΣΥΦΟΣ", "漢字", "仮名漢字", "😀",
    "?!", "a b",
]  # fmt: skip
ASKED = [
    "", "Ann", "Zoë", "Ann and Zoë", "the river", "Bash", "rivre", "dellta settled", "I said", "metnioned",
]  # fmt: skip
NAMES = (None, "Ann", "Zoë", "the river")
KINDS = (("user", "message"), ("assistant", "message"), ("Bash", "fact"), ("user", "tool_result"))


def generated() -> st.SearchStrategy[str]:
    """Texts of few words, so that many share some; now and then any letters that both languages know."""
    letters = st.text(st.characters(codec="latin-1"), max_size=12)
    return st.lists(st.sampled_from(WORDS) | letters, max_size=8).map(" ".join)


def found_by_twin(query: str, texts: Sequence[str], ranker: str, rule: Rule) -> list[tuple[str, float]]:
    """Contents and scores by the twin. Ties go by place: all texts here are of one moment."""
    kept = [text for text in texts if _native.whitespace_words(text)]
    if ranker == "lexical":
        (found,) = lexical.search([query], [lexical.Entry(text) for text in kept])
    else:
        near = analyse.each_once(search.search(query, kept, len(kept), rule), kept, query)
        found = [(place, search.similarity(far)) for place, far in near]
    return [(kept[place], score) for place, score in sorted(found, key=lambda hit: (-hit[1], hit[0]))]


@pytest.mark.parametrize(("ranker", "rule"), [("lexical", "xxh3"), ("cosine", "xxh3"), ("cosine", "poly31")])
def test_a_ranker_finds_what_its_twin_finds(
    tmp_path_factory: pytest.TempPathFactory, ranker: Literal["lexical", "cosine"], rule: Rule
) -> None:
    path, sessions = tmp_path_factory.mktemp("store"), itertools.count()
    with MemoryStore.open(path, ranker, hash_rule=rule) as store:

        @given(
            texts=st.lists(generated(), max_size=12), queries=st.lists(generated(), min_size=1, max_size=4)
        )
        def check(texts: list[str], queries: list[str]) -> None:
            session = str(next(sessions))
            store.index(session, [Entry(text, created_at=0) for text in texts])
            for query in queries:
                hits = store.search(session, query, limit=100)
                found = [(hit.content, hit.score) for hit in hits]
                assert found == found_by_twin(query, texts, ranker, rule)

        check()


@pytest.mark.parametrize("rule", ["xxh3", "poly31"])
@given(text=generated(), others=st.lists(generated(), max_size=5))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_mk_60_an_identical_text_scores_above_nine_tenths_by_cosine(
    tmp_path_factory: pytest.TempPathFactory, rule: Rule, text: str, others: list[str]
) -> None:
    words: Callable[[str], list[str]] = _native.words if rule == "xxh3" else _native.whitespace_words
    assume(words(text))
    path = tmp_path_factory.mktemp("store")
    with MemoryStore.open(path, "cosine", hash_rule=rule) as store:
        store.index("a", entries(*others, text))
        best = store.search("a", text, limit=1)[0]
        assert best.score == 1.0
        assert best.score > 0.9


def test_lexical_hits_explain_the_share_of_each_word(tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path) as store:
        store.index("a", entries("Silt, silt and mud", "the river", "mud"))
        hit = store.search("a", "silt mud glacier Silt", explain=True)[0]
        beside = store.search("a", "mud", limit=3, explain=True)[1]
        assert beside.explain is not None
        assert hit.explain is not None
        terms = {term["term"]: term for term in hit.explain["terms"]}
        assert {word: term["tf"] for word, term in terms.items()} == {"silt": 2, "mud": 1}
        assert terms["silt"]["idf"] > terms["mud"]["idf"] > 0
        own = sum(term["score"] for term in terms.values())
        assert own == pytest.approx(hit.explain["own"], abs=1e-12)
        (neighbor,) = hit.explain["neighbors"]
        assert (neighbor["entry_id"], neighbor["place"]) == (3, 2)
        assert own + neighbor["score"] + hit.explain["day"] == pytest.approx(hit.score, abs=1e-12)
        assert hit.explain["day"] == 0  # all was said on one
        assert terms["silt"]["fields"] == {"text": 2}
        assert (hit.explain["passage"], hit.explain["passages"]) == (0, 1)
        assert hit.explain["score"] == hit.score


def test_cosine_hits_explain_their_distance(tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path) as store:
        store.index("a", entries("silt mud"))
        (hit,) = store.search("a", "silt", ranker="cosine", explain=True)
        # one word of two in common: the cosine is 1 / sqrt(2)
        given_ = {"cosine": 0.5**0.5, "distance": 1 - 0.5**0.5, "decay": 1.0, "score": hit.score}
        assert hit.explain == pytest.approx(given_)
        assert hit.score == pytest.approx(1 - (1 - 0.5**0.5) / 2)


@pytest.mark.parametrize("session_id", ["a", "nobody"])
def test_the_figures_of_one_session_name_its_index(tmp_path: Path, session_id: str) -> None:
    with MemoryStore.open(tmp_path) as store:
        store.index("a", entries("silt and silt", "the silt"))
        detail = store.stats(session_id).detail
        if session_id == "a":
            assert detail == {
                "index": "exact",
                "words": 9,  # three of the text, and of each entry month, year and day
                "terms": 4,
                "term_postings": 8,
                "bucket_postings": 4,
                "cached": 0,
            }
        else:
            assert detail == {}


@given(
    rows=st.lists(
        st.tuples(
            generated(), st.integers(0, 30), st.integers(0, 2), st.integers(0, 3), st.sampled_from(KINDS)
        ),
        max_size=12,
        unique_by=lambda row: row[:3],  # the same text of the same messages is one entry
    ),
    query=generated(),
    named=st.sampled_from(ASKED),
)
def test_neighbours_names_and_dates_score_as_the_twin_scores_them(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[str, int, int, int, tuple[str, str]]],
    query: str,
    named: str,
) -> None:
    """Inserted in any order, one by one and at once: the same bits."""
    query = f"{query} {named}"
    kept = [row for row in rows if _native.whitespace_words(row[0])]
    given_ = [
        Entry(text, (start, start + size), role, NAMES[name], kind, created_at=name * 86_400.0)
        for text, start, size, name, (role, kind) in kept
    ]
    twins = [
        lexical.Entry(each.content, each.source_range, each.role, each.name, name * 86_400_000, each.kind)
        for each, (*_, name, _) in zip(given_, kept, strict=True)
    ]
    with MemoryStore.open(tmp_path_factory.mktemp("store")) as store:
        at_once = store.index("at once", given_).entry_ids
        one_by_one = [store.index("one by one", [each]).entry_ids[0] for each in given_]
        (expected,) = lexical.search([query], twins)
        for session, ids in (("at once", at_once), ("one by one", one_by_one)):
            hits = store.search(session, query, limit=100)
            assert [(ids.index(hit.entry_id), hit.score) for hit in hits] == expected


@given(
    rows=st.lists(
        st.tuples(generated(), st.sampled_from(["user", "assistant", "tool"]), st.integers(0, 3)),
        min_size=1,
        max_size=16,
    ),
    query=generated(),
    asked=st.sampled_from(["my", "what did you tell me", "can you tell me what I said", "il mio è il tuo"]),
    often=st.sampled_from([1, 30]),
)
def test_a_dialogue_with_an_assistant_scores_as_the_twin_scores_it(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[str, str, int]],
    query: str,
    asked: str,
    often: int,
) -> None:
    """Short texts and long ones, of some days."""
    query = f"{asked} {query}"
    kept = [row for row in rows if _native.whitespace_words(row[0])]
    days = [at // 4 * day for at, (_, _, day) in enumerate(kept)]
    given_ = [
        Entry(" ".join([text] * often), (at, at + 1), role, created_at=days[at] * 86_400.0)
        for at, (text, role, _) in enumerate(kept)
    ]
    twins = [
        lexical.Entry(each.content, each.source_range, each.role, None, day * 86_400_000)
        for each, day in zip(given_, days, strict=True)
    ]
    with MemoryStore.open(tmp_path_factory.mktemp("store")) as store:
        ids = store.index("dialogue", given_).entry_ids
        (expected,) = lexical.search([query], twins)
        for limit in (3, 100):
            hits = store.search("dialogue", query, limit=limit)
            assert [(ids.index(hit.entry_id), hit.score) for hit in hits] == expected[:limit]


def test_a_word_with_a_typo_finds_what_was_meant(tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path) as store:
        store.index("a", entries("The mountain is steep.", "A fountain of silt", "the river"))
        (hit,) = (hit for hit in store.search("a", "steep mountian", explain=True) if "steep" in hit.content)
        assert hit.explain is not None
        terms = {term["term"]: term for term in hit.explain["terms"]}
        assert terms["mountain"]["instead_of"] == "mountian"
        assert "instead_of" not in terms["steep"]
        assert terms["mountain"]["score"] == pytest.approx(0.8 * terms["steep"]["score"])
        clean = store.search("a", "steep mountain", explain=True)[0].explain
        assert clean is not None
        assert all("instead_of" not in term for term in clean["terms"])
        # A word that entries have is what was meant; a short one, and a number, is near too many.
        assert contents(store.search("a", "fountain"))[0] == "A fountain of silt"
        assert store.search("a", "slit rive 12345") == []
        assert store.search("a", "steep mountian", ranker="hybrid")[0].content == "The mountain is steep."


@pytest.mark.slow
def test_ten_thousand_entries_rank_as_the_twin_ranks_them(tmp_path: Path) -> None:
    texts = [f"silt {n % 7} river {n % 11} delta {'mud ' * (n % 5)}" for n in range(10_000)]
    with MemoryStore.open(tmp_path) as store:
        store.index("a", [Entry(text, created_at=0) for text in texts])
        hits = store.search("a", "silt 3 mud 10", limit=1_000)
        (expected,) = lexical.search(["silt 3 mud 10"], [lexical.Entry(text) for text in texts])
        assert [(hit.entry_id - 1, hit.score) for hit in hits] == expected[:1_000]


@pytest.mark.parametrize(
    ("said", "asked"),
    [
        ("แมวดำนอนอยู่บนหลังคาบ้านริมแม่น้ำ", "แมวดำอยู่ที่ไหน"),
        ("ແມ່ນ້ຳຂອງໄຫຼຜ່ານວຽງຈັນ", "ແມ່ນ້ຳຂອງ"),
        ("ទន្លេមេគង្គហូរកាត់ភ្នំពេញ", "ទន្លេមេគង្គ"),
        ("ဧရာဝတီမြစ်သည်ရန်ကုန်သို့", "ဧရာဝတီမြစ်"),
        ("ལྷ་སའི་གྲོང་ཁྱེར", "གྲོང་ཁྱེར"),
    ],
)
def test_a_question_finds_what_was_said_in_a_script_without_spaces(tmp_path: Path, said: str, asked: str):
    with MemoryStore.open(tmp_path) as store:
        store.index("a", [Entry(said, (0, 1)), Entry("the kettle is on", (9, 10))])
        assert [hit.content for hit in store.search("a", asked)] == [said]


@pytest.mark.parametrize("ranker", ["lexical", "cosine", "hybrid"])
def test_equal_texts_are_one_hit_that_tells_how_often(tmp_path: Path, ranker: Ranker) -> None:
    beats = [Entry("The weir gate is shut.", (n, n + 1), created_at=float(n)) for n in range(40)]
    others = [Entry(f"the {word} of the weir gate", (50, 51)) for word in ("height", "colour", "maker")]
    with MemoryStore.open(tmp_path, ranker) as store:
        store.index("a", [*beats, *others])
        hits = store.search("a", "weir gate", limit=10)
        assert len(hits) == 4
        (beat,) = [hit for hit in hits if hit.times > 1]
        assert beat.times == 40
        assert beat.first_at == datetime.fromtimestamp(0, UTC)
        assert beat.last_at == datetime.fromtimestamp(39, UTC)
        (beat,) = [hit for hit in store.search("a", "weir gate", since=30.0, until=35.0) if hit.times > 1]
        assert beat.times == 5


def test_lines_that_differ_in_numbers_are_one_hit_unless_a_number_is_asked_for(tmp_path: Path) -> None:
    lines = [f"2026-05-0{n % 9 + 1} 0{n % 7}:1{n % 9} pump {n}: pressure {n * 3} bar" for n in range(1, 60)]
    with MemoryStore.open(tmp_path) as store:
        store.index("a", [Entry(text, (n, n + 1)) for n, text in enumerate(lines)])
        store.index("a", [Entry("the pump pressure was measured by Ann", (99, 100))])
        assert len(store.search("a", "pump pressure", limit=100)) == 60
        hits = store.search("a", "pump pressure", limit=10)
        assert sorted(hit.times for hit in hits) == [1, 59]
        assert store.search("a", "pressure of pump 47", limit=1)[0].content == lines[46]
        few = [Entry(f"valve {n} holds {n * 3} bar", (n, n + 1)) for n in range(9)]
        store.index("b", few)
        assert len(store.search("b", "what a valve holds", limit=20)) == 9


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("What is the colour of the weir?", "The weir has the colour of slate."),
        ("what is the colour of the weir", "Slate is the colour of the weir."),
        ("Hello! Hi, what is the colour of the weir?", "The weir has the colour of slate."),
        ("Good morning to you! What is the colour of the weir?", "The weir has the colour of slate."),
    ],
)
def test_an_answer_comes_before_the_question(tmp_path: Path, question: str, answer: str) -> None:
    with MemoryStore.open(tmp_path) as store:
        texts = [question, "I was at the market.", "It rained.", "The bread was good.", "So it was.", answer]
        store.index("a", [Entry(text, (n * 9, n * 9 + 1)) for n, text in enumerate(texts)])
        found = contents(store.search("a", "colour of the weir"))
        assert found.index(answer) < found.index(question)
        (asked,) = [hit for hit in store.search("a", question, explain=True) if hit.content == question]
        assert asked.explain is not None
        assert asked.explain["asks"] == 0.7


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("Grüße aus der Weißstraße", "weissstrasse"),
        ("room ۴۵۶ is free", "456"),
        ("the pass\u200bword hint", "password"),
        ("reverted 0a1b2c3d4e5f60718293a4b5c6d7e8f901234567", "0a1b2c3d4"),
        ("reverted 0a1b2c3", "0a1b2c3d4e5f60718293a4b5c6d7e8f901234567"),
        ("deployed \U0001f680", "\U0001f680"),
        ("Now That is a record label", "That"),
        ("signed on 2026-09-30", "September 30"),
        ("pay into FR76 3000 6000 0112 3456 7890 189 today", "fr7630006000011234567890189"),
        ("ring (0431) 77 88 990", "0431 7788 990"),
        ("ring 04317788990 now", "0431/77 88-990"),
        ("its card is AC:DE:48:00:11:2f", "acde.4800.112f"),
        ("17\u202f400 barrels", "17400"),
        ("17400 barrels", "17 400"),
        ("closes at 19:45", "1945"),
        ("closes at 1945", "19:45"),
        ("twelve bags of 25kg", "25 kg"),
        ("a bag of 25 kg", "25kg"),
    ],
)
def test_a_text_is_found_by_other_spellings(tmp_path: Path, text: str, query: str) -> None:
    with MemoryStore.open(tmp_path) as store:
        others = ["the barge was late", "clay is dear", "nothing more was said"]
        store.index("a", [Entry(each, (n * 9, n * 9 + 1)) for n, each in enumerate([*others, text])])
        assert contents(store.search("a", query, limit=1)) == [text]


def test_a_few_lines_of_code_bring_no_other_language(tmp_path: Path) -> None:
    code = ["os.walk(os.sep, os.curdir)", "deg = deg % 90; io.sin(deg)", "os.remove(os.path)"]
    with MemoryStore.open(tmp_path) as store:
        prose = [f"the {word} in the list is to be sorted" for word in ("row", "key", "name", "page", "cell")]
        store.index("a", [Entry(text, (n * 9, n * 9 + 1)) for n, text in enumerate([*code, *prose])])
        hits = store.search("a", "how is the page in the list to be sorted", explain=True)
        assert {hit.explain["language"] for hit in hits if hit.explain} == {"en"}
        assert hits[0].content == prose[3]
