//! I/O schedulers: the order in which requests go to the hardware queues.
//!
//! Takes requests whose turn it is in their zone; gives them on in the scheduler's order. With
//! [`Scheduler::None`] they go on as they come, which costs nothing: the stage is a branch.

/// Which scheduler a queue has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scheduler {
    /// First come, first served, each hardware queue on its own.
    #[default]
    None,
}
