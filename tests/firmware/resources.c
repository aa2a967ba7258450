/*
 * Failures of memory and of waits on purpose: a small gateway that goes wrong
 * in the way that the word at 0x20010000 says, as in failures.c. The first two
 * ways are healthy. resources.tsv says what is true of each. With FW_OTHER the
 * same failures have other names, priorities, and another tick.
 */
#include "kernel.h"

enum failure {
    HEALTHY,
    TIGHT,             /* healthy too: its pools are often used up for a moment   */
    BYTE_OVERRUN,      /* a write past the end of a block of a byte pool          */
    BYTE_FAULT,        /* the same, and the next search of the pool faults        */
    BLOCK_OVERRUN,     /* a write past the end of a block of a block pool         */
    USE_AFTER_RELEASE, /* a write to a block that was released                    */
    FRAGMENTED,        /* enough bytes are free, in pieces that are too small     */
    POOL_EMPTY,        /* a thread has all blocks, and another waits for one      */
    NO_WAIT_FAILS,     /* likewise, and the other asks again and again            */
    CREDIT_LOST,       /* a path does not give back a credit                      */
    GATE_INVERSION,    /* over a semaphore that is used as a lock                 */
    FLAGS_DEADLOCK,    /* each waits for the flag that the other sets afterwards  */
    TIMER_WAITS,       /* a callback of a timer waits                             */
    HOLD_AND_WAIT,     /* two threads have all blocks, and each needs another one */
    RELEASED_OBJECT    /* a call through a pointer in a block that was released   */
};

/* Behind what the program itself has of RAM. */
#define FAILURE (*(volatile uint32_t *)0x20010000u)
#define NOINLINE __attribute__((noinline))

#ifdef FW_OTHER
#define PICK(a, b) b
#else
#define PICK(a, b) a
#endif

/* When the failure begins, and when the run ends, in ticks. */
#define BEGIN 30u
#define END 52u
/* When those begin that the trace must show. */
#define LATE 42u
/* Of work: less than a tick. */
#define SHORT (FW_TICK_CYCLES / 50)

#define REGISTRY 28
static ULONG trace_buffer[(sizeof(TX_TRACE_HEADER) + REGISTRY * sizeof(TX_TRACE_OBJECT_ENTRY)
                           + FW_RING_EVENTS * sizeof(TX_TRACE_BUFFER_ENTRY)) / sizeof(ULONG)];

enum { PACKER, RADIO, METER, STORE, LEFT, RIGHT, DOOR, LIFT, MIXER, THREADS };
static ULONG stacks[THREADS][FW_STACK / sizeof(ULONG)] __attribute__((aligned(16)));
static TX_THREAD packer, radio, meter, store, left, right, door, lift, mixer;
static TX_BYTE_POOL heap;
static TX_BLOCK_POOL cells;
static TX_QUEUE frames;
static TX_SEMAPHORE credits, gate, pulse, bell;
static TX_EVENT_FLAGS_GROUP steps;
static TX_TIMER beat;

#define CELLS 6
#define CELL 16
#define PARTS 18
#define PART 32
static UCHAR heap_memory[768] __attribute__((aligned(8)));
static UCHAR cell_memory[CELLS * (CELL + sizeof(VOID *))] __attribute__((aligned(8)));
static ULONG frame_storage[8];

enum { GO = 1, DONE = 2, READY = 4 };

static UINT failing(enum failure which)
{
    return FAILURE == which && _tx_timer_system_clock >= BEGIN;
}

static UINT late(enum failure which)
{
    return FAILURE == which && _tx_timer_system_clock >= LATE;
}

/* ---- where the run ends ---- */

/* A debugger stops here, in the tick interrupt, and goes on for a while. */
NOINLINE VOID run_ended(VOID)
{
    __asm__ volatile("");
}

UINT app_line_has_frame(VOID)
{
    if (_tx_timer_system_clock >= END)
        run_ended();
    return 0;
}

VOID app_uart_isr(VOID)
{
}

VOID app_last_words(ULONG pc, ULONG lr, ULONG cfsr, ULONG bfar)
{
    (void)pc; (void)lr; (void)cfsr; (void)bfar;
}

/* ---- frames: packed, sent, released ---- */

/* As many words as the frame has, and some more where it goes wrong. */
static NOINLINE VOID pack(ULONG *frame, ULONG words)
{
    ULONG i;
    for (i = 0; i < words; i++)
        frame[i] = 0x2D2D2D2Du;
}

static VOID packer_entry(ULONG unused)
{
    ULONG n;
    (void)unused;
    for (n = 0;; n++) {
        ULONG *frame, words = 6 + 2 * (n % 4);
        UINT over = failing(BYTE_FAULT) || (FAILURE == BYTE_OVERRUN && _tx_timer_system_clock >= END - 2);
        mk_thread_sleep(1);
        mk_semaphore_get(&credits, TX_WAIT_FOREVER);
        if (failing(FRAGMENTED))
            words = 24;
        mk_byte_allocate(&heap, (VOID **)&frame, words * sizeof(ULONG), TX_WAIT_FOREVER);
        pack(frame, words + (over ? 3 : 0));
        if (over && FAILURE == BYTE_OVERRUN)
            mk_thread_sleep(1000);
        mk_queue_send(&frames, &frame, TX_WAIT_FOREVER);
    }
}

static VOID radio_entry(ULONG unused)
{
    ULONG n;
    (void)unused;
    for (n = 0;; n++) {
        ULONG *frame;
        mk_queue_receive(&frames, &frame, TX_WAIT_FOREVER);
        fw_work(2 * SHORT);
        mk_byte_release(frame);
        if (FAILURE == USE_AFTER_RELEASE && _tx_timer_system_clock >= END - 2) {
            ULONG *small;
            mk_byte_allocate(&heap, (VOID **)&small, 2 * sizeof(ULONG), TX_NO_WAIT);
            /* What was one block is two now, and the head of the second is overwritten. */
            pack(frame, 6);
            mk_thread_sleep(1000);
        }
        if (late(CREDIT_LOST) && n % 2 == 0)
            continue;
        mk_semaphore_put(&credits);
    }
}

/* ---- cells: taken and released some time later ---- */

static NOINLINE VOID note(ULONG *cell, UINT over)
{
    UINT i;
    for (i = 0; i < CELL / sizeof(ULONG) + over; i++)
        cell[i] = 0x7E7E7E7Eu;
}

struct scale {
    ULONG (*convert)(ULONG raw);
    ULONG offset;
};
static struct scale *scale;
static volatile ULONG measured;

static NOINLINE ULONG convert(ULONG raw)
{
    return raw * 3;
}

static NOINLINE VOID measure(ULONG raw)
{
    measured = scale->offset;
    measured += scale->convert(raw);
}

/* Takes so many cells, one in each tick, and releases them. */
static NOINLINE VOID gather(ULONG count)
{
    ULONG *all[CELLS], n;
    for (n = 0; n < count; n++) {
        mk_block_allocate(&cells, (VOID **)&all[n], TX_WAIT_FOREVER);
        note(all[n], 0);
        mk_thread_sleep(1);
    }
    for (n = 0; n < count; n++)
        mk_block_release(all[n]);
}

static VOID meter_entry(ULONG unused)
{
    ULONG *kept[2] = { NULL, NULL };
    ULONG n;
    (void)unused;
    for (n = 0;; n++) {
        ULONG *cell;
        mk_thread_sleep(1);
        if (FAILURE == HOLD_AND_WAIT) {
            gather(4);
            continue;
        }
        if (FAILURE == RELEASED_OBJECT && scale != NULL)
            measure(n);
        if (kept[n % 2] != NULL)
            mk_block_release(kept[n % 2]);
        kept[n % 2] = NULL;
        if (mk_block_allocate(&cells, (VOID **)&cell, FAILURE == POOL_EMPTY ? TX_WAIT_FOREVER : TX_NO_WAIT)
            != TX_SUCCESS)
            continue;
        note(cell, FAILURE == BLOCK_OVERRUN && _tx_timer_system_clock >= END - 2);
        if (FAILURE == BLOCK_OVERRUN && _tx_timer_system_clock >= END - 2)
            mk_thread_sleep(1000);
        if (FAILURE == POOL_EMPTY || FAILURE == NO_WAIT_FAILS)
            mk_block_release(cell);
        else
            kept[n % 2] = cell;
    }
}

static VOID store_entry(ULONG unused)
{
    static ULONG *all[CELLS], *parts[PARTS];
    ULONG *config, n;
    (void)unused;
    /* Kept on purpose. */
    mk_byte_allocate(&heap, (VOID **)&config, 64, TX_WAIT_FOREVER);
    if (FAILURE == RELEASED_OBJECT) {
        mk_byte_allocate(&heap, (VOID **)&scale, sizeof *scale, TX_WAIT_FOREVER);
        scale->convert = convert;
        scale->offset = 5;
    }
    for (;;) {
        UINT hold = FAILURE == TIGHT || FAILURE == POOL_EMPTY || FAILURE == NO_WAIT_FAILS;
        mk_thread_sleep(3);
        if (failing(HOLD_AND_WAIT))
            gather(4);
        if (failing(RELEASED_OBJECT) && _tx_timer_system_clock < END - 8) {
            mk_byte_release(scale);
            mk_thread_sleep(1000);
        }
        for (n = 0; hold && n < CELLS; n++)
            if (all[n] == NULL)
                mk_block_allocate(&cells, (VOID **)&all[n], TX_NO_WAIT);
        if (FAILURE == TIGHT || failing(FRAGMENTED)) {
            for (n = 0; n < PARTS; n++)
                mk_byte_allocate(&heap, (VOID **)&parts[n], PART, TX_NO_WAIT);
            for (n = 0; n < PARTS; n += 2)
                if (parts[n] != NULL)
                    mk_byte_release(parts[n]);
        }
        if (failing(FRAGMENTED))
            mk_thread_sleep(1000);
        mk_thread_sleep(1);
        for (n = 1; FAILURE == TIGHT && n < PARTS; n += 2)
            if (parts[n] != NULL)
                mk_byte_release(parts[n]);
        for (n = 0; FAILURE == TIGHT && n < CELLS; n++)
            if (all[n] != NULL) {
                mk_block_release(all[n]);
                all[n] = NULL;
            }
    }
}

/* ---- two threads that work hand in hand ---- */

static VOID left_entry(ULONG unused)
{
    ULONG actual;
    (void)unused;
    for (;;) {
        mk_thread_sleep(2);
        mk_flags_set(&steps, GO);
        mk_flags_get(&steps, DONE, TX_OR_CLEAR, &actual, TX_WAIT_FOREVER);
        fw_work(SHORT);
        mk_flags_set(&steps, READY);
    }
}

static VOID right_entry(ULONG unused)
{
    ULONG actual;
    (void)unused;
    for (;;) {
        mk_flags_get(&steps, GO, TX_OR_CLEAR, &actual, TX_WAIT_FOREVER);
        fw_work(SHORT);
        if (late(FLAGS_DEADLOCK) && _tx_timer_system_clock >= LATE + 4)
            mk_flags_get(&steps, READY, TX_OR_CLEAR, &actual, TX_WAIT_FOREVER);
        mk_flags_set(&steps, DONE);
        mk_flags_get(&steps, READY, TX_OR_CLEAR, &actual, TX_WAIT_FOREVER);
    }
}

/* ---- a semaphore that is used as a lock ---- */

static VOID door_entry(ULONG unused)
{
    (void)unused;
    for (;;) {
        mk_thread_sleep(3);
        mk_semaphore_get(&gate, TX_WAIT_FOREVER);
        fw_work(SHORT);
        mk_semaphore_put(&gate);
    }
}

static VOID lift_entry(ULONG unused)
{
    (void)unused;
    for (;;) {
        mk_thread_sleep(4);
        mk_semaphore_get(&gate, TX_WAIT_FOREVER);
        fw_work(late(GATE_INVERSION) ? 5 * FW_TICK_CYCLES : 2 * SHORT);
        mk_semaphore_put(&gate);
    }
}

static VOID beat_expired(ULONG unused)
{
    (void)unused;
    if (failing(TIMER_WAITS))
        mk_semaphore_get(&bell, TX_WAIT_FOREVER);
    mk_semaphore_put(&pulse);
}

static VOID mixer_entry(ULONG unused)
{
    (void)unused;
    for (;;) {
        mk_semaphore_get(&pulse, TX_WAIT_FOREVER);
        fw_work(2 * SHORT);
        while (late(GATE_INVERSION) && gate.tx_semaphore_suspended_count != 0)
            fw_work(SHORT);
    }
}

VOID app_define(VOID)
{
    _tx_trace_enable(trace_buffer, sizeof trace_buffer, REGISTRY);
    mk_byte_pool_create(&heap, PICK("heap", "arena"), heap_memory, sizeof heap_memory);
    mk_block_pool_create(&cells, PICK("cells", "tiles"), CELL, cell_memory, sizeof cell_memory);
    mk_queue_create(&frames, PICK("frames", "parcels"), 1, frame_storage, sizeof frame_storage);
    mk_semaphore_create(&credits, PICK("credits", "permits"), 3);
    mk_semaphore_create(&gate, PICK("gate", "turnstile"), 1);
    mk_semaphore_create(&pulse, PICK("pulse", "stroke"), 0);
    mk_semaphore_create(&bell, PICK("bell", "gong"), 0);
    mk_flags_create(&steps, PICK("steps", "moves"));
    mk_timer_create(&beat, PICK("beat", "rhythm"), beat_expired, 0, 3, 3, 1);
#define THREAD(t, name, entry, n, priority) \
    mk_thread_create(&t, name, entry, n, stacks[n], FW_STACK, priority, 1)
    THREAD(packer, PICK("packer", "wrapper task"), packer_entry, PACKER, PICK(6, 5));
    THREAD(radio, PICK("radio", "courier"), radio_entry, RADIO, PICK(8, 7));
    THREAD(meter, PICK("meter", "gauge"), meter_entry, METER, PICK(11, 9));
    THREAD(store, PICK("store", "depot"), store_entry, STORE, PICK(14, 12));
    THREAD(left, PICK("left", "north"), left_entry, LEFT, PICK(16, 20));
    THREAD(right, PICK("right", "south"), right_entry, RIGHT, PICK(17, 21));
    THREAD(door, PICK("door", "barrier"), door_entry, DOOR, PICK(5, 4));
    THREAD(lift, PICK("lift", "crane"), lift_entry, LIFT, PICK(18, 25));
    THREAD(mixer, PICK("mixer", "stirrer"), mixer_entry, MIXER, PICK(12, 15));
}
