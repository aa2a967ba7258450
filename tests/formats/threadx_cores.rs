//! Core numbers in the top byte of every id, as SMP kernels store them, distinguished from ids that are damaged, unknown, or an
//! application's own.

use crate::support::builder::{Buffer, Entry, Registered};
use crate::support::dice::Dice;
use crate::support::threadx::{BASE, codes, decode, events, issue, thread};
use tx_trace::trace::Severity;

fn address(i: u64) -> u64 {
    0x2000_1000 + i * 0x100
}

fn threads(n: u64) -> Vec<Registered> {
    (0..n).map(|i| thread(address(i), &format!("t{i}"), 4 + i as u16)).collect()
}

/// Threads that run side by side: each core has one for a while, which calls the kernel and inserts events of the
/// application, blocks, and gives its core to another.
fn smp(seed: u64, cores: u64, count: usize, user: &[u64]) -> Vec<Entry> {
    let mut dice = Dice::of(seed);
    let mut on: Vec<u64> = (0..cores).collect();
    let mut free: Vec<u64> = (cores..cores * 2).collect();
    let mut list = Vec::new();
    while list.len() < count {
        let core = dice.below(cores as usize);
        let who = on[core];
        let at = 1000 + list.len() as u64 * 37 + dice.below(30) as u64;
        let event = |id, info| Entry::thread(address(who), 4 + who, (core as u64) << 24 | id, at, info);
        list.push(match dice.below(6) {
            0 => {
                let next = free.remove(0);
                free.push(who);
                on[core] = next;
                event(2, [address(who), 6, 0, address(next)])
            }
            1 => event(83, [0x2000_9000, 0, 1, 0]),
            2 => event(88, [0x2000_9000, 0, 1, 0]),
            3 => event(1, [address(free[0]), 6, 0, address(who)]),
            _ => event(user[dice.below(user.len())], [7, 0, 0, 0]),
        });
    }
    list
}

fn buffer(threads: Vec<Registered>, list: &[Entry]) -> Buffer {
    Buffer { objects: threads, ..Buffer::new(BASE) }.record(list.len() + 1, list)
}

#[test]
fn an_unknown_id_made_all_cores_one() {
    for cores in 2..=4 {
        for seed in 0..40 {
            // 469 is an id of TraceX alone, 1100 an application's below the range that is its own.
            let list = smp(seed, cores, 500, &[5000, 5000, 5001, 5001, 5002, 5003, 469, 1100]);
            let t = decode(&buffer(threads(cores * 2), &list));
            assert_eq!(u64::from(t.about.cores), cores, "seed {seed}");
            let reported: Vec<(u16, u32)> = events(&t).iter().map(|e| (e.core, e.id)).collect();
            let truth: Vec<(u16, u32)> =
                list.iter().map(|e| ((e.id >> 24) as u16, (e.id & 0xFF_FFFF) as u32)).collect();
            assert_eq!(reported, truth, "seed {seed}");
            let unknown = list.iter().filter(|e| matches!(e.id & 0xFF_FFFF, 469 | 1100)).count();
            let said = issue(&t, "cores-inferred");
            assert_eq!(said.severity, Severity::Inferred);
            assert!(said.message.contains(&format!("all but {unknown} of 500 ids")), "{}", said.message);
        }
    }
}

#[test]
fn a_damaged_slot_of_an_smp_trace_made_its_ids_unknown_or_hundreds_of_cores() {
    for cores in 2..=4 {
        for seed in 0..40 {
            let mut dice = Dice::of(900 + seed);
            let mut list = smp(seed, cores, 500, &[5000, 5001]);
            let mut damaged = Vec::new();
            for _ in 0..10 {
                let at = 20 + dice.below(460);
                list[at].id = 0x4D12_3456 + dice.below(1 << 20) as u64;
                damaged.push(at as u64);
            }
            damaged.sort_unstable();
            damaged.dedup();
            let t = decode(&buffer(threads(cores * 2), &list));
            assert_eq!(u64::from(t.about.cores), cores, "seed {seed}");
            assert_eq!(issue(&t, "slot-overwritten").count, damaged.len() as u64);
            for e in events(&t) {
                assert!(!damaged.contains(&e.seq), "seed {seed}: {} is shown", e.seq);
                let truth = list[e.seq as usize].id;
                assert_eq!((u64::from(e.core), u64::from(e.id)), (truth >> 24, truth & 0xFF_FFFF), "seed {seed}");
            }
        }
    }
}

/// One core, and in the top byte of some ids something else.
#[test]
fn a_single_core_is_not_taken_for_several() {
    for seed in 0..60 {
        let plain = smp(seed, 1, 500, &[5000, 5001, 469]);
        let check = |what: &str, list: &[Entry]| {
            let t = decode(&buffer(threads(2), list));
            assert!(
                t.about.cores == 1 && !codes(&t).contains(&"cores-inferred"),
                "{what}, seed {seed}: {:?}",
                t.issues
            );
            let odd = list.iter().filter(|e| e.id > 0xFF_FFFF).count();
            assert_eq!(events(&t).iter().filter(|e| e.id > 0xFF_FFFF).count(), odd, "{what}, seed {seed}");
        };
        check("nothing", &plain);
        let mut dice = Dice::of(seed);
        // The application has the number of a module in the top byte.
        let mut modules = plain.clone();
        modules.iter_mut().filter(|e| e.id >= 5000).for_each(|e| e.id |= (1 + e.id % 2) << 24);
        check("modules", &modules);
        // One thread alone inserts such events.
        let mut one = plain.clone();
        one.iter_mut().filter(|e| e.id >= 5000 && e.context == address(1)).for_each(|e| e.id |= 1 << 24);
        check("one thread", &one);
        // A few ids were damaged.
        for flips in [1, 2, 4, 8] {
            let mut damaged = plain.clone();
            for _ in 0..flips {
                damaged[20 + dice.below(460)].id |= 1 << 24;
            }
            check("damaged", &damaged);
        }
    }
}
