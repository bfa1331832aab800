//! Points at which a torture test gets inside the layer. Without `--cfg torture` they are
//! nothing: the macros expand to `false` or to nothing.
//!
//! - `mutant!(Name)` is a mistake that can be switched on, to prove that the test would find it.
//! - `mark!(Name if condition)` notes that a rare path was reached, to prove that the test goes
//!   there.
//! - `contended!()` says now and then that another thread holds a lock, which it never does where
//!   one thread plays all.

#[cfg(torture)]
macro_rules! mutant {
    ($name:ident) => {
        $crate::probe::is_on($crate::probe::Mutant::$name)
    };
}
#[cfg(not(torture))]
macro_rules! mutant {
    ($name:ident) => {
        false
    };
}

#[cfg(torture)]
macro_rules! mark {
    ($name:ident if $reached:expr) => {
        if $reached {
            $crate::probe::reach($crate::probe::Mark::$name);
        }
    };
}
#[cfg(not(torture))]
macro_rules! mark {
    ($name:ident if $reached:expr) => {};
}

#[cfg(torture)]
macro_rules! contended {
    () => {
        $crate::probe::is_contended()
    };
}
#[cfg(not(torture))]
macro_rules! contended {
    () => {
        false
    };
}

pub(crate) use {contended, mark, mutant};

#[cfg(torture)]
mod switched;
#[cfg(torture)]
pub use switched::*;
