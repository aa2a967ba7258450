//! Backtraces beside GDB's.

use std::path::Path;

use tx_trace::session::{Inputs, Target};

#[test]
fn try_it() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    for (elf, core) in
        [("cm3.elf", "cm3.core"), ("host.elf", "host.core"), ("smp.elf", "smp.core"), ("be.elf", "be.core")]
    {
        println!("== {elf}");
        let mut target = Target::open(Inputs::new().elf(dir.join(elf)).file(dir.join(core))).unwrap();
        let kernel = match target.kernel(None) {
            Ok(k) => k,
            Err(e) => {
                println!("{e}");
                continue;
            }
        };
        let threads: Vec<_> = kernel.threads.iter().collect();
        for (thread, bt) in threads.iter().zip(target.backtraces(&kernel, &threads)) {
            println!("{}:", thread.label());
            for f in &bt.functions {
                println!(
                    "  {:#x} {:?}+{:?} {:?}:{:?} inlined={} {}",
                    f.pc,
                    f.name,
                    f.offset,
                    f.file,
                    f.line,
                    f.is_inlined,
                    f.origin.name()
                );
            }
            println!("  end: {}", bt.end);
        }
    }
}
