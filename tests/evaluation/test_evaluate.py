"""Datasets, measures and reports, worked by hand on written hits, and on stores of the package."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from siltstone import Entry, MemoryStore, SimpleMemoryStore, StoreError
from siltstone.errors import ConfigError, DatasetError, StoreClosedError
from siltstone.evaluation import (
    Conversation,
    Dataset,
    Question,
    Report,
    Turn,
    data_place,
    evaluate,
    load_dataset,
    read_dataset,
    report,
)
from siltstone.evaluation.report import off_topic, without_names
from siltstone.evaluation.run import Measurable


@dataclass(frozen=True)
class Hit:
    entry_id: str
    score: float
    content: str = "abcdefgh"  # 2 tokens


@dataclass
class Receipt:
    entry_ids: list[str | None]


@dataclass
class Scripted:
    """A store that answers each query with the hits written down for it; an entry's id is its text."""

    hits: dict[str, list[Hit]]
    asked: list[tuple[str, str, int, dict[str, Any]]] = field(default_factory=list)
    closed: int = 0

    def index(self, session_id: str, entries: Sequence[Entry]) -> Receipt:
        return Receipt([entry.content or None for entry in entries])

    def search(self, session_id: str, query: str, *, limit: int, **options: Any) -> list[Hit]:
        self.asked.append((session_id, query, limit, options))
        return self.hits.get(query, [])[:limit]

    def close(self) -> None:
        self.closed += 1


def turns(*texts: str) -> tuple[Turn, ...]:
    """Turns whose ids are their texts in capitals; two to a session."""
    return tuple(Turn(text.upper(), text, session=place // 2) for place, text in enumerate(texts))


TWO = Dataset(
    "two",
    (
        Conversation(
            "one",
            turns("a", "b", "c", "d"),
            (
                Question("first of Ann", ("A", "D"), "x"),
                Question("second", ("C",), "y"),
                Question("third", ("B",), "apart"),
            ),
        ),
        Conversation("other", turns("e", "f"), (Question("fourth", ("E",), "x"),)),
    ),
    apart=frozenset({"apart"}),
)
HITS = {
    "first of Ann": [Hit("b", 0.9), Hit("a", 0.8), Hit("b", 0.7), Hit("c", 0.6)],
    "second": [Hit("c", 0.5)],
    "third": [],
    "fourth": [Hit("f", 0.4), Hit("e", 0.4)],
    "first of": [Hit("a", 0.45)],  # without the name; also what "other" is asked
}


def scripted(hits: dict[str, list[Hit]] = HITS) -> tuple[list[Scripted], Callable[[], Scripted]]:
    """A factory of stores, and the ones that it made."""
    made: list[Scripted] = []

    def make() -> Scripted:
        made.append(Scripted(hits))
        return made[-1]

    return made, make


def test_every_figure_is_what_it_is_by_hand() -> None:
    hits = HITS | {"first of": []}
    report = evaluate(scripted(hits)[1], TWO)
    # first of Ann: b a c, where b is on rank 1 once and again on 3. Evidence A and D: A on rank 2, D nowhere.
    #   R@1 0, R@5 1/2; hit@1 0, hit@5 1; MRR 1/2; nDCG (1/log2 3) / (1 + 1/log2 3) = 0.63093 / 1.63093
    #   sessions: b and a are of session 0, c of 1; evidence in 0 and 1: Hit@1 1
    #   tokens: 2 at 1, 6 at 5 (three entries of 8 characters)
    # second: rank 1, all 1; session 1; tokens 2.
    # fourth: f, e; E on rank 2: nDCG 0.63093; session 0; tokens 2 and 4.
    pooled = report.pooled
    assert pooled.questions == 3
    assert pooled.recall == pytest.approx({1: 1 / 3, 5: 2.5 / 3, 10: 2.5 / 3, 20: 2.5 / 3})
    assert pooled.hit == pytest.approx({1: 1 / 3, 5: 1, 10: 1, 20: 1})
    assert pooled.mrr == pytest.approx((1 / 2 + 1 + 1 / 2) / 3)
    assert pooled.ndcg == pytest.approx((0.386853 + 1 + 0.630930) / 3, abs=1e-6)
    assert pooled.tokens == {1: 2, 5: 4, 10: 4, 20: 4}
    assert pooled.session_hit == {1: 1, 5: 1}

    x, y, apart = (report.categories[name] for name in ("x", "y", "apart"))
    assert list(report.categories) == ["apart", "x", "y"]
    assert (x.questions, y.questions, apart.questions) == (2, 1, 1)
    assert x.recall[5] == 0.75
    assert y.recall[1] == 1
    assert (apart.recall[20], apart.mrr, apart.ndcg, apart.tokens[20]) == (0, 0, 0, 0)
    assert apart.session_hit == {1: 0, 5: 0}
    assert report.everything is not None
    assert report.everything.questions == 4
    assert report.everything.recall[5] == pytest.approx(2.5 / 4)
    assert (report.dataset, report.conversations, report.entries) == ("two", 2, 6)


def test_abstention_compares_own_questions_with_nameless_ones_of_others() -> None:
    abstention = evaluate(scripted()[1], TWO).abstention
    # own: 0.9, 0.5, 0.4; foreign: "fourth" to one (0.4), "first of" to other (0.45), "second" to other (0.5).
    # 0.9 beats 3; 0.5 beats 2 and ties once; 0.4 ties once: (3 + 2.5 + 0.5) / 9
    # nameless own: "first of" 0.45, "second" 0.5, "fourth" 0.4: (1.5 + 2.5 + 0.5) / 9
    assert abstention.auc == pytest.approx(6 / 9)
    assert abstention.auc_nameless == pytest.approx(4.5 / 9)
    assert (abstention.off_topic, abstention.silent, abstention.silent_off_topic) == (3, 0, 0)


def test_each_conversation_has_a_store_of_its_own_which_is_closed() -> None:
    made, make = scripted()
    evaluate(make, TWO)
    assert [store.closed for store in made] == [1, 1]
    assert [{asked[0] for asked in store.asked} for store in made] == [{"one"}, {"other"}]


def test_ties_go_as_the_store_has_them_or_to_the_earlier_turn() -> None:
    store, earlier = (evaluate(scripted()[1], TWO, ties=ties) for ties in ("store", "earlier"))
    # Only "fourth" has a tie: f before e, or e first.
    assert store.categories["x"].recall[1] == 0
    assert earlier.categories["x"].recall[1] == 1 / 2
    assert store.categories["y"] == earlier.categories["y"]


def test_sessions_are_left_out_where_the_turns_name_none() -> None:
    bare = tuple(
        replace(each, turns=tuple(replace(turn, session=None) for turn in each.turns))
        for each in TWO.conversations
    )
    report = evaluate(scripted()[1], replace(TWO, conversations=bare))
    assert report.pooled.session_hit is None
    assert "| 0.673 | 0.667 | 1.000 |  |  | 4 |" in report.to_markdown().splitlines()[2]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"min_score": 1.5}, "min_score must be in 0..1, got 1.5"),
        ({"min_score": float("nan")}, "got nan"),
        ({"ties": "later"}, "ties must be one of .* got 'later'"),
    ],
)
def test_what_cannot_be_asked_is_refused_before_a_store_is_made(arguments: Any, said: str) -> None:
    made, make = scripted()
    with pytest.raises(ConfigError, match=said):
        evaluate(make, TWO, **arguments)
    assert made == []


def test_a_dataset_without_questions_is_refused() -> None:
    with pytest.raises(DatasetError, match="'two' has no question"):
        evaluate(scripted()[1], replace(TWO, apart=frozenset({"x", "y", "apart"})))


def test_a_hit_that_was_never_indexed_is_an_error_and_the_store_is_closed() -> None:
    made, make = scripted({"second": [Hit("z", 1.0)]})
    with pytest.raises(StoreError, match="a hit in 'one' has the entry id 'z'"):
        evaluate(make, TWO)
    assert made[0].closed == 1


def test_a_store_that_does_not_name_every_entry_is_an_error() -> None:
    class Forgetful(Scripted):
        def index(self, session_id: str, entries: Sequence[Entry]) -> Receipt:
            return Receipt(["a"])

    with pytest.raises(StoreError, match="given 4 entries of 'one' and named 1"):
        evaluate(lambda: Forgetful({}), TWO)


SILT = Dataset(
    "silt",
    (
        Conversation(
            "river",
            (
                Turn("1", "the river carries silt", name="Ann"),
                Turn("2", "the delta grows", name="Bob"),
                Turn("3", "where the water slows down silt settles", name="Ann"),
            ),
            (Question("where does silt settle", ("3",), "what"), Question("delta", ("2",), "what")),
        ),
        Conversation(
            "kitchen",
            (Turn("1", "the kettle is on", name="Cid"), Turn("2", "bread and salt", name="Dee")),
            (Question("is the kettle on", ("1",), "yes or no"),),
        ),
    ),
)


def check(report: Report) -> None:
    assert report.pooled.recall == {1: 1, 5: 1, 10: 1, 20: 1}
    assert report.pooled.mrr == report.pooled.ndcg == 1
    assert report.latency.p99 >= report.latency.p95 >= report.latency.p50 > 0
    assert report.abstention is not None
    assert report.abstention.off_topic == 3


@pytest.mark.parametrize("ranker", ["lexical", "cosine"])
def test_a_store_on_disk_is_measured_and_closed(tmp_path: Path, ranker: str) -> None:
    made: list[MemoryStore] = []

    def make() -> MemoryStore:
        made.append(MemoryStore.open(tmp_path / f"{ranker}-{len(made)}"))
        return made[-1]

    check(evaluate(make, SILT, ranker=ranker))
    assert len(made) == 2
    for store in made:
        with pytest.raises(StoreClosedError):
            store.stats()


def test_two_runs_differ_in_latency_alone() -> None:
    first, second = evaluate(SimpleMemoryStore, SILT), evaluate(SimpleMemoryStore, SILT)
    assert first == second
    assert first.as_dict() | {"latency": None} == second.as_dict() | {"latency": None}
    assert first != evaluate(SimpleMemoryStore, SILT, min_score=1.0)


def test_a_report_is_plain_values_and_a_table() -> None:
    report = evaluate(scripted()[1], TWO)
    given = json.loads(json.dumps(report.as_dict()))
    assert given["pooled"]["recall"]["10"] == report.pooled.recall[10]
    lines = report.to_markdown().splitlines()
    assert lines[2].startswith("| pooled | 3 | 0.333 | 0.833 |")
    assert [line.split(" | ")[0] for line in lines[2:7]] == [
        "| pooled", "| everything", "| - apart", "| - x", "| - y",
    ]  # fmt: skip
    assert len({line.count("|") for line in lines[:7]}) == 1
    assert lines[-1].startswith("abstention AUC 0.667, without names 0.500; p50 ")


@pytest.mark.parametrize(
    ("name", "expected"), [("locomo-dev", (0.137, 0.184, 0.123)), ("agent-dev", (0.232, 0.281, 0.162))]
)
def test_the_documented_embedding_reproduces_the_published_figures(
    data_dir: Path, tmp_path: Path, name: str, expected: tuple[float, float, float]
) -> None:
    made = iter(range(100))

    def make() -> Measurable:
        return MemoryStore.open(tmp_path / str(next(made)), "cosine", hash_rule="poly31")

    pooled = evaluate(make, load_dataset(name, data_dir), ties="earlier", abstention=False).pooled
    assert (pooled.recall[5], pooled.recall[10], pooled.ndcg) == pytest.approx(expected, abs=1e-3)


@dataclass
class Background(Scripted):
    ready: bool = True
    flushed: int = 0

    def flush(self) -> bool:
        assert self.asked == []
        self.flushed += 1
        return self.ready


def test_a_store_that_gets_ready_in_the_background_is_waited_for() -> None:
    stores = [Background({}), Background({})]
    rest = iter(stores)
    evaluate(lambda: next(rest), TWO)
    assert [store.flushed for store in stores] == [1, 1]
    with pytest.raises(StoreError, match="without vectors"):
        evaluate(lambda: Background({}, ready=False), TWO)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("When did Ann visit Mount Etna?", "When did visit ?"),
        ("What is Ann's favourite book?", "What is favourite book?"),
        ("Where did O'Neil and Jean-Luc meet?", "Where did and meet?"),
        ("Do I owe what I'd owe Ann?", "Do I owe what I'd owe ?"),
        ("Bob's book was which?", "Bob's book was which?"),
        ("2023 was When?", "2023 was ?"),
        ("Ann", ""),
        ("Öl auf Élans Wasser", "Öl auf"),
    ],
)
def test_capitalised_words_are_taken_out(text: str, expected: str) -> None:
    assert without_names(text, frozenset({"Ann"})) == expected


def conversation(name: str, *questions: Question) -> Conversation:
    return Conversation(name, (Turn("1", "a text", name=f"{name} Smith"),), questions)


def test_questions_go_to_every_other_conversation_without_their_names() -> None:
    dataset = Dataset(
        "three",
        (
            conversation("Ann", Question("Ann is where in Rome?", ("1",)), Question("why?", ("1",), "apart")),
            conversation("Bob", Question("What did Smith say?", ("1",))),
            conversation("Cid"),
        ),
        apart=frozenset({"apart"}),
    )
    assert off_topic(dataset) == {
        "Ann": ["What did say?"],
        "Bob": ["is where in ?"],
        "Cid": ["is where in ?", "What did say?"],
    }


RANKED = ["a", "b", "c", "d", "e", "f"]


def test_ndcg_of_two_found_on_ranks_2_and_4() -> None:
    # DCG: 1 / log2(3) + 1 / log2(5) = 0.63093 + 0.43068 = 1.06161
    # ideal, three pieces of evidence: 1 / log2(2) + 1 / log2(3) + 1 / log2(4) = 1 + 0.63093 + 0.5 = 2.13093
    assert report.ndcg(RANKED, ["b", "d", "x"], 10) == pytest.approx(1.06161 / 2.13093, abs=1e-5)


def test_the_ideal_of_ndcg_has_no_more_ranks_than_are_looked_at() -> None:
    # k = 2: both ranks hold evidence, and a third piece could not be seen there.
    assert report.ndcg(RANKED, ["a", "b", "c"], 2) == 1
    # k = 2, only rank 2 holds evidence: 0.63093 / 1.63093
    assert report.ndcg(RANKED, ["b", "c", "d"], 2) == pytest.approx(0.38685, abs=1e-5)


def test_the_margin_is_that_of_the_mean() -> None:
    # 1, 0, 1, 1: mean 0.75, squares 3 * 0.0625 + 0.5625 = 0.75; 1.96 * sqrt(0.75 / 3 / 4) = 0.49
    assert report.margin([1, 0, 1, 1]) == pytest.approx(0.49)
    assert report.margin([0.5, 0.5, 0.5]) == 0
    assert report.margin([1]) == report.margin([]) == 0


_SCORES = st.lists(st.integers(-5, 5).map(float), min_size=1, max_size=30)


@given(positive=_SCORES, negative=_SCORES)
def test_the_area_is_the_share_of_pairs_counted_one_by_one(positive: list[float], negative: list[float]):
    pairs = [(high > low) + (high == low) / 2 for high in positive for low in negative]
    assert report.area_under_curve(positive, negative) == sum(pairs) / len(pairs)


@pytest.mark.parametrize(
    ("share", "expected"),
    [(0.0, 1.0), (0.25, 1.0), (0.26, 2.0), (0.5, 2.0), (0.75, 3.0), (0.76, 4.0), (1.0, 4.0)],
)
def test_a_percentile_is_the_sample_that_so_many_do_not_exceed(share: float, expected: float) -> None:
    assert report.percentile([4.0, 1.0, 3.0, 2.0], share) == expected
    assert report.percentile([], share) == 0


TURN = Turn("1", "silt settles", "assistant", "Ann", "fact", datetime(2023, 5, 8), 3)


def test_a_store_is_given_an_entry_a_turn_with_all_that_is_known() -> None:
    turns = (TURN, Turn("2", "a second"))
    assert Conversation("a", turns).entries() == [
        Entry("silt settles", (0, 1), "assistant", "Ann", "fact", datetime(2023, 5, 8)),
        Entry("a second", (1, 2)),
    ]
    assert [entry.source_range for entry in Conversation("a", turns, ordered=False).entries()] == [(0, 0)] * 2


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (lambda: Conversation("a", (TURN, TURN)), "turns of the conversation 'a' must have different ids"),
        (lambda: Conversation("a", (TURN,), (Question("q", ()),)), "'q' of 'a' has no evidence"),
        (lambda: Conversation("a", (TURN,), (Question("q", ("2",)),)), "'2' of the question 'q' is no turn"),
        (lambda: Dataset("d", (Conversation("a", ()),) * 2), "got 'a' 2 times"),
    ],
)
def test_what_does_not_fit_is_refused(build: Any, said: str) -> None:
    with pytest.raises(DatasetError, match=said):
        build()


GIVEN: dict[str, Any] = {
    "name": "mine",
    "apart": ["unanswerable"],
    "conversations": [
        {
            "id": "a",
            "ordered": False,
            "turns": [
                {"id": 1, "text": "silt settles", "role": "assistant", "name": "Ann", "kind": "fact",
                 "created_at": "2023-05-08", "session": 3},
                {"id": "2", "text": "a second", "created_at": 1.5},
            ],
            "questions": [
                {"text": "what settles?", "evidence": [1], "category": "c"},
                {"text": "and then?", "evidence": ["2", 1]},
            ],
        },
        {"id": "b", "turns": []},
    ],
}  # fmt: skip


def written(place: Path, given: object) -> Path:
    path = place / "mine.json"
    path.write_text(given if isinstance(given, str) else json.dumps(given), encoding="utf-8")
    return path


def test_a_file_is_read_into_the_values_that_its_keys_name(tmp_path: Path) -> None:
    assert read_dataset(written(tmp_path, GIVEN)) == Dataset(
        "mine",
        (
            Conversation(
                "a",
                (TURN, Turn("2", "a second", created_at=1.5)),
                (Question("what settles?", ("1",), "c"), Question("and then?", ("2", "1"))),
                ordered=False,
            ),
            Conversation("b", ()),
        ),
        frozenset({"unanswerable"}),
    )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("{", "is not JSON"),
        ("[]", "must be a JSON object, got \\[\\]"),
        ({"name": "d"}, "must have the key 'conversations'"),
        ({"name": 1, "conversations": []}, "'name' of the dataset .* must be a text, got 1"),
        ({"name": "d", "conversations": [], "turns": []}, "unknown key 'turns'"),
        ({"name": "d", "conversations": [], "apart": [None]}, "'apart' must be a list of texts or integers"),
        ({"name": "d", "conversations": [3]}, "a conversation must be a JSON object, got 3"),
        ({"name": "d", "conversations": [{"id": "a", "turns": [{"id": "1"}]}]}, "must have the key 'text'"),
        (
            {
                "name": "d",
                "conversations": [{"id": "a", "turns": [{"id": 1, "text": "", "created_at": "May"}]}],
            },
            "a time must be ISO 8601.* got 'May'",
        ),
        (
            {
                "name": "d",
                "conversations": [{"id": "a", "turns": [], "questions": [{"text": "", "evidence": [[]]}]}],
            },
            "'evidence' must be a list of texts or integers, got \\[\\] in it",
        ),
    ],
)
def test_a_file_that_is_not_right_says_where(tmp_path: Path, given: object, said: str) -> None:
    with pytest.raises(DatasetError, match=said):
        read_dataset(written(tmp_path, given))


def test_recorded_data_is_where_the_environment_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SILTSTONE_DATA", raising=False)
    assert data_place() == Path("../shared/data")
    monkeypatch.setenv("SILTSTONE_DATA", str(tmp_path))
    assert data_place() == tmp_path
    with pytest.raises(DatasetError, match=r"no dataset at '.*locomo-dev.json'; set SILTSTONE_DATA"):
        load_dataset("locomo-dev")
    with pytest.raises(DatasetError, match="no recorded dataset 'locomo'; known are"):
        load_dataset("locomo")


RECORDED: dict[str, tuple[Any, Conversation]] = {
    "locomo-dev": (
        {"conversations": [{
            "id": "c",
            "sessions": [{"n": 3, "turns": [
                {"id": "D3:1", "speaker": "Ann", "text": "look", "date": "2023-05-08T13:56",
                 "caption": "a dog"},
            ]}],
            "questions": [{"q": "what?", "category": "temporal", "evidence": ["D3:1"]}],
        }]},
        Conversation(
            "c",
            (Turn("D3:1", "look [shares image: a dog]", name="Ann",
                  created_at=datetime(2023, 5, 8, 13, 56), session=3),),
            (Question("what?", ("D3:1",), "temporal"),),
        ),
    ),
    "agent-dev": (
        {"conversations": [{
            "id": "c",
            "turns": [{"id": 2, "speaker": "assistant", "kind": "tool_use", "text": "{}",
                       "date": "2026-02-12T16:02", "tool": "Bash", "call": "x"}],
            "questions": [{"q": "what?", "category": "command", "evidence": [2]}],
        }]},
        Conversation(
            "c",
            (Turn("2", "{}", "assistant", "Bash", "tool_use", datetime(2026, 2, 12, 16, 2)),),
            (Question("what?", ("2",), "command"),),
        ),
    ),
    "madial-en": (
        {"entries": [{"id": 1, "text": "a fact", "date": "2023-12-25"}],
         "questions": [{"q": "what?", "q_last": "?", "evidence": [1]}]},
        Conversation(
            "madial-en",
            (Turn("1", "a fact", kind="fact", created_at=datetime(2023, 12, 25)),),
            (Question("what?", ("1",)),),
            ordered=False,
        ),
    ),
    "xquad-dev": (
        {"conversations": [{
            "id": "xquad-ru", "language": "ru",
            "turns": [{"id": 0, "text": "ил оседает"}],
            "questions": [{"q": "что?", "category": "ru", "evidence": [0]}],
        }]},
        Conversation(
            "xquad-ru",
            (Turn("0", "ил оседает", created_at=0.0),),
            (Question("что?", ("0",), "ru"),),
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", RECORDED)
def test_each_recorded_format_is_read(tmp_path: Path, name: str) -> None:
    given, expected = RECORDED[name]
    (tmp_path / f"{name}.json").write_text(json.dumps(given), encoding="utf-8")
    dataset = load_dataset(name, tmp_path)
    assert (dataset.name, dataset.conversations) == (name, (expected,))
    assert dataset.apart == ({"adversarial"} if name == "locomo-dev" else frozenset())


@pytest.mark.parametrize("given", [{}, [], {"conversations": [{"id": "c"}]}, {"entries": 3}])
@pytest.mark.parametrize("name", RECORDED)
def test_a_file_of_another_format_is_refused(tmp_path: Path, name: str, given: object) -> None:
    (tmp_path / f"{name}.json").write_text(json.dumps(given), encoding="utf-8")
    with pytest.raises(DatasetError, match=f"is not in the format of {name}"):
        load_dataset(name, tmp_path)
