"""Facts: how they are taken from a text, how they change one another, and how they are found again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from siltstone import Completion, ConfigError
from siltstone.errors import ModelError
from siltstone.knowledge import (
    FACT_TYPES,
    IMPORTANCE,
    Fact,
    InMemoryFacts,
    decide,
    entities_of,
    extraction_flow,
    find_facts,
    find_text,
    history_of,
    learn,
    new_fact,
    parse_facts,
    pattern_facts,
    topics_of,
)
from siltstone.knowledge.update import Held
from siltstone.llm import CompletionRequest, UsageRecord, run
from siltstone.messages import InjectedMessage, Message, RecalledMessage, SummaryMessage, read_history
from siltstone.redaction import redact
from siltstone.tokens import rule


def store_of(*facts: Fact) -> InMemoryFacts:
    store = InMemoryFacts()
    store.put(facts)
    return store


def active(store: InMemoryFacts) -> list[str]:
    return [fact.content for fact in store.facts() if fact.superseded_by is None]


def config(content: str, **known: Any) -> Fact:
    return new_fact("config", content, **known)


def test_the_documented_types_and_their_importance() -> None:
    assert set(FACT_TYPES) == {
        "decision", "implementation", "config", "issue", "task_state", "architecture",
    }  # fmt: skip
    assert IMPORTANCE == {
        "identity": 1.0, "goal": 0.9, "human": 0.85, "decision": 0.8, "todo": 0.8, "preference": 0.7,
        "fact": 0.6, "event": 0.4, "observation": 0.3,
    }  # fmt: skip
    assert new_fact("goal", "ship it").importance == 0.9
    with pytest.raises(ConfigError, match="known are decision, implementation"):
        new_fact("opinion", "x")
    with pytest.raises(ConfigError, match="must not be empty"):
        new_fact("goal", "  ")


def test_oc_44_overlap_is_jaccard_of_lower_cased_words() -> None:
    held = Held([config("use postgresql instead"), config("a b")], documented=True)
    assert [overlap for _, overlap in held.near(config("Use PostgreSQL now"))] == [2 / 4]
    assert [overlap for _, overlap in held.near(config("a b"))] == [1]


@pytest.mark.parametrize(
    ("old", "new", "action"),
    [
        ("Use PostgreSQL for storage", "  use postgresql for STORAGE ", "NONE"),
        ("Use PostgreSQL for the storage", "Use PostgreSQL for storage", "NONE"),
        ("Deploy runs in Docker", "Deploy runs in Docker on the staging host behind nginx", "UPDATE"),
        ("API runs on port 3000", "API runs on port 4000", "SUPERSEDE"),
        ("Use MySQL for the orders", "Use PostgreSQL instead of MySQL for the orders", "SUPERSEDE"),
        ("API on port 3000", "Metrics on port 9090", "ADD"),
        ("API on port 3000", "Metrics now on port 9090", "ADD"),
        ("API is written in Rust", "CLI is written in Rust", "ADD"),
        ("Use PostgreSQL for storage", "The cache is warmed at start", "ADD"),
        # Three words of five are the same; two of four are not, and the subject is: it has changed.
        ("granite basalt chalk marble", "granite basalt chalk flint", "SUPERSEDE"),
        ("granite basalt chalk", "granite basalt flint", "SUPERSEDE"),
        ("Ship to depot Kiel by rail", "Ship to depot Lund by rail", "SUPERSEDE"),
        ("Use oak for the doors of the hall", "Use ash for the doors of the hall", "SUPERSEDE"),
        ("Use oak for the doors", "Never use oak for the doors", "SUPERSEDE"),
        ("Use oak for the doors", "We switched from oak to ash for the doors", "SUPERSEDE"),
        # One word of four is near; one of five is not.
        ("granite basalt", "granite chalk flint", "SUPERSEDE"),
        ("granite basalt chalk", "granite marble slate", "ADD"),
        # 33 characters are more than 1.2 times 27; 30 are not more than 1.2 times 25.
        ("granite basalt chalk marble", "granite basalt chalk marble slate", "UPDATE"),
        ("granite basalt chalk marl", "granite basalt chalk marl silt", "NONE"),
    ],
)
def test_oc_45_what_a_new_fact_does(old: str, new: str, action: str) -> None:
    assert decide(config(new), [config(old)], documented=True)[0] == action


SAID = json.loads((Path(__file__).parent.parent / "data" / "statements.json").read_text("utf-8"))


@pytest.mark.parametrize("half", SAID)
def test_of_two_true_statements_none_is_lost_and_most_changes_are_seen(half: str) -> None:
    """Pairs of statements, written before the rule: both true of different things, a change, a repetition.

    The rule was made with all halves but "fourth, unseen", which was opened when it was done. So was "fifth,
    unseen": it found .58 of the changes and .5 of the repetitions, and the rule was mended after that.
    The rule was not mended for the sixth: weights fitted to all others find .62 of the changes of its unseen
    half, and take the place of twice as many statements that are of something else.
    """
    of_kind = {"both": "ADD", "update": "SUPERSEDE", "repeat": "NONE"}
    right: dict[str, list[bool]] = {kind: [] for kind in of_kind}
    for kind, first, second in SAID[half]["pairs"]:
        action, _ = decide(new_fact("fact", second), [new_fact("fact", first)])
        right[kind].append(action == of_kind[kind])
    shares = {kind: sum(each) / len(each) for kind, each in right.items()}
    assert all(right["both"])
    assert shares["update"] >= SAID[half]["updates"]
    assert shares["repeat"] >= SAID[half]["repetitions"]


@pytest.mark.parametrize(
    ("old", "new", "action"),
    [
        ("The bus to Oslo leaves at 8 pm", "At 20:00 the bus to Oslo leaves", "NONE"),
        ("The bus to Oslo leaves at 8", "The bus from Oslo leaves at 8", "ADD"),
        ("Service A calls service B", "Service B calls service A", "ADD"),
        ("小王借给小李一百块", "小李借给小王一百块", "ADD"),
        ("I'm allergic to nuts", "You're allergic to nuts", "ADD"),
        ("I like my boss", "My boss likes me", "ADD"),
        ("Our standup is at 9 on Monday", "Our standup is at 10 on Tuesday", "ADD"),
        ("The loan is twelve thousand euros", "It's a loan of 12,000 euros", "NONE"),
        ("旅行预算是一万二", "旅行的预算是12000", "NONE"),
        ("The gate is closed", "The main gate is closed", "ADD"),
        ("我爸对海鲜过敏", "我对海鲜过敏", "ADD"),
        ("Project Heron uses Go", "The project is called Heron", "ADD"),
        ("The cache expires after 10 minutes", "We now let the cache expire after 1 hour", "SUPERSEDE"),
        ("The dishwasher is broken", "Someone repaired the dishwasher yesterday", "SUPERSEDE"),
        ("Our lead is Gus", "Gus retired, Lena is our lead", "SUPERSEDE"),
        ("Our lead in Lyon is Gus", "Our lead in Nice is Lena, Gus has left", "ADD"),
        ("Ann works at Acme", "Ann worked at Acme", "ADD"),
        ("We use Redis for sessions", "For caching we switched from Redis to Memcached", "ADD"),
        ("I have a cat", "I have a dog now", "ADD"),
    ],
)
def test_order_and_wording_do_not_matter_but_names_directions_and_qualifiers(
    old: str, new: str, action: str
) -> None:
    assert decide(new_fact("fact", new), [new_fact("fact", old)])[0] == action


def test_a_replaced_fact_tells_why_and_facts_of_two_people_or_contexts_stay_apart() -> None:
    ann, ben = (config("The port is 3000", speaker=f"user {name}") for name in ("ann", "ben"))
    assert decide(ben, [ann])[0] == "ADD"
    assert decide(config("The port is 4000", speaker="user ben"), [ann])[0] == "ADD"
    billing, payroll = (config("The port is 3000", context=name) for name in ("billing", "payroll"))
    assert decide(payroll, [billing])[0] == "ADD"
    assert decide(config("The port is 4000", context="for billing"), [billing])[0] == "SUPERSEDE"
    store = store_of(ann)
    learn(store, [config("We no longer use Redis", speaker="user ann")])
    learn(store, [config("The port is now 4000", speaker="user ann")])
    assert active(store) == ["We no longer use Redis", "The port is now 4000"]
    assert store.facts()[0].superseded_because == "the same subject and relation, another value"


def test_oc_45_update_keeps_the_id_and_supersede_keeps_the_old_one_as_history() -> None:
    short = config("Deploy runs in Docker", source_ranges=((1, 2),))
    store = store_of(short)
    longer = config("Deploy runs in Docker on the staging host behind nginx", source_ranges=((8, 9),))
    learned = learn(store, [longer], documented=True)
    [kept] = store.facts()
    assert (kept.id, kept.content) == (short.id, longer.content)
    assert (kept.source_ranges, kept.support) == (((1, 2), (8, 9)), 2)
    assert [fact.id for fact in learned.updated] == [short.id]


def test_oc_47_sibling_facts_both_stay_active() -> None:
    store = InMemoryFacts()
    learn(
        store,
        [config("API on port 3000"), config("Metrics on port 9090"), config("Metrics now on port 9091")],
        documented=True,
    )
    assert active(store) == ["API on port 3000", "Metrics now on port 9091"]


def test_oc_48_of_a_contradiction_inside_one_batch_the_later_fact_holds() -> None:
    store = InMemoryFacts()
    learned = learn(store, [config("API runs on port 3000"), config("API runs on port 4000")])
    assert active(store) == ["API runs on port 4000"]
    assert (len(learned.added), len(learned.superseded)) == (2, 1)


def test_oc_48_what_was_said_before_and_is_read_late_is_history_at_once() -> None:
    store = store_of(config("API runs on port 4000", source_ranges=((8, 9),), created_at=2_000))
    learned = learn(store, [config("API runs on port 3000", source_ranges=((2, 3), (7, 8)))])
    assert active(store) == ["API runs on port 4000"]
    assert (len(learned.added), len(learned.superseded)) == (1, 1)
    late = next(fact for fact in store.facts() if fact.content == "API runs on port 3000")
    assert late.superseded_at == 2_000
    # A part of it was said after the known one: it is the change.
    learn(store, [config("API runs on port 5000", source_ranges=((7, 9),))])
    assert active(store) == ["API runs on port 5000"]


def test_a_reversal_in_the_same_words_is_a_change() -> None:
    store = InMemoryFacts()
    decision = [
        new_fact("decision", "Use PostgreSQL instead of MySQL"),
        new_fact("decision", "Use MySQL instead of PostgreSQL"),
    ]
    learn(store, decision)
    assert active(store) == ["Use MySQL instead of PostgreSQL"]


def test_oc_49_superseded_facts_stay_queryable_and_are_not_found() -> None:
    store = InMemoryFacts()
    learn(store, [config("API runs on port 3000", created_at=1_000)])
    learn(store, [config("API runs on port 4000", created_at=2_000)])
    learn(store, [config("API runs on port 5000", created_at=3_000)])
    [now] = find_facts(store, "API port")
    assert now[0].content == "API runs on port 5000"
    line = [fact.content for fact in history_of(store, now[0].id)]
    assert line == ["API runs on port 3000", "API runs on port 4000", "API runs on port 5000"]
    assert [fact.content for fact in history_of(store, store.facts()[0].id)] == line


def test_oc_46_a_single_fact_is_found_and_so_is_chinese() -> None:
    store = store_of(config("数据库运行在 端口 5432"))
    assert find_facts(store, "数据库")
    assert find_facts(store, "数据库在哪个端口")
    assert find_facts(store_of(config("Webhook endpoint is /api/stripe")), "which webhook endpoint")
    assert not find_facts(store, "天气")


def test_oc_41_search_orders_by_bm25_then_newer_first_and_keeps_to_the_limit() -> None:
    facts = [config(f"service {n} listens on port {3000 + n}", created_at=n) for n in range(20)]
    store = store_of(*facts)
    found = find_facts(store, "service port")
    assert [fact.created_at for fact, _ in found] == list(range(19, 9, -1))
    assert find_facts(store, "service 7", limit=1)[0][0].created_at == 7
    assert find_facts(store, "service", limit=0) == []


def test_facts_are_filtered_by_type_topic_and_entity() -> None:
    stripe = new_fact("decision", "Pay by Stripe", topics=("payment",), entities=("amount:$5",))
    store = store_of(stripe, config("Pay desk is at /pay"))
    assert [fact for fact, _ in find_facts(store, "pay", types=["decision"])] == [stripe]
    assert [fact for fact, _ in find_facts(store, "pay", topic="payment")] == [stripe]
    assert [fact for fact, _ in find_facts(store, "pay", entity="amount:$5")] == [stripe]


def test_ru_30_the_fallback_finds_the_whole_query_in_a_text_or_a_tag() -> None:
    store = store_of(config("API: port 3000?", tags=("Infra",)), config("x" * 10))
    assert len(find_text(store, "port 3000?")) == 1
    assert len(find_text(store, "infra")) == 1
    assert find_text(store, "") == []


contents = st.lists(
    st.sampled_from(
        [
            "use", "api", "metrics", "on", "port", "3000", "9090", "postgres", "mysql", "instead", "of",
            "now", "runs", "/etc/app",
        ]
    ),
    min_size=1,
    max_size=7,
).map(" ".join)  # fmt: skip


@given(st.lists(st.tuples(st.sampled_from(["config", "decision"]), contents), max_size=12), st.integers(1, 5))
def test_learning_loses_nothing_and_learning_again_changes_nothing(
    batch: list[tuple[str, str]], pieces: int
) -> None:
    facts = [new_fact(kind, content, created_at=place) for place, (kind, content) in enumerate(batch)]
    store = InMemoryFacts()
    for start in range(0, len(facts), pieces):
        learn(store, facts[start : start + pieces])
    whole = InMemoryFacts()
    learn(whole, facts)
    assert [fact.content for fact in whole.facts()] == [fact.content for fact in store.facts()]
    known = {fact.id: fact for fact in store.facts()}
    for fact in known.values():
        assert fact.superseded_by is None or fact.superseded_by in known
    held = active(store)
    learned = learn(
        store, [replace(fact, id=f"{fact.id}-again") for fact in store.facts() if not fact.superseded_by]
    )
    assert not learned.added
    assert active(store) == held


def told(*texts: str, role: str = "user") -> Sequence[Message]:
    return read_history([{"role": role, "content": text} for text in texts])


@pytest.mark.parametrize(
    ("text", "kind", "content"),
    [
        ("Please remember that the demo is on Friday.", "fact", "The demo is on Friday"),
        ("Remember: always run the linter first", "decision", "Always run the linter first"),
        ("We decided to ship without the importer.", "decision", "We decided to ship without the importer"),
        ("Use PostgreSQL instead of MySQL.", "decision", "Use PostgreSQL instead of MySQL"),
        ("I migrated the queue from Redis to NATS", "decision", "I migrated the queue from Redis to NATS"),
        ("Let's go with the smaller model", "decision", "Go with the smaller model"),
        ("Don't forget that Ann is allergic to nuts.", "fact", "Ann is allergic to nuts"),
        ("The port is 3000, not 8080.", "config", "The port is 3000, not 8080"),
        (
            "The API is running on port 3000 behind nginx",
            "config",
            "The API is running on port 3000 behind nginx",
        ),
        (
            "The config is stored in /etc/app/config.toml",
            "config",
            "The config is stored in /etc/app/config.toml",
        ),
        ("Refund logic is not yet implemented", "task_state", "Refund logic is not yet implemented"),
        ("我们决定使用 PostgreSQL。", "decision", "我们决定使用 PostgreSQL"),
        ("请记住服务端口是 8080。", "config", "服务端口是 8080"),
        ("好的！我们决定使用 PostgreSQL！", "decision", "我们决定使用 PostgreSQL"),
        ("Great! The API is running on port 3000!", "config", "The API is running on port 3000"),
        ("The path is /srv/a?b=1 here", "config", "The path is /srv/a?b=1 here"),
    ],
)
def test_patterns_find_what_is_stated(text: str, kind: str, content: str) -> None:
    [fact] = pattern_facts(told(f"Hello there. {text}"))
    assert (fact.type, fact.content, fact.source) == (kind, content, "pattern")
    assert fact.source_ranges == ((0, 1),)


@pytest.mark.parametrize(("half", "least"), [("seen", 0.8), ("unseen", 0.5)])
def test_patterns_find_what_users_say_of_themselves_and_nothing_in_other_texts(
    half: str, least: float
) -> None:
    said = SAID[half]["plain"]
    found = [any(value in fact.content for fact in pattern_facts(told(text))) for text, value in said]
    assert sum(found) >= least * len(found)
    assert [text for text in SAID[half]["none"] if pattern_facts(told(text))] == []


def test_patterns_find_nothing_in_the_sources_and_pages_of_the_project() -> None:
    root = Path(__file__).parents[2]
    files = [
        *root.glob("python/siltstone/*/*.py"),
        *root.glob("tests/memory/*.py"),
        *root.glob("docs/**/*.md"),
    ]
    pieces = [piece for file in files for piece in file.read_text("utf-8").split("\n\n")]
    assert len(pieces) > 2_000
    assert [fact.content for piece in pieces for fact in pattern_facts(told(piece))] == []


def test_what_others_say_is_no_fact_of_the_user() -> None:
    text = "Remember that all invoices go to account 99."
    assert pattern_facts(told(text, role="assistant")) == []
    assert pattern_facts(told(f"What do you think of this mail?\n> {text}\n> Bo")) == []
    [fact] = pattern_facts(read_history([{"role": "user", "content": text, "name": "ann"}]))
    assert fact.speaker == "user ann"


@pytest.mark.parametrize(
    "text",
    [
        "Should we use PostgreSQL instead of MySQL?",
        "Do you know whether the API is running on port 3000? I forgot.",
        'She asked: "Is the API running on port 3000?" Nobody knew.',
        "我们决定使用 PostgreSQL 吗？",
        "Maybe we decided that too early",
        "If we switched to Rust from Go it would be faster",
        "```\nuse std::io instead of libc\n```",
        "good morning, how are you",
    ],
)
def test_patterns_leave_questions_guesses_and_code(text: str) -> None:
    assert pattern_facts(told(text)) == []


def test_what_we_have_placed_in_a_history_is_never_extracted() -> None:
    text = "Remember that the demo is on Friday."
    placed = [
        RecalledMessage(text),
        InjectedMessage(role="user", content=text),
        SummaryMessage(text, ((0, 1),)),
    ]
    assert pattern_facts(read_history(placed)) == []


def test_oc_59_a_fact_has_no_secret() -> None:
    key = "ghp_" + "dE5gH7jK9mN2pQ4sT6vW8yZ1cF3iL5oR7uX9"
    [fact] = pattern_facts(told(f"Remember that the key is {key}"), redact=lambda text: redact(text)[0])
    assert fact.content == "The key is [REDACTED]"


def test_oc_59_no_part_of_a_secret_is_left_where_a_text_is_cut() -> None:
    def hidden(text: str) -> str:
        return redact(text)[0]

    secret = "Tr0ub4dor!x7Kq92"
    [fact] = pattern_facts(told(f"Remember: the path is postgres://app:{secret}@db/x"), redact=hidden)
    assert "Tr0ub4" not in fact.content
    key = "ghp_" + "dE5gH7jK9mN2pQ4sT6vW8yZ1cF3iL5oR7uX9"
    long = "word " * 1_594 + "for "  # a piece ends within the key
    asked: list[str] = []

    def model(request: CompletionRequest) -> Completion:
        asked.append(str(request.messages[0]["content"]))
        return Completion("[]", UsageRecord("m", 1, 1, 0, "facts"))

    run(extraction_flow(told(long + key + " end", *["more"] * 4), redact=hidden), model)
    assert len(asked) == 2
    assert "User: word" in asked[0]
    assert not any(key[at : at + 6] in text for text in asked for at in range(4, len(key) - 6))


ANSWER = '[{"type": "decision", "content": "Use Stripe", "context": "payment"}]'


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (ANSWER, [("decision", "Use Stripe", "payment")]),
        (f"```json\n{ANSWER}\n```", [("decision", "Use Stripe", "payment")]),
        (f'Here: {{"facts": {ANSWER}}} done', [("decision", "Use Stripe", "payment")]),
        ('{"type": "issue", "content": "It leaks"}', [("issue", "It leaks", "")]),
        ('[{"type": "gossip", "content": "x"}, {"type": "issue", "content": " "}, 3]', []),
        ("[]", []),
    ],
)
def test_oc_42_the_parser_takes_what_is_well_formed(text: str, found: list[tuple[str, str, str]]) -> None:
    assert parse_facts(text) == found


@pytest.mark.parametrize("text", ["", "no facts", "[", "{]}", '"x"', "3"])
def test_oc_42_the_parser_refuses_what_is_no_json(text: str) -> None:
    with pytest.raises(ValueError, match=r"JSON|array|Expecting|delimiter|property"):
        parse_facts(text)


USE, LEAK = ("decision", "Use Stripe", ""), ("issue", "The parser leaks", "")
AS_JSON = [json.dumps({"type": kind, "content": content}) for kind, content, _ in (USE, LEAK)]


@pytest.mark.parametrize(
    "text",
    [
        f"[{AS_JSON[0]}, {AS_JSON[1]}, " + '{"type": "config", "content": "The port of red',
        "\n".join(AS_JSON),
        f"Here they are:\n```json\n[{', '.join(AS_JSON)}]\n```\nAsk me for more.",
        f'<think>Perhaps [{{"type": "config", "content": "a draft"}}].</think>[{", ".join(AS_JSON)}]',
        f'I think of {{"type": "config", "content": "a draft"}}\n</think>\n[{", ".join(AS_JSON)}]',
        f'{{"facts": [{", ".join(AS_JSON)}], "note": "that is all"}}',
        f"[{', '.join(AS_JSON * 9)}]",
        f"- {AS_JSON[0]}\n- {AS_JSON[1]},",
    ],
)
def test_facts_are_read_however_a_model_writes_them(text: str) -> None:
    assert parse_facts(text) == [USE, LEAK]


def test_a_fact_has_at_most_300_characters() -> None:
    ((_, content, context),) = parse_facts(
        json.dumps({"type": "issue", "content": "word " * 200, "context": "x" * 900})
    )
    assert (len(content), len(context)) == (299, 300)
    assert content.endswith("word")


@pytest.mark.parametrize(
    ("content", "is_kept"),
    [
        ("The harbour is closed on Sunday", True),
        ("Ann prefers tea over coffee", True),
        ("Crane 2 lifts 40 tons", True),
        ("港口周日关闭", True),
        ("The user greets the assistant", False),
        ("Ann says thank you", False),
        ("...", False),
        ("what was chosen, and over what", False),
        ("Crane 2 lifts 45 tons", False),
        ("Payments are verified with webhook signatures", False),
        ("火车站在城北", False),
    ],
)
def test_only_what_a_message_says_is_stored(content: str, is_kept: bool) -> None:
    messages = told(
        "Hello, thank you! The harbour is closed on Sunday, said Ann.",
        "She likes tea, and prefers it to coffee.",
        "Crane 2 can lift 40 tons.",
        "港口在周日关闭。",
        "Good.",
    )
    answer = json.dumps([{"type": "preference", "content": content}])
    extraction = run(extraction_flow(messages), lambda request: answer)
    assert [fact.content for fact in extraction.facts] == [content] * is_kept


@pytest.mark.parametrize("text", ["word " * 400, "港口周日关闭" * 200, "0123456789 " * 300])
def test_a_piece_with_its_answer_fits_the_window_of_the_model(text: str) -> None:
    window, counted = 2_048, rule("blocks")
    asked: list[CompletionRequest] = []

    def model(request: CompletionRequest) -> str:
        asked.append(request)
        return "[]"

    messages = told(*[text] * 6)
    run(extraction_flow(messages, window=window, rule=counted), model)
    assert len(asked) > 1
    for request in asked:
        assert counted.count(read_history(request.messages)) + request.max_tokens <= window
    whole = "".join(str(request.messages[0]["content"]) for request in asked)
    assert whole == "".join(f"User: {message.text.strip()}\n" for message in messages)


def test_a_piece_that_the_model_finds_too_large_is_halved_and_a_late_answer_ends_the_reading() -> None:
    asked: list[str] = []

    def small(request: CompletionRequest) -> str:
        asked.append(str(request.messages[0]["content"]))
        if len(asked[-1]) > 3_000:
            raise ValueError("This model's maximum context length is 1024 tokens, you requested 2000 tokens")
        return "[]"

    messages = told(*["word " * 700 for _ in range(6)])
    extraction = run(extraction_flow(messages), small)
    assert (extraction.failures, extraction.is_late) == ((), False)
    taken = [text for text in asked if len(text) <= 3_000]
    assert "".join(taken) == "".join(f"User: {message.text.strip()}\n" for message in messages)
    assert extraction.pieces == len(taken)

    def late(request: CompletionRequest) -> str:
        raise TimeoutError("no answer within 30 s")

    stopped = run(extraction_flow(messages), late)
    assert (stopped.pieces, stopped.is_late) == (1, True)


def test_at_most_fifteen_facts_of_a_piece() -> None:
    many = json.dumps([{"type": "issue", "content": f"issue {n}"} for n in range(40)])
    assert len(parse_facts(many)) == 15


def test_oc_43_too_little_asks_no_model() -> None:
    def never(request: CompletionRequest) -> str:
        raise AssertionError("asked")

    assert run(extraction_flow(told(*["word " * 50] * 4)), never).pieces == 0
    assert run(extraction_flow(told(*["ab"] * 5)), never).pieces == 0


def test_oc_43_block_arrays_are_read_and_a_failing_model_gives_nothing_and_is_told_of() -> None:
    blocks = read_history([{"role": "user", "content": [{"type": "text", "text": "a long text " * 5}]}] * 5)

    def fails(request: CompletionRequest) -> str:
        raise ValueError("no network")

    extraction = run(extraction_flow(blocks), fails)
    assert (extraction.facts, extraction.pieces) == ((), 1)
    assert "no network" in extraction.failures[0]


def test_oc_51_extraction_covers_the_whole_text_in_pieces() -> None:
    messages = told(*[f"message {n} " + "word " * 900 for n in range(12)])
    asked: list[str] = []

    def model(request: CompletionRequest) -> Completion:
        asked.append(request.messages[0]["content"])
        number = len(asked)
        text = json.dumps([{"type": "issue", "content": f"message told of word {chr(96 + number)}"}])
        return Completion(text, UsageRecord("m", 10, 2, 0, "summary"))

    extraction = run(extraction_flow(messages, session_id="s"), model)
    assert all(len(piece) <= 8_000 for piece in asked)
    assert "".join(asked) == "".join(f"User: {message.text.strip()}\n" for message in messages)
    assert len(extraction.facts) == len(extraction.usage) == extraction.pieces == len(asked) >= 7
    covered = sorted(
        {seq for fact in extraction.facts for start, end in fact.source_ranges for seq in range(start, end)}
    )
    assert covered == list(range(12))
    assert {fact.session_id for fact in extraction.facts} == {"s"}


def test_a_prompt_has_the_focus_and_excludes_secrets() -> None:
    flow = extraction_flow(told(*["word " * 50] * 5), focus="payments")
    request = next(flow)
    instruction = request.messages[-1]["content"]
    assert "payments" in instruction
    assert all(kind in instruction for kind in FACT_TYPES)
    assert all(
        word in instruction for word in ("secret", "greetings", "guesses", "content of files", "debugging")
    )
    with pytest.raises(StopIteration):
        flow.throw(ModelError("gone"))


def test_oc_80_topics_in_english_and_chinese() -> None:
    assert topics_of("We deploy PostgreSQL with Docker") == ("database", "deployment")
    assert topics_of("数据库 部署 到生产环境") == ("database", "deployment")
    assert topics_of("the contest was protested") == ()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("see https://a.example/x?y=1.", [("url", "https://a.example/x?y=1")]),
        ("mail ann@example.com", [("email", "ann@example.com")]),
        (
            "buy $AAPL or NASDAQ: MSFT or 600519.SH",
            [("stock", "$AAPL"), ("stock", "NASDAQ: MSFT"), ("stock", "600519.SH")],
        ),
        ("股票代码 600519", [("stock", "股票代码 600519")]),
        ("on 2026-02-10 and 2026年2月10日", [("date", "2026-02-10"), ("date", "2026年2月10日")]),
        ("it cost $1,200.50 or 300元", [("amount", "$1,200.50"), ("amount", "300元")]),
        ("it cost $1,200, then 5 USD.", [("amount", "$1,200"), ("amount", "5 USD")]),
        ("1,234,567.89 EUR, v1,5 USD", [("amount", "1,234,567.89 EUR"), ("amount", "5 USD")]),
        ("the project siltstone", [("project", "siltstone")]),
        ("contact Dr. Ann Lee", [("person", "Ann Lee")]),
        ("我叫王小明", [("person", "王小明")]),
        ("the number 600519 in HTTP", []),
    ],
)
def test_oc_81_entities_by_pattern(text: str, found: list[tuple[str, str]]) -> None:
    assert list(entities_of(text)) == found


def test_a_table_of_numbers_is_read_for_entities_as_soon_as_a_prose_of_its_length() -> None:
    """From each number it was read again to the last one: a file of 100 kB took minutes."""
    assert entities_of("1,2,3.5,10," * 10_000) == ()
    assert [each.text for each in entities_of("1,2," * 10_000 + " 7 USD")] == ["7 USD"]


def test_facts_of_an_entity_are_found_by_its_name_with_and_without_its_kind() -> None:
    """The search compared the stored form alone, while the list of facts took both."""
    said = config("The API of Ann is on port 3000")
    store = store_of(replace(said, entities=("person:Ann",)))
    for name in ("person:Ann", "Ann"):
        assert [fact.content for fact, _ in find_facts(store, "API port", entity=name)] == [said.content]
    assert find_facts(store, "API port", entity="Bob") == []
