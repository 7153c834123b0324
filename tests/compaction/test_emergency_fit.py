"""The emergency fit: the result fits the window, or nothing changes."""

import pytest

from compacting import (
    Raw,
    assert_lawful,
    assistant,
    exchange,
    filler,
    outcome,
    run,
    shape,
    system,
    turn,
    user,
)
from siltstone.compaction import CompactionContext, Skip, Trigger
from siltstone.compaction.emergency import Emergency, fit
from siltstone.errors import ContextOverflowError
from siltstone.messages import broken_tool_groups, read_history
from siltstone.testing import ScriptedModel
from siltstone.tokens import rule

BLOCKS = rule("blocks")


def squeezed(raws: list[Raw], window: int):
    history, compaction = run(raws, Emergency(window), None)
    assert BLOCKS.count(compaction.messages) <= window
    assert compaction.degraded == bool(compaction.discarded)
    assert compaction.usage == ()
    assert_lawful(history, compaction)
    return compaction


def test_a_history_that_fits_is_left_alone():
    history = read_history(turn(0))
    tokens = BLOCKS.count(history)
    assert fit(history, tokens, BLOCKS) is None
    assert outcome(turn(0), Emergency(tokens), None)[1] == Skip(
        "not_due", f"{tokens} tokens fit the window of {tokens}"
    )


def test_the_oldest_groups_go_first_and_a_quarter_of_the_window_is_left():
    raws = [system("Rules."), *(message for number in range(20) for message in turn(number, 100))]
    compaction = squeezed(raws, 2_000)  # a message has some 128 tokens
    view = shape(compaction)
    assert view[:2] == ["0", "S"]
    assert view[2:] == [str(number) for number in range(41 - len(view[2:]), 41)]
    assert BLOCKS.count(compaction.messages) <= 1_500
    assert len(view) == 2 + 9


def test_system_messages_and_the_request_in_flight_stay():
    said = assistant(filler(2_000))
    raws = [system("Rules."), *turn(0, 900), user("Do it."), system("Also."), said, *exchange("a", "ok")]
    view = shape(squeezed(raws, 1_000))
    assert view == ["0", "S", "3", "4", "6", "7"]


def test_the_newest_group_stays_if_it_fits_at_all():
    one, other = exchange("a", "ok"), exchange("b", "ok")
    one[0]["content"] = other[0]["content"] = filler(700)  # what an assistant says is never cut
    assert shape(squeezed([user("Do it."), *one, *other], 1_050)) == ["0", "S", "3", "4"]


def test_a_newest_group_that_does_not_fit_goes_and_is_quoted():
    answer = "BEGIN of the listing\n" + filler(20_000) + "\nEND of the listing"
    call, result = exchange("b", "ok")
    call["content"] = answer
    raws = [user("List it."), *exchange("a", "small"), call, result]
    compaction = squeezed(raws, 2_000)
    assert shape(compaction) == ["0", "1", "2", "S"]
    assert "BEGIN of the listing" in compaction.summary
    assert "END of the listing" in compaction.summary
    assert "characters left out" in compaction.summary


def test_the_summary_says_what_is_no_longer_shown_and_where_it_is():
    raws = [*turn(0, 900), *turn(1, 900), user("Do it.")]
    compaction = squeezed(raws, 800)
    assert compaction.summary.startswith("Earlier messages no longer shown: 4 (numbers 0 to 3).")
    assert "a search finds their text" in compaction.summary


def test_the_earlier_summary_is_carried_over_without_its_note():
    raws: list[Raw] = []
    for number in range(4):
        raws += turn(number, 900)
        compaction = squeezed(raws, 2_000)
        raws = [message.raw for message in compaction.messages]
        assert compaction.summary.count("Earlier messages no longer shown") == 1
        assert compaction.summary.count("Before them:") == (1 if number else 0)
        assert compaction.summary.count("The newest of them") == 1
    assert "Request 0:" in compaction.summary
    assert compaction.covers[0][0] == 0
    assert compaction.level == 4


@pytest.mark.parametrize("estimator", ["blocks", "bytes/4", "chars/3"])
def test_what_must_stay_alone_over_the_window_is_an_error_with_both_numbers(estimator: str):
    raws = [system(filler(1_000)), *turn(0), user(filler(1_000))]
    with pytest.raises(ContextOverflowError, match="the context window has 2000") as caught:
        run(raws, Emergency(2_000, estimator=estimator), None)
    assert caught.value.tokens > 2_000
    assert caught.value.context_window == 2_000


def test_the_smaller_of_two_windows_counts_and_no_model_is_asked():
    raws, model = [message for number in range(20) for message in turn(number)], ScriptedModel()
    for policy, window, most in ((Emergency(1_000), 2_000, 1_000), (Emergency(), 1_500, 1_500)):
        _, compaction = run(raws, policy, model, trigger=Trigger("overflow", context_window=window))
        assert BLOCKS.count(compaction.messages) <= most
    assert model.requests == []


def test_without_a_window_there_is_no_emergency():
    assert Emergency().should_compact(CompactionContext(1, estimated_history_tokens=10**9)) is None
    result = outcome(turn(0), Emergency(), None)[1]
    assert isinstance(result, Skip)
    assert result.reason == "no_context_window"


def test_it_is_due_over_the_window_at_any_boundary_and_not_at_it():
    context = CompactionContext(0, estimated_history_tokens=900, reserved_tokens=100, context_window=1_000)
    assert Emergency().should_compact(context) is None
    trigger = Emergency(999).should_compact(context)
    assert (trigger.reason, trigger.action) == ("overflow", "emergency")
    assert (trigger.tokens, trigger.context_window) == (1_000, 999)
    assert trigger.reserved_tokens == 100


def test_the_shortest_note_is_all_there_is_room_for():
    """Between what must stay and the window there may be room for the note and nothing else."""
    raws = [user(filler(100)), *exchange("a", filler(3_000))]
    with pytest.raises(ContextOverflowError) as caught:
        run(raws, Emergency(150), None)
    least = caught.value.tokens
    with pytest.raises(ContextOverflowError):
        run(raws, Emergency(least - 1), None)
    for window in range(least, least + 100):
        compaction = squeezed(raws, window)
        assert broken_tool_groups(compaction.messages) == 0
    assert "\n" not in squeezed(raws, least).summary


def test_small_groups_stay_only_beside_the_note():
    """Five eighths of a small window and the note may be more than the window."""
    raws = [user("Hm."), *(message for n in range(30) for message in turn(n, 1))]
    for window in range(120, 200):
        squeezed(raws, window)


def test_cuts_alone_are_a_fit_if_with_them_nothing_has_to_leave():
    """The fit once wrote a note on no message, and ended in an IndexError."""
    history = read_history([*exchange("a", filler(200)), *exchange("b", filler(262)), user(filler(12))])
    trigger = Trigger("overflow", pins=frozenset({1}), keeps_substitutes=True)  # its result is not cut
    for window in range(491, 588):
        compaction = fit(history, window, BLOCKS, trigger=trigger)
        assert compaction is not None
        assert BLOCKS.count(compaction.messages) <= window
        assert (compaction.discarded, compaction.summary, len(compaction.substitutes)) == ((), "", 1)
