//! The program: its output and its exit codes.
mod bad_input;
mod clocks;
mod crash;
mod data;
mod documents;
mod flows;
mod interrupts;
mod job_options;
mod models;
mod reports;
mod reproduce;
mod schedulers;
mod support;
mod sweep;
mod torture;
mod traces;
mod zone;
