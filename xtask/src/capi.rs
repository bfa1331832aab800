//! Installs the C library: header, static and shared library, pkg-config file, manual pages.
use crate::man3;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

/// Files of the crate that the header is made from, in the order of the header.
const SOURCES: [&str; 8] =
    ["version", "error", "device", "create", "zones", "io", "queue", "serve"];
/// What the standard library of Rust and the C code inside need.
const SYSTEM_LIBRARIES: [&str; 5] = ["-lgcc_s", "-lpthread", "-ldl", "-lm", "-lc"];
/// The libraries of OpenSSL, for a library with the feature `tls`.
const OPENSSL: [&str; 2] = ["-lssl", "-lcrypto"];
/// The major version, which changes when a program has to be linked again.
const SO_VERSION: &str = "0";

/// Installs the library below `prefix`; `library` is the static library that cargo has built, with the
/// feature `tls` or without.
///
/// # Errors
/// A file cannot be written, or the C compiler is missing or fails.
pub fn install(library: &Path, prefix: &Path, tls: bool) -> io::Result<()> {
    let openssl: &[&str] = if tls { &OPENSSL } else { &[] };
    let needed = [openssl, &SYSTEM_LIBRARIES].concat();
    let package = super::root().join("crates/capi");
    let (include, lib) = (prefix.join("include"), prefix.join("lib"));
    fs::create_dir_all(&include)?;
    fs::create_dir_all(lib.join("pkgconfig"))?;
    let header = header(&package)?;
    fs::write(include.join("zonal.h"), &header)?;
    man3::write(&header, &prefix.join("share/man/man3"), env!("CARGO_PKG_VERSION"))?;
    fs::copy(library, lib.join("libzonal.a"))?;
    let version = env!("CARGO_PKG_VERSION");
    let shared = format!("libzonal.so.{version}");
    link(&package, library, &lib.join(&shared), &needed)?;
    for name in [format!("libzonal.so.{SO_VERSION}"), "libzonal.so".to_owned()] {
        let link = lib.join(name);
        if link.symlink_metadata().is_ok() {
            fs::remove_file(&link)?;
        }
        symlink(&shared, link)?;
    }
    let pkg_config = pkg_config(&fs::canonicalize(prefix)?, version, &needed);
    fs::write(lib.join("pkgconfig/zonal.pc"), pkg_config)
}

/// The header, with headings as C programmers write them.
fn header(package: &Path) -> io::Result<String> {
    let config = cbindgen::Config::from_file(package.join("cbindgen.toml"));
    let mut config = config.map_err(io::Error::other)?;
    // As `zonal_version` counts.
    config.after_includes = Some(format!(
        "\n/* The version of this header: see zonal_version. */\n\
         #define ZONAL_VERSION ({} * 10000 + {} * 100 + {})\n",
        env!("CARGO_PKG_VERSION_MAJOR"),
        env!("CARGO_PKG_VERSION_MINOR"),
        env!("CARGO_PKG_VERSION_PATCH")
    ));
    let mut builder = cbindgen::Builder::new().with_config(config);
    for source in SOURCES {
        builder = builder.with_src(package.join(format!("src/{source}.rs")));
    }
    let bindings = builder.generate().map_err(io::Error::other)?;
    let mut header = Vec::new();
    bindings.write(&mut header);
    let header = String::from_utf8(header).map_err(io::Error::other)?;
    Ok(man3::HEADINGS.iter().fold(header, |header, (rust, c)| header.replace(rust, c)))
}

/// A shared library out of the static one: so its symbols can have versions, which those that rustc links
/// cannot.
fn link(package: &Path, library: &Path, shared: &Path, needed: &[&str]) -> io::Result<()> {
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-o"]).arg(shared);
    cc.arg(format!("-Wl,-soname,libzonal.so.{SO_VERSION}"));
    cc.arg(format!("-Wl,--version-script={}", package.join("zonal.map").display()));
    cc.args(["-Wl,--gc-sections", "-Wl,--strip-debug", "-Wl,--whole-archive"]).arg(library);
    cc.arg("-Wl,--no-whole-archive").args(needed);
    let status = cc.status().map_err(|error| io::Error::other(format!("cc: {error}")))?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("cc: {status}"))) }
}

fn pkg_config(prefix: &Path, version: &str, needed: &[&str]) -> String {
    format!(
        "prefix={}\nName: zonal\nDescription: Zoned devices, with the zone functions of libzbd\n\
         Version: {version}\nCflags: -I${{prefix}}/include\nLibs: -L${{prefix}}/lib -lzonal\n\
         Libs.private: {}\n",
        prefix.display(),
        needed.join(" ")
    )
}
