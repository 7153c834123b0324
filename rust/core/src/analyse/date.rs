//! The words of a date: its month, year and day, in UTC.

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];

const MILLISECONDS_OF_DAY: i64 = 86_400_000;

/// Month, year and day of a moment, as people write them: `may`, `2023`, `8`.
pub(super) fn words(milliseconds: i64) -> [String; 3] {
    let (year, month, day) = civil(day(milliseconds));
    [MONTHS[month].to_owned(), year.to_string(), day.to_string()]
}

/// The day of a moment, after 1970-01-01.
pub(crate) fn day(milliseconds: i64) -> i64 {
    milliseconds.div_euclid(MILLISECONDS_OF_DAY)
}

/// Year, month (0 is January) and day of the day that many days after 1970-01-01.
///
/// Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`: years begin in
/// March, eras of 400 years are alike.
fn civil(days: i64) -> (i64, usize, i64) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = (from_march + 2) % 12;
    let year = year_of_era + era * 400 + i64::from(month < 2);
    (year, usize::try_from(month).unwrap_or(0), day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_have_their_dates() {
        for (days, date) in [
            (0, (1970, 0, 1)),
            (-1, (1969, 11, 31)),
            (11_016, (2000, 1, 29)),
            (11_017, (2000, 2, 1)),
            (19_485, (2023, 4, 8)),
            (-719_162, (1, 0, 1)),
            (2_932_896, (9999, 11, 31)),
        ] {
            assert_eq!(civil(days), date, "{days}");
        }
        assert_eq!(
            words(19_485 * MILLISECONDS_OF_DAY + 1),
            ["may", "2023", "8"]
        );
    }

    #[test]
    fn any_number_of_milliseconds_has_a_date() {
        for milliseconds in [i64::MIN, i64::MAX] {
            assert_eq!(words(milliseconds).len(), 3);
        }
    }
}
