//! Misspelt names.

/// Shorter texts are the beginning of too much.
const SHORTEST_BEGINNING: usize = 3;

/// Longer texts are no misspelling, and comparing them would be slow.
const LONGEST: usize = 64;

/// The name that is nearest to `found`, if one is near: at most a third of the letters are wrong, or
/// one of two. Otherwise the only name of which `found` is a whole word, or the name that begins with it if
/// all that do begin with that one.
///
/// ```
/// use zonal_blk::nearest;
///
/// assert_eq!(nearest("kybre", ["none", "bfq", "kyber"]), Some("kyber"));
/// assert_eq!(nearest("deadline", ["none", "bfq", "mq-deadline"]), Some("mq-deadline"));
/// assert_eq!(nearest("zone_cap", ["zones", "zone_size", "zone_capacity"]), Some("zone_capacity"));
/// assert_eq!(nearest("cfq2000", ["none", "bfq", "kyber"]), None);
/// ```
pub fn nearest<'a>(found: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if found.chars().count() > LONGEST {
        return None;
    }
    let names: Vec<&str> = names.into_iter().collect();
    misspelt(found, &names).or_else(|| with_word(found, &names)).or_else(|| begun(found, &names))
}

/// The only name of which `found` is a whole word.
fn with_word<'a>(found: &str, names: &[&'a str]) -> Option<&'a str> {
    let has_word = |name: &&&str| name.split(['-', '_']).any(|word| word == found);
    let mut with_word = names.iter().filter(has_word);
    with_word.next().filter(|_| with_word.next().is_none()).copied()
}

/// The name that begins with `found`, and with which all others begin that do.
fn begun<'a>(found: &str, names: &[&'a str]) -> Option<&'a str> {
    let all = || names.iter().copied().filter(|name| name.starts_with(found));
    let shortest = all().min_by_key(|name| name.len())?;
    let is_one = found.len() >= SHORTEST_BEGINNING && all().all(|name| name.starts_with(shortest));
    is_one.then_some(shortest)
}

/// The name that differs from `found` in the fewest letters, if these are few. Of several it is one that begins
/// with it, else one that is as long, else one that is its beginning.
fn misspelt<'a>(found: &str, names: &[&'a str]) -> Option<&'a str> {
    let letters = found.chars().count();
    // With more than a third of the letters wrong it is another word, not a typing error.
    let limit = (letters / 3).max(usize::from(letters > 1));
    names
        .iter()
        // The distance takes time in the product of the lengths: skip what cannot be close.
        .filter(|known| known.chars().count().abs_diff(letters) <= limit)
        .map(|known| (edits(found, known), known))
        .filter(|&(edits, _)| edits <= limit)
        .min_by_key(|&(edits, known)| {
            let is_as_long = known.chars().count() == letters;
            (edits, !known.starts_with(found), !is_as_long, !found.starts_with(*known))
        })
        .map(|(_, known)| *known)
}

/// The end of an error message about a misspelt name: the one that is nearest to it, if one is near.
///
/// ```
/// use zonal_blk::did_you_mean;
///
/// assert_eq!(did_you_mean("kybre", ["none", "bfq", "kyber"]), ", did you mean `kyber`?");
/// assert_eq!(did_you_mean("cfq2000", ["none", "bfq", "kyber"]), "");
/// ```
pub fn did_you_mean<'a>(found: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    nearest(found, names).map_or_else(String::new, |name| format!(", did you mean `{name}`?"))
}

/// The same for the first word of `found` that is none of `expected`, the text of an error message that says
/// what is; there, words with capitals stand for others.
///
/// ```
/// use zonal_blk::did_you_mean_of;
///
/// assert_eq!(did_you_mean_of("ofline", "FIRST[-LAST] read-only|offline|mend"), ", did you mean `offline`?");
/// ```
pub fn did_you_mean_of(found: &str, expected: &str) -> String {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let is_literal = |word: &&str| {
        let begins = word.starts_with(|c: char| c.is_ascii_lowercase() || c == '-');
        let has_capitals = word.contains(|c: char| c.is_ascii_uppercase());
        word.len() > 2 && *word != "and" && begins && !has_capitals
    };
    let words: Vec<&str> = expected.split(|c| !is_part(c)).filter(is_literal).collect();
    let unknown = found.split([' ', '=', ',']).filter(|word| !words.contains(word));
    let mut hints = unknown.map(|word| did_you_mean(word, words.iter().copied()));
    hints.find(|hint| !hint.is_empty()).unwrap_or_default()
}

/// The edit distance between two names: insertions, deletions, replacements and swaps of neighbours.
fn edits(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().collect();
    let b: Vec<char> = b.chars().collect();
    // Rows of the table of distances between prefixes of `a` and of `b`.
    let mut before_last = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replace = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = replace.min(last[j] + 1).min(row[j - 1] + 1);
            let swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if swapped {
                let swap: &Vec<usize> = &before_last;
                least = least.min(swap[j - 2] + 1);
            }
            row.push(least);
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_typing_error_counts_one() {
        assert_eq!(edits("runtime", "runtime"), 0);
        assert_eq!(edits("runtme", "runtime"), 1);
        assert_eq!(edits("runntime", "runtime"), 1);
        assert_eq!(edits("rumtime", "runtime"), 1);
        assert_eq!(edits("rutnime", "runtime"), 1);
        assert_eq!(edits("", "bs"), 2);
        assert_eq!(edits("bs", ""), 2);
    }

    #[test]
    fn a_word_of_one_name_only_means_that_name() {
        let names = ["zone_size", "zone_capacity", "max_open"];
        assert_eq!(nearest("capacity", names), Some("zone_capacity"));
        assert_eq!(nearest("zone", names), None, "it is a word of two");
        assert_eq!(nearest("cap", names), None, "it is no word");
    }

    #[test]
    fn the_beginning_of_one_name_means_that_name() {
        let names = ["smr-30t", "smr-30t-mpi3mr", "zns-1t"];
        assert_eq!(nearest("smr", names), Some("smr-30t"), "the other begins with it");
        assert_eq!(nearest("zns", names), Some("zns-1t"));
        assert_eq!(nearest("sm", names), None, "it is too short");
        assert_eq!(nearest("smr", ["smr-30t", "smr-20t"]), None, "there are two");
    }

    #[test]
    fn of_names_that_are_as_near_one_that_was_not_finished_or_is_as_long_is_meant() {
        assert_eq!(nearest("stats", ["status", "stat"]), Some("stat"));
        assert_eq!(nearest("statu", ["stat", "status"]), Some("status"));
        assert_eq!(nearest("crc32d", ["crc32", "crc32c"]), Some("crc32c"));
        assert_eq!(nearest("sttaus", ["stat", "status"]), Some("status"));
    }

    #[test]
    fn words_that_stand_for_others_are_not_meant() {
        let expected = "uid=N, perm=OCTAL, aggr_cnv or errors=remount-ro|repair";
        assert_eq!(did_you_mean_of("errrors", expected), ", did you mean `errors`?");
        assert_eq!(did_you_mean_of("errors=repiar", expected), ", did you mean `repair`?");
        assert_eq!(did_you_mean_of("OCTLA", expected), "");
        assert_eq!(did_you_mean_of("16385", "at most 16384 cells"), "");
    }

    #[test]
    fn text_is_no_misspelling() {
        let long = "x".repeat(LONGEST + 1);
        assert_eq!(nearest(&long, [&*long]), None);
    }
}
