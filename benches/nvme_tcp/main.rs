//! NVMe/TCP over the loopback: our target under our initiator, on a null device that takes no time
//! and keeps no data. A thread polls the initiator; each of its queues has a connection, with a thread
//! of the target's at the other end.
//!
//! The rows `write 4k` and `append 4k` have a device with zones, each place in the queue a zone of
//! its own, so that no write waits for another; what an append costs beside a write is printed too.
//! The rows `bare socket` are no NVMe but the same bytes over a socket, by threads that wait and collect
//! messages as ours do and do nothing else: the bound of what any initiator and target reach that send
//! and receive with these calls. The share of it that other rows reach is printed at the end. In rows
//! with `spin` both ends poll without a pause, as SPDK does, on whose rates on a machine of this kind the
//! last columns are based; in those with `--poll` the target does, with sched_yield(2) between polls. In
//! rows with `1 by 1` the host sends each command by itself: how a batch forms then depends on the target.
//! In rows with `mdts 128k` the target takes no longer commands, as SPDK's, so that each I/O is eight; in
//! those with `capsule` it takes 4 KiB in a capsule (SPDK; ours and Linux 16 KiB), or nothing, so that a
//! longer write waits for its R2T.
//!
//! CPU is the processor time of both ends for an I/O. The batches are I/Os for each send(2) of the
//! host and of the target, of the median round; `empty` are calls of recv(2), for each I/O, that find
//! nothing, and `switch` the context switches.
//!
//! `cargo bench --bench nvme_tcp`; words after `--` choose the rows whose names contain one, or the row
//! whose name it is. Rounds are taken in turn; a row shows its best round, and the median of all. The
//! machine's mood changes the figures of all rows: to compare two versions, `--before PROGRAM` runs
//! another build of this benchmark in turn with this one, three times for each row, and prints both and
//! the median ratio of their medians. With `--csv` the medians are printed as rows that `cargo bench --bench peers -- --with FILE`
//! puts beside those of others. `--loop ROW COUNT` makes that many I/Os of a row and measures nothing:
//! `benches/profile --nvme-tcp` counts their instructions.
mod bare;
mod beside;
mod loads;
mod loopback;
mod measured;
#[path = "../support/median.rs"]
mod median;
#[allow(dead_code)]
#[path = "../peers/rows.rs"]
mod rows;
#[path = "../support/start.rs"]
mod start;

use beside::{Turns, print_beside};
use loads::{APPEND, Order, Row, WRITE};
use measured::{Counts, Measured};
use std::time::Duration;

const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_millis(400);

/// How often a row is measured in turn with another build.
const TURNS: usize = 3;

/// Header and other fields of a response capsule, and of a data PDU before its data.
const RESPONSE: usize = 24;

fn round(row: &Row) -> Measured {
    match row.order {
        Order::Bare => bare::round(row),
        _ => loopback::round(row),
    }
}

/// The rounds of a row, the best first.
fn print_row(row: &Row, rounds: &[Measured]) {
    let (Measured { iops, mean, cpu, .. }, median) = (rounds[0], rounds[rounds.len() / 2]);
    let Counts { host_sends, target_sends, empty, switches } = median.counts;
    let megabytes = iops * f64::from(row.len) / 1e6;
    let (mean, cpu) = (mean * 1e6, cpu * 1e6);
    let goal = row
        .goal
        .map_or_else(String::new, |goal| format!("{goal:8.1} {:4.0} %", iops / 1e3 / goal * 100.0));
    println!(
        "{:NAME$} {:8.1} {:8.1} {megabytes:7.0} {mean:9.1} {cpu:8.1} {:6.1} {:6.1} {empty:6.2} \
         {switches:6.3} {goal}",
        row.name,
        iops / 1e3,
        median.iops / 1e3,
        1.0 / host_sends,
        1.0 / target_sends,
    );
}

/// Width of a row's name.
const NAME: usize = 26;

/// The rows whose names are one of `words`, or contain one that is no name, and those that bound them.
fn chosen(words: &[String]) -> Vec<Row> {
    let is_name = |word: &str| loads::rows().iter().any(|row| row.name == word);
    let named = |row: &Row| {
        let chooses = |word: &String| match is_name(word) {
            true => row.name == word,
            false => row.name.contains(word),
        };
        words.is_empty() || words.iter().any(chooses)
    };
    let bounds: Vec<&str> =
        loads::rows().iter().filter(|row| named(row)).filter_map(|row| row.bound).collect();
    let mut rows = loads::rows();
    rows.retain(|row| named(row) || bounds.contains(&row.name));
    rows
}

/// Makes the I/Os of `--loop ROW COUNT`, if the command line says so.
fn run_loop() -> Option<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [option, name, count] = &args[..] else { return None };
    let count: u64 = count.parse().ok().filter(|_| option == "--loop")?;
    let row = loads::rows().into_iter().find(|row| row.name == name)?;
    loopback::load(&row, |_, done| done < count);
    Some(())
}

fn main() {
    if run_loop().is_some() || !start::measures() {
        return;
    }
    let mut words: Vec<String> =
        std::env::args().skip(1).filter(|word| !word.starts_with("--bench")).collect();
    let before = words.iter().position(|word| word == "--before").map(|at| {
        assert!(at + 1 < words.len(), "--before: expected the path of a program");
        words.drain(at..at + 2).nth(1).expect("just seen")
    });
    let csv = words.iter().position(|word| word == "--csv").map(|at| words.remove(at)).is_some();
    let rows = chosen(&words);
    let mut rounds: Vec<Vec<Measured>> = rows.iter().map(|_| Vec::new()).collect();
    let mut turns: Vec<Turns> = rows.iter().map(|_| Turns::default()).collect();
    if let Some(program) = &before {
        for _ in 0..TURNS {
            for ((row, rounds), turns) in rows.iter().zip(&mut rounds).zip(&mut turns) {
                rounds.extend(turns.take(row, program));
            }
        }
    } else {
        for _ in 0..ROUNDS {
            rows.iter().zip(&mut rounds).for_each(|(row, rounds)| rounds.push(round(row)));
        }
    }
    for rounds in &mut rounds {
        rounds.sort_by(|one, other| other.iops.total_cmp(&one.iops));
    }
    if csv {
        print_csv(&rows, &rounds);
        return;
    }
    println!(
        "{:NAME$} {:>8} {:>8} {:>7} {:>9} {:>8} {:>6} {:>6} {:>6} {:>6} {:>8}",
        "",
        "KIOPS",
        "median",
        "MB/s",
        "mean, us",
        "CPU, us",
        "host",
        "target",
        "empty",
        "switch",
        "SPDK"
    );
    for (row, rounds) in rows.iter().zip(&rounds) {
        print_row(row, rounds);
    }
    if before.is_some() {
        println!(
            "\n{:NAME$} {:>8} {:>8} {:>8} {:>8} {:>6}",
            "beside --before", "KIOPS", "median", "KIOPS", "median", "ratio"
        );
        for ((row, rounds), turns) in rows.iter().zip(&rounds).zip(&turns) {
            print_beside(row, rounds, turns);
        }
    }
    print_shares(&rows, &rounds);
}

fn print_csv(rows: &[Row], rounds: &[Vec<Measured>]) {
    println!("{}", rows::HEADER);
    for (row, rounds) in rows.iter().zip(rounds) {
        let (scale, unit) =
            if row.len < 1 << 20 { (1.0, "IOPS") } else { (row.len as f64 / 1e6, "MB/s") };
        let work = format!("nvme/tcp {}", row.name);
        println!(
            "{}",
            rows::Row::of_rates(work, rounds.iter().map(|round| round.iops * scale), unit)
        );
    }
}

/// How much of their bounds rows reach, and what an append costs.
fn print_shares(rows: &[Row], rounds: &[Vec<Measured>]) {
    // Best and median.
    let iops = |name: &str| {
        let rounds = &rounds[rows.iter().position(|row| row.name == name)?];
        Some([rounds[0].iops, rounds[rounds.len() / 2].iops])
    };
    println!("\n{:NAME$} {:>8} {:>8}", "% of the bare socket", "best", "median");
    for row in rows {
        if let (Some(reached), Some(bound)) = (iops(row.name), row.bound.and_then(iops)) {
            let [best, median] = [0, 1].map(|at| reached[at] / bound[at] * 100.0);
            println!("{:NAME$} {best:8.0} {median:8.0}", row.name);
        }
    }
    if let (Some([write, _]), Some([append, _])) = (iops(WRITE), iops(APPEND)) {
        println!("an append takes {:.2} of the time of a write", write / append);
    }
}
