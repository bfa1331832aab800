//! Dates in C's `ctime` form, as fio prints them, but in UTC.

const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// The date `seconds` after the beginning of 1970: `Thu Jan  1 00:00:00 1970`.
pub(super) fn ctime(seconds: u64) -> String {
    let (day, second) = (seconds / 86_400, seconds % 86_400);
    let weekday = DAYS[(day % 7) as usize];
    let (year, day_of_year) = year_of(day);
    let (month, day_of_month) = month_of(year, day_of_year);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{weekday} {month} {day_of_month:2} {hour:02}:{minute:02}:{second:02} {year}")
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

/// The year of the day `day` days after the beginning of 1970, and the days before it in that year.
fn year_of(day: u64) -> (u64, u64) {
    // Whole cycles of the calendar first, so that the walk is short for any date.
    let (mut year, mut left) = (1970 + day / 146_097 * 400, day % 146_097);
    loop {
        let length = 365 + u64::from(is_leap(year));
        if left < length {
            return (year, left);
        }
        left -= length;
        year += 1;
    }
}

/// The month's name and the day in it, from 1.
fn month_of(year: u64, day_of_year: u64) -> (&'static str, u64) {
    let lengths = [31, 28 + u64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30];
    let (mut month, mut left) = (0, day_of_year);
    while month < lengths.len() && left >= lengths[month] {
        left -= lengths[month];
        month += 1;
    }
    (MONTHS[month], left + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_read_as_ctime() {
        let dates = [
            (0, "Thu Jan  1 00:00:00 1970"),
            (951_782_400, "Tue Feb 29 00:00:00 2000"),
            (1_704_067_199, "Sun Dec 31 23:59:59 2023"),
            (1_795_262_709, "Sat Nov 21 12:05:09 2026"),
            (4_107_542_400, "Mon Mar  1 00:00:00 2100"),
        ];
        for (seconds, text) in dates {
            assert_eq!(ctime(seconds), text);
        }
    }
}
