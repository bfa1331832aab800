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
enum TagState {
    /// No command yet.
    Idle,
    /// A command waits for a request.
    Driver,
    /// A request waits for its commit.
    Server,
    /// Nothing comes any more.
    Aborted,
}

/// What the end of a command means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchResult {
    /// The tag has a request.
    Request,
    /// The tag gets no more requests.
    Aborted,
}

/// The driver does not do as it should.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// A tag that the queue does not have.
    #[error("tag {0}, and the queue has {1}")]
    NoSuchTag(u64, usize),
    /// A command of the tag has ended already.
    #[error("tag {0}: a command ended that was not out")]
    NotFetched(u16),
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
    states: Vec<TagState>,
    /// How many are the server's.
    served: usize,
    /// How many are gone.
    gone: usize,
}

impl Tags {
    /// So many tags, none with a command.
    pub fn new(depth: u16) -> Self {
        Tags { states: vec![TagState::Idle; usize::from(depth)], served: 0, gone: 0 }
    }

    /// The tags that are to be fetched first: all of them.
    pub fn fetch(&mut self) -> impl Iterator<Item = u16> {
        let depth = u16::try_from(self.states.len()).expect("as many as it was made with");
        assert!(self.states.iter().all(|state| *state == TagState::Idle), "tags are fetched once");
        self.states.fill(TagState::Driver);
        0..depth
    }

    /// A command has ended.
    ///
    /// # Errors
    /// The driver refused it, or it is none that is out. The queue cannot go on.
    pub fn on_completion(
        &mut self,
        tag: u64,
        result: i32,
    ) -> Result<(u16, FetchResult), ProtocolError> {
        let depth = self.states.len();
        let index = usize::try_from(tag).unwrap_or(usize::MAX);
        let state = self.states.get_mut(index).ok_or(ProtocolError::NoSuchTag(tag, depth))?;
        let tag = u16::try_from(tag).expect("the queue has it");
        if *state != TagState::Driver {
            return Err(ProtocolError::NotFetched(tag));
        }
        match result {
            io::RES_OK => {
                *state = TagState::Server;
                self.served += 1;
                Ok((tag, FetchResult::Request))
            }
            io::RES_ABORT => {
                *state = TagState::Aborted;
                self.gone += 1;
                Ok((tag, FetchResult::Aborted))
            }
            _ => Err(ProtocolError::Refused { tag, result }),
        }
    }

    /// A request is committed, and the next one is fetched.
    ///
    /// # Panics
    /// If the tag has no request: it would be a request that completes twice.
    pub fn commit(&mut self, tag: u16) {
        let state = &mut self.states[usize::from(tag)];
        assert_eq!(*state, TagState::Server, "tag {tag} has a request to commit");
        *state = TagState::Driver;
        self.served -= 1;
    }

    /// Requests that wait for their commit.
    pub fn served(&self) -> usize {
        self.served
    }

    /// Whether nothing comes any more.
    pub fn all_aborted(&self) -> bool {
        self.gone == self.states.len()
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
            assert_eq!(tags.on_completion(1, io::RES_OK), Ok((1, FetchResult::Request)));
            assert_eq!(tags.served(), 1);
            tags.commit(1);
        }
        assert_eq!(tags.served(), 0);
        assert_eq!(tags.on_completion(1, io::RES_ABORT), Ok((1, FetchResult::Aborted)));
        assert!(!tags.all_aborted());
        assert_eq!(tags.on_completion(0, io::RES_ABORT), Ok((0, FetchResult::Aborted)));
        assert!(tags.all_aborted());
    }

    #[test]
    fn what_the_driver_should_not_do_is_an_error() {
        let mut tags = Tags::new(2);
        assert_eq!(tags.on_completion(0, 0), Err(ProtocolError::NotFetched(0)), "not yet fetched");
        assert_eq!(tags.fetch().count(), 2);
        assert_eq!(tags.on_completion(2, 0), Err(ProtocolError::NoSuchTag(2, 2)));
        assert_eq!(tags.on_completion(u64::MAX, 0), Err(ProtocolError::NoSuchTag(u64::MAX, 2)));
        assert_eq!(tags.on_completion(0, 0), Ok((0, FetchResult::Request)));
        assert_eq!(
            tags.on_completion(0, 0),
            Err(ProtocolError::NotFetched(0)),
            "it is the server's"
        );
        let refused = tags.on_completion(1, -22).expect_err("EINVAL");
        assert!(refused.to_string().contains("tag 1: the driver refused a command: Invalid"));
        // One that asks for another way to bring data, which was not agreed on.
        assert!(matches!(
            tags.on_completion(1, 1),
            Err(ProtocolError::Refused { tag: 1, result: 1 })
        ));
    }

    #[test]
    #[should_panic(expected = "tag 0 has a request to commit")]
    fn request_is_not_committed_twice() {
        let mut tags = Tags::new(1);
        tags.fetch().count();
        tags.on_completion(0, 0).expect("a request");
        tags.commit(0);
        tags.commit(0);
    }
}
