"""What a provider told of its limit: whose it is, how long it holds, and what never shrinks a window."""

import base64
import logging
import os
import re
from pathlib import Path
from typing import Any

import pytest

from conversations import assistant, user
from siltstone import Session, SimpleMemoryStore
from siltstone.events import OverheadTooLarge, WindowLearned
from siltstone.testing import RecordingHook

WINDOW = 200_000


def too_long(size: int, limit: int) -> ValueError:
    return ValueError(f"prompt is too long: {size} tokens > {limit} maximum")


def turn(session: Session, number: int, *errors: Exception, answer: bool = True) -> int:
    """One turn, whose request is refused with each of *errors* first. The tokens of the accepted one."""
    session.append(user(f"Boat {number} lies at pier {number}. " + "The harbour is calm. " * 30))
    prepared = session.prepare()
    for error in errors:
        prepared = session.recover(error)
    if answer:
        session.append(assistant("Noted."))
    return prepared.tokens


@pytest.fixture
def session() -> Any:
    with Session.open(None, "s", memory=SimpleMemoryStore(), context_window=WINDOW) as opened:
        for number in range(70):
            turn(opened, number)
        yield opened


def csv_at_turn_70(session: Session) -> None:
    rows = "\n".join(f"{n},{n * 7},{n * 11}" for n in range(8_000))
    session.append(user(f"Here it is:\n{rows}"))
    tokens = session.prepare().tokens
    session.recover(too_long(WINDOW + 9_000, WINDOW))
    assert tokens * 9 // 10 < (session.context_window or 0) < tokens, "until the next answer"


def pdf(session: Session) -> None:
    data = base64.b64encode(os.urandom(300_000)).decode()
    source = {"type": "base64", "media_type": "application/pdf", "data": data}
    session.append({"role": "user", "content": [{"type": "document", "source": source}]})
    session.prepare()
    session.recover(too_long(70_000, 60_000))


def pictures(session: Session) -> None:
    for number in range(34):
        data = base64.b64encode(os.urandom(750_000)).decode()
        source = {"type": "base64", "media_type": "image/png", "data": data}
        words = {"type": "text", "text": f"Picture {number}."}
        session.append({"role": "user", "content": [words, {"type": "image", "source": source}]})
        session.append(assistant("Seen."))
    session.append(user("Which pictures did we see?"))
    before = session.prepare().messages
    prepared = session.recover(ValueError("Error code: 413 - Request Entity Too Large"))
    size = sum(len(str(raw)) for raw in prepared.messages)
    assert len(prepared.messages) == len(before), "only bodies leave"
    assert 10_000_000 < size < 34_000_000 / 2
    assert "Picture 0." in str(prepared.messages)
    prepared = session.recover(ValueError("the request body is too large"))  # half was not enough
    assert sum(len(str(raw)) for raw in prepared.messages) < 1_000_000
    assert session.log(0)[-1] == user("Which pictures did we see?")


def fallback(session: Session) -> None:
    session.agent_model = "small-8k"
    turn(session, 70, too_long(40_000, 8_192))
    assert session.context_window == 8_192
    session.agent_model = "large"


def throttling(session: Session) -> None:
    said = "Rate limit reached for gpt-5 on tokens per min (TPM): Limit 30000, Used 28000, Requested 5000"
    session.append(user("And now?"))
    session.prepare()
    with pytest.raises(ValueError, match="TPM"):
        session.recover(ValueError(said))


@pytest.mark.parametrize("event", [csv_at_turn_70, pdf, pictures, fallback, throttling])
def test_the_window_is_as_before_within_one_accepted_request(session: Session, event: Any) -> None:
    session.agent_model = "large"
    event(session)
    session.append(assistant("Yes."))
    assert session.context_window == WINDOW
    assert not [each for each in session.limits if each.model == "large" and each.tokens]


def test_a_fallback_that_nobody_names_is_told_by_what_was_accepted_before(session: Session) -> None:
    tokens = turn(session, 70)
    assert tokens > 8_192
    turn(session, 71, too_long(tokens, 8_192))
    assert session.context_window == WINDOW
    assert session.limits == ()


def test_a_limit_counts_for_its_model_alone_and_at_once_when_it_is_back(session: Session) -> None:
    fallback(session)
    assert session.context_window == WINDOW
    session.agent_model = "small-8k"
    assert turn(session, 80) <= 8_192
    assert [each[:4] for each in session.limits] == [("small-8k", 8_192, "the provider's refusal", WINDOW)]


def test_a_larger_request_that_was_accepted_raises_it(session: Session) -> None:
    fallback(session)
    session.agent_model = "small-8k"
    turn(session, 80, answer=False)
    session.append(assistant("Noted."), usage={"input_tokens": 9_000})
    assert session.context_window == 9_000
    assert session.limits[0].source == "a larger request that was accepted"
    session.reset_limits()
    assert (session.context_window, session.limits) == (WINDOW, ())


def test_the_answers_share_is_left_free_if_the_host_has_not_reserved_it(session: Session) -> None:
    session.agent_model = "m"
    session.append(user("And now?"))
    sent = session.prepare().tokens
    said = f"input length and `max_tokens` exceed context limit: {sent} + 9000 > {sent + 100}, decrease it"
    assert session.recover(ValueError(said)).tokens + 9_000 <= sent + 100


def counted(messages: list[Any]) -> int:
    """The tokens of a request, with 300 for tools, by a provider to which each digit is one."""
    texts = (str(each["content"]) for each in messages)
    return 300 + sum(4 + len(re.findall(r"[a-z]{1,5} ?|[^a-z]", text)) for text in texts)


KINDS = {
    "words": "The harbour is calm and grey. " * 30,
    "numbers": "48 151 623 42 " * 30,
    "ids": "7c9e6679-7425-40de-944b " * 20,
    "japanese": "\u6e2f\u306f\u9759\u304b\u3060" * 60,
}


@pytest.mark.parametrize("reports", [True, False])
@pytest.mark.parametrize("kind", [*KINDS, "each in turn"])
def test_requests_keep_within_the_window_as_the_provider_counts(kind: str, reports: bool) -> None:
    refused, hook, store = 0, RecordingHook(), SimpleMemoryStore()
    with Session.open(None, "s", memory=store, context_window=4_096, hooks=[hook]) as session:
        for number in range(60):
            text = KINDS.get(kind) or [*KINDS.values()][number % len(KINDS)]
            session.append(user(f"{number}: {text}"))
            prepared = session.prepare()
            while (size := counted(prepared.messages)) > 4_096:
                refused += 1
                prepared = session.recover(too_long(size, 4_096))
            session.append(assistant(text[:200]), usage={"input_tokens": size} if reports else None)
        assert session.compactions()
    assert refused <= (not reports)
    assert not any(isinstance(event, OverheadTooLarge) for event in hook.events)


def test_a_count_is_kept_for_its_model_until_one_call(tmp_path: Path) -> None:
    with Session.open(tmp_path, "s", context_window=4_096) as session:
        session.agent_model = "m"
        for number in range(4):
            session.append(user(f"{number} {KINDS['words']}"))
            size = counted(session.prepare().messages)
            session.append(assistant("Yes."), usage={"input_tokens": size})
    with Session.open(tmp_path, "s", context_window=4_096) as session:
        (known,) = session.limits
        assert (known.model, known.tokens) == ("m", 0)
        assert known.factor * known.pairs[-1][0] + known.fixed == pytest.approx(size, rel=0.02)
        assert known.fixed == pytest.approx(300, abs=30)
        session.append(user(KINDS["words"] * 8))
        session.agent_model = "n"
        assert not session.plan().compacts, "another model counts for itself"
        session.agent_model = "m"
        assert session.plan().compacts
        session.reset_limits()
        assert (session.limits, session.plan().compacts) == ((), False)


def test_a_server_that_cuts_requests_in_silence_is_found_out_within_two_turns(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The oldest messages leave until the request fits, as with Ollama."""
    hook, limit, unseen = RecordingHook(), 2_048, list[int]()
    with Session.open(tmp_path, "s", context_window=32_768, hooks=[hook], recall=True) as session:
        session.append(user("The password of the walrus quarry is basalt-seven."), assistant("Noted."))
        for number in range(40):
            session.append(user(f"Pier {number}. " + "The harbour is calm and grey. " * (4 + number % 5)))
            request = session.prepare().messages
            seen = next(at for at in range(len(request)) if counted(request[at:]) <= limit)
            unseen += [number] * (seen > 0)
            session.append(assistant("Yes. " * 20), usage={"input_tokens": counted(request[seen:])})
        assert 1_600 < (session.context_window or 0) <= limit
        session.append(user("What is the password of the walrus quarry?"))
        assert "basalt-seven" in session.prepare().recalled
        session.append(assistant("basalt-seven"), question := user("The harbour is calm and grey. " * 600))
        assert session.prepare().messages[-1] == question, "what nobody named refuses no request"
    (learned,) = (event for event in hook.events if isinstance(event, WindowLearned))
    assert "num_ctx" in learned.source in caplog.text
    assert len(unseen) <= 3, unseen


def test_a_larger_request_after_a_compaction_is_no_request_that_has_grown() -> None:
    """The provider counts few tokens for the new texts, and many for those that left."""
    with Session.open(None, "s", memory=SimpleMemoryStore(), context_window=32_768) as session:
        session.append(*[user("4711 0815 99 " * 100), assistant("Noted.")] * 6, user("And now?"))
        session.append(assistant("Yes."), usage={"input_tokens": 5_000})
        session.compact()
        for number, told in enumerate((4_600, 4_620)):
            session.append(user("The harbour is calm and grey. " * (12 if number else 900)))
            session.append(assistant("Yes."), usage={"input_tokens": told})
        assert [each.tokens for each in session.limits] == [0]


def learned_in(path: Path) -> None:
    with Session.open(path, "s", context_window=WINDOW, agent_model="m") as session:
        for number in range(20):
            turn(session, number)
        turn(session, 20, too_long(20_000, 5_000))


def test_it_is_told_at_an_opening_and_ends_with_another_model(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    learned_in(tmp_path)
    hook = RecordingHook()
    caplog.clear()
    with Session.open(tmp_path, "s", context_window=WINDOW, hooks=[hook]) as session:
        assert session.agent_model == "m"
        assert session.context_window == 5_000
    assert [event for event in hook.events if isinstance(event, WindowLearned)] == [
        WindowLearned("s", WINDOW, 5_000, "m", "the provider's refusal")
    ]
    assert "keep to 5000 tokens" in caplog.text
    caplog.clear()
    caplog.set_level(logging.INFO)
    with Session.open(tmp_path, "s", context_window=WINDOW, agent_model="n") as session:
        assert session.context_window == WINDOW
    assert "need not keep to 5000 tokens" in caplog.text


def test_without_a_model_it_ends_with_another_window(tmp_path: Path) -> None:
    with Session.open(tmp_path, "s", context_window=WINDOW) as session:
        for number in range(8):
            turn(session, number)
        turn(session, 8, too_long(8_000, 5_000))
        assert session.context_window == 5_000
    with Session.open(tmp_path, "s", context_window=WINDOW) as session:
        assert session.context_window == 5_000
    with Session.open(tmp_path, "s", context_window=2 * WINDOW) as session:
        assert session.context_window == 2 * WINDOW
