//! An allocator that counts the allocations of data buffers, which alone begin at whole pages.
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

static DATA_BUFFERS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static OF_THREAD: Cell<u64> = const { Cell::new(0) };
}

/// Data buffers that were allocated so far, by all threads.
pub fn data_buffers() -> u64 {
    DATA_BUFFERS.load(Ordering::SeqCst)
}

/// Data buffers that this thread has allocated so far.
pub fn data_buffers_of_thread() -> u64 {
    OF_THREAD.get()
}

fn count(layout: Layout) {
    if layout.align() >= 4096 {
        DATA_BUFFERS.fetch_add(1, Ordering::SeqCst);
        OF_THREAD.set(OF_THREAD.get() + 1);
    }
}

// SAFETY: all is left to the allocator of the system.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout);
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }
}
