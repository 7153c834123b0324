"""Policies by name and from files: what is merged, and what is refused with the nearest word."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import siltstone
from siltstone.compaction.results import ClearConfig, CompressConfig, InPlaceConfig
from siltstone.config import IN_CODE, find_settings, make_policy, policy_names, read_settings, settings_of
from siltstone.systems.meerkat import CompactionConfig
from siltstone.systems.spacebot.config import ChronicleConfig
from siltstone.systems.waterfall.config import WaterfallConfig


def written(folder: Path, text: str, name: str = "siltstone.toml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_every_name_makes_its_policy():
    kinds = [type(make_policy(name)) for name in policy_names()]
    steps = [siltstone.CompressToolOutput, siltstone.ClearToolResults, siltstone.DropDuplicateReads]
    with_models = [
        siltstone.ThresholdCompactor,
        siltstone.TieredCompactor,
        siltstone.WorkerCompactor,
        siltstone.WindowCompactor,
        siltstone.WaterfallCompactor,
    ]
    assert kinds == [*with_models, siltstone.SmartTrim, *steps, siltstone.Emergency, siltstone.Chain]
    assert [make_policy(name).name for name in policy_names()] == policy_names()


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("waterfal", "'waterfall'"),
        ("smart_trim", "'smart-trim'"),
        ("xyzzy", "known are threshold, tiered, worker, window"),
    ],
)
def test_an_unknown_policy_is_refused_with_the_nearest_name(name: str, hint: str):
    with pytest.raises(siltstone.ConfigError) as caught:
        make_policy(name)
    assert hint in str(caught.value)
    assert caught.value.field == "policy"  # type: ignore[attr-defined]


def test_a_partial_file_is_merged_over_the_defaults(tmp_path: Path):
    path = written(
        tmp_path,
        'policy = "waterfall"\n[waterfall]\nimmediate_window = 24\nlongterm_budget_tokens = "none"\n'
        'stop = ["</s>"]\n[window]\nworking_limit = 10\n',
    )
    settings = read_settings(path)
    policy = settings.policy()
    assert isinstance(policy, siltstone.WaterfallCompactor)
    assert policy.config == WaterfallConfig(immediate_window=24, longterm_budget_tokens=None, stop=("</s>",))
    window = settings.policy("window")
    assert isinstance(window, siltstone.WindowCompactor)
    assert window.config.working_limit == 10
    assert settings.policy("threshold").name == "threshold"


def test_the_documented_form_is_a_setting(tmp_path: Path):
    policy = read_settings(written(tmp_path, "[waterfall]\ndocumented = true\nmax_tokens = 7\n")).policy(
        "waterfall"
    )
    assert isinstance(policy, siltstone.WaterfallCompactor)
    assert policy.config.longterm_budget_tokens is None
    assert policy.config.longterm_refresh == 0
    assert policy.config.max_tokens == 7
    trim = make_policy("smart-trim", {"documented": True})
    assert trim.token_rule.name == "chars/3-utf16"


def test_a_chain_takes_the_settings_of_its_steps(tmp_path: Path):
    text = '[chain]\nsteps = ["smart-trim", "window"]\ntarget = 0.5\n[window]\nworking_limit = 3\n'
    chain = read_settings(written(tmp_path, text)).policy("chain")
    assert isinstance(chain, siltstone.Chain)
    assert [step.name for step in chain.steps] == ["smart-trim", "window"]
    assert chain.steps[1].config.working_limit == 3  # type: ignore[attr-defined]
    assert chain.target == 0.5


def test_pyproject_has_its_own_table_and_the_nearest_file_upward_is_found(tmp_path: Path):
    written(tmp_path, '[tool.siltstone]\npolicy = "window"\n', "pyproject.toml")
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    assert find_settings(deep).policy().name == "window"
    written(tmp_path / "a", 'policy = "emergency"\n')
    assert find_settings(deep).policy().name == "emergency"
    written(deep, "[tool.other]\nx = 1\n", "pyproject.toml")
    assert find_settings(deep).policy().name == "emergency", "a project without our table is passed over"


@pytest.mark.parametrize(
    ("text", "message", "field"),
    [
        ("[waterfal]\n", "unknown key 'waterfal'; did you mean 'waterfall'?", "waterfal"),
        ('polcy = "window"\n', "unknown key 'polcy'; did you mean 'policy'?", "polcy"),
        ("[window]\nworking_limits = 5\n", "did you mean 'working_limit'?", "working_limits"),
        ("[window]\nworking_limit = 0\n", "[window]: working_limit must be > 0, got 0", "working_limit"),
        ('[window]\nworking_limit = "5"\n', "working_limit must be an integer, got '5'", "working_limit"),
        ("[window]\nworking_limit = 1.5\n", "working_limit must be an integer, got 1.5", "working_limit"),
        ("[window]\nprompt = 1\n", "prompt must be a text that is not blank", "prompt"),
        ('[threshold]\ncurator = "x"\n', "curator is a function and is given in code", "curator"),
        ("window = 3\n", "[window] must be a table, got 3", "window"),
        ('policy = "windw"\n', "did you mean 'window'?", "policy"),
        ("policy = 3\n", "policy must be the name of a policy, got 3", "policy"),
        ("[chain]\nsteps = []\n", "steps must be names of policies", "steps"),
        ('[chain]\nsteps = ["chain"]\n', "steps must not name a chain", "steps"),
        ('[chain]\nsteps = ["windw"]\n', "there is no policy 'windw'", "policy"),
        ("[waterfall]\ndocumented = 1\n", "documented must be True or False", "documented"),
        ("policy = \n", "is not TOML", "path"),
    ],
)
def test_what_a_file_may_not_say_is_refused_by_name(tmp_path: Path, text: str, message: str, field: str):
    path = written(tmp_path, text)
    with pytest.raises(siltstone.ConfigError) as caught:
        read_settings(path)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)
    assert caught.value.field == field  # type: ignore[attr-defined]


def test_the_file_of_the_guide_is_read(tmp_path: Path):
    """The page is where a user learns what a file may say."""
    page = Path(__file__).parent.parent / "docs" / "how-to" / "choose-a-policy.md"
    guide = page.read_text("utf-8")
    (text,) = re.findall(r"^```toml\n(.*?)^```$", guide, re.MULTILINE | re.DOTALL)
    settings = read_settings(written(tmp_path, text))
    chain = settings.policy()
    assert isinstance(chain, siltstone.Chain)
    assert [step.name for step in chain.steps] == ["compress-tool-output", "clear-tool-results", "threshold"]
    clear, threshold = chain.steps[1], chain.steps[2]
    assert isinstance(clear, siltstone.ClearToolResults)
    assert isinstance(threshold, siltstone.ThresholdCompactor)
    assert (clear.config.keep_results, clear.config.trigger_fraction) == (3, 0.75)
    said = threshold.config
    assert (said.auto_compact_threshold, said.recent_turn_budget) == (12_000, 6)
    assert said.retained_token_budget is None
    named = guide[guide.index("The names are ") :]
    assert re.findall(r"`([a-z-]+)`", named) == policy_names()
    functions = guide[guide.index("Settings that are functions") :].partition(")")[0]
    assert set(re.findall(r"`(\w+)`", functions)) == IN_CODE


def test_a_missing_file_is_refused(tmp_path: Path):
    with pytest.raises(siltstone.ConfigError, match="cannot be read"):
        read_settings(tmp_path / "none.toml")


@pytest.mark.parametrize("name", ["threshold", "window", "waterfall", "smart-trim"])
def test_every_setting_of_every_policy_is_checked(name: str):
    """A value that no setting can have is refused with the setting's own name."""
    for key in settings_of(name):
        with pytest.raises(siltstone.ConfigError) as caught:
            make_policy(name, {key: {"no": "such value"}})
        assert caught.value.field == key, key  # type: ignore[attr-defined]
    assert not IN_CODE & set(settings_of(name))


BOUNDS: dict[type[Any], dict[str, list[Any]]] = {
    CompactionConfig: {
        "auto_compact_threshold": [1.5, True, "100"],
        "recent_turn_budget": [-1, False, 4.0],
        "max_summary_tokens": [None],
        "min_turns_between_compactions": [True],
        "retained_token_budget": ["half", True],
        "strict_guard": [1],
        "max_request_bytes": [1e6],
        "min_reduction": [-0.1, 1.1, float("nan"), True, "0"],
        "estimator": ["words", None],
        "summary_prefix": [" ", None],
        "summarizer_window": [0, 1_023, 8e3],
        "summary_timeout": [0, -1.0, float("nan"), float("inf"), True],
        "attempts": [2.0],
        "min_summary_tokens": [-1],
        "on_model_failure": ["retry", None],
        "on_summarizer_overflow": [["fail"]],
        "curator": ["me"],
        "prefix_preserving": [1],
        "trigger_fraction": [0, 1, float("nan"), True],
        "max_messages": [2.5],
        "keep_user_messages": [None],
    },
    siltstone.TieredConfig: {
        "context_window": [0],
        "background_fraction": [0],
        "aggressive_fraction": [1],
        "emergency_fraction": ["half"],
        "retain_floor": [0],
        "estimator": ["xyzzy"],
        "max_summary_tokens": [0],
        "summary_heading": ["[Summary {x}]", "two\nlines"],
        "summary_stack_fraction": [0.6],
        "emergency_marker": [""],
        "attempts": [0],
        "summary_timeout": [0],
        "retry_delay": [-1],
        "summarizer_window": [12],
        "retry_after_turns": [-1],
        "fork_preflight": ["always"],
        "fork_reserve": [1],
        "fork_floor": [0],
        "fork_usage_threshold": [0],
        "overflow_retries": [-1],
        "overflow_fraction": [2],
        "worker_turns_per_segment": [0],
        "worker_max_segments": [0],
        "worker_threshold": [0],
        "superseding_tools": ["screenshot"],
    },
    ChronicleConfig: {
        "interval_messages": [0],
        "interval_token_fraction": [0.009, 0.91],
        "recent_window_hours": [0, 8_761],
        "max_recent": [101],
        "max_older": [-1],
        "context_token_budget": [199, 32_001],
        "expand_message_limit": [501],
        "max_messages_per_checkpoint": [5_001],
        "rollup_threshold": [0],
        "rollup_batch": [13],
        "whole_turns": [1],
    },
    siltstone.WindowConfig: {
        "working_limit": [0],
        "short_term_limit": [0],
        "auto_summarize": [1],
        "working_slack": [-1],
        "working_target": [21, 0],
        "auto_summarize_threshold": [0, 1.1],
        "auto_summarize_target": [0.7],
        "summary_max_tokens": [0],
        "summary_temperature": [2],
        "summary_budget_tokens": [0],
        "fallback_bytes": [0],
        "attempts": [0],
        "summary_timeout": [-1],
        "retry_delay": [-1],
        "summarizer_window": [1],
        "estimator": ["x"],
    },
    WaterfallConfig: {
        "immediate_window": [0],
        "recent_window": [0],
        "step": [0],
        "prompt_style": ["chat"],
        "stop": ["\n", ("",)],
        "temperature": [1.5],
        "max_tokens": [0],
        "attempts": [0],
        "summary_timeout": [0],
        "retry_delay": [-1],
        "longterm_budget_tokens": [0],
        "longterm_refresh": [-1],
        "cap_share": [0],
        "ram_cap": [127],
        "summarizer_window": [1_023],
        "estimator": ["words"],
    },
    siltstone.SmartTrimConfig: {
        "reserve_tokens": [-1],
        "hard_cap_tokens": [-1],
        "max_history_share": [1.5],
        "protected_recent": [-1],
        "query": [5],
        "shortest_query": [-1],
        "is_summary": ["x"],
        "target_share": [0],
        "documented": [1],
        "estimator": ["x"],
    },
    siltstone.Emergency: {
        "context_window": [0, -1, "8k", True, 1.5],
        "estimator": ["words"],
        "request_rule": ["user"],
    },
    ClearConfig: {"keep_results": [-1], "min_reclaim": [-1], "trigger_fraction": [0], "in_use": [1]},
    CompressConfig: {"in_use": [None]},
    InPlaceConfig: {"least_tokens": [0]},
}


@pytest.mark.parametrize(
    ("kind", "field"), [(kind, field) for kind, fields in BOUNDS.items() for field in fields]
)
def test_a_setting_out_of_its_bounds_is_refused_with_its_name_and_its_value(kind: type[Any], field: str):
    for value in BOUNDS[kind][field]:
        with pytest.raises(siltstone.ConfigError) as caught:
            kind(**{field: value})
        assert caught.value.field == field  # type: ignore[attr-defined]
        assert caught.value.value == value or value != value  # type: ignore[attr-defined]
        assert field in str(caught.value)
        assert repr(value) in str(caught.value)
