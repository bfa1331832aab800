//! The probes with `--cfg torture`. All state is thread-local, so that tests can run side by side.
use std::cell::Cell;

/// Declares an enumeration of probes whose names and meanings can be listed.
#[macro_export]
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
    /// Bugs that can be switched on.
    Mutant {
        LostWakeUp = "after a failed write the next one is not issued",
        PlugSettledInUse = "a plug is released while writes are in flight in its zone",
        AppendPlacedBeforeRecovery = "an append is given its sector before the write pointer is recovered",
        TagReleasedTwice = "the tag of a failed command is released twice",
        MissedRequeue = "a request that the device was too busy for is not retried",
        MergedBeyondLimit = "waiting writes are merged beyond the longest command of the device",
        SplitCompletesEarly = "a split bio completes with its first part that fails",
        Qd1QueuedTwice = "QD=1: a plug is queued again while it is queued",
        Qd1NotQueued = "QD=1: a plug that finds another one queued is not queued",
        Qd1ReferenceDroppedTwice = "QD=1: the reference of the plug that has the disk is dropped twice on abort",
        Qd1ReferenceLeaked = "QD=1: the reference of a queued plug is never dropped",
        WriteDuringReset = "a write is accepted while a reset is in flight",
        AbortedNotDelivered = "the first aborted write never completes",
        MailLost = "a draining channel does not deliver what it completed for others",
        FuaDropped = "the parts of a split write lose their flags",
        InsertListUnseen = "requests left in an insertion list while the scheduler is locked are not announced",
        StaleReport = "the write pointer is taken from a report while a reset is in flight",
        FullPlugKept = "the plug of a full zone is not released after the last write has completed",
        HeldOutOfOrder = "bios held during a freeze are admitted in reverse order",
        FreezeIgnored = "a channel with bios inside admits more while the queue is frozen",
        ZoneLockKept = "zone write locking: a completed write zeroes does not unlock the zone",
        ReadPartMisplaced = "the data of the last part of a split read are not copied back",
        ResetKeepsWaiting = "a reset moves the write pointer and leaves the waiting writes",
        WpKeptAfterError = "after a failed write the old write pointer is kept",
        TimedOutTagReleased = "the tag of a timed-out command is released before the device gives it back",
        TimeoutCompletesTwice = "the bio of a timed-out command completes twice",
        WpKeptAfterTimeout = "after a timeout the old write pointer is kept",
        SwitchLosesHeld = "a change of scheduler loses bios held during the freeze",
        SchedulerStays = "a change of scheduler or longest command leaves the old scheduler in place",
        MergeLimitKept = "waiting writes are merged up to the longest command of before a change",
        PlugsBeyondEndKept = "plugs stay for zones that a device has lost",
        OldPointersKept = "the write pointers of before are kept when a device was formatted",
        CapacityKept = "bios for zones that a device has lost are sent to it",
        GranularityIgnored = "writes to sequential zones are sent that are finer than the device takes",
        StreamsMerged = "waiting writes of different write streams are merged",
        StreamDropped = "the parts of a split write lose their write stream",
        SplitBelowGranularity = "writes are split between units of the write granularity",
    }
}

probes! {
    /// Rare paths, to be marked when they are reached.
    Mark {
        ErrorRecovery = "after a failed write the device was asked for the write pointer",
        RecoveredWhileFrozen = "a frozen queue asked for the write pointer after a failed write",
        RecoveredWithoutTag = "the layer asked for a write pointer while all other tags were taken",
        RecoveryDeferred = "after a failed write the write pointer stayed unknown",
        ReportRefused = "the device refused a zone report that the layer needed",
        AppendAfterError = "an append made the layer ask for an unknown write pointer",
        WriteAfterAppend = "a write after native appends asked for the write pointer",
        PlugFreedAtFull = "a plug was released because its zone was full",
        PlugFreedAtReset = "a plug was released because its zone was reset",
        AbortByReset = "a reset or finish aborted waiting writes",
        AbortByFailure = "a failed write aborted those that waited behind it",
        AbortByAppend = "a native append aborted waiting writes",
        AbortOffline = "waiting writes were aborted because their zone was offline",
        RefusedDuringReset = "a write was refused because a reset was in flight",
        RefusedMerged = "merged writes were refused and then tried one by one",
        MergeLimitReached = "a waiting write did not fit into the command",
        BusyRequeue = "the device was too busy for a request, which was requeued",
        NoTag = "a request waited for a tag",
        Qd1Requeue = "QD=1: the device was too busy for the write of a zone",
        Qd1NextPlug = "QD=1: the disk went to the next plug in the queue",
        Qd1LeftQueue = "QD=1: a plug left the queue because its writes were aborted",
        HeldByFreeze = "a bio was held during a freeze",
        Unfrozen = "held bios were admitted",
        FrozenWithWaiting = "a queue was frozen while writes waited in plugs",
        PolicyChanged = "the zone-write policy was changed",
        MailedWrite = "a draining channel left a write to its owner",
        MailedCompletion = "a completed request was mailed to the channel that it came from",
        SplitPartFailed = "a part of a split bio failed",
        ZeroesAsData = "zeroes were written as data",
        SchedContended = "the scheduler was locked by another channel",
        SchedWaited = "a scheduler held back a request until some time",
        ZoneLockWaited = "zone write locking: a write waited for its zone",
        ResetAllCompleted = "all zones were reset",
        TimedOutAtOnce = "the device gave a timed-out command back immediately",
        TimeoutReset = "the device went on with a timed-out command",
        AbortedWasDone = "an aborted command came back executed",
        WpAfterTimeout = "after a timeout the device was asked for the write pointer",
        SchedulerChanged = "the scheduler was changed",
        LimitsChanged = "the longest command was changed",
        ZonesLost = "the zones were read anew, and there were fewer",
        ZonesRestored = "the zones were read anew, and there were more",
        PlugBeyondEndDropped = "a live plug went because its zone did",
        TooFine = "a write that is finer than the device takes was refused",
    }
}

thread_local! {
    static MUTANT: Cell<u8> = const { Cell::new(u8::MAX) };
    static REACHED: Cell<u64> = const { Cell::new(0) };
    /// The probability in percent that a lock is found taken, and the state of the random numbers.
    static CONTENTION: Cell<(u8, u64)> = const { Cell::new((0, 0)) };
}

const _: () = assert!(Mark::ALL.len() <= 64, "a mark is a bit");

/// Switches a bug on, and all others off.
pub fn switch_on(mutant: Option<Mutant>) {
    MUTANT.set(mutant.map_or(u8::MAX, |mutant| mutant as u8));
}

/// Whether a bug is switched on.
pub fn is_on(mutant: Mutant) -> bool {
    MUTANT.get() == mutant as u8
}

/// Marks a path as reached.
pub fn reach(mark: Mark) {
    REACHED.set(REACHED.get() | 1 << mark as u8);
}

/// Whether a path was ever reached on this thread.
pub fn was_reached(mark: Mark) -> bool {
    REACHED.get() & 1 << mark as u8 != 0
}

/// All paths that were reached on this thread, one bit each.
pub fn reached() -> u64 {
    REACHED.get()
}

/// Marks paths that were reached on another thread.
pub fn reach_all(marks: u64) {
    REACHED.set(REACHED.get() | marks);
}

/// From now on a lock is found taken with this probability, by random numbers from `seed`.
pub fn set_contention(seed: u64, percent: u8) {
    CONTENTION.set((percent, seed));
}

/// Whether a lock is found taken. The random numbers are those of splitmix64.
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
