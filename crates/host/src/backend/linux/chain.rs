//! A transfer to or from lent pages: three commands of a ring, linked.
//!
//! ```text
//!  register --> move --> unregister
//!      \ failed: the others are cancelled, and the data are to be copied; as when the device
//!        cannot take data that lie as these do, which the kernel says before any have moved
//! ```
//!
//! Takes the ends of the commands, in any order; gives what became of the transfer. Keeps true: it is
//! over when all three have ended, so the pages are the lender's again.
use zonal_blk::Status;

/// The commands, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The pages become a buffer of the ring.
    Register,
    /// The data move.
    Transfer,
    /// The ring lets go of the pages.
    Unregister,
}

impl Step {
    pub const ALL: [Step; 3] = [Step::Register, Step::Transfer, Step::Unregister];
}

/// What became of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The data have moved, well or not.
    Transferred(Result<u64, Status>),
    /// The kernel did not lend the pages, or the device does not take them as they lie. Nothing has
    /// moved.
    Refused,
}

/// How far a transfer is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Chain {
    ended: u8,
    refused: bool,
    moved: Option<Result<u64, Status>>,
}

impl Chain {
    /// A command has ended. Gives the outcome with the last.
    ///
    /// # Panics
    /// If it is one more than there are.
    pub fn ended(&mut self, step: Step, result: Result<u64, Status>) -> Option<Outcome> {
        match step {
            Step::Register => self.refused = result.is_err(),
            Step::Transfer => self.moved = Some(result),
            // It fails only if there is nothing to let go of.
            Step::Unregister => {}
        }
        self.ended += 1;
        assert!(usize::from(self.ended) <= Step::ALL.len(), "{step:?} ends once");
        if usize::from(self.ended) < Step::ALL.len() {
            return None;
        }
        Some(match self.moved.expect("each has ended once") {
            _ if self.refused => Outcome::Refused,
            Err(Status::Invalid) => Outcome::Refused,
            moved => Outcome::Transferred(moved),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Step::{Register, Transfer, Unregister};
    use super::*;

    #[test]
    fn transfer_is_over_when_all_commands_have_ended_in_whatever_order() {
        let cancelled = Err(Status::IoError);
        for order in [
            [Register, Transfer, Unregister],
            [Register, Unregister, Transfer],
            [Transfer, Register, Unregister],
            [Transfer, Unregister, Register],
            [Unregister, Register, Transfer],
            [Unregister, Transfer, Register],
        ] {
            for (lent, moved, expected) in [
                (Ok(0), Ok(4096), Outcome::Transferred(Ok(4096))),
                (Ok(0), Ok(512), Outcome::Transferred(Ok(512))),
                (Ok(0), Err(Status::Medium), Outcome::Transferred(Err(Status::Medium))),
                (Ok(0), Err(Status::Invalid), Outcome::Refused),
                (Err(Status::NotSupported), cancelled, Outcome::Refused),
            ] {
                let mut chain = Chain::default();
                let last = if lent.is_ok() { Ok(0) } else { cancelled };
                let result = |step| match step {
                    Register => lent,
                    Transfer => moved,
                    Unregister => last,
                };
                let outcomes = order.map(|step| chain.ended(step, result(step)));
                assert_eq!(outcomes, [None, None, Some(expected)], "{order:?}");
            }
        }
    }

    #[test]
    #[should_panic(expected = "Transfer ends once")]
    fn command_more_is_a_mistake() {
        let mut chain = Chain::default();
        for step in [Register, Transfer, Unregister, Transfer] {
            chain.ended(step, Ok(0));
        }
    }
}
