//! A layer as bytes, and back: the same layer, which goes on in the same way.
//!
//! All numbers are little-endian. Pages without data in a row are only counted, so that a drive that
//! is almost empty takes little.
use super::bytes::{Input, put_list32, put32, put64};
use super::lists::PageList;
use super::victims::Victims;
use super::{Counts, Open, Shape, Translation, Victim};
use std::cmp::Reverse;

/// The version of the form.
const VERSION: u32 = 1;
/// Pages without data in a row that are worth to be counted instead of listed.
const GAP: usize = 4;

impl Counts {
    /// Appends the counts to `to`.
    pub(in crate::ssd) fn save(&self, to: &mut Vec<u8>) {
        let Counts { host, copied, padded, discarded, erased } = *self;
        [host, copied, padded, discarded, erased].into_iter().for_each(|count| put64(to, count));
    }

    /// Reads what [`Counts::save`] has written.
    pub(in crate::ssd) fn restore(from: &mut Input<'_>) -> Option<Self> {
        Some(Counts {
            host: from.number64()?,
            copied: from.number64()?,
            padded: from.number64()?,
            discarded: from.number64()?,
            erased: from.number64()?,
        })
    }
}

impl Translation {
    /// Bytes that [`Translation::save`] appends for a layer of this shape, at most.
    pub fn saved_bytes(shape: &Shape) -> u64 {
        let flash = u64::from(shape.superblocks) * u64::from(shape.superblock_pages);
        let slots = (u64::from(shape.frontiers()) + 1) * u64::from(shape.superblock_pages);
        // A list has at most 35 bits a page and a word.
        4 * (u64::from(shape.logical_pages) + slots)
            + 5 * flash
            + 64 * (u64::from(shape.superblocks) + u64::from(shape.frontiers()) + 4)
    }

    /// Appends the layer to `to`.
    pub fn save(&self, to: &mut Vec<u8>) {
        let shape = &self.shape;
        for number in [
            VERSION,
            shape.logical_pages,
            shape.superblocks,
            shape.superblock_pages,
            shape.frontiers().into(),
            self.mapped,
        ] {
            put32(to, number);
        }
        self.counts.save(to);
        self.victims.save(to);
        put_list32(to, self.erases.iter().copied());
        put_list32(to, self.origins.iter().map(|&origin| origin.into()));
        self.lists.iter().for_each(|list| list.save(to));
        for free in &self.free {
            let mut free: Vec<u32> =
                free.iter().map(|&Reverse((_, superblock))| superblock).collect();
            free.sort_unstable();
            put_list32(to, free.into_iter());
        }
        for frontier in &self.frontiers {
            let Some(Open { superblock, pages }) = frontier else {
                put32(to, 0);
                continue;
            };
            put32(to, superblock + 1);
            put_list32(to, pages.iter().copied());
        }
        put_list32(to, self.emptied.iter().copied());
        if let Some(Victim { superblock, frontier, next }) = &self.collecting {
            [superblock + 1, (*frontier).into(), *next].into_iter().for_each(|it| put32(to, it));
            put_list32(to, self.slots.iter().copied());
        } else {
            put32(to, 0);
        }
        self.save_places(to);
    }

    fn save_places(&self, to: &mut Vec<u8>) {
        let mut rest = &*self.places;
        while !rest.is_empty() {
            let empty = rest.iter().position(|&place| place != 0).unwrap_or(rest.len());
            rest = &rest[empty..];
            let is_gap = |places: &[u32]| places.iter().all(|&place| place == 0);
            let data = rest.windows(GAP).position(is_gap).unwrap_or(rest.len());
            put32(to, u32::try_from(empty).expect("pages are counted in 32 bits"));
            put_list32(to, rest[..data].iter().copied());
            rest = &rest[data..];
        }
    }

    /// Reads what [`Translation::save`] has written; `None` if that was of another shape or form.
    pub(in crate::ssd) fn restore(shape: Shape, from: &mut Input<'_>) -> Option<Self> {
        let mut layer = Translation::new(shape).ok()?;
        let shape = layer.shape.clone();
        let superblocks = shape.superblocks;
        let same = from.number32()? == VERSION
            && from.number32()? == shape.logical_pages
            && from.number32()? == superblocks
            && from.number32()? == shape.superblock_pages
            && from.number32()? == u32::from(shape.frontiers());
        if !same {
            return None;
        }
        layer.mapped = from.number32()?;
        layer.counts = Counts::restore(from)?;
        layer.victims = Victims::restore(&shape, from)?;
        let all = |list: Vec<u32>| (list.len() == superblocks as usize).then_some(list);
        layer.erases = all(from.list32()?)?.into();
        let origins = all(from.list32()?)?.into_iter();
        let origins: Option<Box<[u16]>> = origins.map(|it| u16::try_from(it).ok()).collect();
        layer.origins = origins?;
        for list in &mut layer.lists {
            *list = PageList::restore(from)?;
        }
        let exist = |list: &[u32]| list.iter().all(|&superblock| superblock < superblocks);
        for free in &mut layer.free {
            let list = Some(from.list32()?).filter(|list| exist(list))?;
            *free = list.into_iter().map(|it| Reverse((layer.erases[it as usize], it))).collect();
        }
        for frontier in &mut layer.frontiers {
            *frontier = match from.below(superblocks + 1)? {
                0 => None,
                superblock => Some(Open { superblock: superblock - 1, pages: from.list32()? }),
            };
        }
        layer.emptied = Some(from.list32()?).filter(|list| exist(list))?;
        for &superblock in &layer.emptied {
            layer.nr_emptied[shape.group_of(superblock)] += 1;
        }
        if let Some(superblock) = from.below(superblocks + 1)?.checked_sub(1) {
            let frontier = u16::try_from(from.below(shape.frontiers().into())?).ok()?;
            let next = from.number32()?;
            layer.slots = from.list32()?.into();
            layer.collecting = Some(Victim { superblock, frontier, next });
        }
        layer.restore_places(from)?;
        Some(layer)
    }

    fn restore_places(&mut self, from: &mut Input<'_>) -> Option<()> {
        let mut rest = &mut *self.places;
        while !rest.is_empty() {
            let empty = usize::try_from(from.number32()?).ok()?;
            let data = from.list32()?;
            (_, rest) = rest.split_at_mut_checked(empty)?;
            let (to, after) = rest.split_at_mut_checked(data.len())?;
            to.copy_from_slice(&data);
            rest = after;
        }
        Some(())
    }
}
