//! Any words as a command of the control socket: parsed or refused, never a panic. The text of a
//! parsed rule parses to the same rule.
#![no_main]

use libfuzzer_sys::fuzz_target;
use zonal_serve::control::Command;

fuzz_target!(|text: &str| {
    let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
    if let Ok(Command::AddFault(rule)) = Command::parse(&words) {
        assert_eq!(rule.to_string().parse(), Ok(rule));
    }
});
