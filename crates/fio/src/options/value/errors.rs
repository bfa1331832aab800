//! Lists of error numbers, as `EIO:28,ENOSPC`: for reads, writes and checks of data.
use super::expr::ExprError;

/// The errors that an I/O can end with, by their names.
const NAMES: [(&str, i32); 12] = [
    ("EIO", 5),
    ("EAGAIN", 11),
    ("ENODEV", 19),
    ("EINVAL", 22),
    ("ENOSPC", 28),
    ("ENODATA", 61),
    ("EOVERFLOW", 75),
    ("EILSEQ", 84),
    ("EOPNOTSUPP", 95),
    ("ENOTSUP", 95),
    ("ETOOMANYREFS", 109),
    ("ETIMEDOUT", 110),
];
/// The greatest error number of Linux.
const MAX_ERRNO: i32 = 4095;

/// Reads up to three lists between commas, each of names or numbers between colons.
pub(crate) fn read(text: &str) -> Result<[Vec<i32>; 3], ExprError> {
    let mut lists: [Vec<i32>; 3] = Default::default();
    let mut places = lists.iter_mut();
    for list in text.split(',') {
        let place = places.next().ok_or(ExprError::Malformed)?;
        for name in list.split(':').map(str::trim).filter(|_| !list.trim().is_empty()) {
            let known = NAMES.iter().find(|(known, _)| *known == name).map(|&(_, errno)| errno);
            let errno = known.or_else(|| name.parse().ok());
            let valid = errno.filter(|errno| (1..=MAX_ERRNO).contains(errno));
            place.push(valid.ok_or(ExprError::Malformed)?);
        }
    }
    Ok(lists)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_for_reads_writes_and_checks() {
        assert_eq!(read("EAGAIN,ENOSPC:122"), Ok([vec![11], vec![28, 122], vec![]]));
        assert_eq!(read(",,EILSEQ"), Ok([vec![], vec![], vec![84]]));
        assert_eq!(read("5"), Ok([vec![5], vec![], vec![]]));
    }

    #[test]
    fn unknown_names_and_a_fourth_list_are_errors() {
        for text in ["EWHAT", "0", "-5", "4096", "5:", "1,2,3,4", "5;6"] {
            assert_eq!(read(text), Err(ExprError::Malformed), "{text:?}");
        }
    }
}
