"""Values that cross the wall are the same on either side."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given, strategies as st

from siltstone import _native
from siltstone.memory import SearchHit
from siltstone.memory.convert import datetime_from, milliseconds, search_hit
from siltstone.memory.entry import SourceRange

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIRST, LAST = milliseconds(datetime.min), milliseconds(datetime.max)


@given(st.integers(FIRST, LAST) | st.integers(0, 2**45) | st.integers(2**33 * 1000 - 9, 2**33 * 1000 + 9))
@example(2**33 * 1000 - 1)
@example(2**33 * 1000)
@example(-1)
def test_a_moment_is_exact_to_the_millisecond(stamp: int) -> None:
    moment = datetime_from(stamp)
    assert moment == EPOCH + timedelta(milliseconds=1) * stamp
    assert moment.tzinfo is UTC
    assert milliseconds(moment) == stamp


def test_a_hit_is_one_as_its_class_makes_it() -> None:
    moment = 1_683_504_000_123
    found = ("silt", 0.5, (3, 4), 7, "user", moment, {"own": 0.5}, None, (3, moment - 5, moment))
    hit = search_hit(found, "s", _native.Asked.of("silt"))
    expected = SearchHit(
        content="silt",
        score=0.5,
        source_range=SourceRange(3, 4),
        entry_id=7,
        role="user",
        created_at=datetime_from(moment),
        explain={"own": 0.5},
        session_id="s",
        times=3,
        first_at=datetime_from(moment - 5),
        last_at=datetime_from(moment),
    )
    assert hit == expected
    assert repr(hit) == repr(expected)
    assert type(hit.source_range) is SourceRange
    assert (hit.source_range.start, hit.source_range.end) == (3, 4)
    with pytest.raises(AttributeError):
        hit.score = 1.0  # type: ignore[misc]
