//! Any file: a recording of `zonal run --record-view` or refused, never a panic. What is read can be
//! written as a page.
#![no_main]

use libfuzzer_sys::fuzz_target;
use zonal_serve::web::{Recording, standalone};

fuzz_target!(|file: &[u8]| {
    if let Ok(recording) = Recording::read(file) {
        assert!(standalone(vec![recording]).ends_with("</html>\n"));
    }
});
