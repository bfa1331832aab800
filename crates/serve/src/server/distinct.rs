//! What the parts of a device have in common, taken once.
use std::sync::Arc;

/// Each of these once, although several devices may have it.
pub fn distinct<'a, T: 'a>(all: impl Iterator<Item = &'a Arc<T>>) -> Vec<&'a Arc<T>> {
    let mut found: Vec<&Arc<T>> = Vec::new();
    for one in all {
        if !found.iter().any(|other| Arc::ptr_eq(one, other)) {
            found.push(one);
        }
    }
    found
}
