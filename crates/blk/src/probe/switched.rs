//! What the probes do with `--cfg torture`. All of it belongs to the calling thread, so that
//! tests can run side by side.
use std::cell::Cell;

/// Declares an enumeration of probes whose names and meanings can be listed.
macro_rules! probes {
    ($(#[$doc:meta])* $kind:ident { $($name:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum $kind {
            $(#[doc = $text] $name,)*
        }

        impl $kind {
            /// All, with what they are.
            pub const ALL: &'static [($kind, &'static str)] = &[$(($kind::$name, $text),)*];

            /// The name in the source.
            pub const fn name(self) -> &'static str {
                match self {
                    $($kind::$name => stringify!($name),)*
                }
            }
        }
    };
}

probes! {
    /// Mistakes that can be switched on.
    Mutant {
        LostWakeUp = "the next write is not sent after a failed one",
        PlugSettledInUse = "a plug counts as gone while its zone has writes in flight",
        AppendPlacedBeforeRecovery = "an append is placed before the write pointer was asked for",
        TagReleasedTwice = "the tag of a failed command is released twice",
        MissedRequeue = "what the device was too busy for is not tried again",
        MergedBeyondLimit = "waiting writes are merged into a command longer than the device takes",
        SplitEndsEarly = "a bio that was split ends with its first part that fails",
        Qd1ListedTwice = "QD=1: a plug joins the line again while it is in it",
        Qd1LostFromLine = "QD=1: a plug that finds another waiting is not put in the line",
        Qd1ListingDroppedTwice = "QD=1: the plug that has the disk is taken off the line when aborted",
        Qd1ListingLeaked = "QD=1: the reference of a queued plug is never dropped",
        WriteDuringReset = "a write is accepted while a reset is in flight",
        AbortedNotDelivered = "the first aborted write is never heard of",
        MailLost = "a draining channel does not send what it finished for others",
        FuaDropped = "the parts of a split write lose their flags",
        IntakeUnseen = "what is left for a busy scheduler does not show",
        StaleReport = "the write pointer is taken from a report while a reset is in flight",
        FullPlugKept = "the plug of a full zone stays: nobody looks after its last write has ended",
        HeldOutOfOrder = "bios that a freeze held back come in last first",
        FreezeIgnored = "a channel with bios inside lets more in while the queue is frozen",
        ZoneLockKept = "zone write locking: the end of write zeroes does not unlock the zone",
        ReadPartMisplaced = "the data of a read's last part are not copied back",
        ResetKeepsWaiting = "a reset moves the write pointer and leaves the waiting writes",
        SyncForgotten = "after a failed write the old write pointer is kept",
        TimedOutTagReleased = "the tag of a timed-out command is free before the device gave it back",
        TimeoutEndsTwice = "a command that timed out and comes back late ends its bio twice",
        TimedOutPointerKept = "after a command was stopped the old write pointer is kept",
        SwitchLosesHeld = "a change of scheduler loses the bios that waited for the thaw",
        SchedulerStays = "a change of scheduler or longest command leaves the scheduler as it was",
        MergeLimitKept = "waiting writes are merged by the longest command as it was before",
    }
}

probes! {
    /// Rare paths.
    Mark {
        ErrorRecovery = "a failed write: the device was asked for the write pointer",
        RecoveryPutOff = "a failed write: the write pointer stays unknown",
        ReportRefused = "the device refused a report that the layer needed",
        AppendAfterError = "an append made the layer ask for a write pointer that was unknown",
        WriteAfterAppend = "a write after native appends asked for the write pointer",
        PlugFreedAtFull = "a plug went because its zone was full",
        PlugFreedAtReset = "a plug went because its zone was reset",
        AbortByReset = "a reset or finish aborted waiting writes",
        AbortByFailure = "a failed write aborted those behind it",
        AbortByAppend = "a native append aborted waiting writes",
        AbortOffline = "waiting writes learnt that their zone is offline",
        RefusedDuringReset = "a write was refused since a reset was in flight",
        RefusedMerged = "writes submitted together were refused and judged each for itself",
        MergeLimitReached = "a waiting write did not fit in the command any more",
        BusyRequeue = "the device was too busy for a request, which went later",
        NoTag = "a request waited for a tag",
        Qd1Requeue = "QD=1: the device was too busy for a zone's write",
        Qd1NextPlug = "QD=1: the disk went to the next plug in the line",
        Qd1LeftLine = "QD=1: a plug left the line because its writes were aborted",
        HeldByFreeze = "a bio was held back by a freeze",
        Thawed = "held bios came in",
        FrozenWithWaiting = "a queue was frozen while writes waited in plugs",
        PolicyChanged = "the policy was changed",
        MailedWrite = "a draining channel left a write to its owner",
        MailedEnd = "a request went back to the channel it came from",
        SplitPartFailed = "a part of a split bio failed",
        ZeroesAsData = "zeroes were written as data",
        SchedContended = "the scheduler was found busy",
        SchedWaited = "a scheduler held a request back until a time",
        ZoneLockWaited = "zone write locking: a write waited for its zone",
        ResetAllEnded = "all zones were reset",
        TimedOutAtOnce = "a command took too long and the device gave it back when asked",
        TimeoutPutOff = "a command took too long and the device went on with it",
        StoppedWasDone = "a command that was to be stopped came back done",
        PointerAfterTimeout = "after a timeout the device was asked for the write pointer",
        SchedulerChanged = "the scheduler was changed",
        LimitsChanged = "the longest command was changed",
    }
}

thread_local! {
    static MUTANT: Cell<u8> = const { Cell::new(u8::MAX) };
    static REACHED: Cell<u64> = const { Cell::new(0) };
    /// How often in a hundred times a lock is found taken, and the state of the numbers drawn.
    static CONTENTION: Cell<(u8, u64)> = const { Cell::new((0, 0)) };
}

const _: () = assert!(Mark::ALL.len() <= 64, "a mark is a bit");

/// Switches a mistake on, and all others off.
pub fn switch_on(mutant: Option<Mutant>) {
    MUTANT.set(mutant.map_or(u8::MAX, |mutant| mutant as u8));
}

/// Whether a mistake is switched on.
pub fn is_on(mutant: Mutant) -> bool {
    MUTANT.get() == mutant as u8
}

/// Notes that a path was reached.
pub fn reach(mark: Mark) {
    REACHED.set(REACHED.get() | 1 << mark as u8);
}

/// Whether a path was ever reached on this thread.
pub fn was_reached(mark: Mark) -> bool {
    REACHED.get() & 1 << mark as u8 != 0
}

/// All paths that were reached on this thread, a bit each.
pub fn reached() -> u64 {
    REACHED.get()
}

/// Notes paths that were reached on another thread.
pub fn reach_all(marks: u64) {
    REACHED.set(REACHED.get() | marks);
}

/// From now on locks are found taken with a probability in percent, drawn from `seed`.
pub fn set_contention(seed: u64, percent: u8) {
    CONTENTION.set((percent, seed));
}

/// Whether a lock is to be found taken. The numbers are those of splitmix64.
pub fn is_contended() -> bool {
    let (percent, state) = CONTENTION.get();
    if percent == 0 {
        return false;
    }
    let state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    CONTENTION.set((percent, state));
    let mut x = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (x ^ (x >> 31)) % 100 < u64::from(percent)
}
