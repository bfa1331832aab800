//! Images as one zstd stream, for transport; `zstd -d` unpacks them too.
use super::byte_bar;
use anyhow::{Context, Result};
use std::fs::File;
use std::io::{self, BufWriter, ErrorKind, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use zonal_lab::progress::StepProgress;

/// How a zstd frame begins.
const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// The end of the name of a compressed image.
pub(super) const NAME: &str = ".img.zst";
/// Bytes that are read at a time; those that are all zero are a hole.
const PART: usize = 64 << 10;

/// Whether the name is that of a compressed image.
pub(super) fn has_name(path: &Path) -> bool {
    path.to_str().is_some_and(|name| name.ends_with(NAME))
}

/// Whether the file is compressed.
///
/// # Errors
/// It cannot be read.
pub(super) fn is_compressed(path: &Path) -> Result<bool> {
    let read = || -> io::Result<bool> {
        let mut start = [0; MAGIC.len()];
        match File::open(path)?.read_exact(&mut start) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
            result => result.map(|()| start == MAGIC),
        }
    };
    read().with_context(|| path.display().to_string())
}

/// Compresses a file into one that does not exist yet. Returns the bytes of both.
///
/// # Errors
/// A file cannot be read or written.
pub(super) fn compress(from: &Path, to: &Path) -> Result<(u64, u64)> {
    let source = File::open(from).with_context(|| from.display().to_string())?;
    let target = File::create_new(to).with_context(|| to.display().to_string())?;
    let len = source.metadata()?.len();
    let bar = byte_bar();
    bar.start("data", len);
    let write = || -> io::Result<()> {
        let mut stream = zstd::stream::write::Encoder::new(BufWriter::new(&target), 0)?;
        stream.include_checksum(true)?;
        stream.set_pledged_src_size(Some(len))?;
        let mut part = vec![0; PART];
        loop {
            match (&source).read(&mut part)? {
                0 => break stream.finish()?.flush(),
                read => stream.write_all(&part[..read])?,
            }
            bar.advance(PART as u64);
        }
    };
    write().with_context(|| format!("{}: compressing it to {}", from.display(), to.display()))?;
    bar.finish();
    Ok((len, target.metadata()?.len()))
}

/// Writes what a compressed file holds into one that does not exist yet, with holes for zeroes.
///
/// # Errors
/// A file cannot be read or written, or the compressed one is damaged or not whole.
pub(super) fn decompress(from: &Path, to: &Path) -> Result<()> {
    let source = File::open(from).with_context(|| from.display().to_string())?;
    let target = File::create_new(to).with_context(|| to.display().to_string())?;
    let write = || -> io::Result<()> {
        let mut stream = zstd::stream::read::Decoder::new(source)?;
        let (mut part, mut at) = (vec![0; PART], 0);
        loop {
            let read = fill(&mut stream, &mut part)?;
            if part[..read].iter().any(|&byte| byte != 0) {
                target.write_all_at(&part[..read], at)?;
            }
            at += read as u64;
            if read < PART {
                return target.set_len(at);
            }
        }
    };
    write().with_context(|| format!("{}: unpacking it to {}", from.display(), to.display()))
}

/// Reads until `part` is full or the stream has ended. Returns the number of bytes.
fn fill(stream: &mut impl Read, part: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    while done < part.len() {
        match stream.read(&mut part[done..])? {
            0 => break,
            read => done += read,
        }
    }
    Ok(done)
}
