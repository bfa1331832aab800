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

/// The names of the built-in profiles, for messages.
pub fn profile_names() -> String {
    profiles().map(|(name, _)| name).collect::<Vec<&str>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

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
