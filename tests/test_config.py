"""Policies by name and from files: what is merged, and what is refused with the nearest word."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from siltstone import (
    Chain,
    ClearToolResults,
    CompressToolOutput,
    ConfigError,
    DropDuplicateReads,
    Emergency,
    SmartTrim,
    ThresholdCompactor,
    TieredCompactor,
    WaterfallCompactor,
    WindowCompactor,
    WorkerCompactor,
)
from siltstone.config import IN_CODE, find_settings, make_policy, policy_names, read_settings, settings_of
from siltstone.systems.waterfall.config import WaterfallConfig


def written(folder: Path, text: str, name: str = "siltstone.toml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_every_name_makes_its_policy():
    kinds = [type(make_policy(name)) for name in policy_names()]
    steps = [CompressToolOutput, ClearToolResults, DropDuplicateReads]
    with_models = [ThresholdCompactor, TieredCompactor, WorkerCompactor, WindowCompactor, WaterfallCompactor]
    assert kinds == [*with_models, SmartTrim, *steps, Emergency, Chain]
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
    with pytest.raises(ConfigError) as caught:
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
    assert isinstance(policy, WaterfallCompactor)
    assert policy.config == WaterfallConfig(immediate_window=24, longterm_budget_tokens=None, stop=("</s>",))
    window = settings.policy("window")
    assert isinstance(window, WindowCompactor)
    assert window.config.working_limit == 10
    assert settings.policy("threshold").name == "threshold"


def test_the_documented_form_is_a_setting(tmp_path: Path):
    policy = read_settings(written(tmp_path, "[waterfall]\ndocumented = true\nmax_tokens = 7\n")).policy(
        "waterfall"
    )
    assert isinstance(policy, WaterfallCompactor)
    assert policy.config.longterm_budget_tokens is None
    assert policy.config.longterm_refresh == 0
    assert policy.config.max_tokens == 7
    trim = make_policy("smart-trim", {"documented": True})
    assert trim.token_rule.name == "chars/3-utf16"


def test_a_chain_takes_the_settings_of_its_steps(tmp_path: Path):
    text = '[chain]\nsteps = ["smart-trim", "window"]\ntarget = 0.5\n[window]\nworking_limit = 3\n'
    chain = read_settings(written(tmp_path, text)).policy("chain")
    assert isinstance(chain, Chain)
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
        ('[window]\nworking_limit = "5"\n', "working_limit must be an int, got '5'", "working_limit"),
        ("[window]\nworking_limit = 1.5\n", "working_limit must be an int, got 1.5", "working_limit"),
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
    with pytest.raises(ConfigError) as caught:
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
    assert isinstance(chain, Chain)
    assert [step.name for step in chain.steps] == ["compress-tool-output", "clear-tool-results", "threshold"]
    clear, threshold = chain.steps[1], chain.steps[2]
    assert isinstance(clear, ClearToolResults)
    assert isinstance(threshold, ThresholdCompactor)
    assert (clear.config.keep_results, clear.config.trigger_fraction) == (3, 0.75)
    said = threshold.config
    assert (said.auto_compact_threshold, said.recent_turn_budget) == (12_000, 6)
    assert said.retained_token_budget is None
    named = guide[guide.index("The names are ") :]
    assert re.findall(r"`([a-z-]+)`", named) == policy_names()
    functions = guide[guide.index("Settings that are functions") :].partition(")")[0]
    assert set(re.findall(r"`(\w+)`", functions)) == IN_CODE


def test_a_missing_file_is_refused(tmp_path: Path):
    with pytest.raises(ConfigError, match="cannot be read"):
        read_settings(tmp_path / "none.toml")


@pytest.mark.parametrize("name", ["threshold", "window", "waterfall", "smart-trim"])
def test_every_setting_of_every_policy_is_checked(name: str):
    """A value that no setting can have is refused with the setting's own name."""
    for key in settings_of(name):
        with pytest.raises(ConfigError) as caught:
            make_policy(name, {key: {"no": "such value"}})
        assert caught.value.field == key, key  # type: ignore[attr-defined]
    assert not IN_CODE & set(settings_of(name))
