//! The library as programs in C and C++ use it: installed, compiled against, and run with the address sanitizer.
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

/// Where the library is installed, from what cargo has built for this test.
fn prefix() -> &'static Path {
    static PREFIX: LazyLock<PathBuf> = LazyLock::new(|| {
        let prefix = Path::new(env!("CARGO_TARGET_TMPDIR")).join("c-library");
        xtask::capi::install(&archive(), &prefix, cfg!(feature = "tls"))
            .expect("the library is installed");
        prefix
    });
    &PREFIX
}

/// The archive that was built last: cargo puts it beside the test, with a hash in its name.
fn archive() -> PathBuf {
    let test = std::env::current_exe().expect("this test");
    let built = std::fs::read_dir(test.parent().expect("a folder")).expect("a folder");
    let built = built.map(|entry| entry.expect("an entry").path()).filter(|path| {
        let name = path.file_name().map_or_else(Default::default, |name| name.to_string_lossy());
        name.starts_with("libzonal_capi-") && name.ends_with(".a")
    });
    let modified =
        |path: &PathBuf| path.metadata().and_then(|file| file.modified()).expect("a file");
    built.max_by_key(modified).expect("cargo builds the archive for this test")
}

fn run(command: &mut Command) -> Output {
    let output = command.output();
    output.unwrap_or_else(|error| panic!("{}: {error}", command.get_program().display()))
}

fn succeeds(command: &mut Command) -> String {
    let output = run(command);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}: {errors}", output.status);
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// A command that runs an example, `zones` in C or C++ or `serve` in C, compiled with the flags of the pkg-config file.
fn example(language: Language, linking: Linking, options: &[&str]) -> Command {
    let text = std::fs::read_to_string(prefix().join("lib/pkgconfig/zonal.pc")).expect("a file");
    let flags = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("{key}: ")));
        let at = prefix().canonicalize().expect("a directory");
        line.expect(key).replace("${prefix}", &at.to_string_lossy())
    };
    let (library, name) = match linking {
        Linking::Shared => (flags("Libs"), "shared"),
        Linking::Static => {
            let archive = flags("Libs").replace("-lzonal", "-l:libzonal.a");
            (format!("{archive} {}", flags("Libs.private")), "static")
        }
    };
    let (compiler, standard, source) = match language {
        Language::C => ("cc", "-std=gnu11", "examples/c/zones.c"),
        Language::CServe => ("cc", "-std=gnu11", "examples/c/serve.c"),
        Language::Cpp => ("c++", "-std=c++17", "examples/cpp/zones.cpp"),
    };
    let stem = Path::new(source).file_stem().expect("a name").to_string_lossy();
    let program = prefix().join(format!("{name}-{stem}-{compiler}"));
    let mut cc = Command::new(compiler);
    cc.args([standard, "-Wall", "-Wextra", "-pedantic", "-Werror", "-g"]).args(options);
    cc.arg(xtask::root().join(source)).args(flags("Cflags").split(' '));
    succeeds(cc.args(library.split(' ')).arg("-o").arg(&program));
    let mut command = Command::new(program);
    command.env("LD_LIBRARY_PATH", prefix().join("lib"));
    command
}

enum Language {
    C,
    CServe,
    Cpp,
}

enum Linking {
    Shared,
    Static,
}

const DEVICE: &str = "null:zones=4,zone_size=64K,lba=4096,memory=true";

const EXPECTED: &str = "\
Zonal null: host-managed, 4 zones of 65536 bytes
the second append landed at 69632
zone 0: seq-write-required, full, start 0, wp 65536
zone 1: seq-write-required, implicit-open, start 65536, wp 73728
zone 2: seq-write-required, empty, start 131072, wp 131072
zone 3: seq-write-required, empty, start 196608, wp 196608
";

/// The rest of the output: the zones are as they were.
const EMPTY: &str = "\
zone 0: seq-write-required, empty, start 0, wp 0
zone 1: seq-write-required, empty, start 65536, wp 65536
zone 2: seq-write-required, empty, start 131072, wp 131072
zone 3: seq-write-required, empty, start 196608, wp 196608
";

fn check_output(text: &str) {
    let (before, after) = text.split_once("refused: ").expect("a write is refused");
    assert_eq!(before, EXPECTED);
    let (why, zones) = after.split_once('\n').expect("a line");
    assert!(why.contains("a write must begin at the write pointer"), "{why}");
    assert!(
        why.starts_with(&format!("device {DEVICE}: Write of 8 sectors at sector 128")),
        "{why}"
    );
    assert_eq!(zones, EMPTY);
}

const SANITIZERS: [&str; 2] = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"];

#[test]
fn example_in_cpp_does_the_same_and_its_errors_are_exceptions() {
    let mut command = example(Language::Cpp, Linking::Shared, &SANITIZERS);
    check_output(&succeeds(command.arg(DEVICE)));
    let mut command = Command::new(command.get_program());
    command.env("LD_LIBRARY_PATH", prefix().join("lib")).arg("null:zons=4");
    let output = run(&mut command);
    assert_eq!(output.status.code(), Some(1));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.starts_with("null:zons=4: ") && errors.contains("did you mean"), "{errors}");
}

#[test]
fn example_does_what_it_says_under_the_address_sanitizer() {
    let mut command = example(Language::C, Linking::Shared, &SANITIZERS);
    check_output(&succeeds(command.arg(DEVICE)));
    let output = run(command.arg("another"));
    assert_eq!(output.status.code(), Some(2));
    // A device that does not exist is an error with a text.
    let mut command = Command::new(command.get_program());
    command.env("LD_LIBRARY_PATH", prefix().join("lib")).arg("null:zons=4");
    let output = run(&mut command);
    assert_eq!(output.status.code(), Some(1));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("did you mean `zones`") && errors.contains("zons"), "{errors}");
}

#[test]
fn example_serves_a_device_to_itself_and_refuses_malformed_exports() {
    let mut command = example(Language::CServe, Linking::Shared, &SANITIZERS);
    assert_eq!(succeeds(&mut command), "4 zones, the same data\n");
    for (exports, expected) in [
        ("nvme_tpc=x", "did you mean `nvme_tcp`"),
        ("nvme_tcp=here", "expected nvme_tcp=ADDRESS:PORT"),
        ("ctl=/nowhere/socket,nvme_tcp=127.0.0.1:0", "No such file or directory"),
    ] {
        let mut command = Command::new(command.get_program());
        command.env("LD_LIBRARY_PATH", prefix().join("lib")).args([DEVICE, exports]);
        let output = run(&mut command);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{errors}");
        assert!(errors.starts_with("serve: ") && errors.contains(expected), "{errors}");
    }
}

#[test]
fn example_is_linked_with_the_archive() {
    check_output(&succeeds(example(Language::C, Linking::Static, &[]).arg(DEVICE)));
}

#[test]
fn only_the_functions_of_the_header_are_exported_with_a_version() {
    let shared = prefix().join("lib/libzonal.so");
    let symbols = succeeds(Command::new("nm").args(["-D", "--defined-only"]).arg(shared));
    let names: Vec<&str> = symbols.lines().filter_map(|line| line.split(' ').nth(2)).collect();
    let header = std::fs::read_to_string(prefix().join("include/zonal.h")).expect("a header");
    assert!(names.len() > 20, "{symbols}");
    for name in names.iter().filter(|name| **name != "ZONAL_0.1") {
        let plain = name.strip_suffix("@@ZONAL_0.1").unwrap_or_else(|| panic!("{name}"));
        assert!(header.contains(&format!("{plain}(")), "{name} is not in the header");
    }
}

#[test]
fn header_and_manual_pages_are_for_c_programmers() {
    let header = std::fs::read_to_string(prefix().join("include/zonal.h")).expect("the header");
    for word in ["# Safety", "# Errors", "[`", "::"] {
        assert!(!header.contains(word), "zonal.h: {word}");
    }
    let functions = xtask::man3::functions(&header);
    assert!(functions.len() > 20, "{functions:?}");
    for xtask::man3::Function { name, .. } in functions {
        let page = prefix().join(format!("share/man/man3/{name}.3"));
        let page = std::fs::read_to_string(&page).expect("a page");
        assert!(page.contains(&format!(".SH NAME\n{name} \\- ")), "{page}");
        assert!(page.contains("#include <zonal.h>") && page.contains(".SH DESCRIPTION"), "{page}");
    }
}
