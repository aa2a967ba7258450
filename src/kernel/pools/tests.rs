#![allow(clippy::arithmetic_side_effects, reason = "a test")]

use std::collections::BTreeMap;

use super::super::layout::{Kind, Shape};
use super::super::object::Object;
use super::{PoolBlock, PoolBlocks};
use crate::abi::{Addr, Endian, Width};

const SHAPE: Shape = Shape { endian: Endian::Little, pointer: Width::W4, word: Width::W4 };
const POOL: Addr = 0x2000_0000;
const START: Addr = 0x2000_1000;

type Words = BTreeMap<Addr, u64>;

fn pool(kind: Kind, members: &[(&'static str, u64)]) -> Object {
    Object::of_members(kind, POOL, members)
}

fn read(object: &Object, words: &Words) -> Option<PoolBlocks> {
    let mut read = |at: Addr, count: usize| {
        (0..count as u64).map(|index| words.get(&(at + 4 * index)).copied()).collect::<Option<Vec<u64>>>()
    };
    PoolBlocks::of(object, SHAPE, &mut read)
}

/// 256 bytes: 24 allocated, 40 free, 32 free, the rest allocated.
fn heap() -> (Object, Words) {
    let object = pool(Kind::BytePool, &[("start", START), ("size", 256)]);
    let at = |offset: u64| START + offset;
    let mut words: Words = (0..64).map(|index| (at(4 * index), 0x5A5A_5A5A)).collect();
    for (offset, next, mark) in
        [(0, 32, POOL), (32, 80, 0xFFFF_EEEE), (80, 120, 0xFFFF_EEEE), (120, 248, POOL), (248, 0, POOL)]
    {
        words.insert(at(offset), at(next));
        words.insert(at(offset) + 4, mark);
    }
    (object, words)
}

#[test]
fn the_blocks_of_a_byte_pool_are_followed_to_the_last() {
    let (object, words) = heap();
    let found = read(&object, &words).unwrap();
    assert_eq!(found.damage, None);
    assert_eq!(found.all.iter().map(|block| block.len).collect::<Vec<_>>(), [24, 40, 32, 120]);
    assert_eq!(found.largest(), 80, "neighbours that are free are joined, with the words between them");
}

#[test]
fn the_block_in_front_of_the_damage_is_named() {
    let (object, mut words) = heap();
    words.insert(START + 32, 0x4141_4141);
    let damage = read(&object, &words).unwrap().damage.unwrap();
    let front = PoolBlock { at: START, start: START + 8, len: 24, is_free: false };
    assert_eq!((damage.at, damage.front), (START + 32, Some(front)));
    // The lowest byte of a link, as the end of a string that is one too long.
    let (object, mut words) = heap();
    words.insert(START + 32, START);
    assert_eq!(read(&object, &words).unwrap().damage.unwrap().at, START + 32);
}

/// The link of the second block leads past the third one, to no block.
#[test]
fn a_link_that_leads_past_a_block_is_what_was_damaged() {
    let (object, mut words) = heap();
    words.insert(START + 32, START + 100);
    let damage = read(&object, &words).unwrap().damage.unwrap();
    assert_eq!((damage.at, damage.front.map(|front| front.at)), (START + 32, Some(START)));
}

/// Two blocks were merged with a third one, and what was in front of the second is still there: the sound block in front of the
/// damage was blamed.
#[test]
fn words_of_blocks_that_were_merged_were_taken_for_a_block_that_was_left_out() {
    let (_, mut words) = heap();
    // Free from 32 to 120; the block behind it is damaged.
    words.insert(START + 32, START + 120);
    words.insert(START + 120, 0x4141_4141);
    // The old words at 80 led to what is now in the middle of the block behind.
    words.insert(START + 80, START + 160);
    words.insert(START + 160, START + 248);
    words.insert(START + 164, POOL);
    let of = |available| {
        let object = pool(Kind::BytePool, &[("start", START), ("size", 256), ("available", available)]);
        read(&object, &words).unwrap().damage.unwrap().at
    };
    assert_eq!(of(88), START + 120, "from 32 to 120");
    assert_eq!(of(48 + 80), START + 32, "from 32 to 80, and from 80 to 160: the link at 32 leaves two blocks out");
}

#[test]
fn what_cannot_be_read_or_cannot_be_is_no_damage() {
    let (object, mut words) = heap();
    words.remove(&(START + 120));
    assert_eq!(read(&object, &words), None);
    for members in [
        [("start", 0), ("size", 256)],
        [("start", START), ("size", 4)],
        [("start", u64::MAX - 3), ("size", 256)],
        [("start", START + 1), ("size", 256)],
    ] {
        assert_eq!(read(&pool(Kind::BytePool, &members), &heap().1), None, "{members:?}");
    }
    let huge = [("start", START), ("size", u64::MAX), ("total", u64::MAX), ("block_size", u64::MAX)];
    assert_eq!(read(&pool(Kind::BlockPool, &huge), &heap().1), None);
}

#[test]
fn a_free_block_leads_to_a_free_block() {
    let members = [("start", START), ("size", 60), ("total", 3), ("block_size", 16), ("available_list", START + 20)];
    let object = pool(Kind::BlockPool, &members);
    let mut words = Words::from([(START, POOL), (START + 20, START + 40), (START + 40, 0)]);
    let found = read(&object, &words).unwrap();
    assert_eq!((found.damage, found.astray, found.all.len()), (None, None, 3));
    words.insert(START + 20, 0x7E7E_7E7E);
    let damage = read(&object, &words).unwrap().damage.unwrap();
    assert_eq!((damage.at, damage.front.map(|front| front.is_free)), (START + 20, Some(false)));
    words.insert(START + 20, POOL);
    let astray = pool(Kind::BlockPool, &[&members[..4], &[("available_list", 0x7E7E_7E7E)]].concat());
    assert_eq!(read(&astray, &words).unwrap().astray, Some(0x7E7E_7E7E));
}

/// Four blocks of 16 bytes: the second and the fourth are free.
fn cells(first: Addr, available: u64) -> (Object, Words) {
    let members = [("start", START), ("size", 80), ("total", 4), ("block_size", 16)];
    let list = [("available_list", first), ("available", available)];
    let words = Words::from([(START, POOL), (START + 20, START + 60), (START + 40, POOL), (START + 60, 0)]);
    (pool(Kind::BlockPool, &[&members[..], &list].concat()), words)
}

#[test]
fn a_block_that_was_released_twice_shortens_the_list_of_free_blocks() {
    let free = |(object, words): &(Object, Words)| read(object, words).unwrap().free.unwrap();
    assert!(free(&cells(START + 20, 2)).is_whole());
    assert!(!free(&cells(START + 20, 3)).is_whole(), "the kernel counted it twice");
    // At once: it leads to itself.
    let (object, mut words) = cells(START + 20, 3);
    words.insert(START + 20, START + 20);
    let found = free(&(object, words));
    assert_eq!((found.listed, found.leads_to.map(|block| block.at)), (1, Some(START + 20)));
    // It was allocated since, and is still in the list.
    let (object, mut words) = cells(START + 20, 2);
    words.insert(START + 60, POOL);
    assert_eq!(free(&(object, words)).leads_to.map(|block| block.at), Some(START + 60));
}
