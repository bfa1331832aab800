//! The program: its output and its exit codes.
mod bad_input;
mod clocks;
mod config;
mod crash;
mod data;
mod documents;
mod drives;
mod flows;
mod formats;
mod image_tool;
mod interrupts;
mod io_trace;
mod job_options;
mod models;
mod oracles;
mod personas;
mod reports;
mod reproduce;
mod schedulers;
#[path = "../signals/mod.rs"]
mod signals;
mod support;
mod sweep;
mod torture;
mod traces;
mod view;
mod zone;
