//! Workloads of file operations, and the judge of what a loss of power has left of them.
use proptest::prelude::*;
use std::collections::BTreeMap;
use zonal_crash::files::{Entry, Found, Inode, Tree, Workload, generate, judge, judge_all, play};

/// A tree as the files of a file system.
fn files_of(workload: &Workload, tree: &Tree) -> Found {
    let entry = |number: u8| match tree.inode(number).expect("it has a name") {
        Inode::Directory => Entry::Directory,
        Inode::Symlink(text) => Entry::Symlink(text.clone()),
        Inode::File { bytes, attributes } => {
            let byte = |(at, &writer)| workload.byte(writer, at);
            let value = |(name, &number): (&String, &u8)| {
                (name.clone(), (0..24).map(|at| workload.byte(number, at)).collect())
            };
            Entry::File {
                inode: u64::from(number),
                data: bytes.iter().enumerate().map(byte).collect(),
                attributes: attributes.iter().map(value).collect(),
            }
        }
    };
    Found(tree.names().map(|(name, number)| (name.to_owned(), entry(number))).collect())
}

fn workload(ops: &str) -> Workload {
    let lines: Vec<&str> = ops.split("; ").collect();
    Workload::parse("w", &lines.join("\n")).expect("a workload")
}

/// Judges a later state as if the power had failed after operation `returned`.
fn judge_state(workload: &Workload, returned: usize, state: usize) -> Result<(), String> {
    judge(workload, returned, &files_of(workload, &workload.states()[state]))
}

#[test]
fn a_workload_is_read_as_it_was_written() {
    for seed in 0..500 {
        let workload = generate(seed);
        let text = workload.to_string();
        assert_eq!(Workload::parse(workload.name(), &text).as_ref(), Ok(&workload), "{text}");
        let persists = workload.ops().iter().filter(|op| op.persists()).count();
        assert!(persists >= 1, "{text}");
    }
}

#[test]
fn errors_of_a_workload_name_its_line() {
    for (text, expected) in [
        ("create foo\ncreat bar", "w, line 2: found `creat bar`, expected create"),
        ("create ../foo", "w, line 1: found `..`, expected a name"),
        ("create foo\nwrite foo 0 0", "w, line 2: found bytes 0 to 0, expected some"),
        ("create foo\nwrite foo 1 4096 direct", "w, line 2: found `write foo 1 4096 direct`"),
        ("create foo\ntruncate foo 4M", "w, line 2: found `4M`, expected a number of bytes"),
        ("unlink foo", "w, line 1: unlink foo: no file or symbolic link `foo`"),
        ("create A/foo", "w, line 1: create A/foo: no directory `A`"),
        ("create foo\nwrite foo 0 9 mapped", "w, line 2: write foo 0 9 mapped: found a mapping"),
        ("mkdir A\ncreate A/foo\nrmdir A", "w, line 3: rmdir A: `A/foo` is in it"),
        ("refused refused sync", "w, line 1: found `refused refused sync`"),
    ] {
        let error = Workload::parse("w", text).expect_err(text).to_string();
        assert!(error.starts_with(expected), "{text}: {error}");
    }
    let long = "sync\n".repeat(251);
    let error = Workload::parse("w", &long).expect_err("too long").to_string();
    assert_eq!(error, "w, line 251: found 251 operations, expected at most 250");
}

#[test]
fn what_was_made_durable_has_to_be_there() {
    // The operations, the number of the last that has returned, the state that is found, and the complaint.
    for (ops, returned, found, expected) in [
        ("create foo; fsync foo; sync", 2, 0, "foo: it is not there"),
        ("create foo; write foo 0 9; fsync foo; sync", 3, 1, "foo: found 0 bytes, expected 9"),
        (
            "create foo; write foo 0 9; sync; write foo 0 9; fdatasync foo",
            5,
            3,
            "foo: byte 0: found \
            what operation 2 wrote, expected what operation 4 wrote",
        ),
        ("create foo; sync; unlink foo; sync", 4, 2, "foo: found a file, expected nothing"),
        (
            "mkdir A; create A/foo; sync; unlink A/foo; fsync A",
            5,
            3,
            "A/foo: found a file, expected",
        ),
        (
            "create foo; setxattr foo one; fsync foo",
            3,
            1,
            "foo: extended attribute user.one: found none",
        ),
        ("create foo; sync; rename foo bar; fsync bar", 4, 2, "bar: it is not there"),
        ("create foo; link foo bar; fsync foo", 3, 1, "bar: it is not there"),
        ("mkdir A; create A/foo; fsync A/foo", 3, 0, "A: it is not there"),
        (
            "create foo; write foo 0 9; sync; truncate foo 4; fsync foo",
            5,
            3,
            "foo: found 9 bytes, expected 4",
        ),
        ("symlink foo bar; sync", 2, 0, "bar: it is not there"),
    ] {
        let workload = workload(ops);
        let why = judge_state(&workload, returned, found).expect_err(ops);
        assert!(why.starts_with(expected), "{ops}: {why}");
        let last = workload.ops().len();
        assert_eq!(judge_state(&workload, returned, last), Ok(()), "{ops}");
    }
}

#[test]
fn a_rename_is_atomic() {
    let workload = workload("create foo; write foo 0 9; sync; rename foo bar; sync");
    for state in [3, 4] {
        assert_eq!(judge_state(&workload, 3, state), Ok(()));
    }
    let before = files_of(&workload, &workload.states()[3]);
    let neither = judge(&workload, 3, &Found::default());
    assert_eq!(neither, Err("the file of `create foo` has none of its names".to_owned()));
    let mut both = before.clone();
    both.0.insert("bar".to_owned(), before.0["foo"].clone());
    assert_eq!(judge(&workload, 3, &both), Err("bar and foo: found names of one file".to_owned()));
}

#[test]
fn a_directory_is_renamed_with_what_is_in_it() {
    let workload =
        workload("mkdir A; create A/foo; mkdir B; sync; rename A B/A; create A; fsync B; sync");
    for state in [5, 6, 8] {
        assert_eq!(judge_state(&workload, 7, state), Ok(()), "{state}");
    }
    let lost = judge_state(&workload, 7, 4).expect_err("B is synced");
    assert_eq!(lost, "B/A: it is not there");
    let mut empty = files_of(&workload, &workload.states()[7]);
    empty.0.remove("B/A/foo");
    let none = "the file of `create A/foo` has none of its names";
    assert_eq!(judge(&workload, 7, &empty), Err(none.to_owned()));
    for (text, expected) in [
        ("mkdir A\nrename A A/B", "w, line 2: rename A A/B: `A/B` would be in itself"),
        ("mkdir A\nmkdir B\nrename A B", "w, line 3: rename A B: `B` exists"),
        ("mkdir A\nrename A B/C", "w, line 2: rename A B/C: no directory `B`"),
    ] {
        let error = Workload::parse("w", text).expect_err(text).to_string();
        assert_eq!(error, expected);
    }
}

#[test]
fn what_nobody_wrote_is_not_there() {
    let workload = workload("create foo; write foo 0 9000; fsync foo; write foo 9000 4000; sync");
    let mut found = files_of(&workload, &workload.states()[4]);
    found.0.insert("bar".to_owned(), Entry::Directory);
    let why = judge(&workload, 3, &found).expect_err("a directory");
    assert_eq!(why, "bar: found a directory, expected nothing of that name");
    found.0.remove("bar");
    let Some(Entry::File { data, .. }) = found.0.get_mut("foo") else { unreachable!() };
    // Zeroes may be where the file ended, but no other data.
    data[9000..].fill(0);
    assert_eq!(judge(&workload, 3, &found), Ok(()));
    let Some(Entry::File { data, .. }) = found.0.get_mut("foo") else { unreachable!() };
    data[9000..].fill(7);
    let why = judge(&workload, 3, &found).expect_err("other data");
    let expected = "foo: byte 9000: found other data, expected zeroes or what operation 4 wrote";
    assert_eq!(why, expected);
}

proptest! {
    /// Every state from the last durable one up to the next may be there.
    #[test]
    fn whole_states_that_may_be_there_pass(seed: u64, choice: prop::sample::Index) {
        let workload = generate(seed);
        let persists = (1..).zip(workload.ops()).filter(|(_, op)| op.persists());
        let returned: Vec<usize> = persists.map(|(number, _)| number).collect();
        let at = choice.index(returned.len());
        let next = returned.get(at + 1).copied().unwrap_or(workload.ops().len());
        for state in returned[at]..=next {
            prop_assert_eq!(judge_state(&workload, returned[at], state), Ok(()), "{}", workload);
        }
    }

    /// After the sync at the end each single change is seen.
    #[test]
    fn each_change_of_what_is_durable_is_seen(seed: u64, choice: prop::sample::Index, kind in 0..4) {
        let workload = generate(seed);
        let last = workload.ops().len();
        let mut found = files_of(&workload, &workload.states()[last]);
        prop_assume!(!found.0.is_empty());
        let names: Vec<String> = found.0.keys().cloned().collect();
        let name = &names[choice.index(names.len())];
        match (kind, found.0.get_mut(name).expect("a name")) {
            (0, _) => drop(found.0.remove(name)),
            (1, Entry::File { data, .. }) => data.push(1),
            (2, Entry::File { data, .. }) if !data.is_empty() => {
                let at = choice.index(data.len());
                data[at] ^= 0x80;
            }
            (_, Entry::Symlink(text)) => text.push('x'),
            (_, entry) => {
                let directory = *entry == Entry::Directory;
                *entry = if directory { Entry::Other } else { Entry::Directory };
            }
        }
        prop_assert!(judge(&workload, last, &found).is_err(), "{name} of {workload}");
    }
}

#[test]
fn workloads_are_played_and_their_files_are_as_they_should_be() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut marks = BTreeMap::new();
    let mut played = Vec::new();
    for seed in 0..20 {
        let mut mark = |text: &str| {
            let (name, number) = text.split_once(' ').expect("NAME NUMBER");
            marks.insert(name.to_owned(), number.parse().expect("a number"));
            Ok(())
        };
        let workload = play(&generate(seed), directory.path(), &mut mark).expect("it is played");
        let last = workload.ops().len();
        assert_eq!(marks[workload.name()], last, "the sync at the end has a mark");
        played.push(workload);
    }
    judge_all(&played, directory.path(), &marks).expect("nothing is lost");
    let lost = played
        .iter()
        .find(|workload| workload.states().last().expect("a state").number("A").is_some());
    let lost = lost.expect("most have a directory").name();
    std::fs::remove_dir_all(directory.path().join(lost)).expect("it is there");
    let why = judge_all(&played, directory.path(), &marks).expect_err("a directory is gone");
    assert!(why.contains(lost), "{why}");
    marks.remove(lost);
    judge_all(&played, directory.path(), &marks).expect("it was not durable");
    std::fs::create_dir_all(directory.path().join(lost).join("A")).expect("space");
    let why =
        judge_all(&played, directory.path(), &marks).expect_err("a name of no durable directory");
    assert_eq!(why, format!("{lost}/A: its directory was not durable"));
}
