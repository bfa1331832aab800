//! Misspelt names.

/// Longer texts are no misspelling, and comparing them would be slow.
const LONGEST: usize = 64;

/// The name that is nearest to `found`, if one is near: at most a third of the letters are wrong, or
/// one of two. Otherwise the only name of which `found` is a whole word.
///
/// ```
/// use zonal_blk::nearest;
///
/// assert_eq!(nearest("kybre", ["none", "bfq", "kyber"]), Some("kyber"));
/// assert_eq!(nearest("deadline", ["none", "bfq", "mq-deadline"]), Some("mq-deadline"));
/// assert_eq!(nearest("cfq2000", ["none", "bfq", "kyber"]), None);
/// ```
pub fn nearest<'a>(found: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if found.chars().count() > LONGEST {
        return None;
    }
    let names: Vec<&str> = names.into_iter().collect();
    misspelt(found, &names).or_else(|| {
        let has_word = |name: &&&str| name.split(['-', '_']).any(|word| word == found);
        let mut with_word = names.iter().filter(has_word);
        with_word.next().filter(|_| with_word.next().is_none()).copied()
    })
}

/// The name that differs from `found` in the fewest letters, if these are few.
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
        .min_by_key(|&(edits, _)| edits)
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
    fn text_is_no_misspelling() {
        let long = "x".repeat(LONGEST + 1);
        assert_eq!(nearest(&long, [&*long]), None);
    }
}
