//! The part of the map that is in memory: whole translation pages, of which one that has not been used
//! since the last turn of a clock makes room for another (second chance).

/// Whether a translation page is in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ssd) enum Found {
    Cached,
    /// It is being read.
    Loading,
    Absent,
}

/// Room for another translation page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ssd) enum Room {
    /// There is room, or a page that need not be written.
    Free,
    /// This page has to be written first.
    Changed(u32),
    /// All pages are being read.
    None,
}

#[derive(Clone, Copy, Debug)]
struct Frame {
    page: u32,
    loading: bool,
    changed: bool,
    used: bool,
}

#[derive(Debug)]
pub(super) struct Cache {
    frames: Vec<Frame>,
    most: u32,
    /// By translation page, one more than the number of its frame; 0 if it has none.
    frame_of: Box<[u32]>,
    /// The frame that is looked at next.
    hand: usize,
}

impl Cache {
    /// Room for `most` of `pages` translation pages.
    pub(super) fn new(most: u32, pages: u32) -> Self {
        assert!(most > 0, "a page that is used is in memory");
        let frame_of = vec![0; pages as usize].into();
        Cache { frames: Vec::new(), most, frame_of, hand: 0 }
    }

    /// Forgets all pages.
    pub(super) fn clear(&mut self) {
        *self = Cache::new(self.most, u32::try_from(self.frame_of.len()).expect("it was one"));
    }

    /// Uses a page, which `changes` with that or not.
    pub(super) fn touch(&mut self, page: u32, changes: bool) -> Found {
        let Some(at) = self.frame_of[page as usize].checked_sub(1) else { return Found::Absent };
        let frame = &mut self.frames[at as usize];
        frame.used = true;
        frame.changed |= changes;
        if frame.loading { Found::Loading } else { Found::Cached }
    }

    /// Looks for room for a page.
    pub(super) fn room(&mut self) -> Room {
        if self.frames.len() < self.most as usize {
            return Room::Free;
        }
        // After a whole turn none has been used, after another each has been looked at again.
        for _ in 0..2 * self.frames.len() {
            let frame = &mut self.frames[self.hand];
            if !frame.loading && !std::mem::take(&mut frame.used) {
                return if frame.changed { Room::Changed(frame.page) } else { Room::Free };
            }
            self.hand = (self.hand + 1) % self.frames.len();
        }
        Room::None
    }

    /// Begins to read a page, for which there is [`Room::Free`], or [`Room::Changed`] by a page that has
    /// been written.
    pub(super) fn begin(&mut self, page: u32, changes: bool) {
        let frame = Frame { page, loading: true, changed: changes, used: true };
        let at = if self.frames.len() < self.most as usize {
            self.frames.push(frame);
            self.frames.len() - 1
        } else {
            let at = self.hand;
            self.hand = (at + 1) % self.frames.len();
            let old = std::mem::replace(&mut self.frames[at], frame);
            assert!(!old.loading, "a page that is being read is waited for");
            self.frame_of[old.page as usize] = 0;
            at
        };
        self.frame_of[page as usize] = u32::try_from(at + 1).expect("there are fewer than pages");
    }

    /// A page has been read.
    pub(super) fn loaded(&mut self, page: u32) {
        let at = self.frame_of[page as usize] - 1;
        self.frames[at as usize].loading = false;
    }

    /// Pages that have changed since they were read.
    pub(super) fn changed(&self) -> usize {
        self.frames.iter().filter(|frame| frame.changed).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(cache: &mut Cache, page: u32, changes: bool) {
        cache.begin(page, changes);
        cache.loaded(page);
    }

    #[test]
    fn page_that_was_used_since_the_last_turn_stays() {
        let mut cache = Cache::new(3, 10);
        (0..3).for_each(|page| load(&mut cache, page, false));
        assert_eq!(cache.room(), Room::Free);
        load(&mut cache, 3, false);
        assert_eq!(
            cache.touch(0, false),
            Found::Absent,
            "all were used alike, and it was the first"
        );
        assert_eq!(cache.touch(1, false), Found::Cached);
        assert_eq!(cache.room(), Room::Free);
        load(&mut cache, 4, false);
        assert_eq!(cache.touch(1, false), Found::Cached);
        assert_eq!(cache.touch(2, false), Found::Absent, "it was not used");
    }

    #[test]
    fn page_that_has_changed_is_named_until_it_is_replaced() {
        let mut cache = Cache::new(1, 10);
        load(&mut cache, 7, false);
        assert_eq!(cache.room(), Room::Free);
        assert_eq!(cache.touch(7, true), Found::Cached);
        assert_eq!(
            (cache.room(), cache.room(), cache.changed()),
            (Room::Changed(7), Room::Changed(7), 1)
        );
        load(&mut cache, 8, false);
        assert_eq!((cache.room(), cache.changed()), (Room::Free, 0));
    }

    #[test]
    fn page_that_is_being_read_is_not_replaced() {
        let mut cache = Cache::new(2, 10);
        cache.begin(1, false);
        cache.begin(2, true);
        assert_eq!((cache.room(), cache.touch(1, false)), (Room::None, Found::Loading));
        cache.loaded(2);
        assert_eq!(cache.room(), Room::Changed(2));
    }
}
