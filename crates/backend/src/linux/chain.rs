//! The transfer of an external buffer: three linked commands of a ring.
//!
//! ```text
//!  register --> transfer --> unregister
//!      \ failed: the others are cancelled and the data are copied, as when the device cannot
//!        take data with this alignment, which the kernel reports before it transfers any
//! ```
//!
//! Completions may come in any order. The transfer is complete when all three are: only then do the
//! pages belong to their owner again.
use super::failure::Failure;
use zonal_blk::Status;

/// The commands, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChainStep {
    /// The pages become a fixed buffer of the ring.
    Register,
    /// The read or the write.
    Transfer,
    /// The ring releases the pages.
    Unregister,
}

impl ChainStep {
    pub const ALL: [ChainStep; 3] =
        [ChainStep::Register, ChainStep::Transfer, ChainStep::Unregister];
}

/// How a transfer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// With the result of its command.
    Transferred(Result<u64, Failure>),
    /// The kernel did not register the pages, or the device cannot take data with their alignment.
    /// Nothing was transferred.
    Refused,
}

/// How far a transfer is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Chain {
    completed: u8,
    refused: bool,
    transferred: Option<Result<u64, Failure>>,
}

impl Chain {
    /// Records a completion. The outcome comes with the last.
    ///
    /// # Panics
    /// If there are more completions than commands.
    pub fn on_completion(
        &mut self,
        step: ChainStep,
        result: Result<u64, Failure>,
    ) -> Option<Outcome> {
        match step {
            ChainStep::Register => self.refused = result.is_err(),
            ChainStep::Transfer => self.transferred = Some(result),
            // It fails only if there is nothing to release.
            ChainStep::Unregister => {}
        }
        self.completed += 1;
        assert!(usize::from(self.completed) <= ChainStep::ALL.len(), "{step:?} completes once");
        if usize::from(self.completed) < ChainStep::ALL.len() {
            return None;
        }
        Some(match self.transferred.expect("each has completed once") {
            _ if self.refused => Outcome::Refused,
            Err(Failure { status: Status::Invalid, .. }) => Outcome::Refused,
            result => Outcome::Transferred(result),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::ChainStep::{Register, Transfer, Unregister};
    use super::*;

    #[test]
    fn transfer_is_complete_after_all_commands_in_any_order() {
        let failed = |status: Status| Err(Failure::from(status));
        let cancelled = failed(Status::IoError);
        for order in [
            [Register, Transfer, Unregister],
            [Register, Unregister, Transfer],
            [Transfer, Register, Unregister],
            [Transfer, Unregister, Register],
            [Unregister, Register, Transfer],
            [Unregister, Transfer, Register],
        ] {
            for (registered, transferred, expected) in [
                (Ok(0), Ok(4096), Outcome::Transferred(Ok(4096))),
                (Ok(0), Ok(512), Outcome::Transferred(Ok(512))),
                (Ok(0), failed(Status::Medium), Outcome::Transferred(failed(Status::Medium))),
                (Ok(0), failed(Status::Invalid), Outcome::Refused),
                (failed(Status::NotSupported), cancelled, Outcome::Refused),
            ] {
                let mut chain = Chain::default();
                let last = if registered.is_ok() { Ok(0) } else { cancelled };
                let result = |step| match step {
                    Register => registered,
                    Transfer => transferred,
                    Unregister => last,
                };
                let outcomes = order.map(|step| chain.on_completion(step, result(step)));
                assert_eq!(outcomes, [None, None, Some(expected)], "{order:?}");
            }
        }
    }

    #[test]
    #[should_panic(expected = "Transfer completes once")]
    fn extra_completion_panics() {
        let mut chain = Chain::default();
        for step in [Register, Transfer, Unregister, Transfer] {
            chain.on_completion(step, Ok(0));
        }
    }
}
