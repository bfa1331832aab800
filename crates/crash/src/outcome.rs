//! The events of a log, each start of a command with how the command ended.
use crate::log::{Command, Event, Events};
use std::collections::{HashMap, VecDeque};
use zonal_blk::{Sector, Status};

/// Events that are read ahead to find the end of a command. What takes longer has an unknown outcome.
const READ_AHEAD: usize = 1 << 16;

/// How a command ended, or will end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is not in the log.
    Unknown,
    /// It succeeded; an append landed here.
    Done(Sector),
    /// It failed, and counts as not executed.
    Failed,
}

/// An event with what is known about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplayStep {
    /// A command was started, which ends with this outcome.
    Started(u64, Command, Outcome),
    /// A command completed so.
    Ended(u64, Outcome),
    /// A mark.
    Mark(String),
}

/// Reads the steps of a log.
pub struct Steps {
    events: Events,
    ahead: VecDeque<Event>,
    /// Outcomes of the commands whose ends were read ahead.
    outcomes: HashMap<u64, Outcome>,
}

impl Steps {
    /// The steps of these events.
    pub fn new(events: Events) -> Self {
        Steps { events, ahead: VecDeque::new(), outcomes: HashMap::new() }
    }

    /// The events, for how they ended.
    pub fn events(&self) -> &Events {
        &self.events
    }

    fn read_ahead(&mut self) -> bool {
        let Some(event) = self.events.next() else { return false };
        if let Event::Ended { id, status, landed } = event {
            let outcome =
                if status == Status::Ok { Outcome::Done(landed) } else { Outcome::Failed };
            self.outcomes.insert(id, outcome);
        }
        self.ahead.push_back(event);
        true
    }

    fn outcome(&mut self, id: u64) -> Outcome {
        while !self.outcomes.contains_key(&id) {
            if self.ahead.len() >= READ_AHEAD || !self.read_ahead() {
                return Outcome::Unknown;
            }
        }
        self.outcomes[&id]
    }
}

impl Iterator for Steps {
    type Item = ReplayStep;

    fn next(&mut self) -> Option<ReplayStep> {
        if self.ahead.is_empty() && !self.read_ahead() {
            return None;
        }
        Some(match self.ahead.pop_front()? {
            Event::Started { id, command } => {
                let outcome = self.outcome(id);
                ReplayStep::Started(id, command, outcome)
            }
            Event::Ended { id, .. } => {
                let outcome = self.outcomes.remove(&id);
                ReplayStep::Ended(id, outcome.unwrap_or(Outcome::Unknown))
            }
            Event::Mark(text) => ReplayStep::Mark(text),
        })
    }
}
