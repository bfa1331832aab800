//! Values of `latency_percentile` and `steadystate`.
use crate::job::SteadyCriterion;

fn parse_decimal(text: &str) -> Option<f64> {
    let plain = text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    text.parse::<f64>().ok().filter(|number| plain && number.is_finite())
}

/// Parses a percentage with decimals such as `99.9`.
pub(super) fn parse_percentage(text: &str) -> Option<f64> {
    parse_decimal(text.trim_end_matches('%')).filter(|percent| *percent <= 100.0)
}

/// Most percentiles, as in fio.
const MAX_PERCENTILES: usize = 20;

/// Parses percentiles such as `50:99:99.9`, which need not be ascending.
pub(super) fn parse_list(text: &str) -> Option<Vec<f64>> {
    let list: Option<Vec<f64>> =
        text.split(':').map(|percent| parse_percentage(percent.trim())).collect();
    let mut list = list.filter(|list| list.len() <= MAX_PERCENTILES)?;
    list.sort_by(f64::total_cmp);
    Some(list)
}

/// The measure by which a steady state is judged.
pub(super) const CRITERIA: [&str; 4] = ["iops", "iops_slope", "bw", "bw_slope"];

/// Parses a criterion such as `iops_slope:0.1%`.
pub(super) fn parse_criterion(text: &str) -> Option<SteadyCriterion> {
    let (what, limit) = text.split_once(':')?;
    let (iops, slope) = match what {
        "iops" => (true, false),
        "iops_slope" => (true, true),
        "bw" => (false, false),
        "bw_slope" => (false, true),
        _ => return None,
    };
    let number = limit.strip_suffix('%');
    let percent = number.is_some();
    let limit = parse_decimal(number.unwrap_or(limit))?;
    Some(SteadyCriterion { iops, slope, limit, percent })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn criteria_have_a_measure_and_a_limit() {
        let criterion =
            |iops, slope, limit, percent| Some(SteadyCriterion { iops, slope, limit, percent });
        assert_eq!(parse_criterion("iops:2"), criterion(true, false, 2.0, false));
        assert_eq!(parse_criterion("iops_slope:0.1%"), criterion(true, true, 0.1, true));
        assert_eq!(parse_criterion("bw:1000"), criterion(false, false, 1000.0, false));
        assert_eq!(parse_criterion("bw_slope:.5%"), criterion(false, true, 0.5, true));
        for text in
            ["iops", "iops:", "iops:%", "iops:-1", "iops:1e3", "lat:5", "iops:5%%", "iops:."]
        {
            assert_eq!(parse_criterion(text), None, "{text}");
        }
    }

    #[test]
    fn percentiles_are_put_in_order_and_at_most_twenty() {
        assert_eq!(parse_list("99.9:50:.5"), Some(vec![0.5, 50.0, 99.9]));
        assert_eq!(parse_list(&["1"; 20].join(":")), Some(vec![1.0; 20]));
        for text in ["", "50:", "50:101", "50:-1", "50;60", &["1"; 21].join(":")] {
            assert_eq!(parse_list(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn criteria_are_parsed_as_they_are_written(
            iops: bool, slope: bool, percent: bool, limit in 0_u32..1_000_000,
        ) {
            let limit = f64::from(limit) / 1000.0;
            let (what, end) = (if iops { "iops" } else { "bw" }, if percent { "%" } else { "" });
            let text = format!("{what}{}:{limit}{end}", if slope { "_slope" } else { "" });
            prop_assert_eq!(
                parse_criterion(&text),
                Some(SteadyCriterion { iops, slope, limit, percent })
            );
        }

        #[test]
        fn percentages_are_at_most_100(number in 0_u32..200_000) {
            let percent = f64::from(number) / 1000.0;
            let parsed = parse_percentage(&percent.to_string());
            prop_assert_eq!(parsed, (percent <= 100.0).then_some(percent));
        }
    }
}
