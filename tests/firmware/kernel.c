/* Threads, ticks and services of the pretend kernel. */
#include "kernel.h"

#define THREAD_ID    0x54485244u
#define TIMER_ID     0x4154494Du
#define QUEUE_ID     0x51554555u
#define SEMAPHORE_ID 0x53454D41u
#define MUTEX_ID     0x4D555445u
#define FLAGS_ID     0x4456444Eu
#define BLOCK_ID     0x424C4F43u
#define BYTE_ID      0x42595445u

#define PRIORITIES 32

/* The stack pointer words of the trace: somewhere in the caller's frame. */
#define HERE UL(__builtin_frame_address(0))

#if FW_CORES > 1
const CHAR _tx_version_id[] = "Pretend kernel of the tx-trace tests, not ThreadX itself * ThreadX SMP/Cortex-A9/GNU Version 6.4.2 *";
#elif defined(__LP64__) || defined(__powerpc__)
const CHAR _tx_version_id[] = "Pretend kernel of the tx-trace tests, not ThreadX itself * ThreadX Linux/GNU Version 6.4.2 *";
#else
const CHAR _tx_version_id[] = "Pretend kernel of the tx-trace tests, not ThreadX itself * ThreadX Cortex-M3/GNU Version 6.4.2 *";
#endif

#if FW_CORES > 1
TX_THREAD *volatile _tx_thread_current_ptr[FW_CORES];
TX_THREAD *volatile _tx_thread_execute_ptr[FW_CORES];
volatile ULONG _tx_thread_system_state[FW_CORES];
UINT fw_core;
#else
TX_THREAD *volatile _tx_thread_current_ptr;
TX_THREAD *volatile _tx_thread_execute_ptr;
volatile ULONG _tx_thread_system_state;
#endif
volatile UINT _tx_thread_preempt_disable;
volatile ULONG _tx_timer_system_clock;
TX_THREAD *_tx_thread_created_ptr;
ULONG _tx_thread_created_count;
TX_TIMER *_tx_timer_created_ptr;
ULONG _tx_timer_created_count;
TX_QUEUE *_tx_queue_created_ptr;
ULONG _tx_queue_created_count;
TX_MUTEX *_tx_mutex_created_ptr;
ULONG _tx_mutex_created_count;
TX_SEMAPHORE *_tx_semaphore_created_ptr;
ULONG _tx_semaphore_created_count;
TX_EVENT_FLAGS_GROUP *_tx_event_flags_created_ptr;
ULONG _tx_event_flags_created_count;
TX_BLOCK_POOL *_tx_block_pool_created_ptr;
ULONG _tx_block_pool_created_count;
TX_BYTE_POOL *_tx_byte_pool_created_ptr;
ULONG _tx_byte_pool_created_count;
TX_THREAD _tx_timer_thread;

struct fw_counters fw_counters = { .magic = 0x54435746u, .size = sizeof(struct fw_counters) };
struct fw_counters fw_checkpoints[FW_RING_EVENTS / FW_CHECKPOINT_EVERY];
TX_THREAD *fw_thread_of[FW_MAX_THREADS];
volatile struct fw_fault fw_fault;

#if FW_VARIANT == FW_STRADDLE
volatile uint32_t fw_clock = 0u - FW_CLOCK_TO_OVERFLOW;
#else
volatile uint32_t fw_clock = 0x00100000u;
#endif
#if FW_VARIANT == FW_UNWRAPPED
/* In RAM, where CMSIS keeps it; nothing here reads it, debuggers and tools do.
 * Only here: with it events have times, which a bare trace without an ELF has not. */
__attribute__((used, section(".data.SystemCoreClock"))) uint32_t SystemCoreClock = 25000000u;
#endif

/* The layouts as they were measured on real kernels. */
#if defined(__arm__)
_Static_assert(sizeof(TX_THREAD) == 180 && offsetof(TX_THREAD, tx_thread_name) == 40
               && offsetof(TX_THREAD, tx_thread_state) == 48
               && offsetof(TX_THREAD, tx_thread_entry) == 68
               && offsetof(TX_THREAD, tx_thread_created_next) == 136, "Cortex-M TX_THREAD");
#elif defined(__LP64__) && !defined(ULONG64)
_Static_assert(sizeof(TX_THREAD) == 360 && offsetof(TX_THREAD, tx_thread_name) == 112
               && offsetof(TX_THREAD, tx_thread_state) == 124
               && offsetof(TX_THREAD, tx_thread_entry) == 152
               && offsetof(TX_THREAD, tx_thread_created_next) == 288, "Linux TX_THREAD");
#endif
#define WORDS(narrow, wide) (sizeof(ULONG) == 8 ? (wide) : (narrow))
_Static_assert(sizeof(TX_TRACE_HEADER) == WORDS(48, 96)
               && sizeof(TX_TRACE_OBJECT_ENTRY) == WORDS(48, 64)
               && sizeof(TX_TRACE_BUFFER_ENTRY) == WORDS(32, 64), "trace layout");

static TX_THREAD *ready[PRIORITIES];
static TX_TIMER_INTERNAL *timers_active; /* only its address is used: "this timer runs" */
static TX_THREAD *no_waiters;
static uint32_t next_tick;
static uint32_t accounted;               /* fw_clock up to which time has an owner */
static uint32_t ready_since[FW_MAX_THREADS];
static UINT idle;

/* Circular lists, as all of the kernel's are: `created` and `suspended`. */
#define LINK(head, node, next, prev)            \
    do {                                        \
        if ((head) == NULL) {                   \
            (head) = (node);                    \
            (node)->next = (node);              \
            (node)->prev = (node);              \
        } else {                                \
            (node)->next = (head);              \
            (node)->prev = (head)->prev;        \
            (head)->prev->next = (node);        \
            (head)->prev = (node);              \
        }                                       \
    } while (0)

#define UNLINK(head, node, next, prev)          \
    do {                                        \
        if ((node)->next == (node)) {           \
            (head) = NULL;                      \
        } else {                                \
            (node)->next->prev = (node)->prev;  \
            (node)->prev->next = (node)->next;  \
            if ((head) == (node))               \
                (head) = (node)->next;          \
        }                                       \
        (node)->next = NULL;                    \
        (node)->prev = NULL;                    \
    } while (0)

static VOID fill(VOID *to, UCHAR byte, ULONG size)
{
    volatile UCHAR *p = to; /* volatile: no memset exists here to call */
    while (size--)
        *p++ = byte;
}

/* ---- The firmware's own truth ---- */

static struct fw_thread_counters *counters_of(TX_THREAD *t)
{
    UINT i;
    for (i = 0; i < FW_MAX_THREADS - 1 && fw_thread_of[i] != t; i++)
        ;
    return &fw_counters.thread[i];
}

VOID mk_account(VOID)
{
    uint32_t passed = fw_clock - accounted;
    accounted = fw_clock;
    fw_counters.clock = fw_clock;
#if FW_CORES > 1
    UINT c;
    for (c = 0; c < FW_CORES; c++)
        if (_tx_thread_current_ptr[c] != NULL)
            counters_of(_tx_thread_current_ptr[c])->cycles += passed;
        else if (idle)
            fw_counters.idle_cycles += passed;
#else
    if (CURRENT != NULL)
        counters_of(CURRENT)->cycles += passed;
    else if (idle)
        fw_counters.idle_cycles += passed;
#endif
}

#if FW_CORES > 1
static uint32_t busy_until[FW_CORES];      /* when the core's thread has done its work */
static uint32_t work_left[FW_MAX_THREADS]; /* of threads that were preempted */

/* The core is busy; the others go on meanwhile: see mk_machine. */
VOID fw_work(uint32_t cycles)
{
    busy_until[fw_core] = fw_clock + cycles;
    port_switch();
}
#else
VOID fw_work(uint32_t cycles)
{
    while (cycles != 0) {
        uint32_t left = next_tick - fw_clock;
        if (left == 0 || left > FW_TICK_CYCLES) { /* due, or overdue */
            port_tick();
            continue;
        }
        if (left > cycles)
            left = cycles;
        fw_clock += left;
        cycles -= left;
    }
}
#endif

/* ---- Ready list and scheduling ---- */

#if FW_CORES > 1
/* A thread has a home core, or none (-1): then it may start on any, and stays
 * there until it waits. */
static UINT may_run(TX_THREAD *t, UINT core)
{
    int home = app_home[counters_of(t) - fw_counters.thread];
    UINT c;
    if (home >= 0)
        return (UINT)home == core;
    for (c = 0; c < FW_CORES; c++)
        if (_tx_thread_current_ptr[c] == t)
            return c == core;
    return 1;
}

static VOID choose(VOID)
{
    TX_THREAD *chosen[FW_CORES], *t;
    UINT c, d, p;

    for (c = 0; c < FW_CORES; c++) {
        chosen[c] = NULL;
        for (p = 0; p < PRIORITIES && chosen[c] == NULL; p++) {
            if ((t = ready[p]) == NULL)
                continue;
            do {
                for (d = 0; d < c && chosen[d] != t; d++)
                    ;
                if (d == c && may_run(t, c))
                    chosen[c] = t;
                t = t->tx_thread_ready_next;
            } while (t != ready[p] && chosen[c] == NULL);
        }
    }
    for (c = 0; c < FW_CORES; c++)
        _tx_thread_execute_ptr[c] = chosen[c];
}
#else
static VOID choose(VOID)
{
    UINT p;
    for (p = 0; p < PRIORITIES && ready[p] == NULL; p++)
        ;
    EXECUTE = p < PRIORITIES ? ready[p] : NULL;
}
#endif

/* Interrupts are off in all of these. */
static VOID resume(TX_THREAD *t)
{
    struct fw_thread_counters *c = counters_of(t);
    mk_patch p;

    p = mk_trace_patchable(1, T_INTERNAL, UL(t), t->tx_thread_state, HERE, UL(EXECUTE));
    t->tx_thread_state = TX_READY;
    t->tx_thread_timer.tx_timer_internal_remaining_ticks = 0;
    t->tx_thread_timer.tx_timer_internal_list_head = NULL;
    LINK(ready[t->tx_thread_priority], t, tx_thread_ready_next, tx_thread_ready_previous);
    choose();
    mk_trace_patch_4(p, UL(EXECUTE));
    c->resumptions++;
    ready_since[c - fw_counters.thread] = fw_clock;
}

static VOID suspend(TX_THREAD *t, UINT state, ULONG ticks)
{
    mk_patch p;

    t->tx_thread_state = state;
    p = mk_trace_patchable(2, T_INTERNAL, UL(t), state, HERE, UL(EXECUTE));
    UNLINK(ready[t->tx_thread_priority], t, tx_thread_ready_next, tx_thread_ready_previous);
    if (ticks != 0 && ticks != TX_WAIT_FOREVER) {
        t->tx_thread_timer.tx_timer_internal_remaining_ticks = ticks;
        t->tx_thread_timer.tx_timer_internal_list_head = &timers_active;
    }
    t->tx_thread_suspension_sequence++;
    choose();
    mk_trace_patch_4(p, UL(EXECUTE));
    counters_of(t)->suspensions++;
}

/* The end of every service: let a better thread run, then open interrupts. */
static VOID leave(UINT posture)
{
    if (SYSTEM_STATE == 0 && port_exception() == 0
        && EXECUTE != CURRENT)
        port_switch();
    port_restore(posture);
}

VOID mk_pick(VOID)
{
    TX_THREAD *old = CURRENT, *t;
    struct fw_thread_counters *c;

    mk_account();
    if (old != NULL && old->tx_thread_state == TX_READY)
        counters_of(old)->preemptions++;
    CURRENT = NULL;
#if FW_CORES > 1
    if (old != NULL)
        work_left[counters_of(old) - fw_counters.thread] =
            (int32_t)(busy_until[fw_core] - fw_clock) > 0 ? busy_until[fw_core] - fw_clock : 0;
    if (EXECUTE == NULL) {
        fw_counters.idle_entries++;
        return;
    }
    busy_until[fw_core] = fw_clock + work_left[counters_of(EXECUTE) - fw_counters.thread];
#else
    if (EXECUTE == NULL) {
        fw_counters.idle_entries++;
        idle = 1;
        while (EXECUTE == NULL)
            fw_work(next_tick - fw_clock > FW_TICK_CYCLES ? 1 : next_tick - fw_clock + 1);
        mk_account();
        idle = 0;
    }
#endif
    t = EXECUTE;
    CURRENT = t;
    t->tx_thread_run_count++;
    c = counters_of(t);
    c->runs++;
    fw_counters.context_switches++;
    if (ready_since[c - fw_counters.thread] != 0) {
        uint32_t latency = fw_clock - ready_since[c - fw_counters.thread];
        if (latency > c->max_latency)
            c->max_latency = latency;
        ready_since[c - fw_counters.thread] = 0;
    }
}

#if FW_CORES > 1
/* All cores, by one clock: what comes first, a tick or the end of some core's
 * work, happens next. Between two such moments a core's doings take only the
 * time of their trace inserts, and no other core comes between. */
VOID mk_machine(VOID)
{
    idle = 1;
    for (;;) {
        UINT c, next = FW_CORES;

        for (fw_core = 0; fw_core < FW_CORES; fw_core++)
            if (EXECUTE != CURRENT)
                mk_pick();
        fw_core = 0;
        for (c = 0; c < FW_CORES; c++)
            if (_tx_thread_current_ptr[c] != NULL
                && (next == FW_CORES || (int32_t)(busy_until[c] - busy_until[next]) < 0))
                next = c;
        if (next == FW_CORES || (int32_t)(next_tick - busy_until[next]) <= 0) {
            if ((int32_t)(next_tick - fw_clock) > 0)
                fw_clock = next_tick;
            port_tick();
            continue;
        }
        if ((int32_t)(busy_until[next] - fw_clock) > 0)
            fw_clock = busy_until[next];
        fw_core = next;
        port_run();
    }
}
#endif

VOID mk_isr(UINT number, VOID (*body)(VOID))
{
    ULONG state = SYSTEM_STATE | port_exception();
    if (number < FW_MAX_VECTORS)
        fw_counters.interrupts[number]++;
    mk_trace(3, T_INTERNAL, HERE, number, state, _tx_thread_preempt_disable);
    body();
    mk_trace(4, T_INTERNAL, HERE, number, state, _tx_thread_preempt_disable);
}

/* ---- Time ---- */

VOID mk_tick(VOID)
{
    UINT expired = 0;
    ULONG n;
    TX_THREAD *t = _tx_thread_created_ptr;
    TX_TIMER *tm = _tx_timer_created_ptr;

    next_tick += FW_TICK_CYCLES;
    _tx_timer_system_clock++;
    if (CURRENT != NULL)
        counters_of(CURRENT)->ticks++;
    else
        fw_counters.idle_ticks++;

    for (n = _tx_thread_created_count; n--; t = t->tx_thread_created_next)
        if (t->tx_thread_timer.tx_timer_internal_list_head != NULL
            && --t->tx_thread_timer.tx_timer_internal_remaining_ticks == 0)
            expired = 1;
    for (n = _tx_timer_created_count; n--; tm = tm->tx_timer_created_next)
        if (tm->tx_timer_internal.tx_timer_internal_list_head != NULL
            && --tm->tx_timer_internal.tx_timer_internal_remaining_ticks == 0)
            expired = 1;
    if (expired && _tx_timer_thread.tx_thread_state == TX_SUSPENDED)
        resume(&_tx_timer_thread);
    if (app_line_has_frame())
        port_uart_pend();
}

static VOID timer_thread(ULONG unused)
{
    (void)unused;
    for (;;) {
        ULONG n;
        UINT posture = port_disable();
        TX_THREAD *t = _tx_thread_created_ptr;
        TX_TIMER *tm = _tx_timer_created_ptr;

        for (n = _tx_thread_created_count; n--; t = t->tx_thread_created_next) {
            TX_TIMER_INTERNAL *ti = &t->tx_thread_timer;
            if (ti->tx_timer_internal_list_head != NULL && ti->tx_timer_internal_remaining_ticks == 0) {
                ti->tx_timer_internal_list_head = NULL;
                if (t->tx_thread_suspend_cleanup != NULL)
                    t->tx_thread_suspend_cleanup(t, t->tx_thread_suspension_sequence);
                resume(t);
            }
        }
        for (n = _tx_timer_created_count; n--; tm = tm->tx_timer_created_next) {
            TX_TIMER_INTERNAL *ti = &tm->tx_timer_internal;
            if (ti->tx_timer_internal_list_head != NULL && ti->tx_timer_internal_remaining_ticks == 0) {
                ti->tx_timer_internal_remaining_ticks = ti->tx_timer_internal_re_initialize_ticks;
                if (ti->tx_timer_internal_re_initialize_ticks == 0)
                    ti->tx_timer_internal_list_head = NULL;
                ti->tx_timer_internal_timeout_function(ti->tx_timer_internal_timeout_param);
            }
        }
        fw_clock += 300;
        suspend(&_tx_timer_thread, TX_SUSPENDED, 0);
        leave(posture);
    }
}

ULONG mk_time_get(VOID)
{
    mk_trace(120, T_TIME, _tx_timer_system_clock, HERE, 0, 0);
    return _tx_timer_system_clock;
}

VOID mk_timer_create(TX_TIMER *t, const CHAR *name, VOID (*fn)(ULONG), ULONG param,
                     ULONG initial, ULONG again, UINT activate)
{
    UINT posture = port_disable();
    fill(t, 0, sizeof *t);
    t->tx_timer_name = (CHAR *)name;
    t->tx_timer_internal.tx_timer_internal_remaining_ticks = initial;
    t->tx_timer_internal.tx_timer_internal_re_initialize_ticks = again;
    t->tx_timer_internal.tx_timer_internal_timeout_function = fn;
    t->tx_timer_internal.tx_timer_internal_timeout_param = param;
    t->tx_timer_internal.tx_timer_internal_list_head = activate ? &timers_active : NULL;
    LINK(_tx_timer_created_ptr, t, tx_timer_created_next, tx_timer_created_previous);
    _tx_timer_created_count++;
    t->tx_timer_id = TIMER_ID;
    mk_trace_register(OBJ_TIMER, t, name, initial, again);
    mk_trace(124, T_TIMER, UL(t), initial, again, activate);
    port_restore(posture);
}

/* ---- Threads ---- */

VOID mk_thread_shell(VOID)
{
    TX_THREAD *t = CURRENT;
    UINT posture;

    t->tx_thread_entry(t->tx_thread_entry_parameter);
    posture = port_disable();
    suspend(t, TX_COMPLETED, 0);
    leave(posture);
    for (;;)
        ;
}

VOID mk_thread_create(TX_THREAD *t, const CHAR *name, VOID (*entry)(ULONG), ULONG param,
                      VOID *stack, ULONG size, UINT priority, UINT autostart)
{
    UINT posture;

    fill(t, 0, sizeof *t);
    fill(stack, 0xEF, size);
    t->tx_thread_name = (CHAR *)name;
    t->tx_thread_entry = entry;
    t->tx_thread_entry_parameter = param;
    t->tx_thread_stack_start = stack;
    t->tx_thread_stack_size = size;
    t->tx_thread_stack_end = (UCHAR *)stack + size - 1;
    t->tx_thread_stack_highest_ptr = t->tx_thread_stack_end;
    t->tx_thread_priority = priority;
    t->tx_thread_user_priority = priority;
    t->tx_thread_preempt_threshold = priority;
    t->tx_thread_user_preempt_threshold = priority;
    t->tx_thread_inherit_priority = PRIORITIES;
    t->tx_thread_state = TX_SUSPENDED;
    port_stack_build(t);

    posture = port_disable();
    LINK(_tx_thread_created_ptr, t, tx_thread_created_next, tx_thread_created_previous);
    if (_tx_thread_created_count < FW_MAX_THREADS)
        fw_thread_of[_tx_thread_created_count] = t;
    _tx_thread_created_count++;
    t->tx_thread_id = THREAD_ID;
    mk_trace_register(OBJ_THREAD, t, name, UL(stack), size);
    mk_trace(100, T_THREAD, UL(t), priority, UL(stack), size);
    if (autostart)
        resume(t);
    leave(posture);
}

VOID mk_thread_sleep(ULONG ticks)
{
    UINT posture = port_disable();
    TX_THREAD *t = CURRENT;
    if (t == &_tx_timer_thread) { /* it must not sleep: TX_CALLER_ERROR */
        port_restore(posture);
        return;
    }
    mk_trace(112, T_THREAD, ticks, t->tx_thread_state, HERE, 0);
    t->tx_thread_suspend_cleanup = NULL;
    suspend(t, TX_SLEEP, ticks);
    leave(posture);
}

VOID mk_thread_relinquish(VOID)
{
    UINT posture = port_disable();
    TX_THREAD *t = CURRENT;
    ready[t->tx_thread_priority] = t->tx_thread_ready_next;
    choose();
    mk_trace(109, T_THREAD, HERE, UL(EXECUTE), 0, 0);
    leave(posture);
}

TX_THREAD *mk_thread_identify(VOID)
{
    UINT posture = port_disable();
    mk_trace(103, T_THREAD, 0, 0, 0, 0);
    port_restore(posture);
    return CURRENT;
}

/* ---- Waiting on an object ---- */

/* Where a control block keeps its waiting threads, from the state that the
 * waiter is in: that is how a timeout finds its way back. */
static TX_THREAD **waiters_of(TX_THREAD *t, UINT **count)
{
    VOID *o = t->tx_thread_suspend_control_block;
    switch (t->tx_thread_state) {
    case TX_QUEUE_SUSP:
        *count = &((TX_QUEUE *)o)->tx_queue_suspended_count;
        return &((TX_QUEUE *)o)->tx_queue_suspension_list;
    case TX_SEMAPHORE_SUSP:
        *count = &((TX_SEMAPHORE *)o)->tx_semaphore_suspended_count;
        return &((TX_SEMAPHORE *)o)->tx_semaphore_suspension_list;
    case TX_EVENT_FLAG:
        *count = &((TX_EVENT_FLAGS_GROUP *)o)->tx_event_flags_group_suspended_count;
        return &((TX_EVENT_FLAGS_GROUP *)o)->tx_event_flags_group_suspension_list;
    case TX_BLOCK_MEMORY:
        *count = &((TX_BLOCK_POOL *)o)->tx_block_pool_suspended_count;
        return &((TX_BLOCK_POOL *)o)->tx_block_pool_suspension_list;
    case TX_BYTE_MEMORY:
        *count = &((TX_BYTE_POOL *)o)->tx_byte_pool_suspended_count;
        return &((TX_BYTE_POOL *)o)->tx_byte_pool_suspension_list;
    case TX_MUTEX_SUSP:
        *count = &((TX_MUTEX *)o)->tx_mutex_suspended_count;
        return &((TX_MUTEX *)o)->tx_mutex_suspension_list;
    default:
        *count = NULL;
        return &no_waiters;
    }
}

static VOID timed_out(TX_THREAD *t, ULONG sequence)
{
    UINT *count;
    TX_THREAD **list = waiters_of(t, &count);
    (void)sequence;
    if (count != NULL) {
        UNLINK(*list, t, tx_thread_suspended_next, tx_thread_suspended_previous);
        (*count)--;
    }
    switch (t->tx_thread_state) {
    case TX_QUEUE_SUSP: t->tx_thread_suspend_status =
        t->tx_thread_suspend_option ? TX_QUEUE_FULL : TX_QUEUE_EMPTY; break;
    case TX_SEMAPHORE_SUSP: t->tx_thread_suspend_status = TX_NO_INSTANCE; break;
    case TX_EVENT_FLAG: t->tx_thread_suspend_status = TX_NO_EVENTS; break;
    case TX_MUTEX_SUSP: t->tx_thread_suspend_status = TX_NOT_AVAILABLE; break;
    default: t->tx_thread_suspend_status = TX_NO_MEMORY; break;
    }
    t->tx_thread_suspend_cleanup = NULL;
}

static VOID wait_on(VOID *object, UINT state, ULONG ticks)
{
    TX_THREAD *t = CURRENT;
    TX_THREAD **list;
    UINT *count;

    t->tx_thread_suspend_control_block = object;
    t->tx_thread_suspend_cleanup = timed_out;
    t->tx_thread_state = state;
    list = waiters_of(t, &count);
    LINK(*list, t, tx_thread_suspended_next, tx_thread_suspended_previous);
    (*count)++;
    suspend(t, state, ticks);
}

static VOID wake(TX_THREAD *t, UINT status)
{
    UINT *count;
    TX_THREAD **list = waiters_of(t, &count);
    UNLINK(*list, t, tx_thread_suspended_next, tx_thread_suspended_previous);
    (*count)--;
    t->tx_thread_suspend_cleanup = NULL;
    t->tx_thread_suspend_status = status;
    resume(t);
}

/* ---- Queues ---- */

static VOID copy_words(ULONG *to, const ULONG *from, UINT words)
{
    while (words--)
        *to++ = *from++;
}

static ULONG *advance(TX_QUEUE *q, ULONG *at)
{
    at += q->tx_queue_message_size;
    return at >= q->tx_queue_end ? q->tx_queue_start : at;
}

VOID mk_queue_create(TX_QUEUE *q, const CHAR *name, UINT words, VOID *start, ULONG size)
{
    UINT posture = port_disable();
    fill(q, 0, sizeof *q);
    q->tx_queue_name = (CHAR *)name;
    q->tx_queue_message_size = words;
    q->tx_queue_capacity = (UINT)(size / (words * sizeof(ULONG)));
    q->tx_queue_available_storage = q->tx_queue_capacity;
    q->tx_queue_start = start;
    q->tx_queue_end = (ULONG *)start + q->tx_queue_capacity * words;
    q->tx_queue_read = start;
    q->tx_queue_write = start;
    LINK(_tx_queue_created_ptr, q, tx_queue_created_next, tx_queue_created_previous);
    _tx_queue_created_count++;
    q->tx_queue_id = QUEUE_ID;
    mk_trace_register(OBJ_QUEUE, q, name, size, words);
    mk_trace(60, T_QUEUE, UL(q), words, UL(start), size);
    port_restore(posture);
}

/* A thread that waits on a queue waits to receive (option 0) or to send (1). */
UINT mk_queue_send(TX_QUEUE *q, VOID *source, ULONG wait)
{
    UINT posture = port_disable(), status = TX_SUCCESS;
    TX_THREAD *waiter = q->tx_queue_suspension_list;

    mk_trace(69, T_QUEUE, UL(q), UL(source), wait, q->tx_queue_enqueued);
    if (waiter != NULL && waiter->tx_thread_suspend_option == 0) {
        copy_words(waiter->tx_thread_additional_suspend_info, source, q->tx_queue_message_size);
        wake(waiter, TX_SUCCESS);
    } else if (q->tx_queue_available_storage != 0) {
        copy_words(q->tx_queue_write, source, q->tx_queue_message_size);
        q->tx_queue_write = advance(q, q->tx_queue_write);
        q->tx_queue_available_storage--;
        q->tx_queue_enqueued++;
    } else if (wait != TX_NO_WAIT) {
        TX_THREAD *t = CURRENT;
        t->tx_thread_additional_suspend_info = source;
        t->tx_thread_suspend_option = 1;
        wait_on(q, TX_QUEUE_SUSP, wait);
        leave(posture);
        return t->tx_thread_suspend_status;
    } else {
        status = TX_QUEUE_FULL;
    }
    leave(posture);
    return status;
}

UINT mk_queue_receive(TX_QUEUE *q, VOID *destination, ULONG wait)
{
    UINT posture = port_disable(), status = TX_SUCCESS;

    mk_trace(68, T_QUEUE, UL(q), UL(destination), wait, q->tx_queue_enqueued);
    if (q->tx_queue_enqueued != 0) {
        TX_THREAD *sender = q->tx_queue_suspension_list;
        copy_words(destination, q->tx_queue_read, q->tx_queue_message_size);
        q->tx_queue_read = advance(q, q->tx_queue_read);
        if (sender != NULL) {
            copy_words(q->tx_queue_write, sender->tx_thread_additional_suspend_info,
                       q->tx_queue_message_size);
            q->tx_queue_write = advance(q, q->tx_queue_write);
            wake(sender, TX_SUCCESS);
        } else {
            q->tx_queue_enqueued--;
            q->tx_queue_available_storage++;
        }
    } else if (wait != TX_NO_WAIT) {
        TX_THREAD *t = CURRENT;
        t->tx_thread_additional_suspend_info = destination;
        t->tx_thread_suspend_option = 0;
        wait_on(q, TX_QUEUE_SUSP, wait);
        leave(posture);
        return t->tx_thread_suspend_status;
    } else {
        status = TX_QUEUE_EMPTY;
    }
    leave(posture);
    return status;
}

/* ---- Semaphores ---- */

VOID mk_semaphore_create(TX_SEMAPHORE *s, const CHAR *name, ULONG count)
{
    UINT posture = port_disable();
    fill(s, 0, sizeof *s);
    s->tx_semaphore_name = (CHAR *)name;
    s->tx_semaphore_count = count;
    LINK(_tx_semaphore_created_ptr, s, tx_semaphore_created_next, tx_semaphore_created_previous);
    _tx_semaphore_created_count++;
    s->tx_semaphore_id = SEMAPHORE_ID;
    mk_trace_register(OBJ_SEMAPHORE, s, name, count, 0);
    mk_trace(81, T_SEMAPHORE, UL(s), count, HERE, 0);
    port_restore(posture);
}

VOID mk_semaphore_delete(TX_SEMAPHORE *s)
{
    UINT posture = port_disable();
    mk_trace(82, T_SEMAPHORE, UL(s), HERE, 0, 0);
    mk_trace_unregister(s);
    UNLINK(_tx_semaphore_created_ptr, s, tx_semaphore_created_next, tx_semaphore_created_previous);
    _tx_semaphore_created_count--;
    s->tx_semaphore_id = 0;
    port_restore(posture);
}

UINT mk_semaphore_get(TX_SEMAPHORE *s, ULONG wait)
{
    UINT posture = port_disable(), status = TX_SUCCESS;

    mk_trace(83, T_SEMAPHORE, UL(s), wait, s->tx_semaphore_count, HERE);
    if (s->tx_semaphore_count != 0) {
        s->tx_semaphore_count--;
    } else if (wait != TX_NO_WAIT) {
        TX_THREAD *t = CURRENT;
        wait_on(s, TX_SEMAPHORE_SUSP, wait);
        leave(posture);
        return t->tx_thread_suspend_status;
    } else {
        status = TX_NO_INSTANCE;
    }
    leave(posture);
    return status;
}

UINT mk_semaphore_put(TX_SEMAPHORE *s)
{
    UINT posture = port_disable();

    mk_trace(88, T_SEMAPHORE, UL(s), s->tx_semaphore_count, s->tx_semaphore_suspended_count, HERE);
    if (s->tx_semaphore_suspension_list != NULL)
        wake(s->tx_semaphore_suspension_list, TX_SUCCESS);
    else
        s->tx_semaphore_count++;
    leave(posture);
    return TX_SUCCESS;
}

/* ---- Mutexes. Inheritance is recorded, not acted on. ---- */

VOID mk_mutex_create(TX_MUTEX *m, const CHAR *name, UINT inherit)
{
    UINT posture = port_disable();
    fill(m, 0, sizeof *m);
    m->tx_mutex_name = (CHAR *)name;
    m->tx_mutex_inherit = inherit;
    m->tx_mutex_highest_priority_waiting = PRIORITIES;
    LINK(_tx_mutex_created_ptr, m, tx_mutex_created_next, tx_mutex_created_previous);
    _tx_mutex_created_count++;
    m->tx_mutex_id = MUTEX_ID;
    mk_trace_register(OBJ_MUTEX, m, name, inherit, 0);
    mk_trace(50, T_MUTEX, UL(m), inherit, HERE, 0);
    port_restore(posture);
}

static VOID own(TX_MUTEX *m, TX_THREAD *t)
{
    m->tx_mutex_owner = t;
    m->tx_mutex_ownership_count = 1;
    m->tx_mutex_original_priority = t->tx_thread_priority;
    LINK(t->tx_thread_owned_mutex_list, m, tx_mutex_owned_next, tx_mutex_owned_previous);
    t->tx_thread_owned_mutex_count++;
}

UINT mk_mutex_get(TX_MUTEX *m, ULONG wait)
{
    UINT posture = port_disable(), status = TX_SUCCESS;
    TX_THREAD *t = CURRENT;

    mk_trace(52, T_MUTEX, UL(m), wait, UL(m->tx_mutex_owner), m->tx_mutex_ownership_count);
    if (m->tx_mutex_ownership_count == 0) {
        own(m, t);
    } else if (m->tx_mutex_owner == t) {
        m->tx_mutex_ownership_count++;
    } else if (wait != TX_NO_WAIT) {
        if (t->tx_thread_priority < m->tx_mutex_highest_priority_waiting)
            m->tx_mutex_highest_priority_waiting = t->tx_thread_priority;
        wait_on(m, TX_MUTEX_SUSP, wait);
        leave(posture);
        return t->tx_thread_suspend_status;
    } else {
        status = TX_NOT_AVAILABLE;
    }
    leave(posture);
    return status;
}

UINT mk_mutex_put(TX_MUTEX *m)
{
    UINT posture = port_disable(), status = TX_SUCCESS;
    TX_THREAD *t = CURRENT;

    mk_trace(57, T_MUTEX, UL(m), UL(m->tx_mutex_owner), m->tx_mutex_ownership_count, HERE);
    if (m->tx_mutex_owner != t) {
        status = TX_NOT_OWNED;
    } else if (--m->tx_mutex_ownership_count == 0) {
        TX_THREAD *waiter = m->tx_mutex_suspension_list;
        UNLINK(t->tx_thread_owned_mutex_list, m, tx_mutex_owned_next, tx_mutex_owned_previous);
        t->tx_thread_owned_mutex_count--;
        m->tx_mutex_owner = NULL;
        m->tx_mutex_highest_priority_waiting = PRIORITIES;
        if (waiter != NULL) {
            own(m, waiter);
            wake(waiter, TX_SUCCESS);
        }
    }
    leave(posture);
    return status;
}

/* ---- Event flags ---- */

VOID mk_flags_create(TX_EVENT_FLAGS_GROUP *g, const CHAR *name)
{
    UINT posture = port_disable();
    fill(g, 0, sizeof *g);
    g->tx_event_flags_group_name = (CHAR *)name;
    LINK(_tx_event_flags_created_ptr, g, tx_event_flags_group_created_next,
         tx_event_flags_group_created_previous);
    _tx_event_flags_created_count++;
    g->tx_event_flags_group_id = FLAGS_ID;
    mk_trace_register(OBJ_FLAGS, g, name, 0, 0);
    mk_trace(30, T_FLAGS, UL(g), HERE, 0, 0);
    port_restore(posture);
}

static UINT satisfied(ULONG current, ULONG wanted, UINT option)
{
    return (option & TX_AND) ? (current & wanted) == wanted : (current & wanted) != 0;
}

#ifdef FW_NAMES
UINT mk_flags_change(TX_EVENT_FLAGS_GROUP *g, ULONG flags, UINT option)
#else
UINT mk_flags_set(TX_EVENT_FLAGS_GROUP *g, ULONG flags)
#endif
{
#ifndef FW_NAMES
    const UINT option = TX_OR;
#endif
    UINT posture = port_disable();
    UINT n = g->tx_event_flags_group_suspended_count;
    TX_THREAD *t = g->tx_event_flags_group_suspension_list;

    mk_trace(36, T_FLAGS, UL(g), flags, option, n);
    if (option == TX_AND)
        g->tx_event_flags_group_current &= flags;
    else
        g->tx_event_flags_group_current |= flags;
    while (n--) {
        TX_THREAD *next = t->tx_thread_suspended_next;
        ULONG current = g->tx_event_flags_group_current;
        if (satisfied(current, t->tx_thread_suspend_info, t->tx_thread_suspend_option)) {
            *(ULONG *)t->tx_thread_additional_suspend_info = current;
            if (t->tx_thread_suspend_option & 1u)
                g->tx_event_flags_group_current &= ~t->tx_thread_suspend_info;
            wake(t, TX_SUCCESS);
        }
        t = next;
    }
    leave(posture);
    return TX_SUCCESS;
}

UINT mk_flags_get(TX_EVENT_FLAGS_GROUP *g, ULONG flags, UINT option, ULONG *actual, ULONG wait)
{
    UINT posture = port_disable(), status = TX_SUCCESS;
    ULONG current = g->tx_event_flags_group_current;

    mk_trace(32, T_FLAGS, UL(g), flags, current, option);
    *actual = current;
    if (satisfied(current, flags, option)) {
        if (option & 1u)
            g->tx_event_flags_group_current = current & ~flags;
    } else if (wait != TX_NO_WAIT) {
        TX_THREAD *t = CURRENT;
        t->tx_thread_suspend_info = flags;
        t->tx_thread_suspend_option = option;
        t->tx_thread_additional_suspend_info = actual;
        wait_on(g, TX_EVENT_FLAG, wait);
        leave(posture);
        return t->tx_thread_suspend_status;
    } else {
        status = TX_NO_EVENTS;
    }
    leave(posture);
    return status;
}

/* ---- Block pools: each block is preceded by a pointer, to the next free
 * block while it is free, to its pool while it is out. ---- */

VOID mk_block_pool_create(TX_BLOCK_POOL *p, const CHAR *name, ULONG block, VOID *start, ULONG size)
{
    UINT posture = port_disable();
    ULONG step = block + (ULONG)sizeof(VOID *), at;
    UCHAR *last = NULL;

    fill(p, 0, sizeof *p);
    p->tx_block_pool_name = (CHAR *)name;
    p->tx_block_pool_start = start;
    p->tx_block_pool_size = size;
    p->tx_block_pool_block_size = (UINT)block;
    for (at = 0; at + step <= size; at += step) {
        UCHAR *b = (UCHAR *)start + at;
        *(UCHAR **)b = NULL;
        if (last != NULL)
            *(UCHAR **)last = b;
        else
            p->tx_block_pool_available_list = b;
        last = b;
        p->tx_block_pool_total++;
    }
    p->tx_block_pool_available = p->tx_block_pool_total;
    LINK(_tx_block_pool_created_ptr, p, tx_block_pool_created_next, tx_block_pool_created_previous);
    _tx_block_pool_created_count++;
    p->tx_block_pool_id = BLOCK_ID;
    mk_trace_register(OBJ_BLOCK_POOL, p, name, size, block);
    mk_trace(11, T_BLOCK, UL(p), UL(start), p->tx_block_pool_total, block);
    port_restore(posture);
}

UINT mk_block_allocate(TX_BLOCK_POOL *p, VOID **block, ULONG wait)
{
    UINT posture = port_disable(), status = TX_SUCCESS;
    mk_patch patch = mk_trace_patchable(10, T_BLOCK, UL(p), 0, wait, p->tx_block_pool_available);

    if (p->tx_block_pool_available != 0) {
        UCHAR *b = p->tx_block_pool_available_list;
        p->tx_block_pool_available_list = *(UCHAR **)b;
        p->tx_block_pool_available--;
        *(TX_BLOCK_POOL **)b = p;
        *block = b + sizeof(UCHAR *);
        mk_trace_patch_2(patch, UL(*block));
    } else if (wait != TX_NO_WAIT) {
        TX_THREAD *t = CURRENT;
        t->tx_thread_additional_suspend_info = block;
        wait_on(p, TX_BLOCK_MEMORY, wait);
        leave(posture);
        if (t->tx_thread_suspend_status == TX_SUCCESS)
            mk_trace_patch_2(patch, UL(*block));
        return t->tx_thread_suspend_status;
    } else {
        status = TX_NO_MEMORY;
    }
    leave(posture);
    return status;
}

UINT mk_block_release(VOID *block)
{
    UINT posture = port_disable();
    UCHAR *b = (UCHAR *)block - sizeof(UCHAR *);
    TX_BLOCK_POOL *p = *(TX_BLOCK_POOL **)b;
    TX_THREAD *waiter = p->tx_block_pool_suspension_list;

    mk_trace(17, T_BLOCK, UL(p), UL(block), p->tx_block_pool_suspended_count, HERE);
    if (waiter != NULL) {
        *(VOID **)waiter->tx_thread_additional_suspend_info = block;
        wake(waiter, TX_SUCCESS);
    } else {
        *(UCHAR **)b = p->tx_block_pool_available_list;
        p->tx_block_pool_available_list = b;
        p->tx_block_pool_available++;
    }
    leave(posture);
    return TX_SUCCESS;
}

/* ---- Byte pools: each piece is preceded by a pointer to the next piece and
 * a mark, "free" or the pool that it belongs to. The bytes that are available
 * are those of all free pieces, with what precedes each. ---- */

#define PIECE_HEAD (2 * sizeof(VOID *))
#define PIECE_FREE ((VOID *)(uintptr_t)0xFFFFEEEEu)

VOID mk_byte_pool_create(TX_BYTE_POOL *p, const CHAR *name, VOID *start, ULONG size)
{
    UINT posture = port_disable();
    VOID **first = start, **end = (VOID **)((UCHAR *)start + size - PIECE_HEAD);

    fill(p, 0, sizeof *p);
    p->tx_byte_pool_name = (CHAR *)name;
    p->tx_byte_pool_start = start;
    p->tx_byte_pool_list = start;
    p->tx_byte_pool_search = start;
    p->tx_byte_pool_size = size;
    p->tx_byte_pool_available = size - (ULONG)PIECE_HEAD;
    p->tx_byte_pool_fragments = 2;
    first[0] = end;
    first[1] = PIECE_FREE;
    end[0] = start;
    end[1] = p;
    LINK(_tx_byte_pool_created_ptr, p, tx_byte_pool_created_next, tx_byte_pool_created_previous);
    _tx_byte_pool_created_count++;
    p->tx_byte_pool_id = BYTE_ID;
    mk_trace_register(OBJ_BYTE_POOL, p, name, size, 0);
    mk_trace(21, T_BYTE, UL(p), UL(start), size, HERE);
    port_restore(posture);
}

static VOID *find_piece(TX_BYTE_POOL *p, ULONG size)
{
    VOID **piece = (VOID **)p->tx_byte_pool_start;
    UINT n;

    for (n = p->tx_byte_pool_fragments; n--; piece = piece[0]) {
        VOID **next = piece[0];
        ULONG room;
        if (piece[1] != PIECE_FREE)
            continue;
        while (next[1] == PIECE_FREE && next > piece) { /* join free neighbours */
            piece[0] = next = next[0];
            p->tx_byte_pool_fragments--;
            n--;
        }
        room = (ULONG)((UCHAR *)next - (UCHAR *)piece - PIECE_HEAD);
        if (room < size)
            continue;
        if (room - size > PIECE_HEAD + 16) {
            VOID **rest = (VOID **)((UCHAR *)piece + PIECE_HEAD + size);
            rest[0] = next;
            rest[1] = PIECE_FREE;
            piece[0] = rest;
            p->tx_byte_pool_fragments++;
            room = size;
        }
        piece[1] = p;
        p->tx_byte_pool_available -= room + (ULONG)PIECE_HEAD;
        return (UCHAR *)piece + PIECE_HEAD;
    }
    return NULL;
}

UINT mk_byte_allocate(TX_BYTE_POOL *p, VOID **memory, ULONG size, ULONG wait)
{
    UINT posture = port_disable(), status = TX_SUCCESS;
    TX_THREAD *t = CURRENT;
    mk_patch patch;

    size = (size + (ULONG)sizeof(VOID *) - 1) & ~(ULONG)(sizeof(VOID *) - 1);
    patch = mk_trace_patchable(20, T_BYTE, UL(p), 0, size, wait);
    p->tx_byte_pool_owner = t;
    *memory = find_piece(p, size);
    if (*memory == NULL && wait == TX_NO_WAIT) {
        status = TX_NO_MEMORY;
    } else if (*memory == NULL) {
        t->tx_thread_additional_suspend_info = memory;
        t->tx_thread_suspend_info = size;
        wait_on(p, TX_BYTE_MEMORY, wait);
        leave(posture);
        if (t->tx_thread_suspend_status == TX_SUCCESS)
            mk_trace_patch_2(patch, UL(*memory));
        return t->tx_thread_suspend_status;
    } else {
        mk_trace_patch_2(patch, UL(*memory));
    }
    leave(posture);
    return status;
}

UINT mk_byte_release(VOID *memory)
{
    UINT posture = port_disable();
    VOID **piece = (VOID **)((UCHAR *)memory - PIECE_HEAD);
    TX_BYTE_POOL *p = piece[1];
    TX_THREAD *waiter = p->tx_byte_pool_suspension_list;

    mk_trace(27, T_BYTE, UL(p), UL(memory), p->tx_byte_pool_suspended_count, p->tx_byte_pool_available);
    piece[1] = PIECE_FREE;
    p->tx_byte_pool_available += (ULONG)((UCHAR *)piece[0] - (UCHAR *)piece);
    if (waiter != NULL) {
        VOID *found = find_piece(p, waiter->tx_thread_suspend_info);
        if (found != NULL) {
            *(VOID **)waiter->tx_thread_additional_suspend_info = found;
            wake(waiter, TX_SUCCESS);
        }
    }
    leave(posture);
    return TX_SUCCESS;
}

/* ---- Suspension: only of a thread that is ready and does not run ---- */

VOID mk_thread_suspend(TX_THREAD *t)
{
    UINT posture = port_disable();
    mk_trace(114, T_THREAD, UL(t), t->tx_thread_state, HERE, 0);
    if (t->tx_thread_state == TX_READY)
        suspend(t, TX_SUSPENDED, 0);
    leave(posture);
}

/* Only of a thread that sleeps. */
VOID mk_thread_terminate(TX_THREAD *t)
{
    UINT posture = port_disable();
    if (t->tx_thread_state == TX_SLEEP) {
        mk_trace(115, T_THREAD, UL(t), t->tx_thread_state, HERE, 0);
        t->tx_thread_timer.tx_timer_internal_list_head = NULL;
        t->tx_thread_state = TX_TERMINATED;
    }
    leave(posture);
}

/* ---- Start ---- */

static ULONG timer_stack[FW_STACK / sizeof(ULONG)] __attribute__((aligned(16)));

VOID mk_kernel_enter(VOID)
{
#if FW_CORES > 1
    for (fw_core = FW_CORES; fw_core--;)
        SYSTEM_STATE = TX_INITIALIZE_IN_PROGRESS;
    fw_core = 0;
#else
    SYSTEM_STATE = TX_INITIALIZE_IN_PROGRESS;
#endif
    next_tick = fw_clock + FW_TICK_CYCLES;
    _tx_trace_initialize();
    mk_thread_create(&_tx_timer_thread, "System Timer Thread", timer_thread, 0x4154494Du,
                     timer_stack, sizeof timer_stack, 0, 0);
    app_define();
    accounted = fw_clock;
#if FW_CORES > 1
    for (fw_core = FW_CORES; fw_core--;)
        SYSTEM_STATE = 0;
    fw_core = 0;
#else
    SYSTEM_STATE = 0;
#endif
    port_start();
}

VOID mk_thread_resume(TX_THREAD *t)
{
    UINT posture = port_disable();
    mk_trace(111, T_THREAD, UL(t), t->tx_thread_state, HERE, 0);
    if (t->tx_thread_state == TX_SUSPENDED)
        resume(t);
    leave(posture);
}

#ifdef FW_NAMES
/* ThreadX has one for each kind of object. */
#define ALIAS(name) VOID name(TX_THREAD *t, ULONG sequence) __attribute__((alias("timed_out")))
ALIAS(_tx_semaphore_cleanup);
ALIAS(_tx_queue_cleanup);
ALIAS(_tx_block_pool_cleanup);
ALIAS(_tx_event_flags_cleanup);
ALIAS(_tx_mutex_cleanup);
#endif
