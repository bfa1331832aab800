//! A trace made to fit: times and offsets scaled, files apart, checked against a device.
use super::{ReplayOptions, Request, Trace, TraceError, TraceSlice};
use zonal_blk::{Limits, Nanos, Op};

/// Bytes of the longest read or write: a buffer of a gibibyte is nobody's wish.
const MAX_LEN: u64 = 1 << 30;
/// Bytes of the longest request of another kind: sectors are counted in 32 bits.
const MAX_RANGE: u64 = (1 << 32) * 512 - 512;

impl Trace {
    /// Scales times and offsets as fio's `replay_` options say: offsets are divided first, then
    /// rounded down.
    pub fn transform(&mut self, options: &ReplayOptions) {
        let mask = options.align.saturating_sub(1);
        for request in &mut self.requests {
            let at = u128::from(request.at.0) * 100 / u128::from(options.time_scale);
            request.at = match options.no_stall {
                true => Nanos(0),
                false => Nanos(u64::try_from(at).unwrap_or(u64::MAX)),
            };
            request.offset = (request.offset / options.scale) & !mask;
        }
    }

    /// A trace for each file, in the order in which the files are named; those without requests
    /// are left out.
    pub fn split(self) -> Vec<Trace> {
        let mut parts: Vec<Trace> = Vec::with_capacity(self.files.len());
        for file in self.files {
            parts.push(Trace { name: self.name.clone(), files: vec![file], requests: Vec::new() });
        }
        for request in self.requests {
            parts[usize::from(request.file)].requests.push(Request { file: 0, ..request });
        }
        parts.retain(|part| !part.requests.is_empty());
        parts.iter_mut().for_each(|part| part.requests.shrink_to_fit());
        parts
    }
}

impl TraceSlice {
    /// Whether a device with these limits can take all requests, as far as that is known before.
    ///
    /// # Errors
    /// The first request that it cannot take.
    pub fn check(&self, limits: &Limits) -> Result<(), TraceError> {
        let wrong = |request: &&Request| fault(request, limits).is_some();
        match self.trace.requests[self.range.clone()].iter().find(wrong) {
            None => Ok(()),
            Some(request) => {
                let problem = fault(request, limits).expect("found by its fault");
                Err(self.trace.error(request.line, problem))
            }
        }
    }
}

fn fault(request: &Request, limits: &Limits) -> Option<String> {
    let &Request { op, offset, len, .. } = request;
    let (lba, capacity) = (u64::from(limits.lba_size), limits.capacity.to_bytes().0);
    let zone = limits.zone_size.to_bytes().0;
    let named = || format!("{op:?} of {len} bytes at {offset}");
    if op == Op::Flush {
        return None;
    }
    let zone_op = op.is_zone_management() || matches!(op, Op::ZoneAppend | Op::ZoneResetAll);
    if zone_op && zone == 0 {
        return Some(format!("{op:?}, but the device has no zones"));
    }
    if (op.is_zone_management() || op == Op::ZoneAppend) && offset % zone != 0 {
        return Some(format!("{op:?} at {offset}, expected the start of a zone of {zone} bytes"));
    }
    if (offset | len) % lba != 0 {
        return Some(format!("{}, expected multiples of the device's LBA of {lba}", named()));
    }
    let longest = if matches!(op, Op::Read | Op::Write) { MAX_LEN } else { MAX_RANGE };
    if len > longest {
        return Some(format!("{}, expected at most {longest} bytes", named()));
    }
    if offset.checked_add(len).is_none_or(|end| end > capacity || offset >= capacity) {
        return Some(format!("{} ends beyond the device's {capacity} bytes", named()));
    }
    None
}
