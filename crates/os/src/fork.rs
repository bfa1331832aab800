//! Which process something belongs to. A child of fork(2) has a copy of the memory, but not the threads,
//! the rings of the kernel nor the locks of its parent: two processes that both use an open image would
//! each write at their own idea of the write pointer.
use std::mem::forget;
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

/// Forks between the process in which this was loaded and the present one.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// It belongs to the parent of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "it was opened before fork() by the parent of this process, which has it still: open it here"
)]
pub struct Forked;

/// A value that only the process may use that made it. A child of fork(2) can neither use nor drop it,
/// since dropping has effects outside of the process, such as the last write to an image.
#[derive(Debug)]
pub struct OfProcess<T> {
    generation: u32,
    /// Always there but in `drop`.
    value: Option<T>,
}

impl<T> OfProcess<T> {
    /// A value of this process.
    pub fn new(value: T) -> Self {
        static WATCH: Once = Once::new();
        // SAFETY: the handler is a function that adds to an atomic, which a child may do.
        WATCH.call_once(|| unsafe {
            libc::pthread_atfork(None, None, Some(in_child));
        });
        OfProcess { generation: GENERATION.load(Ordering::Relaxed), value: Some(value) }
    }

    /// The value.
    ///
    /// # Errors
    /// This is another process.
    pub fn get(&self) -> Result<&T, Forked> {
        if self.is_ours() {
            Ok(self.value.as_ref().expect("until it is dropped"))
        } else {
            Err(Forked)
        }
    }

    fn is_ours(&self) -> bool {
        self.generation == GENERATION.load(Ordering::Relaxed)
    }
}

impl<T> Drop for OfProcess<T> {
    fn drop(&mut self) {
        if !self.is_ours() {
            forget(self.value.take());
        }
    }
}

/// Says that this process is a child of the one before. fork(3) calls it by itself; runtimes that have
/// hooks of their own may, too.
pub extern "C" fn in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}
