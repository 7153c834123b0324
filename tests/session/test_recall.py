"""Recall in a session: what comes back, where it stands, what it costs, and what it can never do."""

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from conversations import assistant, exchange, small, turns, user
from embedders import Counting
from hostile_texts import hostile
from siltstone import Entry, MemoryStore, RecallConfig, Session, SimpleMemoryStore
from siltstone.errors import StoreIoError
from siltstone.events import RecallFailed, RecallInjected
from siltstone.messages import RecalledMessage, broken_tool_groups, read_history
from siltstone.recall import parse_block
from siltstone.session.recalling import DocumentedSearch
from siltstone.testing import ScriptedModel
from siltstone.tokens import estimate_tokens

EVIDENCE = "The walrus password for the quarry is basalt-seven."
QUESTION = "which walrus password has the quarry?"


def opened(path: Path | None, events: list[Any] | None = None, **options: Any) -> Session:
    hooks = [] if events is None else [events.append]
    settings = {"policy": small(), "context_window": 16_000, "model": ScriptedModel()}
    settings |= {"recall": True, "knowledge": False}  # no model speaks beside the conversation
    return Session.open(path, "s", hooks=hooks, **{**settings, **options})


def talk(session: Session, count: int = 8) -> None:
    """Says the evidence, and then so much that it leaves the view."""
    session.append(user("please note this: " + EVIDENCE), assistant("noted"))
    for turn in turns(count):
        session.append(*turn)
        session.prepare(recall=False)


def recalled(messages: list[Any]) -> list[int]:
    return [place for place, each in enumerate(messages) if isinstance(each, RecalledMessage)]


@pytest.fixture
def events() -> list[Any]:
    return []


@pytest.fixture
def session(tmp_path: Path, events: list[Any]) -> Iterator[Session]:
    with opened(tmp_path, events) as one:
        talk(one)
        events.clear()
        yield one


def test_oc_16_oc_54_what_was_compacted_away_is_placed_before_the_question(session: Session) -> None:
    assert EVIDENCE not in json.dumps(session.history())
    session.append(user(QUESTION))
    answer = session.prepare()
    [place] = recalled(answer.messages)
    assert EVIDENCE in answer.recalled == answer.messages[place]["content"]
    assert answer.messages[place + 1] == user(QUESTION) == answer.messages[-1]
    assert answer.history == session.history() == [*answer.messages[:place], *answer.messages[place + 1 :]]
    assert parse_block(answer.recalled) is not None


def test_oc_54_after_a_restart_the_block_has_the_same_bytes(tmp_path: Path) -> None:
    with opened(tmp_path) as one:
        talk(one)
        one.append(user(QUESTION))
        before = one.prepare().recalled
    with opened(tmp_path) as again:
        assert EVIDENCE in before == again.prepare().recalled


def test_oc_33_oc_38_the_block_is_within_its_cap_by_the_session_s_own_counter(tmp_path: Path) -> None:
    every = RecallConfig(auto_recall_min_score=0.0, share=0.1)
    for window, cap in ((16_000, 1_600), (4_000, 400)):
        with opened(tmp_path / str(window), context_window=window, recall=every) as one:
            talk(one, 30)
            one.append(user("what of topic1 topic2 topic3 topic4 topic5 topic6 topic7 topic8 topic9?"))
            bare, answer = one.prepare(recall=False), one.prepare()
            assert 0 < estimate_tokens(answer.recalled, "blocks") <= cap
            assert estimate_tokens(answer.messages, "blocks") == answer.tokens <= window
            assert bare.tokens < answer.tokens
            assert bare.messages == answer.history


def test_oc_17_three_turns_leave_one_block_each_and_none_in_the_log(session: Session) -> None:
    before = len(session.log())
    for _ in range(3):
        session.append(user(QUESTION))
        assert len(recalled(session.prepare().messages)) == 1
        session.append(assistant("basalt-seven"))
    assert len(session.log()) == before + 6
    assert not any("recalled-context" in json.dumps(raw) for raw in session.log())


def test_a_turn_has_the_same_bytes_at_the_same_place_through_its_tool_loop(
    session: Session, events: list[Any]
) -> None:
    session.append(user(QUESTION))
    first = session.prepare()
    place = recalled(first.messages)
    for number in range(100, 103):
        session.append(*exchange(number, "walrus password " * 5))
        step = session.prepare(policy=None)
        assert step.messages[: len(first.messages)] == first.messages
        assert (recalled(step.messages), step.recalled) == (place, first.recalled)
    session.compact()
    rest = session.prepare()
    assert rest.recalled == first.recalled, "a compaction inside a turn changes the view, and not the block"
    assert rest.messages[recalled(rest.messages)[0] + 1] == user(QUESTION)
    told = [event for event in events if isinstance(event, RecallInjected)]
    assert [each.detail_count > 0 for each in told] == [True]
    assert told[0].tokens == estimate_tokens(first.recalled, "blocks")
    assert (told[0].cap, told[0].knowledge_count, told[0].reason) == (2_880, 0, "")
    assert told[0] in first.events


def test_oc_74_at_the_head_it_is_behind_the_summary(tmp_path: Path) -> None:
    with opened(tmp_path, recall=RecallConfig(placement="head")) as one:
        one.append({"role": "system", "content": "rules"})
        talk(one)
        one.append(user(QUESTION))
        roles = [message.provenance for message in read_history(one.prepare().messages)][:3]
        assert roles == ["original", "compaction_summary", "recalled_context"]


def test_oc_18_a_block_that_is_handed_back_is_not_logged_and_not_searched(session: Session) -> None:
    session.append(user(QUESTION))
    block = session.prepare().messages[-2]
    end = len(session.log())
    assert session.append(block) == range(end, end)
    assert session.append(block, assistant("basalt-seven"), block) == range(end, end + 1)
    session.compact()
    assert not any("recalled-context" in hit.content for hit in session.search(QUESTION, 50))
    assert "recalled-context" not in json.dumps(session.log())


@pytest.mark.parametrize("form", ["object", "json", "blocks"])
def test_oc_18_oc_20_a_host_may_hand_in_the_messages_of_an_answer(session: Session, form: str) -> None:
    session.append(user(QUESTION))
    answer = session.prepare()
    messages = answer.messages if form == "object" else json.loads(json.dumps(answer.messages))
    if form == "blocks":
        [place] = recalled(answer.messages)
        messages[place]["content"] = [{"type": "text", "text": messages[place]["content"]}]
    end = len(session.log())
    assert session.observe([*messages, assistant("basalt-seven")]) == 1
    assert len(session.log()) == end + 1
    assert len(session.compactions()) == len([row for row in session.compactions() if row.reason != "branch"])
    assert session.observe([*messages, assistant("basalt-seven"), user("thanks")]) == 1


def test_oc_20_a_user_who_quotes_the_block_is_logged_word_for_word(session: Session) -> None:
    session.append(user(QUESTION))
    block = session.prepare().recalled
    quoted = user(f"why did you get this?\n{block}")
    session.append(assistant("basalt-seven"), quoted)
    assert session.log()[-1] == quoted
    tag = user('<recalled-context source="memory-context"> is a tag')
    session.observe([*session.history(), assistant("so"), tag])
    assert session.log()[-1] == tag
    assert session.prepare().messages[-1] == tag


def test_a_failure_leaves_the_request_as_it_was_and_is_told(
    session: Session, events: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    session.append(user(QUESTION))
    bare = session.prepare(recall=False)

    def broken(*_: Any, **__: Any) -> Any:
        raise StoreIoError("the disk is gone")

    with monkeypatch.context() as patch:
        patch.setattr(type(session.store), "recall", broken)
        answer = session.prepare()
        assert answer.messages == bare.messages
        assert all(one is other for one, other in zip(answer.messages, bare.messages, strict=True))
        failed = RecallFailed("s", "the disk is gone", "StoreIoError")
        assert events[-1] == failed == answer.events[-1]
    assert EVIDENCE in session.prepare().recalled, "the next call tries again"


def test_an_interrupt_is_no_failure_of_recall(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    session.append(user(QUESTION))

    def interrupted(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(type(session.store), "recall", interrupted)
        with pytest.raises(KeyboardInterrupt):
            session.prepare()
    assert EVIDENCE in session.prepare().recalled


def test_what_is_forgotten_leaves_the_block_of_the_turn_at_once(session: Session) -> None:
    session.append(user("tell me again, which walrus password?"))
    assert "basalt-seven" in session.prepare().recalled
    session.forget(text="basalt-seven")
    session.append(*exchange(200))
    assert "basalt-seven" not in session.prepare().recalled


def test_what_is_in_context_again_is_not_recalled(session: Session) -> None:
    session.append(user(QUESTION))
    assert EVIDENCE in session.prepare().recalled
    while session.undo_compaction() is not None:
        pass
    assert EVIDENCE in json.dumps(session.history())
    assert EVIDENCE not in session.prepare(policy=None).recalled


def test_an_entry_of_a_caller_s_own_over_messages_in_view_is_not_placed_twice(tmp_path: Path) -> None:
    with opened(tmp_path, policy=None, recall=RecallConfig(auto_recall_min_score=0.0)) as one:
        one.append(user(EVIDENCE), assistant("noted"), user(QUESTION))
        one.store.index("s", [Entry(EVIDENCE, source_range=(0, 1)), Entry("walrus password", (5, 9))])
        block = one.prepare().recalled
        assert "walrus password" in block
        assert EVIDENCE not in block


def test_oc_83_nothing_is_placed_where_the_window_is_full(tmp_path: Path, events: list[Any]) -> None:
    with opened(tmp_path, events, context_window=2_000) as one:
        talk(one)
        one.append(user("word " * 1_100 + "\n" + QUESTION))
        one.prepare(recall=False)
        left = 2_000 - one.prepare(recall=False).tokens
        block = one.recall(QUESTION)
        one.append(assistant("x"), user(QUESTION), *exchange(400, "word " * (left * 4 // 5 - 60)))
        answer = one.prepare(policy=None)
        assert estimate_tokens([*answer.history, user(block)], "blocks") > 2_000 >= answer.tokens
        assert (answer.recalled, events[-1].reason) == ("", "no_room")


def test_what_is_reserved_is_no_room_for_a_block(tmp_path: Path) -> None:
    for reserved in (0, 15_950):
        with opened(tmp_path / str(reserved), policy=None, reserved_tokens=reserved) as one:
            one.store.index("s", [Entry(EVIDENCE)])
            one.append(user(QUESTION))
            answer = one.prepare()
            assert answer.tokens + reserved <= 16_000
            assert (EVIDENCE in answer.recalled) == bool(answer.recalled) == (reserved == 0)


def test_a_turn_whose_request_was_refused_goes_on_without_a_block(session: Session) -> None:
    session.append(user(QUESTION))
    assert session.prepare().recalled
    refused = ValueError("This model's maximum context length is 12000 tokens, but you asked for 13000")
    assert session.recover(refused).recalled == ""
    session.append(*exchange(300))
    assert session.prepare().recalled == ""
    session.append(assistant("basalt-seven"), user("which walrus password did the quarry have?"))
    assert EVIDENCE in session.prepare().recalled


def test_recall_by_hand_takes_a_query_or_messages_and_changes_nothing(session: Session, monkeypatch: Any):
    before = session.history()
    assert EVIDENCE in session.recall(QUESTION) == session.recall([user(QUESTION)])
    assert session.recall("ok") == session.recall([]) == ""
    assert EVIDENCE in (block := session.recall(f"Who has topic3? {QUESTION}"))
    monkeypatch.setattr(type(session.store), "recall", None)  # hits cross one by one now
    assert session.recall(f"Who has topic3? {QUESTION}") == block
    assert session.history() == before


@pytest.mark.parametrize("query", [QUESTION, "gravel and sand " * 300 + f"{QUESTION[:-1]} " * 120])
def test_a_long_hit_is_cut_to_what_was_asked_at_the_end(query: str) -> None:
    with opened(None, memory=SimpleMemoryStore()) as one:
        silt = " silt and clay" * 600
        one.append(user("gravel and sand " * 600 + silt + EVIDENCE + silt), assistant("read"))
        for turn in turns(8):
            one.append(*turn)
            one.prepare(recall=False)
        block = one.recall(query)
        assert EVIDENCE in block
        assert "…" in block
        assert estimate_tokens(block, "blocks") <= 4_000


def test_a_short_follow_up_is_asked_with_what_was_asked_before(session: Session) -> None:
    session.append(user(QUESTION), assistant("let me see"), user("and?"))
    assert EVIDENCE in session.prepare().recalled


DOCUMENTED = RecallConfig.documented(enabled=True)


def test_oc_31_the_documented_form_recalls_at_the_head_by_the_documented_score(tmp_path: Path) -> None:
    with opened(tmp_path, recall=DOCUMENTED) as one:
        talk(one)
        same = user("The walrus password for the quarry is basalt")
        one.append(same, assistant("so"), same, assistant("so"), same)
        answer = one.prepare()
        assert EVIDENCE in answer.recalled
        assert answer.recalled.startswith('<recalled-context source="memory-context">')
        assert recalled(answer.messages) == [1]
        one.append(assistant("basalt-seven"), user("how do penguins hibernate?"), assistant("they do not"))
        one.append(user("sing me something by Schubert"), assistant("la"), user("and a waltz by Strauss"))
        assert one.prepare().recalled == ""


def test_the_documented_form_knows_what_is_too_old_and_what_is_too_much(tmp_path: Path) -> None:
    texts = [Entry(EVIDENCE, created_at=1_000.0), Entry("The walrus password is old.", created_at=2_000.0)]
    asked = "The walrus password for the quarry is"
    with opened(tmp_path, policy=None, recall=DOCUMENTED) as one:
        one.store.index("s", texts)
        one.append(user(asked))
        assert one.prepare().recalled == "", "older than 90 days"
    always = RecallConfig.documented(enabled=True, eviction_days=0, auto_recall_min_score=0.0)
    with opened(tmp_path, policy=None, recall=always) as one:
        assert EVIDENCE in one.prepare().recalled
    newest = RecallConfig.documented(enabled=True, eviction_days=0, auto_recall_min_score=0.0, max_segments=1)
    with opened(tmp_path, policy=None, recall=newest) as one:
        block = one.prepare().recalled
        assert "is old" in block
        assert EVIDENCE not in block


def test_the_documented_form_keeps_no_words_of_what_was_forgotten() -> None:
    store = SimpleMemoryStore()
    store.index("s", [Entry(EVIDENCE), Entry("Penguins nest on stones.")])
    search = DocumentedSearch(store, DOCUMENTED, time.time)
    asked = "the walrus password", 5, ["s"], lambda *_: False
    assert EVIDENCE in {detail.content for detail in search.find(*asked)}
    store.forget(session_id="s", entry_ids=[store.entries("s").entries[0].entry_id])
    assert EVIDENCE not in {detail.content for detail in search.find(*asked)}
    assert not any("walrus" in known.tokens for known in search._known.values())


@pytest.mark.parametrize("placement", ["head", "tail"])
def test_oc_37_what_was_said_in_a_session_never_leaves_its_place_in_the_request(placement: Any) -> None:
    texts = [text for text in hostile() if text.strip()]
    config = RecallConfig(placement=placement, auto_recall_min_score=0.0, expand_neighbors=0, cut=False)
    with opened(None, memory=SimpleMemoryStore(), policy=None, recall=config, redaction=False) as one:
        one.append(user("x"))
        for number, text in enumerate(texts):
            word = f"walrus{number}"
            one.store.index("s", [Entry(f"{word} {text}", created_at=float(number))])
            found = parse_block(one.recall(word))
            assert found is not None, text
            assert (len(found[0]), len(found[1])) == (0, 1), text
            assert found[1][0][2].startswith(word)
        one.append(user("walrus7 walrus8 walrus9"))
        answer = one.prepare()
        assert len(recalled(answer.messages)) == 1
        assert parse_block(answer.recalled) is not None


steps = st.lists(st.sampled_from(["user", "assistant", "tool", "open"]), min_size=1, max_size=6)


@given(steps, st.sampled_from(["head", "tail"]))
def test_a_block_never_parts_a_group_whatever_is_said(said: list[str], placement: Any) -> None:
    with opened(
        None,
        memory=SimpleMemoryStore(),
        policy=None,
        recall=RecallConfig(placement=placement, auto_recall_min_score=0.0),
    ) as one:
        one.store.index("s", [Entry("walrus " + word, (1_000, 1_001)) for word in ("one", "two", "three")])
        pending: list[Any] = []
        listed: list[Any] = []
        for number, step in enumerate(said):
            call, result = exchange(number, "walrus")
            if step == "user":
                listed.append(user(f"walrus {number}?"))
            elif step == "assistant":
                listed.append(assistant("walrus"))
            elif step == "tool":
                listed += call, result
            else:
                listed.append(call)
                pending.append(result)
        one.observe([*listed, *pending])
        answer, bare = one.prepare(), one.prepare(recall=False)
        assert len(recalled(answer.messages)) == bool(answer.recalled)
        assert broken_tool_groups(read_history(answer.messages)) == 0
        sent = [each for each in answer.messages if not isinstance(each, RecalledMessage)]
        assert (sent, answer.history) == (bare.messages, [*listed, *pending])


def test_oc_31_oc_34_facts_come_before_the_details_and_by_themselves(tmp_path: Path) -> None:
    with opened(tmp_path, policy=None, context_window=None) as one:
        one.append(user("which port has the gateway?"))
        assert one.prepare().recalled == ""
        one.save("The gateway listens on port 3000", "fact")
        block = one.prepare().recalled
        [fact] = one.facts()
        day = datetime.fromtimestamp(fact.created_at / 1000, UTC).strftime("%Y-%m-%d")
        assert parse_block(block) == ([("fact", f"The gateway listens on port 3000 ({day})")], [])
        one.retract(fact.id)
        assert one.prepare().recalled == ""


def test_the_share_of_the_block_in_the_providers_count_starts_no_compaction(tmp_path: Path) -> None:
    """The provider counts the block of each request; the next request has another one."""
    with opened(tmp_path, context_window=4_000, recall=RecallConfig(auto_recall_min_score=0.0)) as one:
        talk(one, 60)
        compactions = len(one.compactions())
        blocks = []
        for number in range(12):
            one.append(user(f"what of topic{number} topic{number + 1} topic{number + 2}?"))
            answer = one.prepare()
            blocks.append(estimate_tokens(answer.recalled, "blocks") if answer.recalled else 0)
            one.append(assistant("ok"), usage={"input_tokens": answer.tokens})
        assert max(blocks) > 400, "a block is larger than what is kept free for it"
        assert len(one.compactions()) <= compactions + 1


@pytest.mark.parametrize(("tool", "recalls"), [(None, True), ("memory_search", True), ("read", False)])
def test_a_session_that_works_with_tools_needs_a_better_hit(tool: str | None, recalls: bool, tmp_path: Path):
    with Session.open(tmp_path, "s", context_window=4_000, recall=True, knowledge=False) as session:
        session.append(user("The gate of the quarry opens with basalt-seven."), assistant("Noted."))
        for page in range(40):
            session.append(user(f"Read page {page}"))
            if tool is not None:
                call = {"id": f"c{page}", "type": "function", "function": {"name": tool, "arguments": "{}"}}
                session.append({"role": "assistant", "content": None, "tool_calls": [call]})
                session.append({"role": "tool", "tool_call_id": f"c{page}", "content": "sand and silt"})
            session.append(assistant("sand, silt and gravel. " * 12))
            session.prepare()
        session.append(user("Which gate of Norway opens early in winter?"))
        assert ("basalt-seven" in session.prepare().recalled) is recalls


@pytest.mark.parametrize(
    ("ranker", "more", "recalls"), [("fused", 0.0, True), ("fused", 0.8, False), ("lexical", 0.8, True)]
)
def test_a_store_that_ranks_by_vectors_needs_a_better_hit(
    ranker: Any, more: float, recalls: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("siltstone.session.recalling.FUSED_MORE", more)
    with MemoryStore.open(tmp_path, ranker, Counting()) as store, opened(None, memory=store) as one:
        talk(one)
        one.append(user(QUESTION))
        assert bool(one.prepare().recalled) is recalls
