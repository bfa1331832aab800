//! Any bytes as a trace: parsed or refused, never a panic; errors name the file and a line. A parsed
//! pattern, printed, parses to the same requests.
#![no_main]

use libfuzzer_sys::fuzz_target;
use zonal_fio::job::{BlkparseAction, ReplayOptions};
use zonal_fio::trace::{Format, pattern, read};

/// The requests of a trace, without their line numbers.
fn asked(bytes: &[u8]) -> Option<(Format, Vec<(u64, u64, u8)>)> {
    let (format, trace) = match read("fuzz", &mut &bytes[..], BlkparseAction::Queue) {
        Ok(read) => read,
        Err(error) => {
            assert!(error.to_string().starts_with("fuzz:"), "{error}");
            return None;
        }
    };
    assert!(trace.requests.is_sorted_by_key(|request| request.at));
    let requests = trace.requests.iter().map(|it| (it.offset, it.len, it.op as u8)).collect();
    if format == Format::Pattern {
        let text = pattern::print("again", &trace.requests);
        let (_, again) = read("again", &mut text.as_bytes(), BlkparseAction::Queue).expect("as printed");
        assert_eq!(again.requests, trace.requests);
    }
    let options = ReplayOptions { time_scale: 50, scale: 3, align: 4096, ..Default::default() };
    let mut changed = trace.clone();
    changed.transform(&options);
    let parts = changed.split();
    assert_eq!(parts.iter().map(|part| part.requests.len()).sum::<usize>(), trace.requests.len());
    Some((format, requests))
}

fuzz_target!(|bytes: &[u8]| {
    asked(bytes);
    // Most inputs have no header; with one, the rest of the parsers is reached.
    let texts = ["fio version 2 iolog\n", "fio version 3 iolog\n", "zonal pattern 1\n"];
    let binary = [b"\x07tae", b"\x08tae", b"eat\x08"];
    let headers = texts.iter().map(|text| text.as_bytes()).chain(binary.map(|magic| &magic[..]));
    for header in headers {
        asked(&[header, bytes].concat());
    }
});
