//! The program from outside: what it prints and how it exits.
mod bad_input;
mod clocks;
mod data;
mod documents;
mod flows;
mod models;
mod support;
mod traces;
