"""Does the page "How one message travels" name the files that a call passes, and no others?"""

from __future__ import annotations

import gc
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import siltstone
from siltstone import ExtractiveModel, Session, ThresholdCompactor

PACKAGE = Path(siltstone.__file__).parent
PAGE = Path(__file__).parent.parent / "docs" / "design" / "one-message.md"


def passed(call: Callable[[], object]) -> set[str]:
    """The files of the package in which *call* enters a function."""
    files = set[str]()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            files.add(frame.f_code.co_filename)

    before = sys.getprofile()
    gc.disable()  # what is collected may be another test's session, whose end enters other files
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(before)
        gc.enable()
    inside = [Path(name) for name in files if Path(name).is_relative_to(PACKAGE)]
    return {path.relative_to(PACKAGE).as_posix() for path in inside}


def section(title: str) -> str:
    """The text below the heading *title*."""
    return PAGE.read_text("utf-8").split(f"## {title}\n")[1].split("\n## ")[0]


def named(text: str) -> set[str]:
    """The Python files that *text* names."""
    return set(re.findall(r"`([a-z_/]+\.py)`", text))


@pytest.fixture
def session(tmp_path: Path) -> Any:
    with Session.open(
        tmp_path, "s", policy=ThresholdCompactor(), model=ExtractiveModel(), context_window=200_000
    ) as opened:
        for number in range(3):
            opened.append({"role": "user", "content": f"Request {number}"})
            opened.prepare()
            opened.append({"role": "assistant", "content": f"Answer {number}"})
            opened.prepare()
        yield opened


def test_an_append_passes_the_files_of_its_section(session: Session) -> None:
    files = passed(lambda: session.append({"role": "user", "content": "One more"}))
    assert files == named(section("`append`"))


def test_an_idle_prepare_passes_the_files_of_its_section(session: Session) -> None:
    assert passed(session.prepare) == named(section("An idle `prepare`"))


def test_a_prepare_after_an_append_passes_the_files_of_both_sections(session: Session) -> None:
    session.append({"role": "user", "content": "One more"})
    files = passed(session.prepare)
    assert files == named(section("An idle `prepare`") + section("A `prepare` after an `append`"))


@pytest.mark.parametrize(("title", "most"), [("`append`", 12), ("An idle `prepare`", 15)])
def test_a_call_passes_no_more_files_than_a_reader_can_hold(title: str, most: int) -> None:
    assert len(re.findall(r"^\d+\. ", section(title), re.MULTILINE)) <= most
