//! Writes the C code: one text that compiles as it is, and whose parts are files of the project.

use super::{Program, State, Wanted};
use crate::catalogue::classes;

/// Columns of a comment.
const WIDTH: usize = 80;
/// Where the words of a line in the head begin.
const INDENT: usize = 11;
/// Classes that are never left out: without them the kernel writes late results over a word of the oldest event.
const NEEDED: u64 = 0x7;

/// The words of a trace's header; a word is a `ULONG`.
const HEADER_WORDS: u64 = 12;
/// The words of an object's entry beside its name of 32 bytes, and of an event.
const OBJECT_WORDS: u64 = 4;
const NAME_BYTES: u64 = 32;
const EVENT_WORDS: u64 = 8;
/// The bytes of a word that the size in the head assumes: nearly all ports have words of four.
const WORD: u64 = 4;

/// All of it.
pub(super) fn write(program: &Program, wanted: &Wanted) -> String {
    let mut text = head(program, wanted);
    if needs_user_file(program, wanted) {
        text.push_str(&user_file(program, wanted));
    }
    text.push_str(&header(program, wanted));
    text.push_str(&source(program, wanted));
    text
}

/// True where the kernel is to be built with other options.
fn needs_user_file(program: &Program, wanted: &Wanted) -> bool {
    program.state == State::NotBuilt || wanted.all || wanted.time_source.is_some()
}

/// A comment: lines of a name and words, put into lines.
fn head(program: &Program, wanted: &Wanted) -> String {
    let mut text = format!("/* The event trace for {}, by `tx-trace setup`.\n", program.name);
    let kernel = program.version.as_deref().unwrap_or("ThreadX, whose version is not in this ELF");
    line(&mut text, "Kernel", &comma_list(&[&[kernel], program.components.as_slice()].concat()));
    line(&mut text, "Machine", &program.machine.to_string());
    let time = match &wanted.time_source {
        Some(_) => "the expression that was given",
        None => program.time.about(),
    };
    line(&mut text, "Time", time);
    let state = match program.state {
        State::NotBuilt => "not there: the kernel was built without TX_ENABLE_EVENT_TRACE",
        State::NotEnabled => "compiled in; tx_trace_enable is not in this program, so nothing enables it",
        State::There => "compiled in, and tx_trace_enable is in this program",
    };
    line(&mut text, "Trace", state);
    line(&mut text, "Buffer", &buffer(wanted));
    let mut step: u8 = 0;
    for words in to_do(program, wanted) {
        step = step.saturating_add(1);
        line(&mut text, if step == 1 { "To do" } else { "" }, &format!("{step}. {words}"));
    }
    text.push_str("*/\n");
    text
}

/// How large the buffer is, and for what.
fn buffer(wanted: &Wanted) -> String {
    let Wanted { objects, rate, .. } = wanted;
    let events = wanted.events();
    let object = OBJECT_WORDS.saturating_mul(WORD).saturating_add(NAME_BYTES);
    let bytes = HEADER_WORDS
        .saturating_mul(WORD)
        .saturating_add(objects.saturating_mul(object))
        .saturating_add(events.saturating_mul(EVENT_WORDS.saturating_mul(WORD)));
    let guess = if wanted.rate_is_guessed { ", which is a guess (--rate)" } else { "" };
    format!(
        "{bytes} bytes with a ULONG of four: {events} events, {:?} at {rate} events a second{guess}, and {objects} \
         objects. `tx-trace info` shows how far back a full buffer reaches",
        wanted.keep
    )
}

/// The steps.
fn to_do(program: &Program, wanted: &Wanted) -> Vec<String> {
    let mut steps = vec!["Put each part below into the file that it names.".to_owned()];
    if needs_user_file(program, wanted) {
        let built = comma_list(&[&["the kernel"], program.components.as_slice(), &["the application"]].concat());
        steps.push(format!("Build {built} again, each with TX_INCLUDE_USER_DEFINE_FILE defined."));
    }
    steps.push("Call trace_start() first in tx_application_define().".to_owned());
    if wanted.over_reset {
        steps.push("Put .noinit into the linker script: see trace.c.".to_owned());
    }
    steps.push(format!("tx-trace last 50 --elf {} --remote :3333", program.typed_name()));
    steps
}

/// `a, b and c`
fn comma_list(words: &[&str]) -> String {
    match words.split_last() {
        Some((last, [])) => (*last).to_owned(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
        None => String::new(),
    }
}

/// A name and words, in as many lines as they need.
fn line(text: &mut String, name: &str, words: &str) {
    let mut column = INDENT;
    text.push_str(&format!("   {name:width$}", width = INDENT.saturating_sub(3)));
    let mut is_first = true;
    for word in words.split(' ') {
        let needed = column.saturating_add(word.chars().count()).saturating_add(1);
        if !is_first && needed > WIDTH {
            text.push_str(&format!("\n{:INDENT$}", ""));
            (column, is_first) = (INDENT, true);
        }
        if !is_first {
            text.push(' ');
            column = column.saturating_add(1);
        }
        text.push_str(word);
        column = column.saturating_add(word.chars().count());
        is_first = false;
    }
    text.push('\n');
}

/// The mark of a file.
fn part(name: &str) -> String {
    format!("\n/* {:=<72} */\n", format!("==== {name} "))
}

/// What the kernel is built with.
fn user_file(program: &Program, wanted: &Wanted) -> String {
    let mut text = part("tx_user.h");
    text.push_str(
        "/* Assembly files include it too: it may have nothing but #define. */\n\n\
         #ifndef TX_ENABLE_EVENT_TRACE\n#define TX_ENABLE_EVENT_TRACE\n#endif\n",
    );
    match wanted.time_source.as_deref().or_else(|| program.time.source()) {
        Some(source) => text.push_str(&format!(
            "#define TX_TRACE_TIME_SOURCE {source}\n#define TX_TRACE_TIME_MASK   0x{:08X}UL\n",
            wanted.time_mask
        )),
        None => text.push_str("/* TX_TRACE_TIME_SOURCE and TX_TRACE_TIME_MASK: those of the port. */\n"),
    }
    text
}

/// What the application's files include.
fn header(program: &Program, wanted: &Wanted) -> String {
    let mut text = part("trace.h");
    text.push_str(HEADER);
    if wanted.over_reset && program.time.clean().is_some() {
        text.push_str(
            "/* Writes the trace from the data cache to RAM: last before a reset, and in\n   the fault handler. */\n\
             void trace_clean (void);\n\n",
        );
    }
    text.push_str(MACROS);
    text
}

const HEADER: &str = "\
#ifndef TRACE_H
#define TRACE_H

#include \"tx_api.h\"

/* Starts the trace: TX_SUCCESS, or the error of tx_trace_enable(). */
UINT trace_start (void);

";

const MACROS: &str = "\
/* Events of your own: tx-trace takes their names from this enum (build with -g).
   A file of events names their arguments: `tx-trace help events`. */
enum app_event { APP_START = 4096, APP_SAMPLE, APP_LATE };

#ifdef TX_ENABLE_EVENT_TRACE
#define TRACE_EVENT(event, i1, i2, i3, i4) \\
    ((void) tx_trace_user_event_insert ((ULONG) (event), (ULONG) (i1), (ULONG) (i2), (ULONG) (i3), (ULONG) (i4)))
/* First and last in an interrupt handler; `id` is a number of your own for it. */
#define TRACE_ISR_ENTER(id) tx_trace_isr_enter_insert ((ULONG) (id))
#define TRACE_ISR_EXIT(id)  tx_trace_isr_exit_insert ((ULONG) (id))
#else
#define TRACE_EVENT(event, i1, i2, i3, i4) ((void) 0)
#define TRACE_ISR_ENTER(id) ((void) 0)
#define TRACE_ISR_EXIT(id)  ((void) 0)
#endif

#endif
";

/// What starts the trace.
fn source(program: &Program, wanted: &Wanted) -> String {
    let mut text = part("trace.c");
    text.push_str("#ifndef TRACE_H\n#include \"trace.h\"\n#endif\n\n");
    text.push_str(&sizes(wanted));
    text.push_str(&left_out(program));
    text.push_str(if wanted.over_reset { KEPT } else { "ULONG tx_trace_buffer[TRACE_WORDS];\n" });
    text.push('\n');
    let start = program.time.start().filter(|_| wanted.time_source.is_none());
    if let Some(start) = start {
        text.push_str(start);
        text.push('\n');
    }
    if wanted.over_reset {
        text.push_str(COPY);
        text.push_str(&clean(program));
    }
    text.push_str("UINT trace_start (void)\n{\n    UINT status;\n\n");
    if start.is_some() {
        text.push_str("    start_time ();\n");
    }
    if wanted.over_reset {
        text.push_str("    copy_before_reset ();\n");
    }
    text.push_str(ENABLE);
    text
}

const ENABLE: &str = "    status = tx_trace_enable (tx_trace_buffer, (ULONG) sizeof (tx_trace_buffer), TRACE_OBJECTS);
    if (status == TX_SUCCESS && TRACE_LEFT_OUT != 0UL)
        status = tx_trace_event_filter (TRACE_LEFT_OUT);
    TRACE_EVENT (APP_START, 0, 0, 0, 0);
    return status;
}
";

/// The numbers that decide the buffer's size.
fn sizes(wanted: &Wanted) -> String {
    format!(
        "/* Threads, queues, mutexes and so on that get a name in the trace. */\n\
         #define TRACE_OBJECTS {}UL\n\
         #define TRACE_EVENTS  {}UL\n\
         /* A header; an entry for each object, with a name of 32 bytes; the events. */\n\
         #define TRACE_WORDS   ({HEADER_WORDS} + TRACE_OBJECTS * ({OBJECT_WORDS} + {NAME_BYTES} / sizeof (ULONG)) + \
         TRACE_EVENTS * {EVENT_WORDS})\n\n",
        wanted.objects,
        wanted.events()
    )
}

/// The mask of events that are not inserted, with what it may hold.
fn left_out(program: &Program) -> String {
    let mut text =
        "/* Classes of events that are left out, so that the buffer reaches further back:\n   a sum of\n".to_owned();
    let has = |name: &str| match name.split('_').next() {
        Some("FX") => program.components.contains(&"FileX"),
        Some("NX") => program.components.iter().any(|name| name.starts_with("NetX")),
        Some("UX") => program.components.contains(&"USBX"),
        _ => true,
    };
    for (mask, name) in classes().filter(|(mask, name)| mask & NEEDED == 0 && has(name)) {
        text.push_str(&format!("       0x{mask:08X} {name}\n"));
    }
    text.push_str(
        "   The first three bits stay 0: without these classes the kernel overwrites a\n   word of the oldest event. */\n\
         #define TRACE_LEFT_OUT 0x00000000UL\n\n",
    );
    text
}

const KEPT: &str = "\
/* Not cleared by the startup code. In the linker script, after .bss:
       .noinit (NOLOAD) : { *(.noinit*) } > RAM
   A boot loader must leave this RAM alone too. After power-on its contents are random. */
#define TRACE_NOINIT __attribute__ ((section (\".noinit\"), aligned (64)))
ULONG tx_trace_buffer[TRACE_WORDS] TRACE_NOINIT;
/* The trace of the run before: `tx-trace last 50 --header ADDRESS` reads it, with
   the address that `nm app.elf` prints for this variable. */
ULONG trace_before_reset[TRACE_WORDS] TRACE_NOINIT;
";

const COPY: &str = "\
/* tx_trace_enable() overwrites the trace of the run before. */
static void copy_before_reset (void)
{
    ULONG i;

    trace_before_reset[0] = 0;
    if (tx_trace_buffer[0] != 0x54585442UL)    /* how a trace begins */
        return;
    for (i = 0; i < TRACE_WORDS; i++)
        trace_before_reset[i] = tx_trace_buffer[i];
}

";

/// The function that writes the data cache back.
fn clean(program: &Program) -> String {
    let Some(clean) = program.time.clean() else {
        let about = if program.time.is_without_cache() {
            ""
        } else {
            "/* Where the chip has a data cache that holds writes back: write tx_trace_buffer\n   back by the chip's own \
             function before a reset, and in the fault handler. */\n\n"
        };
        return about.to_owned();
    };
    format!(
        "/* A reset throws away what the data cache has not written to RAM. */\n\
         void trace_clean (void)\n{{\n    unsigned long at = (unsigned long) tx_trace_buffer & ~63UL;\n    \
         unsigned long end = (unsigned long) tx_trace_buffer + sizeof (tx_trace_buffer);\n\n{clean}}}\n\n"
    )
}
