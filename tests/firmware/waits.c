/*
 * Failures of waits on purpose: a small hub that goes wrong in the way that
 * the word at 0x20010000 says, as in failures.c. The first two ways are
 * healthy. Each other way has the threads that it needs, and lamp. waits.tsv
 * says what is true of each. With FW_OTHER the same failures have other names,
 * priorities, and another tick.
 */
#include "kernel.h"

enum failure {
    HEALTHY,
    STARTED,          /* healthy too: its waits are for rare things              */
    RELEASED_TWICE,   /* a block of a pool                                       */
    POOL_OVERWRITTEN, /* the counts in the control block of a pool               */
    READER_SUSPENDED, /* of a queue to which nobody waits to send                */
    READER_WAITS,     /* elsewhere, since long before the oldest event           */
    CREDITS_GONE,     /* both are taken on a path without a put, and all wait    */
    SERVER_COMPLETED, /* and its clients wait for replies                        */
    NEVER_SET,        /* flags of which nobody sets the first                    */
    SHORT_MASK,       /* a wrong flag is set, long before the oldest event       */
    BLOCKS_WAIT,      /* as messages in a queue whose reader waits elsewhere     */
    FLAG_TAKEN,       /* by another thread, while the one is elsewhere           */
    CREATED_AGAIN,    /* a thread that lives, by a restart                       */
    STACK_RELEASED,   /* of a thread that lives, and it is another's now         */
    TIMER_OFF,        /* its callback would put what is waited for               */
    LONG_SLEEP,       /* for a difference of times that is negative              */
    FLAG_HELD,        /* as a lock, by a thread that completes                   */
    STACKS_OVERLAP,   /* one was created with half of the other's memory         */
    NO_THREADS,       /* none was created; the kernel idles                      */
    SILENT,           /* a thread computes without end, and leaves no event      */
    COMPUTES,         /* healthy: a thread computes for long, again and again    */
    OWNER_RETRIES,    /* with a mutex in hand, for a device that does not answer */
    OWNER_SLEEPS,     /* with a mutex in hand, for very long                     */
    BLOCKS_LOST,      /* one after the other: the pointers to them are dropped   */
    BLOCKS_LISTED,    /* all are in a list, which is long                        */
    NEVER_RESUMED,    /* a thread, since long before the oldest event            */
    BLOCKS_PACKED     /* all are in a table whose pointers are not aligned       */
};

/* When the failure begins, and when the run ends, in ticks. */
#define BEGIN 30u
#define END 90u
/* Where the end of the run is long after the last event. */
#define LATE_END 200u
#include "failing.h"

static TX_THREAD *spooler;

/* A write past the end of the line overwrites the pool after it. */
static struct { ULONG line[4]; TX_BLOCK_POOL pool; } drawn;
#define cells drawn.pool
static TX_QUEUE frames, jobs, readings, requests, replies, boot_log;
static TX_SEMAPHORE acknowledge, slots, parked, measured;
static TX_EVENT_FLAGS_GROUP link, bring_up, draft;
static TX_BYTE_POOL arena;
static TX_TIMER gauge;
static TX_MUTEX bus;
static ULONG *volatile listed;
static struct __attribute__((packed)) { UCHAR kind; ULONG *at; } packed[8];

#define CELLS 6
#define CELL 16
static UCHAR cell_memory[CELLS * (CELL + sizeof(VOID *))] __attribute__((aligned(8)));
static UCHAR arena_memory[FW_STACK + 64] __attribute__((aligned(8)));
static ULONG frame_storage[8], job_storage[6], reading_storage[4], request_storage[4], reply_storage[4], log_storage[8];

enum { UP = 0x10, CABLE = 1, CARD = 2, KEY = 1, CLOCK = 1, RADIO = 2, DISK = 4, WRONG = 8 };

/* In these ways interrupts are not announced, as most programs do not. */
VOID __real_mk_trace(ULONG id, ULONG category, ULONG i1, ULONG i2, ULONG i3, ULONG i4);
VOID __wrap_mk_trace(ULONG id, ULONG category, ULONG i1, ULONG i2, ULONG i3, ULONG i4);
VOID __wrap_mk_trace(ULONG id, ULONG category, ULONG i1, ULONG i2, ULONG i3, ULONG i4)
{
    enum { ISR_ENTER = 3, ISR_EXIT = 4 };
    if ((FAILURE != SILENT && FAILURE != COMPUTES) || (id != ISR_ENTER && id != ISR_EXIT))
        __real_mk_trace(id, category, i1, i2, i3, i4);
}

/* ---- where the run ends ---- */

UINT app_line_has_frame(VOID)
{
    if (_tx_timer_system_clock >= (FAILURE == SILENT || FAILURE == COMPUTES ? LATE_END : END))
        run_ended();
    return 0;
}

VOID app_uart_isr(VOID)
{
}

/* ---- something to see in the trace; it parks where all are to wait ---- */

static VOID lamp_entry(ULONG unused)
{
    (void)unused;
    for (;;) {
        mk_thread_sleep(2);
        sum++;
        if (FAILURE == STARTED && _tx_timer_system_clock == 20)
            mk_flags_set(&link, CABLE);
        if (FAILURE == TIMER_OFF && _tx_timer_system_clock < 2 * BEGIN)
            mk_semaphore_put(&measured);
        if ((FAILURE == CREDITS_GONE || FAILURE == SERVER_COMPLETED) && _tx_timer_system_clock > END - 20)
            mk_semaphore_get(&parked, TX_WAIT_FOREVER);
    }
}

/* ---- frames in blocks of a pool ---- */

static VOID feeder_entry(ULONG unused)
{
    ULONG n, *frame;
    (void)unused;
    for (n = 0;; n++) {
        UINT i;
        mk_thread_sleep(1);
        if (mk_block_allocate(&cells, (VOID **)&frame, FAILURE == BLOCKS_WAIT ? TX_WAIT_FOREVER : TX_NO_WAIT) != TX_SUCCESS)
            continue;
        frame[0] = n;
        for (i = 0; i < 4; i++)
            drawn.line[i] = n;
        if (failing(POOL_OVERWRITTEN)) {
            for (i = 4 + 2; i < 4 + 4; i++)
                drawn.line[i] = 0x20202020u; /* both counts, behind id and name */
            mk_thread_sleep(1000);
        }
        if (FAILURE == RELEASED_TWICE && _tx_timer_system_clock == END - 8)
            mk_block_release(frame);
        mk_queue_send(&frames, &frame, TX_WAIT_FOREVER);
    }
}

static VOID sink_entry(ULONG unused)
{
    ULONG *frame;
    (void)unused;
    for (;;) {
        mk_queue_receive(&frames, &frame, TX_WAIT_FOREVER);
        fw_work(2 * SHORT);
        sum += frame[0];
        if (FAILURE == BLOCKS_WAIT && _tx_timer_system_clock >= BEGIN / 3)
            mk_semaphore_get(&acknowledge, TX_WAIT_FOREVER);
        mk_block_release(frame);
    }
}

/* ---- jobs, which are lost where the queue is full ---- */

static VOID spooler_entry(ULONG unused)
{
    ULONG job;
    (void)unused;
    for (;;) {
        mk_queue_receive(&jobs, &job, TX_WAIT_FOREVER);
        fw_work(FW_TICK_CYCLES + FW_TICK_CYCLES / 2);
        sum += job;
    }
}

static VOID web_entry(ULONG unused)
{
    ULONG n;
    (void)unused;
    for (n = 0;; n++) {
        mk_thread_sleep(1);
        if (failing(READER_SUSPENDED) && n % 4 == 1)
            mk_thread_suspend(spooler); /* only while it is ready */
        if (n % 2 == 0)
            mk_queue_send(&jobs, &n, TX_NO_WAIT);
    }
}

/* ---- readings, for which room is waited ---- */

static VOID sensor_entry(ULONG unused)
{
    ULONG n;
    (void)unused;
    for (n = 0;; n++) {
        mk_thread_sleep(2);
        mk_queue_send(&readings, &n, TX_WAIT_FOREVER);
    }
}

static VOID hub_entry(ULONG unused)
{
    ULONG reading;
    (void)unused;
    for (;;) {
        mk_queue_receive(&readings, &reading, TX_WAIT_FOREVER);
        sum += reading;
        if (FAILURE == READER_WAITS && _tx_timer_system_clock >= BEGIN / 3)
            mk_semaphore_get(&acknowledge, TX_WAIT_FOREVER);
    }
}

/* Fills the ring. */
static VOID beacon_entry(ULONG unused)
{
    (void)unused;
    for (;;)
        mk_thread_sleep(1);
}

/* ---- a semaphore with two credits ---- */

static NOINLINE UINT transfer(ULONG n)
{
    fw_work(SHORT);
    mk_thread_sleep(1);
    return FAILURE == CREDITS_GONE && _tx_timer_system_clock > END - 25 && n % 3 == 2 ? TX_NOT_DONE : TX_SUCCESS;
}

static VOID files_entry(ULONG unused)
{
    ULONG n;
    (void)unused;
    for (n = 0;; n++) {
        mk_thread_sleep(1);
        mk_semaphore_get(&slots, TX_WAIT_FOREVER);
        if (transfer(n) != TX_SUCCESS)
            continue;
        mk_semaphore_put(&slots);
    }
}

static VOID mail_entry(ULONG unused)
{
    (void)unused;
    for (;;) {
        mk_thread_sleep(3);
        mk_semaphore_get(&slots, TX_WAIT_FOREVER);
        fw_work(SHORT);
        mk_semaphore_put(&slots);
    }
}

/* ---- a server and its clients ---- */

static VOID crypto_entry(ULONG unused)
{
    ULONG request;
    (void)unused;
    for (;;) {
        mk_queue_receive(&requests, &request, TX_WAIT_FOREVER);
        fw_work(SHORT);
        if (failing(SERVER_COMPLETED))
            return;
        mk_queue_send(&replies, &request, TX_WAIT_FOREVER);
    }
}

static VOID client_entry(ULONG ticks)
{
    ULONG reply;
    for (;;) {
        mk_thread_sleep(ticks);
        mk_queue_send(&requests, &ticks, TX_WAIT_FOREVER);
        mk_queue_receive(&replies, &reply, TX_WAIT_FOREVER);
    }
}

/* ---- flags ---- */

static VOID uplink_entry(ULONG unused)
{
    ULONG actual;
    (void)unused;
    for (;;) {
        mk_flags_get(&link, UP, TX_OR, &actual, TX_WAIT_FOREVER);
        mk_thread_sleep(5);
    }
}

static VOID address_entry(ULONG unused)
{
    ULONG actual;
    (void)unused;
    for (;;) {
        /* An interrupt would set it. */
        mk_flags_get(&link, CABLE, TX_OR_CLEAR, &actual, TX_WAIT_FOREVER);
        mk_flags_set(&link, UP);
    }
}

static VOID master_entry(ULONG unused)
{
    ULONG actual;
    (void)unused;
    mk_flags_get(&bring_up, CLOCK | RADIO | DISK, TX_AND, &actual, TX_WAIT_FOREVER);
    for (;;)
        mk_thread_sleep(3);
}

static VOID part_entry(ULONG flag)
{
    mk_thread_sleep(2 + flag);
    mk_flags_set(&bring_up, FAILURE == SHORT_MASK && flag == DISK ? WRONG : flag);
    for (;;)
        mk_thread_sleep(1);
}

/* ---- a card, of which two threads hear ---- */

static VOID slot_entry(ULONG unused)
{
    UINT n;
    (void)unused;
    for (n = 0; n < 3; n++) {
        mk_thread_sleep(4);
        mk_flags_set(&link, CARD);
    }
    for (;;)
        mk_thread_sleep(1);
}

static VOID card_entry(ULONG late)
{
    ULONG actual;
    mk_thread_sleep(late);
    for (;;) {
        mk_flags_get(&link, CARD, TX_OR_CLEAR, &actual, TX_WAIT_FOREVER);
        mk_thread_sleep(1);
    }
}

/* ---- a flag that is used as a lock ---- */

static VOID editor_entry(ULONG ends)
{
    ULONG actual;
    for (;;) {
        mk_flags_get(&draft, KEY, TX_OR_CLEAR, &actual, TX_WAIT_FOREVER);
        fw_work(SHORT);
        if (ends && FAILURE == FLAG_HELD && _tx_timer_system_clock > END - 25)
            return;
        mk_flags_set(&draft, KEY);
        if (ends && FAILURE == STARTED && _tx_timer_system_clock > END - 25)
            return; /* with the flag set: the other goes on */
        mk_thread_sleep(2);
    }
}

/* ---- a bus, and a device that has stopped ---- */

static NOINLINE VOID wait_answer(VOID)
{
    while (_tx_timer_system_clock > BEGIN / 3)
        mk_thread_sleep(FAILURE == OWNER_SLEEPS ? 20000 : 1);
}

static VOID modem_entry(ULONG unused)
{
    (void)unused;
    for (;;) {
        mk_mutex_get(&bus, TX_WAIT_FOREVER);
        wait_answer();
        mk_mutex_put(&bus);
        mk_thread_sleep(1);
    }
}

static VOID compass_entry(ULONG ticks)
{
    for (;;) {
        mk_thread_sleep(ticks);
        mk_mutex_get(&bus, TX_WAIT_FOREVER);
        fw_work(SHORT);
        mk_mutex_put(&bus);
    }
}

/* ---- blocks, of which some are not released ---- */

static NOINLINE UINT is_whole(ULONG n)
{
    fw_work(SHORT);
    return n % 3 != 2;
}

static VOID catcher_entry(ULONG unused)
{
    ULONG n, *cell;
    (void)unused;
    for (n = 0;; n++) {
        mk_block_allocate(&cells, (VOID **)&cell, TX_WAIT_FOREVER);
        cell[0] = n;
        cell[1] = 0;
        if (FAILURE == BLOCKS_LISTED) {
            cell[1] = UL(listed);
            listed = cell;
        } else if (FAILURE == BLOCKS_PACKED) {
            packed[n % 8].at = cell;
        } else if (is_whole(n)) {
            mk_block_release(cell);
        }
        cell = NULL;
        mk_thread_sleep(1);
    }
}

/* ---- a thread that another one stops and starts ---- */

static TX_THREAD *robot;

static VOID robot_entry(ULONG unused)
{
    (void)unused;
    for (;;)
        fw_work(SHORT);
}

static VOID pilot_entry(ULONG unused)
{
    (void)unused;
    for (;;) {
        mk_thread_sleep(1);
        mk_thread_suspend(robot); /* only while it is ready */
        mk_thread_sleep(1);
        if (_tx_timer_system_clock <= BEGIN)
            mk_thread_resume(robot);
    }
}

/* ---- threads that come and go ---- */

static VOID session_entry(ULONG unused)
{
    (void)unused;
    for (;;) {
        mk_semaphore_get(&acknowledge, TX_WAIT_FOREVER);
        sum++;
    }
}

static VOID manager_entry(ULONG unused)
{
    UINT n;
    (void)unused;
    for (n = 0;; n++) {
        mk_thread_sleep(2);
        if (_tx_timer_system_clock < BEGIN)
            mk_semaphore_put(&acknowledge);
        if (n == 20)
            mk_thread_create(&threads[1], PICK("session", "login"), session_entry, 0, stacks[1], FW_STACK, PICK(11, 10), 1);
    }
}

static VOID listener_entry(ULONG unused)
{
    static TX_THREAD worker;
    VOID *memory;
    UINT n;
    (void)unused;
    mk_byte_allocate(&arena, &memory, FW_STACK, TX_NO_WAIT);
    mk_thread_create(&worker, PICK("worker", "helper"), session_entry, 0, memory, FW_STACK, PICK(11, 10), 1);
    for (n = 0;; n++) {
        mk_thread_sleep(1);
        if (_tx_timer_system_clock < END - 20 && n % 3 == 0)
            mk_semaphore_put(&acknowledge);
        if (_tx_timer_system_clock == END - 15)
            mk_byte_release(memory);
    }
}

static VOID cache_entry(ULONG unused)
{
    UCHAR *memory;
    UINT i;
    (void)unused;
    while (_tx_timer_system_clock < END - 10)
        mk_thread_sleep(1);
    mk_byte_allocate(&arena, (VOID **)&memory, FW_STACK, TX_WAIT_FOREVER);
    for (i = 0; i < FW_STACK; i++)
        memory[i] = (UCHAR)i;
    for (;;)
        mk_thread_sleep(1);
}

/* ---- times ---- */

static VOID gauge_expired(ULONG unused)
{
    (void)unused;
    mk_semaphore_put(&measured);
}

static VOID scale_entry(ULONG unused)
{
    (void)unused;
    for (;;) {
        mk_semaphore_get(&measured, TX_WAIT_FOREVER);
        sum++;
    }
}

static VOID sampler_entry(ULONG unused)
{
    ULONG next = 0;
    (void)unused;
    for (;;) {
        next += 3;
        /* A long measurement: the next one is over before it begins. */
        if (failing(LONG_SLEEP))
            fw_work(5 * FW_TICK_CYCLES);
        mk_thread_sleep(next - _tx_timer_system_clock);
        mk_semaphore_put(&measured);
    }
}

/* Sends what the start has to say, and completes on purpose; who reads that waits on. */
static VOID startup_entry(ULONG unused)
{
    ULONG n;
    (void)unused;
    for (n = 0; n < 8; n++)
        mk_queue_send(&boot_log, &n, TX_WAIT_FOREVER);
}

static VOID console_entry(ULONG unused)
{
    ULONG line;
    (void)unused;
    for (;;)
        mk_queue_receive(&boot_log, &line, TX_WAIT_FOREVER);
}

/* Computes, and calls nothing. */
static VOID planner_entry(ULONG unused)
{
    (void)unused;
    for (;;) {
        ULONG from;
        mk_thread_sleep(3);
        from = _tx_timer_system_clock;
        while (failing(SILENT) || (FAILURE == COMPUTES && _tx_timer_system_clock - from < 25))
            fw_work(SHORT);
    }
}

/* ---- start ---- */

static UINT has(enum failure which)
{
    return FAILURE == which;
}

/* The stack of the second begins in the middle of that of the first, which the kernel fills when it creates the second. */
static VOID two_in_one(VOID)
{
    UCHAR *memory = (UCHAR *)stacks[used];
    static TX_THREAD second;
    mk_thread_create(&threads[used], PICK("parser", "reader"), beacon_entry, 0, memory, FW_STACK, PICK(12, 11), 1);
    used += 2;
    mk_thread_create(&second, PICK("lexer", "scanner"), beacon_entry, 0, memory + FW_STACK / 2, FW_STACK, PICK(13, 15), 1);
}

VOID app_define(VOID)
{
    _tx_trace_enable(trace_buffer, sizeof trace_buffer, REGISTRY);
    mk_block_pool_create(&cells, PICK("cells", "tiles"), CELL, cell_memory, sizeof cell_memory);
    mk_queue_create(&frames, PICK("frames", "parcels"), 1, frame_storage, sizeof frame_storage);
    mk_queue_create(&jobs, PICK("jobs", "orders"), 1, job_storage, sizeof job_storage);
    mk_queue_create(&readings, PICK("readings", "samples"), 1, reading_storage, sizeof reading_storage);
    mk_queue_create(&requests, PICK("requests", "asked"), 1, request_storage, sizeof request_storage);
    mk_queue_create(&replies, PICK("replies", "answered"), 1, reply_storage, sizeof reply_storage);
    mk_queue_create(&boot_log, PICK("boot log", "greeting"), 1, log_storage, sizeof log_storage);
    mk_semaphore_create(&acknowledge, PICK("acknowledge", "consent"), 0);
    mk_semaphore_create(&slots, PICK("slots", "channels"), 2);
    mk_semaphore_create(&parked, PICK("parked", "asleep"), 0);
    mk_semaphore_create(&measured, PICK("measured", "weighed"), 0);
    mk_byte_pool_create(&arena, PICK("arena", "field"), arena_memory, sizeof arena_memory);
    /* Once; to be started again by nobody. */
    mk_timer_create(&gauge, PICK("gauge", "meter"), gauge_expired, 0, 3, 0, 1);
    mk_flags_create(&link, PICK("link", "cable"));
    mk_flags_create(&bring_up, PICK("bring up", "begin"));
    mk_flags_create(&draft, PICK("draft", "text"));
    mk_flags_set(&draft, KEY);
    mk_mutex_create(&bus, PICK("bus", "wires"), 1);
    if (has(NO_THREADS))
        return;
    thread(PICK("lamp", "signal"), lamp_entry, 0, PICK(14, 19));
    if (has(STACKS_OVERLAP))
        two_in_one();
    if (has(STARTED) || has(FLAG_HELD)) {
        thread(PICK("editor", "author"), editor_entry, 1, PICK(9, 8));
        thread(PICK("viewer", "display"), editor_entry, 0, PICK(16, 17));
    }
    if (has(CREATED_AGAIN)) {
        thread(PICK("session", "login"), session_entry, 0, PICK(11, 10));
        thread(PICK("manager", "warden"), manager_entry, 0, PICK(7, 6));
    }
    if (has(STACK_RELEASED)) {
        thread(PICK("listener", "door"), listener_entry, 0, PICK(7, 6));
        thread(PICK("cache", "larder"), cache_entry, 0, PICK(13, 14));
    }
    if (has(SILENT) || has(COMPUTES))
        thread(PICK("planner", "solver"), planner_entry, 0, PICK(8, 7));
    if (has(TIMER_OFF) || has(LONG_SLEEP))
        thread(PICK("scale", "balance"), scale_entry, 0, PICK(11, 10));
    if (has(LONG_SLEEP))
        thread(PICK("sampler", "taster"), sampler_entry, 0, PICK(7, 6));
    if (has(FLAG_TAKEN)) {
        thread(PICK("slot", "tray"), slot_entry, 0, PICK(7, 6));
        thread(PICK("light", "glow"), card_entry, 1, PICK(15, 20));
        thread(PICK("volume", "disc"), card_entry, 16, PICK(11, 10));
    }
    if (has(HEALTHY) || has(RELEASED_TWICE) || has(POOL_OVERWRITTEN) || has(BLOCKS_WAIT)) {
        thread(PICK("feeder", "loader"), feeder_entry, 0, PICK(6, 5));
        thread(PICK("sink", "drain"), sink_entry, 0, PICK(8, 7));
    }
    if (has(HEALTHY) || has(READER_SUSPENDED)) {
        spooler = thread(PICK("spooler", "printer"), spooler_entry, 0, PICK(16, 21));
        thread(PICK("web", "front"), web_entry, 0, PICK(9, 8));
    }
    if (has(HEALTHY) || has(READER_WAITS)) {
        thread(PICK("sensor", "probe"), sensor_entry, 0, PICK(5, 4));
        thread(PICK("hub", "centre"), hub_entry, 0, PICK(10, 9));
    }
    if (has(READER_WAITS) || has(NEVER_SET) || has(BLOCKS_WAIT) || has(FLAG_TAKEN) || has(TIMER_OFF) || has(LONG_SLEEP))
        thread(PICK("beacon", "pulse"), beacon_entry, 0, PICK(12, 11));
    if (has(STARTED) || has(CREDITS_GONE)) {
        thread(PICK("files", "store"), files_entry, 0, PICK(11, 12));
        thread(PICK("mail", "post"), mail_entry, 0, PICK(13, 14));
    }
    if (has(HEALTHY) || has(SERVER_COMPLETED)) {
        thread(PICK("crypto", "cipher"), crypto_entry, 0, PICK(7, 6));
        thread(PICK("tunnel", "gate"), client_entry, 3, PICK(17, 22));
    }
    if (has(SERVER_COMPLETED))
        thread(PICK("login", "entrance"), client_entry, 7, PICK(18, 23));
    if (has(STARTED) || has(NEVER_SET)) {
        thread(PICK("uplink", "cloud"), uplink_entry, 0, PICK(15, 20));
        thread(PICK("address", "lease"), address_entry, 0, PICK(11, 10));
    }
    if (has(STARTED)) {
        thread(PICK("startup", "boot"), startup_entry, 0, PICK(4, 3));
        thread(PICK("console", "screen"), console_entry, 0, PICK(20, 24));
    }
    if (has(BLOCKS_LOST) || has(BLOCKS_LISTED) || has(BLOCKS_PACKED)) {
        thread(PICK("beacon", "pulse"), beacon_entry, 0, PICK(12, 11));
        thread(PICK("catcher", "keeper"), catcher_entry, 0, PICK(9, 8));
    }
    if (has(NEVER_RESUMED)) {
        thread(PICK("beacon", "pulse"), beacon_entry, 0, PICK(12, 11));
        robot = thread(PICK("robot", "walker"), robot_entry, 0, PICK(20, 24));
        thread(PICK("pilot", "guide"), pilot_entry, 0, PICK(11, 10));
    }
    if (has(OWNER_RETRIES) || has(OWNER_SLEEPS)) {
        thread(PICK("beacon", "pulse"), beacon_entry, 0, PICK(12, 11));
        thread(PICK("modem", "sender"), modem_entry, 0, PICK(9, 8));
        thread(PICK("compass", "needle"), compass_entry, 2, PICK(13, 14));
        thread(PICK("barometer", "weather"), compass_entry, 3, PICK(15, 17));
    }
    if (has(SHORT_MASK)) {
        thread(PICK("master", "chief"), master_entry, 0, PICK(5, 4));
        thread(PICK("clock", "timer"), part_entry, CLOCK, PICK(11, 12));
        thread(PICK("radio", "wave"), part_entry, RADIO, PICK(12, 13));
        thread(PICK("disk", "drive"), part_entry, DISK, PICK(13, 15));
    }
}
