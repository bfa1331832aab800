//! The attributes of a queue by name, like the kernel's in `/sys/block/*/queue`.
use std::time::Duration;
use zonal_blk::sched::Scheduler;
use zonal_blk::{Nanos, Queue, SwitchError, ZoneWrite};
use zonal_os::poll::retry;

/// How long a change waits for the queue to drain.
const FREEZE_TIMEOUT: Duration = Duration::from_secs(10);
const DRAIN_POLL_INTERVAL: Duration = Duration::from_micros(200);

/// The attributes that can be set.
const WRITABLE: &str = "scheduler, scheduler.ATTRIBUTE, zone_write, zoned_qd1_writes, \
                          max_sectors_kb, nr_requests or io_timeout";

/// All attributes with their values. The names of the scheduler's begin with `scheduler.`.
pub(super) fn all(queue: &Queue) -> Vec<(String, String)> {
    let scheduler = queue.scheduler();
    let mut all = vec![("scheduler".to_owned(), scheduler.name().to_owned())];
    let of_scheduler = scheduler.attributes();
    all.extend(of_scheduler.into_iter().map(|a| (format!("scheduler.{}", a.name), a.value)));
    all.push(("zone_write".to_owned(), queue.zone_write().name().to_owned()));
    all.push(("max_sectors_kb".to_owned(), (queue.max_sectors() / 2).to_string()));
    all.push(("nr_requests".to_owned(), queue.nr_requests().to_string()));
    all.push(("io_timeout".to_owned(), (queue.io_timeout().0 / 1_000_000).to_string()));
    all.extend(queue.attributes().into_iter().map(|(name, value)| (name.to_owned(), value)));
    all
}

/// Sets an attribute while the queue is quiescent.
pub(super) fn set(queue: &Queue, name: &str, value: &str) -> Result<(), String> {
    let change = change(queue, name, value)?;
    while_frozen(queue, || change(queue)).map_err(|error| format!("{name}: {error}"))
}

/// Reads the zones of a device anew while its queue is quiescent. Returns their number.
pub(super) fn revalidate(queue: &Queue) -> Result<u32, String> {
    while_frozen(queue, || queue.revalidate()).map_err(|error| format!("revalidate: {error}"))
}

/// A change of a quiescent queue.
type Change = Box<dyn FnOnce(&Queue) -> Result<(), SwitchError>>;

fn change(queue: &Queue, name: &str, value: &str) -> Result<Change, String> {
    let wrong = |expected: &str| format!("{name}: found `{value}`, expected {expected}");
    if let Some(attribute) = name.strip_prefix("scheduler.") {
        let mut scheduler = queue.scheduler();
        scheduler.set(attribute, value).map_err(|error| error.to_string())?;
        return Ok(Box::new(move |queue| queue.set_scheduler(scheduler)));
    }
    Ok(match name {
        "scheduler" => {
            let scheduler: Scheduler = value.parse().map_err(|error| format!("{name}: {error}"))?;
            Box::new(move |queue| queue.set_scheduler(scheduler))
        }
        "zone_write" => {
            let policy: ZoneWrite = value.parse().map_err(|error| format!("{name}: {error}"))?;
            Box::new(move |queue| queue.set_zone_write(policy))
        }
        "zoned_qd1_writes" => {
            let policy = match (value, queue.zone_write()) {
                ("1", _) => ZoneWrite::Qd1,
                ("0", ZoneWrite::Qd1) => ZoneWrite::Plug,
                ("0", other) => other,
                _ => return Err(wrong("0 or 1")),
            };
            Box::new(move |queue| queue.set_zone_write(policy))
        }
        "max_sectors_kb" => {
            let kilobytes: Option<u32> = value.parse().ok();
            let sectors = kilobytes.and_then(|kb| kb.checked_mul(2));
            let (unit, most) = (queue.limits().zone_write_sectors(), queue.limits().max_sectors);
            let fits =
                |sectors: &u32| (unit..=most).contains(sectors) && sectors.is_multiple_of(unit);
            let sectors = sectors.filter(fits).ok_or_else(|| {
                wrong(&format!("a multiple of {} KiB, up to {}", unit.div_ceil(2), most / 2))
            })?;
            Box::new(move |queue| queue.set_max_sectors(sectors))
        }
        "nr_requests" => {
            let most = queue.limits().queue_depth;
            let number: Option<u16> =
                value.parse().ok().filter(|number| (1..=most).contains(number));
            let number = number.ok_or_else(|| wrong(&format!("1 to {most} requests")))?;
            Box::new(move |queue| queue.set_nr_requests(number))
        }
        "io_timeout" => {
            let millis = value.parse::<u64>().ok().filter(|&millis| millis > 0);
            let nanos = millis.and_then(|millis| millis.checked_mul(1_000_000));
            let nanos = nanos.ok_or_else(|| wrong("milliseconds above 0"))?;
            Box::new(move |queue| queue.set_io_timeout(Nanos(nanos)))
        }
        _ if all(queue).iter().any(|(known, _)| known == name) => {
            return Err(format!("{name} cannot be changed, expected {WRITABLE}"));
        }
        _ => return Err(unknown(queue, name)),
    })
}

/// Says that there is no such attribute, and which was meant or may be set.
pub(super) fn unknown(queue: &Queue, name: &str) -> String {
    let all = all(queue);
    let names = all.iter().map(|(known, _)| known.as_str());
    match zonal_blk::nearest(name, names) {
        Some(near) => format!("no attribute `{name}`, did you mean `{near}`?"),
        None => format!(
            "no attribute `{name}`, expected one of those that `get` shows, to set: {WRITABLE}"
        ),
    }
}

/// Freezes the queue, and calls `change` when it is quiescent.
fn while_frozen<T>(
    queue: &Queue,
    change: impl FnOnce() -> Result<T, SwitchError>,
) -> Result<T, String> {
    queue.freeze();
    let drained = retry(DRAIN_POLL_INTERVAL, FREEZE_TIMEOUT, || queue.is_quiescent().then_some(()));
    let changed = if drained.is_some() {
        change().map_err(|error| error.to_string())
    } else {
        Err(format!(
            "the queue did not drain within {} s; nothing was changed",
            FREEZE_TIMEOUT.as_secs()
        ))
    };
    queue.unfreeze();
    changed
}
