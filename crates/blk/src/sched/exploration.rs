//! Every way in which two threads can insert and dispatch at the same time (`RUSTFLAGS="--cfg loom" cargo
//! test -p zonal-blk --lib --release exploration`).

mod tests {
    use crate::request::{Request, RequestList};
    use crate::sched::dispatcher::{BypassPolicy, Dispatcher, InsertList, PendingUpdates};
    use crate::sched::elevator::{BatchKind, BatchOrder, CompletedRequest, Elevator, InFlight};
    use crate::sched::testing::{Spec, ids};
    use crate::units::{Nanos, Sector};
    use loom::sync::atomic::{AtomicU32, Ordering};
    use std::sync::{Arc, Mutex};

    /// First come, first served.
    #[derive(Default)]
    struct Fifo(RequestList);

    impl Elevator for Fifo {
        fn insert(&mut self, _now: Nanos, request: Box<Request>) {
            self.0.push_back(request);
        }

        fn dispatch(&mut self, _now: Nanos, _flight: &InFlight) -> Option<Box<Request>> {
            self.0.pop_front()
        }

        fn takes_batch(&mut self, _now: Nanos, _kind: &BatchKind) -> Option<BatchOrder> {
            self.0.is_empty().then_some(BatchOrder::Arrival)
        }

        fn next_event(&self) -> Option<Nanos> {
            None
        }

        fn len(&self) -> usize {
            self.0.len()
        }

        fn merged(&self) -> [u64; 3] {
            [0; 3]
        }
    }

    fn updates() -> PendingUpdates {
        let mut updates = PendingUpdates::default();
        updates.requests.push_back(Spec::default().build());
        updates
    }

    fn dispatch(
        dispatcher: &Dispatcher,
        insert_list: &InsertList,
        room: usize,
        mut updates: PendingUpdates,
    ) -> u32 {
        let mut out = Vec::new();
        dispatcher.dispatch(Nanos(0), room, insert_list, &mut updates, &mut out);
        assert!(out.len() <= room);
        let sent = out.len();
        out.into_iter().for_each(|request| drop(ids(request)));
        u32::try_from(sent).unwrap()
    }

    /// Two threads insert a request each; the first has room for `rooms[0]`, the other for `rooms[1]`.
    /// Requests that are not sent are announced, and a later dispatch finds them.
    fn explore(rooms: [usize; 2]) {
        loom::model(move || {
            let dispatcher =
                Arc::new(Dispatcher::new(Box::<Fifo>::default(), BypassPolicy::default()));
            let insert_lists = [dispatcher.open(0), dispatcher.open(0)];
            let sent = Arc::new(AtomicU32::new(0));
            let other = {
                let (dispatcher, sent) = (Arc::clone(&dispatcher), Arc::clone(&sent));
                let insert_list = Arc::clone(&insert_lists[1]);
                loom::thread::spawn(move || {
                    sent.fetch_add(
                        dispatch(&dispatcher, &insert_list, rooms[1], updates()),
                        Ordering::Relaxed,
                    );
                })
            };
            let here = dispatch(&dispatcher, &insert_lists[0], rooms[0], updates());
            other.join().unwrap();
            let sent = here + sent.load(Ordering::Relaxed);
            if sent < 2 {
                assert!(dispatcher.has_work(), "{sent} of 2 sent and no sign of the rest");
                assert_eq!(dispatcher.next_event(), Some(Nanos(0)));
            }
            let rest = dispatch(&dispatcher, &insert_lists[0], 2, PendingUpdates::default());
            assert_eq!(sent + rest, 2, "every request is sent once");
            assert!(!dispatcher.has_work());
            // The channel that has room for all leaves nothing behind, whatever the other does meanwhile.
            if rooms[0] >= 2 && rooms[1] >= 2 {
                assert_eq!(rest, 0, "the wake-up was lost");
            }
        });
    }

    #[test]
    fn updates_left_while_a_channel_opens_are_announced() {
        loom::model(|| {
            let dispatcher =
                Arc::new(Dispatcher::new(Box::<Fifo>::default(), BypassPolicy::default()));
            let insert_list = dispatcher.open(0);
            let other = {
                let dispatcher = Arc::clone(&dispatcher);
                loom::thread::spawn(move || drop(dispatcher.open(0)))
            };
            let sent = dispatch(&dispatcher, &insert_list, 1, updates());
            other.join().unwrap();
            assert!(sent == 1 || dispatcher.has_work(), "no channel would ever look for it");
            let rest = dispatch(&dispatcher, &insert_list, 1, PendingUpdates::default());
            assert_eq!(sent + rest, 1);
        });
    }

    #[test]
    fn updates_left_while_a_batch_is_sent_are_announced() {
        loom::model(|| {
            let dispatcher =
                Arc::new(Dispatcher::new(Box::<Fifo>::default(), BypassPolicy::default()));
            let insert_lists = [dispatcher.open(0), dispatcher.open(0)];
            let other = {
                let (dispatcher, insert_list) =
                    (Arc::clone(&dispatcher), Arc::clone(&insert_lists[1]));
                loom::thread::spawn(move || {
                    let batch = Spec::default().build();
                    let kind = BatchKind::of(&batch);
                    ids(batch);
                    let mut none = PendingUpdates::default();
                    if dispatcher.send_batch(Nanos(0), &kind, &mut none, |_| (1, Sector(0))) {
                        return 1;
                    }
                    dispatch(&dispatcher, &insert_list, 2, updates())
                })
            };
            let here = dispatch(&dispatcher, &insert_lists[0], 2, updates());
            let sent = here + other.join().unwrap();
            assert!(sent == 2 || dispatcher.has_work(), "no channel would ever look for it");
            let rest = dispatch(&dispatcher, &insert_lists[0], 2, PendingUpdates::default());
            assert_eq!(sent + rest, 2, "every request is sent once");
        });
    }

    #[test]
    fn two_that_dispatch_leave_nothing() {
        explore([2, 2]);
    }

    #[test]
    fn what_one_without_room_leaves_is_found() {
        explore([2, 0]);
    }

    #[test]
    fn two_with_room_for_one_send_both() {
        explore([1, 1]);
    }

    /// One command in flight, by its own count; first come, first served.
    struct OneInFlight {
        fifo: Fifo,
        in_flight: u32,
        counted: Arc<Counted>,
    }

    /// The completions that a scheduler has counted.
    #[derive(Default)]
    struct Counted {
        /// When they were, in the order of counting.
        at: Mutex<Vec<Nanos>>,
        /// Added to while one is counted. To loom the release of a lock is no operation: another thread
        /// that is to find the lock taken, and to do something before it is released, adds to this
        /// afterwards, and loom tries both orders of the additions.
        under_lock: AtomicU32,
    }

    impl Counted {
        fn at(&self) -> Vec<Nanos> {
            self.at.lock().unwrap().clone()
        }
    }

    impl Elevator for OneInFlight {
        fn insert(&mut self, now: Nanos, request: Box<Request>) {
            self.fifo.insert(now, request);
        }

        fn dispatch(&mut self, now: Nanos, flight: &InFlight) -> Option<Box<Request>> {
            let next = if self.in_flight == 0 { self.fifo.dispatch(now, flight) } else { None };
            self.in_flight += u32::from(next.is_some());
            next
        }

        fn completed(&mut self, end: &CompletedRequest) {
            self.in_flight = self.in_flight.checked_sub(end.count).expect("counted once");
            self.counted.under_lock.fetch_add(1, Ordering::Relaxed);
            self.counted.at.lock().unwrap().push(end.at);
        }

        fn wants_completions(&self) -> bool {
            true
        }

        fn next_event(&self) -> Option<Nanos> {
            None
        }

        fn len(&self) -> usize {
            self.fifo.len()
        }

        fn merged(&self) -> [u64; 3] {
            [0; 3]
        }
    }

    /// A scheduler with this many commands in flight, and what it has counted.
    fn counting(in_flight: u32) -> (Arc<Dispatcher>, Arc<Counted>) {
        let counted = Arc::<Counted>::default();
        let elevator =
            OneInFlight { fifo: Fifo::default(), in_flight, counted: Arc::clone(&counted) };
        let dispatcher = Dispatcher::new(Box::new(elevator), BypassPolicy::default());
        (Arc::new(dispatcher), counted)
    }

    /// The completion of a command.
    fn completion(at: u64) -> PendingUpdates {
        let mut updates = PendingUpdates::default();
        let request = Spec::default().build();
        updates.completions.push(CompletedRequest::new(Nanos(at), &request));
        ids(request);
        updates
    }

    /// Acts as a channel with room for one request after completions. Returns the number of requests sent.
    fn count_completions(
        dispatcher: &Dispatcher,
        insert_list: &InsertList,
        updates: &mut PendingUpdates,
    ) -> u32 {
        if dispatcher.count_completions(updates) {
            return 0;
        }
        dispatch(dispatcher, insert_list, 1, std::mem::take(updates))
    }

    #[test]
    fn a_request_that_comes_while_completions_are_counted_is_sent_or_announced() {
        loom::model(|| {
            let (dispatcher, counted) = counting(1);
            let insert_lists = [dispatcher.open(0), dispatcher.open(0)];
            let other = {
                let (dispatcher, counted) = (Arc::clone(&dispatcher), Arc::clone(&counted));
                let insert_list = Arc::clone(&insert_lists[1]);
                loom::thread::spawn(move || {
                    let sent = dispatch(&dispatcher, &insert_list, 1, updates());
                    counted.under_lock.fetch_add(1, Ordering::Relaxed);
                    sent
                })
            };
            let mut done = completion(0);
            let here = count_completions(&dispatcher, &insert_lists[0], &mut done);
            let sent = here + other.join().unwrap();
            if sent == 0 {
                // Nothing is in flight whose completion could make a channel look.
                assert_eq!(dispatcher.next_event(), Some(Nanos(0)), "no channel would look for it");
            }
            let rest = dispatch(&dispatcher, &insert_lists[0], 1, done);
            assert_eq!(sent + rest, 1, "the request is sent once");
            assert_eq!(counted.at(), [Nanos(0)], "counted once");
        });
    }

    #[test]
    fn completions_of_two_channels_are_counted_once_each() {
        loom::model(|| {
            let (dispatcher, counted) = counting(2);
            let insert_lists = [dispatcher.open(0), dispatcher.open(0)];
            let other = {
                let (dispatcher, counted) = (Arc::clone(&dispatcher), Arc::clone(&counted));
                let insert_list = Arc::clone(&insert_lists[1]);
                loom::thread::spawn(move || {
                    let mut done = completion(1);
                    count_completions(&dispatcher, &insert_list, &mut done);
                    counted.under_lock.fetch_add(1, Ordering::Relaxed);
                    done
                })
            };
            let mut done = completion(2);
            count_completions(&dispatcher, &insert_lists[0], &mut done);
            let left = other.join().unwrap();
            let so_far = counted.at().len();
            assert!(so_far == 2 || dispatcher.has_work(), "{so_far} of 2 and no sign of the rest");
            for (insert_list, updates) in insert_lists.iter().zip([done, left]) {
                dispatch(&dispatcher, insert_list, 0, updates);
            }
            let mut counted = counted.at();
            counted.sort_unstable();
            assert_eq!(counted, [Nanos(1), Nanos(2)]);
        });
    }

    #[test]
    fn a_completion_that_was_left_is_counted_before_later_ones() {
        loom::model(|| {
            let (dispatcher, counted) = counting(2);
            let insert_lists = [dispatcher.open(0), dispatcher.open(0)];
            let is_left = Arc::new(AtomicU32::new(0));
            let other = {
                let (dispatcher, is_left) = (Arc::clone(&dispatcher), Arc::clone(&is_left));
                let insert_list = Arc::clone(&insert_lists[1]);
                loom::thread::spawn(move || {
                    // As a thread does that found the lock taken.
                    insert_list.put(&mut completion(1));
                    is_left.store(1, Ordering::Release);
                    dispatch(&dispatcher, &insert_list, 0, PendingUpdates::default());
                })
            };
            let in_order = is_left.load(Ordering::Acquire) == 1;
            let mut done = completion(2);
            count_completions(&dispatcher, &insert_lists[0], &mut done);
            other.join().unwrap();
            dispatch(&dispatcher, &insert_lists[0], 0, done);
            let counted = counted.at();
            assert_eq!(counted.len(), 2, "counted once each");
            assert!(!in_order || counted == [Nanos(1), Nanos(2)], "in the order of time");
        });
    }
}
