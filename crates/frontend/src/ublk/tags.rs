//! The owner of each tag of a queue: the driver, which has a command in flight, or the server, which has
//! a request to commit.
//!
//! ```text
//!           fetch                 completes with 0
//!  idle ------------->  driver  ------------------->  server
//!                         | ^                            |
//!   completes with        | +----------------------------+
//!   UBLK_IO_RES_ABORT     v          commit and fetch
//!                      aborted
//! ```
use super::abi::io;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TagState {
    /// Not yet fetched.
    Idle,
    /// A command is in flight.
    Driver,
    /// A request waits for its commit.
    Server,
    /// The driver is done with it.
    Aborted,
}

/// The meaning of a command's completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchResult {
    /// The tag has a request.
    Request,
    /// The tag gets no more requests.
    Aborted,
}

/// The driver broke the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// A tag that the queue does not have.
    #[error("tag {0}, and the queue has {1}")]
    NoSuchTag(u64, usize),
    /// The tag has no command in flight.
    #[error("tag {0}: a command completed that was not in flight")]
    NotFetched(u16),
    /// A command was refused.
    #[error("tag {tag}: the driver refused a command: {}", std::io::Error::from_raw_os_error(-.result))]
    Refused {
        /// The command's tag.
        tag: u16,
        /// Its result, a negative errno.
        result: i32,
    },
}

/// The tags of a queue.
#[derive(Debug)]
pub struct Tags {
    states: Vec<TagState>,
    /// Aborted tags.
    aborted: usize,
}

impl Tags {
    /// `depth` tags, none of them fetched.
    pub fn new(depth: u16) -> Self {
        Tags { states: vec![TagState::Idle; usize::from(depth)], aborted: 0 }
    }

    /// Hands all tags to the driver, which has to be sent a fetch for each.
    pub fn fetch(&mut self) -> impl Iterator<Item = u16> {
        let depth = u16::try_from(self.states.len()).expect("it was created from a u16");
        assert!(self.states.iter().all(|state| *state == TagState::Idle), "tags are fetched once");
        self.states.fill(TagState::Driver);
        0..depth
    }

    /// A command has completed.
    ///
    /// # Errors
    /// The driver refused it, or none was in flight. The queue cannot go on.
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
                Ok((tag, FetchResult::Request))
            }
            io::RES_ABORT => {
                *state = TagState::Aborted;
                self.aborted += 1;
                Ok((tag, FetchResult::Aborted))
            }
            _ => Err(ProtocolError::Refused { tag, result }),
        }
    }

    /// Commits a request and fetches the next one.
    ///
    /// # Panics
    /// If the tag has no request: one would complete twice.
    pub fn commit(&mut self, tag: u16) {
        let state = &mut self.states[usize::from(tag)];
        assert_eq!(*state, TagState::Server, "tag {tag} has a request to commit");
        *state = TagState::Driver;
    }

    /// Whether no tag gets another request.
    pub fn all_aborted(&self) -> bool {
        self.aborted == self.states.len()
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
            tags.commit(1);
        }
        assert_eq!(tags.on_completion(1, io::RES_ABORT), Ok((1, FetchResult::Aborted)));
        assert!(!tags.all_aborted());
        assert_eq!(tags.on_completion(0, io::RES_ABORT), Ok((0, FetchResult::Aborted)));
        assert!(tags.all_aborted());
    }

    #[test]
    fn driver_that_breaks_the_protocol_is_an_error() {
        let mut tags = Tags::new(2);
        assert_eq!(tags.on_completion(0, 0), Err(ProtocolError::NotFetched(0)), "not yet fetched");
        assert_eq!(tags.fetch().count(), 2);
        assert_eq!(tags.on_completion(2, 0), Err(ProtocolError::NoSuchTag(2, 2)));
        assert_eq!(tags.on_completion(u64::MAX, 0), Err(ProtocolError::NoSuchTag(u64::MAX, 2)));
        assert_eq!(tags.on_completion(0, 0), Ok((0, FetchResult::Request)));
        assert_eq!(
            tags.on_completion(0, 0),
            Err(ProtocolError::NotFetched(0)),
            "the server owns it"
        );
        let refused = tags.on_completion(1, -22).expect_err("EINVAL");
        assert!(refused.to_string().contains("tag 1: the driver refused a command: Invalid"));
        // UBLK_IO_RES_NEED_GET_DATA, a mode that was not agreed on.
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
