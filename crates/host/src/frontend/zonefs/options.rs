//! The options of a view, with zonefs' names.
//!
//! Takes a list such as `aggr_cnv,uid=1000,errors=repair`; gives the options. Keeps true: what is
//! not understood is an error that names the option.
/// What is done after an I/O error (zonefs' `errors=`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// No file can be written any more.
    #[default]
    RemountRo,
    /// The file cannot be written any more.
    ZoneRo,
    /// The file can be neither read nor written any more.
    ZoneOffline,
    /// The file's size is set right, and that is all.
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

/// What mkzonefs(8) and mount(8) let one choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Conventional zones that follow one another are one file.
    pub aggregate: bool,
    /// The owner of the files.
    pub uid: u32,
    /// Their group.
    pub gid: u32,
    /// Their permissions.
    pub perm: u16,
    /// What is done after an I/O error.
    pub on_error: OnError,
    /// Zones are opened when their file is opened for writing, as many as the device can have open,
    /// and closed when it is closed.
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

/// An option that is not understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("option `{option}`: expected {expected}")]
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

    /// Changes what a list of options names.
    ///
    /// # Errors
    /// The first option that is not understood.
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
            Some(("uid", value)) => self.uid = id(value).ok_or("a user's number")?,
            Some(("gid", value)) => self.gid = id(value).ok_or("a group's number")?,
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
    fn what_is_wrong_is_named() {
        for (text, expected) in [
            ("", "option ``: expected aggr_cnv, uid=N"),
            ("aggr_cnv,ro", "option `ro`: expected aggr_cnv"),
            ("aggr_cnv=1", "option `aggr_cnv=1`: expected aggr_cnv"),
            ("uid=me", "option `uid=me`: expected a user's number"),
            ("gid=4294967295", "option `gid=4294967295`: expected a group's number"),
            ("perm=888", "option `perm=888`: expected an octal number from 0 to 777"),
            ("perm=1777", "option `perm=1777`: expected an octal number from 0 to 777"),
            ("errors=panic", "option `errors=panic`: expected errors=remount-ro, zone-ro"),
        ] {
            let error = Options::default().with(text).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
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
