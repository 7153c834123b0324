"""``siltstone demo``, the main job on the installed standard library, and the questions of ``bench``."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from servers.provider import Said, provider
from siltstone.cli.app import app


def demo(store: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "siltstone", "demo", "--store", str(store), *arguments],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def report(result: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert result.returncode == 0, result.stderr
    value: dict[str, Any] = json.loads(result.stdout)
    return value


def test_it_reads_compacts_remembers_and_reopens(tmp_path: Path) -> None:
    first = report(demo(tmp_path / "store", "--json"))
    assert first["turns"] >= 300
    assert first["compactions"] >= 10
    assert first["over_window"] == 0
    assert first["tokens_seen"] > 10 * first["window"]
    assert first["tokens_in_context"] <= first["window"]
    assert len(first["questions"]) >= 20
    assert first["recall_at_5"] >= 0.5
    for question in first["questions"]:
        assert len(question["hits"]) <= 5
    again = report(demo(tmp_path / "store", "--json"))
    assert again["turns"] == first["turns"]
    assert again["turns_now"] == 0
    assert again["messages"] == first["messages"]
    assert again["entries"] == first["entries"]
    assert again["recall_at_5"] == first["recall_at_5"]


def test_a_run_that_ended_early_goes_on_where_it_ended(tmp_path: Path) -> None:
    report(demo(tmp_path / "store", "--json", "--turns", "7"))
    result = demo(tmp_path / "store", "--turns", "20")
    assert result.returncode == 0, result.stderr
    assert "20 (7 of them in earlier runs)" in result.stdout
    assert "tokens in context now" in result.stdout
    assert "recall@5" in result.stdout
    assert "\x1b" not in result.stdout


LOCOMO = [
    {
        "conversation": {
            "speaker_a": "Ann", "speaker_b": "Bo", "session_1_date_time": "1:56 pm on 8 May, 2023",
            "session_1": [
                {"speaker": "Ann", "dia_id": "D1:1", "text": "Valve 17 holds 51 bar."},
                *({"speaker": "BA"[at % 2] + "on"[at % 2], "dia_id": f"D1:{at}", "text": "pebbles " * 60}
                  for at in range(2, 60)),
            ],
        },
        "qa": [
            {"question": "What does valve 17 hold?", "answer": "51 bar", "evidence": ["D1:1"], "category": 4},
            {"question": "What does valve 99 hold?", "adversarial_answer": "1 bar", "category": 5},
        ],
    }
]  # fmt: skip
LONGMEMEVAL = [
    {
        "question": "What does valve 17 hold?", "answer": "51 bar", "question_date": "2023/05/30 (Tue) 23:40",
        "haystack_dates": ["2023/05/20 (Sat) 02:21"] * 2,
        "haystack_sessions": [
            [{"role": "user", "content": "Valve 17 holds 51 bar."}],
            [{"role": ("user", "assistant")[at % 2], "content": "pebbles " * 60} for at in range(60)],
        ],
    }
]  # fmt: skip


@pytest.mark.parametrize(("name", "given"), [("locomo", LOCOMO), ("longmemeval", LONGMEMEVAL)])
def test_bench_asks_a_model_the_questions_of_a_dataset(name: str, given: object, tmp_path: Path) -> None:
    def answer(body: dict[str, Any]) -> Said:
        asked = str(body["messages"])
        is_judged = "Response of a model: It holds 51 bar." in asked
        return Said(
            "m", "Yes." if is_judged else "It holds 51 bar." if "holds 51" in asked else "I do not know."
        )

    file = tmp_path / "data.json"
    file.write_text(json.dumps(given))
    with provider() as server:
        server.model = answer
        options = ["--model", f"{server.url}/v1#m", "--window", "2000", "--json"]
        ended = CliRunner().invoke(app, ["bench", "--dataset", name, str(file), *options])
        assert ended.exit_code == 0, ended.stderr
        told = json.loads(ended.stdout)
        assert server.requests == 8
    assert {way: each["answered"] for way, each in told["sent"].items()} == {
        "whole history": 1.0, "dropped history": 0.0, "search alone": 1.0, "recall": 1.0,
    }  # fmt: skip
    assert told["sent"]["whole history"]["tokens"] > 2_000 >= told["sent"]["recall"]["tokens"]


@pytest.mark.parametrize(
    ("text", "options", "names"),
    [
        ("[{}]", ["--model", "http://x/v1#m"], "published form of locomo"), ("[]", [], "no question"),
        (json.dumps(LOCOMO), ["--model", "http://x/v1"], "URL#NAME"),
        (json.dumps(LOCOMO), ["--model", "http://127.0.0.1:9/v1#m"], "did not answer: Connection error"),
        ("{", [], "data.json' is not JSON"),
    ],
)  # fmt: skip
def test_bench_names_what_it_cannot_ask(text: str, options: list[str], names: str, tmp_path: Path) -> None:
    file = tmp_path / "data.json"
    file.write_text(text)
    ended = CliRunner().invoke(app, ["bench", "--dataset", "locomo", str(file), *options])
    assert (ended.exit_code, names in ended.stderr) == (2, True), ended.stderr
