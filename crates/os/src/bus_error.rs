//! Mapped memory whose file a client can truncate, or cannot fill.
//!
//! An access then gets SIGBUS, which would end the program. A handler puts zeroed pages in place of the
//! whole mapping instead, and marks it as lost: the access goes on, and the client is disconnected. That
//! costs nothing while nothing happens, and needs no seals, which clients may lack. A SIGBUS elsewhere is
//! left to the handler of before.
//!
//! mmap in the handler can fail for one reason: the process has as many mappings as the kernel allows
//! (`vm.max_map_count`). A reserve of mappings is kept for that, and removed then.
use crate::mapping_slot::MappingSlot;
use libc::{c_int, c_void, siginfo_t};
use std::ptr;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

/// Mappings of all clients.
const SLOTS: usize = 4096;

static MAPPINGS: [Mapping; SLOTS] =
    [const { Mapping { place: MappingSlot::new(), lost: AtomicBool::new(false) } }; SLOTS];
/// Mappings that are lost.
static LOST: AtomicUsize = AtomicUsize::new(0);
/// Where the reserve of mappings is; 0 while there is none.
static RESERVE: AtomicUsize = AtomicUsize::new(0);
/// Mappings of the reserve. To replace a part of a mapping, which it is if the kernel has merged
/// neighbours, takes two.
const RESERVE_MAPPINGS: usize = 64;
/// The previous action of SIGBUS.
static BEFORE: AtomicPtr<libc::sigaction> = AtomicPtr::new(ptr::null_mut());

struct Mapping {
    place: MappingSlot,
    lost: AtomicBool,
}

/// A mapping that survives SIGBUS while this lives.
#[derive(Debug)]
pub struct Guard(usize);

impl Guard {
    /// Guards the mapping of `len` bytes at `start`. `None` if there are too many.
    ///
    /// # Safety
    /// Until the guard is dropped, the memory is a mapping of the caller's, of which only raw pointers
    /// exist: it may be replaced by another at any time. It consists of whole pages of its file.
    pub unsafe fn new(start: usize, len: usize) -> Option<Self> {
        static INSTALL: Once = Once::new();
        INSTALL.call_once(install);
        if !has_reserve() {
            return None;
        }
        MAPPINGS.iter().position(|mapping| mapping.place.enter(start, len)).map(Guard)
    }

    /// Whether the mapping has lost its memory.
    pub fn is_lost(&self) -> bool {
        MAPPINGS[self.0].lost.load(Ordering::Acquire)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let mapping = &MAPPINGS[self.0];
        if mapping.lost.swap(false, Ordering::AcqRel) {
            LOST.fetch_sub(1, Ordering::AcqRel);
        }
        mapping.place.clear();
    }
}

/// Whether any mapping is lost.
pub fn any_lost() -> bool {
    LOST.load(Ordering::Relaxed) > 0
}

fn install() {
    // SAFETY: a structure of integers and a null pointer.
    let [mut action, mut before]: [libc::sigaction; 2] = unsafe { std::mem::zeroed() };
    action.sa_sigaction = on_bus_error as *const () as libc::sighandler_t;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
    // SAFETY: asks for the present action; both pointers are valid or null.
    unsafe { libc::sigaction(libc::SIGBUS, ptr::null(), &raw mut before) };
    BEFORE.store(Box::into_raw(Box::new(before)), Ordering::Release);
    // SAFETY: the handler does what a handler may: it reads atomics, calls mmap, munmap and sigaction.
    unsafe { libc::sigaction(libc::SIGBUS, &raw const action, ptr::null_mut()) };
}

/// Makes the reserve unless it is there. Returns whether it is.
fn has_reserve() -> bool {
    if RESERVE.load(Ordering::Acquire) != 0 {
        return true;
    }
    let page = rustix::param::page_size();
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let len = RESERVE_MAPPINGS * page;
    // SAFETY: a new mapping, which nobody accesses.
    let start = unsafe { libc::mmap(ptr::null_mut(), len, libc::PROT_NONE, flags, -1, 0) };
    if start == libc::MAP_FAILED {
        return false;
    }
    // Neighbours that can be accessed in different ways are mappings of their own.
    let made = (0..RESERVE_MAPPINGS).step_by(2).all(|number| {
        let address = (start as usize + number * page) as *mut c_void;
        // SAFETY: a page of the new mapping.
        unsafe { libc::mprotect(address, page, libc::PROT_READ) == 0 }
    });
    let first = || {
        let (order, start) = (Ordering::AcqRel, start as usize);
        RESERVE.compare_exchange(0, start, order, Ordering::Acquire).is_ok()
    };
    if !made || !first() {
        // SAFETY: the mapping of above, of which nobody knows.
        unsafe { libc::munmap(start, len) };
    }
    made
}

/// Removes the reserve if there is one.
fn use_reserve() {
    let start = RESERVE.swap(0, Ordering::AcqRel);
    if start != 0 {
        let len = RESERVE_MAPPINGS * rustix::param::page_size();
        // SAFETY: the reserve, which nobody accesses.
        unsafe { libc::munmap(start as *mut c_void, len) };
    }
}

extern "C" fn on_bus_error(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes a valid siginfo_t, and SIGBUS has an address.
    let address = unsafe { (*info).si_addr() } as usize;
    // SAFETY: the calling thread's errno.
    let errno = unsafe { *libc::__errno_location() };
    if !replace(address) {
        leave_to_others(signal, info, context);
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

/// Puts zeroed pages where the mapping with `address` is. Returns false if there is none.
fn replace(address: usize) -> bool {
    for mapping in &MAPPINGS {
        let Some((start, len)) = mapping.place.find(address) else { continue };
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
        // SAFETY: `Guard::new` was promised that the mapping may be replaced. It is there until this returns: the
        // thread that was interrupted accesses it, and start and length are both its own.
        let map = || unsafe { libc::mmap(start as *mut c_void, len, prot, flags, -1, 0) };
        let mut mapped = map();
        if mapped == libc::MAP_FAILED {
            use_reserve();
            mapped = map();
        }
        if mapped == libc::MAP_FAILED {
            return false;
        }
        if !mapping.lost.swap(true, Ordering::AcqRel) {
            LOST.fetch_add(1, Ordering::AcqRel);
        }
        return true;
    }
    false
}

fn leave_to_others(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let before = BEFORE.load(Ordering::Acquire);
    // SAFETY: the structure is never freed, and the first handler that runs finds it there.
    let Some(before) = (unsafe { before.as_ref() }) else { return };
    let handler = before.sa_sigaction;
    if handler != libc::SIG_DFL
        && handler != libc::SIG_IGN
        && before.sa_flags & libc::SA_SIGINFO != 0
    {
        type Handler = extern "C" fn(c_int, *mut siginfo_t, *mut c_void);
        // SAFETY: with SA_SIGINFO it is a function of this type.
        let handler = unsafe { std::mem::transmute::<libc::sighandler_t, Handler>(handler) };
        return handler(signal, info, context);
    }
    // The access is repeated, and has its effect as if there had been no handler.
    // SAFETY: a valid structure, or null.
    unsafe { libc::sigaction(signal, before, ptr::null_mut()) };
}
