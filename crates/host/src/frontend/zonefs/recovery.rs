//! What an I/O error makes of a file: zonefs' table, as its documentation has it
//! (Documentation/filesystems/zonefs.rst, "IO error handling").
//!
//! Takes the zone's condition after the error and the `errors=` option; gives the file's size and
//! what can still be done with it.
use super::OnError;

/// What the device says of the zone after the error, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Health {
    /// It can be read and written.
    Good,
    /// It can only be read. Its write pointer means nothing.
    ReadOnly,
    /// It cannot be used.
    Offline,
}

/// What can be done with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// Nothing.
    None,
    /// It can be read.
    Read,
    /// What its permissions say.
    Full,
}

/// What becomes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecoveryAction {
    /// What can be done with it.
    pub access: Access,
    /// Its size is 0. Else it is the write pointer's place, or, where that means nothing, what it
    /// was last.
    pub empty: bool,
    /// No file can be written any more.
    pub read_only_view: bool,
}

/// The row of the table.
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

    #[test]
    fn table_is_the_documentations() {
        use Health::{Good, Offline, ReadOnly};
        // The option, the zone; the size is fixed (or else 0), the file can be read, and written.
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
}
