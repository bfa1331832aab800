//! Memory that a client shares: mappings of its files, by guest address.
use rustix::fs::{fcntl_get_seals, fstat, fstatfs};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::param::page_size;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};
use zonal_nvme::controller::pcie::{Dma, DmaError};
use zonal_os::bus_error::Guard;

/// Regions of one client.
pub const MAX_REGIONS: usize = 1024;
/// Guest addresses and sizes are multiples of this, in bytes.
pub const PAGE: u64 = 4096;

/// The memory of a guest.
#[derive(Debug, Default)]
pub struct GuestMemory {
    /// By address; they do not overlap.
    regions: Vec<Region>,
}

/// The region that a client asks for.
#[derive(Clone, Copy, Debug)]
pub struct RegionRequest {
    /// Guest address.
    pub address: u64,
    /// In bytes.
    pub size: u64,
    /// Where in the file it is.
    pub offset: u64,
    pub readable: bool,
    pub writable: bool,
}

#[derive(Debug)]
struct Region {
    address: u64,
    size: u64,
    readable: bool,
    writable: bool,
    /// None if the client has the memory to itself.
    mapping: Option<Mapping>,
}

/// A shared mapping of whole pages of the file, which may be larger than those of the guest. The kernel
/// replaces and removes no part of a huge page.
#[derive(Debug)]
struct Mapping {
    start: *mut u8,
    /// In bytes, a multiple of the file's page size.
    len: usize,
    /// Where the region begins in it, in bytes.
    region: usize,
    guard: Option<Guard>,
}

// SAFETY: the memory is accessed only as raw bytes and atomics, which any thread may do.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(file: OwnedFd, request: &RegionRequest) -> Result<Self, Errno> {
        let unit = page_size_of(&file)?;
        let stat = fstat(&file)?;
        let end = request.offset.checked_add(request.size).ok_or(Errno::INVAL)?;
        if u64::try_from(stat.st_size).is_ok_and(|size| end > size) {
            return Err(Errno::INVAL);
        }
        let first = request.offset - request.offset % unit;
        let end = end.checked_next_multiple_of(unit).ok_or(Errno::INVAL)?;
        let len = usize::try_from(end - first).map_err(|_| Errno::INVAL)?;
        let region = usize::try_from(request.offset - first).map_err(|_| Errno::INVAL)?;
        let mut prot = ProtFlags::READ;
        prot.set(ProtFlags::WRITE, request.writable);
        let flags = MapFlags::SHARED | MapFlags::NORESERVE;
        // SAFETY: a new mapping, of which only raw pointers exist.
        let start = unsafe { mmap(ptr::null_mut(), len, prot, flags, file.as_fd(), first)? };
        let mut mapping = Mapping { start: start.cast(), len, region, guard: None };
        // SAFETY: the mapping is this object's, which hands out no references.
        let guard = unsafe { Guard::new(start as usize, len) };
        mapping.guard = Some(guard.ok_or(Errno::NOSPC)?);
        Ok(mapping)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        self.guard = None;
        // SAFETY: the mapping is this object's, and nobody has pointers into it any more.
        let _ = unsafe { munmap(self.start.cast(), self.len) };
    }
}

/// The page size of a file in memory (memfd, tmpfs, hugetlbfs), in bytes.
///
/// # Errors
/// `EINVAL` for all other files: an access to memory that a file system or a device has to supply may wait
/// for that without end.
fn page_size_of(file: &OwnedFd) -> Result<u64, Errno> {
    // Only files in memory have seals. Unlike fstat and fstatfs this does not ask the file system, which
    // may be one of FUSE that does not answer.
    fcntl_get_seals(file).map_err(|_| Errno::INVAL)?;
    let statistics = fstatfs(file)?;
    let pages = page_size() as u64;
    // The block size of hugetlbfs is its page size.
    Ok(u64::try_from(statistics.f_bsize).map_or(pages, |size| size.max(pages)))
}

impl Region {
    fn end(&self) -> u64 {
        self.address + self.size
    }
}

impl GuestMemory {
    /// Adds memory; without a file it is known and cannot be reached.
    ///
    /// # Errors
    /// `EINVAL` for an address, a size or a file that memory cannot have (it must be of memfd, tmpfs or
    /// hugetlbfs), `EEXIST` where there is memory already, `ENOSPC` for too many regions; those of mmap.
    pub fn map(&mut self, request: &RegionRequest, file: Option<OwnedFd>) -> Result<(), Errno> {
        let RegionRequest { address, size, offset, readable, writable } = *request;
        let end = address.checked_add(size).ok_or(Errno::INVAL)?;
        if size == 0 || [address, size, offset].iter().any(|number| !number.is_multiple_of(PAGE)) {
            return Err(Errno::INVAL);
        }
        let at = self.regions.partition_point(|region| region.end() <= address);
        if self.regions.get(at).is_some_and(|next| next.address < end) {
            return Err(Errno::EXIST);
        }
        if self.regions.len() >= MAX_REGIONS {
            return Err(Errno::NOSPC);
        }
        let mapping = file.map(|file| Mapping::new(file, request)).transpose()?;
        self.regions.insert(at, Region { address, size, readable, writable, mapping });
        Ok(())
    }

    /// Removes the memory that was added with this address and size.
    ///
    /// # Errors
    /// `ENOENT` if there is none.
    pub fn unmap(&mut self, address: u64, size: u64) -> Result<(), Errno> {
        let same = |region: &Region| (region.address, region.size) == (address, size);
        let at = self.regions.iter().position(same).ok_or(Errno::NOENT)?;
        self.regions.remove(at);
        Ok(())
    }

    /// Removes all memory.
    pub fn clear(&mut self) {
        self.regions.clear();
    }

    /// Whether the client has taken away memory that it shared.
    pub fn is_lost(&self) -> bool {
        let mut guards =
            self.regions.iter().filter_map(|region| region.mapping.as_ref()?.guard.as_ref());
        guards.any(Guard::is_lost)
    }

    /// The memory from `address` on, up to `len` bytes of one region.
    fn find(&self, address: u64, len: usize, writes: bool) -> Result<(*mut u8, usize), DmaError> {
        let error = DmaError { address };
        let at = self.regions.partition_point(|region| region.end() <= address);
        let region = self.regions.get(at).filter(|region| region.address <= address);
        let region = region.ok_or(error)?;
        let allowed = if writes { region.writable } else { region.readable };
        let mapping = region.mapping.as_ref().filter(|_| allowed).ok_or(error)?;
        let offset = usize::try_from(address - region.address).map_err(|_| error)?;
        let len = usize::try_from(region.size).map_or(len, |size| len.min(size - offset));
        // SAFETY: the offset is less than the region's size, and the region is inside the mapping.
        Ok((unsafe { mapping.start.add(mapping.region + offset) }, len))
    }

    /// Where a number of `size` bytes is, at an address that is a multiple of that.
    fn aligned(&self, address: u64, size: usize, writes: bool) -> Result<*mut u8, DmaError> {
        let (start, len) = self.find(address, size, writes)?;
        if !address.is_multiple_of(size as u64) || len < size {
            return Err(DmaError { address });
        }
        Ok(start)
    }

    fn number(&self, address: u64, writes: bool) -> Result<&AtomicU32, DmaError> {
        let start = self.aligned(address, 4, writes)?;
        // SAFETY: four bytes of a mapping that lives as long as `self`. They are aligned, for regions and
        // mappings begin with pages. Other accesses to them are those of other processes, and copies.
        Ok(unsafe { AtomicU32::from_ptr(start.cast()) })
    }

    fn short(&self, address: u64, writes: bool) -> Result<&AtomicU16, DmaError> {
        let start = self.aligned(address, 2, writes)?;
        // SAFETY: as in `number`, with two bytes.
        Ok(unsafe { AtomicU16::from_ptr(start.cast()) })
    }

    /// As [`Dma::load`], for 16 bits at an address that is a multiple of 2.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn load16(&self, address: u64) -> Result<u16, DmaError> {
        Ok(u16::from_le(self.short(address, false)?.load(Ordering::Acquire)))
    }

    /// As [`Dma::store`], for 16 bits at an address that is a multiple of 2.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn store16(&self, address: u64, value: u16) -> Result<(), DmaError> {
        self.short(address, true)?.store(value.to_le(), Ordering::Release);
        Ok(())
    }
}

impl Dma for GuestMemory {
    fn read(&self, mut address: u64, mut to: &mut [u8]) -> Result<(), DmaError> {
        while !to.is_empty() {
            let (start, len) = self.find(address, to.len(), false)?;
            let (here, rest) = to.split_at_mut(len);
            // SAFETY: `len` bytes of a mapping, and of a slice that is not part of it. What the guest
            // writes meanwhile may be seen in part: any bytes are valid.
            unsafe { ptr::copy_nonoverlapping(start, here.as_mut_ptr(), len) };
            (address, to) = (address + len as u64, rest);
        }
        Ok(())
    }

    fn write(&self, mut address: u64, mut from: &[u8]) -> Result<(), DmaError> {
        while !from.is_empty() {
            let (start, len) = self.find(address, from.len(), true)?;
            let (here, rest) = from.split_at(len);
            // SAFETY: as in `read`; the mapping is writable.
            unsafe { ptr::copy_nonoverlapping(here.as_ptr(), start, len) };
            (address, from) = (address + len as u64, rest);
        }
        Ok(())
    }

    fn load(&self, address: u64) -> Result<u32, DmaError> {
        Ok(u32::from_le(self.number(address, false)?.load(Ordering::Acquire)))
    }

    fn store(&self, address: u64, value: u32) -> Result<(), DmaError> {
        self.number(address, true)?.store(value.to_le(), Ordering::Release);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

    fn memfd(size: u64) -> OwnedFd {
        let file = memfd_create("guest", MemfdFlags::CLOEXEC).expect("a memfd");
        ftruncate(&file, size).expect("room");
        file
    }

    fn request(address: u64, size: u64, offset: u64) -> RegionRequest {
        RegionRequest { address, size, offset, readable: true, writable: true }
    }

    #[test]
    fn only_what_the_client_shares_is_reached_and_as_it_allows() {
        let mut memory = GuestMemory::default();
        let file = memfd(4 * PAGE);
        let again = || Some(file.try_clone().expect("a descriptor"));
        memory.map(&request(0x1_0000, 2 * PAGE, PAGE), again()).expect("memory");
        let read_only = RegionRequest { writable: false, ..request(0x1_2000, PAGE, 0) };
        memory.map(&read_only, again()).expect("memory beside it");
        memory.map(&request(0x2_0000, PAGE, 0), None).expect("memory that is not shared");
        assert_eq!(memory.write(0x1_1ffc, &[7; 4]), Ok(()));
        let mut bytes = [1; 8];
        assert_eq!(memory.read(0x1_1ffc, &mut bytes), Ok(()), "across two regions");
        assert_eq!(bytes, [7, 7, 7, 7, 0, 0, 0, 0]);
        for (address, len) in
            [(0xffff, 1), (0x1_2000, 1), (0x1_1ffc, 8), (0x2_0000, 1), (u64::MAX, 1)]
        {
            assert!(memory.write(address, &vec![0; len]).is_err(), "{address:#x}");
        }
        assert!(memory.read(0x1_2ff8, &mut [0; 16]).is_err(), "the end of the last");
        assert_eq!(memory.store(0x1_0004, 5), Ok(()));
        assert_eq!(memory.load(0x1_0004), Ok(5));
        assert!(memory.load(0x1_0002).is_err() && memory.store(0x1_2000, 1).is_err());
        assert_eq!((memory.store16(0x1_0006, 6), memory.load16(0x1_0006)), (Ok(()), Ok(6)));
        assert!(memory.load16(0x1_0001).is_err() && memory.store16(0x1_2000, 1).is_err());
    }

    #[test]
    fn memory_that_cannot_be_is_refused() {
        let mut memory = GuestMemory::default();
        let map = |memory: &mut GuestMemory, request: RegionRequest| {
            memory.map(&request, Some(memfd(2 * PAGE)))
        };
        for bad in [
            request(0, 0, 0),
            request(1, PAGE, 0),
            request(0, PAGE + 1, 0),
            request(0, PAGE, 8),
            request(0, 3 * PAGE, 0),
            request(0, PAGE, 2 * PAGE),
            request(u64::MAX - PAGE + 1, PAGE, 0),
            request(0, PAGE, u64::MAX - PAGE + 1),
        ] {
            assert_eq!(map(&mut memory, bad), Err(Errno::INVAL), "{bad:?}");
        }
        map(&mut memory, request(PAGE, 2 * PAGE, 0)).expect("memory");
        for overlap in [request(0, 2 * PAGE, 0), request(2 * PAGE, PAGE, 0)] {
            assert_eq!(map(&mut memory, overlap), Err(Errno::EXIST));
        }
        assert_eq!(memory.unmap(PAGE, PAGE), Err(Errno::NOENT), "a part");
        assert_eq!(memory.unmap(PAGE, 2 * PAGE), Ok(()));
        assert!(memory.read(PAGE, &mut [0]).is_err());
        let (pipe, _) = std::io::pipe().expect("a pipe");
        assert_eq!(memory.map(&request(0, PAGE, 0), Some(pipe.into())), Err(Errno::INVAL));
    }

    #[test]
    fn client_has_1024_regions_at_most() {
        let mut memory = GuestMemory::default();
        for number in 0..1024 {
            memory.map(&request(number * PAGE, PAGE, 0), None).expect("one of 1024");
        }
        assert_eq!(memory.map(&request(1024 * PAGE, PAGE, 0), None), Err(Errno::NOSPC));
        memory.unmap(0, PAGE).expect("the first");
        memory.map(&request(1024 * PAGE, PAGE, 0), None).expect("room");
    }

    #[test]
    fn memory_that_is_truncated_reads_as_zeroes_and_is_lost() {
        let mut memory = GuestMemory::default();
        let file = memfd(4 * PAGE);
        memory
            .map(&request(0, 4 * PAGE, 0), Some(file.try_clone().expect("one more")))
            .expect("it");
        memory.write(0, &[9; 4096]).expect("memory");
        assert!(!memory.is_lost());
        ftruncate(&file, PAGE).expect("it is the client's");
        let mut bytes = [1; 16];
        memory.read(3 * PAGE, &mut bytes).expect("the address is still there");
        assert_eq!((bytes, memory.is_lost()), ([0; 16], true));
        memory.write(2 * PAGE, &[3; 8192]).expect("the address is still there");
        memory.clear();
        assert!(!memory.is_lost());
    }

    /// A file of huge pages, of which there need not be any.
    fn huge_memfd(pages: u64) -> OwnedFd {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB;
        let file = memfd_create(HUGE, flags).expect("a memfd of huge pages");
        ftruncate(&file, pages << 21).expect("a size");
        file
    }

    const HUGE: &str = "zonal-guest-of-huge-pages";

    fn mappings_of(name: &str) -> usize {
        let maps = std::fs::read_to_string("/proc/self/maps").expect("procfs");
        maps.lines().filter(|line| line.contains(name)).count()
    }

    #[test]
    fn part_of_a_huge_page_that_is_not_there_reads_as_zeroes_and_is_lost() {
        for (offset, size) in [(0, PAGE), (5 * PAGE, PAGE), ((2 << 20) - PAGE, 2 * PAGE)] {
            let mut memory = GuestMemory::default();
            let file = huge_memfd(2);
            let again = file.try_clone().expect("one more");
            memory.map(&request(0x1000, size, offset), Some(again)).expect("a part of huge pages");
            let mut last = [1; 8];
            // No huge page is free, or there is none any more.
            ftruncate(&file, 0).expect("it is the client's");
            memory.read(0x1000 + size - 8, &mut last).expect("the address is still there");
            assert_eq!((last, memory.is_lost()), ([0; 8], true));
            assert!(memory.read(0x1000 + size - 7, &mut last).is_err(), "beyond the region");
            memory.clear();
            assert_eq!(mappings_of(HUGE), 0, "nothing is left of it");
        }
    }

    #[test]
    fn removed_parts_of_huge_pages_leave_no_mapping() {
        let name = "zonal-guest-mapped-again";
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB;
        let file = memfd_create(name, flags).expect("a memfd of huge pages");
        ftruncate(&file, 2 << 20).expect("a size");
        let mut memory = GuestMemory::default();
        for number in 0..64 {
            let request = request(0, PAGE, number * PAGE);
            memory.map(&request, Some(file.try_clone().expect("one more"))).expect("memory");
            memory.unmap(0, PAGE).expect("it is there");
        }
        assert_eq!(mappings_of(name), 0);
    }

    #[test]
    fn files_that_need_not_answer_are_no_memory() {
        let mut memory = GuestMemory::default();
        let map =
            |memory: &mut GuestMemory, file: OwnedFd| memory.map(&request(0, PAGE, 0), Some(file));
        // The root is on a disk, procfs has no pages, a directory is no file.
        for path in ["/proc/self/maps", "/proc/self", "/dev/zero"] {
            let file = std::fs::File::open(path).expect("a file");
            assert_eq!(map(&mut memory, file.into()), Err(Errno::INVAL), "{path}");
        }
        let program = std::env::current_exe().expect("a program");
        let program = std::fs::File::open(program).expect("a file");
        assert_eq!(map(&mut memory, program.into()), Err(Errno::INVAL), "a file on a disk");
    }

    /// Maps pages until there may be no more mappings.
    fn use_up_mappings() {
        let protections = [ProtFlags::READ, ProtFlags::WRITE];
        for prot in protections.into_iter().cycle() {
            let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
            // SAFETY: a new mapping, which nobody accesses.
            let mapped =
                unsafe { rustix::mm::mmap_anonymous(ptr::null_mut(), page_size(), prot, flags) };
            if mapped.is_err() {
                return;
            }
        }
    }

    #[test]
    fn memory_is_lost_without_harm_when_there_may_be_no_more_mappings() {
        const CHILD: &str = "ZONAL_TEST_USE_UP_MAPPINGS";
        if std::env::var_os(CHILD).is_some() {
            let mut memory = GuestMemory::default();
            let file = memfd(8 * PAGE);
            // Neighbours in the file, whose mappings the kernel may merge.
            for page in 0..8 {
                let file = file.try_clone().expect("one more");
                memory.map(&request(page * PAGE, PAGE, page * PAGE), Some(file)).expect("memory");
            }
            use_up_mappings();
            ftruncate(&file, 0).expect("it is the client's");
            (0..8).for_each(|page| memory.write(page * PAGE, &[1; 8]).expect("it is there"));
            assert!(memory.is_lost());
            return;
        }
        let test = "memory_is_lost_without_harm_when_there_may_be_no_more_mappings";
        let name = format!("{}::{test}", module_path!().split_once("::").expect("a crate").1);
        let program = std::env::current_exe().expect("a program");
        let mut child = std::process::Command::new(program);
        let ended = child.args(["--exact", &name]).env(CHILD, "1").output().expect("it runs");
        let said = String::from_utf8_lossy(&ended.stdout);
        assert!(ended.status.success() && said.contains("1 passed"), "{ended:?}");
    }
}
