//! The kinds of device that a spec can name. A new kind is added to [`KINDS`].
use crate::config::DeviceKind;
use crate::{hdd, null, ssd, zns};

/// In the order of the help text.
static KINDS: [&DeviceKind; 4] = [&null::KIND, &hdd::KIND, &zns::KIND, &ssd::KIND];

/// The kinds of device, in the order of the help text.
pub fn kinds() -> impl Iterator<Item = &'static DeviceKind> {
    KINDS.into_iter()
}

/// The kind of a name.
pub(super) fn kind(name: &str) -> Option<&'static DeviceKind> {
    kinds().find(|kind| kind.name == name)
}

/// The names of the kinds, in quotes, for messages.
pub(super) fn names() -> String {
    kinds().map(|kind| format!("`{}`", kind.name)).collect::<Vec<_>>().join(", ")
}

/// The built-in profiles: name and text.
pub fn profiles() -> impl Iterator<Item = (&'static str, &'static str)> {
    kinds().flat_map(|kind| kind.profiles).copied()
}

/// The text of a built-in profile.
pub fn profile_text(name: &str) -> Option<&'static str> {
    profiles().find(|(known, _)| *known == name).map(|(_, text)| text)
}

/// A shingled disk of a size that no profile has, such as `smr-28t`: the profile that is nearest in size,
/// and the bytes that the disk has instead.
pub(super) fn sized(name: &str) -> Option<(&'static str, u64)> {
    let terabytes = |name: &str| {
        name.strip_prefix("smr-")?
            .strip_suffix('t')?
            .parse()
            .ok()
            .filter(|it| (1..=200).contains(it))
    };
    let wanted: u64 = terabytes(name)?;
    let sizes = profiles().filter_map(|(name, _)| Some((name, terabytes(name)?)));
    let (nearest, _) = sizes.min_by_key(|(_, size)| size.abs_diff(wanted))?;
    Some((nearest, wanted * 1_000_000_000_000))
}

/// The built-in profile that a name stands for or is made from: `smr-28t` is made from that of the nearest
/// size.
pub fn base_profile(name: &str) -> Option<&'static str> {
    let own = profiles().map(|(known, _)| known).find(|known| *known == name);
    own.or_else(|| sized(name).map(|(nearest, _)| nearest))
}

/// The built-in profiles: name, and what it is a model of, in a sentence.
pub fn profile_subjects() -> impl Iterator<Item = (&'static str, String)> {
    profiles().map(|(name, text)| {
        let comment = text.lines().map_while(|line| line.strip_prefix("# "));
        let comment = comment.collect::<Vec<_>>().join(" ");
        let end = comment.find(". ").unwrap_or(comment.len());
        (name, comment[..end].trim_end_matches('.').to_owned())
    })
}

/// The names of the built-in profiles, for messages.
pub fn profile_names() -> String {
    profiles().map(|(name, _)| name).collect::<Vec<&str>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_profile_says_what_it_is_a_model_of() {
        for (name, subject) in profile_subjects() {
            assert!((10..=130).contains(&subject.len()), "{name}: {subject}");
        }
    }

    #[test]
    fn a_size_without_a_profile_is_the_nearest_profile_with_that_many_bytes() {
        assert_eq!(sized("smr-28t"), Some(("smr-30t", 28_000_000_000_000)));
        assert_eq!(sized("smr-14t"), Some(("smr-20t", 14_000_000_000_000)));
        for name in ["smr-0t", "smr-201t", "smr-28", "smr-t", "hdd-28t", "smr-28t-512e"] {
            assert_eq!(sized(name), None, "{name}");
        }
    }

    #[test]
    fn the_default_of_every_option_is_a_value_that_it_may_have() {
        for kind in kinds() {
            let config = (kind.default)();
            for option in kind.options {
                let value = config.get(option.name);
                assert!(value.is_none_or(|value| option.range.contains(&value)), "{option:?}");
            }
            assert_eq!(config.validate(), Ok(()), "{}", kind.name);
        }
    }
}
