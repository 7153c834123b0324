"""Do the documented systems work by their names, on recorded sessions, killed and reopened on the way?"""

import json
import re
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from recorded_agent import SESSION, Scripted, Told, killed_and_reopened, losses, session_of
from siltstone import Completion, CompletionRequest, ConfigError, MemoryStore, Session, SmartTrim, presets
from siltstone.archive.live import ContextArchive
from siltstone.engine import Compacted, Failed
from siltstone.events import ExtractionFailed
from siltstone.llm import ToolCall
from siltstone.messages import RecalledMessage, indexable_texts, read_history
from siltstone.presets import preset
from siltstone.systems.openclaw import smart_trim
from siltstone.systems.rustant import tiers
from siltstone.systems.waterfall.vault import Vault

Messages = list[dict[str, Any]]


def holds(told: Told, place: Path, recorded: Messages) -> None:
    """Nothing is lost or broken, the window holds, and the policy itself has run."""
    assert losses(place, recorded, told.trimmed) == (0, 0)
    assert (told.broken, told.over) == (0, 0)
    assert told.runs >= 3, told


def test_meerkat(recorded: Messages, tmp_path: Path) -> None:
    """The strict documented stack from end to end, and scores of the documented rule."""
    told = killed_and_reopened(tmp_path, recorded, "meerkat", 16_000)
    holds(told, tmp_path, recorded)
    with session_of(tmp_path, "meerkat", 16_000, Scripted()) as session:
        assert len(read_history(session.history())) < len(recorded)
        with MemoryStore.open(tmp_path, read_only=True) as store:
            [first, *_] = store.entries(SESSION, limit=1).entries
        [hit, *_] = session.search(first.content)
        assert hit.score > 0.999, "the same words are at distance 0, and 1 - 0 / 2 is 1"
        assert all(0.5 < each.score <= 1.0 for each in session.search("port of the module", 20))
        assert session.memory_search.name == "memory_search"


def test_rustant(recorded: Messages, tmp_path: Path) -> None:
    """At most 20 in view and a group that straddles; 100 at hand; a later session has the rule and finds."""
    told = killed_and_reopened(tmp_path, recorded, "rustant", 16_000)
    holds(told, tmp_path, recorded)
    assert told.beyond == 0, "beside the newest 20 stand the rest of their groups and the request"
    with session_of(tmp_path, "rustant", 16_000, Scripted()) as session:
        told_apart = tiers(read_history(session.history()), len(recorded))
        assert sum(end - start for start, end in told_apart.short_term) == 100
        assert told_apart.long_term, "and all that is older"
        for _ in range(3):  # as many new entries as a rule needs
            session.record_denial("shell", "rm -rf build", "use make clean", "tidy up")
        assert len(session.facts(limit=10)) == 10, "results of tools, by their bounds"

    later = {"preset": preset("rustant"), "context_window": 16_000, "namespace": "team"}
    with Session.open(tmp_path, "later", model=Scripted(), **later) as session:
        assert "use make clean" in session.memory_instructions
        with MemoryStore.open(tmp_path, read_only=True) as store:
            [first, *_] = store.entries(SESSION, limit=1).entries
        found = session.search(first.content)
        assert any(hit.content == first.content for hit in found)
        assert session.search(first.content, scope="session") == []
        assert len(session.search("the", 1000)) <= 20, "max_results"


def test_waterfall(recorded: Messages, tmp_path: Path) -> None:
    """Runs at 129, 193, 257 and 321, without emergency fit; the prompts byte for byte; the vault complete."""
    told = killed_and_reopened(tmp_path, recorded, "waterfall", 64_000)
    systems = sum(raw["role"] == "system" for raw in recorded)  # they are no memories
    due = [at + systems for at in (129, 193, 257, 321) if at + systems <= len(recorded)]
    assert told.at == due[: len(told.at)]
    assert told.emergency_runs == 0
    assert told.torn == 0, "the vault is complete after each run"
    if len(recorded) > 257:
        holds(told, tmp_path, recorded)
    vault = Vault(tmp_path / "vault", SESSION).read()
    with session_of(tmp_path, "waterfall", 64_000, Scripted()) as session:
        texts = {memory.seq: memory.content for memory in vault.memories}
        with MemoryStore.open(tmp_path, read_only=True) as store:
            offset: int | None = 0
            while offset is not None:
                page = store.entries(SESSION, offset=offset, limit=1000)
                for entry in page.entries:
                    assert texts[entry.source_range.start] == entry.content
                offset = page.next_offset
        summaries = [each for each in session.history() if "[Context compacted]" in str(each["content"])]
        assert vault.recent is not None
        assert vault.recent.text in str(summaries[-1]["content"])
        assert session.memory_status().errors == ()
    assert not vault.unreadable
    assert len(vault.copies) == told.runs


def test_spacebot(recorded: Messages, tmp_path: Path) -> None:
    """It stacks summaries, saves memories, and a fork finds them and what was said."""
    told = killed_and_reopened(tmp_path, recorded, "spacebot", 16_000)
    holds(told, tmp_path, recorded)
    assert told.stack >= 2
    with session_of(tmp_path, "spacebot", 16_000, Scripted()) as session:
        first_lines = [
            str(raw["content"]).splitlines()[0]
            for raw in session.history()
            if str(raw["content"]).startswith("[Summary ")
        ]
        numbers = [
            re.match(r"\[Summary (\d+)(?:-(\d+))?: turns (\d+)-(\d+)\]$", each) for each in first_lines
        ]
        said = [tuple(int(part) for part in each.groups() if part) for each in numbers if each is not None]
        assert len(said) == len(first_lines) >= 2
        assert said == sorted(said), "in their order"
        memories = session.facts(limit=100)
        assert memories, "the worker has saved what it was told"
        assert {fact.type for fact in memories} == {"decision"}
        with session.fork("branch", prompt="What was decided?") as fork:
            assert {fact.id for fact in fork.facts(limit=100)} >= {fact.id for fact in memories}
            [first, *_] = session.store.entries(SESSION, limit=1).entries
            assert fork.search(first.content)[0].content == first.content


def test_sb_78_a_fork_finds_what_the_parent_has_saved(tmp_path: Path) -> None:
    for namespace in ("", "team"):
        place = tmp_path / f"of-{namespace}"
        opened = {"preset": "spacebot", "context_window": 16_000, "namespace": namespace}
        with Session.open(place, "parent", model=Scripted(), **opened) as parent:
            parent.append({"role": "user", "content": "We use PostgreSQL 16 for billing."})
            parent.append({"role": "assistant", "content": "Noted."})
            parent.save("Billing runs on PostgreSQL 16", "decision")
            with parent.fork("branch", prompt="Which database has billing?") as fork:
                assert [fact.content for fact in fork.facts("PostgreSQL billing")] == [
                    "Billing runs on PostgreSQL 16"
                ]
                assert fork.log()[:2] == parent.log()
                assert fork.history()[-1] == {"role": "user", "content": "Which database has billing?"}
            assert len(parent.log()) == 2, "the parent is left as it was"


def test_sb_73_a_fork_compacts_above_six_tenths_of_the_window_not_at_it(tmp_path: Path) -> None:
    """By ``flat_tools`` a text has a quarter of its bytes: 24 messages of 1,600 bytes are 9,600 tokens."""
    for more, compacts in ((0, False), (4, True)):
        place = tmp_path / str(more)
        with Session.open(
            place, "parent", preset="spacebot", model=Scripted(), context_window=16_000
        ) as parent:
            for number in range(24):
                text = f"{number:04}".ljust(1600 + (more if number == 0 else 0), "x")
                role = "assistant" if number % 2 else "user"
                parent.append({"role": role, "content": text})
            assert parent.prepare().tokens == 9_600 + more // 4
            assert not parent.compactions()
            with parent.fork("branch") as fork:
                done = fork.compactions()
                assert bool(done) == compacts
                if compacts:
                    assert [each.covers for each in done] == [((0, 12),)], "half of it"
            assert not parent.compactions()


def test_a_fork_of_ours_leaves_until_it_fits_beside_its_prompt(tmp_path: Path) -> None:
    ours = presets.spacebot(documented=False)
    with Session.open(tmp_path, "parent", preset=ours, model=None, context_window=20_000) as parent:
        for number in range(14):
            role = "assistant" if number % 2 else "user"
            parent.append({"role": role, "content": f"{number:04}".ljust(4_000, "x")})
        with parent.fork("fits", prompt="x" * 8_000) as fork:
            assert not fork.compactions(), "14,000 and 2,000 fit beside a reserve of 3,000"
        with parent.fork("tight", prompt="x" * 12_004) as fork:
            assert "[Fork: 7 oldest messages removed" in str(fork.history()[0]["content"])
            assert len(fork.log()) == 15, "the log has all of it"


def test_a_fork_is_refused_where_a_call_waits_or_the_id_is_taken(tmp_path: Path) -> None:
    with Session.open(tmp_path, "parent", preset="spacebot", context_window=16_000) as parent:
        parent.append({"role": "user", "content": "hello"})
        with Session.open(tmp_path, "taken", preset="spacebot") as other:
            other.append({"role": "user", "content": "mine"})
        with pytest.raises(ConfigError, match="taken"):
            parent.fork("taken")
        with pytest.raises(ConfigError, match="another one"):
            parent.fork("parent")
        with pytest.raises(ConfigError, match="prompt must be a text, got 3"):
            parent.fork("wrong", prompt=3)  # type: ignore[arg-type]
        assert "wrong" not in {each.session_id for each in parent.store.sessions().sessions}
        function = {"name": "f", "arguments": "{}"}
        call = {"id": "c", "type": "function", "function": function}
        parent.append({"role": "assistant", "content": None, "tool_calls": [call]})
        with pytest.raises(ConfigError, match="1 calls without a result"):
            parent.fork("early")


def test_sb_71_the_worker_has_the_documented_prompt_and_one_tool(tmp_path: Path) -> None:
    asked = Scripted()
    with session_of(tmp_path, "spacebot", 16_000, asked) as session:
        for number in range(34):
            role = "assistant" if number % 2 else "user"
            session.append({"role": role, "content": f"{number:04} ".ljust(1600, "x")})
        session.compact()
    request, _ = asked.requests
    assert request.messages[0]["role"] == "system"
    assert str(request.messages[0]["content"]) == (
        "You are a compaction worker.\n"
        "Your job:\n"
        "1. Summarize the provided conversation turns into a cohesive narrative\n"
        "2. Extract any memorable facts, decisions, or preferences\n"
        "3. Save them using memory_save\n"
        "\n"
        "Guidelines:\n"
        "- Preserve important context\n"
        "- Maintain chronological flow\n"
        "- Don't lose critical information\n"
        "- Extract structured memories for anything worth remembering"
    )
    assert [tool["function"]["name"] for tool in request.tools] == ["memory_save"]


def test_a_memory_that_cannot_be_saved_fails_no_compaction(tmp_path: Path) -> None:
    told: list[Any] = []
    results: list[str] = []

    def worker(request: CompletionRequest) -> Completion:
        if request.messages[-1]["role"] == "tool":
            results.extend(each["content"] for each in request.messages if each["role"] == "tool")
            [said] = [each for each in request.messages if "tool_calls" in each]
            assert all(json.loads(each["function"]["arguments"]) is not None for each in said["tool_calls"])
            assert "said" not in said, "broken arguments are not sent back"
            return Completion("They spoke of tabs.")
        kept = '{"content": "Use tabs", "memory_type": "preference"}'
        called: tuple[Any, ...] = ({"content": ""}, kept, {"content": 3}, '{"content": "Use', None)
        saves = tuple(ToolCall("memory_save", each) for each in called)
        unknown = ToolCall("another", {"content": ""})
        return Completion("Saving.", tool_calls=(*saves, unknown), said=({"role": "assistant"},))

    with session_of(tmp_path, "spacebot", 16_000, worker, hooks=[told.append]) as session:
        for number in range(34):
            role = "assistant" if number % 2 else "user"
            session.append({"role": role, "content": f"{number:04} ".ljust(1600, "x")})
        assert isinstance(session.compact(), Compacted)
        assert [fact.content for fact in session.facts()] == ["Use tabs"]
    [failed] = [event for event in told if isinstance(event, ExtractionFailed)]
    assert (failed.failed, failed.calls) == (4, 5)
    assert "'content'" in results[0]
    assert json.loads(results[1])["saved"] == "Use tabs"
    assert "and are not JSON" in results[3]
    assert "there is no tool 'another'" in results[5]


def test_a_worker_that_never_ends_its_calls_fails_after_eight_answers(tmp_path: Path) -> None:
    saving = Completion("Saving.", tool_calls=(ToolCall("memory_save", {"content": "Use tabs"}),))
    with session_of(tmp_path, "spacebot", 16_000, lambda _: saving) as session:
        for number in range(34):
            session.append({"role": "user", "content": f"{number:04} ".ljust(1600, "x")})
        outcome = session.compact()
        assert isinstance(outcome, Failed)
        assert "is empty after 8 calls of tools" in outcome.message
        assert (len(session.history()), session.facts()) == (34, [])


def test_openclaw(recorded: Messages, tmp_path: Path) -> None:
    """One block a turn within its cap, files that anybody reads, and a restart that embeds nothing."""
    if str(recorded[0]["content"]) == "Be brief.":
        recorded = recorded[:121]  # of our own session the beginning has runs enough
    secret = "ghp_" + "z9Y8x7W6v5U4t3S2r1Q0p9O8n7M6l5K4j3I2"
    at = int(recorded[0]["role"] == "system")

    def with_token(said: str) -> Messages:
        planted = [
            {"role": "user", "content": f"The token is {said}."},
            {"role": "assistant", "content": "Noted."},
        ]
        return [*recorded[:at], *planted, *recorded[at:]]

    told = killed_and_reopened(tmp_path, with_token(secret), "openclaw", 16_000, spares=True)
    holds(told, tmp_path, with_token("[REDACTED]"))
    assert told.blocks <= 1, "one block a turn"
    assert told.block_tokens <= 1_600
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not [path for path in files if secret.encode() in path.read_bytes()]
    folder = tmp_path / "memory" / "context"
    segments = [json.loads(line) for line in (folder / "segments.jsonl").read_text("utf-8").splitlines()]
    vectors = read_vmem(folder / "vectors.bin")
    assert set(vectors) == {each["id"] for each in segments}
    assert all(len(vector) == 384 for vector in vectors.values())
    for each in segments:
        assert {"id", "sessionId", "timestamp", "role", "content", "tokens", "metadata"} <= set(each)
        assert "embedding" not in each
    archive = ContextArchive(folder, embed=never)
    found = archive.search(segments[0]["content"], 3, session_id=SESSION)
    assert found[0][0].content == segments[0]["content"]
    with session_of(tmp_path, "openclaw", 16_000, Scripted()) as session:
        prepared = session.prepare()
        assert prepared.history == session.log(), "a trim is of one request: the history is whole"
        shown = said(prepared.messages)
        gone = next(
            each["content"]
            for each in segments
            if 400 < len(each["content"]) < 2_000 and each["content"] not in shown
        )
        assert any(hit.content == gone for hit in session.search(gone, 3)), "it is found"
        asked = [gone[:300], gone[100:400], gone[-300:]]
        wait = "Let me see. "
        for number, part in enumerate(asked):
            session.append({"role": "user", "content": f"What was that about: {part}"})
            prepared = session.prepare()
            # what is protected fills the safe limit of 8,000 tokens, of 16,000 less 4,000 less 4,000
            later = [
                {"role": "user", "content": f"What was that about: {part}"} for part in asked[number + 1 :]
            ]
            rest = smart_trim(
                [*session.history(), {"role": "assistant", "content": wait}, *later],
                1,
                SmartTrim.documented().config,
            )
            filler = "x" * (3 * max(0, 7_980 - rest.tokens) // max(1, len(later)))
            session.append({"role": "assistant", "content": wait + filler})
        [block] = [raw for raw in prepared.messages if isinstance(raw, RecalledMessage)]
        assert gone in str(block["content"]), "what was trimmed comes back"
        assert 0 < session._core.view.rule.count_text(prepared.recalled) <= 1_600
        shown = said(raw for raw in prepared.messages if raw is not block)
        for each in segments[:20]:
            found = any(hit.content == each["content"] for hit in session.search(each["content"], 3))
            assert found is (each["content"] not in shown), "a search leaves out what the request shows"


def said(messages: Iterable[Any]) -> str:
    """What messages say, as an archive has it."""
    return "\n\n".join(indexable_texts(read_history(list(messages))))


def never(text: str) -> list[float]:
    if len(text) < 400:
        return [0.0] * 384  # a query
    raise AssertionError("a restart embeds nothing")


def read_vmem(path: Path) -> dict[str, tuple[float, ...]]:
    """``vectors.bin`` by its description, without a line of ours."""
    data = path.read_bytes()
    magic, version, dimension, count = struct.unpack_from("<4I", data)
    assert (magic, version) == (0x4D454D56, 1)
    at, found = 16, {}
    for _ in range(count):
        (length,) = struct.unpack_from("<H", data, at)
        name = data[at + 2 : at + 2 + length].decode()
        at += 2 + length
        found[name] = struct.unpack_from(f"<{dimension}f", data, at)
        at += 4 * dimension
    assert at == len(data)
    return found


def looked_up(number: int, question: str, result: str) -> Messages:
    """A turn in which a tool has given *result*."""
    name = f"c{number}"
    call = {"id": name, "type": "function", "function": {"name": "look", "arguments": "{}"}}
    return [
        {"role": "user", "content": question},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": name, "content": f"shelf-{number} " + result},
        {"role": "assistant", "content": f"Answer {number}."},
    ]


def test_oc_77_the_preset_prunes_results_first_and_keeps_what_was_said(tmp_path: Path) -> None:
    with session_of(tmp_path, "openclaw", 16_000, Scripted()) as session:
        for number in range(8):
            session.append(*looked_up(number, f"Question {number}.", "crate " * 900))
            prepared = session.prepare()
        results = [raw["content"] for raw in prepared.messages if raw["role"] == "tool"]
        assert [text.startswith("[result of look cleared") for text in results] == [True] * 5 + [False] * 3
        assert prepared.trimmed == tuple((4 * at + 2, 4 * at + 3) for at in range(5))
        assert prepared.tokens <= 8_000
        assert session.history() == session.log(), "a request alone is pruned"
        assert any("shelf-0 crate" in hit.content for hit in session.search("shelf-0", 3))
        for number in range(8, 16):
            session.append(*looked_up(number, f"Question {number}. " + "pad " * 900, "crate " * 900))
        shown = str(session.prepare().messages)
        assert "Question 15." in shown
        assert "Question 8." not in shown, "where that is not enough, a trim follows"
    whole = presets.openclaw(prune_tool_bytes=None)
    with session_of(tmp_path / "whole", whole, 16_000, Scripted()) as session:
        for number in range(8):
            session.append(*looked_up(number, f"Question {number}.", "crate " * 900))
        assert not any("cleared" in str(raw["content"]) for raw in session.prepare().messages)


def test_a_changed_fact_supersedes_the_old_one(tmp_path: Path) -> None:
    told = {"3000": "API endpoint runs on port 3000", "4000": "API endpoint now runs on port 4000"}

    def model(request: CompletionRequest) -> str:
        if request.purpose != "facts":
            return "They spoke of the port of the API endpoint."
        said = [told[port] for port in told if port in str(request.messages[0]["content"])]
        return json.dumps([{"type": "config", "content": content, "context": ""} for content in said])

    with session_of(tmp_path, "openclaw", 16_000, model) as session:
        for port in (3000, 4000):
            for number in range(24):  # so many leave that a model reads of both, wherever a batch ends
                role = "assistant" if number % 2 else "user"
                text = f"The API endpoint runs on port {port}. {number} " + "filler " * 500
                session.append({"role": role, "content": text})
                session.prepare()
            session.learn()
        assert [fact.content for fact in session.facts()] == ["API endpoint now runs on port 4000"]
        assert len(session.facts(history=True)) == 2
    lines = (tmp_path / "memory" / "context" / "knowledge.jsonl").read_text("utf-8").splitlines()
    assert any(json.loads(line).get("supersededBy") for line in lines)


def test_openclaw_switched_off_only_keeps_the_history(tmp_path: Path) -> None:
    made = presets.openclaw.from_config('{"agents": {"defaults": {"memoryContext": {"enabled": false}}}}')
    asked = Scripted()
    with session_of(tmp_path, made, 16_000, asked) as session:
        for number in range(40):
            role = "assistant" if number % 2 else "user"
            session.append({"role": role, "content": f"{number} of tides " + "filler " * 100})
        prepared = session.prepare()
        assert (prepared.trimmed, prepared.recalled, prepared.outcomes) == ((), "", ())
        assert session.facts() == []
    assert asked.requests == []
    assert not (tmp_path / "memory" / "context").exists()


def test_facts_of_a_documented_file_are_known_and_a_trim_asks_no_model_for_more(tmp_path: Path) -> None:
    """The documented lines of ``knowledge.jsonl`` name no session."""
    folder = tmp_path / "memory" / "context"
    folder.mkdir(parents=True)
    line = {"id": "f-1", "type": "config", "content": "Staging runs on host Falkenburg", "timestamp": 1}
    (folder / "knowledge.jsonl").write_text(json.dumps(line) + "\n", encoding="utf-8")
    asked = Scripted()
    with session_of(tmp_path, "openclaw", 16_000, asked) as session:
        for number in range(40):
            role = "assistant" if number % 2 else "user"
            session.append({"role": role, "content": f"{number} of tides " + "filler " * 200})
            trimmed = session.prepare().trimmed
        session.append({"role": "user", "content": "Which host has staging? Falkenburg?"})
        assert "host Falkenburg" in session.prepare().recalled
        assert [fact.session_id for fact in session.facts()] == [session.session_id]
    assert trimmed
    assert asked.requests == [], "only a compaction, an opening, or a call of learn asks"
