//! Zone reports over a connection, and whether the paths of a namespace report the same zones.
use super::error::ConnectError;
use super::queue_connection::QueueConnection;
use std::time::Duration;
use zonal_blk::{Limits, REPORT_BATCH, Zone, ZoneNo};
use zonal_nvme::ns::NamespaceInfo;
use zonal_nvme::wire::zone::{ReportHeader, ZoneDescriptor};

/// The longest zone report to request, in bytes: as many zones as readers of a device ask for at a time.
const MAX_REPORT: usize = ReportHeader::SIZE + REPORT_BATCH * ZoneDescriptor::SIZE;

/// The properties of a namespace that a zone report needs.
pub(super) struct Reported<'a> {
    pub info: &'a NamespaceInfo,
    pub limits: &'a Limits,
    /// How long a command may take.
    pub timeout: Duration,
}

impl Reported<'_> {
    /// Part of a zone report: appends up to `max` zones from `first` on, and returns their number;
    /// `None` if one is invalid.
    pub fn part(
        &self,
        connection: &mut QueueConnection,
        first: ZoneNo,
        max: usize,
        zones: &mut Vec<Zone>,
    ) -> Result<Option<usize>, ConnectError> {
        let room = MAX_REPORT.min(self.limits.max_sectors as usize * 512);
        let (command, len) = self.info.report(self.limits.zone_start(first), max, room);
        let (_, data) = connection.execute_within(
            self.timeout,
            "zone report",
            command.into(),
            Vec::new(),
            len,
        )?;
        Ok(self.info.parse_report(&data, zones))
    }

    /// All zones.
    pub fn all(&self, connection: &mut QueueConnection) -> Result<Vec<Zone>, ConnectError> {
        let mut zones = Vec::new();
        while zones.len() < self.limits.nr_zones as usize {
            let first = ZoneNo(u32::try_from(zones.len()).expect("fewer zones than there are"));
            let left = (self.limits.nr_zones - first.0) as usize;
            match self.part(connection, first, left, &mut zones)? {
                None | Some(0) => return Err(ConnectError::Report(first)),
                Some(_) => {}
            }
        }
        Ok(zones)
    }
}

/// The first zone of which one path reports something else than another has `before` and `after` it,
/// with what was found and expected. Zones that changed meanwhile say nothing.
pub(super) fn contradiction<'a>(
    found: &'a [Zone],
    before: &'a [Zone],
    after: &'a [Zone],
) -> Option<(ZoneNo, &'a Zone, &'a Zone)> {
    let reports = (0..).map(ZoneNo).zip(found).zip(before.iter().zip(after));
    let mut differ =
        reports.filter(|((_, found), (before, after))| before == after && found != before);
    differ.next().map(|((zone, found), (before, _))| (zone, found, before))
}

#[cfg(test)]
mod tests {
    use super::*;
    use zonal_blk::{Sector, ZoneAttributes, ZoneCondition, ZoneKind};

    #[test]
    fn zones_that_another_path_reports_otherwise_contradict_unless_they_change() {
        let zone = |wp| Zone {
            start: Sector(0),
            len: Sector(64),
            capacity: Sector(64),
            wp: Sector(wp),
            kind: ZoneKind::SequentialRequired,
            cond: ZoneCondition::ImplicitOpen,
            attributes: ZoneAttributes::NONE,
        };
        let (a, b) = (zone(8), zone(16));
        for (found, before, after, expected) in [
            (a, a, a, None),
            (b, a, a, Some((ZoneNo(1), &b, &a))),
            (b, a, b, None),
            (a, b, a, None),
        ] {
            let [found, before, after] = [found, before, after].map(|second| [a, second]);
            let differs = contradiction(&found, &before, &after);
            assert_eq!(differs, expected, "{found:?} {before:?} {after:?}");
        }
        let full = Zone { cond: ZoneCondition::Full, ..a };
        assert_eq!(contradiction(&[full], &[a], &[a]), Some((ZoneNo(0), &full, &a)));
    }
}
