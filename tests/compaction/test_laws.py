"""The laws of every compaction, over random histories, policies, pins, hooks and failures of models.

``make test-slow`` runs each of these over 10,000 examples a dialect.
"""

import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, cast

import pytest
from hypothesis import given, strategies as st

import siltstone
from compacting import SHORT
from reference.groups import groups, in_flight
from siltstone import messages
from siltstone.compaction import Compactor
from siltstone.compaction.results import ClearConfig, InPlaceConfig
from siltstone.engine import Compacted, Failed, Skipped
from siltstone.errors import ConfigError
from siltstone.events import CompactionFailed
from siltstone.hooks import Guidance
from siltstone.models import ExtractiveModel
from siltstone.systems.spacebot.config import ChronicleConfig
from siltstone.testing import RecordingHook
from strategies import HISTORIES, texts

DIALECTS = [cast("messages.Dialect", name) for name in HISTORIES]
ESTIMATORS = st.sampled_from(["blocks", "bytes/4", "chars/3"])

AN_ID = re.compile(r"(?:call|fc|rs|ws|msg|out)_\d+")

#: Reasons that are the fault of a model, or of a history that cannot shrink. Any other is a defect.
FAILURES = {
    "llm_failed",
    "empty_summary",
    "refused_summary",
    "unusable_summary",
    "summarizer_overflow",
    "no_reduction",
}
SKIPS = {"nothing_to_discard", "no_context_window", "not_due", "vetoed", "too_few", "no_valid_cut"}
SKIPS |= {"query_too_short", "too_little"}

thresholds = st.builds(
    siltstone.ThresholdCompactor,
    st.builds(
        siltstone.CompactionConfig,
        auto_compact_threshold=st.integers(1, 2_000),
        recent_turn_budget=st.integers(0, 4),
        max_summary_tokens=st.integers(1, 400),
        retained_token_budget=st.sampled_from(["auto", None]) | st.integers(1, 500),
        max_request_bytes=st.none() | st.integers(1, 4_000),
        min_reduction=st.sampled_from([0, 0, 0.2]),
        estimator=ESTIMATORS,
        summarizer_window=st.sampled_from([None, None, 1_024]),
        attempts=st.integers(1, 2),
        on_model_failure=st.sampled_from(["fail", "fallback_summary"]),
        on_summarizer_overflow=st.sampled_from(["mechanical", "fail"]),
        prefix_preserving=st.booleans(),
        keep_user_messages=st.sampled_from([False, False, True]),
    ),
)
emergencies = st.builds(siltstone.Emergency, st.integers(30, 600), estimator=ESTIMATORS)
windows = st.builds(
    siltstone.WindowCompactor,
    st.builds(
        siltstone.WindowConfig,
        working_limit=st.integers(1, 8),
        working_slack=st.sampled_from([0, 0, 3]),
        summary_max_tokens=st.integers(1, 200),
        summary_budget_tokens=st.integers(1, 400),
        fallback_bytes=st.integers(1, 500),
        summarizer_window=st.sampled_from([None, 1_024]),
        attempts=st.integers(1, 2),
        retry_delay=st.just(0),
        estimator=ESTIMATORS,
    ),
)
waterfalls = st.builds(
    siltstone.WaterfallCompactor,
    st.builds(
        siltstone.WaterfallConfig,
        immediate_window=st.integers(1, 6),
        recent_window=st.integers(1, 6),
        prompt_style=st.sampled_from(["base", "instruct"]),
        max_tokens=st.integers(1, 200),
        longterm_budget_tokens=st.none() | st.integers(1, 300),
        longterm_refresh=st.integers(0, 2),
        cap_share=st.sampled_from([0.5, 1]),
        summarizer_window=st.sampled_from([None, 1_024]),
        attempts=st.integers(1, 2),
        retry_delay=st.just(0),
        estimator=ESTIMATORS,
    ),
)
trims = st.builds(
    siltstone.SmartTrim,
    st.builds(
        siltstone.SmartTrimConfig,
        reserve_tokens=st.integers(0, 20),
        protected_recent=st.integers(0, 6),
        query=st.none() | st.just("what was said"),
        target_share=st.sampled_from([0.5, 1]),
        documented=st.booleans(),
        estimator=ESTIMATORS | st.just("chars/3-utf16"),
    ),
)
cheap = st.builds(
    siltstone.ClearToolResults,
    st.builds(
        ClearConfig,
        keep_results=st.integers(0, 2),
        min_reclaim=st.integers(0, 20),
        least_tokens=st.integers(1, 30),
        estimator=ESTIMATORS,
    ),
) | st.builds(
    siltstone.DropDuplicateReads,
    st.builds(InPlaceConfig, min_reclaim=st.integers(0, 20), least_tokens=st.integers(1, 30)),
)
tiereds = st.builds(
    siltstone.TieredCompactor,
    st.builds(
        siltstone.TieredConfig,
        context_window=st.none() | st.integers(30, 600),
        retain_floor=st.integers(1, 4),
        estimator=ESTIMATORS | st.sampled_from(["bytes_total", "flat_tools"]),
        max_summary_tokens=st.integers(1, 300),
        summary_stack_fraction=st.sampled_from([0.01, 0.15, 0.5]),
        summarizer_window=st.sampled_from([None, 1_024]),
        attempts=st.integers(1, 2),
        retry_delay=st.just(0),
        mode=st.sampled_from(["rolling", "chronicle"]),
        chronicle=st.builds(
            ChronicleConfig,
            context_token_budget=st.integers(200, 400),
            max_messages_per_checkpoint=st.integers(1, 12),
            rollup_threshold=st.integers(2, 4),
            rollup_batch=st.integers(1, 2),
            max_recent=st.integers(1, 3),
            max_older=st.integers(0, 2),
            whole_turns=st.booleans(),
        ),
    ),
)
workers = st.builds(
    siltstone.WorkerCompactor,
    st.builds(siltstone.TieredConfig, estimator=ESTIMATORS, worker_fraction=st.sampled_from([0.3, 0.5])),
)
chains = st.builds(
    lambda steps, target: siltstone.Chain(*steps, target=target),
    st.tuples(trims, waterfalls | thresholds | windows)
    | st.tuples(windows, thresholds)
    | st.tuples(trims | workers, tiereds)
    | st.tuples(tiereds, waterfalls | windows)
    | st.tuples(cheap, thresholds | trims)
    | st.tuples(thresholds, trims, waterfalls),
    st.none() | st.sampled_from([0.1, 0.5]),
)
one_summary: st.SearchStrategy[Compactor] = thresholds | emergencies | windows
policies: st.SearchStrategy[Compactor] = one_summary | waterfalls | tiereds | workers | trims | cheap | chains

# A summary that is due by a number of messages may be larger than these messages.
COUNTING = (siltstone.Chain, siltstone.WaterfallCompactor, siltstone.WindowCompactor)
LAYERED = (
    siltstone.Chain,
    siltstone.TieredCompactor,
    siltstone.WorkerCompactor,
    siltstone.WaterfallCompactor,
    siltstone.SmartTrim,
)  # several summaries in a view, or none

ANSWERS: list[Any] = [
    SHORT,
    SHORT,
    SHORT,
    "Long. " * 400,
    "## Summary\n" + SHORT,
    siltstone.Completion(SHORT),
    "",
    " \n\t",
    "I'm sorry, but I can't help with that.",
    siltstone.Completion("", stop_reason="refusal"),
    siltstone.Completion("", stop_reason="tool_use"),
    7,
    None,
    OSError("the line is dead"),
    ValueError("prompt is too long: 5 tokens > 4 maximum"),
]


class Fickle:
    """A model that gives each answer of a list in turn, and raises those that are errors."""

    def __init__(self, answers: Sequence[Any]) -> None:
        self.answers = list(answers)
        self.asked = 0

    def __call__(self, request: siltstone.CompletionRequest) -> Any:
        answer = self.answers[self.asked % len(self.answers)]
        self.asked += 1
        if isinstance(answer, Exception):
            raise answer
        return answer


models = st.one_of(
    st.lists(st.sampled_from(ANSWERS) | texts(max_size=40), min_size=1, max_size=3).map(Fickle),
    st.builds(ExtractiveModel, ESTIMATORS),
    st.tuples(st.just(Fickle([OSError("down")])), st.just(Fickle([SHORT]))).map(list),
)


def disturbed(draw: Callable[..., Any], raws: list[Any]) -> list[Any]:
    """*raws* with up to three messages lost, repeated or moved to a later place."""
    raws = list(raws)
    for kind in draw(st.lists(st.sampled_from(["lose", "repeat", "move"]), max_size=3)):
        if not raws:
            break
        at = draw(st.integers(0, len(raws) - 1))
        raw = raws.pop(at)
        if kind == "repeat":
            raws.insert(at, raw)
        if kind != "lose":
            raws.insert(draw(st.integers(at, len(raws))), dict(raw))
    return raws


def renamed(value: Any, round_: int) -> Any:
    """*value* with ids that no earlier chunk has."""
    if isinstance(value, dict):
        return {key: renamed(item, round_) for key, item in value.items()}
    if isinstance(value, list):
        return [renamed(item, round_) for item in value]
    return f"{value}_{round_}" if isinstance(value, str) and AN_ID.fullmatch(value) else value


def numbered(message: messages.Message) -> list[int]:
    """The sequence numbers that *message* stands for."""
    spans = message.covers if message.provenance == "compaction_summary" else [(message.seq, message.seq + 1)]
    return [number for start, end in spans for number in range(start, end)]


def numbered_by(summary: messages.SummaryMessage) -> list[int]:
    """The sequence numbers that *summary* covers."""
    return [number for start, end in summary.covers for number in range(start, end)]


def assert_told_once(outcome: Compacted | Skipped | Failed | None, hook: RecordingHook) -> None:
    """Every start has exactly one end, and nothing is told of what did not begin."""
    told = [name for name in hook.names if name.startswith("Compaction")]
    if isinstance(outcome, Compacted):
        assert told == ["CompactionStarted", "CompactionCompleted"]
    elif isinstance(outcome, Skipped):
        assert told in ([], ["CompactionStarted", "CompactionFailed"])
    else:
        assert told == ["CompactionStarted", "CompactionFailed"]


def assert_laws(
    history: list[messages.Message], outcome: Compacted, pins: set[int], *, layered: bool = False
):
    """The demands of chapter 0 of the behaviours on a rewrite, told apart by identity alone."""
    given_ids = [id(message.raw) for message in history]
    kept = [id(raw) for raw in outcome.retained]
    gone = [id(raw) for raw in outcome.discarded]
    places = {each: at for at, each in enumerate(given_ids)}
    assert sorted(kept + gone) == sorted(given_ids), "nothing lost, nothing twice"
    assert [places[each] for each in kept] == sorted(places[each] for each in kept)
    assert [places[each] for each in gone] == sorted(places[each] for each in gone)

    added = [raw for raw in outcome.messages if id(raw) not in places]
    summaries = [raw for raw in added if isinstance(raw, messages.SummaryMessage)]
    assert len(summaries) <= 2 if layered else len(summaries) == bool(gone)
    assert summaries == list(outcome.summaries)
    ours = (messages.SummaryMessage, messages.SubstituteMessage)
    assert [raw for raw in added if not isinstance(raw, ours)] == list(outcome.injected)
    replaced = replaced_in(outcome)
    stays_in_view = [id(raw) for raw in outcome.messages if id(raw) in places or id(raw) in replaced]
    assert [replaced.get(each, each) for each in stays_in_view] == kept
    if summaries:
        stay = set(kept)
        for above, summary in enumerate(summaries):
            place = next(at for at, raw in enumerate(outcome.messages) if raw is summary)
            covered = set(numbered_by(summary))
            first = next(
                at
                for at, message in enumerate(history)
                if id(message.raw) not in stay and covered.intersection(numbered(message))
            )
            before = sum(id(message.raw) in stay for message in history[:first])
            assert place == before + above, "a summary stands where the first message stood that it covers"
            assert layered or first == places[gone[0]], "one summary covers all that left"
        covers = [span for summary in summaries for span in summary.covers]
        assert all(one[1] <= other[0] for one, other in pairwise(covers))

    retained = set(kept)
    for message in history:
        stays = id(message.raw) in retained
        if message.role in ("system", "developer"):
            assert stays, "rules survive"
        if message.provenance == "compaction_summary":
            assert layered or not stays or not gone, "no two summaries"
        elif message.seq in pins:
            assert stays, "pinned messages survive"
    if in_flight(history):
        newest = [message for message in history if messages.opens_turn(message)][-1]
        assert id(newest.raw) in retained, "the newest request survives"
    alone = set(replaced.values())  # a user's words may stay when the results beside them leave
    for group in groups(history):
        bound = [id(history[at].raw) for at in group.positions if id(history[at].raw) not in alone]
        assert len({each in retained for each in bound}) <= 1, "no group is split"

    discarded = [message for message in history if id(message.raw) not in retained]
    numbers = [number for start, end in outcome.covers for number in range(start, end)]
    assert numbers == sorted(number for message in discarded for number in numbered(message))
    assert all(one[1] < other[0] for one, other in zip(outcome.covers, outcome.covers[1:], strict=False))
    assert all(start < end for start, end in outcome.covers)


def replaced_in(outcome: Compacted) -> dict[int, int]:
    """The cut messages, and the original of each: by identity. Each has its role and its words."""
    ours = {id(raw) for raw in (*outcome.summaries, *outcome.injected)}
    shown = [raw for raw in outcome.messages if id(raw) not in ours]
    found = {}
    for raw, original in zip(shown, outcome.retained, strict=True):
        if isinstance(raw, messages.SubstituteMessage) and raw is not original:
            found[id(raw)] = id(original)
            new, old = messages.read_message(raw, 0), messages.read_message(original, 0)
            assert new.role == old.role
            assert old.role != "user" or user_text(new) == user_text(old)
        else:
            assert raw is original
    return found


@pytest.mark.parametrize("dialect", DIALECTS)
@given(data=st.data())
def test_one_to_six_compactions_keep_every_law(dialect: messages.Dialect, data: st.DataObject) -> None:
    """Whatever the history, the policy and the model: a lawful and smaller history, or the one given."""
    legal = data.draw(st.booleans())
    breaks = not legal and data.draw(st.booleans())
    ending = "answered" if legal else "any"
    more = HISTORIES[dialect](min_turns=1, max_turns=3, legal=legal, ending=ending)
    raws: list[Any] = []
    has_hole = False
    for _ in range(data.draw(st.integers(1, 6))):
        chunk = renamed(data.draw(more), len(raws)) if legal else data.draw(more)
        raws = raws + (disturbed(data.draw, chunk) if breaks else chunk)
        history = messages.read_history(raws)
        before = [messages.encode(raw) for raw in raws]
        faults = messages.validate_history(raws, dialect)
        policy, model, hook = data.draw(policies), data.draw(models), RecordingHook()
        own = [message.seq for message in history if message.provenance != "compaction_summary"]
        pins = set(data.draw(st.lists(st.sampled_from(own), max_size=3))) if own else set()
        guidance = Guidance(pins=pins, veto=data.draw(st.integers(0, 19)) == 19)
        window = data.draw(st.none() | st.integers(40, 4_000))
        try:
            outcome = siltstone.compact(
                raws,
                policy,
                model=model,
                context_window=window,
                hooks=[hook],
                on_before_compact=lambda plan, guidance=guidance: guidance,  # type: ignore[misc]
                hook_timeout=None,
                check=legal,
            )
        except siltstone.ContextOverflowError:
            assert_told_once(None, hook)
            continue
        except ConfigError:  # it would not work in so small a window, and says so before it begins
            assert window is not None
            assert hook.names == []
            continue
        assert_told_once(outcome, hook)
        assert [messages.encode(raw) for raw in raws] == before
        if not isinstance(outcome, Compacted):
            illegal = {"rewrite_invalid"} if legal and faults else set()
            assert outcome.reason in SKIPS | FAILURES | illegal, outcome.message
            assert [id(raw) for raw in outcome.messages] == [id(raw) for raw in raws]
            continue
        assert_laws(history, outcome, pins, layered=isinstance(policy, LAYERED))
        assert outcome.tokens_after < outcome.tokens_before or isinstance(policy, COUNTING)
        assert outcome.tokens_after == policy.token_rule.count(messages.read_history(outcome.messages))
        everything = sorted(number for message in history for number in numbered(message))
        reread = messages.read_history(outcome.messages)
        told = [number for summary in outcome.summaries for number in numbered_by(summary)]
        is_whole = everything == list(range(len(everything)))  # no earlier trim has left a hole
        assert is_whole or has_hole, "only messages that left without a word leave a hole"
        # A plain list knows what left it from its summaries alone; a log knows all.
        is_told = set(told) >= {n for start, end in outcome.covers for n in range(start, end)}
        has_hole |= not is_told
        if is_whole and is_told:
            assert sorted(number for message in reread for number in numbered(message)) == everything
        assert messages.broken_tool_groups(outcome.messages) <= messages.broken_tool_groups(raws)
        found = messages.validate_history(outcome.messages, dialect)
        if not faults:
            assert found == []
        raws = outcome.messages


@pytest.mark.parametrize("dialect", DIALECTS)
@given(data=st.data())
def test_a_session_keeps_every_law_over_its_life(dialect: messages.Dialect, data: st.DataObject) -> None:
    """The log holds all that was ever said, the view the same objects, and no boundary exceeds the window."""
    window = data.draw(st.none() | st.integers(60, 1_500))
    injects = data.draw(st.booleans())
    hook = RecordingHook()
    model = data.draw(models)
    note: Any = {"role": "user", "content": "Open tasks: none."}
    pins: set[int] = set()
    cut: set[int] = set()  # numbers of messages that something shorter has stood for
    said: list[Any] = []
    with siltstone.SimpleMemoryStore() as store:
        policy = data.draw(one_summary)
        try:
            session = siltstone.Session.open(
                None,
                "s",
                policy=policy,
                model=model,
                context_window=window,
                memory=store,
                hooks=[hook],
                on_after_compact=(lambda outcome: [note]) if injects else None,
                hook_timeout=None,
            )
        except ConfigError:  # it would not work in so small a window
            assert window is not None
            return
        for _ in range(data.draw(st.integers(1, 6))):
            chunk = data.draw(HISTORIES[dialect](min_turns=1, max_turns=2))
            session.append(*chunk)
            said += chunk
            view = session._core.view.messages()
            if data.draw(st.integers(0, 3)) == 3:
                seq = data.draw(st.integers(0, session._core.next_seq - 1))
                refused = None
                try:
                    session.pin(seq)
                    pins.add(seq)
                except ConfigError as error:
                    refused = vars(error)["field"]
                has_left = all(message.seq != seq or message.covers for message in view)
                assert refused in (None, "pins", "seq")
                assert has_left == (refused == "seq") or refused == "pins"
            before, taken = session.history(), len(hook.events)
            try:
                prepared = session.prepare()
            except siltstone.ContextOverflowError:
                assert [id(raw) for raw in session.history()] == [id(raw) for raw in before]
            else:
                assert window is None or prepared.tokens <= window
                history, request = session.history(), prepared.messages
                if not messages.validate_history(history, pending_ok=False):  # else the request is repaired
                    assert [id(raw) for raw in request] == [id(raw) for raw in history]
                rules = {finding.rule for finding in messages.validate_history(request)}
                assert not rules & {"unanswered-call", "orphan-result", "duplicate-result", "late-result"}
            names = [name for name in hook.names[taken:] if name.startswith("Compaction")]
            assert names[::2] == ["CompactionStarted"] * (len(names) // 2)
            assert set(names[1::2]) <= {"CompactionCompleted", "CompactionFailed"}
            failed = {event.reason for event in hook.events[taken:] if isinstance(event, CompactionFailed)}
            assert failed <= FAILURES | SKIPS | {"context_overflow"} | ({"hook_failed"} if injects else set())
            assert_view(session, said, pins)
            view = session._core.view.messages()
            cut |= {message.seq for message in view if isinstance(message.raw, messages.SubstituteMessage)}
        log = session.log()
        assert [messages.encode(raw) for raw in log if raw != note] == [
            messages.encode(raw) for raw in said if raw != note
        ]
        for record in session.compactions():
            gone = {n for start, end in record.covers for n in range(start, end)}
            expanded = session.expand(record.id)
            assert is_within([log[n] for n in sorted(gone)], expanded)
            assert is_within(expanded, [log[n] for n in sorted(gone | cut)])


def is_within(part: list[Any], whole: list[Any]) -> bool:
    """Whether *part* is *whole* without some of its messages."""
    rest = iter(whole)
    return all(any(raw == other for other in rest) for raw in part)


def user_text(message: messages.Message) -> list[str]:
    """The texts of a message beside its results."""
    return [part.text for part in message.parts if part.kind == "text"]


def assert_view(session: siltstone.Session, said: list[Any], pins: set[int]) -> None:
    """The view holds the caller's own objects, one summary at most, and with it stands for all of the log.

    A cut message stands for one message, and has all words of its user.
    """
    view = session._core.view.messages()
    own = {id(raw) for raw in said}
    log = session.log()
    for message in view:
        if isinstance(message.raw, messages.SubstituteMessage):
            assert message.provenance == "substitute"
            original = messages.read_message(log[message.seq], message.seq)
            assert message.role == original.role
            if original.role == "user":
                assert user_text(message) == user_text(original)
        else:
            assert id(message.raw) in own or isinstance(
                message.raw, messages.SummaryMessage | messages.InjectedMessage
            )
    assert sum(isinstance(message.raw, messages.SummaryMessage) for message in view) <= 1
    numbers = [number for message in view for number in numbered(message)]
    assert sorted(numbers) == list(range(session._core.next_seq))
    assert pins <= {message.seq for message in view if message.provenance != "compaction_summary"}
    for number, raw in enumerate(log):
        if raw.get("role") in ("system", "developer"):
            assert any(message.seq == number for message in view if message.provenance == "original")
