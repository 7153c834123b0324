"""The documented systems by name: what each is made of, what its configuration says, and whose a store is."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from playing_presets import policy_config, waterfall_of
from siltstone import ConfigError, Entry, HnswMemoryStore, MemoryStore, Session, ThresholdCompactor, presets
from siltstone.archive.files import read_vectors
from siltstone.archive.live import Said
from siltstone.cli.app import app
from siltstone.engine import Compacted, Failed, Skipped
from siltstone.presets import SYSTEMS, preset, preset_names

MEERKAT = """\
[compaction]
auto_compact_threshold = 50000
recent_turn_budget = 6
max_summary_tokens = 8192
min_turns_between_compactions = 5
"""

RUSTANT = """\
[memory]
working_limit = 20         # Max messages in working memory
short_term_limit = 100     # Max messages in short-term memory
long_term_enabled = true   # Enable persistent long-term memory
auto_summarize = true      # Enable auto-summarization

[search]
enabled = true
index_dir = ".rustant/search_index"
max_results = 20
"""

WATERFALL = """\
# Memory Compaction Configuration

- **Immediate window**: Full detail for recent memories

## Compaction Windows

**immediate_window**: 64
_Number of most recent memories to keep in full detail_

**recent_window**: 64
_Number of memories before immediate window to summarize (creates short-term summary)_

**Notes**:
- Compaction triggers at 129 memories (immediate + recent windows filled)

**profile**: summarizer
_LLM profile name used for generating summaries_

**Automatic**: Compaction runs automatically at 129 memories, then every ~64 memories thereafter

**Prompt Format**:
```
# Memories:
**recent_window**: 3
```
"""

SPACEBOT = """\
[defaults]
context_window = 128000

[defaults.compaction]
background_threshold = 0.80
aggressive_threshold = 0.85
emergency_threshold = 0.95
"""

OPENCLAW = """\
{
  "agents": {
    "defaults": {
      "memoryContext": {
        "enabled": true,
        "hardCapTokens": 4000,
        "embeddingModel": "hash",
        "redaction": true,
        "knowledgeExtraction": true,
        "autoRecallMinScore": 0.7,
        "maxSegments": 20000,
        "crossSession": false,
        "evictionDays": 90
      }
    }
  }
}
"""


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_says_how_a_session_is_opened(name: str, tmp_path: Path) -> None:
    for documented in (True, False):
        made = SYSTEMS[name](documented=documented)
        place = tmp_path / str(documented)
        with Session.open(place, "chat", preset=made, context_window=16_000) as session:
            session.append({"role": "user", "content": "hello"})
            assert session.prepare().messages[-1:] == session.prepare().history == session.log()
        assert made.label == (name if documented else f"{name} (ours)")


def test_documented_numbers_of_meerkat(tmp_path: Path) -> None:
    made = presets.meerkat()
    config = policy_config(made)
    assert (config.recent_turn_budget, config.max_summary_tokens) == (4, 4096)
    assert (config.min_turns_between_compactions, config.strict_guard) == (3, True)
    assert (config.retained_token_budget, config.estimator) == (None, "bytes/4")
    assert config.effective_threshold(None) == 100_000
    assert config.effective_threshold(128_000) == 102_400
    with made.open_store(tmp_path / "documented") as store:
        assert type(store) is HnswMemoryStore
    with presets.meerkat(documented=False).open_store(tmp_path / "ours") as store:
        assert type(store) is MemoryStore
    assert policy_config(presets.meerkat(documented=False)) == ThresholdCompactor().config
    assert policy_config(presets.meerkat.from_config("recent_turn_budget = 6\n")).recent_turn_budget == 6


def test_documented_numbers_of_rustant() -> None:
    made = presets.rustant()
    config = policy_config(made)
    assert (config.working_limit, config.short_term_limit, config.auto_summarize) == (20, 100, True)
    assert made.most_hits == 20
    facts = made.options["knowledge"]
    bounds = facts.fact_min, facts.fact_max, facts.fact_unit, facts.fact_inclusive
    assert bounds == (10, 5000, "chars", True)


def test_wf_40_the_documented_markdown_loads_verbatim(tmp_path: Path) -> None:
    path = tmp_path / "settings.md"
    path.write_text(WATERFALL, encoding="utf-8")
    for source in (WATERFALL, path, str(path)):
        made = presets.waterfall.from_config(source)
        assert made.settings == {"immediate_window": 64, "recent_window": 64, "profile": "summarizer"}
    assert policy_config(presets.waterfall.from_config("**immediate_window**: 24\n")).immediate_window == 24
    assert policy_config(presets.waterfall.from_config("immediate_window = 24\n")).immediate_window == 24
    config = policy_config(made)
    assert (config.every, config.temperature, config.max_tokens, config.attempts) == (64, None, 1024, 3)
    assert policy_config(presets.waterfall(documented=False)).longterm_budget_tokens == 2000


def test_ru_62_the_documented_toml_loads_and_its_switches_do_what_they_say(tmp_path: Path) -> None:
    made = presets.rustant.from_config(RUSTANT)
    assert policy_config(made) == policy_config(presets.rustant())
    assert made.settings["index_dir"] == ".rustant/search_index"

    def told(place: str, **settings: bool) -> Session:
        session = Session.open(
            tmp_path / place, "chat", preset=presets.rustant(**settings), context_window=64_000
        )
        for number in range(130):
            session.append({"role": "user", "content": f"question {number} about subject{number}"})
            session.append({"role": "assistant", "content": f"answer {number}"})
            session.prepare()
        return session

    with told("manual", auto_summarize=False) as session:
        assert session.compactions() == []
        assert len(session.history()) == 260
    with told("short", long_term_enabled=False) as session:
        assert session.search("subject3") == [], "what left short-term is in the log alone"
        assert session.search("subject115")[0].source_range.start == 230
        assert session.facts() == []
        assert len(session.log()) == 260
    with told("unsearched", search_enabled=False) as session:
        assert session.compactions()
        assert session.search("subject3") == []
        assert session.memory_search.call({"query": "subject3"}) == "[]"
        assert session.record_denial("shell", "rm -rf build", "use make clean").corrected == "use make clean"
        assert session.facts() == [], "nothing is refused"


def test_sb_76_the_documented_toml_loads_verbatim() -> None:
    config = policy_config(presets.spacebot.from_config(SPACEBOT))
    assert config.context_window == 128_000
    tiers = config.background_threshold, config.aggressive_threshold, config.emergency_threshold
    assert tiers == (0.80, 0.85, 0.95)
    ours = policy_config(presets.spacebot.from_config("[compaction]\nworker_turns_per_segment = 9\n"))
    assert (ours.worker_turns_per_segment, ours.aggressive_threshold) == (9, 0.85)


class Model:
    """Stands for a transformer."""

    id, dimension = "model-1", 16

    def embed_query(self, text: str) -> list[float]:
        return [1.0] * 16


@pytest.mark.parametrize("model", ["hash", "auto", "transformer"])
@pytest.mark.parametrize("installed", [True, False])
def test_oc_61_the_embedding_that_openclaw_names_makes_its_vectors(
    tmp_path: Path,
    model: str,
    installed: bool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def missing() -> Model:
        raise ConfigError("the package 'onnxruntime' is not installed", field="model", value=None)

    monkeypatch.setattr("siltstone.embedding.MiniLMEmbedder", Model if installed else missing)
    made = presets.openclaw.from_config(f'{{"embeddingModel": "{model}"}}')
    assert made.archive is not None
    made.archive(tmp_path).add("s", [Said("user", "Deploys go to Falkenburg.", 1_000)])
    vectors = read_vectors(tmp_path / "memory" / "context" / "vectors.bin")
    assert len(vectors.by_id) == 1
    by_model = installed and model != "hash"
    assert vectors.dimension == (16 if by_model else 384)
    assert (tmp_path / "memory" / "context" / "vectors.model").exists() is by_model
    warned = any("there is no transformer" in record.getMessage() for record in caplog.records)
    assert warned is (model == "transformer" and not installed)


def test_spacebot_has_its_numbers_and_keeps_checkpoints_where_its_file_says_so() -> None:
    text = (
        '[defaults.compaction]\nmode = "chronicle"\n\n'
        "[defaults.compaction.chronicle]\ninterval_messages = 20\n"
    )
    config = policy_config(presets.spacebot.from_config(text))
    assert (config.mode, config.chronicle.interval_messages) == ("chronicle", 20)
    assert config.chronicle.whole_turns, "the documented form"
    with pytest.raises(ConfigError, match="did you mean 'interval_messages'"):
        presets.spacebot.from_config(text.replace("interval_messages", "intervall_messages"))
    assert (config.estimator, config.fork_preflight) == ("flat_tools", "usage")
    assert policy_config(presets.spacebot(documented=False)).fork_preflight == "budget"


def test_the_documented_json_of_openclaw_loads_and_its_nine_defaults_are_these() -> None:
    made = presets.openclaw.from_config(OPENCLAW)
    assert len(made.settings) == 9
    assert made.options["recall"] == presets.openclaw().options["recall"]


WHOLE_SPACEBOT = f"""\
[llm]
openai_key = "env:OPENAI_API_KEY"
{SPACEBOT}
[defaults.cortex]
tick_interval_secs = 30

[[agents]]
id = "small"

[[agents]]
id = "main"
default = true

[agents.compaction]
aggressive_threshold = 0.90

[[bindings]]
agent_id = "main"
"""

WHOLE_RUSTANT = """\
[llm]
model = "x"
[[mcp_servers]]
name = "browser"
[memory]
window_size = 12
compression_threshold = 0.8
enable_persistence = true
persist_path = "memory"
[search]
enabled = true
index_path = "index"
[knowledge]
min_entries_for_distillation = 2
knowledge_path = "rules.json"
"""

WHOLE_OPENCLAW = """\
// a comment
{ gateway: { port: 18789 }, memory: { backend: 'it\\'s "here"' },
  agents: { list: [{ id: "main" }], defaults: { workspace: "~//claw", memorySearch: {},
    memoryContext: { hardCapTokens: +3000, /* of 4000 */ }, }, }, }
"""


@pytest.mark.parametrize(
    ("name", "text", "settings", "aside"),
    [
        (
            "rustant",
            WHOLE_RUSTANT,
            {
                "working_limit": 12,
                "auto_summarize_threshold": 0.8,
                "long_term_enabled": True,
                "search_enabled": True,
                "index_dir": "index",
                "min_entries": 2,
            },
            "llm, mcp_servers, memory.persist_path, knowledge.knowledge_path",
        ),
        (
            "meerkat",
            f"max_tokens = 9\n[limits]\nbudget = 3\n{MEERKAT}[[hooks]]\nname = 'x'\n",
            {
                "auto_compact_threshold": 50_000,
                "recent_turn_budget": 6,
                "max_summary_tokens": 8_192,
                "min_turns_between_compactions": 5,
            },
            "max_tokens, limits, hooks",
        ),
        (
            "waterfall",
            '**stop**: "\\n"\n**recent_window**: 8\n**compaction_threshold**: 256\n',
            {"stop": "\n", "recent_window": 8},
            "compaction_threshold",
        ),
        ("waterfall", "[waterfall]\nrecent_window = 8\n[vault]\nx = 1\n", {"recent_window": 8}, "vault"),
        (
            "spacebot",
            WHOLE_SPACEBOT,
            {
                "context_window": 128_000,
                "background_threshold": 0.80,
                "aggressive_threshold": 0.90,
                "emergency_threshold": 0.95,
            },
            "llm, bindings, defaults.cortex, agents.id, agents.default",
        ),
        (
            "openclaw",
            WHOLE_OPENCLAW,
            {"hard_cap_tokens": 3_000},
            "gateway, memory, list, workspace, memorySearch",
        ),
        ("openclaw", '{"gateway": {}}', {}, "gateway"),
        ("openclaw", '{"agents": {"defaults": {"workspace": "x"}}}', {}, "workspace"),
    ],
)
def test_the_whole_file_of_a_system_loads_and_what_is_not_read_is_named_once(
    name: str, text: str, settings: dict[str, Any], aside: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert SYSTEMS[name].from_config(text).settings == settings
    [record] = caplog.records
    assert record.getMessage().endswith(f"not read: {aside}")


def test_an_unknown_preset_or_setting_names_the_nearest_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean 'meerkat'"):
        Session.open(tmp_path, "chat", preset="merkat")
    with pytest.raises(ConfigError, match="did you mean 'working_limit'"):
        presets.rustant(working_limits=3)
    with pytest.raises(ConfigError, match="there is no preset 7"):
        preset(7)
    with pytest.raises(ConfigError, match="policy is part of the preset 'meerkat'"):
        Session.open(tmp_path, "chat", preset="meerkat", policy=ThresholdCompactor())
    assert not any(tmp_path.iterdir())


def test_wf_42_status_and_a_forced_run_are_calls_and_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``@memory-status`` and ``@compact-memories``."""
    place = tmp_path / "store"
    with Session.open(place, "chat", preset="waterfall", context_window=64_000) as session:
        for number in range(64):
            session.append({"role": "user", "content": f"Entry {number}: the river rose to {number} cm."})
        assert session.memory_status().line == "[Memory: OK]"
        outcome = session.compact_memories()
        assert isinstance(outcome, Skipped)
        assert "64" in outcome.message
        session.append({"role": "user", "content": "Entry 64: it fell."})
        assert isinstance(session.compact_memories(), Compacted)
        assert "- **Recent summary**: 1 entries (0 to 0)" in session.memory_status().markdown
        assert isinstance(session.compact_memories(), Skipped), "nothing is summarised twice"
        session.append({"role": "user", "content": "Entry 65: it fell further."})

    runner = CliRunner()
    status = runner.invoke(app, ["memory-status", str(place), "-s", "chat", "--json"])
    assert (status.exit_code, json.loads(status.stdout)["line"]) == (0, "[Memory: OK]")
    assert "# Memory Status" in runner.invoke(app, ["memory-status", str(place), "-s", "chat"]).stdout
    ran = runner.invoke(app, ["compact-memories", str(place), "-s", "chat", "--json"])
    assert (ran.exit_code, json.loads(ran.stdout)["outcome"]) == (0, "compacted")
    again = runner.invoke(app, ["compact-memories", str(place), "-s", "chat"])
    assert again.exit_code == 1
    assert runner.invoke(app, ["memory-status", str(place), "-s", "nobody"]).exit_code == 2

    with Session.open(place, "told", preset="waterfall", model=lambda _: "It rose, and fell.") as session:
        for number in range(140):
            session.append({"role": "user", "content": f"Entry {number}: the river rose to {number} cm."})
            session.prepare()
    for model, code in ((["--model", "extractive"], 0), ([], 2)):
        ran = runner.invoke(app, ["compact-memories", str(place), "-s", "told", *model])
        assert ran.exit_code == code, (
            "lines are quoted beside what a model wrote only where that is asked for"
        )

    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    ran = runner.invoke(app, ["compact-memories", str(place), "-s", "told", "--model", "gpt-5-mini"])
    assert (ran.exit_code, type(ran.exception)) == (2, SystemExit), "an SDK that finds no key is no traceback"
    with Session.open(place, "edited", preset="waterfall", context_window=64_000) as session:
        said = [{"role": "user", "content": f"Entry {number}."} for number in range(140)]
        for history in (said, [*said[:100], said[0]]):
            session.observe(history)
            session.prepare()
    assert runner.invoke(app, ["compact-memories", str(place), "-s", "edited"]).exit_code == 0

    waterfall_of(tmp_path / "small", 9)
    ran = runner.invoke(app, ["memory-status", str(tmp_path / "small"), "-s", "chat"])
    assert "5 entries (0 to 4)" in ran.stdout, "by its own windows of four"

    with Session.open(tmp_path / "other", "chat", preset="rustant") as session:
        session.append({"role": "user", "content": "hello"})
        with pytest.raises(ConfigError, match="memory_status is a call of waterfall"):
            session.memory_status()
    assert runner.invoke(app, ["memory-status", str(tmp_path / "other"), "-s", "chat"]).exit_code == 2


#: A text of each system that says one thing, and how its error names the key, the bound and the value.
WRONG = [
    ("meerkat", "[compaction]\nrecent_turn_budget = 0", "recent_turn_budget must be > 0, got 0"),
    ("meerkat", '[compaction]\nrecent_turn_budget = "6"', "recent_turn_budget must be an integer, got '6'"),
    ("meerkat", "[compaction]\nrecent_turn_budge = 6", "did you mean 'recent_turn_budget'"),
    ("meerkat", "[compactoin]\nrecent_turn_budget = 6", "did you mean 'compaction'"),
    ("spacebot", "[defaults.compactoin]\nbackground_threshold = 0.8", "did you mean 'compaction'"),
    ("spacebot", "[[agents]]\n[agents.compaction]\nworker_threshhold = 1", "did you mean 'worker_threshold'"),
    ("spacebot", "[defaults.compaction]\nretry_delay = nan", "retry_delay must be a number of seconds >="),
    ("spacebot", "[defaults.compaction]\nsuperseding_tools = 3", "superseding_tools must be names of"),
    ("rustant", "[search]\nmax_results = 1001", "max_results must be at most 1000, got 1001"),
    ("rustant", "[serch]\nenabled = true", "did you mean 'search'"),
    ("waterfall", "**immediate_window**: many", "immediate_window must be an integer, got 'many'"),
    ("waterfall", "**imediate_window**: 4", "did you mean 'immediate_window'"),
    ("waterfall", "**profile**: nobody", "profile must be the name of a model, got 'nobody'"),
    ("openclaw", '{"hardCapTokens": -1}', "hardCapTokens must be an integer >= 0, got -1"),
    ("openclaw", '{"hardCapToken": 1}', "did you mean 'hardCapTokens'"),
    ("openclaw", '{"trimScope": "session"}', "trimScope must be 'request' or 'history'"),
    ("openclaw", '{"evictionDays": 99999999999}', "evictionDays must be an integer in 0..3650000, got 9"),
    ("openclaw", '{"maxSegments": 1, "max_segments": 2}', "maxSegments and max_segments are the same"),
    ("openclaw", '{"agents": {"defaults": {"memoryContex": {}}}}', "did you mean 'memoryContext'"),
    ("meerkat", "compaction = 3", "3"),
    ("meerkat", "[compaction\n", "TOML"),
    ("meerkat", "/no/such/file.toml", "/no/such/file.toml"),
    ("waterfall", "**step**: 1\n**step**: 2", "once"),
    ("spacebot", "[compaction]\nextraction = 'shell'", "'tool'"),
    ("openclaw", '{"autoRecallMinScore": 1.5}', "0..1"),
    ("openclaw", '{"enabled": true, "enabled": false}', "once"),
    ("openclaw", "[1]", "table"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "said"), WRONG)
def test_what_a_configuration_has_wrong_is_named_with_its_key_its_bound_and_its_value(
    name: str, text: str, said: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        SYSTEMS[name].from_config(text)
    assert said in str(caught.value)
    assert vars(caught.value)["field"] in f"{text} config"


@pytest.mark.parametrize("days", [36_500, 3_650_000])
def test_an_age_that_reaches_back_before_all_dates_evicts_nothing(tmp_path: Path, days: int) -> None:
    made = presets.openclaw(eviction_days=days)
    with Session.open(tmp_path, "chat", preset=made, context_window=16_000) as session:
        for number in range(30):
            role = "assistant" if number % 2 else "user"
            session.append({"role": role, "content": f"Note {number}: Falkenburg. " + "filler " * 300})
            prepared = session.prepare()
        assert prepared.trimmed
        assert not any(isinstance(each, Failed) for each in prepared.outcomes)
        assert session.search("Falkenburg", 3)


def test_saved_facts_do_not_lift_the_most_hits_of_a_preset(tmp_path: Path) -> None:
    """Messages and facts were found within the bound each, and then cut by the caller's limit alone."""
    preset = replace(presets.rustant(), most_hits=3)
    with Session.open(tmp_path, "s", preset=preset) as session:
        for name in ("north", "south", "east", "west"):
            session.store.index("s", [Entry(f"The walrus of the {name} enclosure sleeps.")])
            session.save(f"The walrus enclosure in the {name} has a heater.", "fact")
        assert len(json.loads(session.memory_search.call({"query": "walrus enclosure", "limit": 10}))) == 3
