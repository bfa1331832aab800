//! What a program that adjusts profiles needs to know of them.
//!
//! Takes names of profiles, devices and options; gives the texts of profiles, and how options are
//! written.
use super::hdd::{HDD_OPTIONS, HDD_PROFILES};
use super::options::{NULL_OPTIONS, OptionInfo, Unit};
use super::parse_profile;
use super::zns::{ZNS_OPTIONS, ZNS_PROFILES};

/// The key of a profile that names the options which were adjusted to measurements, rather than
/// known.
pub const CALIBRATED: &str = "calibrated";

/// The text of a profile that the program has.
pub fn profile_text(name: &str) -> Option<&'static str> {
    profiles().find(|(known, _)| *known == name).map(|(_, text)| text)
}

/// The names of the profiles that the program has, for messages.
pub fn profile_names() -> String {
    profiles().map(|(name, _)| name).collect::<Vec<&str>>().join(", ")
}

fn profiles() -> impl Iterator<Item = (&'static str, &'static str)> {
    HDD_PROFILES.iter().chain(ZNS_PROFILES).copied()
}

/// An option of a kind of device, or of the device of a profile, with how its value is written.
pub fn option_unit(device: &str, name: &str) -> Option<(&'static str, Unit)> {
    fn find<C>(options: &'static [OptionInfo<C>], name: &str) -> Option<(&'static str, Unit)> {
        let option = options.iter().find(|option| option.name == name)?;
        Some((option.name, option.unit))
    }
    match device {
        "null" => find(NULL_OPTIONS, name),
        "hdd" => find(HDD_OPTIONS, name),
        "zns" => find(ZNS_OPTIONS, name),
        profile => option_unit(parse_profile(profile, profile_text(profile)?).ok()?.kind(), name),
    }
}
