//! One to three values for reads, writes and trims.

/// Reads `text` as up to three values between commas with `read_one`. The last value goes for the
/// directions after it too, unless a comma ends it: `8k,32k` is 32k for trims, `8k,32k,` leaves
/// trims as they are, as does an empty place. Gives `None` if there is no value or a fourth one.
pub(crate) fn read<E>(
    text: &str,
    read_one: impl Fn(&str) -> Result<u64, E>,
) -> Result<Option<[Option<u64>; 3]>, E> {
    let parts: Vec<&str> = text.split(',').map(str::trim).collect();
    if parts.len() > 3 || parts.iter().all(|part| part.is_empty()) {
        return Ok(None);
    }
    let mut values = [None; 3];
    for (direction, value) in values.iter_mut().enumerate() {
        let part = parts[direction.min(parts.len() - 1)];
        if !part.is_empty() {
            *value = Some(read_one(part)?);
        }
    }
    Ok(Some(values))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digits(text: &str) -> Option<[Option<u64>; 3]> {
        read(text, str::parse).expect("digits")
    }

    #[test]
    fn a_value_without_comma_goes_for_the_directions_after_it() {
        assert_eq!(digits("1"), Some([Some(1), Some(1), Some(1)]));
        assert_eq!(digits("1,2"), Some([Some(1), Some(2), Some(2)]));
        assert_eq!(digits("1,2,3"), Some([Some(1), Some(2), Some(3)]));
        assert_eq!(digits(",2"), Some([None, Some(2), Some(2)]));
    }

    #[test]
    fn empty_places_leave_the_direction_as_it_is() {
        assert_eq!(digits("1,"), Some([Some(1), None, None]));
        assert_eq!(digits("1,2,"), Some([Some(1), Some(2), None]));
        assert_eq!(digits(",2,"), Some([None, Some(2), None]));
        assert_eq!(digits("1,,3"), Some([Some(1), None, Some(3)]));
    }

    #[test]
    fn none_and_more_than_three_are_no_triple() {
        assert_eq!(digits(","), None);
        assert_eq!(digits("1,2,3,4"), None);
    }
}
