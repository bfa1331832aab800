//! How the files of a clone take turns (`file_service_type=`).
use super::distribution::parse_distribution;
use super::number::parse_number;
use super::value::ValueError;
use crate::job::FileService;

/// The values of `file_service_type` that a number of I/Os may follow.
const SERVICES: [(&str, FileService); 3] = [
    ("roundrobin", FileService::RoundRobin),
    ("sequential", FileService::Sequential),
    ("random", FileService::Random),
];
/// The values that a shape may follow, as in `random_distribution`.
const DRAWN: [&str; 4] = ["zipf", "pareto", "normal", "gauss"];

/// Parses how files take turns, such as `random:16` for turns of sixteen I/Os, or `zipf:1.2`.
pub(super) fn parse_service(text: &str) -> Result<(FileService, u32), ValueError> {
    let found = || text.to_owned();
    let (word, value) = text.split_once(':').map_or((text, None), |(word, at)| (word, Some(at)));
    let word = word.trim();
    if DRAWN.contains(&word) {
        let name = if word == "gauss" { "normal" } else { word };
        let shape = value.map_or(String::new(), |value| format!(":{}", value.trim()));
        let has_one = value.is_none_or(|value| !value.is_empty() && !value.contains(':'));
        let distribution = parse_distribution(&(name.to_owned() + &shape), 1024);
        let service = distribution.filter(|_| has_one).and_then(|[read, ..]| read);
        let expected = "a number after the colon, as in zipf:1.2, pareto:0.2 or normal:10";
        let service = service.ok_or_else(|| ValueError::Malformed { expected, found: found() })?;
        return Ok((FileService::Drawn(service), 1));
    }
    let Some((_, service)) = SERVICES.iter().find(|(known, _)| *known == word) else {
        let expected = SERVICES.iter().map(|(word, _)| *word).chain(DRAWN).collect();
        return Err(ValueError::NotOneOf { expected, found: found() });
    };
    let turn = parse_number(value.unwrap_or("1").trim()).ok();
    let turn = turn.and_then(|turn| u32::try_from(turn).ok()).filter(|&turn| turn > 0);
    let expected = "a number of I/Os after the colon";
    let turn = turn.ok_or_else(|| ValueError::Malformed { expected, found: found() })?;
    Ok((service.clone(), turn))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Distribution;

    #[test]
    fn files_take_turns_of_one_io_or_more() {
        assert_eq!(parse_service("random"), Ok((FileService::Random, 1)));
        assert_eq!(parse_service("roundrobin:4"), Ok((FileService::RoundRobin, 4)));
        for text in ["random:0", "random:x", "random:", "randon"] {
            assert!(parse_service(text).is_err(), "{text}");
        }
    }

    #[test]
    fn files_may_be_drawn_with_a_distribution() {
        let zipf = Distribution::Zipf { theta: 1.2, center: None };
        assert_eq!(parse_service("zipf:1.2"), Ok((FileService::Drawn(zipf), 1)));
        let normal = Distribution::Normal { deviation: 10.0, center: None };
        assert_eq!(parse_service("gauss:10"), Ok((FileService::Drawn(normal), 1)));
        assert!(parse_service("pareto").is_ok());
        for text in ["zipf:", "zipf:1", "zipf:1.2:0.5", "pareto:2", "normal:x"] {
            assert!(parse_service(text).is_err(), "{text}");
        }
    }
}
