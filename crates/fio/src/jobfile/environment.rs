//! The environment of a job file: other files, environment variables and the machine. It is a trait
//! so that the parser can be tested and fuzzed without a file system.
use std::collections::BTreeMap;
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use zonal_os::text_file;

/// The parts of the system that a job file can refer to.
pub trait Environment {
    /// The bytes of a file; `-` is standard input.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;
    /// An environment variable, for `${NAME}`.
    fn variable(&self, name: &str) -> Option<String>;
    /// Size of a memory page in bytes, for `$pagesize`.
    fn page_size(&self) -> u64;
    /// Memory in MiB, for `$mb_memory`.
    fn mb_memory(&self) -> u64;
    /// Number of CPUs, for `$ncpus`.
    fn cpus(&self) -> u64;
    /// A new seed each time, for `randrepeat=0`.
    fn random_seed(&self) -> u64;
}

/// The environment of the running program.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemEnvironment;

/// The auxiliary vector's entry for the page size (`AT_PAGESZ`).
const AT_PAGESZ: usize = 6;

impl Environment for SystemEnvironment {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        if path == Path::new("-") {
            return text_file::read_input(io::stdin().lock());
        }
        text_file::read(path)
    }

    fn variable(&self, name: &str) -> Option<String> {
        // `std::env::var` panics at invalid names.
        let valid = !name.is_empty() && !name.contains(['=', '\0']);
        if valid { std::env::var(name).ok() } else { None }
    }

    fn page_size(&self) -> u64 {
        let auxiliary = fs::read("/proc/self/auxv").unwrap_or_default();
        page_size_in(&auxiliary).unwrap_or(4096)
    }

    fn mb_memory(&self) -> u64 {
        let info = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        memory_in(&info).unwrap_or(0)
    }

    fn cpus(&self) -> u64 {
        std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u64)
    }

    fn random_seed(&self) -> u64 {
        RandomState::new().hash_one(0)
    }
}

fn page_size_in(auxiliary: &[u8]) -> Option<u64> {
    const WORD: usize = size_of::<usize>();
    let word = |bytes: &[u8]| bytes.try_into().ok().map(usize::from_ne_bytes);
    let mut entries = auxiliary.chunks_exact(2 * WORD);
    let entry = entries.find(|entry| word(&entry[..WORD]) == Some(AT_PAGESZ))?;
    word(&entry[WORD..]).map(|size| size as u64)
}

fn memory_in(info: &str) -> Option<u64> {
    let line = info.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib / 1024)
}

/// The environment of the running program, with a job file that is no file.
#[derive(Clone, Debug)]
pub struct WithText<'a> {
    /// The name of the job file, in arguments and in errors.
    pub name: &'a str,
    /// Its text; `None` if there is none.
    pub text: Option<&'a str>,
}

impl Environment for WithText<'_> {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        match self.text {
            Some(text) if path == Path::new(self.name) => Ok(text.as_bytes().to_owned()),
            _ => SystemEnvironment.read(path),
        }
    }

    fn variable(&self, name: &str) -> Option<String> {
        SystemEnvironment.variable(name)
    }

    fn page_size(&self) -> u64 {
        SystemEnvironment.page_size()
    }

    fn mb_memory(&self) -> u64 {
        SystemEnvironment.mb_memory()
    }

    fn cpus(&self) -> u64 {
        SystemEnvironment.cpus()
    }

    fn random_seed(&self) -> u64 {
        SystemEnvironment.random_seed()
    }
}

/// An environment in memory, for tests and fuzzing: pages of 4 KiB, 1 GiB of memory, four CPUs and a
/// constant seed.
#[derive(Clone, Debug, Default)]
pub struct MemoryEnvironment {
    /// Files by path.
    pub files: BTreeMap<PathBuf, Vec<u8>>,
    /// Environment variables.
    pub variables: BTreeMap<String, String>,
}

impl MemoryEnvironment {
    /// Adds a file.
    pub fn with_file(mut self, path: &str, text: &str) -> Self {
        self.files.insert(path.into(), text.into());
        self
    }

    /// Adds an environment variable.
    pub fn with_variable(mut self, name: &str, value: &str) -> Self {
        self.variables.insert(name.into(), value.into());
        self
    }
}

impl Environment for MemoryEnvironment {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.files.get(path).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn variable(&self, name: &str) -> Option<String> {
        self.variables.get(name).cloned()
    }

    fn page_size(&self) -> u64 {
        4096
    }

    fn mb_memory(&self) -> u64 {
        1024
    }

    fn cpus(&self) -> u64 {
        4
    }

    fn random_seed(&self) -> u64 {
        1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_size_is_read_from_the_auxiliary_vector() {
        let words = [3_usize, 99, AT_PAGESZ, 16384, 0, 0];
        let bytes: Vec<u8> = words.into_iter().flat_map(usize::to_ne_bytes).collect();
        assert_eq!(page_size_in(&bytes), Some(16384));
        assert_eq!(page_size_in(&bytes[..5]), None);
    }

    #[test]
    fn memory_is_in_mebibytes() {
        assert_eq!(memory_in("Foo: 1 kB\nMemTotal:       24684520 kB\n"), Some(24105));
        assert_eq!(memory_in("MemTotal: much\n"), None);
    }

    #[test]
    fn the_system_environment_returns_plausible_values() {
        let system = SystemEnvironment;
        assert!(system.page_size().is_power_of_two());
        assert!(system.cpus() >= 1);
        assert_ne!(system.random_seed(), system.random_seed());
        assert_eq!(system.variable("="), None);
        assert_eq!(system.variable(""), None);
    }
}
