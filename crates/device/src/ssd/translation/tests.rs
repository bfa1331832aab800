//! The layer against a model that keeps everything in plain maps, and its rules.
use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn shape(logical_pages: u32, superblocks: u32, superblock_pages: u32) -> Shape {
    Shape {
        logical_pages,
        superblocks,
        superblock_pages,
        groups: 1,
        streams: vec![Isolation::Initial],
        separate: true,
        policy: Policy::Greedy,
        low: 2,
        high: 2,
    }
}

/// The expected state of the layer: the place of each page.
struct Model {
    places: BTreeMap<Page, Place>,
    layer: Translation,
    /// Superblocks that have been collected and not been erased.
    emptied: Vec<u32>,
}

impl Model {
    fn new(shape: Shape) -> Self {
        let layer = Translation::new(shape).expect("the shape is one that can collect");
        Model { places: BTreeMap::new(), layer, emptied: Vec::new() }
    }

    fn put(&mut self, page: Page, at: Place) {
        assert!(!self.places.values().any(|&other| other == at), "{at:?} is taken");
        self.places.insert(page, at);
    }

    fn write(&mut self, page: Page, stream: u16) {
        self.write_to(page, stream, None);
    }

    fn write_to(&mut self, page: Page, stream: u16, group: Option<u16>) {
        let mut steps = 0;
        let frontier = loop {
            let frontier = self.layer.frontier(stream, group);
            if self.layer.can_write(frontier) {
                break frontier;
            }
            self.collect_step();
            steps += 1;
            assert!(steps < 10_000, "the collection gains nothing");
        };
        let at = self.layer.write(page, frontier);
        self.put(page, at);
    }

    fn group_of(&self, place: Place) -> usize {
        self.layer.shape().group_of(place.superblock)
    }

    /// A page is copied, or a collection ends or begins, if it is wanted or nothing waits to be erased.
    fn collect_step(&mut self) {
        let Some(superblock) = self.layer.collecting() else {
            let begins = self.layer.wants_collection(true) || self.emptied.is_empty();
            if !begins || self.layer.begin_collection().is_none() {
                self.emptied.pop().into_iter().for_each(|superblock| self.layer.erased(superblock));
            }
            return;
        };
        match self.layer.copy() {
            Some(Copied { page, from, to, .. }) => {
                assert_eq!(self.places.get(&page), Some(&from));
                assert_eq!(self.group_of(from), self.group_of(to), "data stay in their group");
                self.put(page, to);
            }
            None => self.emptied.push(superblock),
        }
    }

    fn check(&self) {
        let layer = &self.layer;
        for page in 0..layer.shape().logical_pages {
            assert_eq!(layer.find(page), self.places.get(&page).copied(), "page {page}");
        }
        let mut valid = vec![0; layer.shape().superblocks as usize];
        for place in self.places.values() {
            valid[place.superblock as usize] += 1;
        }
        for (superblock, valid) in (0..).zip(valid) {
            assert_eq!(layer.valid(superblock), valid, "superblock {superblock}");
        }
        assert_eq!(layer.mapped() as usize, self.places.len());
        let erases: u32 = (0..layer.shape().superblocks).map(|at| layer.erases(at)).sum();
        assert_eq!(u64::from(erases), layer.counts().erased);
    }
}

#[derive(Clone, Debug)]
enum Step {
    Write(Page, u16, Option<u16>),
    CloseEarly(u16),
    Discard(Page),
    Collect(u8),
}

impl Model {
    fn step(&mut self, step: &Step) {
        let Shape { groups, separate, .. } = *self.layer.shape();
        match *step {
            Step::Write(page, stream, group) => {
                self.write_to(page, stream, group.map(|group| group % groups));
            }
            Step::CloseEarly(at) if separate => {
                let frontier = self.layer.shape().frontier(at % 3, at / 3 % groups);
                self.layer.close_early(frontier, 2);
                assert!(!self.layer.is_open(frontier));
            }
            Step::CloseEarly(_) => {}
            Step::Discard(page) => {
                let had = self.places.remove(&page).is_some();
                assert_eq!(self.layer.discard(page), had);
            }
            Step::Collect(steps) => (0..steps).for_each(|_| self.collect_step()),
        }
    }
}

/// Three streams in up to three groups, with few superblocks to spare.
fn shapes() -> impl Strategy<Value = Shape> {
    let isolation = prop_oneof![Just(Isolation::Initial), Just(Isolation::Persistent)];
    let streams = prop::collection::vec(isolation, 3);
    let all = (policies(), any::<bool>(), streams, 1..4_u16, 0..4_u32);
    all.prop_map(|(policy, separate, streams, groups, spare)| {
        let groups = if separate { groups } else { 1 };
        let mut shape = Shape { policy, separate, streams, groups, ..shape(40, 1, 4) };
        shape.superblocks = u32::try_from(shape.min_superblocks()).unwrap() + spare;
        shape
    })
}

fn saved(layer: &Translation) -> Vec<u8> {
    let mut bytes = Vec::new();
    layer.save(&mut bytes);
    bytes
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0..40_u32, 0..3_u16, prop::option::of(0..3_u16))
            .prop_map(|(page, stream, group)| Step::Write(page, stream, group)),
        1 => (0..9_u16).prop_map(Step::CloseEarly),
        1 => (0..40_u32).prop_map(Step::Discard),
        2 => (1..6_u8).prop_map(Step::Collect),
    ];
    prop::collection::vec(step, 0..400)
}

fn policies() -> impl Strategy<Value = Policy> {
    prop_oneof![Just(Policy::Greedy), Just(Policy::CostBenefit), Just(Policy::Fifo)]
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 200, ..ProptestConfig::default() })]
    #[test]
    fn each_page_is_where_it_was_put_last_whatever_is_collected_meanwhile(
        steps in steps(),
        shape in shapes(),
    ) {
        let mut model = Model::new(shape);
        for step in steps {
            model.step(&step);
            model.check();
        }
    }

    #[test]
    fn layer_that_was_saved_goes_on_as_before_and_does_its_steps_again(
        steps in steps(),
        more in steps(),
        shape in shapes(),
    ) {
        let mut model = Model::new(shape.clone());
        model.layer.record();
        steps.iter().for_each(|step| model.step(step));
        let half = saved(&model.layer);
        prop_assert!(half.len() as u64 <= Translation::saved_bytes(&shape));
        let mut again = Translation::new(shape.clone()).unwrap();
        for step in model.layer.take_steps() {
            let mut bytes = Vec::new();
            step.encode(&mut bytes);
            prop_assert_eq!(bytes.len(), STEP_BYTES);
            prop_assert_eq!(steps::Step::decode(&bytes), Some(step));
            prop_assert!(again.redo(&step), "{:?}", step);
        }
        prop_assert_eq!(saved(&again), &half[..]);
        let mut input = bytes::Input(&half);
        let mut restored = Translation::restore(shape.clone(), &mut input).expect("it was saved");
        prop_assert!(input.0.is_empty());
        prop_assert_eq!(saved(&restored), &half[..]);
        more.iter().for_each(|step| model.step(step));
        for step in model.layer.take_steps() {
            prop_assert!(restored.redo(&step), "{:?}", step);
        }
        prop_assert_eq!(saved(&restored), saved(&model.layer));
        // Whatever is cut off or belongs to another layer is found out.
        for len in 0..half.len() {
            prop_assert!(Translation::restore(shape.clone(), &mut bytes::Input(&half[..len])).is_none());
        }
        let other = Shape { logical_pages: 39, ..shape };
        prop_assert!(Translation::restore(other, &mut bytes::Input(&half)).is_none());
    }
}

#[test]
fn steps_that_a_layer_would_not_do_are_refused() {
    let shape = shape(64, 16, 8);
    let write = |page, frontier| steps::Step::Write { page, pages: 1, frontier };
    let mut layer = Translation::new(shape).unwrap();
    assert!(layer.redo(&write(63, 0)));
    for step in [
        write(64, 0),
        write(u32::MAX, 0),
        write(0, 1),
        write(0, 9),
        steps::Step::Discard { page: 60, pages: 5 },
        steps::Step::Close { frontier: 0, unit: 0 },
        steps::Step::Collect { superblock: 0 },
        steps::Step::Copy { calls: 1 },
        steps::Step::Erase { superblock: 3 },
    ] {
        assert!(!layer.redo(&step), "{step:?}");
    }
}

#[test]
fn layer_with_the_fewest_superblocks_goes_on_for_ever() {
    for policy in [Policy::Greedy, Policy::CostBenefit, Policy::Fifo] {
        for separate in [false, true] {
            let mut shape = Shape { policy, separate, ..shape(64, 1, 8) };
            shape.superblocks = u32::try_from(shape.min_superblocks()).unwrap();
            let mut model = Model::new(shape);
            for turn in 0..20 {
                (0..64).for_each(|page| model.write((page * 29 + turn) % 64, 0));
            }
            model.check();
        }
    }
}

#[test]
fn too_few_superblocks_are_refused_with_the_number_that_is_needed() {
    let shape = Shape { high: 3, ..shape(64, 13, 8) };
    let error = shape.validate().unwrap_err().to_string();
    assert!(error.starts_with("13 superblocks of 8 pages for 64 logical pages"), "{error}");
    assert!(error.contains("expected at least 14, so that beside the data there are 2"), "{error}");
    assert_eq!(Shape { superblocks: 14, ..shape }.validate(), Ok(()));
}

#[test]
fn numbers_out_of_range_are_refused() {
    let good = shape(64, 20, 8);
    for (bad, what) in [
        (Shape { logical_pages: 0, ..good.clone() }, "logical pages"),
        (Shape { streams: Vec::new(), ..good.clone() }, "streams"),
        (Shape { superblock_pages: 1, ..good.clone() }, "pages of a superblock"),
        (Shape { superblocks: 1 << 30, ..good.clone() }, "superblocks"),
        (Shape { groups: 0, ..good.clone() }, "groups"),
        (Shape { groups: 2, separate: false, ..good.clone() }, "groups"),
        (Shape { low: 1, ..good.clone() }, "lower watermark"),
        (Shape { low: 3, high: 2, ..good.clone() }, "upper watermark"),
    ] {
        let error = bad.validate().unwrap_err().to_string();
        assert!(error.starts_with(&format!("{what}: found ")), "{error}");
    }
}

#[test]
fn sequential_overwrites_and_discards_of_whole_superblocks_copy_nothing() {
    let mut layer = Translation::new(shape(64, 13, 8)).unwrap();
    for _ in 0..10 {
        (0..64).for_each(|page| {
            layer.overwrite(page, 0);
        });
    }
    assert_eq!((layer.counts().host, layer.counts().copied), (640, 0));
    for segment in [3, 0, 5, 3, 7, 1, 3, 0] {
        let pages = segment * 8..segment * 8 + 8;
        pages.clone().for_each(|page| assert!(layer.discard(page)));
        pages.for_each(|page| {
            layer.overwrite(page, 0);
        });
    }
    assert_eq!(layer.counts().copied, 0);
}

#[test]
fn superblocks_wear_evenly_under_even_writes() {
    let mut layer = Translation::new(shape(64, 16, 8)).unwrap();
    for turn in 0..4000_u32 {
        layer.overwrite(turn.wrapping_mul(0x9e37_79b9) >> 26, 0);
    }
    let erases: Vec<u32> = (0..16).map(|at| layer.erases(at)).collect();
    let (least, most) = (erases.iter().min().unwrap(), erases.iter().max().unwrap());
    assert!(*least > 0 && most - least <= most / 3, "{erases:?}");
}

#[test]
fn streams_share_no_superblock_and_collected_pages_go_where_their_isolation_says() {
    use Isolation::{Initial, Persistent};
    let streams = vec![Initial, Persistent, Initial, Persistent];
    let shape = Shape { streams, ..shape(64, 24, 8) };
    assert_eq!(shape.frontiers(), 7);
    assert_eq!([0, 1, 2, 3].map(|stream| shape.frontier_of_collected(stream)), [4, 5, 4, 6]);
    let mixed = Shape { separate: false, ..shape.clone() };
    assert_eq!([0, 1, 2, 3].map(|stream| mixed.frontier_of_collected(stream)), [0, 1, 2, 3]);
    let mut layer = Translation::new(shape).unwrap();
    for page in 0..32_u32 {
        layer.overwrite(page, (page % 4).try_into().unwrap());
    }
    for page in 0..32_u32 {
        assert_eq!(layer.find(page).unwrap().superblock, page % 4);
    }
}

#[test]
fn group_that_is_full_leaves_the_rest_to_another() {
    let mut shape = Shape { groups: 2, ..shape(64, 1, 8) };
    shape.superblocks = u32::try_from(shape.min_superblocks()).unwrap();
    let mut model = Model::new(shape);
    for turn in 0..20 {
        (0..64).for_each(|page| model.write_to((page * 29 + turn) % 64, 0, Some(0)));
    }
    model.check();
    let first = model.places.values().filter(|&&place| model.group_of(place) == 0).count() as u64;
    let limit = model.layer.shape().group_limit(0);
    assert!(first > limit / 2 && first <= limit && first < 64, "{first} pages, at most {limit}");
}

#[test]
fn superblock_that_is_closed_early_takes_no_more_pages_and_is_padded() {
    let mut layer = Translation::new(shape(64, 20, 8)).unwrap();
    assert_eq!((layer.close_early(0, 4), layer.room(0)), (None, 8));
    for page in 0..5 {
        layer.write(page, 0);
    }
    let first = layer.find(0).unwrap().superblock;
    assert_eq!(layer.room(0), 3);
    assert_eq!(layer.close_early(0, 4), Some((first, 5)));
    assert_eq!((layer.room(0), layer.counts().padded, layer.counts().media()), (8, 3, 8));
    assert_ne!(layer.write(5, 0).superblock, first);
    (0..5).for_each(|page| assert!(layer.discard(page)));
    assert_eq!(layer.begin_collection(), Some(first), "it is as good as any other");
}

#[test]
fn memory_is_below_six_bytes_for_each_logical_page() {
    let logical_pages = 1 << 16;
    for percent in [7_u64, 12, 28] {
        let pages = u64::from(logical_pages) * (100 + percent) / 100;
        let superblocks = u32::try_from(pages / 128).unwrap();
        let mut layer = Translation::new(shape(logical_pages, superblocks, 128)).unwrap();
        let mut page = 0_u32;
        for _ in 0..3 * logical_pages {
            page = page.wrapping_mul(0x0019_660d).wrapping_add(0x3c6e_f35f);
            layer.overwrite(page >> 16, 0);
        }
        let each = layer.memory() as f64 / f64::from(logical_pages);
        assert!(each < 6.0, "{each:.2} bytes with over-provisioning of {percent} %");
    }
}
