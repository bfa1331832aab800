//! The C library's allocator.

/// Buffers from this length on are returned to the system when they are freed.
#[cfg(target_env = "gnu")]
const MMAP_THRESHOLD: libc::c_int = 256 << 10;

/// Returns long buffers to the system when they are freed. For servers, whose clients choose how
/// long: by default glibc raises the length from which it does so to that of the longest buffer freed
/// so far (`mallopt(3)`, `M_MMAP_THRESHOLD`), and the arenas of the threads keep the rest. Does
/// nothing with other C libraries.
pub fn return_freed_buffers() {
    #[cfg(target_env = "gnu")]
    // SAFETY: the call sets a number of the allocator, under its lock. If it refuses, it does as
    // before.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, MMAP_THRESHOLD);
    }
}
