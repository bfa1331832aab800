//! Probes for the torture tests. Without `--cfg torture` the macros expand to `false` or to nothing.
//!
//! - `mutant!(Name)` is a bug that can be switched on, to prove that the tests would find it.
//! - `mark!(Name if condition)` marks a rare path as reached, to prove that the tests cover it.
//! - `contended!()` pretends now and then that another thread holds a lock, which never happens where
//!   one thread drives all channels.

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
