//! A row beside that of another build of this program, in turn.
use super::loads::Row;
use super::measured::Measured;
use super::median::median;
use super::{NAME, ROUNDS, round};
use std::process::Command;

/// Best and median KIOPS of a row, as another build of this program prints them, if it has that row.
fn run_before(program: &str, row: &Row) -> Option<[f64; 2]> {
    let output = Command::new(program).args(["--bench", row.name]).output();
    let output = output.unwrap_or_else(|error| panic!("{program}: {error}"));
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    let columns = text.lines().next().unwrap_or_default().split_whitespace();
    assert!(columns.take(2).eq(["KIOPS", "median"]), "{program}: its columns are others");
    let rates = |line: &str| {
        let (name, numbers) = line.split_at_checked(NAME)?;
        let mut numbers = numbers.split_whitespace().map_while(|word| word.parse().ok());
        (name.trim() == row.name).then_some([numbers.next()?, numbers.next()?])
    };
    text.lines().find_map(rates)
}

/// A row beside that of another build.
#[derive(Default)]
pub struct Turns {
    /// Best and median KIOPS of the other build in each turn.
    before: Vec<[f64; 2]>,
    /// Our median of each turn by theirs, which follows immediately.
    ratios: Vec<f64>,
}

impl Turns {
    /// Measures a row in turn with another build.
    pub fn take(&mut self, row: &Row, program: &str) -> Vec<Measured> {
        let rounds: Vec<Measured> = (0..ROUNDS).map(|_| round(row)).collect();
        if let Some(before) = run_before(program, row) {
            let ours = median(rounds.iter().map(|round| round.iops / 1e3));
            self.ratios.push(ours / before[1]);
            self.before.push(before);
        }
        rounds
    }
}

/// Prints best and median of both, and the median ratio.
pub fn print_beside(row: &Row, rounds: &[Measured], turns: &Turns) {
    let ours = [rounds[0].iops, rounds[rounds.len() / 2].iops].map(|iops| iops / 1e3);
    print!("{:NAME$} {:8.1} {:8.1}", row.name, ours[0], ours[1]);
    if !turns.before.is_empty() {
        let best = turns.before.iter().map(|rates| rates[0]).fold(0.0, f64::max);
        let theirs = median(turns.before.iter().map(|rates| rates[1]));
        let ratio = median(turns.ratios.iter().copied());
        print!(" {best:8.1} {theirs:8.1} {ratio:6.2}");
    }
    println!();
}
