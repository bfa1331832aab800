//! The part of an image's file that is written word by word: mapped, or where the file system has no shared
//! mappings, written through the page cache.
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use zonal_device::image::SharedWords;
use zonal_os::bus_error::Guard;

/// Opens `len` bytes from `at` on, all of them in the file.
pub(super) fn share(file: &File, at: u64, len: u64) -> io::Result<Box<dyn SharedWords>> {
    match Mapping::new(file, at, len) {
        Ok(mapping) => Ok(Box::new(mapping)),
        Err(_) => Ok(Box::new(Written::new(file, at)?)),
    }
}

struct Mapping {
    /// Where the pages begin that are mapped.
    pages: *mut libc::c_void,
    len: usize,
    /// The words.
    words: *const AtomicU64,
    count: usize,
    /// Against a file that is truncated, or has no space or an error where a page of it is to be.
    guard: Option<Guard>,
}

// SAFETY: the memory is accessed as atomics only, and unmapped when nobody refers to this any more.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(file: &File, at: u64, len: u64) -> io::Result<Self> {
        let page = rustix::param::page_size() as u64;
        let skipped = usize::try_from(at % page).expect("less than a page");
        let bytes = usize::try_from(len).map_err(io::Error::other)?;
        let len = skipped + bytes;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let (to, from) = (std::ptr::null_mut(), at / page * page);
        // SAFETY: the kernel chooses the address of the new mapping.
        let pages = unsafe { mmap(to, len, access, MapFlags::SHARED, file, from) }?;
        // SAFETY: within the mapping, which is longer.
        let words = unsafe { pages.cast::<u8>().add(skipped) };
        // SAFETY: the mapping of above, to which only raw pointers exist.
        let Some(guard) =
            (unsafe { Guard::new(pages as usize, len.next_multiple_of(page as usize)) })
        else {
            // SAFETY: the same, which nobody uses.
            unsafe { munmap(pages, len) }?;
            return Err(io::Error::other("too many guarded mappings"));
        };
        Ok(Mapping {
            pages,
            len,
            words: words.cast_const().cast(),
            count: bytes / 8,
            guard: Some(guard),
        })
    }
}

impl SharedWords for Mapping {
    fn store(&self, first: usize, words: &[u64]) -> io::Result<()> {
        assert!(first + words.len() <= self.count, "words {first} and on are not shared");
        for (at, word) in (first..).zip(words) {
            // SAFETY: one of the words, which are aligned as pages are, and mapped as long as this lives.
            let place = unsafe { &*self.words.add(at) };
            // Who reads them does so when this process has ended.
            place.store(word.to_le(), Ordering::Relaxed);
        }
        if self.guard.as_ref().is_some_and(Guard::is_lost) {
            return Err(io::Error::other("the file has lost a part that was mapped"));
        }
        Ok(())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // As long as it is there, the place is ours.
        drop(self.guard.take());
        // SAFETY: the mapping of `new`, to which nobody refers any more.
        let _unmapped = unsafe { munmap(self.pages, self.len) };
    }
}

/// The same by system calls, without direct I/O.
struct Written {
    file: File,
    at: u64,
}

impl Written {
    fn new(file: &File, at: u64) -> io::Result<Self> {
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        Ok(Written { file: OpenOptions::new().write(true).open(path)?, at })
    }
}

impl SharedWords for Written {
    fn store(&self, first: usize, words: &[u64]) -> io::Result<()> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.file.write_all_at(&bytes, self.at + 8 * first as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_in_the_file_at_their_place_either_way() {
        let file = tempfile::tempfile().expect("a file");
        file.set_len(3 * 4096).expect("space");
        let ways: [Box<dyn SharedWords>; 2] = [
            Box::new(Mapping::new(&file, 4096, 8192).expect("a mapping")),
            Box::new(Written::new(&file, 4096).expect("a file")),
        ];
        for (way, number) in ways.iter().zip(1_u64..) {
            way.store(513, &[number, 0x0102_0304_0506_0708]).expect("it is there");
            let mut found = [0; 32];
            file.read_exact_at(&mut found, 4096 + 512 * 8).expect("it is long enough");
            let expected = [0, number, 0x0102_0304_0506_0708, 0].map(u64::to_le_bytes);
            assert_eq!(found, expected.as_flattened());
        }
    }
}
