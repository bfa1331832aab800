//! The job generator judged by fio: random jobs that both run, compared.
//!
//! A case is drawn from a seed ([`draw`]), written as a job file for each ([`jobs`]), run by both on a
//! device of the same geometry ([`programs`]), and what they did ([`results`]) is compared feature by feature ([`features`], [`compare`]). What differs and is
//! not on purpose ([`deliberate`]) is made small ([`shrink`]) and printed as a job file. #![forbid(unsafe_code)]

pub mod case;
pub mod compare;
pub mod deliberate;
pub mod draw;
pub mod features;
pub mod jobs;
#[cfg(torture)]
pub mod mistakes;
pub mod observe;
pub mod programs;
pub mod recorded;
pub mod results;
pub mod shrink;
