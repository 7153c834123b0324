"""Golden values of each system, worked out by hand from what it documents, through a session by its name."""

import json
import math
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from recorded_agent import Scripted, session_of
from siltstone import presets


def user(content: str) -> dict[str, Any]:
    return {"role": "user", "content": content}


def assistant(content: str) -> dict[str, Any]:
    return {"role": "assistant", "content": content}


def in_json(tokens: int, role: str = "user") -> dict[str, Any]:
    """A message whose JSON has four bytes a token: ``{"role":"user","content":"..."}``."""
    frame = len(json.dumps({"role": role, "content": ""}, separators=(",", ":")))
    return {"role": role, "content": "x" * (4 * tokens - frame)}


@pytest.mark.parametrize(("last", "compacts"), [(799, False), (800, True)])
def test_meerkat_compacts_at_four_fifths_of_the_window_and_keeps_four_turns(
    tmp_path: Path, last: int, compacts: bool
) -> None:
    """Six turns of 2,000 tokens and one message: 12,800 of 16,000 are reached, or 12,799 are not."""
    asked = Scripted()
    with session_of(tmp_path, "meerkat", 16_000, asked) as session:
        session.append(user("hello"))
        session.prepare()  # boundary 0 never compacts
        session.append(assistant("hi"))
        with_these = session._core.view.tokens
        session.prepare()
        for _ in range(6):
            session.append(in_json(1_000), in_json(1_000, "assistant"))
        session.append(in_json(last - with_these))
        session.prepare()
        assert bool(session.compactions()) == compacts
        if not compacts:
            return
        assert session.compactions()[0].covers == ((0, 6),), "the first turn, and two of the six"
        [summary, *rest] = session.history()
        assert rest == session.log()[6:]
        assert summary["role"] == "user"
        assert str(summary["content"]).startswith("[Context compacted] ")
    [request] = asked.requests
    assert request.tools == ()
    assert str(request.messages[-1]["content"]).startswith(
        "You are performing a CONTEXT COMPACTION. Your job is to create a handoff summary so work can "
        "continue seamlessly.\n\nInclude:\n\n* Current progress and key decisions made\n"
    )


def test_meerkat_scores_by_hashed_words_and_half_the_distance(tmp_path: Path) -> None:
    """``h = 31 h + byte`` over 4,096 counts; cosine of "red fox" with "red cat" is 1/2, so 1 - 0.5/2."""

    def counts(text: str) -> Counter[int]:
        found: Counter[int] = Counter()
        for word in text.split():
            value = 0
            for byte in word.lower().encode():
                value = (value * 31 + byte) % 2**64
            found[value % 4_096] += 1
        return found

    def score(one: Counter[int], other: Counter[int]) -> float:
        both = sum(count * other[place] for place, count in one.items())
        lengths = [math.sqrt(sum(count**2 for count in each.values())) for each in (one, other)]
        return 1 - (1 - both / math.prod(lengths)) / 2

    texts = ["red fox", "red cat", "blue cat cat", "the port is 8080", "nothing here"]
    with session_of(tmp_path, "meerkat", 16_000, Scripted()) as session:
        for text in texts:
            session.append(user(text), assistant("x" * 2_000))
        session.append(user("and now?"), assistant("yes"))
        session.compact()
        session.append(user("one"), assistant("two"), user("three"), assistant("four"))
        session.append(user("five"), assistant("six"), user("seven"), assistant("eight"))
        session.compact()
        found = {hit.content: hit.score for hit in session.search("red fox", 20)}
        assert found["red fox"] == pytest.approx(1.0)
        assert found["red cat"] == pytest.approx(0.75)
        assert "nothing here" not in found, "no hit without a word in common"
        for text in ("blue cat cat", "red cat"):
            [hit] = [each for each in session.search("cat", 20) if each.content == text]
            assert hit.score == pytest.approx(score(counts("cat"), counts(text)), abs=1e-6)
        answer = json.loads(session.memory_search.call({"query": "red fox", "limit": 1}))
        assert answer == [{"content": "red fox", "score": 1.0, "source_range": {"start": 0, "end": 1}}]


@pytest.mark.parametrize(("limit", "is_whole"), [(5, True), (20, False)])
def test_meerkat_answers_with_one_array_of_whole_texts(tmp_path: Path, limit: int, is_whole: bool) -> None:
    """Each text has some 800 tokens, and an answer at most half of the window: 8,000."""
    with session_of(tmp_path, "meerkat", 16_000, lambda _: "They deployed.") as session:
        for number in range(24):
            session.append(user(f"deploy {number:02} " * 240), assistant("Done."))
        session.compact()
        tool = session.memory_search
        found = json.loads(tool.call({"query": "deploy", "limit": limit}))
        assert len(found) == limit
        assert ({each["content"] for each in found} <= {raw["content"] for raw in session.log()}) == is_whole
        assert set(tool.parameters["properties"]) == {"query", "limit"}


def test_a_temperature_that_a_model_refuses_fails_no_summary(tmp_path: Path) -> None:
    def model(request: Any) -> str:
        if request.temperature is not None:
            raise ValueError(f"Unsupported value: 'temperature' does not support {request.temperature}")
        return "They counted messages."

    with session_of(tmp_path, presets.rustant(summary_temperature=0.3), 64_000, model) as session:
        for number in range(21):
            session.append((assistant if number % 2 else user)(f"message {number}"))
        session.prepare()
        [done] = session.compactions()
        assert (done.degraded, "They counted messages." in done.summary) == (False, True)


@pytest.mark.parametrize("prompt", ["Be brief.", ""])
def test_what_a_preset_has_to_say_to_the_model_is_in_the_next_request(tmp_path: Path, prompt: str) -> None:
    """At the end of the system prompt, or before all messages; never in the history."""
    head = [{"role": "system", "content": prompt}] if prompt else []
    for name, told in (("rustant", "prefer: use make clean"), ("meerkat", "call memory_search")):
        with session_of(tmp_path / name, name, 16_000, Scripted()) as session:
            session.append(*head, user("hello"))
            before = session.prepare()
            for number in range(3):
                session.record_denial("shell", f"rm -rf build{number}", "use make clean", "tidy up")
            for _ in range(2):
                after = session.prepare()
                first, *rest = after.messages
                assert rest == [user("hello")]
                assert told in first["content"]
                assert first["content"].startswith(prompt or "## ")
                assert (first["role"] == "system") == bool(prompt)
            assert after.history == before.history == [*head, user("hello")]
            assert (after.tokens > before.tokens) == (name == "rustant")


@pytest.mark.parametrize("name", ["spacebot", "rustant", "waterfall"])
def test_a_summary_is_sent_without_its_mark_and_known_when_a_host_sends_it_again(tmp_path: Path, name: str):
    with session_of(tmp_path, name, 64_000, Scripted()) as session:
        for number in range(130):
            session.append((assistant if number % 2 else user)(f"message {number}"))
        session.compact()
        prepared = session.prepare()
        assert "[Summary level" in str(prepared.history)
        assert "[Summary level" not in str(prepared.messages)
        session.observe([*json.loads(json.dumps(prepared.messages)), user("Go on.")])
        assert len(session.log()) == 131


def test_the_block_of_openclaw_byte_for_byte(tmp_path: Path) -> None:
    with session_of(tmp_path, "openclaw", 16_000, Scripted()) as session:
        session.append(user("The staging certificate of Falkenburg expires on 2027-03-04."))
        session.append(assistant("Noted."))
        for number in range(30):
            session.append((assistant if number % 2 else user)(f"m{number} " + "filler " * 250))
            session.prepare()
        session.save("Deploys go to Falkenburg by Docker", "config")
        block = session.recall("Deploys Falkenburg Docker certificate staging expires")
        assert re.sub(r"\[\d{4}-\d\d-\d\d \d\d:\d\d ", "[2027-01-01 00:00 ", block) == (
            '<recalled-context source="memory-context">\n\n'
            "<knowledge>\n"
            "- [config] Deploys go to Falkenburg by Docker\n"
            "</knowledge>\n\n"
            "<detail>\n"
            "[2027-01-01 00:00 user] The staging certificate of Falkenburg expires on 2027-03-04.\n"
            "</detail>\n\n"
            "</recalled-context>"
        )


@pytest.mark.parametrize(("tokens", "is_placed"), [(11_990, True), (12_001, False)])
def test_oc_83_openclaw_places_nothing_above_its_safe_limit_and_its_cap(
    tmp_path: Path, tokens: int, is_placed: bool
) -> None:
    """8,000 and 4,000 are 12,000, though the window has 16,000: the rest is for the answer.

    Three requests of 3, 4 and 2 tokens; the last six messages are protected, so no trim makes room.
    """
    with session_of(tmp_path, "openclaw", 16_000, Scripted()) as session:
        session.save("Deploys go to Falkenburg by Docker", "config")
        block = session.recall("Deploys Falkenburg Docker")
        assert "by Docker" in block
        rest = tokens - 9 - math.ceil(len(block) / 3) - 5_000
        session.append(user("Deploys"), assistant("x" * 15_000), user("Falkenburg"))
        session.append(assistant("x" * 3 * rest), user("Docker"))
        prepared = session.prepare()
        assert prepared.recalled == (block if is_placed else "")
        assert prepared.tokens == (tokens if is_placed else tokens - math.ceil(len(block) / 3))
        assert prepared.history == session.log()
