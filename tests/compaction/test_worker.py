"""A worker's history: segments, the task that stays, the recap, and results that newer ones supersede."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from compacting import assistant, exchange, filler, outcome, run, system, user
from playing import Play, shown
from siltstone import Session, SimpleMemoryStore, TieredConfig, WorkerCompactor
from siltstone.compaction import CompactionContext, Skip, Trigger
from siltstone.engine import Compacted, Outcome, Skipped
from siltstone.messages import broken_tool_groups, read_history, unmarked
from siltstone.systems.spacebot.worker import NOTHING, recap

WINDOW = 4_000


def steps(count: int, words: int = 60, first: int = 0) -> list[dict[str, Any]]:
    return [
        raw for n in range(first, first + count) for raw in exchange(f"c{n}", f"Result {n}. {filler(words)}")
    ]


SEGMENT = Trigger("fraction", "segment", context_window=WINDOW)


def worked(count: int, trigger: Trigger = SEGMENT, pins: Iterable[int] = ()) -> tuple[Play, Outcome]:
    """A session of *count* steps after a compaction."""
    session = Play(WorkerCompactor(), window=WINDOW)
    session.append(user("Mend the build."), *steps(count))
    session.pins = set(pins)
    return session, session.compact(trigger)


def due(boundary: int, tokens: int, window: int = 1_000, **settings: Any) -> str | None:
    context = CompactionContext(boundary, estimated_history_tokens=tokens, context_window=window)
    config = TieredConfig.documented() if settings.pop("documented", False) else TieredConfig(**settings)
    trigger = WorkerCompactor(config).should_compact(context)
    return None if trigger is None else trigger.action


def test_sb_32_the_end_of_a_segment_acts_from_seven_tenths_on():
    assert [due(15, tokens) for tokens in (699, 700)] == [None, "segment"]
    assert [due(boundary, 900) for boundary in (0, 14, 16, 30)] == [None, None, None, "segment"]


def test_sb_74_the_documented_segment_has_25_turns_and_acts_above_seven_tenths():
    assert [due(25, tokens, documented=True) for tokens in (700, 701)] == [None, "segment"]
    assert due(15, 900, documented=True) is None


def test_sb_74_the_task_and_the_newest_messages_stay():
    session = Play(WorkerCompactor(), window=WINDOW)
    session.append(system("You are a worker."), user("Mend the build."), *steps(20))
    assert isinstance(session.compact(SEGMENT), Compacted)
    assert session.requests == [], "no model is asked"
    assert shown(session.view) == ["0", "1", "S", *map(str, range(22, 42))]
    assert broken_tool_groups([message.raw for message in session.view]) == 0
    assert session.stands_for() == list(range(42))


def test_sb_32_the_recap():
    history = read_history(
        [
            {**exchange("c1", "")[0], "content": "I look\nat it."},
            exchange("c1", "first line\nsecond line")[1],
            assistant("Done."),
            user("Thanks."),
        ]
    )
    assert recap(history) == [
        "- noted: I look at it.",
        '- called read_file ({"path": "src/c1.py"})',
        "  result: first line second line",
        "- noted: Done.",
    ]
    for nothing in ([user("Hello.")], [assistant("")], [assistant("  ")], []):
        assert recap(read_history(nothing)) == [NOTHING]


def test_sb_32_arguments_and_results_are_cut_at_200_bytes_between_characters():
    (line,) = recap(read_history(exchange("c", "é" * 300)[1:]))
    assert line == "  result: " + "é" * 100
    (line,) = recap(read_history(exchange("c", "x" + "é" * 300)[1:]))
    assert line == "  result: x" + "é" * 99


def test_sb_32_nothing_leaves_of_four_messages():
    _, done = worked(2)
    assert (type(done), done.reason) == (Skipped, "too_few")


def test_the_marker_counts_all_that_left_and_recaps_stay_within_their_room():
    session, _ = worked(10)
    for round_ in range(1, 8):
        session.append(*steps(10, first=10 * round_))
        session.compact(SEGMENT)
    (summary,) = session.summaries()
    lines = unmarked(summary.text).split("\n")
    left = sum(end - start for start, end in summary.covers)
    assert lines[0] == f"[Worker history: {left} oldest messages removed]"
    assert lines[1] == "[…]"
    assert session.policy.token_rule.count([summary]) <= WINDOW * 0.15 + 60
    assert "Result" in lines[-1]
    assert session.stands_for() == list(range(len(session.log)))


def test_an_overflow_takes_three_quarters():
    session, _ = worked(20, Trigger("overflow", context_window=WINDOW))
    assert shown(session.view) == ["0", "S", *map(str, range(31, 41))]


def test_segments_are_counted_and_end():
    worker = WorkerCompactor(TieredConfig(worker_turns_per_segment=3, worker_max_segments=2))
    assert [worker.segment(boundary) for boundary in (0, 2, 3, 5)] == [0, 0, 1, 1]
    assert [worker.is_over(boundary) for boundary in (5, 6)] == [False, True]


def test_sb_33_of_superseding_tools_only_the_newest_result_is_sent():
    raws = [
        user("Look at the page."),
        *exchange("a", "Snapshot one. " + filler(50), name="snapshot"),
        *exchange("b", "A file. " + filler(50), name="read_file"),
        *exchange("c", "Snapshot two. " + filler(50), name="snapshot"),
    ]
    policy, memory = WorkerCompactor(TieredConfig(superseding_tools=("snapshot",))), SimpleMemoryStore()
    with Session.open(None, "s", policy=policy, context_window=WINDOW, memory=memory) as session:
        session.append(*raws)
        sent = session.prepare().messages
        assert [m.get("content") for m in sent if m.get("role") == "tool"] == [
            "[superseded: a newer result of snapshot is below]",
            raws[4]["content"],
            raws[6]["content"],
        ]
        assert broken_tool_groups(sent) == 0
        assert session.prepare().messages == sent
        assert session.log() == raws, "the log has it all"


def test_sb_33_the_newest_alone_is_sent_at_every_call_of_parallel_tools_and_at_the_end_of_a_segment():
    def parallel(at: int) -> list[dict[str, Any]]:
        names = ("snapshot", "read_file", "list")
        calls = [
            {"id": f"{name}{at}", "type": "function", "function": {"name": name, "arguments": "{}"}}
            for name in names
        ]
        results = [
            {"role": "tool", "tool_call_id": f"{name}{at}", "content": f"{name} {at}. {filler(30)}"}
            for name in reversed(names)
        ]
        return [{"role": "assistant", "content": None, "tool_calls": calls}, *results]

    segments = 0
    policy = WorkerCompactor(TieredConfig(superseding_tools=("snapshot",)))
    with Session.open(
        None, "s", policy=policy, model=None, context_window=3_000, memory=SimpleMemoryStore()
    ) as session:
        session.append(user("Look at the page."))
        for number in range(50):
            session.append(*parallel(number))
            prepared = session.prepare()
            sent = prepared.messages
            segments += any(isinstance(each, Compacted) and each.discarded for each in prepared.outcomes)
            shots = [m["content"] for m in sent if m.get("tool_call_id", "").startswith("snapshot")]
            assert [shot for shot in shots if not shot.startswith("[superseded")] == shots[-1:]
            assert shots[-1].startswith(f"snapshot {number}. ")
            assert broken_tool_groups(sent) == 0
            assert sent[0] == user("Look at the page.")
        assert segments >= 2
        assert len(session.log()) == 201


def test_sb_33_outside_of_a_session_nothing_is_replaced():
    policy = WorkerCompactor(TieredConfig(superseding_tools=("read_file",)))
    history = read_history([user("Look."), *steps(3)])
    trigger = Trigger("count", "supersede", context_window=WINDOW)
    _, skipped = outcome(history, policy, None, trigger=trigger)
    assert isinstance(skipped, Skip)
    _, compaction = run(history, policy, trigger=replace(trigger, keeps_substitutes=True))
    assert [each.original.seq for each in compaction.substitutes] == [2, 4]
