"""``siltstone replay``: real sessions through small windows."""

import json
from pathlib import Path
from typing import Any

import pytest

from cli.test_stores import siltstone


def write(path: Path, *lines: object) -> Path:
    path.write_text("\n".join(json.dumps(line) for line in lines), encoding="utf-8")
    return path


def chat(turns: int) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = [{"role": "system", "content": "Be brief."}]
    for n in range(turns):
        call = {"id": "call", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        messages += [
            {"role": "user", "content": f"question {n}", "timestamp": "2026-01-01"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "call", "content": f"result {n} " + "text " * 80},
            {"role": "assistant", "content": f"answer {n}"},
        ]
    return messages


@pytest.mark.parametrize("window", [20_000, 8_000])
def test_two_real_sessions_lose_nothing(data_dir: Path, window: int) -> None:
    result = siltstone("replay", data_dir / "agent-messages-dev.jsonl", "--window", window, "--json")
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert [session["messages"] for session in report["sessions"]] == [299, 343]
    for session in [*report["sessions"], report["total"]]:
        assert session["compactions"] >= 1
        assert session["lost"] == session["lost_from_memory"] == 0
        assert session["broken_tool_groups"] == session["over_window"] == 0
        assert session["peak_tokens"] <= window
        assert session["entries"] > 0
        assert session["added_latency_us"]["p50"] <= session["added_latency_us"]["p99"]
    for session in report["sessions"]:
        assert 0 < session["tokens_in_context"] <= session["peak_tokens"]
    assert report["total"]["messages"] == 642


def test_the_address_of_a_database_is_refused_by_name_and_makes_no_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    transcript = write(tmp_path / "chat.jsonl", *chat(1))
    monkeypatch.chdir(tmp_path)
    address = "postgresql://app:not-to-be-told@127.0.0.1/app"
    result = siltstone("replay", transcript, "--window", 8000, "--store", address)
    assert result.returncode == 2
    assert "database" in result.stderr
    assert "not-to-be-told" not in result.stderr + result.stdout
    assert list(tmp_path.iterdir()) == [transcript]


def test_several_policies_are_compared_and_the_net_is_told_apart(tmp_path: Path) -> None:
    transcript = write(tmp_path / "chat.jsonl", *chat(40))
    policies = ("--policy", "threshold", "--policy", "window", "--policy", "emergency")
    result = siltstone("replay", transcript, "--window", 2000, *policies, "--json")
    assert result.returncode == 0, result.stderr
    told = {each["policy"]: each["total"] for each in json.loads(result.stdout)["policies"]}
    assert list(told) == ["threshold", "window", "emergency"]
    for total in told.values():
        assert total["lost"] == total["broken_tool_groups"] == total["over_window"] == 0
        assert total["runs"] + total["emergency_runs"] == total["compactions"] >= 2
    assert told["window"]["runs"] >= 3
    assert told["window"]["model_calls"] >= 3
    assert told["window"]["tokens_sent"] > 0
    assert told["emergency"]["model_calls"] == 0
    table = siltstone("replay", transcript, "--window", 2000, *policies)
    assert "emergency runs" in table.stdout
    assert "window" in table.stdout


def test_a_file_names_a_policy_and_its_settings(tmp_path: Path) -> None:
    transcript = write(tmp_path / "chat.jsonl", *chat(20))
    file = tmp_path / "small.toml"
    file.write_text('policy = "window"\n[window]\nworking_limit = 4\n', encoding="utf-8")
    result = siltstone("replay", transcript, "--window", 8000, "--policy", file, "--json")
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert report["policy"] == "window (small.toml)"
    assert report["total"]["messages_in_context"] <= 6
    file.write_text("[window]\nworking_limits = 4\n", encoding="utf-8")
    refused = siltstone("replay", transcript, "--window", 8000, "--policy", file)
    assert refused.returncode == 2
    assert "did you mean 'working_limit'?" in refused.stderr.replace("\n", " ")


def test_without_json_there_is_a_table_and_nothing_drawn_or_cut_when_piped(tmp_path: Path) -> None:
    name = "a-session-whose-name-is-wider-than-most-terminals-" * 3
    transcript = write(tmp_path / "chat.jsonl", {"id": name, "messages": chat(5)})
    result = siltstone("replay", transcript, "--window", 2000)
    assert name in result.stdout
    assert result.returncode == 0
    assert "over window" in result.stdout
    assert "…" not in result.stdout
    assert "\x1b" not in result.stdout + result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("replay", "absent.jsonl", "--window", "100"),
        ("replay", "absent.jsonl"),
        ("replay", "absent.jsonl", "--window", "0"),
        ("replay", "absent.jsonl", "--window", "100", "--policy", "magic"),
        ("replay", "absent.jsonl", "--window", "100", "--model", "gpt"),
    ],
)
def test_bad_usage_has_exit_code_2(arguments: tuple[str, ...]) -> None:
    result = siltstone(*arguments)
    assert result.returncode == 2
    assert "Traceback" not in result.stderr


def test_a_window_smaller_than_the_request_is_said_in_one_line(tmp_path: Path) -> None:
    transcript = write(
        tmp_path / "big.jsonl",
        {"role": "user", "content": "word " * 4000},
        {"role": "assistant", "content": "ok"},
    )
    result = siltstone("replay", transcript, "--window", 100)
    assert result.returncode == 2
    assert "100" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "there is no message in it"),
        (b'{"id": "a", "messages": []}', "there is no message in it"),
        (b'{"role": "user", "content": "caf\xe9"}', "not UTF-8 text"),
        (b"[" * 100_000, "not JSON"),
        (None, "Is a directory"),
        (b"{", "line 1: not JSON"),
        (b"7", "line 1"),
        (b'{"role": "user", "content": "a"}\n{"role": "wizard", "content": "b"}', "line 2: unknown role 'wi"),
        (b'{"id": 1, "messages": [{"role": "user", "content": "a"}, 5]}', "message 1"),
    ],
)
def test_a_transcript_that_is_empty_unreadable_or_broken_is_an_error_with_its_name_and_place(
    tmp_path: Path, content: bytes | None, words: str
) -> None:
    path = tmp_path / "empty.jsonl"
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content)
    result = siltstone("replay", path, "--window", 100, "--json")
    assert (result.returncode, result.stdout) == (2, "")
    assert words in result.stderr
    assert str(path) in result.stderr
    assert "Traceback" not in result.stderr


def test_items_of_the_responses_api_are_replayed(tmp_path: Path) -> None:
    items: list[dict[str, Any]] = []
    for n in range(40):
        said = [{"type": "output_text", "text": f"answer {n}", "annotations": []}]
        items += [
            {"role": "user", "content": [{"type": "input_text", "text": f"question {n}"}]},
            {"type": "reasoning", "id": f"rs_{n}", "summary": [], "encrypted_content": "c2lnbmVk"},
            {"type": "function_call", "call_id": f"c{n}", "name": "f", "arguments": "{}", "id": f"fc_{n}"},
            {"type": "function_call_output", "call_id": f"c{n}", "output": f"result {n} " + "text " * 80},
            {"type": "message", "role": "assistant", "id": f"msg_{n}", "content": said},
        ]
    result = siltstone("replay", write(tmp_path / "items.jsonl", *items), "--window", 2000, "--json")
    assert result.returncode == 0, result.stderr
    [session] = json.loads(result.stdout)["sessions"]
    assert session["messages"] == 200
    assert session["compactions"] >= 2
    assert session["lost"] == session["lost_from_memory"] == session["broken_tool_groups"] == 0


def test_what_left_the_context_is_looked_for_and_cache_breaks_are_counted(tmp_path: Path) -> None:
    transcript = write(tmp_path / "chat.jsonl", *chat(40))
    result = siltstone("replay", transcript, "--window", 2000, "--json")
    total = json.loads(result.stdout)["total"]
    assert total["cache_breaks"] == total["compactions"] > 0
    assert total["cache_tokens_lost"] > 0
    assert set(total["retention"]) == {"numbers", "paths", "errors", "decisions"}
    kept = total["retention"].values()
    probes = sum(sum(each.values()) for each in kept)
    assert total["evidence_kept"] == (
        round(1 - sum(each["lost"] for each in kept) / probes, 3) if probes else None
    )


def test_a_plot_has_a_line_for_each_policy_and_is_the_same_each_time(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    transcript = write(tmp_path / "chat.jsonl", *chat(20))
    pictures = []
    for name in ("one.svg", "two.svg"):
        options = ("--window", 2000, "--policy", "window", "--policy", "emergency", "--plot", tmp_path / name)
        assert siltstone("replay", transcript, *options, "--json").returncode == 0
        pictures.append((tmp_path / name).read_text("utf-8"))
    assert pictures[0] == pictures[1]
    assert all(f">{word}<" in pictures[0] for word in ("window", "emergency", "window, 2,000"))
