//! The help text on devices, which `docs/devices.md` shows.
use super::kinds::{kinds, names, profile_subjects};
use crate::config::{DeviceKind, OptionInfo};

/// The help text on devices: a line for each option.
pub fn help() -> String {
    let mut help = format!(
        "A device is {} or the name of a profile below, alone or with \
         `:option=value,...` after it, or a file `NAME.toml` with `device = \"null\"` or another and \
         its options.\n\
         Sizes take K, M, G, T (powers of 1024); times need ns, us, ms or s; rates take kB/s, \
         MB/s, GB/s (powers of 1000).\n",
        names()
    );
    help.push_str("\nProfiles:\n\n");
    for (name, subject) in profile_subjects() {
        help.push_str(&format!("  {name:14}  {subject}\n"));
    }
    help.push_str(
        "  smr-28t         such sizes, in TB: the nearest of these with another number of zones\n",
    );
    for kind in kinds() {
        let profile =
            if kind.profiles.is_empty() { "" } else { ", and `profile=NAME` before all others" };
        help.push_str(&format!("\nOptions of {}{profile}:\n\n", kind.name));
        add_options(&mut help, kind);
    }
    help
}

/// Adds a line for each option.
fn add_options(help: &mut String, kind: &DeviceKind) {
    let width = |text: fn(&OptionInfo) -> &str| {
        let widths = kind.options.iter().map(|option| text(option).len());
        widths.max().unwrap_or(0)
    };
    let names = width(|option| option.name);
    let defaults = width(|option| option.default);
    for option in kind.options {
        let scope = kind.scope(option);
        let scope = if scope.is_empty() { String::new() } else { format!(" ({scope})") };
        help.push_str(&format!(
            "  {:names$}  {:5}  {:defaults$}  {}{scope}\n",
            option.name,
            option.unit.name(),
            option.default,
            option.help,
        ));
    }
}
