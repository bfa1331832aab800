//! Where the writes of a job are to be placed: data placement of the device (`dataplacement`, `plids`, ...).
use thiserror::Error;
use zonal_blk::PlacementLayout;

/// Which placement identifier a write gets (`plid_select=`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StreamSelect {
    /// Those of the job in turn.
    #[default]
    RoundRobin,
    /// Any of the job's.
    Random,
    /// That of the range in `dp_scheme` in which it begins, or none.
    Scheme,
}

/// A line of a scheme: writes that begin from `start` up to `end`, in bytes, have this index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchemeRange {
    /// The first byte.
    pub start: u64,
    /// The byte after the last.
    pub end: u64,
    /// The index of a placement identifier.
    pub index: u16,
}

/// The placement of the writes of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamOptions {
    /// `fdp=1`, `dataplacement=fdp`: writes name placement identifiers.
    pub fdp: bool,
    /// `plids=`: indices of the device's placement identifiers, ascending; empty for all of them.
    pub indices: Vec<u16>,
    /// `plid_select=`.
    pub select: StreamSelect,
    /// `dp_scheme=`: the file of the scheme.
    pub scheme: Option<String>,
    /// The lines of that file.
    pub ranges: Vec<SchemeRange>,
}

/// Why a device cannot place the writes of a job.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StreamError {
    /// It has no data placement.
    #[error(
        "job {job}: dataplacement: found fdp, expected none: the device has no placement identifiers \
         (ssd with fdp_handles has)"
    )]
    NoPlacement {
        /// The job.
        job: String,
    },
    /// It has fewer placement identifiers.
    #[error("job {job}: {option}: found index {index}, expected 0 to {last}, those of the device")]
    Index {
        /// The job.
        job: String,
        /// The option.
        option: &'static str,
        /// The index.
        index: u16,
        /// The last index.
        last: usize,
    },
}

impl StreamOptions {
    /// Checks that a device with this data placement can place the writes of `job`.
    ///
    /// # Errors
    /// It cannot.
    pub fn check(&self, job: &str, layout: Option<&PlacementLayout>) -> Result<(), StreamError> {
        if !self.fdp {
            return Ok(());
        }
        let job = || job.to_owned();
        let ids = layout.ok_or_else(|| StreamError::NoPlacement { job: job() })?.ids.len();
        let of_scheme = self.ranges.iter().map(|range| ("dp_scheme", range.index));
        let mut used = self.indices.iter().map(|&index| ("plids", index)).chain(of_scheme);
        let beyond = used.find(|&(_, index)| usize::from(index) >= ids);
        beyond.map_or(Ok(()), |(option, index)| {
            Err(StreamError::Index { job: job(), option, index, last: ids - 1 })
        })
    }
}

/// Parses the file of a scheme: a range in each line, as `start, end, index` in bytes.
///
/// # Errors
/// The number of the first line that is something else, from 1, and the line.
pub fn parse_scheme(text: &str) -> Result<Vec<SchemeRange>, (usize, String)> {
    let lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
    let range = |(number, line): (usize, &str)| {
        let parts: Vec<&str> = line.split(',').map(str::trim).collect();
        let parsed = match parts[..] {
            [start, end, index] => start.parse().ok().zip(end.parse().ok()).zip(index.parse().ok()),
            _ => None,
        };
        let range = parsed.map(|((start, end), index)| SchemeRange { start, end, index });
        range.filter(|range| range.start < range.end).ok_or_else(|| (number, line.to_owned()))
    };
    lines.map(range).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use zonal_blk::{Bytes, Isolation, PlacementId};

    /// A device with this many placement identifiers.
    pub(crate) fn layout(handles: u16) -> PlacementLayout {
        let id = |handle| PlacementId { handle, group: 0, unit_handle: handle };
        PlacementLayout {
            groups: 1,
            unit_handles: vec![Isolation::Initial; handles.into()],
            unit: Bytes(1 << 20),
            ids: (0..handles).map(id).collect(),
        }
    }

    #[test]
    fn indices_have_to_be_those_of_the_device() {
        let options = |indices: &[u16]| StreamOptions {
            fdp: true,
            indices: indices.to_vec(),
            ..StreamOptions::default()
        };
        assert_eq!(options(&[0, 3]).check("a", Some(&layout(4))), Ok(()));
        let error = options(&[0, 4]).check("a", Some(&layout(4))).unwrap_err();
        assert_eq!(
            error.to_string(),
            "job a: plids: found index 4, expected 0 to 3, those of the device"
        );
        assert!(matches!(options(&[]).check("a", None), Err(StreamError::NoPlacement { .. })));
        assert_eq!(StreamOptions::default().check("a", None), Ok(()));
        let ranges = vec![SchemeRange { start: 0, end: 1, index: 9 }];
        let error = StreamOptions { ranges, ..options(&[]) }.check("a", Some(&layout(4)));
        assert!(error.unwrap_err().to_string().starts_with("job a: dp_scheme: found index 9"));
    }

    #[test]
    fn scheme_has_a_range_in_each_line() {
        let parsed = parse_scheme("0, 4096, 1\n\n4096,8192,0\n").unwrap();
        let range = |start, end, index| SchemeRange { start, end, index };
        assert_eq!(parsed, [range(0, 4096, 1), range(4096, 8192, 0)]);
        assert_eq!(parse_scheme("0, 1, 2\n5, 5, 0"), Err((2, "5, 5, 0".to_owned())));
        for wrong in ["1, 2", "0, 1, 2, 3", "0, x, 1", "-1, 2, 0", "0, 1, 70000"] {
            assert_eq!(parse_scheme(wrong), Err((1, wrong.to_owned())));
        }
    }
}
