//! Any text as measurements of a drive: read or refused, never a panic. What is read is consistent.
#![no_main]

use libfuzzer_sys::fuzz_target;
use zonal_lab::measurements::{Assume, parse};

fuzz_target!(|text: &str| {
    let Ok(cells) = parse("fuzz", text, &Assume::default()) else { return };
    for cell in &cells.cells {
        assert!(cell.value > 0.0 && cell.load < cells.loads.len(), "{cell:?}");
    }
    for distribution in &cells.distributions {
        assert!(distribution.load < cells.loads.len(), "{distribution:?}");
        assert!(distribution.points.is_sorted_by(|a, b| a.0 < b.0), "{distribution:?}");
    }
});
