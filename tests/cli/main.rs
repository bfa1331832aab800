//! The program from outside: what it prints and how it exits.
mod bad_input;
mod clocks;
mod documents;
mod flows;
mod support;
mod traces;
