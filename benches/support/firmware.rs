//! A firmware of some 200 MB: the fixture's, with the code of many made-up drivers around it.
//!
//! Written as C and compiled with full debug information, because that is where the bytes of a real one are. Every unit
//! sees the same header of register blocks, as units of a firmware see the header of their chip, so every unit describes
//! those types again, and the linker merges their names. Nothing of the kernel is in those units: whoever looks for its
//! types has to pass all of them, for the kernel is linked last.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Units of made-up code, functions in each, and blocks of registers in the common header.
const UNITS: usize = 180;
const FUNCTIONS: usize = 400;
const BLOCKS: usize = 2600;

const NOUNS: [&str; 12] = ["uart", "spi", "i2c", "can", "usb", "eth", "sdmmc", "adc", "dma", "rtc", "flash", "lcd"];
const VERBS: [&str; 10] =
    ["init", "start", "stop", "poll", "transfer", "configure", "calibrate", "suspend", "resume", "handle_error"];

/// The program, built where it is not there yet; `None`, with the reason on stderr, where there is no compiler.
pub fn large(dir: &Path) -> Option<PathBuf> {
    let elf = dir.join("large.elf");
    let mark = dir.join("large.txt");
    let recipe = format!("{UNITS} {FUNCTIONS} {BLOCKS} 1\n");
    if elf.is_file() && fs::read_to_string(&mark).is_ok_and(|m| m == recipe) {
        return Some(elf);
    }
    let work = dir.join("large");
    fs::create_dir_all(&work).unwrap();
    fs::write(work.join("blocks.h"), header()).unwrap();
    let next = AtomicUsize::new(0);
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let done = std::thread::scope(|scope| {
        let compile_some = || {
            loop {
                let unit = next.fetch_add(1, Ordering::Relaxed);
                if unit >= UNITS {
                    return true;
                }
                fs::write(work.join(format!("unit{unit}.c")), source(unit)).unwrap();
                let options = ["-Og", "-g", "-c", "-fdata-sections", "-ffunction-sections"];
                if !compiler(&work, |c| c.args(options).arg(format!("unit{unit}.c"))) {
                    return false;
                }
            }
        };
        let all: Vec<_> = (0..jobs).map(|_| scope.spawn(compile_some)).collect();
        all.into_iter().all(|job| job.join().unwrap())
    });
    if !done || !link(&work, &elf) {
        return None;
    }
    fs::write(mark, recipe).unwrap();
    let _ = fs::remove_dir_all(work);
    Some(elf)
}

fn compiler(dir: &Path, more: impl Fn(&mut Command) -> &mut Command) -> bool {
    let mut command = Command::new("arm-none-eabi-gcc");
    command.current_dir(dir).args(["-std=gnu11", "-mcpu=cortex-m3", "-mthumb", "-ffreestanding", "-nostdlib"]);
    match more(&mut command).status() {
        Ok(status) => status.success(),
        Err(error) => {
            eprintln!("SKIPPED: arm-none-eabi-gcc: {error}");
            false
        }
    }
}

/// Links the units into memory of their own, so that the fixture's parts are where its dump has them.
fn link(work: &Path, elf: &Path) -> bool {
    let firmware = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/firmware");
    let script = fs::read_to_string(firmware.join("mps2.ld")).unwrap();
    let script = script.replace(
        "    RAM   (rwx)",
        "    MORE  (rx)  : ORIGIN = 0x10000000, LENGTH = 64M\n    \
             EXTRA (rwx) : ORIGIN = 0x60000000, LENGTH = 64M\n    RAM   (rwx)",
    );
    let script = script.replace(
        "    .text : {",
        "    .units : { KEEP(*unit*.o(.text* .rodata*)) } > MORE\n    \
             .more (NOLOAD) : { KEEP(*unit*.o(.data* .bss* COMMON)) } > EXTRA\n    .text : {",
    );
    fs::write(work.join("large.ld"), script).unwrap();
    let parts = ["kernel.c", "trace.c", "app.c", "port_cm3.c"].map(|name| firmware.join(name));
    compiler(work, |c| {
        c.args(["-Og", "-g", "-fno-omit-frame-pointer", "-fno-strict-aliasing", "-ffunction-sections"])
            .args(["-fdata-sections", "-Wl,--gc-sections", "-Wl,--build-id=sha1", "-DFW_VARIANT=FW_CRASH"])
            .args(["-DFW_MAY_BE_REPLACED=", "-T"])
            .arg("large.ld")
            .args((0..UNITS).map(|unit| format!("unit{unit}.o")))
            .args(&parts)
            .args(["-lgcc", "-o"])
            .arg(elf)
    })
}

/// Blocks of registers, each of which points to the next: a unit that uses one describes them all.
fn header() -> String {
    let mut c = String::from("#include <stdint.h>\n");
    for block in (0..BLOCKS).rev() {
        let noun = NOUNS[block % NOUNS.len()];
        writeln!(c, "enum {noun}_mode_{block} {{ {noun}_off_{block}, {noun}_slow_{block}, {noun}_fast_{block} }};")
            .unwrap();
        writeln!(c, "struct {noun}_regs_{block} {{").unwrap();
        for (register, size) in
            ["CR", "SR", "DR", "BRR", "IER", "ICR", "CCR", "CNT"].iter().zip([32, 16, 8].iter().cycle())
        {
            writeln!(c, "    volatile uint{size}_t {register}_{block};").unwrap();
        }
        writeln!(c, "    enum {noun}_mode_{block} mode_{block};").unwrap();
        if block + 1 < BLOCKS {
            writeln!(c, "    struct {}_regs_{} *next_{block};", NOUNS[(block + 1) % NOUNS.len()], block + 1).unwrap();
        }
        writeln!(c, "}};").unwrap();
    }
    c
}

/// One unit: functions with parameters, locals, a static one that each calls, and variables.
fn source(unit: usize) -> String {
    let mut c = String::from("#include \"blocks.h\"\n");
    for f in 0..FUNCTIONS {
        let (verb, block) = (VERBS[f % VERBS.len()], (unit * 7 + f) % BLOCKS);
        let noun = NOUNS[block % NOUNS.len()];
        let name = format!("{noun}_{verb}_{unit}_{f}");
        write!(
            c,
            "struct {name}_state {{ uint32_t count; uint16_t errors; uint8_t phase; struct {noun}_regs_{block} *regs; }};
static struct {name}_state {name}_now;
uint32_t {name}_total;
static __attribute__((noinline)) uint32_t {name}_sum(const uint8_t *data, uint32_t length, uint32_t seed)
{{
    uint32_t sum = seed;
    for (uint32_t i = 0; i < length; i++) {{
        uint8_t byte = data[i];
        sum = (sum << 3 | sum >> 29) ^ byte;
    }}
    return sum;
}}
int {name}(struct {noun}_regs_{block} *regs, const uint8_t *data, uint32_t length, enum {noun}_mode_{block} mode)
{{
    struct {name}_state *now = &{name}_now;
    uint32_t status = regs->SR_{block};
    if (status & {bit}u) {{
        uint16_t errors = now->errors;
        now->errors = (uint16_t)(errors + 1);
        return -{f};
    }}
    for (struct {noun}_regs_{block} *at = regs; mode != {noun}_off_{block}; mode = {noun}_off_{block}) {{
        uint32_t sum = {name}_sum(data, length, {f});
        at->DR_{block} = (uint8_t)sum;
        {name}_total += sum;
    }}
    now->regs = regs;
    return (int)++now->count;
}}
",
            bit = 1 << (f % 16)
        )
        .unwrap();
    }
    c
}
