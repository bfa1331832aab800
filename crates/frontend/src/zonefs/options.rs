//! The options of a file system, with zonefs' names, and the table of its `errors=` option
//! (Documentation/filesystems/zonefs.rst, "IO error handling").
/// The action after an I/O error (zonefs' `errors=`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// All files become read-only.
    #[default]
    RemountRo,
    /// The file becomes read-only.
    ZoneRo,
    /// The file becomes inaccessible.
    ZoneOffline,
    /// Only the file's size is corrected.
    Repair,
}

impl OnError {
    const WORDS: [(&'static str, OnError); 4] = [
        ("remount-ro", OnError::RemountRo),
        ("zone-ro", OnError::ZoneRo),
        ("zone-offline", OnError::ZoneOffline),
        ("repair", OnError::Repair),
    ];
}

/// The options of mkzonefs(8) and mount(8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Contiguous conventional zones are one file.
    pub aggregate: bool,
    /// The owner of the files.
    pub uid: u32,
    /// Their group.
    pub gid: u32,
    /// Their permissions.
    pub perm: u16,
    /// The action after an I/O error.
    pub on_error: OnError,
    /// A zone is opened when its file is opened for writing, up to the device's limit of open zones,
    /// and closed with it.
    pub explicit_open: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            aggregate: false,
            uid: 0,
            gid: 0,
            perm: 0o640,
            on_error: OnError::default(),
            explicit_open: false,
        }
    }
}

/// An unknown option, or a bad value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("option `{option}`: expected {expected}{}", zonal_blk::did_you_mean_of(option, expected))]
pub struct OptionError {
    option: String,
    expected: &'static str,
}

const KNOWN: &str = "aggr_cnv, uid=N, gid=N, perm=OCTAL, explicit-open or \
                     errors=remount-ro|zone-ro|zone-offline|repair";

impl Options {
    /// The default options with another owner.
    pub fn owned_by(uid: u32, gid: u32) -> Self {
        Options { uid, gid, ..Options::default() }
    }

    /// Sets the options of a list such as `aggr_cnv,uid=1000,errors=repair`.
    ///
    /// # Errors
    /// The first option that is unknown or has a bad value.
    pub fn with(mut self, text: &str) -> Result<Self, OptionError> {
        for option in text.split(',').map(str::trim) {
            self.set(option)
                .map_err(|expected| OptionError { option: option.to_owned(), expected })?;
        }
        Ok(self)
    }

    fn set(&mut self, option: &str) -> Result<(), &'static str> {
        let id = |value: &str| value.parse().ok().filter(|&id| id < u32::MAX);
        match option.split_once('=') {
            None if option == "aggr_cnv" => self.aggregate = true,
            None if option == "explicit-open" => self.explicit_open = true,
            Some(("uid", value)) => self.uid = id(value).ok_or("a user ID")?,
            Some(("gid", value)) => self.gid = id(value).ok_or("a group ID")?,
            Some(("perm", value)) => {
                let perm = u16::from_str_radix(value, 8).ok().filter(|&perm| perm <= 0o777);
                self.perm = perm.ok_or("an octal number from 0 to 777")?;
            }
            Some(("errors", value)) => {
                let word = OnError::WORDS.into_iter().find(|(word, _)| *word == value);
                let expected = "errors=remount-ro, zone-ro, zone-offline or repair";
                self.on_error = word.ok_or(expected)?.1;
            }
            _ => return Err(KNOWN),
        }
        Ok(())
    }
}

/// The zone's condition after an error, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Health {
    /// Readable and writable.
    Good,
    /// Read-only. Its write pointer is not valid.
    ReadOnly,
    /// Offline.
    Offline,
}

/// Access to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// Nothing.
    None,
    /// Reading.
    Read,
    /// According to its permissions.
    Full,
}

/// The effect of an error on a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecoveryAction {
    /// The access that is left.
    pub access: Access,
    /// The size becomes 0. Else it follows the write pointer, or stays where that is not valid.
    pub empty: bool,
    /// All files become read-only.
    pub read_only_view: bool,
}

/// The row of zonefs' table for an option and the zone's condition.
pub fn recovery_action(on_error: OnError, health: Health) -> RecoveryAction {
    let access = match (on_error, health) {
        (OnError::ZoneOffline, _) | (_, Health::Offline) => Access::None,
        (OnError::ZoneRo, _) | (_, Health::ReadOnly) => Access::Read,
        (OnError::RemountRo | OnError::Repair, Health::Good) => Access::Full,
    };
    RecoveryAction {
        access,
        empty: access == Access::None,
        read_only_view: on_error == OnError::RemountRo,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn options_have_zonefs_names_and_defaults() {
        let plain = Options::default();
        let parse = |text: &str| plain.with(text);
        assert_eq!((plain.perm, plain.on_error), (0o640, OnError::RemountRo));
        assert_eq!(
            parse("aggr_cnv,uid=7,gid=8, perm=600,explicit-open,errors=repair"),
            Ok(Options {
                aggregate: true,
                uid: 7,
                gid: 8,
                perm: 0o600,
                on_error: OnError::Repair,
                explicit_open: true,
            })
        );
        for (word, on_error) in OnError::WORDS {
            let expected = Options { on_error, ..plain };
            assert_eq!(parse(&format!("errors={word}")), Ok(expected));
        }
    }

    #[test]
    fn bad_options_are_named() {
        for (text, expected) in [
            ("", "option ``: expected aggr_cnv, uid=N"),
            ("aggr_cnv,ro", "option `ro`: expected aggr_cnv"),
            ("aggr_cnv=1", "option `aggr_cnv=1`: expected aggr_cnv"),
            ("uid=me", "option `uid=me`: expected a user ID"),
            ("gid=4294967295", "option `gid=4294967295`: expected a group ID"),
            ("perm=888", "option `perm=888`: expected an octal number from 0 to 777"),
            ("perm=1777", "option `perm=1777`: expected an octal number from 0 to 777"),
            ("errors=panic", "option `errors=panic`: expected errors=remount-ro, zone-ro"),
        ] {
            let error = Options::default().with(text).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn recovery_follows_the_table_of_zonefs() {
        use Health::{Good, Offline, ReadOnly};
        // The option, the zone; whether the size is corrected (else 0), the file readable, writable.
        for (on_error, health, fixed, read, write) in [
            (OnError::RemountRo, Good, true, true, false),
            (OnError::RemountRo, ReadOnly, true, true, false),
            (OnError::RemountRo, Offline, false, false, false),
            (OnError::ZoneRo, Good, true, true, false),
            (OnError::ZoneRo, ReadOnly, true, true, false),
            (OnError::ZoneRo, Offline, false, false, false),
            (OnError::ZoneOffline, Good, false, false, false),
            (OnError::ZoneOffline, ReadOnly, false, false, false),
            (OnError::ZoneOffline, Offline, false, false, false),
            (OnError::Repair, Good, true, true, true),
            (OnError::Repair, ReadOnly, true, true, false),
            (OnError::Repair, Offline, false, false, false),
        ] {
            let RecoveryAction { access, empty, read_only_view } =
                recovery_action(on_error, health);
            let writes = access == Access::Full && !read_only_view;
            let found = (!empty, access >= Access::Read, writes);
            assert_eq!(found, (fixed, read, write), "{on_error:?}, {health:?}");
            assert_eq!(read_only_view, on_error == OnError::RemountRo);
        }
    }

    proptest! {
        #[test]
        fn any_text_is_options_or_an_error(text in "[a-z_=,0-9 -]{0,40}") {
            let _ = Options::default().with(&text);
        }

        #[test]
        fn numbers_are_read_as_written(uid in 0..u32::MAX, perm in 0_u16..=0o777) {
            let options = Options::owned_by(1, 2).with(&format!("uid={uid},perm={perm:o}")).unwrap();
            prop_assert_eq!((options.uid, options.gid, options.perm), (uid, 2, perm));
        }
    }
}
