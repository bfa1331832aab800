//! The crash lab's oracle of fio's verified blocks: each is where it was written to, and what was
//! synced is there and whole.
use crate::fio_job::FioJob;
use std::sync::atomic::{AtomicBool, Ordering};
use zonal_blk::{Limits, Sector, Zone, ZoneKind};
use zonal_crash::Synced;
use zonal_crash::check::CheckError;
use zonal_crash::content::{Content, data_end};
use zonal_crash::image::MakeError;
use zonal_crash::judge::{Case, Judge, Judgement, sync_marks, unreadable};
use zonal_crash::log::Log;
use zonal_fio::verify::BlockHeader;

/// Judges states of devices that jobs with `verify=` have written to.
pub struct FioVerifyOracle {
    /// A block with a header was found in a state.
    found: AtomicBool,
    /// The job that wrote them, if it is known.
    job: Option<FioJob>,
}

impl FioVerifyOracle {
    /// The oracle for a log. Its marks `synced` say what had to be durable.
    ///
    /// # Errors
    /// A mark is malformed.
    pub fn new(log: &Log) -> Result<Self, String> {
        sync_marks(log)?;
        Ok(FioVerifyOracle { found: AtomicBool::new(false), job: None })
    }

    /// The same, and the job judges each state that is good so far.
    #[must_use]
    pub fn with_job(mut self, job: FioJob) -> Self {
        self.job = Some(job);
        self
    }

    fn look(&self, case: &Case<'_>) -> Result<Judgement, MakeError> {
        let mut content = Content::open(case.image, case.log.header())?;
        let zones = content.zones()?;
        let mut why = case.synced.violation(&mut content, &zones, &mut case.log.blocks())?;
        for (number, zone) in (0..).zip(&zones) {
            if why.is_none() {
                why = self.look_at_zone(&mut content, number, zone, case.synced)?;
            }
        }
        Ok(Judgement::of(why))
    }

    fn look_at_zone(
        &self,
        content: &mut Content,
        number: u32,
        zone: &Zone,
        synced: &Synced,
    ) -> Result<Option<String>, MakeError> {
        let limits = content.limits().clone();
        let (mut at, end) = (zone.start, data_end(zone));
        let lba = u64::from(limits.lba_sectors());
        let synced_end = match zone.kind {
            ZoneKind::Conventional => zone.start,
            ZoneKind::SequentialRequired => zone.start + Sector(synced.blocks(number) * lba),
        };
        while at < end {
            let data = read(content, &limits, at, end)?;
            let mut used = 0;
            while used < data.len() {
                let Some(header) = BlockHeader::find(&data[used..]) else {
                    used += limits.lba_size as usize;
                    continue;
                };
                let block_end = used + header.len as usize;
                if block_end > data.len() && used > 0 {
                    // Again from here on.
                    break;
                }
                self.found.store(true, Ordering::Relaxed);
                let first = at + Sector(used as u64 / 512);
                let place = first.to_bytes().0;
                if header.offset != place && header.offset != zone.start.to_bytes().0 {
                    let why = format!(
                        "zone {number}, sector {first}: found the block of offset {}, expected that of {place}",
                        header.offset
                    );
                    return Ok(Some(why));
                }
                let is_whole = data.get(used..block_end).is_some_and(|data| header.matches(data));
                let len = Sector(u64::from(header.len) / 512);
                if !is_whole && first + len <= synced_end {
                    let why = format!(
                        "zone {number}, sector {first}: found a block of {} bytes that does not match its \
                         header, expected it whole: it was synced",
                        header.len
                    );
                    return Ok(Some(why));
                }
                // A torn block ends where the next one begins, if there is one.
                used = if is_whole { block_end } else { used + limits.lba_size as usize };
            }
            at += Sector(used as u64 / 512);
        }
        Ok(None)
    }
}

impl Judge for FioVerifyOracle {
    fn identity(&self) -> String {
        let job = self.job.as_ref().map(|job| format!(", job {}", job.name()));
        format!("oracle fio-verify{}", job.unwrap_or_default())
    }

    fn judge(&self, case: &Case<'_>) -> Result<Judgement, CheckError> {
        let judgement = unreadable(self.look(case))?;
        Ok(match &self.job {
            Some(job) if judgement.failure.is_none() => {
                Judgement::of(job.violation(case).unwrap_or_else(|why| Some(format!("{why:#}"))))
            }
            _ => judgement,
        })
    }

    fn conclude(&self) -> Result<(), String> {
        self.job.as_ref().map_or(Ok(()), FioJob::conclude)?;
        match self.found.load(Ordering::Relaxed) {
            true => Ok(()),
            false => {
                Err("--oracle fio-verify: found no block with a header in any state, expected the \
                          log of a job with verify=meta or a checksum, without verify_offset"
                    .to_owned())
            }
        }
    }
}

/// Longest piece that is looked at, in sectors: blocks that are longer count as torn.
const PIECE: u64 = 16 << 11;

/// Reads from a sector on: to the end of the zone's data, or a piece.
fn read(
    content: &mut Content,
    limits: &Limits,
    from: Sector,
    end: Sector,
) -> Result<Vec<u8>, MakeError> {
    let end = end.min(from + Sector(PIECE));
    let (mut at, mut data) = (from, Vec::new());
    while at < end {
        let len = (end - at).0.min(u64::from(limits.max_sectors));
        data.extend_from_slice(&content.read(at, u32::try_from(len).expect("a command"))?);
        at += Sector(len);
    }
    Ok(data)
}
