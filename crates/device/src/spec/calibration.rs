//! What a program that adjusts profiles needs to know of them.
//!
//! Takes names of profiles, devices and options; gives the texts of profiles, and how options are
//! written.
use super::hdd::{HDD_OPTIONS, HDD_PROFILES};
use super::options::{NULL_OPTIONS, OptionInfo, Unit};

/// The key of a profile that names the options which were adjusted to measurements, rather than
/// known.
pub const CALIBRATED: &str = "calibrated";

/// The text of a profile that the program has.
pub fn profile_text(name: &str) -> Option<&'static str> {
    HDD_PROFILES.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// An option of a kind of device, with how its value is written.
pub fn option_unit(device: &str, name: &str) -> Option<(&'static str, Unit)> {
    fn find<C>(options: &'static [OptionInfo<C>], name: &str) -> Option<(&'static str, Unit)> {
        let option = options.iter().find(|option| option.name == name)?;
        Some((option.name, option.unit))
    }
    match device {
        "null" => find(NULL_OPTIONS, name),
        "hdd" => find(HDD_OPTIONS, name),
        _ => None,
    }
}
