"""A session's hooks: what they pin, inject and veto, and that the log, the list of a host and undo agree."""

import json
from pathlib import Path
from typing import Any

import pytest

from conversations import assistant, conversation, exchange, play, user
from siltstone import AsyncSession, CompactionConfig, MemoryStore, Session, ThresholdCompactor
from siltstone.engine import Compacted, Failed, Skipped
from siltstone.errors import IllegalHistoryError, StoreIoError
from siltstone.hooks import Guidance
from siltstone.testing import RecordingHook, ScriptedModel

POLICY = ThresholdCompactor(CompactionConfig(auto_compact_threshold=600, max_summary_tokens=50))
NOTE = user("Open tasks: the walrus.")


def inject(_outcome: Compacted) -> list[Any]:
    return [NOTE]


def opened(path: Path, **options: Any) -> Session:
    return Session.open(path, "s", policy=POLICY, model=ScriptedModel(), **options)


def test_what_was_injected_is_logged_stays_in_the_view_and_is_not_found(tmp_path: Path) -> None:
    with opened(tmp_path, on_after_compact=inject) as session:
        session.append(*conversation(10))
        outcome = session.compact()
        assert outcome.injected == (NOTE,)
        assert outcome.messages == session.history()
        assert session.history()[-1] == session.log()[-1] == NOTE
        assert session.history()[-1] is outcome.injected[0]  # it was not read back from the store
        assert outcome.tokens_after == session.prepare().tokens
        view = session.history()
    with opened(tmp_path) as session:
        assert session.history() == view
        assert session._core.view.messages()[-1].provenance == "injected_context"
        session.append(*conversation(10))
        again = session.compact()
        assert NOTE in again.discarded
        assert session.search("walrus") == []
    with MemoryStore.open(tmp_path) as store:
        assert store.check() == []


@pytest.mark.parametrize("through_json", [False, True])
@pytest.mark.parametrize("adopts", [False, True])
def test_a_host_that_keeps_its_own_list_need_not_know(tmp_path: Path, adopts: bool, through_json: bool):
    host: list[Any] = []
    compactions = 0
    with opened(tmp_path, on_after_compact=inject) as session:
        for message in conversation(20):
            if message["role"] == "assistant":
                given = json.loads(json.dumps(host)) if through_json else host
                session.observe(given)
                assert session.observe(given) == 0
                prepared = session.prepare()
                compactions += isinstance(prepared.compaction, Compacted)
                if adopts:
                    host = prepared.history
            host = [*host, message]
        session.observe(host)
        said = [raw for raw in session.log() if raw != NOTE]
        assert said == conversation(20)
    assert compactions >= 2


def test_messages_appended_meanwhile_stand_before_what_was_injected(tmp_path: Path) -> None:
    late = user("one more")

    def model(request: object) -> str:
        session.append(late)
        return "a summary"

    with Session.open(tmp_path, "s", policy=POLICY, model=model, on_after_compact=inject) as session:
        session.append(*conversation(10))
        assert isinstance(session.compact(), Compacted)
        view = session.history()
        assert view[-2:] == [late, NOTE]
    with opened(tmp_path) as session:
        assert session.history() == view


def test_a_veto_is_asked_again_at_the_next_boundary_and_never_over_the_window(tmp_path: Path) -> None:
    asked: list[str] = []

    def veto(plan: Any) -> Guidance:
        asked.append(plan.cause)
        return Guidance(veto="the user is watching")

    hook = RecordingHook()
    with opened(tmp_path, on_before_compact=veto, context_window=1_000, hooks=[hook]) as session:
        prepared = play(session, conversation(20))
        assert all(each.tokens <= 1_000 for each in prepared)
        reasons = {type(outcome).__name__ for each in prepared for outcome in each.outcomes}
        assert reasons == {"Skipped", "Compacted"}
    assert len(asked) > 2
    assert {event.policy for event in hook.events if hasattr(event, "policy")} == {"emergency"}


@pytest.mark.parametrize("name", ["on_before_compact", "on_after_compact"])
def test_a_hook_that_raises_changes_nothing_and_counts_as_an_attempt(tmp_path: Path, name: str) -> None:
    def broken(told: object) -> None:
        raise ValueError("no")

    hook = RecordingHook()
    options: dict[str, Any] = {name: broken}
    with opened(tmp_path, hooks=[hook], **options) as session:
        session.append(*conversation(10))
        before = session.history()
        outcome = session.compact()
        assert (type(outcome), outcome.reason) == (Failed, "hook_failed")
        assert session.history() == before
        assert session.log() == conversation(10)
        assert hook.names == ["CompactionStarted", "CompactionFailed"]
        assert session._core.clock.last_attempt is not None


def test_a_store_that_refuses_an_injection_keeps_the_compaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object, **__: object) -> None:
        raise StoreIoError("the disk is full")

    with opened(tmp_path, on_after_compact=inject) as session:
        session.append(*conversation(10))
        monkeypatch.setattr(session._core.rows, "append", full)
        assert isinstance(session.compact(), Compacted)
        assert NOTE not in session.history()
        monkeypatch.undo()
        session.append(user("on"))
    assert "what on_after_compact gave to session 's' is lost" in caplog.text
    with opened(tmp_path) as session:
        assert session.log()[-1] == user("on")


@pytest.mark.anyio
async def test_async_hooks_of_a_session_are_awaited(tmp_path: Path) -> None:
    async def before(plan: Any) -> Guidance:
        return Guidance(pins=[3])

    async def after(outcome: Compacted) -> list[Any]:
        return [NOTE]

    async with await AsyncSession.open(
        tmp_path, "s", policy=POLICY, model=ScriptedModel(), on_before_compact=before, on_after_compact=after
    ) as session:
        await session.append(*conversation(10))
        outcome = await session.compact()
        assert isinstance(outcome, Compacted)
        assert conversation(10)[3] in outcome.messages
        assert session.history()[-1] == NOTE


def test_a_hook_may_look_at_the_session_and_cannot_start_another_compaction(tmp_path: Path) -> None:
    seen: list[Any] = []

    def before(plan: Any) -> None:
        seen.append((len(session.history()), session.compact()))

    with opened(tmp_path, on_before_compact=before) as session:
        session.append(*conversation(10))
        assert isinstance(session.compact(), Compacted)
    length, inner = seen[0]
    assert length == len(conversation(10))
    assert (type(inner), inner.reason) == (Skipped, "in_flight")


def test_with_check_a_request_that_no_repair_makes_legal_is_not_handed_out(tmp_path: Path) -> None:
    with opened(tmp_path, check=True) as session:
        session.append(user("go"))
        assert session.prepare().messages == [user("go")]
        session.append(exchange(1)[1], assistant("done"))
        assert session.prepare().messages == [user("go"), assistant("done")], "a repair does"
        session.append({"role": "assistant", "content": []})
        before = session.history()
        with pytest.raises(IllegalHistoryError, match=r"has no content .*session\.forget") as caught:
            session.prepare()
        assert [finding.rule for finding in caught.value.findings] == ["empty-content"]
        assert session.history() == before
    with opened(tmp_path) as session:
        assert session.prepare().history == before
