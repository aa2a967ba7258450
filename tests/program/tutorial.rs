//! docs/tutorial.md: its C compiles for a Cortex-M, and what its commands print is shown.

#![cfg(all(feature = "cli", unix))]

use std::path::Path;
use std::process::Command;

use crate::support::machine::Scratch;
use crate::support::programs::installed;

/// What the page uses of the kernel's interface, as the kernel declares it.
const TX_API: &str = r"
#ifndef TX_API_H
#define TX_API_H
#ifdef TX_INCLUDE_USER_DEFINE_FILE
#include <tx_user.h>
#endif
typedef void VOID;
typedef unsigned int UINT;
typedef unsigned long ULONG;
typedef struct { ULONG tx_semaphore_id; } TX_SEMAPHORE;
#define TX_SUCCESS 0u
#define TX_TRACE_INTERNAL_EVENTS         0x00000001
#define TX_TRACE_INTERRUPT_CONTROL_EVENT 0x00000010
#define TX_TRACE_TIME_EVENTS             0x00000200
UINT tx_trace_enable(VOID *trace_buffer_start, ULONG trace_buffer_size, ULONG registry_entries);
UINT tx_trace_event_filter(ULONG event_filter_bits);
UINT tx_trace_user_event_insert(ULONG event_id, ULONG i1, ULONG i2, ULONG i3, ULONG i4);
VOID tx_trace_isr_enter_insert(ULONG isr_id);
VOID tx_trace_isr_exit_insert(ULONG isr_id);
UINT tx_semaphore_put(TX_SEMAPHORE *semaphore_ptr);
VOID tx_application_define(VOID *first_unused_memory);
#endif
";

/// The header of a chip, as far as the page uses it.
const CHIP: &str = "void SCB_CleanDCache(void);\n";

/// Uses the macros of the page's `tx_user.h`.
const CLOCK: &str = r#"
#include <tx_api.h>
#ifndef TX_ENABLE_EVENT_TRACE
#error "the tx_user.h of the page does not enable the trace"
#endif
ULONG stamp(void);
ULONG stamp(void)
{
#ifdef TX_TRACE_TIME_SOURCE
    return TX_TRACE_TIME_SOURCE & TX_TRACE_TIME_MASK;
#else
    return 0;
#endif
}
"#;

/// The fenced blocks of C, each with the file name in its first line.
fn blocks(page: &str) -> Vec<(String, String)> {
    let fenced = page.split("\n```c\n").skip(1);
    let block = |rest: &str| {
        let code = rest.split_once("\n```").expect("an end of the block").0;
        let first = code.lines().next().unwrap();
        let name = first.strip_prefix("/* ").and_then(|l| l.strip_suffix(" */")).expect("a file name first");
        (name.to_owned(), code.to_owned() + "\n")
    };
    fenced.map(block).collect()
}

#[test]
fn the_c_of_the_tutorial_compiles() {
    require!(installed("arm-none-eabi-gcc"));
    let clang = installed("clang");
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/tutorial.md");
    let blocks = blocks(&std::fs::read_to_string(page).unwrap());
    assert!(blocks.len() >= 10, "{} blocks", blocks.len());
    let scratch = Scratch::new("tutorial");
    let write = |name: &str, text: &str| std::fs::write(scratch.path(name), text).unwrap();
    write("tx_api.h", TX_API);
    write("stm32h7xx.h", CHIP);
    write("clock_use.c", CLOCK);
    // Each source is compiled with the `tx_user.h` that the page has shown last.
    for (name, code) in &blocks {
        write(name, code);
        let source = if name == "tx_user.h" { "clock_use.c" } else { name };
        let mut gcc = Command::new("arm-none-eabi-gcc");
        gcc.args(["-c", "-mcpu=cortex-m7", "-mthumb", "-std=c11", "-Wall", "-Wextra", "-Werror", "-I."]);
        gcc.args(["-DTX_INCLUDE_USER_DEFINE_FILE", source, "-o", "out.o"]).current_dir(scratch.path(""));
        let done = gcc.output().unwrap();
        assert!(done.status.success(), "{name}:\n{}", String::from_utf8_lossy(&done.stderr));
        if clang {
            let mut clang = Command::new("clang");
            clang.args(["--target=arm-none-eabi", "-c", "-mcpu=cortex-m7", "-mthumb", "-std=c11", "-Wall", "-Wextra"]);
            clang.args(["-Werror", "-I.", "-DTX_INCLUDE_USER_DEFINE_FILE", source, "-o", "out.o"]);
            let done = clang.current_dir(scratch.path("")).output().unwrap();
            assert!(done.status.success(), "{name}, clang:\n{}", String::from_utf8_lossy(&done.stderr));
        }
        if name == "tx_user.h" {
            // The kernel's assembler files include it.
            let mut gcc = Command::new("arm-none-eabi-gcc");
            gcc.args(["-c", "-mcpu=cortex-m7", "-x", "assembler-with-cpp", "tx_user.h", "-o", "out.o"]);
            let done = gcc.current_dir(scratch.path("")).output().unwrap();
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        }
    }
}
