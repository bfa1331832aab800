//! `--after`: operations that run before the command itself.
use super::args::sectors;
use anyhow::{Context, Result, anyhow, bail};
use zonal_blk::Sector;
use zonal_lab::zone::ScriptStep;

/// Parses operations separated by semicolons.
pub fn parse(text: &str) -> Result<Vec<ScriptStep>> {
    let steps = text.split(';').map(str::trim).filter(|step| !step.is_empty());
    steps.map(|step| parse_step(step).with_context(|| format!("`{step}`"))).collect()
}

fn parse_step(text: &str) -> Result<ScriptStep> {
    let mut words = text.split_whitespace();
    let name = words.next().unwrap_or_default();
    let names = ScriptStep::OPS.map(ScriptStep::name);
    let op = ScriptStep::OPS.into_iter().find(|op| ScriptStep::name(*op) == name);
    let op = op.ok_or_else(|| {
        let hint = zonal_blk::did_you_mean(name, names);
        anyhow!("found {name}, expected one of {}{hint}", names.join(", "))
    })?;
    let mut number = |what: &str| {
        let word = words.next().ok_or_else(|| anyhow!("expected {what}"))?;
        sectors(word).map_err(|error| anyhow!("{what}: found {word}, {error}"))
    };
    let sector = Sector(number("the sector")?);
    let length = if ScriptStep::has_length(op) { number("the number of sectors")? } else { 0 };
    match words.next() {
        Some(word) => bail!("found {word}, expected nothing more"),
        None => Ok(ScriptStep { op, sector, length }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zonal_blk::Op;

    #[test]
    fn operations_are_parsed_in_order() {
        let step = |op, sector, length| ScriptStep { op, sector: Sector(sector), length };
        let expected = vec![
            step(Op::Write, 0, 2048),
            step(Op::ZoneFinish, 524_288, 0),
            step(Op::ZoneAppend, 0x10_0000, 8),
        ];
        assert_eq!(parse("write 0 2K; finish 524288;append 0x100000 8;").unwrap(), expected);
        assert_eq!(expected[0].to_string(), "write 0 2048");
        assert_eq!(expected[1].to_string(), "finish 524288");
        assert_eq!(parse(" ; ").unwrap(), []);
    }

    #[test]
    fn errors_say_what_was_expected() {
        for (text, expected) in [
            (
                "erase 0",
                "`erase 0`: found erase, expected one of write, append, open, close, finish, reset, \
                 open-zrwa, commit",
            ),
            ("write 0", "`write 0`: expected the number of sectors"),
            ("reset", "`reset`: expected the sector"),
            ("reset 0 8", "`reset 0 8`: found 8, expected nothing more"),
        ] {
            assert_eq!(format!("{:#}", parse(text).unwrap_err()), expected);
        }
        let bad = format!("{:#}", parse("reset zero").unwrap_err());
        assert!(
            bad.starts_with("`reset zero`: the sector: found zero, expected a number"),
            "{bad}"
        );
    }
}
