//! Sleep and mail: a thread that sleeps until another has something for it.
//!
//! ```text
//!  the thread      fall_asleep   look for work   sleep, if there is none   awake
//!  the others      leave work    wake
//! ```
//!
//! Each of the two writes and then reads what the other has written, with a sequentially consistent
//! fence in between. So either the thread finds the work, or the other finds it asleep and wakes it.
use crate::lock::SpinLock;
use crate::sync::{AtomicBool, AtomicU8, Ordering, fence};
use crate::wake::WakeUp;
use std::sync::Arc;

const AWAKE: u8 = 0;
const ASLEEP: u8 = 1;
/// Asleep, with room on its hardware queue for requests that wait in the scheduler.
const ASLEEP_WITH_ROOM: u8 = 2;

/// Whether a thread sleeps, and how to wake it.
///
/// ```
/// use std::sync::atomic::{AtomicBool, Ordering};
/// use std::sync::{Arc, mpsc};
/// use zonal_blk::Sleeper;
///
/// let shared = Arc::new((Sleeper::default(), AtomicBool::new(false)));
/// let (send, woken) = mpsc::channel();
/// shared.0.set_waker(Arc::new(move || send.send(()).unwrap_or_default()));
///
/// let other = Arc::clone(&shared);
/// let thread = std::thread::spawn(move || {
///     other.1.store(true, Ordering::Relaxed);
///     other.0.wake();
/// });
/// shared.0.fall_asleep();
/// if !shared.1.load(Ordering::Relaxed) {
///     woken.recv().expect("the other thread wakes this one");
/// }
/// shared.0.awake();
/// thread.join().expect("no panic");
/// ```
pub struct Sleeper {
    state: AtomicU8,
    waker: SpinLock<Option<Arc<dyn WakeUp>>>,
}

impl Default for Sleeper {
    fn default() -> Self {
        Sleeper { state: AtomicU8::new(AWAKE), waker: SpinLock::new(None) }
    }
}

impl Sleeper {
    /// Sets how to wake the thread.
    pub fn set_waker(&self, waker: Arc<dyn WakeUp>) {
        *self.waker.lock() = Some(waker);
    }

    /// The thread has gone: nothing is woken any more.
    pub(crate) fn clear_waker(&self) {
        *self.waker.lock() = None;
    }

    /// The thread is about to sleep. It has to look for work after this, and must not sleep if there is
    /// any. From now on it is woken, once.
    pub fn fall_asleep(&self) {
        self.set_asleep(ASLEEP);
    }

    /// The same for a thread that could send requests that wait in the scheduler.
    pub(crate) fn fall_asleep_with_room(&self) {
        self.set_asleep(ASLEEP_WITH_ROOM);
    }

    fn set_asleep(&self, state: u8) {
        // A late wake-up may have written it last: loom knows their order only if this reads that.
        self.state.swap(state, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// The thread no longer sleeps.
    pub fn awake(&self) {
        self.state.store(AWAKE, Ordering::Relaxed);
    }

    pub(crate) fn is_asleep(&self) -> bool {
        self.state.load(Ordering::SeqCst) != AWAKE
    }

    pub(crate) fn is_asleep_with_room(&self) -> bool {
        self.state.load(Ordering::SeqCst) == ASLEEP_WITH_ROOM
    }

    /// Wakes the thread if it sleeps. Work for it was stored before this.
    #[inline]
    pub fn wake(&self) {
        fence(Ordering::SeqCst);
        if self.state.load(Ordering::Relaxed) != AWAKE {
            self.call_waker();
        }
    }

    #[cold]
    fn call_waker(&self) {
        if self.state.swap(AWAKE, Ordering::AcqRel) != AWAKE {
            let waker = self.waker.lock().clone();
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }
}

impl std::fmt::Debug for Sleeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sleeper").field("state", &self.state).finish_non_exhaustive()
    }
}

/// Mail from other threads for a thread that may sleep.
///
/// Two cache lines of its own: its owner looks for mail on every poll.
#[derive(Debug)]
#[repr(align(128))]
pub struct Mailbox<T> {
    /// Read without the lock on every poll.
    full: AtomicBool,
    mail: SpinLock<Vec<T>>,
    /// The owner.
    sleeper: Sleeper,
}

impl<T> Default for Mailbox<T> {
    fn default() -> Self {
        Mailbox {
            full: AtomicBool::new(false),
            mail: SpinLock::new(Vec::new()),
            sleeper: Sleeper::default(),
        }
    }
}

impl<T> Mailbox<T> {
    /// Leaves one piece of mail and wakes the owner.
    pub fn push(&self, piece: T) {
        self.leave(|mail| mail.push(piece));
    }

    /// Moves all of `sent` into the mailbox and wakes its owner. Together, because each visit
    /// takes the mailbox out of its owner's cache.
    pub fn push_all(&self, sent: &mut Vec<T>) {
        self.leave(|mail| mail.append(sent));
    }

    #[inline]
    fn leave(&self, add: impl FnOnce(&mut Vec<T>)) {
        {
            let mut mail = self.mail.lock();
            add(&mut mail);
            self.full.store(true, Ordering::Release);
        }
        self.sleeper.wake();
    }

    /// Its owner, to sleep and to be woken.
    #[inline]
    pub fn sleeper(&self) -> &Sleeper {
        &self.sleeper
    }

    /// Whether there is no mail.
    #[inline]
    pub fn is_empty(&self) -> bool {
        !self.full.load(Ordering::Acquire)
    }

    /// Swaps the mail, oldest first, for `empty`, an empty list.
    pub fn take(&self, empty: &mut Vec<T>) {
        debug_assert!(empty.is_empty(), "what is in the list would be delivered elsewhere");
        if !self.is_empty() {
            let mut mail = self.mail.lock();
            self.full.store(false, Ordering::Relaxed);
            std::mem::swap(&mut *mail, empty);
        }
    }
}

/// Every interleaving of the threads, as far as loom knows them. It reports a thread that nobody wakes
/// as a deadlock.
#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Notify;
    use loom::thread as threads;

    /// Wakes a loom thread.
    #[derive(Clone)]
    struct Bell(loom::sync::Arc<Notify>);

    impl WakeUp for Bell {
        fn wake(&self) {
            self.0.notify();
        }
    }

    impl Bell {
        fn of(sleeper: &Sleeper) -> Self {
            let bell = Bell(loom::sync::Arc::new(Notify::new()));
            sleeper.set_waker(Arc::new(bell.clone()));
            bell
        }

        /// Sleeps until `has_work`.
        fn wait(&self, sleeper: &Sleeper, has_work: impl Fn() -> bool) {
            // Loom also wakes for no reason.
            while !has_work() {
                sleeper.fall_asleep();
                if !has_work() {
                    self.0.wait();
                }
                sleeper.awake();
            }
        }
    }

    #[test]
    fn loom_mail_is_taken_once_and_in_order() {
        loom::model(|| {
            let mailbox = Arc::new(Mailbox::default());
            let sender = Arc::clone(&mailbox);
            let thread = threads::spawn(move || {
                sender.push(0);
                sender.push_all(&mut vec![1, 2]);
            });
            let mut seen = Vec::new();
            let mut mail = Vec::new();
            mailbox.take(&mut mail);
            seen.append(&mut mail);
            thread.join().unwrap();
            mailbox.take(&mut mail);
            seen.append(&mut mail);
            assert!(mailbox.is_empty());
            assert_eq!(seen, [0, 1, 2]);
        });
    }

    #[test]
    fn loom_mail_wakes_its_receiver() {
        loom::model(|| {
            let mailbox = Arc::new(Mailbox::default());
            let sender = Arc::clone(&mailbox);
            let thread = threads::spawn(move || sender.push(7));
            let sleeper = mailbox.sleeper();
            Bell::of(sleeper).wait(sleeper, || !mailbox.is_empty());
            let mut mail = Vec::new();
            mailbox.take(&mut mail);
            assert_eq!(mail, [7]);
            thread.join().unwrap();
        });
    }

    /// As a doorbell is rung: the work is a store that orders nothing by itself.
    #[test]
    fn loom_work_without_mail_wakes_a_sleeper() {
        loom::model(|| {
            let shared = Arc::new((Sleeper::default(), AtomicBool::new(false)));
            let other = Arc::clone(&shared);
            let thread = threads::spawn(move || {
                other.1.store(true, Ordering::Relaxed);
                other.0.wake();
            });
            Bell::of(&shared.0).wait(&shared.0, || shared.1.load(Ordering::Relaxed));
            thread.join().unwrap();
        });
    }

    /// A wake-up that comes late, when the thread has found its work and sleeps again, must not keep
    /// the next one from it.
    #[test]
    fn loom_late_wake_up_does_not_swallow_the_next() {
        loom::model(|| {
            let shared = Arc::new((Sleeper::default(), AtomicU8::new(0)));
            let other = Arc::clone(&shared);
            let thread = threads::spawn(move || {
                for done in 1..=2 {
                    other.1.store(done, Ordering::Relaxed);
                    other.0.wake();
                }
            });
            let bell = Bell::of(&shared.0);
            for done in 1..=2 {
                bell.wait(&shared.0, || shared.1.load(Ordering::Relaxed) >= done);
            }
            thread.join().unwrap();
        });
    }
}
