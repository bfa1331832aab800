//! Values of `bssplit`, `cmdprio_bssplit`, `bsrange` and `random_distribution`.
use super::number::parse_size;
use super::value::{ByDirection, Split};
use crate::job::{Distribution, PrioShare};

/// Most parts of a split, as in fio.
const MAX_PARTS: usize = 256;

/// Parses up to three comma-separated values, for reads, writes and trims, with the rule of
/// [`parse_triple`](super::list::parse_triple) for those that are left out.
fn by_direction<T>(text: &str, parse_one: impl Fn(&str) -> Option<T>) -> Option<ByDirection<T>> {
    super::list::parse_triple(text, |part| parse_one(part).ok_or(())).ok().flatten()
}

/// Parses ranges of sizes such as `1k-4k,8k-64k`.
pub(super) fn parse_ranges(text: &str, kb_base: u32) -> Option<ByDirection<(u64, u64)>> {
    by_direction(text, |part| parse_range(part, kb_base))
}

/// Parses sizes with percentages such as `4k/60:64k/40,8k`.
pub(super) fn parse_splits(text: &str, kb_base: u32) -> Option<ByDirection<Split>> {
    by_direction(text, |part| parse_split(part, kb_base))
}

fn parse_range(text: &str, kb_base: u32) -> Option<(u64, u64)> {
    let (min, max) = text.split_once(['-', ':'])?;
    let size = |part: &str| parse_size(part.trim(), kb_base).ok();
    let (min, max) = (size(min)?, size(max)?);
    (min > 0 && min <= max).then_some((min, max))
}

/// Sizes without a percentage share what is left.
fn parse_split(text: &str, kb_base: u32) -> Option<Split> {
    let parse_part = |part: &str| {
        let (size, percent) = part.split_once('/').unwrap_or((part, ""));
        let size = parse_size(size.trim(), kb_base).ok().filter(|&size| size > 0)?;
        Some((size, parse_percent(percent)?))
    };
    let parts: Vec<_> = text.split(':').map(parse_part).collect::<Option<_>>()?;
    let percents = fill(parts.iter().map(|(_, percent)| *percent).collect())?;
    Some(parts.into_iter().map(|(size, _)| size).zip(percents).collect())
}

/// Parses sizes with percentages, and with priorities or without, such as `4k/10:64k/50/3/0,8k/5`.
pub(super) fn parse_prio_shares(text: &str, kb_base: u32) -> Option<ByDirection<Vec<PrioShare>>> {
    by_direction(text, |list| {
        let shares: Vec<_> =
            list.split(':').map(|part| parse_prio_share(part, kb_base)).collect::<Option<_>>()?;
        let total = |size: u64| -> u32 {
            let of_size = shares.iter().filter(|share: &&PrioShare| share.size == size);
            of_size.map(|share| u32::from(share.percent)).sum()
        };
        let fits = shares.len() <= MAX_PARTS && shares.iter().all(|it| total(it.size) <= 100);
        fits.then(|| shares.clone())
    })
}

fn parse_prio_share(text: &str, kb_base: u32) -> Option<PrioShare> {
    let parts: Vec<&str> = text.split('/').map(str::trim).collect();
    let (size, percent, prio) = match parts[..] {
        [size, percent] => (size, percent, None),
        // A hint of 0 is none.
        [size, percent, class, level] | [size, percent, class, level, "0"] => {
            let below = |text: &str, limit: u8| {
                let plain = text.len() == 1 && text.as_bytes()[0].is_ascii_digit();
                text.parse().ok().filter(|number| plain && *number <= limit)
            };
            (size, percent, Some((below(class, 3)?, below(level, 7)?)))
        }
        _ => return None,
    };
    let size = parse_size(size, kb_base).ok().filter(|&size| size > 0)?;
    Some(PrioShare { size, percent: parse_percent(percent)??, prio })
}

/// The names of distributions.
pub(super) const DISTRIBUTIONS: [&str; 7] =
    ["random", "zipf", "pareto", "normal", "zoned", "zoned_abs", "sequence"];

/// Most blocks of a sequence, as in fio.
const LONGEST_SEQUENCE: usize = 64;

/// Parses a distribution such as `zipf:1.2` or `zoned:60/10:40/90`, by direction.
pub(super) fn parse_distribution(text: &str, kb_base: u32) -> Option<ByDirection<Distribution>> {
    let (name, values) = text.split_once(':').unwrap_or((text, ""));
    let one = |distribution: Option<Distribution>| Some([0; 3].map(|_| distribution.clone()));
    match name {
        "random" if values.is_empty() => one(Some(Distribution::Uniform)),
        "zipf" => {
            let (theta, center) = parse_shape(values, 1.1)?;
            // At 1 the formula divides by zero.
            let valid = theta > 0.0 && theta != 1.0;
            one(Some(Distribution::Zipf { theta, center })).filter(|_| valid)
        }
        "pareto" => {
            let (skew, center) = parse_shape(values, 0.2)?;
            let valid = skew > 0.0 && skew < 1.0;
            one(Some(Distribution::Pareto { skew, center })).filter(|_| valid)
        }
        "normal" => {
            let (deviation, center) = parse_shape(values, 0.0)?;
            let valid = (0.0..=100.0).contains(&deviation);
            one(Some(Distribution::Normal { deviation, center })).filter(|_| valid)
        }
        "zoned" => by_direction(values, |list| {
            let (io, parts) = parse_access(list, parse_percent)?;
            Some(Distribution::Zoned(io.into_iter().zip(fill(parts)?).collect()))
        }),
        "zoned_abs" => by_direction(values, |list| {
            let size = |part: &str| parse_size(part, kb_base).ok().filter(|&size| size > 0);
            let (io, sizes) = parse_access(list, size)?;
            Some(Distribution::ZonedAbs(io.into_iter().zip(sizes).collect()))
        }),
        "sequence" => {
            let blocks = values.split(',').map(|block| block.trim().parse().ok());
            let blocks = blocks.collect::<Option<Vec<u64>>>()?;
            let fits = blocks.len() <= LONGEST_SEQUENCE;
            one(Some(Distribution::Sequence(blocks))).filter(|_| fits)
        }
        _ => None,
    }
}

/// The percentages of I/O of a list such as `60/10:40/90`, 100 in all, and what follows each slash.
fn parse_access<T>(
    list: &str,
    parse_part: impl Fn(&str) -> Option<T>,
) -> Option<(Vec<u8>, Vec<T>)> {
    let mut io = Vec::new();
    let mut parts = Vec::new();
    for zone in list.split(':') {
        let (percent, part) = zone.split_once('/')?;
        io.push(parse_percent(percent)?);
        parts.push(parse_part(part.trim())?);
    }
    let given: u32 = io.iter().flatten().map(|&percent| u32::from(percent)).sum();
    let is_whole = given == 100 || io.contains(&None);
    Some((fill(io)?, parts)).filter(|_| is_whole)
}

/// A number and, after a colon, the centre.
fn parse_shape(text: &str, default: f64) -> Option<(f64, Option<f64>)> {
    let decimal = |text: &str| {
        let plain = text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        text.trim().parse::<f64>().ok().filter(|_| plain)
    };
    if text.is_empty() {
        return Some((default, None));
    }
    match text.split_once(':') {
        None => Some((decimal(text)?, None)),
        Some((shape, center)) => {
            let center = decimal(center).filter(|center| (0.0..=1.0).contains(center))?;
            Some((decimal(shape)?, Some(center)))
        }
    }
}

/// A whole percentage; `Some(None)` if it is left out.
fn parse_percent(text: &str) -> Option<Option<u8>> {
    let text = text.trim().trim_end_matches('%');
    if text.is_empty() {
        return Some(None);
    }
    let plain = text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|percent| plain && *percent <= 100).map(Some)
}

/// Percentages that are left out share what is left of 100; those given must not exceed it.
fn fill(percents: Vec<Option<u8>>) -> Option<Vec<u8>> {
    let given: u32 = percents.iter().flatten().map(|&percent| u32::from(percent)).sum();
    let left = 100_u32.checked_sub(given).filter(|_| percents.len() <= MAX_PARTS)?;
    let missing = u32::try_from(percents.iter().filter(|it| it.is_none()).count()).ok()?;
    let share = u8::try_from(left.checked_div(missing).unwrap_or(0)).ok()?;
    Some(percents.into_iter().map(|percent| percent.unwrap_or(share)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn splits_have_sizes_and_percentages() {
        assert_eq!(parse_split("4k/60:64k/40", 1024), Some(vec![(4096, 60), (65536, 40)]));
        assert_eq!(parse_split("4k", 1024), Some(vec![(4096, 100)]));
        assert_eq!(
            parse_split("4k/50:1k/:32k", 1024),
            Some(vec![(4096, 50), (1024, 25), (32768, 25)])
        );
        for text in ["", "4k/101", "4k/60:8k/50", "4k/x", "0/50", "4k/-1", "4k/+1", "4k:", "4k/5/5"]
        {
            assert_eq!(parse_split(text, 1024), None, "{text}");
        }
    }

    #[test]
    fn sizes_have_percentages_and_priorities() {
        let share = |size, percent, prio| PrioShare { size, percent, prio };
        let of = |text| parse_prio_shares(text, 1024).map(|[read, ..]| read.expect("for reads"));
        assert_eq!(
            of("4k/10:64k/50/3/0"),
            Some(vec![share(4096, 10, None), share(65536, 50, Some((3, 0)))])
        );
        assert_eq!(of("4k/60:4k/40").map(|shares| shares.len()), Some(2));
        assert_eq!(of("4k/10/3/1/0"), Some(vec![share(4096, 10, Some((3, 1)))]));
        for text in [
            "4k/10/3/1/2",
            "",
            "4k",
            "4k/",
            "4k/10/1",
            "4k/60:4k/41",
            "4k/10/4/0",
            "4k/10/1/8",
            "0/10",
        ] {
            assert_eq!(of(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn splits_are_parsed_as_they_are_written(parts in split(), second in split()) {
            let text = |parts: &[(u64, u8)]| {
                let part = |(size, percent): &(u64, u8)| format!("{size}/{percent}");
                parts.iter().map(part).collect::<Vec<_>>().join(":")
            };
            let parsed = parse_splits(&format!("{},{}", text(&parts), text(&second)), 1024);
            prop_assert_eq!(parsed, Some([Some(parts), Some(second.clone()), Some(second)]));
        }

        #[test]
        fn what_splits_leave_out_is_shared_and_never_more_than_100_in_all(
            percents in prop::collection::vec(prop::option::of(0_u8..=100), 1..6)
        ) {
            let part = |percent: &Option<u8>| {
                percent.map_or_else(|| "4k".to_owned(), |percent| format!("4k/{percent}"))
            };
            let text = percents.iter().map(part).collect::<Vec<_>>().join(":");
            let given: u32 = percents.iter().flatten().map(|&percent| u32::from(percent)).sum();
            match parse_split(&text, 1024) {
                Some(parsed) => {
                    let total: u32 = parsed.iter().map(|(_, percent)| u32::from(*percent)).sum();
                    prop_assert!(total <= 100 && given <= 100);
                    let kept = percents.iter().zip(&parsed);
                    kept.for_each(|(given, (_, is))| assert!(given.is_none_or(|it| it == *is)));
                }
                None => prop_assert!(given > 100),
            }
        }

        #[test]
        fn zones_are_parsed_as_they_are_written(io in split(), regions in split()) {
            let pairs = io.iter().zip(&regions).map(|((_, a), (_, b))| (*a, *b));
            let mut zones: Vec<(u8, u8)> = pairs.collect();
            zones.push((100 - zones.iter().map(|(io, _)| io).sum::<u8>(), 0));
            let text: Vec<String> = zones.iter().map(|(a, b)| format!("{a}/{b}")).collect();
            let parsed = parse_distribution(&format!("zoned:{}", text.join(":")), 1024);
            let expected = Some(Distribution::Zoned(zones));
            prop_assert_eq!(parsed, Some([expected.clone(), expected.clone(), expected]));
        }

        #[test]
        fn shapes_are_parsed_as_they_are_written(theta in 1_u32..5000, center in 0_u32..=1000) {
            let (theta, center) = (f64::from(theta) / 1000.0, f64::from(center) / 1000.0);
            let parsed = parse_distribution(&format!("zipf:{theta}:{center}"), 1024);
            let expected = Some(Distribution::Zipf { theta, center: Some(center) });
            let expected = Some([expected.clone(), expected.clone(), expected]);
            prop_assert_eq!(parsed, expected.filter(|_| theta != 1.0));
        }

        #[test]
        fn any_text_is_a_value_or_refused(text in "[0-9a-z:/,.% -]{0,24}") {
            let _ = parse_distribution(&text, 1024);
            let _ = parse_distribution(&format!("zoned_abs:{text}"), 1000);
            let _ = (parse_splits(&text, 1024), parse_ranges(&text, 1024));
            let _ = parse_prio_shares(&text, 1024);
        }
    }

    /// Sizes with percentages of at most 100 in all.
    fn split() -> impl Strategy<Value = Vec<(u64, u8)>> {
        prop::collection::vec((1_u64..1 << 40, 0_u8..=20), 1..6)
    }

    #[test]
    fn ranges_go_up() {
        assert_eq!(parse_range("1k-4k", 1024), Some((1024, 4096)));
        assert_eq!(parse_range("4k-4k", 1000), Some((4000, 4000)));
        for text in ["4k", "4k-1k", "0-4k", "1k-", "-", "1k-2k-3k"] {
            assert_eq!(parse_range(text, 1024), None, "{text}");
        }
    }

    #[test]
    fn distributions_have_the_defaults_and_limits_of_fio() {
        let of = |text| parse_distribution(text, 1024).map(|[read, ..]| read.expect("for reads"));
        assert_eq!(of("random"), Some(Distribution::Uniform));
        assert_eq!(of("zipf"), Some(Distribution::Zipf { theta: 1.1, center: None }));
        assert_eq!(
            of("zipf:0.5:0.25"),
            Some(Distribution::Zipf { theta: 0.5, center: Some(0.25) })
        );
        assert_eq!(of("zipf:.9"), Some(Distribution::Zipf { theta: 0.9, center: None }));
        assert_eq!(of("pareto"), Some(Distribution::Pareto { skew: 0.2, center: None }));
        assert_eq!(of("normal:25"), Some(Distribution::Normal { deviation: 25.0, center: None }));
        assert_eq!(
            of("zoned:50/5:30/15:20/"),
            Some(Distribution::Zoned(vec![(50, 5), (30, 15), (20, 80)]))
        );
        assert_eq!(
            of("zoned_abs:60/4k:40/1m"),
            Some(Distribution::ZonedAbs(vec![(60, 4096), (40, 1 << 20)]))
        );
        assert_eq!(of("sequence:2, 0,1"), Some(Distribution::Sequence(vec![2, 0, 1])));
        let too_long = format!("sequence:{}0", "1,".repeat(64));
        assert_eq!(parse_distribution(&too_long, 1024), None, "65 blocks");
        for text in [
            "",
            "sequence",
            "sequence:",
            "sequence:1,x",
            "zipf:1",
            "zipf:0",
            "zipf:-1",
            "zipf:x",
            "zipf:1e9",
            "zipf:inf",
            "zipf:2:1.5",
            "pareto:1",
            "normal:101",
            "random:2",
            "zoned",
            "zoned:50",
            "zoned:60/10:60/90",
            "zoned:50/10:40/90",
            "zoned_abs:50/4k:40/8k",
            "zoned:50/60:50/60",
            "zoned_abs:50/",
            "zoned_abs:50/0",
            "gauss",
        ] {
            assert_eq!(of(text), None, "{text}");
        }
    }

    #[test]
    fn lists_by_direction_hold_for_those_after_them() {
        let zoned = |io, part| Some(Distribution::Zoned(vec![(io, part)]));
        let found = parse_distribution("zoned:100/10,100/20", 1024);
        assert_eq!(found, Some([zoned(100, 10), zoned(100, 20), zoned(100, 20)]));
    }
}
