/*
 * The application: a small machine controller, and what happened to it at
 * three in the morning. The story is told in README.md.
 */
#include "kernel.h"

enum app_event {
    APP_BOOT_STEP = 4096,  /* step                                          */
    APP_SAMPLE,            /* number, value                                 */
    APP_CONTROL_OUT,       /* cycle, output                                 */
    APP_FRAME_RX,          /* number, length, checksum                      */
    APP_FILTER_STEP,       /* done, to do                                   */
    APP_LOG_LINE,          /* number, time                                  */
    APP_FLASH_PAGE,        /* page                                          */
    APP_HEARTBEAT,         /* count                                         */
    APP_ALL_WELL,          /* rounds                                        */
    APP_LATE,              /* misses, flags seen, flags expected            */
    APP_FAULT = 5000       /* pc, lr, cfsr, bfar                            */
};

enum alive { ALIVE_CONTROL = 1, ALIVE_SENSOR = 2, ALIVE_COMMS = 4, FILTER_GO = 0x100 };

struct sample { uint32_t number; int32_t value; };
struct log_line { uint32_t number; uint32_t time; char text[24]; };

/* How many control cycles pass before the story may begin, and how many marks
 * are set while booting: together they turn the ring so that it ends on a
 * checkpoint (a multiple of 32 slots), where README.md says. */
#ifndef FW_STORY_AT
#define FW_STORY_AT (FW_VARIANT == FW_UNWRAPPED ? 1u : FW_VARIANT == FW_STRADDLE ? 30u : 24u)
#endif
#ifndef FW_BOOT_STEPS
#define FW_BOOT_STEPS                                                     \
    (FW_CORES > 1 ? 41u : FW_VARIANT == FW_UNWRAPPED ? 4u : FW_VARIANT == FW_STRADDLE ? 18u    \
     : FW_VARIANT == FW_DISABLED ? 21u : 19u)
#endif
/* How late the watchdog lets control be, and which page of three is erased
 * first, with the bus held: the unwrapped run has to be a short one. */
#define MISSES_ALLOWED (FW_VARIANT == FW_UNWRAPPED ? 1u : 2u)
#define ERASED_PAGE (FW_VARIANT == FW_UNWRAPPED ? 0u : 2u)

#define REGISTRY 24
#define SPARE 16 /* left over at the end of the buffer, as real ones have */
#if FW_VARIANT != FW_NOTRACE
static ULONG trace_buffer[(sizeof(TX_TRACE_HEADER) + REGISTRY * sizeof(TX_TRACE_OBJECT_ENTRY)
                           + FW_RING_EVENTS * sizeof(TX_TRACE_BUFFER_ENTRY) + SPARE) / sizeof(ULONG)];
#endif

TX_THREAD watchdog, startup, control, sensor, comms, filter, updater, logger, low_task;
TX_TIMER heartbeat;
TX_QUEUE samples, log_queue;
TX_SEMAPHORE rx_ready, boot_gate;
TX_MUTEX bus_mutex, log_mutex;
TX_EVENT_FLAGS_GROUP alive;
TX_BLOCK_POOL sample_pool;
TX_BYTE_POOL scratch;

#if FW_CORES > 1
/* The timer thread, then those below in order: filter starves low_task on
 * core 1, while control waits for low_task on core 0. */
const signed char app_home[FW_MAX_THREADS] = { 0, 0, -1, 0, -1, 1, 1, 1, 1, 1 };
#endif

static ULONG stacks[9][FW_STACK / sizeof(ULONG)] __attribute__((aligned(16)));
static ULONG samples_storage[4 * sizeof(VOID *) / sizeof(ULONG)] __attribute__((aligned(8)));
static ULONG log_storage[8 * 2];
static UCHAR pool_storage[6 * (sizeof(struct sample) + sizeof(VOID *))] __attribute__((aligned(8)));
static UCHAR scratch_storage[512] __attribute__((aligned(8)));

uint32_t control_cycles;
uint32_t frame_number;
uint32_t frame_length;
uint32_t heartbeats;
uint32_t watchdog_misses;
uint32_t corrupt_frame;  /* once set, the planted fault is under way */
uint32_t *record_store = (uint32_t *)(uintptr_t)0xE0200000u; /* no memory is there */

#define NOINLINE __attribute__((noinline))
#define user(id, a, b, c, d) _tx_trace_user_event_insert((id), (ULONG)(a), (ULONG)(b), (ULONG)(c), (ULONG)(d))

/* ---- The outside world ---- */

/* A frame every third tick. The bad one comes at the worst of times: while
 * low_task holds the bus and control waits for it. */
UINT app_line_has_frame(VOID)
{
    if (!corrupt_frame && control_cycles >= FW_STORY_AT
        && bus_mutex.tx_mutex_owner == &low_task && bus_mutex.tx_mutex_suspended_count != 0) {
        corrupt_frame = 1;
        frame_length = 0xFFF4;
        return 1;
    }
    frame_length = 12 + (_tx_timer_system_clock & 7u);
    return _tx_timer_system_clock % 3u == 1;
}

VOID app_uart_isr(VOID)
{
    frame_number++;
    fw_clock += 150;
    mk_semaphore_put(&rx_ready);
}

/* ---- sensor: a sample every two ticks ---- */

static NOINLINE int32_t sensor_read(uint32_t number)
{
    fw_work(1800);
    return (int32_t)(number * 37u % 211u) - 105;
}

static VOID sensor_entry(ULONG unused)
{
    uint32_t number = 0;
    (void)unused;
    for (;;) {
        struct sample *s = NULL;
        mk_thread_sleep(2);
        if (mk_block_allocate(&sample_pool, (VOID **)&s, TX_NO_WAIT) == TX_SUCCESS) {
            s->number = ++number;
            s->value = sensor_read(number);
            user(APP_SAMPLE, s->number, s->value, 0, 0);
            mk_queue_send(&samples, &s, TX_WAIT_FOREVER);
        }
        mk_flags_set(&alive, ALIVE_SENSOR);
    }
}

/* ---- control: the thread that must not be late ---- */

static NOINLINE int32_t control_step(const struct sample *s)
{
    mk_mutex_get(&bus_mutex, TX_WAIT_FOREVER); /* here it waits for ever */
    fw_work(9000);
    mk_mutex_put(&bus_mutex);
    return s->value * 3 / 2;
}

static VOID control_entry(ULONG unused)
{
    (void)unused;
    for (;;) {
        struct sample *s;
        int32_t out;
        mk_queue_receive(&samples, &s, TX_WAIT_FOREVER);
        out = control_step(s);
        control_cycles++;
        user(APP_CONTROL_OUT, control_cycles, out, 0, 0);
        mk_block_release(s);
        mk_flags_set(&alive, ALIVE_CONTROL);
    }
}

/* ---- comms: frames from the UART ---- */

static NOINLINE uint32_t frame_checksum(uint32_t number, uint32_t length)
{
    fw_work(700);
    return (number * 2654435761u) ^ length;
}

static VOID comms_entry(ULONG unused)
{
    (void)unused;
    for (;;) {
        ULONG line[2];
        uint32_t length;
        mk_semaphore_get(&rx_ready, TX_WAIT_FOREVER);
        length = frame_length;
        user(APP_FRAME_RX, frame_number, length, frame_checksum(frame_number, length), 0);
        if (frame_number % 2 == 0 || corrupt_frame)
            mk_flags_set(&alive, FILTER_GO | ALIVE_COMMS);
        else
            mk_flags_set(&alive, ALIVE_COMMS);
        line[0] = frame_number;
        line[1] = length;
        mk_queue_send(&log_queue, line, TX_NO_WAIT);
    }
}

/* ---- filter: a little work for each byte of the frame; it believes the
 * length that it is told ---- */

static NOINLINE VOID filter_block(uint32_t done, uint32_t todo)
{
    user(APP_FILTER_STEP, done, todo, 0, 0);
    fw_work(todo > 32 ? 240000 : 21000);
}

static VOID filter_entry(ULONG unused)
{
    (void)unused;
    for (;;) {
        ULONG actual;
        VOID *window;
        uint32_t i, todo;
        mk_flags_get(&alive, FILTER_GO, TX_OR_CLEAR, &actual, TX_WAIT_FOREVER);
        todo = frame_length / 8 + 1;
        if (mk_byte_allocate(&scratch, &window, 96, TX_NO_WAIT) != TX_SUCCESS)
            continue;
        for (i = 0; i < todo; i++)
            filter_block(i, todo);
        mk_byte_release(window);
    }
}

/* ---- logger ---- */

static NOINLINE VOID logger_write(struct log_line *line)
{
    mk_mutex_get(&log_mutex, TX_WAIT_FOREVER);
    line->time = (uint32_t)mk_time_get();
    fw_work(30000);
    user(APP_LOG_LINE, line->number, line->time, 0, 0);
    mk_mutex_put(&log_mutex);
}

static VOID logger_entry(ULONG unused)
{
    (void)unused;
    for (;;) {
        ULONG message[2];
        struct log_line *line;
        mk_queue_receive(&log_queue, message, TX_WAIT_FOREVER);
        if (mk_byte_allocate(&scratch, (VOID **)&line, sizeof *line, TX_NO_WAIT) != TX_SUCCESS)
            continue;
        line->number = (uint32_t)message[0];
        logger_write(line);
        mk_byte_release(line);
    }
}

/* ---- low_task: writes pages to the flash, which hangs on the same bus ---- */

static NOINLINE VOID flash_page(uint32_t page)
{
    mk_mutex_get(&bus_mutex, TX_WAIT_FOREVER);
    user(APP_FLASH_PAGE, page, 0, 0, 0);
    fw_work(page % 3 == ERASED_PAGE ? 830000 : 330000); /* with the bus held */
    mk_mutex_put(&bus_mutex);
}

static VOID low_task_entry(ULONG unused)
{
    uint32_t page = 0;
    (void)unused;
    for (;;) {
        mk_thread_sleep(4);
        flash_page(page++);
        mk_thread_relinquish();
    }
}

/* ---- startup: runs once; updater: made, never started ---- */

static VOID startup_entry(ULONG unused)
{
    (void)unused;
    mk_semaphore_get(&boot_gate, TX_NO_WAIT);
    fw_work(5000);
    mk_semaphore_delete(&boot_gate);
}

static VOID updater_entry(ULONG unused)
{
    (void)unused;
    for (;;)
        mk_thread_sleep(100);
}

/* ---- watchdog: sees that control is late, and falls over its own report ---- */

static NOINLINE VOID record_write(uint32_t *to, uint32_t misses, ULONG seen)
{
#ifdef __LP64__
    (void)to; (void)misses; (void)seen;
    {
        extern VOID port_fault(VOID);
        port_fault();
    }
#else
    *(volatile uint32_t *)to = misses;
    *(volatile uint32_t *)(to + 1) = (uint32_t)seen;
#endif
}

static NOINLINE VOID watchdog_report(ULONG seen)
{
#if FW_VARIANT == FW_DISABLED
    _tx_trace_disable(); /* freeze the evidence */
#endif
    record_write(record_store, watchdog_misses, seen);
    __asm__ volatile(""); /* so that the call above stays a call, with a return address */
}

static VOID watchdog_entry(ULONG unused)
{
    const ULONG expected = ALIVE_CONTROL | ALIVE_SENSOR | ALIVE_COMMS;
    uint32_t rounds = 0;
    (void)unused;
    for (;;) {
        ULONG seen;
        mk_thread_sleep(7);
        if (mk_flags_get(&alive, expected, TX_AND_CLEAR, &seen, TX_NO_WAIT) == TX_SUCCESS) {
            watchdog_misses = 0;
            user(APP_ALL_WELL, ++rounds, 0, 0, 0);
            continue;
        }
        watchdog_misses++;
        user(APP_LATE, watchdog_misses, seen, expected, 0);
        if (watchdog_misses >= MISSES_ALLOWED)
            watchdog_report(seen);
    }
}

static VOID heartbeat_expired(ULONG unused)
{
    (void)unused;
    heartbeats++;
    user(APP_HEARTBEAT, heartbeats, 0, 0, 0);
}

/* The fault handler's last words; in interrupt context. */
VOID app_last_words(ULONG pc, ULONG lr, ULONG cfsr, ULONG bfar)
{
    user(APP_FAULT, pc, lr, cfsr, bfar);
    mk_thread_identify();
    mk_account();
}

static VOID make(TX_THREAD *t, const CHAR *name, VOID (*entry)(ULONG), UINT which, UINT priority, UINT start)
{
    mk_thread_create(t, name, entry, which, stacks[which], FW_STACK, priority, start);
}

VOID app_define(VOID)
{
    UINT i;

    /* These two are older than the trace: it registers them when enabled,
     * with less to say about them, and has no CREATE event of them. */
    mk_queue_create(&samples, "samples", sizeof(VOID *) / sizeof(ULONG), samples_storage, sizeof samples_storage);
    mk_timer_create(&heartbeat, "heartbeat", heartbeat_expired, 0, 5, 20, 1);

#if FW_VARIANT != FW_NOTRACE
    /* RAM after a warm reset is not zero; nor are unused slots. */
    for (i = 0; i < sizeof trace_buffer / sizeof(ULONG); i++)
        trace_buffer[i] = 0x5AA50000u + i;
#if FW_VARIANT != FW_NEVER
    _tx_trace_enable(trace_buffer, sizeof trace_buffer, REGISTRY);
#endif
#endif

    mk_queue_create(&log_queue, "log_queue", 2, log_storage, sizeof log_storage);
    mk_semaphore_create(&rx_ready, "rx_ready", 0);
    mk_semaphore_create(&boot_gate, "boot_gate", 1);
    mk_mutex_create(&bus_mutex, "bus_mutex", 0);
    mk_mutex_create(&log_mutex, "log_mutex", 1);
    mk_flags_create(&alive, "alive");
    mk_block_pool_create(&sample_pool, "sample_pool", sizeof(struct sample), pool_storage, sizeof pool_storage);
    mk_byte_pool_create(&scratch, "scratch", scratch_storage, sizeof scratch_storage);
    make(&watchdog, "watchdog", watchdog_entry, 0, 1, 1);
    make(&startup, "startup", startup_entry, 1, 2, 1);
    make(&control, "control", control_entry, 2, 4, 1);
    make(&sensor, "sensor", sensor_entry, 3, 6, 1);
    make(&comms, "comms", comms_entry, 4, 8, 1);
    make(&filter, "filter", filter_entry, 5, 10, 1);
    make(&updater, "updater", updater_entry, 6, 12, 0);
    make(&logger, "logger", logger_entry, 7, 16, 1);
    make(&low_task, "low_task", low_task_entry, 8, 20, 1);

    for (i = 0; i < FW_BOOT_STEPS; i++)
        user(APP_BOOT_STEP, i, 0, 0, 0);
}
