"""The smart trim, row by row: the messages that stay, those that leave first, and when none does."""

import copy
import json
import math
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from compacting import Raw, assistant, exchange, filler, run, system, user
from playing import Play
from siltstone import ConfigError, Session, SmartTrim, SmartTrimConfig, compact, estimate_tokens
from siltstone.compaction import CompactionContext, Trigger
from siltstone.engine import Compacted, Skipped
from siltstone.errors import InvalidMessageError
from siltstone.index import Bm25Index
from siltstone.messages import (
    History,
    RecalledMessage,
    SummaryMessage,
    broken_tool_groups,
    read_message,
    validate_history,
)
from siltstone.messages.conversion import convert
from siltstone.messages.own_messages import tombstone
from siltstone.messages.text import without_prefixes
from siltstone.systems.openclaw import recent_query, smart_trim
from siltstone.transcripts.lists import is_said

DOCUMENTED = SmartTrimConfig(documented=True, estimator="chars/3-utf16")
BOTH = pytest.mark.parametrize("config", [SmartTrimConfig(), DOCUMENTED], ids=["ours", "documented"])

BLOCK = (
    '<recalled-context source="memory-context">\n\n<detail>\n[2026-02-10 14:31 user] x\n</detail>\n\n'
    "</recalled-context>"
)


def talk(count: int, topic: str = "weather", words: int = 30) -> list[Raw]:
    kinds = (user, assistant)
    return [kinds[n % 2](f"{topic} {n} {filler(words)}") for n in range(count)]


def tokens(raws: list[Raw], config: SmartTrimConfig) -> int:
    return estimate_tokens(raws, config.estimator)


def kept(result: Any, raws: list[Raw]) -> list[int]:
    places = {id(raw): at for at, raw in enumerate(raws)}
    return [places[id(raw)] for raw in result.retained]


@BOTH
def test_oc_01_under_the_limit_the_same_list_comes_back(config: SmartTrimConfig):
    raws = talk(10)
    result = smart_trim(raws, 10_000, config)
    assert result.retained is raws
    assert not result.did_trim
    assert list(result.trimmed) == []
    assert result.reason == "within_limit"


@BOTH
def test_oc_02_03_system_and_the_last_six_of_user_and_assistant_stay(config: SmartTrimConfig):
    raws = [system(filler(200)), *talk(20)]
    result = smart_trim(raws, 1, config)
    assert kept(result, raws) == [0, *range(15, 21)]


@BOTH
def test_oc_03_tool_results_do_not_count_as_recent(config: SmartTrimConfig):
    raws = [*talk(10), *exchange("a", "one"), *exchange("b", "two"), *talk(4)]
    stays = kept(smart_trim(raws, 1, config), raws)
    assert stays == [10, 11, 12, 13, 14, 15, 16, 17], "two calls and four messages are six"


@BOTH
def test_oc_04_what_has_least_to_do_with_the_question_leaves_first(config: SmartTrimConfig):
    raws = [
        *talk(2, "cooking pasta"),
        *talk(2, "database migration"),
        *talk(2, "holiday plans"),
        *talk(5, "small things"),
        user("How did the database migration end?"),
    ]
    limit = tokens(raws, config) - 2 * tokens(raws[:1], config)
    result = smart_trim(raws, limit, config)
    assert kept(result, raws) == list(range(2, 12)), "the two oldest of those without the question's words"


@BOTH
def test_oc_05_what_has_no_text_leaves_last_by_time(config: SmartTrimConfig):
    blank = {"role": "assistant", "content": " "}
    raws = [blank, *talk(2), dict(blank), *talk(6)]
    result = smart_trim(raws, 1, config)
    assert kept(result, raws) == list(range(4, 10))
    first = smart_trim(raws, tokens(raws, config) - 1, config)
    assert [raw["content"] for raw in first.trimmed] != [" "], "texts go before what has none"


ANTHROPIC = (
    {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {}}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "r"}]},
)
RESPONSES = (
    {"type": "function_call", "call_id": "t", "name": "f", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "t", "output": "r"},
)
LEGACY = (
    {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
    {"role": "function", "name": "f", "content": "r"},
)


@BOTH
@pytest.mark.parametrize("pair", [tuple(exchange("t", "r")), ANTHROPIC, RESPONSES, LEGACY])
@pytest.mark.parametrize("relevant", ["call", "result"])
def test_oc_06_calls_and_results_leave_together(config: SmartTrimConfig, pair: Any, relevant: str):
    """Whichever of the two the question asks for, and however much has to leave."""
    call, result = copy.deepcopy(pair)
    if relevant == "call":
        text = json.dumps(call).replace("src/t.py", "kettle").replace('"{}"', '"{\\"q\\": \\"kettle\\"}"')
        call = json.loads(text.replace('"input": {}', '"input": {"q": "kettle"}'))
        assert "kettle" in json.dumps(call)
    else:
        result = json.loads(json.dumps(result).replace('"r"', '"kettle"'))
    raws = [*talk(1), call, result, *talk(8), *exchange("last", "out"), user("And now?")]
    config, pairs = replace(config, query="Where is the kettle?"), set()
    for limit in range(1, tokens(raws, config), 7):
        trimmed = smart_trim(raws, limit, config)
        stays = kept(trimmed, raws)
        assert (1 in stays) == (2 in stays)
        assert broken_tool_groups(list(trimmed.retained)) == 0
        pairs.add(1 in stays)
        if 1 not in stays:
            assert {0, 3, 4, 5, 6}.isdisjoint(stays), "what has none of the question's words left before"
    assert pairs == {True, False}


@BOTH
def test_oc_07_a_recalled_block_is_not_trimmed_and_a_quotation_of_its_marker_is(config: SmartTrimConfig):
    quoted = user(f"What does {BLOCK} mean? {filler(30)}")
    twice = user(f"{BLOCK}\n{BLOCK}")
    raws = [user(BLOCK), quoted, twice, *talk(10)]
    result = smart_trim(raws, 1, config)
    assert raws[0] not in result.trimmed
    assert quoted in result.trimmed
    assert twice in result.trimmed, "a block of ours stands alone"


@BOTH
def test_oc_07_a_recalled_block_of_a_list_from_json_is_neither_recent_nor_a_part_of_the_query(
    config: SmartTrimConfig,
):
    block = json.loads(json.dumps(RecalledMessage(BLOCK)))
    raws = [user("Where is the kettle?"), *talk(6), block, *talk(5), user(BLOCK), user("So?")]
    said = [raws[at]["content"].strip() for at in (10, 12, 14)]
    assert recent_query(History(raws)) == " ".join(said)
    stays = kept(smart_trim(raws, 1, config), raws)
    assert stays == [7, 8, 9, 10, 11, 12, 13, 14], "six that were said, and two blocks"


@BOTH
def test_oc_08_an_empty_list(config: SmartTrimConfig):
    assert smart_trim([], 100, config).reason == "within_limit"


@BOTH
@given(st.integers(1, 60), st.integers(1, 2_000), st.integers(0, 8))
def test_oc_09_a_second_trim_finds_nothing_to_do(
    config: SmartTrimConfig, count: int, limit: int, recent: int
):
    config = replace(config, protected_recent=recent)
    raws = talk(count, "alpha", 5)
    once = smart_trim(raws, limit, config)
    twice = smart_trim(list(once.retained), limit, config)
    assert (twice.did_trim, list(twice.retained)) == (False, list(once.retained))


@BOTH
def test_oc_10_exactly_at_the_limit_nothing_is_trimmed(config: SmartTrimConfig):
    raws = talk(20)
    size = tokens(raws, config)
    assert smart_trim(raws, size, config).reason == "within_limit"
    assert smart_trim(raws, size - 1, config).did_trim


@BOTH
def test_oc_11_of_equal_scores_the_oldest_leaves_first(config: SmartTrimConfig):
    raws = [assistant("same text here") for _ in range(10)] + [user("unrelated question")]
    limit = tokens(raws, config) - 1
    assert kept(smart_trim(raws, limit, config), raws) == list(range(1, 11))


@BOTH
@pytest.mark.parametrize("place", [1, 2])
def test_oc_12_a_summary_stays(config: SmartTrimConfig, place: int):
    summary = SummaryMessage("[Context compacted]\n\nEarlier things.", ((0, 5),))
    raws: list[Any] = [system("Rules."), *talk(12)]
    raws.insert(place, summary)
    assert any(raw is summary for raw in smart_trim(raws, 1, config).retained)


def test_oc_12_a_hosts_own_summary_is_known_by_its_predicate():
    raws = [system("Rules."), user("SUMMARY: earlier things"), *talk(12)]
    config = SmartTrimConfig(is_summary=lambda raw: str(raw["content"]).startswith("SUMMARY"))  # type: ignore[index]
    assert [raws[1] in smart_trim(raws, 1, each).retained for each in (config, None)] == [True, False]


@BOTH
def test_oc_13_parallel_calls_with_late_results_stay_whole(config: SmartTrimConfig):
    calls = [exchange(f"p{n}", f"result {n}") for n in range(3)]
    together = {"role": "assistant", "content": None, "tool_calls": [c[0]["tool_calls"][0] for c in calls]}
    raws = [*talk(8), together, calls[0][1], calls[1][1], user("Wait."), calls[2][1], *talk(7)]
    stays = kept(smart_trim(raws, 1, config), raws)
    assert {8, 9, 10, 12} <= set(stays), "the last tool span"
    raws += [*exchange("later", "out"), user("Done?")]
    stays = kept(smart_trim(raws, 1, config), raws)
    assert {8, 9, 10, 12}.isdisjoint(stays)


@BOTH
def test_oc_14_a_protected_message_is_never_removed_by_pairing(config: SmartTrimConfig):
    raws = [*exchange("old", "far away"), *talk(4)]
    stays = kept(smart_trim(raws, 1, config), raws)
    assert stays == list(range(6)), "the call is among the last six, so its result stays as well"


@pytest.mark.parametrize("kind", ["tool_use", "toolUse", "toolCall", "functionCall"])
def test_the_messages_of_its_host_are_paired_trimmed_and_returned_as_they_came(kind: str, tmp_path: Path):
    """Calls are blocks of four types, also behind other blocks; results have a role of their own."""

    def called(name: str) -> Raw:
        thought = {"type": "thinking", "thinking": "hm", "thinkingSignature": "s"}
        arguments = "input" if kind == "tool_use" else "arguments"
        call = {"type": kind, "id": name, "name": "ls", arguments: {"path": "."}}
        return {"role": "assistant", "content": [thought, {"type": "text", "text": "I look."}, call]}

    def answer(name: str, content: Any, key: str = "toolCallId") -> Raw:
        return {"role": "toolResult", key: name, "toolName": "ls", "content": content, "isError": True}

    picture = {"type": "image", "data": "QUJD", "mimeType": "image/png"}
    raws: list[Raw] = [{"role": "user", "content": [picture, {"type": "text", "text": "see"}]}]
    for n in range(16):
        content = [{"type": "text", "text": f"found {n} " + filler(300)}, picture] if n % 2 else filler(300)
        key = "toolCallId" if n % 3 else "toolUseId"
        raws += [user(f"look {n}"), called(f"c{n}"), answer(f"c{n}", content, key), assistant(filler(300))]
    assert broken_tool_groups(raws) == 0
    [result, *_] = read_message(raws[7], 7).parts
    assert (result.call_id, result.name, result.is_error) == ("c1", "ls", True)
    assert [part.arguments for part in read_message(raws[2], 2).parts][2] == '{"path":"."}'
    with Session.open(tmp_path, "s", preset="openclaw", model=None, context_window=16_000) as session:
        session.append(*raws, user("And c1?"))
        prepared = session.prepare()
        assert prepared.trimmed
        assert broken_tool_groups(prepared.messages) == 0
        sent = [raw for raw in prepared.messages if not isinstance(raw, RecalledMessage)]
        assert all(any(raw is own for own in session.history()) for raw in sent)
        assert session.log()[:-1] == raws
        session.append(answer("ghost", "nobody called"), called("open"))
        *rest, repaired = session.prepare().messages
        assert (repaired["role"], repaired["toolCallId"], repaired["isError"]) == ("toolResult", "open", True)
        assert not any(raw.get("toolCallId") == "ghost" for raw in rest)
        broken_off = {**called("half"), "stopReason": "aborted"}
        if kind != "tool_use":
            session.append(answer("open", "it was late"), broken_off)
            assert session.prepare().messages[-1] is broken_off, "nobody runs its calls"
    assert broken_tool_groups([tombstone(raw) for raw in raws]) == 0
    converted = convert(raws, "anthropic")
    assert validate_history(converted.messages, "anthropic", pending_ok=False) == []
    assert {each.part for each in converted.losses} == {"content[0] (thinking)"}


def test_its_own_messages_are_the_users_for_a_model_and_ask_for_nothing(tmp_path: Path):
    """A summary, a command that the user ran, a text of an extension; one that no model may see."""
    own: list[Raw] = [
        {"role": "compactionSummary", "summary": "A barn was built.", "tokensBefore": 9, "timestamp": 1},
        {"role": "bashExecution", "command": "ls", "output": "walrus.txt", "exitCode": 2, "truncated": False},
        {"role": "bashExecution", "command": "env", "output": "ocelot", "excludeFromContext": True},
        {"role": "custom", "customType": "hint", "content": "use gnu tools", "display": True},
        {"role": "branchSummary", "summary": "A heron came.", "fromId": "x"},
    ]
    said = ["A barn was built.", "Ran `ls` (exit code 2)\nwalrus.txt", "", "use gnu tools", "A heron came."]
    read = History([*own, user("go on")])
    assert ([each.text for each in read][:5], read.outline.requests) == (said, [5])
    converted = {raw["role"] for raw in convert(own, "anthropic").messages}
    assert (converted, all(map(is_said, own))) == ({"user"}, True), "an import takes them, too"
    with Session.open(tmp_path, "s", preset="openclaw", model=None, context_window=16_000) as session:
        session.append(*own, *talk(200, words=60))
        prepared = session.prepare()
        assert (prepared.trimmed[0][0], session.log()[:5], own[0] in prepared.messages) == (1, own, True)
        assert (session.search("walrus")[0].content, session.search("ocelot")) == (said[1], [])
        session.forget(text="walrus")
        assert session.log()[1] == {"role": "bashExecution", "content": "[forgotten]"}
    with pytest.raises(InvalidMessageError, match=r"'branchSummary\.summary' must be text, got nothing"):
        read_message({"role": "branchSummary"}, 0)


def test_oc_16_what_is_trimmed_is_handed_over_as_discarded():
    session = Play(SmartTrim(), window=16_000)
    outcomes = session.add(*talk(200, words=60))
    first = outcomes[0]
    assert (first.discarded != (), first.summary, first.summaries) == (True, "", ())
    in_view = {m.seq for m in session.view}
    gone = {n for o in outcomes if isinstance(o, Compacted) for s, e in o.covers for n in range(s, e)}
    assert gone | in_view == set(range(200))
    assert gone.isdisjoint(in_view)
    assert session.requests == []


@BOTH
@pytest.mark.parametrize("query", ["y", "ok", "  y "])
def test_oc_19_a_query_under_three_characters_skips_the_trim(config: SmartTrimConfig, query: str):
    raws = [*(assistant(f"weather {n} {filler(30)}") for n in range(10)), user(query)]
    result = smart_trim(raws, 1, config)
    assert (result.did_trim, result.reason) == (False, "query_too_short")
    longer = [*raws[:-1], user("abc")]
    assert smart_trim(longer, 1, config).did_trim, "three characters are enough"
    outcome = Play(SmartTrim(), window=16_000)
    outcome.append(*(assistant(filler(900)) for _ in range(60)), user(query))
    assert isinstance(outcome.boundary(), Skipped)


def test_oc_15_64_the_documented_estimate():
    call, result = exchange("a", "x" * 300)
    assert estimate_tokens(result, "chars/3-utf16") == 100
    assert estimate_tokens(call, "chars/3-utf16") == math.ceil(len('{"path": "src/a.py"}') / 3)
    texts = "", "hello", "\U0001f600" * 3  # two UTF-16 units each
    assert [estimate_tokens(each, "chars/3-utf16") for each in texts] == [1, 2, 2]


def test_oc_70_the_safe_limit():
    both = SmartTrimConfig(), SmartTrim.documented().config
    assert [each.safe_limit(16_000) for each in both] == [10_400, 8_000]
    assert [each.safe_limit(200_000) for each in both] == [192_000, 192_000]


def test_oc_70_a_share_gives_the_reserve_and_an_explicit_reserve_wins():
    assert SmartTrimConfig(max_history_share=0.7).safe_limit(16_000) == 16_000 - 4_800 - 1_600
    assert SmartTrimConfig(max_history_share=0.7).safe_limit(16_005) == 16_005 - 4_802 - 1_600, "of 4,801.5"
    assert SmartTrimConfig(max_history_share=0.5).safe_limit(16_001) == 16_001 - 8_001 - 1_600, "of 8,000.5"
    assert SmartTrimConfig(max_history_share=0.7, reserve_tokens=100).safe_limit(16_000) == 14_300
    assert SmartTrimConfig().safe_limit(4_445) == 1, "4,445 less 4,000 and 444"


def test_oc_70_no_room_is_refused_with_the_numbers():
    SmartTrim().check_overhead(10_399, 16_000)
    for beside, window, said in ((0, 4_444, "must be > 0"), (10_400, 16_000, "reserved_tokens, got 10400")):
        with pytest.raises(ConfigError, match=f"safe limit.*{said}"):
            SmartTrim().check_overhead(beside, window)


def test_a_trim_is_due_above_the_safe_limit_with_what_is_sent_beside_the_history():
    policy, context = SmartTrim(), CompactionContext(0, context_window=16_000)
    assert policy.should_compact(replace(context, estimated_history_tokens=10_400)) is None
    beside = replace(context, estimated_history_tokens=10_000, reserved_tokens=400)
    assert policy.should_compact(beside) is None
    due = policy.should_compact(replace(beside, reserved_tokens=401))
    assert (due.tokens, due.threshold, due.reserved_tokens) == (10_401, 10_400, 401)


def test_what_is_sent_beside_the_history_makes_its_limit_lower():
    raws = talk(120, words=60)
    trigger = Trigger("history_tokens", "trim", context_window=16_000, reserved_tokens=4_000)
    _, result = run(raws, SmartTrim(), trigger=trigger)
    left = SmartTrim().token_rule.count(result.messages)
    one = tokens(raws[:1], SmartTrimConfig())
    assert 5_120 - 2 * one < left <= 5_120, "0.8 of 10,400 less 4,000"


@pytest.mark.parametrize("rules", [[], [system("Rules.")]])
def test_where_the_user_has_opened_the_history_the_user_opens_what_stays(rules: list[Raw]):
    raws = [*rules, *talk(200, words=60)]
    first = len(rules)
    raws[first + 11] = assistant(f"The kettle is on. {filler(60)}")
    policy = SmartTrim(SmartTrimConfig(query="Where is the kettle?"))
    trigger = Trigger("history_tokens", "trim", context_window=16_000)
    history, result = run(raws, policy, trigger=trigger)
    places = [history.index(message) for message in result.messages]
    assert places[: first + 2] == [*range(first), first + 10, first + 11], "the request before the answer"
    assert policy.token_rule.count(result.messages) <= 10_400
    opened = [*rules, assistant("Hello."), *raws[first + 1 :]]
    history, result = run(opened, policy, trigger=trigger)
    places = [history.index(message) for message in result.messages]
    assert places[first] == first + 11, "a history that an answer has opened may go on so"


def test_oc_75_the_query_is_the_last_three_requests_without_prefixes():
    dated = user("System: [2026-02-15 18:49:02 GMT+8] connected\n[Sun 2026-02-15 18:50 GMT+8] three")
    raws = [user("one"), user("two"), assistant("a"), dated, user("four")]
    assert recent_query(History(raws)) == "two three four"


def test_oc_56_pasted_log_lines_survive_and_a_message_of_prefixes_alone_stays():
    log = "[2026-02-15 18:49:02] ERROR db timeout\n[2026-02-15 18:49:03] ERROR again\nWhy?"
    assert without_prefixes(log) == "ERROR db timeout\n[2026-02-15 18:49:03] ERROR again\nWhy?"
    alone = "System: [2026-02-15 18:49:02] connected"
    assert without_prefixes(alone) == alone
    assert without_prefixes("[not a date] hello") == "[not a date] hello"


@BOTH
def test_oc_82_a_query_without_any_hit_trims_by_time(config: SmartTrimConfig):
    raws = [*(assistant(f"weather {n} {filler(30)}") for n in range(10)), user("y ok go")]
    limit = tokens(raws[3:], config)
    assert kept(smart_trim(raws, limit, config), raws) == list(range(3, 11))


def test_many_messages_are_scored_as_an_index_of_them_would():
    raws = [*talk(3_000, words=90), user("Where is number 1234 of the weather?")]
    limit = tokens(raws, SmartTrimConfig()) // 2
    texts = [str(raw["content"]) for raw in raws[:-6]]
    index, scores = Bm25Index(), [0.0] * len(texts)
    index.add(texts)
    ids, found = index.search(recent_query(History(raws)), len(texts))
    for at, score in zip(ids.tolist(), found.tolist(), strict=True):
        scores[at] = score
    order = sorted(range(len(texts)), key=scores.__getitem__)
    gone = sorted(set(range(len(raws))).difference(kept(smart_trim(raws, limit), raws)))
    assert gone == sorted(order[: len(gone)])


def test_a_policy_is_copied_and_pickled_with_its_settings():
    policy = SmartTrim(SmartTrimConfig(target_share=0.5, prune_tool_bytes=100))
    for copied in (copy.deepcopy(policy), pickle.loads(pickle.dumps(policy))):
        assert copied.config == policy.config
        again, first = (compact(talk(60, words=60), each, context_window=9_000) for each in (copied, policy))
        assert again.messages == first.messages != []


def test_the_policy_aims_lower_than_its_limit_so_that_the_next_message_is_no_trim_again():
    session = Play(SmartTrim(), window=16_000)
    session.add(*talk(200, words=60))
    assert 1 < len(session.runs) < 20


def test_without_a_window_there_is_nothing_to_measure_by():
    session = Play(SmartTrim())
    session.append(*talk(50))
    assert session.boundary() is None
    outcome = session.compact(Trigger("manual"))
    assert (type(outcome), outcome.reason) == (Skipped, "no_context_window")
