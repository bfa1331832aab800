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

/// What a steady state is judged by.
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
