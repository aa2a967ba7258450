//! The rules, causes before their symptoms.

mod arrays;
mod asleep;
mod below_handler;
mod below_stack;
mod beyond;
mod block_released;
mod by_code;
pub(super) mod callback;
mod callback_sleeps;
mod chain;
mod control_blocks;
mod copied;
mod corrupt_pool;
mod counter;
mod created_again;
mod deadlock;
pub(super) mod disabled_interrupt;
mod earlier_run;
mod empty_entry;
mod endless_handler;
mod fault;
mod few_ticks;
mod flag_lock;
mod flags_cleared;
mod flags_taken;
mod flushed;
mod forbidden_call;
mod frames;
mod given_while_waited;
mod giver_gone;
mod handler_waits;
mod heap;
mod held_blocks;
mod hold_and_wait;
mod impossible_count;
mod in_handler;
pub(super) mod interrupts;
mod inversion;
mod irq_priority;
mod isr_storm;
mod isr_stuck;
mod jump;
mod kept_ready;
mod kernel_pointer;
mod lacking_flags;
mod large_frames;
mod late;
mod left_by_callback;
mod left_disabled;
mod left_running;
mod level_flags;
mod livelock;
mod local_sent;
mod long_sleep;
mod loop_calls;
mod lost_blocks;
mod lost_pool;
mod machine_timer;
mod main_stack;
mod masked;
mod masked_riscv;
mod masking_code;
mod message;
mod never_given;
mod never_resumed;
mod never_seen;
mod never_taken;
mod no_switch;
mod no_thread;
mod no_tick;
mod not_created;
mod not_given;
mod not_in_list;
mod not_own_wait;
mod not_passed_on;
mod not_returned;
mod not_sent_on;
mod not_started;
mod notified;
mod number_wanted;
mod other_flags;
mod other_type;
mod overdue;
mod overflow_into_block;
mod owner_gone;
mod passed;
mod past_end;
pub(super) mod place;
mod pointer;
mod pool_memory;
mod pools;
mod preempt_left;
mod priority_by_code;
mod priority_risen;
mod queue_full;
mod raised_priority;
mod recorded;
mod refused;
mod refused_messages;
mod released_alone;
mod released_free;
mod released_memory;
mod released_twice;
mod reset;
mod retries;
mod rounds;
mod runs_on;
mod same_buffer;
mod same_word;
mod semaphore_leak;
mod set_by;
mod shared;
mod silence;
mod slow_callback;
mod stack_calls;
mod stack_handler;
mod stack_released;
mod stacks;
mod stacks_overlap;
mod starvation;
pub(super) mod static_pointers;
mod stopped;
mod storage_overlap;
mod text_over_pointer;
mod thread_block;
mod threshold;
mod through;
mod tick_off;
mod tick_rate;
mod tick_storm;
mod timer_waited;
mod timers_still;
mod trace_fault;
mod trace_stacks;
mod unacknowledged;
mod unchecked;
mod unseen;
mod used_after_delete;
mod users;
mod vector;
mod waiting_blocks;
mod without_lock;
mod words;
mod writers;
mod written_stop;
mod wrong_context;
mod wrong_index;
mod wrong_mask;
mod yields;

pub(super) use jump::target;

use super::graph::Graph;
use super::{Case, Finding};

/// One rule.
pub(super) struct Check {
    /// What it looks at, in a few words.
    pub what: &'static str,
    pub find: fn(&Case<'_>, &Graph) -> Vec<Finding>,
}

/// All of them.
pub(super) static CHECKS: &[Check] = &[
    Check { what: "start-up code over the RAM of an older run", find: reset::find },
    Check { what: "handlers of stacks that were used up", find: stack_handler::find },
    Check { what: "faults", find: fault::find },
    Check { what: "faults that only the trace shows", find: trace_fault::find },
    Check { what: "tables of functions with an empty entry, where a trace ends", find: empty_entry::find },
    Check { what: "jumps out of the program's code", find: jump::find },
    Check { what: "assertions, endless loops, lockup", find: stopped::find },
    Check { what: "what the program wrote down about a stop of its own", find: written_stop::find },
    Check { what: "loops in which nothing changes", find: rounds::find },
    Check { what: "loops that interrupts left on stacks", find: left_running::find },
    Check { what: "storage that reaches over control blocks", find: storage_overlap::find },
    Check { what: "calls with objects that were deleted", find: used_after_delete::find },
    Check { what: "objects that were created again", find: created_again::find },
    Check { what: "objects that were not created since the last start", find: not_created::find },
    Check { what: "stacks in memory that was released", find: stack_released::find },
    Check { what: "control blocks in memory that was released", find: block_released::find },
    Check { what: "stacks that overlap", find: stacks_overlap::find },
    Check { what: "lists that a callback of a timer waited in", find: timer_waited::find },
    Check { what: "control blocks and their lists", find: control_blocks::find },
    Check { what: "where control blocks say that stacks are", find: thread_block::find },
    Check { what: "texts that run over pointers", find: text_over_pointer::find },
    Check { what: "blocks of pools", find: corrupt_pool::find },
    Check { what: "blocks of pools that were released twice", find: released_twice::find },
    Check { what: "blocks of pools that were free and were released", find: released_free::find },
    Check { what: "what is below the main stack", find: main_stack::find },
    Check { what: "control blocks below stacks", find: overflow_into_block::find },
    Check { what: "stacks", find: stacks::find },
    Check { what: "stacks that are too small for the frames of what their threads call", find: large_frames::find },
    Check { what: "priorities that no call changes", find: priority_risen::find },
    Check { what: "stack pointers in a trace that nothing else shows", find: trace_stacks::find },
    Check { what: "counts of queues in a trace that nothing else shows", find: impossible_count::find },
    Check { what: "threads that go on though they wait", find: runs_on::find },
    Check { what: "interrupts that stay disabled", find: masked::find },
    Check { what: "a timer interrupt of a RISC-V that a thread keeps back", find: masked_riscv::find },
    Check { what: "interrupts that a function may leave disabled", find: left_disabled::find },
    Check { what: "waits for an interrupt that cannot come", find: asleep::find },
    Check { what: "a count that keeps the kernel from switching threads", find: preempt_left::find },
    Check { what: "handlers that do not return", find: isr_stuck::find },
    Check { what: "handlers that do not end with memory as it is", find: endless_handler::find },
    Check { what: "switches of threads that an interrupt keeps back", find: no_switch::find },
    Check { what: "interrupts that come without end, or do not end", find: isr_storm::find },
    Check { what: "a thread for timers that is ready and kept back", find: kept_ready::find },
    Check { what: "a tick that comes without end", find: tick_storm::find },
    Check { what: "the tick", find: no_tick::find },
    Check { what: "a tick that has become slower", find: tick_rate::find },
    Check { what: "the machine timer of a RISC-V", find: machine_timer::find },
    Check { what: "a SysTick that is switched off", find: tick_off::find },
    Check { what: "time-outs that do not end", find: timers_still::find },
    Check { what: "ticks of a kernel without a thread for its timers", find: few_ticks::find },
    Check { what: "priorities of interrupts", find: irq_priority::find },
    Check { what: "priorities of interrupts, by the code", find: priority_by_code::find },
    Check { what: "ready threads that are in no list", find: not_in_list::find },
    Check { what: "waits for what is there", find: given_while_waited::find },
    Check { what: "services that an interrupt must not call, and that the CPU is in", find: forbidden_call::find },
    Check { what: "calls that interrupts and callbacks of timers may not make", find: wrong_context::find },
    Check { what: "waits of threads that called nothing", find: not_own_wait::find },
    Check { what: "callbacks of timers that sleep", find: callback_sleeps::find },
    Check { what: "calls of interrupts and of callbacks with a time to wait", find: handler_waits::find },
    Check { what: "waits in a circle", find: deadlock::find },
    Check { what: "mutexes that callbacks of timers did not give back", find: left_by_callback::find },
    Check { what: "event flags that are used as locks", find: flag_lock::find },
    Check { what: "semaphores that are used as locks", find: semaphore_leak::find },
    Check { what: "event flags that are waited for by their numbers", find: number_wanted::find },
    Check { what: "waits that nobody can end, by the program's code", find: by_code::find },
    Check { what: "owners of locks that cannot go on", find: owner_gone::find },
    Check { what: "owners of locks that are kept from running", find: inversion::find },
    Check { what: "threads that give way to each other", find: livelock::find },
    Check { what: "callbacks of timers that take the time", find: slow_callback::find },
    Check { what: "threads that are ready and do not run", find: ready },
    Check { what: "threads and mutexes of a trace that nothing else shows", find: unseen::find },
    Check { what: "what is put in and not taken out in a trace that nothing else shows", find: never_taken::find },
    Check { what: "loops that wait for a value in memory", find: stopped::polling },
    Check { what: "the kernel's initialisation", find: not_started::find },
    Check { what: "threads that have blocks of a pool and wait for more", find: hold_and_wait::find },
    Check { what: "what comes soon after a wait for it has ended", find: late::find },
    Check { what: "event flags that another thread takes", find: flags_taken::find },
    Check { what: "blocks of pools that wait in queues", find: waiting_blocks::find },
    Check { what: "pools that are used up, and for which nobody waits", find: lost_pool::find },
    Check { what: "messages that a reader neither passes on nor releases", find: not_passed_on::find },
    Check { what: "pools that drain or are used up", find: pools::find },
    Check { what: "event flags that are set instead of others", find: other_flags::find },
    Check { what: "messages from the same memory", find: same_buffer::find },
    Check { what: "event flags that are never there together", find: lacking_flags::find },
    Check { what: "full queues", find: queue_full::find },
    Check { what: "messages that full queues refused", find: refused_messages::find },
    Check { what: "messages with addresses of local variables", find: local_sent::find },
    Check { what: "times that are negative", find: long_sleep::find },
    Check { what: "results that no code looks at", find: unchecked::find },
    Check { what: "waits for a thread that has ended or is suspended", find: giver_gone::find },
    Check { what: "waits for what no thread gives", find: never_given::find },
    Check { what: "event flags that a call clears", find: flags_cleared::find },
    Check { what: "suspended threads that nothing resumes", find: never_resumed::find },
    Check { what: "event flags that no thread waits for", find: wrong_mask::find },
    Check { what: "full queues that no thread reads", find: queue_full::unread },
    Check { what: "control blocks that contradict each other", find: control_blocks::contradictions },
    Check { what: "waits for what no thread ever gave", find: never_seen::find },
    Check { what: "whether threads of the application exist", find: no_thread::find },
    Check { what: "event flags of which none was ever set", find: never_seen::flags },
    Check { what: "interrupts that have not ended at the newest event", find: not_returned::find },
    Check { what: "events of the run before the last start", find: earlier_run::find },
];

/// Threads that are ready and do not run: by the events, else as one that runs gives way to nobody, or tries the same again
/// and again, else as one keeps a priority that its code sets.
fn ready(case: &Case<'_>, graph: &Graph) -> Vec<Finding> {
    let all = [starvation::find, yields::find, retries::find, raised_priority::find];
    all.iter().map(|find| find(case, graph)).find(|found| !found.is_empty()).unwrap_or_default()
}
