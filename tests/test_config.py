"""Policies by name and from files: what is merged, and what is refused with the nearest word."""

import re
from itertools import product
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


#: What the settings of a class that are named behind it cannot be.
BOUNDS: list[tuple[type[Any], list[Any], str]] = [
    (CompactionConfig, [1.5, True, "100"], "auto_compact_threshold"),
    (CompactionConfig, [-1, False, 4.0], "recent_turn_budget"),
    (CompactionConfig, [None], "max_summary_tokens keep_user_messages"),
    (CompactionConfig, [True], "min_turns_between_compactions"),
    (CompactionConfig, ["half", True], "retained_token_budget"),
    (CompactionConfig, [1], "strict_guard prefix_preserving"),
    (CompactionConfig, [1000000.0], "max_request_bytes"),
    (CompactionConfig, [-0.1, 1.1, float("nan"), True, "0"], "min_reduction"),
    (CompactionConfig, ["words", None], "estimator on_model_failure"),
    (CompactionConfig, [" ", None], "summary_prefix"),
    (CompactionConfig, [0, 1_023, 8000.0], "summarizer_window"),
    (CompactionConfig, [0, -1.0, float("nan"), float("inf"), True], "summary_timeout"),
    (CompactionConfig, [2.0], "attempts"),
    (CompactionConfig, [-1, float("inf"), float("nan"), "1", None, True], "retry_delay"),
    (CompactionConfig, [-1], "min_summary_tokens"),
    (CompactionConfig, [["fail"]], "on_summarizer_overflow"),
    (CompactionConfig, ["me"], "curator"),
    (CompactionConfig, [0, 1, float("nan"), True], "trigger_fraction"),
    (CompactionConfig, [2.5], "max_messages"),
    (siltstone.TieredConfig, [0], "context_window background_fraction retain_floor max_summary_tokens"),
    (siltstone.TieredConfig, [0], "attempts summary_timeout fork_floor fork_usage_threshold fork_preflight"),
    (siltstone.TieredConfig, [0], "worker_turns_per_segment worker_max_segments worker_threshold estimator"),
    (siltstone.TieredConfig, [1], "aggressive_fraction emergency_fraction fork_reserve summarizer_window"),
    (siltstone.TieredConfig, ["[Summary {x}]", "two\nlines"], "summary_heading"),
    (siltstone.TieredConfig, [0.6], "summary_stack_fraction"),
    (siltstone.TieredConfig, [""], "emergency_marker"),
    (siltstone.TieredConfig, [-1], "retry_delay retry_after_turns overflow_retries"),
    (siltstone.TieredConfig, [2], "overflow_fraction"),
    (siltstone.TieredConfig, ["screenshot"], "superseding_tools"),
    (ChronicleConfig, [0], "interval_messages rollup_threshold"),
    (ChronicleConfig, [0.009, 0.91], "interval_token_fraction"),
    (ChronicleConfig, [0, 8_761], "recent_window_hours"),
    (ChronicleConfig, [101], "max_recent"),
    (ChronicleConfig, [-1], "max_older"),
    (ChronicleConfig, [199, 32_001], "context_token_budget"),
    (ChronicleConfig, [501], "expand_message_limit"),
    (ChronicleConfig, [5_001], "max_messages_per_checkpoint"),
    (ChronicleConfig, [13], "rollup_batch"),
    (ChronicleConfig, [1], "whole_turns"),
    (siltstone.WindowConfig, [0], "working_limit short_term_limit summary_max_tokens summary_budget_tokens"),
    (siltstone.WindowConfig, [0], "fallback_bytes attempts estimator"),
    (siltstone.WindowConfig, [1], "auto_summarize summarizer_window"),
    (siltstone.WindowConfig, [-1], "working_slack summary_timeout retry_delay"),
    (siltstone.WindowConfig, [21, 0], "working_target"),
    (siltstone.WindowConfig, [0, 1.1], "auto_summarize_threshold"),
    (siltstone.WindowConfig, [0.7], "auto_summarize_target"),
    (siltstone.WindowConfig, [2], "summary_temperature"),
    (WaterfallConfig, [0], "immediate_window recent_window step max_tokens attempts summary_timeout"),
    (WaterfallConfig, [0], "longterm_budget_tokens cap_share prompt_style summarizer_window estimator"),
    (WaterfallConfig, ["\n", ("",)], "stop"),
    (WaterfallConfig, [1.5], "temperature"),
    (WaterfallConfig, [-1], "retry_delay longterm_refresh"),
    (WaterfallConfig, [127], "ram_cap"),
    (siltstone.SmartTrimConfig, [-1], "reserve_tokens hard_cap_tokens protected_recent shortest_query"),
    (siltstone.SmartTrimConfig, [1.5], "max_history_share"),
    (siltstone.SmartTrimConfig, [5], "query documented"),
    (siltstone.SmartTrimConfig, ["x"], "is_summary estimator"),
    (siltstone.SmartTrimConfig, [0], "target_share"),
    (siltstone.Emergency, [0, -1, "8k", True, 1.5], "context_window"),
    (siltstone.Emergency, ["words"], "estimator"),
    (siltstone.Emergency, ["user"], "request_rule"),
    (ClearConfig, [-1], "keep_results min_reclaim trigger_fraction"),
    (ClearConfig, [1], "in_use"),
    (CompressConfig, [None], "in_use"),
    (InPlaceConfig, [0], "least_tokens"),
]


@pytest.mark.parametrize(("kind", "values", "fields"), BOUNDS)
def test_a_setting_out_of_its_bounds_is_refused_with_its_name_and_its_value(
    kind: type[Any], values: list[Any], fields: str
):
    for field, value in product(fields.split(), values):
        with pytest.raises(siltstone.ConfigError) as caught:
            kind(**{field: value})
        assert caught.value.field == field  # type: ignore[attr-defined]
        assert caught.value.value == value or value != value  # type: ignore[attr-defined]
        assert field in str(caught.value)
        assert repr(value) in str(caught.value)
