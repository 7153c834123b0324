"""Are the workflows what GitHub accepts, pinned, and no more powerful than they must be?"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator

CHECKOUT = Path(__file__).parent.parent
WORKFLOWS = sorted((CHECKOUT / ".github" / "workflows").glob("*.yml"))
SCHEMA = Draft7Validator(json.loads((CHECKOUT / "tests/data/github-workflow.json").read_text("utf-8")))

MORE = {"publish": {"id-token": "write"}, "deploy": {"pages": "write", "id-token": "write"}}
PINNED = re.compile(r"uses: [\w-]+(/[\w-]+)+@[0-9a-f]{40} # v\d+\.\d+\.\d+$")


def load(text: str) -> dict[str, Any]:
    """A workflow as GitHub reads it. YAML 1.1 takes the key ``on`` for a truth value; GitHub does not."""
    workflow = yaml.safe_load(text)
    if True in workflow:
        workflow["on"] = workflow.pop(True)
    return workflow


def jobs(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    yield from load(path.read_text("utf-8"))["jobs"].items()


@pytest.fixture(params=WORKFLOWS, ids=lambda path: path.stem)
def workflow(request: pytest.FixtureRequest) -> Path:
    return request.param


def test_a_workflow_is_valid_by_the_schema(workflow):
    SCHEMA.validate(load(workflow.read_text("utf-8")))


def test_every_action_is_pinned_by_commit_and_says_its_version(workflow):
    uses = [
        line.strip().removeprefix("- ")
        for line in workflow.read_text("utf-8").splitlines()
        if "uses:" in line
    ]
    assert uses
    assert [line for line in uses if not PINNED.match(line)] == []


def test_nothing_is_permitted_but_what_a_job_asks_for(workflow):
    assert load(workflow.read_text("utf-8"))["permissions"] == {}
    for name, job in jobs(workflow):
        expected = MORE.get(name, {"contents": "read"})
        assert job["permissions"] == expected, f"{workflow.name}: {name}"


def test_every_make_word_of_a_workflow_is_a_target(workflow):
    targets = set(re.findall(r"^([a-z-]+):", (CHECKOUT / "Makefile").read_text("utf-8"), re.MULTILINE))
    for _, job in jobs(workflow):
        for step in job["steps"]:
            called = re.findall(r"^make ([a-z -]+)", step.get("run", ""), re.MULTILINE)
            assert set(" ".join(called).split()) <= targets


def test_a_release_waits_for_every_wheel_that_is_built():
    flow = load((CHECKOUT / ".github/workflows/wheels.yml").read_text("utf-8"))
    wheels = len(flow["jobs"]["wheels"]["strategy"]["matrix"]["include"])
    check = next(step["run"] for step in flow["jobs"]["publish"]["steps"] if "missing" in step["name"])
    assert [int(number) for number in re.findall(r"-eq (\d+)", check)] == [wheels, wheels + 1]
