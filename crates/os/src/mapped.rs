//! Writes through a mapping of a file.
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::fs::File;
use std::io;

/// Copies `data` to `offset` of a file through a shared mapping, as a program that has mapped the file would. The file
/// is open to read and write.
///
/// # Errors
/// The bytes are not within the file, or it cannot be mapped.
pub fn write_mapped(file: &File, offset: u64, data: &[u8]) -> io::Result<()> {
    let page = rustix::param::page_size() as u64;
    let first = offset / page * page;
    let skipped = (offset - first) as usize;
    let len = skipped + data.len();
    if data.is_empty() || file.metadata()?.len() < offset + data.len() as u64 {
        let text = "found bytes beyond the end of the file, expected some within";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: the kernel chooses the address of the new mapping.
    let mapping =
        unsafe { mmap(std::ptr::null_mut(), len, access, MapFlags::SHARED, file, first) }?;
    // SAFETY: the mapping has `len` bytes from `mapping` on, all of them within the file, and nothing in this process
    // refers to them. If another process shortens the file meanwhile, the copy raises SIGBUS, which ends this one.
    unsafe {
        let to = mapping.cast::<u8>().add(skipped);
        std::ptr::copy_nonoverlapping(data.as_ptr(), to, data.len());
        munmap(mapping, len)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::write_mapped;
    use std::io::{Read, Seek, Write};

    #[test]
    fn bytes_within_a_file_are_written_and_others_refused() {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(&[1; 10_000]).expect("space");
        write_mapped(&file, 5_000, &[2; 3]).expect("within");
        write_mapped(&file, 9_998, &[2; 2]).expect("at the end");
        assert!(write_mapped(&file, 9_999, &[2; 2]).is_err());
        assert!(write_mapped(&file, 0, &[]).is_err());
        let mut found = Vec::new();
        file.rewind().expect("a file");
        file.read_to_end(&mut found).expect("a file");
        let mut expected = vec![1; 10_000];
        expected[5_000..5_003].fill(2);
        expected[9_998..].fill(2);
        assert_eq!(found, expected);
    }
}
