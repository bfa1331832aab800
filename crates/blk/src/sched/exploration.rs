//! Every way in which two threads can insert and dispatch at once (`RUSTFLAGS="--cfg loom" cargo
//! test -p zonal-blk --lib --release exploration`).

mod tests {
    use crate::request::{Request, RequestList};
    use crate::sched::dispatcher::{BypassPolicy, Dispatcher, InsertList, PendingUpdates};
    use crate::sched::elevator::{BatchOrder, Elevator, InFlight, Kind};
    use crate::sched::testing::{Spec, ids};
    use crate::units::{Nanos, Sector};
    use loom::sync::atomic::{AtomicU32, Ordering};
    use std::sync::Arc;

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

        fn takes_batch(&mut self, _now: Nanos, _kind: &Kind) -> Option<BatchOrder> {
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
    /// What is not sent is announced, and a later dispatch finds it.
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
            // Whoever has room for all leaves nothing behind, whatever the other does meanwhile.
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
                    let kind = Kind::of(&batch);
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
}
