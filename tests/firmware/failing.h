/*
 * What the programs share that fail on purpose (waits.c, uses.c): the word that
 * says how, names of two builds, the trace, the threads, and the end of the
 * run. Included behind `enum failure` and BEGIN, the tick at which a failure
 * begins.
 */
#ifndef FW_FAILING_H
#define FW_FAILING_H

/* Above the RAM that the program itself uses (build.sh). */
#define FAILURE (*(volatile uint32_t *)FW_WAY)
#define NOINLINE __attribute__((noinline))

#ifdef FW_OTHER
#define PICK(a, b) b
#else
#define PICK(a, b) a
#endif

/* Of work: less than a tick. */
#define SHORT (FW_TICK_CYCLES / 50)

#define REGISTRY 28
static ULONG trace_buffer[(sizeof(TX_TRACE_HEADER) + REGISTRY * sizeof(TX_TRACE_OBJECT_ENTRY)
                           + FW_RING_EVENTS * sizeof(TX_TRACE_BUFFER_ENTRY)) / sizeof(ULONG)];

#ifndef THREADS
#define THREADS 9
#endif
static ULONG stacks[THREADS][FW_STACK / sizeof(ULONG)] __attribute__((aligned(16)));
static TX_THREAD threads[THREADS];
static UINT used;
static volatile ULONG sum;

static inline UINT failing(enum failure which)
{
    return FAILURE == which && _tx_timer_system_clock >= BEGIN;
}

static inline TX_THREAD *thread(const CHAR *name, VOID (*entry)(ULONG), ULONG parameter, UINT priority)
{
    TX_THREAD *t = &threads[used];
    mk_thread_create(t, name, entry, parameter, stacks[used], FW_STACK, priority, 1);
    used++;
    return t;
}

/* A debugger stops here, in the tick interrupt, and goes on for a while. */
NOINLINE VOID run_ended(VOID)
{
    __asm__ volatile("");
}

VOID app_last_words(ULONG pc, ULONG lr, ULONG cfsr, ULONG bfar)
{
    (void)pc; (void)lr; (void)cfsr; (void)bfar;
}

#endif
