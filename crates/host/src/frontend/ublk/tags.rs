//! Whose turn it is with each tag of a queue.
//!
//! ```text
//!           fetch                  a command ends, 0
//!  idle ------------->  driver  ------------------->  server
//!                         | ^                            |
//!   a command ends,       | +----------------------------+
//!   aborted               v           commit and fetch
//!                       gone
//! ```
//!
//! Takes ends of commands; gives what they mean. Keeps true: a tag has one command with the driver
//! or one request with the server, and each request is committed once.
use super::abi::io;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// No command yet.
    Idle,
    /// A command waits for a request.
    Driver,
    /// A request waits for its commit.
    Server,
    /// Nothing comes any more.
    Gone,
}

/// What the end of a command means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// The tag has a request.
    Request,
    /// The tag gets no more requests.
    Gone,
}

/// The driver does not do as it should.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// A tag that the queue does not have.
    #[error("tag {0}, and the queue has {1}")]
    NoSuchTag(u64, usize),
    /// A command of the tag has ended already.
    #[error("tag {0}: a command ended that was not out")]
    NotOut(u16),
    /// A command was refused.
    #[error("tag {tag}: the driver refused a command: {}", std::io::Error::from_raw_os_error(-.result))]
    Refused {
        /// The command's.
        tag: u16,
        /// What it ended with.
        result: i32,
    },
}

/// The tags of a queue.
#[derive(Debug)]
pub struct Tags {
    turns: Vec<Turn>,
    /// How many are the server's.
    served: usize,
    /// How many are gone.
    gone: usize,
}

impl Tags {
    /// So many tags, none with a command.
    pub fn new(depth: u16) -> Self {
        Tags { turns: vec![Turn::Idle; usize::from(depth)], served: 0, gone: 0 }
    }

    /// The tags that are to be fetched first: all of them.
    pub fn fetch(&mut self) -> impl Iterator<Item = u16> {
        let depth = u16::try_from(self.turns.len()).expect("as many as it was made with");
        assert!(self.turns.iter().all(|turn| *turn == Turn::Idle), "tags are fetched once");
        self.turns.fill(Turn::Driver);
        0..depth
    }

    /// A command has ended.
    ///
    /// # Errors
    /// The driver refused it, or it is none that is out. The queue cannot go on.
    pub fn arrived(&mut self, tag: u64, result: i32) -> Result<(u16, Arrival), Broken> {
        let depth = self.turns.len();
        let index = usize::try_from(tag).unwrap_or(usize::MAX);
        let turn = self.turns.get_mut(index).ok_or(Broken::NoSuchTag(tag, depth))?;
        let tag = u16::try_from(tag).expect("the queue has it");
        if *turn != Turn::Driver {
            return Err(Broken::NotOut(tag));
        }
        match result {
            io::RES_OK => {
                *turn = Turn::Server;
                self.served += 1;
                Ok((tag, Arrival::Request))
            }
            io::RES_ABORT => {
                *turn = Turn::Gone;
                self.gone += 1;
                Ok((tag, Arrival::Gone))
            }
            _ => Err(Broken::Refused { tag, result }),
        }
    }

    /// A request is committed, and the next one is fetched.
    ///
    /// # Panics
    /// If the tag has no request: it would be a request that completes twice.
    pub fn commit(&mut self, tag: u16) {
        let turn = &mut self.turns[usize::from(tag)];
        assert_eq!(*turn, Turn::Server, "tag {tag} has a request to commit");
        *turn = Turn::Driver;
        self.served -= 1;
    }

    /// Requests that wait for their commit.
    pub fn served(&self) -> usize {
        self.served
    }

    /// Whether nothing comes any more.
    pub fn is_over(&self) -> bool {
        self.gone == self.turns.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tag_goes_back_and_forth_until_it_is_aborted() {
        let mut tags = Tags::new(2);
        assert_eq!(tags.fetch().collect::<Vec<_>>(), [0, 1]);
        for _ in 0..3 {
            assert_eq!(tags.arrived(1, io::RES_OK), Ok((1, Arrival::Request)));
            assert_eq!(tags.served(), 1);
            tags.commit(1);
        }
        assert_eq!(tags.served(), 0);
        assert_eq!(tags.arrived(1, io::RES_ABORT), Ok((1, Arrival::Gone)));
        assert!(!tags.is_over());
        assert_eq!(tags.arrived(0, io::RES_ABORT), Ok((0, Arrival::Gone)));
        assert!(tags.is_over());
    }

    #[test]
    fn what_the_driver_should_not_do_is_an_error() {
        let mut tags = Tags::new(2);
        assert_eq!(tags.arrived(0, 0), Err(Broken::NotOut(0)), "not yet fetched");
        assert_eq!(tags.fetch().count(), 2);
        assert_eq!(tags.arrived(2, 0), Err(Broken::NoSuchTag(2, 2)));
        assert_eq!(tags.arrived(u64::MAX, 0), Err(Broken::NoSuchTag(u64::MAX, 2)));
        assert_eq!(tags.arrived(0, 0), Ok((0, Arrival::Request)));
        assert_eq!(tags.arrived(0, 0), Err(Broken::NotOut(0)), "it is the server's");
        let refused = tags.arrived(1, -22).expect_err("EINVAL");
        assert!(refused.to_string().contains("tag 1: the driver refused a command: Invalid"));
        // One that asks for another way to bring data, which was not agreed on.
        assert!(matches!(tags.arrived(1, 1), Err(Broken::Refused { tag: 1, result: 1 })));
    }

    #[test]
    #[should_panic(expected = "tag 0 has a request to commit")]
    fn request_is_not_committed_twice() {
        let mut tags = Tags::new(1);
        tags.fetch().count();
        tags.arrived(0, 0).expect("a request");
        tags.commit(0);
        tags.commit(0);
    }
}
