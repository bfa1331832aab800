//! Mistakes of the job generator that can be switched on, to prove that the comparison with fio would find
//! them. Without `--cfg torture` there are none.

#[cfg(torture)]
macro_rules! mistake {
    ($name:ident) => {
        $crate::mistake::is_on($crate::mistake::Mistake::$name)
    };
}
#[cfg(not(torture))]
macro_rules! mistake {
    ($name:ident) => {
        false
    };
}

pub(crate) use mistake;

#[cfg(torture)]
mod switched;
#[cfg(torture)]
pub use switched::*;
