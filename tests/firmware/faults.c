/*
 * Faults, failed assertions and losses on purpose that memory and the code of
 * the program explain. A small charger goes wrong in the way that the word at
 * FW_WAY says, as in uses.c; faults.tsv says what is true of each. The first
 * way is healthy. With FW_OTHER the same failures have other names, priorities
 * and another tick, and the kernel has no event trace.
 */
#include "kernel.h"

enum failure {
    HEALTHY,
    QUEUE_CHECKED, /* is what a send returns, and its reader sleeps            */
    COUNTS_CHECKED, /* by who owns the mutex; another changes them without it   */
    PAST_END,      /* of an array one element is written, over a pointer        */
    NODE_LOST,     /* what is in a list was written over, by a text             */
    NOT_PUT,       /* on one path, by one that goes on; the other waits         */
    FLAG_TAKEN,    /* by one that needs less of them                            */
    BLOCK_KEPT,    /* whose address is on the stack above a message             */
    SUSPENDED,     /* is who owns a mutex, by one that goes on                   */
    RETAINED,      /* over a reset is a mutex, which is not created again        */
    HEAD_LOST,     /* of a list: a text was written over it                      */
    REQUEST_LOST,  /* as its queue was full; who sent it waits for the answer    */
    RELINQUISHED,  /* between two tries for a mutex; its owner is less urgent    */
    STATE_CLEARED, /* by a wait for it together with another flag                */
    INDEX_QUEUE,   /* what a search returns that found nothing: a queue is there */
    INDEX_POINTER, /* the same, and a pointer is there                           */
    CROSSED,       /* are answers of a bus that two threads use without a lock   */
    BUS_LOCKED,    /* is the same bus, by a mutex: nothing is wrong              */
    OVERTAKEN,     /* is a transfer whose end is an event flag, by another one   */
    UNKNOWN_CODE,  /* is an index of a table of pointers, and is not checked      */
    WRITTEN_OVER,  /* is a request by another one, as no lock keeps them apart    */
    COUNTED_BELOW, /* an array are ticks, and the count of a mutex is there        */
    ZERO_PASSED,   /* is a number of samples by which the function called divides  */
    UNSENT_KEPT,   /* are blocks that a full queue refuses, and are not released    */
    LIST_BELOW,    /* an array is the list of free blocks, and an index is -1        */
    BIT_NUMBER,    /* of a flag is set on one path, where its mask is meant           */
    TIME_ASKED,    /* is the time, until it is over, with interrupts disabled        */
    PAGE_LOCAL,    /* is a variable that is larger than the stack, and hardly used    */
    FLAG_COMPUTED, /* is another one than its waiter wants, by the number of a board  */
    NAME_FULL,     /* is copied to its end, and its 0 over a byte of a pointer         */
    FLAG_MASKED,   /* is as FLAG_COMPUTED, and its waiter collects those that it wants */
    FLAG_CLEARED,  /* is set once at the start, and nobody sets it again               */
    TYPE_OTHER,    /* has what lies behind a table of pointers: a queue                */
    DIVISOR_CLEARED, /* is a struct, for a while, and another one divides by a part of it */
    NUMBER_WANTED, /* is that of a flag where its mask is meant                        */
    SENT_TWICE     /* is the address of a block, and its reader checks what is there   */
};

#define BEGIN 20u
#define END 70u
#define THREADS 5
#include "failing.h"

static TX_QUEUE alarms, samples, moved;
static ULONG alarm_storage[2], sample_storage[4], moved_storage[2];
static TX_MUTEX ledger;
static TX_SEMAPHORE spi;
static TX_EVENT_FLAGS_GROUP phases;
static TX_BLOCK_POOL frames;
#define FRAME 16
static UCHAR frame_memory[4 * (FRAME + sizeof(VOID *))] __attribute__((aligned(8)));

static UINT is_transferred(VOID);

UINT app_line_has_frame(VOID)
{
    if (_tx_timer_system_clock >= END)
        run_ended();
    return is_transferred();
}

/* ---- fills the ring ---- */

static VOID lamp_entry(ULONG ticks)
{
    for (;;) {
        mk_thread_sleep(ticks);
        sum++;
    }
}

/* ---- an assertion of what a call returned ---- */

static struct {
    const CHAR *file;
    ULONG line;
} failed;

static NOINLINE VOID assert_failed(const CHAR *file, ULONG at)
{
    failed.file = file;
    failed.line = at;
    run_ended();
    __asm__ volatile("cpsid i" ::: "memory");
    for (;;)
        ;
}

#define ASSERT(what) ((what) ? (VOID)0 : assert_failed("firmware/faults.c", __LINE__))

static NOINLINE VOID raise_alarm(ULONG number)
{
    UINT status = mk_queue_send(&alarms, &number, TX_NO_WAIT);
    ASSERT(status == TX_SUCCESS);
}

static VOID guard_entry(ULONG unused)
{
    ULONG n;
    (void)unused;
    for (n = 0;; n++) {
        mk_thread_sleep(4);
        raise_alarm(n);
    }
}

static VOID logger_entry(ULONG unused)
{
    ULONG alarm;
    (void)unused;
    for (;;) {
        mk_queue_receive(&alarms, &alarm, TX_WAIT_FOREVER);
        sum += alarm;
        if (failing(QUEUE_CHECKED))
            mk_thread_sleep(400);
    }
}

/* ---- an assertion of variables, and one of those who change them has no lock ---- */

static struct {
    ULONG sold, paid, left;
} energy = {0, 0, 1000};

static NOINLINE VOID settle(VOID)
{
    mk_mutex_get(&ledger, TX_WAIT_FOREVER);
    energy.sold++;
    fw_work(failing(COUNTS_CHECKED) ? 2 * FW_TICK_CYCLES : SHORT);
    energy.left--;
    ASSERT(energy.sold + energy.left == 1000);
    mk_mutex_put(&ledger);
}

static VOID billing_entry(ULONG unused)
{
    (void)unused;
    for (;;) {
        mk_thread_sleep(3);
        settle();
    }
}

static NOINLINE VOID refund(VOID)
{
    energy.sold--;
    energy.left++;
}

static NOINLINE VOID correct(VOID)
{
    energy.sold = 0;
    energy.left = 1000;
}

static VOID meter_entry(ULONG unused)
{
    (void)unused;
    for (;;) {
        mk_thread_sleep(1);
        refund();
        if (failing(COUNTS_CHECKED))
            correct();
    }
}

/* ---- one element more than there are, in front of a pointer ---- */

struct profile {
    ULONG current;
};

static struct profile slow = {6};
static struct {
    ULONG limits[8];
    struct profile *profile;
} plug = {{0}, &slow};
static volatile ULONG phases_used = 8;

static NOINLINE VOID load_limits(VOID)
{
    ULONG n, most = phases_used;
    for (n = 0; n < most; n++)
        plug.limits[n] = 0x45000000u + (n << 16);
}

static VOID tariff_entry(ULONG unused)
{
    (void)unused;
    for (;;) {
        mk_thread_sleep(3);
        if (failing(PAST_END))
            phases_used = 9;
        load_limits();
    }
}

static NOINLINE ULONG allowed(VOID)
{
    return plug.profile->current;
}

static VOID control_entry(ULONG unused)
{
    (void)unused;
    for (;;) {
        mk_thread_sleep(2);
        sum += allowed();
    }
}

/* ---- a list, one element of which was written over ---- */

struct order {
    CHAR title[8];
    struct order *next;
    ULONG watts;
};

static struct order orders[3] = {{"night", &orders[1], 11}, {"noon", &orders[2], 22}, {"any", NULL, 7}};
static struct {
    CHAR day[8];
    struct order *first;
} plan = {"today", &orders[0]};

static NOINLINE ULONG total(VOID)
{
    ULONG watts = 0;
    struct order *at;
    for (at = plan.first; at != NULL; at = at->next)
        watts += at->watts;
    return watts;
}

static VOID planner_entry(ULONG unused)
{
    (void)unused;
    for (;;) {
        mk_thread_sleep(2);
        sum += total();
    }
}

static NOINLINE VOID rename_day(const CHAR *day)
{
    CHAR *to = plan.day;
    while ((*to++ = *day++) != 0)
        ;
}

static NOINLINE VOID rename_order(UINT n, const CHAR *title)
{
    CHAR *to = orders[n].title;
    while ((*to++ = *title++) != 0)
        ;
}

static VOID panel_entry(ULONG unused)
{
    (void)unused;
    for (;;) {
        mk_thread_sleep(5);
        rename_order(1, failing(NODE_LOST) ? "noon and night" : "noon");
        rename_day(failing(HEAD_LOST) ? "tomorrow morning" : "today");
    }
}

/* ---- a semaphore as a lock that one path keeps ---- */

static volatile ULONG faults_seen;

static NOINLINE UINT read_sensor(ULONG n)
{
    mk_semaphore_get(&spi, TX_WAIT_FOREVER);
    fw_work(SHORT);
    if (failing(NOT_PUT) && n % 4 == 3) {
        faults_seen++;
        return 1;
    }
    mk_semaphore_put(&spi);
    return 0;
}

static VOID sensor_entry(ULONG unused)
{
    ULONG n, sample;
    (void)unused;
    for (n = 0; read_sensor(n) == 0; n++)
        mk_thread_sleep(3);
    for (;;) {
        mk_queue_receive(&samples, &sample, 8);
        sum++;
    }
}

static VOID flash_entry(ULONG unused)
{
    (void)unused;
    for (;;) {
        mk_thread_sleep(2);
        mk_semaphore_get(&spi, TX_WAIT_FOREVER);
        fw_work(SHORT);
        mk_semaphore_put(&spi);
    }
}

/* ---- flags that two threads take: one comes once ---- */

static VOID contactor_entry(ULONG unused)
{
    ULONG flags;
    (void)unused;
    for (;;) {
        mk_flags_get(&phases, 3, TX_AND_CLEAR, &flags, TX_WAIT_FOREVER);
        sum += flags;
    }
}

static VOID monitor_entry(ULONG unused)
{
    ULONG flags;
    (void)unused;
    for (;;) {
        mk_flags_get(&phases, 6, TX_OR_CLEAR, &flags, TX_WAIT_FOREVER);
        sum += flags;
    }
}

/* The monitor is the only one that waits when the flag comes. */
static VOID sync_entry(ULONG unused)
{
    (void)unused;
    mk_flags_set(&phases, 2);
    mk_thread_sleep(BEGIN);
    for (;;) {
        mk_flags_set(&phases, 1);
        mk_thread_sleep(4);
    }
}

/* ---- a block that is kept: its address is no part of the message that is sent beside it ---- */

static NOINLINE VOID move(ULONG step)
{
    struct {
        ULONG message;
        UCHAR *frame;
    } local;
    if (mk_block_allocate(&frames, (VOID **)&local.frame, TX_NO_WAIT) != TX_SUCCESS)
        return;
    local.frame[0] = (UCHAR)step;
    local.message = step;
    mk_queue_send(&moved, &local.message, TX_NO_WAIT);
    if (failing(BLOCK_KEPT) && step % 3 == 0)
        return;
    mk_block_release(local.frame);
}

static VOID latch_entry(ULONG unused)
{
    ULONG step;
    (void)unused;
    for (step = 0;; step++) {
        mk_thread_sleep(3);
        move(step);
    }
}

static VOID display_entry(ULONG unused)
{
    ULONG message;
    (void)unused;
    for (;;) {
        mk_queue_receive(&moved, &message, TX_WAIT_FOREVER);
        sum += message;
    }
}

/* ---- a mutex whose owner is suspended ---- */

static TX_MUTEX relay;
static TX_THREAD heater;

static VOID heater_entry(ULONG unused)
{
    (void)unused;
    for (;;) {
        mk_mutex_get(&relay, TX_WAIT_FOREVER);
        fw_work(FW_TICK_CYCLES);
        mk_mutex_put(&relay);
        mk_thread_sleep(1);
    }
}

static VOID door_entry(ULONG unused)
{
    (void)unused;
    for (;;) {
        mk_thread_sleep(5);
        mk_mutex_get(&relay, TX_WAIT_FOREVER);
        sum++;
        mk_mutex_put(&relay);
    }
}

static VOID pause_entry(ULONG unused)
{
    (void)unused;
    for (;;) {
        mk_thread_sleep(3);
        if (failing(SUSPENDED) && relay.tx_mutex_owner == &heater)
            mk_thread_suspend(&heater);
    }
}

/* ---- a mutex in memory that keeps its contents ---- */

static struct {
    ULONG boots;
    TX_MUTEX lock;
    ULONG records;
} retained;
static TX_QUEUE commands;
static ULONG command_storage[2];
static TX_THREAD tariffs;

static NOINLINE VOID set_tariff(ULONG command)
{
    mk_mutex_get(&retained.lock, TX_WAIT_FOREVER);
    retained.records += command;
    mk_mutex_put(&retained.lock);
}

static VOID tariffs_entry(ULONG unused)
{
    ULONG command;
    (void)unused;
    for (;;) {
        mk_queue_receive(&commands, &command, TX_WAIT_FOREVER);
        set_tariff(command);
    }
}

static VOID recorder_entry(ULONG unused)
{
    (void)unused;
    for (;;) {
        mk_thread_sleep(3);
        mk_mutex_get(&retained.lock, TX_WAIT_FOREVER);
        retained.records++;
        mk_mutex_put(&retained.lock);
    }
}

/* As the run before left it, which was reset in set_tariff. */
static VOID keep_from_run_before(VOID)
{
    retained.boots = 2;
    retained.lock.tx_mutex_id = 0x4D555445u;
    retained.lock.tx_mutex_name = (CHAR *)PICK("records", "entries");
    retained.lock.tx_mutex_ownership_count = 1;
    retained.lock.tx_mutex_owner = &tariffs;
}

/* ---- a request that is not sent, as the queue is full for a while ---- */

static TX_QUEUE entries;
static ULONG entry_storage[2];
static TX_EVENT_FLAGS_GROUP written;

static NOINLINE VOID submit(ULONG entry)
{
    mk_queue_send(&entries, &entry, TX_NO_WAIT);
}

static VOID journal_entry(ULONG unused)
{
    ULONG entry;
    (void)unused;
    for (;;) {
        mk_queue_receive(&entries, &entry, TX_WAIT_FOREVER);
        mk_thread_sleep(1);
        mk_flags_set(&written, entry);
    }
}

static VOID invoice_entry(ULONG unused)
{
    ULONG flags;
    (void)unused;
    for (;;) {
        mk_thread_sleep(3);
        submit(1);
        mk_flags_get(&written, 1, TX_OR_CLEAR, &flags, TX_WAIT_FOREVER);
        sum += flags;
    }
}

/* The same as it should be: it looks at whether the request was sent, and the answer comes with the next message. */
static TX_QUEUE receipts;
static TX_SEMAPHORE booked;

static VOID receipt_entry(ULONG unused)
{
    ULONG entry = 1;
    (void)unused;
    for (;;) {
        while (mk_queue_send(&receipts, &entry, TX_NO_WAIT) != TX_SUCCESS)
            mk_thread_sleep(1);
        mk_semaphore_get(&booked, TX_WAIT_FOREVER);
        sum++;
    }
}

static VOID ledger_entry(ULONG unused)
{
    ULONG entry, asked = 0;
    (void)unused;
    for (;;) {
        mk_queue_receive(&receipts, &entry, TX_WAIT_FOREVER);
        if (entry != 0)
            asked = entry;
        else if (asked != 0)
            mk_semaphore_put(&booked);
    }
}

static VOID notice_entry(ULONG unused)
{
    (void)unused;
    for (;;) {
        mk_thread_sleep(1);
        while (failing(REQUEST_LOST) && _tx_timer_system_clock < BEGIN + 10) {
            submit(2);
            submit(2);
            mk_thread_sleep(1);
        }
    }
}

static VOID stamp_entry(ULONG unused)
{
    ULONG stamp = 0;
    (void)unused;
    for (;;) {
        mk_thread_sleep(40);
        mk_queue_send(&receipts, &stamp, TX_NO_WAIT);
    }
}

/* ---- a mutex that is tried for again and again, without a wait ---- */

static TX_MUTEX settings;

static NOINLINE VOID change_setting(VOID)
{
    while (mk_mutex_get(&settings, TX_NO_WAIT) != TX_SUCCESS) {
        fw_work(SHORT);
        mk_thread_relinquish();
    }
    sum++;
    mk_mutex_put(&settings);
}

static VOID menu_entry(ULONG unused)
{
    (void)unused;
    for (;;) {
        mk_thread_sleep(3);
        if (_tx_timer_system_clock >= BEGIN)
            change_setting();
    }
}

static VOID store_entry(ULONG unused)
{
    (void)unused;
    for (;;) {
        mk_thread_sleep(1);
        mk_mutex_get(&settings, TX_WAIT_FOREVER);
        fw_work(SHORT);
        if (failing(RELINQUISHED))
            mk_thread_sleep(2);
        mk_mutex_put(&settings);
    }
}

/* ---- a flag that says that the line is up, and that a wait clears ---- */

static TX_EVENT_FLAGS_GROUP line;
static TX_QUEUE reports;
static ULONG report_storage[4];

static VOID upload_entry(ULONG unused)
{
    ULONG flags, report;
    (void)unused;
    for (;;) {
        mk_flags_get(&line, 3, TX_AND_CLEAR, &flags, TX_WAIT_FOREVER);
        while (mk_queue_receive(&reports, &report, TX_NO_WAIT) == TX_SUCCESS)
            sum += report;
    }
}

static volatile ULONG line_is_up;

static VOID dial_entry(ULONG unused)
{
    (void)unused;
    for (;;) {
        mk_thread_sleep(3);
        if (line_is_up == 0) {
            line_is_up = 1;
            mk_flags_set(&line, 1);
        }
    }
}

static VOID count_entry(ULONG unused)
{
    ULONG report = 0;
    (void)unused;
    for (;;) {
        mk_thread_sleep(5);
        report++;
        mk_queue_send(&reports, &report, TX_NO_WAIT);
        mk_flags_set(&line, 2);
    }
}

/* ---- an index of 8 bits that is -1 ---- */

#define NONE 0xFFu

static struct {
    ULONG weights[4];
    ULONG older[NONE - 4];
    TX_QUEUE parcels;
} hall;
static ULONG parcel_storage[2];

static struct scale {
    ULONG zero;
} scale_of = {3};
static struct {
    ULONG counts[4];
    ULONG older[NONE - 4];
    struct scale *scale;
} yard = {{0}, {0}, &scale_of};
static volatile UCHAR labels[4] = {10, 20, 30, 40};

static NOINLINE UCHAR slot_of(ULONG label)
{
    UCHAR n;
    for (n = 0; n < 4; n++)
        if (labels[n] == label)
            return n;
    return NONE;
}

static NOINLINE VOID note_weight(ULONG label, ULONG weight)
{
    hall.weights[slot_of(label)] = weight;
}

static NOINLINE VOID note_count(ULONG label, ULONG count)
{
    yard.counts[slot_of(label)] = count;
}

static VOID belt_entry(ULONG unused)
{
    ULONG n;
    (void)unused;
    for (n = 0;; n++) {
        mk_thread_sleep(3);
        note_weight(failing(INDEX_QUEUE) ? 50 : 10 + 10 * (n % 4), 0x7A000000u + n);
        note_count(failing(INDEX_POINTER) ? 50 : 10 + 10 * (n % 4), 0x7A000000u + n);
    }
}

static VOID packer_entry(ULONG unused)
{
    ULONG parcel;
    (void)unused;
    for (;;) {
        mk_queue_receive(&hall.parcels, &parcel, TX_WAIT_FOREVER);
        sum += parcel;
    }
}

/* Behind the table are numbers. */
static struct {
    struct scale *of_code[4];
    ULONG limits[3];
} desk = {{&scale_of, &scale_of, &scale_of, &scale_of}, {0x7A110000u, 0x7A120000u, 0x7A130000u}};

static NOINLINE ULONG zero_of(ULONG code)
{
    return desk.of_code[code & 7]->zero;
}

static VOID weigher_entry(ULONG unused)
{
    ULONG n;
    (void)unused;
    for (n = 0;; n++) {
        mk_thread_sleep(2);
        sum += yard.scale->zero + zero_of(failing(UNKNOWN_CODE) ? 0xC5 : 0xC0 + n % 4);
    }
}

/* ---- a mean of the samples since the last one, also where there are none ---- */

#define CCR (*(volatile uint32_t *)0xE000ED14u)

static struct {
    ULONG sum;
    ULONG count;
    ULONG mean;
} tide;
static ULONG echoes;

static NOINLINE ULONG mean_of(ULONG all, ULONG count)
{
    return all / count;
}

/* What is counted is taken over, and counted from 0 again. */
static NOINLINE VOID close_window(VOID)
{
    ULONG posture;
    __asm__ volatile("mrs %0, primask\n cpsid i" : "=r"(posture) :: "memory");
    tide.count = echoes;
    echoes = 0;
    __asm__ volatile("msr primask, %0" :: "r"(posture) : "memory");
    tide.mean = mean_of(tide.sum * 100, tide.count);
}

static VOID sonar_entry(ULONG unused)
{
    (void)unused;
    for (;;) {
        mk_thread_sleep(2);
        if (!failing(ZERO_PASSED))
            echoes++;
    }
}

static VOID gauge_entry(ULONG unused)
{
    (void)unused;
    CCR |= 1u << 4; /* DIV_0_TRP */
    for (;;) {
        mk_thread_sleep(5);
        tide.sum = 40 + _tx_timer_system_clock;
        close_window();
        sum += tide.mean;
    }
}

/* ---- ticks that are counted by temperature, also where the sensor is open ---- */

static ULONG dwell[8];
static TX_MUTEX curve;
static ULONG profile;

/* An open thermocouple has such a reading that the mutex is there: in front of the array. */
static NOINLINE VOID count_dwell(int reading)
{
    dwell[(reading - 200) / 50] += 2;
}

static int open_reading(VOID)
{
    return 200 + 50 * (int)((ULONG *)&curve.tx_mutex_ownership_count - dwell);
}

static VOID thermocouple_entry(ULONG unused)
{
    int n;
    (void)unused;
    for (n = 0;; n++) {
        mk_thread_sleep(2);
        count_dwell(failing(COUNTED_BELOW) && n > 12 && n < 15 ? open_reading() : 200 + 50 * (n % 8));
    }
}

static VOID drum_entry(ULONG unused)
{
    (void)unused;
    for (;;) {
        mk_mutex_get(&curve, TX_WAIT_FOREVER);
        sum += profile;
        mk_mutex_put(&curve);
        mk_thread_sleep(3);
    }
}

/* ---- a belt on which two lanes place parcels, and a sorter confirms each ---- */

static struct {
    struct {
        ULONG lane, present;
    } slots[4];
    ULONG head, tail;
} belt;
static TX_SEMAPHORE on_belt;
static TX_EVENT_FLAGS_GROUP confirmed;

static NOINLINE VOID place_on_belt(ULONG lane)
{
    ULONG slot = belt.head;
    belt.slots[slot].lane = lane;
    if (failing(WRITTEN_OVER) && lane == 2)
        fw_work(3 * FW_TICK_CYCLES);
    belt.slots[slot].present = 1;
    belt.head = (slot + 1) % 4;
    mk_semaphore_put(&on_belt);
}

static NOINLINE ULONG take_from_belt(VOID)
{
    ULONG slot = belt.tail;
    if (!belt.slots[slot].present)
        return 0;
    belt.slots[slot].present = 0;
    belt.tail = (slot + 1) % 4;
    return belt.slots[slot].lane;
}

static VOID lane_entry(ULONG lane)
{
    ULONG flags;
    for (;;) {
        mk_thread_sleep(lane == 2 ? 3 : 2);
        place_on_belt(lane);
        mk_flags_get(&confirmed, lane, TX_OR_CLEAR, &flags, TX_WAIT_FOREVER);
    }
}

static VOID sorter_entry(ULONG unused)
{
    (void)unused;
    for (;;) {
        ULONG lane;
        mk_semaphore_get(&on_belt, TX_WAIT_FOREVER);
        lane = take_from_belt();
        if (lane == 0)
            continue;
        mk_flags_set(&confirmed, lane);
    }
}

/* ---- a bus whose interrupt puts a semaphore at the end of each transfer ---- */

static struct {
    ULONG slave, active, due;
    UCHAR answer[8];
} bus;
/* The same of which each slave has a flag. */
static struct {
    ULONG slave, active, due;
    UCHAR answer[8];
} wire;
static TX_EVENT_FLAGS_GROUP wire_events;
static TX_SEMAPHORE bus_done;
static TX_MUTEX bus_lock;

static NOINLINE ULONG transfer(ULONG slave)
{
    bus.slave = slave;
    bus.due = _tx_timer_system_clock + 9;
    bus.active = 1;
    mk_semaphore_get(&bus_done, TX_WAIT_FOREVER);
    return bus.answer[0] == slave;
}

static UINT is_transferred(VOID)
{
    return (bus.active != 0 && _tx_timer_system_clock >= bus.due)
           || (wire.active != 0 && _tx_timer_system_clock >= wire.due);
}

VOID app_uart_isr(VOID)
{
    if (wire.active != 0) {
        wire.answer[0] = (UCHAR)wire.slave;
        wire.active = 0;
        mk_flags_set(&wire_events, 1u << wire.slave);
        return;
    }
    bus.answer[0] = (UCHAR)bus.slave;
    bus.active = 0;
    mk_semaphore_put(&bus_done);
}

static NOINLINE ULONG ask(ULONG slave)
{
    ULONG flags;
    wire.slave = slave;
    wire.due = _tx_timer_system_clock + 4;
    wire.active = 1;
    mk_flags_get(&wire_events, 1u << slave, TX_OR_CLEAR, &flags, TX_WAIT_FOREVER);
    return wire.answer[0];
}

static VOID asker_entry(ULONG slave)
{
    for (;;) {
        mk_thread_sleep(slave);
        sum += ask(slave);
    }
}

static VOID probe_entry(ULONG slave)
{
    for (;;) {
        mk_thread_sleep(slave);
        sum += transfer(slave);
    }
}

static VOID careful_entry(ULONG slave)
{
    for (;;) {
        mk_thread_sleep(slave);
        mk_mutex_get(&bus_lock, TX_WAIT_FOREVER);
        sum += transfer(slave);
        mk_mutex_put(&bus_lock);
    }
}

/* ---- blocks that one of two senders does not release where the queue is full ---- */

static TX_BLOCK_POOL readings;
static UCHAR reading_memory[4 * (FRAME + sizeof(VOID *))] __attribute__((aligned(8)));
static TX_QUEUE dial;
static ULONG dial_storage[1], unsent;

static NOINLINE VOID report_speed(ULONG speed)
{
    ULONG *block;
    if (mk_block_allocate(&readings, (VOID **)&block, TX_NO_WAIT) != TX_SUCCESS)
        return;
    *block = speed;
    if (mk_queue_send(&dial, &block, TX_NO_WAIT) != TX_SUCCESS)
        unsent++;
}

static VOID speed_entry(ULONG unused)
{
    ULONG n;
    (void)unused;
    for (n = 0;; n++) {
        mk_thread_sleep(4);
        report_speed(n);
    }
}

static VOID distance_entry(ULONG unused)
{
    ULONG *block, n;
    (void)unused;
    for (n = 0;; n++) {
        mk_thread_sleep(3);
        mk_block_allocate(&readings, (VOID **)&block, TX_WAIT_FOREVER);
        *block = n;
        if (mk_queue_send(&dial, &block, TX_NO_WAIT) != TX_SUCCESS)
            mk_block_release(block);
    }
}

static VOID dashboard_entry(ULONG unused)
{
    ULONG *block;
    (void)unused;
    for (;;) {
        mk_queue_receive(&dial, &block, TX_WAIT_FOREVER);
        sum += *block;
        mk_block_release(block);
        block = 0;
        mk_thread_sleep(failing(UNSENT_KEPT) ? 9 : 1);
    }
}

/* ---- an index of -1: the control block of a pool is in front of the array ---- */

static struct {
    TX_BLOCK_POOL records;
    struct {
        ULONG code;
        ULONG counts[7];
    } lanes[4];
} bay;
static volatile int unknown_lane = -1;

static NOINLINE VOID account(int lane, ULONG code)
{
    bay.lanes[lane].code = code;
}

static VOID diverter_entry(ULONG unused)
{
    ULONG n;
    (void)unused;
    for (n = 0;; n++) {
        mk_thread_sleep(3);
        account(failing(LIST_BELOW) ? unknown_lane : (int)(n & 3u), 0x94CE8B00u + n);
    }
}

static VOID barcode_entry(ULONG unused)
{
    ULONG *block;
    (void)unused;
    for (;;) {
        mk_thread_sleep(2);
        if (mk_block_allocate(&bay.records, (VOID **)&block, TX_NO_WAIT) != TX_SUCCESS)
            continue;
        *block = sum++;
        mk_block_release(block);
    }
}

/* ---- the number of a bit in place of its mask, on a path that is seldom taken ---- */

#define BAY_CLEAR 8u
static TX_EVENT_FLAGS_GROUP tunnel;

static NOINLINE VOID leave_bay(VOID)
{
    mk_flags_set(&tunnel, 1u << BAY_CLEAR);
}

static NOINLINE VOID leave_bay_with_trailer(VOID)
{
    mk_flags_set(&tunnel, BAY_CLEAR);
}

static VOID brush_entry(ULONG unused)
{
    (void)unused;
    for (;;) {
        mk_thread_sleep(3);
        mk_flags_set(&tunnel, 1);
        if (failing(BIT_NUMBER))
            leave_bay_with_trailer();
        else
            leave_bay();
    }
}

static VOID dryer_entry(ULONG unused)
{
    ULONG got;
    (void)unused;
    for (;;) {
        mk_flags_get(&tunnel, 1u | 1u << BAY_CLEAR, TX_AND_CLEAR, &got, TX_WAIT_FOREVER);
        sum += got;
    }
}

/* ---- a time-out that cannot end, as no tick comes ---- */

static volatile ULONG sensor_ready = 1;

static ULONG asked;

static NOINLINE ULONG since(ULONG begin)
{
    ULONG n;
    for (n = 0; n < 1000; n++)
        sum++;
    if (++asked == 200)
        run_ended();
    return mk_time_get() - begin;
}

static NOINLINE ULONG read_scale(VOID)
{
    uint32_t mask;
    ULONG begin;
    __asm__ volatile("mrs %0, primask\n\tcpsid i" : "=r"(mask)::"memory");
    begin = mk_time_get();
    if (__builtin_expect(sensor_ready != 0, 1)) {
        __asm__ volatile("msr primask, %0" ::"r"(mask) : "memory");
        return sensor_ready;
    }
    while (since(begin) < 3)
        if (sensor_ready)
            break;
    __asm__ volatile("msr primask, %0" ::"r"(mask) : "memory");
    return begin;
}

static VOID scale_entry(ULONG unused)
{
    (void)unused;
    for (;;) {
        mk_thread_sleep(3);
        if (failing(TIME_ASKED))
            sensor_ready = 0;
        sum += read_scale();
    }
}

/* ---- a page is a local variable, larger than the stack, and its first line alone is written: below the stack ---- */

#define PAGE_LINE 104

static NOINLINE VOID write_page(ULONG n)
{
    CHAR page[FW_STACK + 120];
    ULONG i;
    for (i = 0; i < PAGE_LINE; i++)
        page[i] = (CHAR)('0' + (n + i) % 10);
    __asm__ volatile("" ::"r"(page) : "memory");
    sum += (ULONG)page[n % PAGE_LINE];
}

static VOID printer_entry(ULONG unused)
{
    ULONG n = 0;
    (void)unused;
    for (;;) {
        mk_thread_sleep(3);
        n++;
        if (failing(PAGE_LOCAL))
            write_page(n);
        else
            sum += n;
    }
}

static NOINLINE VOID turn_valve(ULONG n)
{
    mk_thread_sleep(1 + n % 2);
    sum += n;
}

static VOID valve_entry(ULONG unused)
{
    ULONG n = 0;
    (void)unused;
    for (;;)
        turn_valve(n++);
}

/* ---- a name that is as long as its place ---- */

static ULONG shown[128] __attribute__((aligned(256)));
static struct {
    CHAR tag[8];
    volatile ULONG *level;
    ULONG readings;
} gauges[4];

static NOINLINE VOID rename_gauge(ULONG number, const CHAR *tag)
{
    CHAR *to = gauges[number].tag;
    while ((*to++ = *tag++) != 0)
        continue;
}

static VOID clerk_entry(ULONG unused)
{
    static const CHAR *const tags[4] = {"INLET", "OUTLET", "RETURN-2", "BYPASS"};
    ULONG n;
    (void)unused;
    for (n = 0;; n++) {
        mk_thread_sleep(6);
        rename_gauge(n % 4, tags[n % 4]);
    }
}

static VOID tank_entry(ULONG unused)
{
    ULONG n, i;
    (void)unused;
    for (n = 0;; n++) {
        mk_thread_sleep(2);
        for (i = 0; i < 4; i++) {
            *gauges[i].level = n + i;
            gauges[i].readings++;
        }
    }
}

/* ---- the flag that says that a valve is open is computed ---- */

#define STEAM_OPEN 6

static TX_EVENT_FLAGS_GROUP steam;
static TX_SEMAPHORE opens;
static volatile ULONG revision;

static VOID board_entry(ULONG unused)
{
    (void)unused;
    for (;;) {
        mk_semaphore_get(&opens, TX_WAIT_FOREVER);
        if (failing(FLAG_COMPUTED))
            revision = 4;
        mk_flags_set(&steam, 1u << (STEAM_OPEN + revision));
    }
}

static VOID milk_entry(ULONG unused)
{
    ULONG got;
    (void)unused;
    for (;;) {
        mk_thread_sleep(3);
        mk_semaphore_put(&opens);
        mk_flags_get(&steam, 1u << STEAM_OPEN, TX_AND_CLEAR, &got, TX_WAIT_FOREVER);
        sum += got;
    }
}

/* ---- the same of another one, and who waits for it collects those that it wants ---- */

#define CUP_WARM 6

static TX_EVENT_FLAGS_GROUP cups;
static TX_SEMAPHORE fills;
static volatile ULONG cup_size;
static volatile struct {
    ULONG is_warm, is_large;
} cup = {1, 0};

static NOINLINE VOID wait_for_cup(VOID)
{
    ULONG wanted = 0, got;
    if (cup.is_warm)
        wanted |= 1u << CUP_WARM;
    if (cup.is_large)
        wanted |= 2u << CUP_WARM;
    mk_flags_get(&cups, wanted, TX_AND_CLEAR, &got, TX_WAIT_FOREVER);
    sum += got;
}

static VOID cup_entry(ULONG unused)
{
    (void)unused;
    for (;;) {
        mk_thread_sleep(3);
        mk_semaphore_put(&fills);
        wait_for_cup();
    }
}

static VOID brewer_entry(ULONG unused)
{
    (void)unused;
    for (;;) {
        mk_semaphore_get(&fills, TX_WAIT_FOREVER);
        if (failing(FLAG_MASKED))
            cup_size = 4;
        mk_flags_set(&cups, 1u << (CUP_WARM + cup_size));
    }
}

/* ---- a flag that says that there is paper is cleared, and not set again ---- */

#define ONLINE 1u
#define PAPER 2u

static TX_EVENT_FLAGS_GROUP slip;

static VOID tear_entry(ULONG unused)
{
    (void)unused;
    for (;;) {
        mk_thread_sleep(4);
        if (failing(FLAG_CLEARED))
            mk_flags_change(&slip, ~(PAPER | ONLINE), TX_AND);
        mk_flags_set(&slip, ONLINE);
    }
}

static VOID ticket_entry(ULONG unused)
{
    ULONG got;
    (void)unused;
    for (;;) {
        mk_thread_sleep(3);
        mk_flags_get(&slip, PAPER | ONLINE, TX_AND, &got, TX_WAIT_FOREVER);
        sum += got;
    }
}

/* ---- behind a table of pointers is one to a queue, and what is written is no part of an entry ---- */

struct frame_of_hoop {
    ULONG width, height, cells[6];
    long origin_x, origin_y;
};

static struct frame_of_hoop hoops[2];
static TX_QUEUE stitches;
static ULONG stitch_storage[4];

static struct {
    struct frame_of_hoop *table[2];
    TX_QUEUE *out;
    struct frame_of_hoop *now;
} machine;

static NOINLINE VOID attach(ULONG id)
{
    struct frame_of_hoop *hoop = machine.table[id];
    hoop->origin_x = 3650 - 400 * (long)id;
    hoop->origin_y = -71000 + 1500 * (long)id;
    machine.now = hoop;
}

static VOID hoop_entry(ULONG unused)
{
    (void)unused;
    for (;;) {
        mk_thread_sleep(5);
        attach(failing(TYPE_OTHER) ? 2 : sum & 1);
    }
}

static VOID stitch_entry(ULONG unused)
{
    ULONG n;
    (void)unused;
    for (n = 0;; n++) {
        mk_thread_sleep(2);
        mk_queue_send(&stitches, &n, TX_NO_WAIT);
    }
}

static VOID needle_entry(ULONG unused)
{
    ULONG stitch;
    (void)unused;
    for (;;) {
        mk_queue_receive(&stitches, &stitch, TX_WAIT_FOREVER);
        sum += stitch;
    }
}

/* ---- a struct is cleared, and set up again later; another one divides by a part of it ---- */

VOID *memset(VOID *to, int byte, size_t n);

static volatile struct {
    ULONG sum, count, window, mean;
} gap;

static NOINLINE VOID set_up_fine(ULONG window)
{
    memset((VOID *)&gap, 0, sizeof gap);
    mk_thread_sleep(3);
    gap.window = window;
}

static VOID pass_entry(ULONG unused)
{
    (void)unused;
    for (;;) {
        mk_thread_sleep(7);
        if (failing(DIVISOR_CLEARED))
            set_up_fine(8);
        else
            gap.window = 16;
    }
}

static VOID spark_entry(ULONG unused)
{
    (void)unused;
    CCR |= 1u << 4;
    for (;;) {
        mk_thread_sleep(1);
        gap.sum += 40;
        gap.mean = gap.sum / gap.window;
    }
}

/* ---- a thread waits for the number of a flag, and not for its mask ---- */

#define GAS_NUMBER 6

static TX_EVENT_FLAGS_GROUP chamber;
static TX_SEMAPHORE valves;

static VOID vent_entry(ULONG unused)
{
    (void)unused;
    for (;;) {
        mk_semaphore_get(&valves, TX_WAIT_FOREVER);
        mk_thread_sleep(1);
        mk_flags_set(&chamber, 1u << GAS_NUMBER);
    }
}

static VOID pump_entry(ULONG unused)
{
    (void)unused;
    for (;;) {
        mk_thread_sleep(2);
        mk_flags_set(&chamber, 2);
    }
}

static VOID layer_entry(ULONG unused)
{
    ULONG got;
    (void)unused;
    for (;;) {
        mk_thread_sleep(3);
        mk_semaphore_put(&valves);
        if (failing(NUMBER_WANTED))
            mk_flags_get(&chamber, GAS_NUMBER, TX_AND, &got, TX_WAIT_FOREVER);
        else
            mk_flags_get(&chamber, 1u << GAS_NUMBER | 2, TX_AND_CLEAR, &got, TX_WAIT_FOREVER);
        sum += got;
    }
}

/* ---- a block is sent again, and was released ---- */

static TX_QUEUE chutes;
static ULONG chute_storage[4];

static NOINLINE VOID divert(ULONG *parcel)
{
    mk_thread_sleep(2);
    ASSERT(parcel[0] == 1);
    parcel[0] = 0;
    mk_block_release(parcel);
}

static VOID chute_entry(ULONG unused)
{
    ULONG *parcel;
    (void)unused;
    for (;;) {
        mk_queue_receive(&chutes, &parcel, TX_WAIT_FOREVER);
        divert(parcel);
    }
}

static VOID intake_entry(ULONG unused)
{
    VOID *parcel;
    (void)unused;
    for (;;) {
        mk_thread_sleep(5);
        if (mk_block_allocate(&frames, &parcel, TX_NO_WAIT) != TX_SUCCESS)
            continue;
        *(ULONG *)parcel = 1;
        mk_queue_send(&chutes, &parcel, TX_WAIT_FOREVER);
        if (failing(SENT_TWICE))
            mk_queue_send(&chutes, &parcel, TX_WAIT_FOREVER);
    }
}

/* ---- start ---- */

VOID app_define(VOID)
{
    if (PICK(1, 0))
        _tx_trace_enable(trace_buffer, sizeof trace_buffer, REGISTRY);
    thread(PICK("lamp", "light"), lamp_entry, 7, 25);
    switch (FAILURE) {
    case QUEUE_CHECKED:
        mk_queue_create(&alarms, PICK("alarms", "alerts"), 1, alarm_storage, sizeof alarm_storage);
        thread(PICK("logger", "scribe"), logger_entry, 0, PICK(12, 11));
        thread(PICK("guard", "watch"), guard_entry, 0, PICK(8, 7));
        break;
    case HEALTHY:
        mk_queue_create(&receipts, PICK("receipts", "slips"), 1, entry_storage, sizeof entry_storage);
        mk_semaphore_create(&booked, PICK("booked", "noted"), 0);
        thread(PICK("book", "pages"), ledger_entry, 0, PICK(9, 8));
        thread(PICK("receipt", "copy"), receipt_entry, 0, PICK(10, 9));
        thread(PICK("stamp", "mark"), stamp_entry, 0, PICK(6, 5));
        break;
    case COUNTS_CHECKED:
        mk_mutex_create(&ledger, PICK("ledger", "books"), 0);
        thread(PICK("billing", "cashier"), billing_entry, 0, PICK(12, 11));
        thread(PICK("meter", "gauge"), meter_entry, 0, PICK(8, 7));
        break;
    case PAST_END:
        thread(PICK("tariff", "prices"), tariff_entry, 0, PICK(12, 11));
        thread(PICK("control", "steering"), control_entry, 0, PICK(8, 7));
        break;
    case NODE_LOST:
    case HEAD_LOST:
        thread(PICK("panel", "keypad"), panel_entry, 0, PICK(12, 11));
        thread(PICK("planner", "agenda"), planner_entry, 0, PICK(8, 7));
        break;
    case NOT_PUT:
        mk_semaphore_create(&spi, PICK("spi", "i2c"), 1);
        mk_queue_create(&samples, PICK("samples", "values"), 1, sample_storage, sizeof sample_storage);
        thread(PICK("sensor", "probe"), sensor_entry, 0, PICK(12, 11));
        thread(PICK("flash", "eeprom"), flash_entry, 0, PICK(8, 7));
        break;
    case FLAG_TAKEN:
        mk_flags_create(&phases, PICK("phases", "lines"));
        thread(PICK("contactor", "relay"), contactor_entry, 0, PICK(9, 8));
        thread(PICK("monitor", "watcher"), monitor_entry, 0, PICK(8, 7));
        thread(PICK("sync", "clock"), sync_entry, 0, PICK(6, 5));
        break;
    case BLOCK_KEPT:
        mk_queue_create(&moved, PICK("moved", "steps"), 1, moved_storage, sizeof moved_storage);
        mk_block_pool_create(&frames, PICK("frames", "cells"), FRAME, frame_memory, sizeof frame_memory);
        thread(PICK("latch", "bolt"), latch_entry, 0, PICK(12, 11));
        thread(PICK("display", "screen"), display_entry, 0, PICK(8, 7));
        break;
    case SUSPENDED:
        mk_mutex_create(&relay, PICK("relay", "switch"), 0);
        mk_thread_create(&heater, PICK("heater", "boiler"), heater_entry, 0, stacks[used], FW_STACK, PICK(12, 11), 1);
        used++;
        thread(PICK("door", "hatch"), door_entry, 0, PICK(8, 7));
        thread(PICK("pause", "hold"), pause_entry, 0, PICK(6, 5));
        break;
    case RETAINED:
        keep_from_run_before();
        mk_mutex_create(&relay, PICK("relay", "switch"), 0);
        mk_queue_create(&commands, PICK("commands", "orders"), 1, command_storage, sizeof command_storage);
        mk_thread_create(&tariffs, PICK("tariffs", "prices"), tariffs_entry, 0, stacks[used], FW_STACK, PICK(12, 11), 1);
        used++;
        thread(PICK("recorder", "writer"), recorder_entry, 0, PICK(8, 7));
        break;
    case STATE_CLEARED:
        mk_flags_create(&line, PICK("line", "wire"));
        mk_queue_create(&reports, PICK("reports", "records"), 1, report_storage, sizeof report_storage);
        thread(PICK("upload", "post"), upload_entry, 0, PICK(12, 11));
        thread(PICK("dial", "call"), dial_entry, 0, PICK(8, 7));
        thread(PICK("count", "tally"), count_entry, 0, PICK(6, 5));
        break;
    case RELINQUISHED:
        mk_mutex_create(&settings, PICK("settings", "options"), 0);
        thread(PICK("menu", "dialog"), menu_entry, 0, PICK(8, 7));
        thread(PICK("store", "keeper"), store_entry, 0, PICK(12, 11));
        break;
    case INDEX_QUEUE:
    case INDEX_POINTER:
        mk_queue_create(&hall.parcels, PICK("parcels", "boxes"), 1, parcel_storage, sizeof parcel_storage);
        thread(PICK("packer", "wrapper"), packer_entry, 0, PICK(12, 11));
        thread(PICK("weigher", "balance"), weigher_entry, 0, PICK(10, 9));
        thread(PICK("belt", "conveyor"), belt_entry, 0, PICK(8, 7));
        break;
    case UNKNOWN_CODE:
        thread(PICK("weigher", "balance"), weigher_entry, 0, PICK(10, 9));
        break;
    case ZERO_PASSED:
        thread(PICK("sonar", "radar"), sonar_entry, 0, PICK(8, 7));
        thread(PICK("gauge", "meter"), gauge_entry, 0, PICK(12, 11));
        break;
    case UNSENT_KEPT:
        mk_queue_create(&dial, PICK("dial", "needle"), 1, dial_storage, sizeof dial_storage);
        mk_block_pool_create(&readings, PICK("readings", "figures"), FRAME, reading_memory, sizeof reading_memory);
        thread(PICK("dashboard", "display"), dashboard_entry, 0, PICK(12, 11));
        thread(PICK("speed", "rate"), speed_entry, 0, PICK(8, 7));
        thread(PICK("distance", "length"), distance_entry, 0, PICK(9, 8));
        break;
    case LIST_BELOW:
        mk_block_pool_create(&bay.records, PICK("records", "entries"), FRAME, reading_memory, sizeof reading_memory);
        thread(PICK("barcode", "scanner"), barcode_entry, 0, PICK(12, 11));
        thread(PICK("diverter", "switch"), diverter_entry, 0, PICK(8, 7));
        break;
    case BIT_NUMBER:
        mk_flags_create(&tunnel, PICK("tunnel", "passage"));
        thread(PICK("dryer", "fan"), dryer_entry, 0, PICK(8, 7));
        thread(PICK("brush", "roller"), brush_entry, 0, PICK(12, 11));
        break;
    case TIME_ASKED:
        thread(PICK("scale", "balance"), scale_entry, 0, PICK(12, 11));
        break;
    case FLAG_COMPUTED:
        mk_flags_create(&steam, PICK("steam", "vapour"));
        mk_semaphore_create(&opens, PICK("opens", "releases"), 0);
        thread(PICK("board", "panel"), board_entry, 0, PICK(12, 11));
        thread(PICK("milk", "foam"), milk_entry, 0, PICK(8, 7));
        break;
    case NAME_FULL:
        for (ULONG i = 0; i < 4; i++)
            gauges[i].level = &shown[65 + i];
        thread(PICK("tank", "basin"), tank_entry, 0, PICK(8, 7));
        thread(PICK("clerk", "scribe"), clerk_entry, 0, PICK(12, 11));
        break;
    case FLAG_MASKED:
        mk_flags_create(&cups, PICK("cups", "mugs"));
        mk_semaphore_create(&fills, PICK("fills", "pours"), 0);
        thread(PICK("brewer", "mixer"), brewer_entry, 0, PICK(12, 11));
        thread(PICK("counter", "waiter"), cup_entry, 0, PICK(8, 7));
        break;
    case FLAG_CLEARED:
        mk_flags_create(&slip, PICK("slip", "strip"));
        mk_flags_set(&slip, PAPER);
        thread(PICK("tear", "cutter"), tear_entry, 0, PICK(8, 7));
        thread(PICK("ticket", "printer"), ticket_entry, 0, PICK(12, 11));
        break;
    case TYPE_OTHER:
        mk_queue_create(&stitches, PICK("stitches", "points"), 1, stitch_storage, sizeof stitch_storage);
        machine.table[0] = &hoops[0];
        machine.table[1] = &hoops[1];
        machine.out = &stitches;
        thread(PICK("needle", "hook"), needle_entry, 0, PICK(12, 11));
        thread(PICK("stitch", "seam"), stitch_entry, 0, PICK(8, 7));
        thread(PICK("hoop", "clamp"), hoop_entry, 0, PICK(6, 5));
        break;
    case DIVISOR_CLEARED:
        gap.window = 16;
        thread(PICK("pass", "cut"), pass_entry, 0, PICK(12, 11));
        thread(PICK("spark", "pulse"), spark_entry, 0, PICK(8, 7));
        break;
    case NUMBER_WANTED:
        mk_flags_create(&chamber, PICK("chamber", "vessel"));
        mk_semaphore_create(&valves, PICK("valves", "taps"), 0);
        thread(PICK("vent", "gas"), vent_entry, 0, PICK(12, 11));
        thread(PICK("pump", "fan"), pump_entry, 0, PICK(9, 8));
        thread(PICK("layer", "coat"), layer_entry, 0, PICK(8, 7));
        break;
    case SENT_TWICE:
        mk_queue_create(&chutes, PICK("chutes", "slides"), 1, chute_storage, sizeof chute_storage);
        mk_block_pool_create(&frames, PICK("frames", "cells"), FRAME, frame_memory, sizeof frame_memory);
        thread(PICK("chute", "slide"), chute_entry, 0, PICK(12, 11));
        thread(PICK("intake", "feeder"), intake_entry, 0, PICK(8, 7));
        break;
    case PAGE_LOCAL:
        thread(PICK("valve", "sluice"), valve_entry, 0, PICK(8, 7));
        thread(PICK("printer", "plotter"), printer_entry, 0, PICK(12, 11));
        break;
    case COUNTED_BELOW:
        mk_mutex_create(&curve, PICK("curve", "graph"), 0);
        thread(PICK("drum", "cage"), drum_entry, 0, PICK(12, 11));
        thread(PICK("thermocouple", "sensor"), thermocouple_entry, 0, PICK(8, 7));
        break;
    case WRITTEN_OVER:
        mk_semaphore_create(&on_belt, PICK("on belt", "loaded"), 0);
        mk_flags_create(&confirmed, PICK("confirmed", "unloaded"));
        thread(PICK("sorter", "picker"), sorter_entry, 0, PICK(14, 13));
        thread(PICK("west lane", "left lane"), lane_entry, 2, PICK(12, 11));
        thread(PICK("east lane", "right lane"), lane_entry, 1, PICK(8, 7));
        break;
    case OVERTAKEN:
        mk_flags_create(&wire_events, PICK("transferred", "moved over"));
        thread(PICK("boiler", "kettle"), asker_entry, 3, PICK(12, 11));
        thread(PICK("cellar", "attic"), asker_entry, 5, PICK(8, 7));
        break;
    case CROSSED:
    case BUS_LOCKED:
        mk_semaphore_create(&bus_done, PICK("answered", "replied"), 0);
        mk_mutex_create(&bus_lock, PICK("bus", "wires"), 0);
        thread(PICK("boiler", "kettle"), FAILURE == CROSSED ? probe_entry : careful_entry, 3, PICK(12, 11));
        thread(PICK("cellar", "attic"), FAILURE == CROSSED ? probe_entry : careful_entry, 5, PICK(8, 7));
        break;
    case REQUEST_LOST:
        mk_queue_create(&entries, PICK("entries", "lines"), 1, entry_storage, sizeof entry_storage);
        mk_flags_create(&written, PICK("written", "stored"));
        thread(PICK("journal", "keeper"), journal_entry, 0, PICK(12, 11));
        thread(PICK("invoice", "bill"), invoice_entry, 0, PICK(8, 7));
        thread(PICK("notice", "remark"), notice_entry, 0, PICK(6, 5));
        break;
    default:
        break;
    }
}
