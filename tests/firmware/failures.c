/*
 * Failures of a system on purpose: a small data logger that goes wrong in the
 * way that the word at 0x20010000 says, which a loader puts there before the
 * start. The first two ways are healthy. failures.tsv says what is true of
 * each. With FW_OTHER the same failures have other names, priorities, and
 * another tick.
 */
#include "kernel.h"

enum failure {
    HEALTHY,
    BUSY,               /* healthy too: nine tenths of the time are used         */
    DEADLOCK,           /* two mutexes, taken in either order                    */
    CYCLE,              /* three threads, two mutexes and a semaphore as a lock  */
    INVERSION,          /* a mutex without inheritance, and a thread in between  */
    QUIET_OVERFLOW,     /* of a stack, into the stack of a neighbour             */
    CHECKED_OVERFLOW,   /* found by the check of the stack                       */
    QUEUE_FULL,         /* its reader waits for something else                   */
    STARVATION,         /* a thread that never waits                             */
    STORM,              /* an interrupt that is never acknowledged               */
    MISSING_PUT,        /* a path that keeps a semaphore                         */
    POOL_LEAK,          /* a path that keeps its block                           */
    QUEUE_OVERWRITTEN,  /* by the buffer in front of it                          */
    THREAD_OVERWRITTEN, /* likewise                                              */
    OWNER_SUSPENDED,    /* with a mutex                                          */
    HOLDER_COMPLETED,   /* with a semaphore that is used as a lock               */
    WRONG_CONTEXT,      /* a wait in an interrupt, which the kernel refuses      */
    WRONG_MASK,         /* bits are set that nobody waits for                    */
    LIVELOCK,           /* two threads that give way to each other               */
    RESET               /* as HEALTHY; the run ends with a reset that keeps RAM  */
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
/* Of work: less than a tick. */
#define SHORT (FW_TICK_CYCLES / 50)

#define REGISTRY 24
static ULONG trace_buffer[(sizeof(TX_TRACE_HEADER) + REGISTRY * sizeof(TX_TRACE_OBJECT_ENTRY)
                           + FW_RING_EVENTS * sizeof(TX_TRACE_BUFFER_ENTRY)) / sizeof(ULONG)];

enum { READER, WRITER, NET, CRUNCHER, SHOW, SERVICE, UPKEEP, STARTUP, THREADS };
static ULONG stacks[THREADS][FW_STACK / sizeof(ULONG)] __attribute__((aligned(16)));
static TX_THREAD reader, writer, net, show, service, upkeep, startup;
static TX_MUTEX config_lock, storage_lock;
static TX_SEMAPHORE bus_free, service_button;
static TX_EVENT_FLAGS_GROUP state;
static TX_BLOCK_POOL buffers;
static ULONG records_storage[4];
static UCHAR buffer_storage[6 * (16 + sizeof(VOID *))] __attribute__((aligned(8)));
/* What stands behind them is overwritten by whoever writes past their ends. */
static struct { ULONG line[8]; TX_QUEUE records; } logged;
static struct { ULONG line[8]; TX_THREAD cruncher; } parsed;
#define records logged.records
#define cruncher parsed.cruncher

enum { FRAME = 1, STORED = 2, RARE = 0x80 };
static volatile uint32_t sum;
static uint32_t storm;

static UINT failing(enum failure which)
{
    return FAILURE == which && _tx_timer_system_clock >= BEGIN;
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
    return _tx_timer_system_clock % 3u == 1;
}

VOID app_uart_isr(VOID)
{
    fw_clock += 150;
    if (failing(STORM)) {
        storm += 150;
        if (storm > FW_TICK_CYCLES) {
            storm = 0;
            *(volatile uint32_t *)0xE000ED04u = 1u << 26; /* the tick goes on */
        }
        port_uart_pend();
        return;
    }
    if (failing(WRONG_CONTEXT))
        return; /* what the kernel refuses leaves no event, and the frame is forgotten */
    mk_flags_set(&state, failing(WRONG_MASK) ? RARE >> 1 : FRAME);
}

VOID app_last_words(ULONG pc, ULONG lr, ULONG cfsr, ULONG bfar)
{
    (void)pc; (void)lr; (void)cfsr; (void)bfar;
}

/* ---- the check of stacks that ThreadX can be built with ---- */

VOID _tx_thread_stack_error_handler(TX_THREAD *thread);
NOINLINE VOID _tx_thread_stack_error_handler(TX_THREAD *thread)
{
    port_disable();
    for (;;)
        __asm__ volatile("" :: "r"(thread));
}

VOID __real_mk_thread_sleep(ULONG ticks);
VOID __wrap_mk_thread_sleep(ULONG ticks);
VOID __wrap_mk_thread_sleep(ULONG ticks)
{
    TX_THREAD *t = _tx_thread_current_ptr;
    if (FAILURE == CHECKED_OVERFLOW && *(ULONG *)t->tx_thread_stack_start != 0xEFEFEFEFu)
        _tx_thread_stack_error_handler(t);
    __real_mk_thread_sleep(ticks);
}

/* ---- the logger ---- */

static NOINLINE UINT sample(ULONG *value)
{
    mk_semaphore_get(&bus_free, TX_WAIT_FOREVER);
    fw_work(SHORT);
    *value = sum++ * 2654435761u;
    if (failing(MISSING_PUT) && *value % 4 == 0)
        return TX_NOT_DONE;
    if (failing(CYCLE)) {
        mk_thread_sleep(2);
        mk_mutex_get(&storage_lock, TX_WAIT_FOREVER);
        mk_mutex_put(&storage_lock);
    }
    mk_semaphore_put(&bus_free);
    return TX_SUCCESS;
}

static VOID reader_entry(ULONG unused)
{
    (void)unused;
    for (;;) {
        ULONG *buffer;
        mk_thread_sleep(2);
        mk_block_allocate(&buffers, (VOID **)&buffer, TX_WAIT_FOREVER);
        if (sample(buffer) != TX_SUCCESS) {
            mk_block_release(buffer);
            continue;
        }
        if (records.tx_queue_id == 0x20202020u)
            mk_block_release(buffer);
        else
            mk_queue_send(&records, &buffer, TX_WAIT_FOREVER);
    }
}

static NOINLINE VOID store(ULONG *buffer)
{
    UINT i;
    mk_mutex_get(&storage_lock, TX_WAIT_FOREVER);
    fw_work(2 * SHORT);
    for (i = 0; i < 8; i++)
        logged.line[i] = buffer[0];
    if (failing(QUEUE_OVERWRITTEN))
        for (i = 8; i < 10; i++)
            logged.line[i] = 0x20202020u; /* id and name */
    mk_mutex_put(&storage_lock);
    mk_flags_set(&state, STORED);
}

static VOID writer_entry(ULONG unused)
{
    (void)unused;
    for (;;) {
        ULONG *buffer;
        /* The kernel refuses what is no queue, and leaves no event. */
        if (records.tx_queue_id == 0x20202020u) {
            mk_thread_sleep(1);
            continue;
        }
        mk_queue_receive(&records, &buffer, TX_WAIT_FOREVER);
        store(buffer);
        if (failing(QUEUE_FULL))
            mk_semaphore_get(&service_button, TX_WAIT_FOREVER);
        if (!failing(POOL_LEAK) || buffer[0] % 2 == 0)
            mk_block_release(buffer);
    }
}

/* A parser that needs the more stack the deeper its input is. */
static NOINLINE ULONG parse(ULONG depth)
{
    volatile ULONG token[6];
    token[depth % 6] = depth;
    fw_work(SHORT / 40);
    return depth == 0 ? token[0] : parse(depth - 1) + token[depth % 6];
}

static VOID net_entry(ULONG unused)
{
    struct { ULONG frames, *at; } counts = { 0, NULL };
    (void)unused;
    counts.at = &counts.frames;
    for (;;) {
        ULONG actual;
        UINT i;
        mk_flags_get(&state, FRAME, TX_OR_CLEAR, &actual, TX_WAIT_FOREVER);
        (*(volatile ULONG *)counts.at)++;
        mk_mutex_get(&config_lock, TX_WAIT_FOREVER);
        fw_work(SHORT);
        mk_mutex_put(&config_lock);
        for (i = 0; i < 8; i++)
            parsed.line[i] = counts.frames;
        if (failing(THREAD_OVERWRITTEN))
            for (i = 8; i < 8 + 24; i++)
                parsed.line[i] = 0x41414141u;
        mk_thread_sleep(1);
    }
}

/* As much as a stack has, and two words more. */
static NOINLINE ULONG unpack(ULONG n)
{
    volatile ULONG table[186];
    UINT i;
    for (i = sizeof table / sizeof *table; i-- > 0;)
        table[i] = n;
    return table[n];
}

static VOID cruncher_entry(ULONG unused)
{
    (void)unused;
    for (;;) {
        mk_thread_sleep(4);
        sum += failing(CHECKED_OVERFLOW) ? unpack(3) : parse(failing(QUIET_OVERFLOW) ? 30 : 5);
        if (FAILURE == BUSY)
            fw_work(3 * FW_TICK_CYCLES + FW_TICK_CYCLES / 2);
        while (failing(STARVATION) || (failing(INVERSION) && storage_lock.tx_mutex_suspended_count != 0))
            fw_work(SHORT);
    }
}

static VOID show_entry(ULONG unused)
{
    (void)unused;
    for (;;) {
        mk_thread_sleep(5);
        if (failing(LIVELOCK)) {
            do {
                mk_mutex_get(&config_lock, TX_WAIT_FOREVER);
                fw_work(SHORT);
                mk_thread_sleep(1);
                if (mk_mutex_get(&storage_lock, TX_NO_WAIT) == TX_SUCCESS)
                    mk_mutex_put(&storage_lock);
                mk_mutex_put(&config_lock);
            } while (1);
        }
        mk_mutex_get(&config_lock, TX_WAIT_FOREVER);
        fw_work(2 * SHORT);
        if (failing(DEADLOCK)) {
            mk_thread_sleep(2);
            mk_mutex_get(&storage_lock, TX_WAIT_FOREVER);
            mk_mutex_put(&storage_lock);
        }
        if (failing(CYCLE)) {
            mk_thread_sleep(2);
            mk_semaphore_get(&bus_free, TX_WAIT_FOREVER);
            mk_semaphore_put(&bus_free);
        }
        mk_mutex_put(&config_lock);
        if (failing(OWNER_SUSPENDED) && storage_lock.tx_mutex_owner == &upkeep)
            mk_thread_suspend(&upkeep);
    }
}

static VOID service_entry(ULONG unused)
{
    (void)unused;
    for (;;) {
        /* In a healthy system nobody presses it. */
        mk_semaphore_get(&service_button, TX_WAIT_FOREVER);
        sum++;
    }
}

static VOID upkeep_entry(ULONG unused)
{
    (void)unused;
    for (;;) {
        mk_thread_sleep(7);
        mk_mutex_get(&storage_lock, TX_WAIT_FOREVER);
        fw_work(failing(OWNER_SUSPENDED) ? 8 * FW_TICK_CYCLES : failing(INVERSION) ? 5 * FW_TICK_CYCLES : 4 * SHORT);
        if (failing(DEADLOCK) || failing(CYCLE)) {
            mk_thread_sleep(6);
            mk_mutex_get(&config_lock, TX_WAIT_FOREVER);
            mk_mutex_put(&config_lock);
        }
        if (failing(LIVELOCK)) {
            do {
                mk_mutex_put(&storage_lock);
                mk_mutex_get(&storage_lock, TX_WAIT_FOREVER);
                fw_work(SHORT);
                mk_thread_sleep(1);
                if (mk_mutex_get(&config_lock, TX_NO_WAIT) == TX_SUCCESS)
                    mk_mutex_put(&config_lock);
            } while (1);
        }
        mk_mutex_put(&storage_lock);
    }
}

/* Completes on purpose. */
static VOID startup_entry(ULONG unused)
{
    (void)unused;
    fw_work(SHORT);
    if (FAILURE != HOLDER_COMPLETED)
        return;
    mk_thread_sleep(BEGIN);
    mk_semaphore_get(&bus_free, TX_WAIT_FOREVER);
    fw_work(SHORT);
}

VOID app_define(VOID)
{
    _tx_trace_enable(trace_buffer, sizeof trace_buffer, REGISTRY);
    mk_mutex_create(&config_lock, PICK("config lock", "settings mutex"), 0);
    mk_mutex_create(&storage_lock, PICK("storage lock", "flash mutex"), 0);
    mk_semaphore_create(&bus_free, PICK("bus free", "spi token"), 1);
    mk_semaphore_create(&service_button, PICK("service button", "door contact"), 0);
    mk_flags_create(&state, PICK("state", "signals"));
    mk_block_pool_create(&buffers, PICK("buffers", "slabs"), 16, buffer_storage, sizeof buffer_storage);
    mk_queue_create(&records, PICK("records", "outbox"), 1, records_storage, sizeof records_storage);
#define THREAD(t, name, entry, n, priority) \
    mk_thread_create(&t, name, entry, n, stacks[n], FW_STACK, priority, 1)
    THREAD(reader, PICK("reader", "adc task"), reader_entry, READER, PICK(5, 3));
    THREAD(writer, PICK("writer", "journal"), writer_entry, WRITER, PICK(8, 6));
    THREAD(net, PICK("net", "modem"), net_entry, NET, PICK(10, 9));
    THREAD(cruncher, PICK("cruncher", "fft"), cruncher_entry, CRUNCHER, PICK(11, 14));
    THREAD(show, PICK("show", "panel"), show_entry, SHOW, PICK(12, 15));
    THREAD(service, PICK("service", "alarm"), service_entry, SERVICE, PICK(15, 20));
    THREAD(upkeep, PICK("upkeep", "compactor"), upkeep_entry, UPKEEP, PICK(18, 25));
    THREAD(startup, PICK("startup", "boot"), startup_entry, STARTUP, PICK(2, 2));
}
