//! How unlike two names are.

/// Letters to insert, delete, replace or swap with their neighbour to make one name of the other.
pub(crate) fn edits(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().collect();
    let b: Vec<char> = b.chars().collect();
    // Rows of the table of distances between beginnings of `a` and of `b`.
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
    fn each_slip_counts_one() {
        assert_eq!(edits("runtime", "runtime"), 0);
        assert_eq!(edits("runtme", "runtime"), 1);
        assert_eq!(edits("runntime", "runtime"), 1);
        assert_eq!(edits("rumtime", "runtime"), 1);
        assert_eq!(edits("rutnime", "runtime"), 1);
        assert_eq!(edits("", "bs"), 2);
        assert_eq!(edits("bs", ""), 2);
    }
}
