//! References to a job's file as fio counts them, which decide whether it flushes before it verifies, and whether
//! another pass begins.
//!
//! What is verified before an early reset of a zone takes a reference that is never dropped. While references are
//! left, fio does not close the file: it flushes it before it verifies the rest of the pass, and does not go back to
//! its start, so that there is no other pass.

/// The references to an open file.
#[derive(Debug)]
pub(super) struct References(u32);

impl Default for References {
    /// Of a file that has just been opened.
    fn default() -> Self {
        References(1)
    }
}

impl References {
    /// Something is verified before an early reset.
    pub(super) fn verifies_early(&mut self) {
        self.0 += 1;
    }

    /// Closes the file, as at the end of the region and of each stage. Returns whether it stays open.
    pub(super) fn close(&mut self) -> bool {
        self.0 = self.0.saturating_sub(1);
        self.0 > 0
    }

    /// Closes the file after a pass. Returns whether it is opened again for another one.
    pub(super) fn reopen(&mut self) -> bool {
        let stays = self.close();
        self.0 = self.0.max(1);
        !stays
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_stays_open_if_more_was_verified_early_than_closes_follow() {
        // What fio 3.41 does with --verify=meta --verify_backlog=2 --loops=3 and early resets, as --debug=file
        // shows it.
        let after = |early: u32, meets_end: bool| {
            let mut file = References::default();
            (0..early).for_each(|_| file.verifies_early());
            if meets_end {
                file.close();
            }
            (file.close(), file.reopen())
        };
        assert_eq!(after(0, false), (false, true));
        assert_eq!(after(0, true), (false, true));
        assert_eq!(after(1, true), (false, true), "the end of the region has closed it once");
        assert_eq!(after(1, false), (true, true));
        assert_eq!(after(2, true), (true, true));
        assert_eq!(after(2, false), (true, false), "no further pass begins");
    }
}
