"""Values that cross the wall are the same on either side."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import example, given, strategies as st

from siltstone.memory.convert import datetime_from, milliseconds

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
