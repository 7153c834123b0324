"""Times in words: each names one period, or is refused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from siltstone.tools.periods import period

NOW = datetime(2026, 3, 11, 15, 30, tzinfo=UTC)  # a Wednesday


def day(year: int, month: int, day: int) -> tuple[datetime, datetime]:
    start = datetime(year, month, day, tzinfo=UTC)
    return start, start + timedelta(days=1)


def between(first: tuple[int, int, int], after: tuple[int, int, int]) -> tuple[datetime, datetime]:
    return datetime(*first, tzinfo=UTC), datetime(*after, tzinfo=UTC)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("2026-03-05", day(2026, 3, 5)),
        ("2026-02", between((2026, 2, 1), (2026, 3, 1))),
        ("2025", between((2025, 1, 1), (2026, 1, 1))),
        ("in 2025", between((2025, 1, 1), (2026, 1, 1))),
        ("today", day(2026, 3, 11)),
        ("Yesterday", day(2026, 3, 10)),
        ("the day before yesterday", day(2026, 3, 9)),
        ("this week", between((2026, 3, 9), (2026, 3, 16))),
        ("last week", between((2026, 3, 2), (2026, 3, 9))),
        ("this month", between((2026, 3, 1), (2026, 4, 1))),
        ("last month", between((2026, 2, 1), (2026, 3, 1))),
        ("this year", between((2026, 1, 1), (2027, 1, 1))),
        ("last year", between((2025, 1, 1), (2026, 1, 1))),
        ("last Tuesday", day(2026, 3, 10)),
        ("last Wednesday", day(2026, 3, 4)),
        ("last Thursday", day(2026, 3, 5)),
        ("on Thursday", day(2026, 3, 5)),
        ("Wednesday", day(2026, 3, 11)),
        ("tue", day(2026, 3, 10)),
        ("in March", between((2026, 3, 1), (2026, 4, 1))),
        ("in April", between((2025, 4, 1), (2025, 5, 1))),
        ("December", between((2025, 12, 1), (2026, 1, 1))),
        ("March 2025", between((2025, 3, 1), (2025, 4, 1))),
        ("5 March", day(2026, 3, 5)),
        ("the 5th of March", day(2026, 3, 5)),
        ("March 12", day(2025, 3, 12)),
        ("March 5th, 2024", day(2024, 3, 5)),
        ("29 Feb", day(2024, 2, 29)),
        ("Sept. 3", day(2025, 9, 3)),
        ("3 days ago", day(2026, 3, 8)),
        ("three days ago", day(2026, 3, 8)),
        ("a week ago", day(2026, 3, 4)),
        ("2 months ago", day(2026, 1, 11)),
        ("a year ago", day(2025, 3, 11)),
    ],
)
def test_words_name_the_period_that_a_calendar_gives(words: str, expected: tuple[datetime, datetime]) -> None:
    assert period(words, NOW) == expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("now", NOW),
        ("2 hours ago", NOW - timedelta(hours=2)),
        ("5 minutes ago", NOW - timedelta(minutes=5)),
        ("2026-03-05T14:30", datetime(2026, 3, 5, 14, 30, tzinfo=UTC)),
        ("2026-03-05 14:30:01", datetime(2026, 3, 5, 14, 30, 1, tzinfo=UTC)),
        ("2026-03-05T14:30:00Z", datetime(2026, 3, 5, 14, 30, tzinfo=UTC)),
        ("2026-03-05T14:30+02:00", datetime(2026, 3, 5, 12, 30, tzinfo=UTC)),
    ],
)
def test_a_moment_is_a_period_without_length(words: str, expected: datetime) -> None:
    assert period(words, NOW) == (expected, expected)


@pytest.mark.parametrize(
    "words",
    [
        "", "the other day", "recently", "last", "last March", "this Tuesday", "next week", "tomorrow",
        "2026-02-30", "2026-13", "0000", "31 June", "5 March 5", "32 March", "0 March", "some days ago",
        "99999 years ago", "morning", "03/05/2026", "t", "ma", "2 hours ago today", "2026-03-05T25:00",
    ],
)  # fmt: skip
def test_words_that_name_no_period_or_more_than_one_are_none(words: str) -> None:
    assert period(words, NOW) is None


def test_the_day_of_a_month_that_is_shorter_is_its_last() -> None:
    assert period("a month ago", datetime(2026, 3, 31, 9, tzinfo=UTC)) == day(2026, 2, 28)


def test_days_begin_at_midnight_in_the_zone_of_now() -> None:
    tokyo = timezone(timedelta(hours=9))
    late = datetime(2026, 3, 10, 20, tzinfo=UTC).astimezone(tokyo)  # there it is the 11th
    assert period("today", late) == (
        datetime(2026, 3, 10, 15, tzinfo=UTC),
        datetime(2026, 3, 11, 15, tzinfo=UTC),
    )


def test_a_day_on_which_the_clocks_change_has_23_hours() -> None:
    start, end = period("29 March 2026", datetime(2026, 4, 1, tzinfo=ZoneInfo("Europe/Paris"))) or (NOW, NOW)
    assert end.astimezone(UTC) - start.astimezone(UTC) == timedelta(hours=23)


MOMENTS = st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))


@given(MOMENTS)
def test_periods_that_follow_each_other_meet(now: datetime) -> None:
    for before, after in (("yesterday", "today"), ("last week", "this week"), ("last month", "this month")):
        earlier, later = period(before, now), period(after, now)
        assert earlier is not None
        assert later is not None
        assert earlier[1] == later[0] <= now < later[1]


@given(MOMENTS, st.dates())
def test_a_date_is_itself_whenever_it_is_said(now: datetime, when: object) -> None:
    found = period(str(when), now)
    if str(when) == "9999-12-31":
        assert found is None  # no calendar has the day after
    else:
        assert found is not None
        assert str(found[0].date()) == str(when)


@given(st.text() | st.from_regex(r"[0-9a-z ,-]{0,24}", fullmatch=True), MOMENTS)
def test_whatever_is_said_it_is_a_period_or_none(words: str, now: datetime) -> None:
    found = period(words, now)
    assert found is None or found[0] <= found[1]
