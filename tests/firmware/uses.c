/*
 * Failures of waits on purpose that only the code of the program explains: the
 * ring has no event of who gave or took something. A small door controller
 * goes wrong in the way that the word at 0x20010000 says, as in failures.c. The
 * first way is healthy. uses.tsv says what is true of each. The kernel's
 * functions have ThreadX's names here (build.sh). With FW_OTHER the same
 * failures have other names, priorities, and another tick.
 */
#include "kernel.h"

enum failure {
    HEALTHY,
    COMPLETED,    /* with the semaphore that is a lock                        */
    NOT_PUT,      /* on a path of an error; all users wait for it             */
    NOT_RELEASED, /* by who reads the messages, on a path of an error         */
    CIRCLE,       /* an order that is not confirmed, and no other is sent     */
    SERVER_ENDS,  /* with a request that waits; its client waits for the reply */
    PARKED,       /* healthy: all that is left waits for the interrupt        */
    BY_POINTER,   /* healthy: who ended gave it, and another does by a pointer */
    NOT_PUT_ONCE, /* by one that goes on elsewhere; another waits with a time  */
    BOTH_FLAGS,   /* are needed: one comes, the other only from who waits too  */
    PEER_RELEASED, /* with its timer, which is on; a text is in its memory now */
    FRAMES_DROPPED, /* one after the other, of those that go around             */
    CREATED_LATE, /* a queue, after a thread began to wait for it              */
    NO_SLEEP,     /* its ticks are computed, and are 0                          */
    CALLBACK_SENDS, /* with a time to wait, which the kernel refuses            */
    OWN_QUEUE,    /* its only reader sends to it, and waits for room             */
    EARLY_RETURN, /* of the function that releases; nobody waits for the pool    */
    WRONG_FLAG,   /* the number of a flag is set in place of the flag            */
    REFUSED,      /* messages: who reads them waits for an interrupt             */
    LIST_CIRCLE,  /* an element is added to a list while it is in it             */
    CHECK_FAILED, /* and the program writes down which, and stops                */
    TIMES_OUT,    /* a wait for one who has ended, again and again               */
    ANSWER_CLEARED, /* by the one that waits for it, after its request            */
    SHARED_TEXT,  /* two threads write one text, and the second writes past it    */
    RESUME_LOST,  /* as the thread sleeps before it suspends itself               */
    KEPT_IN_LIST, /* blocks, until none is left                                   */
    TERMINATED,   /* by another thread, while it has the lock                     */
    LEFT_MASKED,  /* interrupts, on the path of a full buffer                     */
    CALLBACK_SLEEPS, /* until a thread has done something: it returns at once     */
    PENDING_KEPT, /* on a path of an error; who makes work wakes nobody then      */
    EDGE_MISSED,  /* one is woken where there was nothing, and does not take all   */
    CHANGE_LOST,  /* of a count that an interrupt changes meanwhile                */
    REGISTERED_TWICE, /* the callback of one device, for another one, too           */
    TIMER_RESTARTED, /* each time before it expires                                 */
    RESULT_IGNORED, /* of a wait for a message, which is over without one            */
    HOLDER_KEPT_OFF, /* of a semaphore that is a lock, by one that goes on            */
    HEAP_SHARED,  /* of the C library, by two threads, and nothing locks it         */
    SENDS_AGAIN,  /* at once, to a full queue, whose reader is less urgent          */
    SHEET_KEPT,   /* of a letter that one path releases alone                       */
    CURES_NO_MORE, /* what the reader of a queue waits for, before each next message  */
    STOPPED_WITH_LOCK, /* is who owns it; who goes on with it waits for the lock first  */
    LOCAL_SENT    /* is the address of a variable, by a function that returns            */
};

/* When the failure begins, and when the run ends, in ticks: the ring has none of the events in between. */
#define BEGIN 20u
#define END 220u
#define THREADS 8
#include "failing.h"

/* One of those that a thread talks to. */
struct peer {
    TX_TIMER keepalive;
    ULONG number;
};

static TX_SEMAPHORE bus, flash, line, confirmed, approved, sense;
static TX_MUTEX car;
static TX_EVENT_FLAGS_GROUP gates, doors;
static TX_SEMAPHORE sent;
static TX_QUEUE outbox;
static TX_BYTE_POOL arena;
static UCHAR arena_memory[640] __attribute__((aligned(8)));
static TX_QUEUE frames, orders, requests, replies, receipts, unused, drawn, late, keys, tasks, packets;
static TX_BLOCK_POOL cells, slots;

#define CELLS 4
#define CELL 16
static UCHAR cell_memory[CELLS * (CELL + sizeof(VOID *))] __attribute__((aligned(8)));
static ULONG outbox_storage[4], frame_storage[8], order_storage[4], request_storage[4], reply_storage[4], receipt_storage[4], unused_storage[3], drawn_storage[3], late_storage[4], key_storage[4], task_storage[4], packet_storage[8];
static UCHAR slot_memory[6 * (CELL + sizeof(VOID *))] __attribute__((aligned(8)));

/* ---- where the run ends ---- */

UINT app_line_has_frame(VOID)
{
    if (_tx_timer_system_clock >= END)
        run_ended();
    return _tx_timer_system_clock < BEGIN && _tx_timer_system_clock % 4 == 0;
}

/* What flies, by the one who sends it; the interrupt sees its end. */
static TX_SEMAPHORE landed;
static struct {
    ULONG started, ended;
    volatile ULONG under_way;
} flights;

VOID app_uart_isr(VOID)
{
    mk_semaphore_put(&line);
    if (FAILURE == REFUSED)
        mk_semaphore_put(&sent);
    if (flights.started != flights.ended) {
        flights.ended++;
        flights.under_way--;
        mk_semaphore_put(&landed);
    }
}

/* ---- fills the ring ---- */

static VOID lamp_entry(ULONG ticks)
{
    for (;;) {
        mk_thread_sleep(ticks);
        sum++;
    }
}

/* ---- only an interrupt gives it ---- */

static VOID listener_entry(ULONG unused)
{
    (void)unused;
    for (;;) {
        mk_semaphore_get(&line, TX_WAIT_FOREVER);
        sum++;
    }
}

/* ---- a semaphore as a lock ---- */

static VOID updater_entry(ULONG unused)
{
    (void)unused;
    for (;;) {
        mk_semaphore_get(&bus, TX_WAIT_FOREVER);
        fw_work(SHORT);
        if (failing(COMPLETED))
            return;
        mk_semaphore_put(&bus);
        mk_thread_sleep(3);
    }
}

static NOINLINE UINT save(ULONG what)
{
    /* A get that fails has nothing to give back. */
    if (mk_semaphore_get(&flash, 100) != TX_SUCCESS)
        return 1;
    fw_work(SHORT);
    sum += what;
    if (failing(NOT_PUT))
        return 1;
    mk_semaphore_put(&flash);
    return 0;
}

static VOID counter_entry(ULONG unused)
{
    ULONG n;
    (void)unused;
    for (n = 0;; n++) {
        mk_thread_sleep(2);
        if (save(n) != 0)
            mk_semaphore_get(&flash, TX_WAIT_FOREVER), mk_semaphore_put(&flash);
    }
}

static VOID reader_entry(ULONG unused)
{
    (void)unused;
    for (;;) {
        mk_thread_sleep(1);
        mk_semaphore_get(&bus, TX_WAIT_FOREVER);
        fw_work(SHORT);
        mk_semaphore_put(&bus);
    }
}

static VOID settings_entry(ULONG unused)
{
    (void)unused;
    for (;;) {
        mk_thread_sleep(1);
        mk_semaphore_get(&flash, TX_WAIT_FOREVER);
        fw_work(SHORT);
        mk_semaphore_put(&flash);
    }
}

/* ---- blocks that go through a queue ---- */

static VOID receiver_entry(ULONG unused)
{
    ULONG n, *frame;
    (void)unused;
    for (n = 0;; n++) {
        mk_thread_sleep(1);
        mk_block_allocate(&cells, (VOID **)&frame, TX_WAIT_FOREVER);
        frame[0] = n;
        mk_queue_send(&frames, &frame, TX_WAIT_FOREVER);
    }
}

static NOINLINE UINT is_sound(const ULONG *frame)
{
    sum += frame[0];
    return !failing(NOT_RELEASED) || frame[0] % 3 != 0;
}

static VOID parser_entry(ULONG unused)
{
    ULONG *frame;
    (void)unused;
    for (;;) {
        mk_queue_receive(&frames, &frame, TX_WAIT_FOREVER);
        if (!is_sound(frame))
            continue;
        fw_work(SHORT);
        mk_block_release(frame);
    }
}

/* ---- orders that are confirmed ---- */

static VOID planner_entry(ULONG unused)
{
    ULONG n;
    (void)unused;
    for (n = 0;; n++) {
        mk_thread_sleep(2);
        mk_queue_send(&orders, &n, TX_WAIT_FOREVER);
        mk_semaphore_get(&confirmed, TX_WAIT_FOREVER);
    }
}

static VOID motor_entry(ULONG unused)
{
    ULONG order;
    (void)unused;
    for (;;) {
        mk_queue_receive(&orders, &order, TX_WAIT_FOREVER);
        fw_work(SHORT);
        if (!failing(CIRCLE))
            mk_semaphore_put(&confirmed);
    }
}

/* ---- a server ---- */

static VOID server_entry(ULONG unused)
{
    ULONG request;
    (void)unused;
    for (;;) {
        mk_queue_receive(&requests, &request, TX_WAIT_FOREVER);
        fw_work(SHORT);
        mk_queue_send(&replies, &request, TX_WAIT_FOREVER);
        if (failing(SERVER_ENDS))
            return;
    }
}

static VOID client_entry(ULONG unused)
{
    ULONG n, reply;
    (void)unused;
    for (n = 0;; n++) {
        mk_thread_sleep(2);
        mk_queue_send(&requests, &n, TX_WAIT_FOREVER);
        mk_queue_receive(&replies, &reply, TX_WAIT_FOREVER);
    }
}

/* ---- one function, which is called and which is in a table ---- */

static NOINLINE VOID approve(VOID)
{
    mk_semaphore_put(&approved);
}

static VOID (*const volatile commands[])(VOID) = { approve };

static VOID starter_entry(ULONG unused)
{
    (void)unused;
    mk_thread_sleep(1);
    approve();
}

static VOID operator_entry(ULONG unused)
{
    (void)unused;
    for (;;) {
        mk_thread_sleep(1000);
        commands[0]();
    }
}

static VOID display_entry(ULONG unused)
{
    (void)unused;
    for (;;) {
        mk_semaphore_get(&approved, TX_WAIT_FOREVER);
        sum++;
    }
}

/* ---- a lock that one user keeps, and then goes on elsewhere ---- */

static NOINLINE UINT has_paper(VOID)
{
    mk_semaphore_get(&sense, TX_WAIT_FOREVER);
    fw_work(SHORT);
    if (failing(NOT_PUT_ONCE))
        return 0;
    mk_semaphore_put(&sense);
    return 1;
}

static VOID printer_entry(ULONG unused)
{
    ULONG receipt;
    (void)unused;
    while (has_paper())
        mk_thread_sleep(3);
    for (;;) {
        mk_queue_receive(&receipts, &receipt, TX_WAIT_FOREVER);
        sum += has_paper();
    }
}

static VOID dimmer_entry(ULONG unused)
{
    (void)unused;
    for (;;) {
        mk_thread_sleep(4);
        if (mk_semaphore_get(&sense, 3) != TX_SUCCESS)
            continue;
        fw_work(SHORT);
        mk_semaphore_put(&sense);
    }
}

static VOID card_entry(ULONG unused)
{
    (void)unused;
    for (;;) {
        mk_thread_sleep(2);
        mk_semaphore_get(&sense, TX_WAIT_FOREVER);
        fw_work(SHORT);
        mk_semaphore_put(&sense);
    }
}

/* ---- two flags at once: the door's own comes, the dispatcher's does not ---- */

static VOID gate_entry(ULONG unused)
{
    (void)unused;
    for (;;) {
        mk_thread_sleep(1);
        mk_flags_set(&gates, 1);
    }
}

static VOID door_entry(ULONG unused)
{
    ULONG flags;
    (void)unused;
    for (;;) {
        mk_thread_sleep(1);
        mk_mutex_get(&car, TX_WAIT_FOREVER);
        mk_flags_get(&gates, 3, TX_AND_CLEAR, &flags, TX_WAIT_FOREVER);
        mk_mutex_put(&car);
    }
}

static VOID dispatcher_entry(ULONG unused)
{
    (void)unused;
    for (;;) {
        mk_flags_set(&gates, 2);
        mk_thread_sleep(4);
        if (failing(BOTH_FLAGS)) {
            mk_mutex_get(&car, TX_WAIT_FOREVER);
            sum++;
            mk_mutex_put(&car);
        }
    }
}

/* ---- frames that go around, by their numbers ---- */

static VOID render_entry(ULONG unused_parameter)
{
    ULONG frame;
    (void)unused_parameter;
    for (;;) {
        mk_queue_receive(&unused, &frame, TX_WAIT_FOREVER);
        fw_work(SHORT);
        if (failing(FRAMES_DROPPED))
            continue;
        mk_queue_send(&drawn, &frame, TX_WAIT_FOREVER);
    }
}

static VOID compositor_entry(ULONG unused_parameter)
{
    ULONG frame;
    (void)unused_parameter;
    for (;;) {
        mk_thread_sleep(1);
        if (mk_queue_receive(&drawn, &frame, TX_NO_WAIT) != TX_SUCCESS)
            continue;
        sum += frame;
        mk_queue_send(&unused, &frame, TX_WAIT_FOREVER);
    }
}

/* ---- a queue that is there too late ---- */

static VOID radio_entry(ULONG unused_parameter)
{
    ULONG packet;
    (void)unused_parameter;
    for (;;) {
        mk_queue_receive(&late, &packet, TX_WAIT_FOREVER);
        sum += packet;
    }
}

static VOID init_entry(ULONG unused_parameter)
{
    (void)unused_parameter;
    mk_thread_sleep(BEGIN);
    mk_queue_create(&late, PICK("late", "tardy"), 1, late_storage, sizeof late_storage);
}

/* ---- a sleep of no ticks ---- */

static volatile ULONG poll_milliseconds = 5;

static VOID poller_entry(ULONG unused_parameter)
{
    (void)unused_parameter;
    mk_thread_sleep(BEGIN);
    for (;;) {
        fw_work(SHORT);
        if (poll_milliseconds * 100 / 1000 != 0)
            mk_thread_sleep(poll_milliseconds * 100 / 1000);
        sum++;
    }
}

/* ---- a callback that sends with a time to wait ---- */

static TX_TIMER scan;

/* Refuses the call as the kernel's function does that checks its parameters. */
UINT _txe_queue_send(TX_QUEUE *queue, VOID *source, ULONG wait);

NOINLINE UINT _txe_queue_send(TX_QUEUE *queue, VOID *source, ULONG wait)
{
    if (wait != TX_NO_WAIT && _tx_thread_current_ptr == &_tx_timer_thread)
        return 4;
    return mk_queue_send(queue, source, wait);
}

static VOID scan_expired(ULONG key)
{
    key += sum;
    _txe_queue_send(&keys, &key, 10);
}

static VOID menu_entry(ULONG unused_parameter)
{
    ULONG key;
    (void)unused_parameter;
    for (;;) {
        mk_queue_receive(&keys, &key, TX_WAIT_FOREVER);
        sum += key;
    }
}

/* ---- a reader that sends to its own queue ---- */

static VOID console_entry(ULONG unused_parameter)
{
    ULONG task;
    (void)unused_parameter;
    for (;;) {
        mk_queue_receive(&tasks, &task, TX_WAIT_FOREVER);
        fw_work(SHORT);
        sum += task;
        while (failing(OWN_QUEUE) && task < 8) {
            task++;
            mk_queue_send(&tasks, &task, TX_WAIT_FOREVER);
        }
    }
}

static VOID button_entry(ULONG unused_parameter)
{
    ULONG n;
    (void)unused_parameter;
    for (n = 0;; n++) {
        mk_thread_sleep(3);
        n %= 4;
        mk_queue_send(&tasks, &n, TX_WAIT_FOREVER);
    }
}

/* ---- packets that are released, but not where they are damaged ---- */

static NOINLINE UINT handle(ULONG *packet)
{
    sum += packet[0];
    if (failing(EARLY_RETURN) && packet[0] % 3 == 0)
        return 1;
    fw_work(SHORT);
    mk_block_release(packet);
    return 0;
}

static VOID worker_entry(ULONG unused_parameter)
{
    ULONG *packet;
    (void)unused_parameter;
    for (;;) {
        mk_queue_receive(&packets, &packet, TX_WAIT_FOREVER);
        sum += handle(packet);
    }
}

static VOID wire_entry(ULONG unused_parameter)
{
    ULONG n, *packet;
    (void)unused_parameter;
    for (n = 0;; n++) {
        mk_thread_sleep(4);
        if (mk_block_allocate(&slots, (VOID **)&packet, TX_NO_WAIT) != TX_SUCCESS)
            continue;
        packet[0] = n;
        mk_queue_send(&packets, &packet, TX_WAIT_FOREVER);
    }
}

/* ---- the number of a flag in place of the flag ---- */

#define ASKED 0
#define CLOSED 5
#define FLAG(n) (1u << (n))

static VOID latch_entry(ULONG unused_parameter)
{
    ULONG flags;
    (void)unused_parameter;
    for (;;) {
        mk_flags_get(&doors, FLAG(ASKED), TX_OR_CLEAR, &flags, TX_WAIT_FOREVER);
        fw_work(SHORT);
        mk_flags_get(&doors, FLAG(CLOSED), TX_OR_CLEAR, &flags, TX_WAIT_FOREVER);
        sum += flags;
    }
}

static VOID mover_entry(ULONG unused_parameter)
{
    (void)unused_parameter;
    for (;;) {
        mk_thread_sleep(3);
        mk_flags_set(&doors, FLAG(ASKED));
        mk_thread_sleep(1);
        mk_flags_set(&doors, CLOSED);
    }
}

/* ---- messages that are sent one after the other, each when an interrupt says so ---- */

static VOID modem_entry(ULONG unused_parameter)
{
    ULONG message;
    (void)unused_parameter;
    for (;;) {
        mk_queue_receive(&outbox, &message, TX_WAIT_FOREVER);
        mk_semaphore_get(&sent, TX_WAIT_FOREVER);
        sum += message;
    }
}

static VOID author_entry(ULONG unused_parameter)
{
    ULONG n;
    (void)unused_parameter;
    for (n = 0;; n++) {
        mk_thread_sleep(5);
        mk_queue_send(&outbox, &n, TX_NO_WAIT);
    }
}

/* ---- jobs in the order of their times ---- */

struct job {
    struct job *next;
    ULONG due;
};

static struct job jobs[3];
static struct job *volatile first_job;

/* Behind all that are due before it. */
static NOINLINE VOID plan(struct job *job, ULONG due)
{
    struct job *at = first_job;
    job->due = due;
    while (at->next != NULL && at->next->due <= due)
        at = at->next;
    job->next = at->next;
    at->next = job;
}

static VOID agenda_entry(ULONG unused_parameter)
{
    ULONG n;
    (void)unused_parameter;
    for (n = 0;; n++) {
        first_job = &jobs[0];
        jobs[0].next = NULL;
        plan(&jobs[1], n);
        plan(&jobs[2], n + 1);
        if (failing(LIST_CIRCLE)) {
            run_ended();
            plan(&jobs[2], n + 2);
            plan(&jobs[1], n + 3);
        }
        mk_thread_sleep(3);
    }
}

/* ---- a check that fails ---- */

static struct {
    ULONG count;
    const CHAR *file;
    ULONG line;
    const CHAR *text;
} failed_check;

static NOINLINE VOID check_failed(const CHAR *file, ULONG at, const CHAR *text)
{
    failed_check.count++;
    failed_check.file = file;
    failed_check.line = at;
    failed_check.text = text;
    run_ended();
#ifdef __riscv
    __asm__ volatile("csrci mstatus, 8" ::: "memory");
#else
    __asm__ volatile("cpsid i" ::: "memory");
#endif
    for (;;)
        ;
}

#define CHECK(what) ((what) ? (VOID)0 : check_failed("firmware/uses.c", __LINE__, #what))

static NOINLINE VOID weigh(ULONG grams, ULONG most)
{
    CHECK(grams <= most);
    sum += grams;
}

static VOID scale_entry(ULONG unused_parameter)
{
    ULONG n;
    (void)unused_parameter;
    for (n = 0;; n++) {
        mk_thread_sleep(2);
        weigh(n % 7, failing(CHECK_FAILED) ? 3 : 10);
    }
}

/* ---- waits with a time-out for one who has ended ---- */

static TX_QUEUE grain;
static ULONG grain_storage[4];

static VOID feeder_entry(ULONG unused_parameter)
{
    ULONG n;
    (void)unused_parameter;
    for (n = 0; !failing(TIMES_OUT); n++) {
        mk_thread_sleep(3);
        mk_queue_send(&grain, &n, TX_NO_WAIT);
    }
}

static VOID mill_entry(ULONG unused_parameter)
{
    ULONG message;
    (void)unused_parameter;
    for (;;) {
        if (mk_queue_receive(&grain, &message, 4) == TX_SUCCESS)
            sum += message;
    }
}

/* ---- an answer that is there before its flag is cleared ---- */

#define ANSWERED 1u
static TX_EVENT_FLAGS_GROUP answers;
static TX_QUEUE inquiries;
static ULONG inquiry_storage[4];

static VOID gauge_entry(ULONG unused_parameter)
{
    ULONG message;
    (void)unused_parameter;
    for (;;) {
        mk_queue_receive(&inquiries, &message, TX_WAIT_FOREVER);
        if (!failing(ANSWER_CLEARED))
            mk_thread_sleep(1);
        mk_flags_change(&answers, ANSWERED, TX_OR);
    }
}

static NOINLINE VOID inquire(ULONG what)
{
    ULONG flags;
    mk_queue_send(&inquiries, &what, TX_WAIT_FOREVER);
    mk_flags_change(&answers, ~ANSWERED, TX_AND);
    mk_flags_get(&answers, ANSWERED, TX_OR_CLEAR, &flags, TX_WAIT_FOREVER);
    sum += flags;
}

static VOID pilot_entry(ULONG unused_parameter)
{
    ULONG n;
    (void)unused_parameter;
    for (n = 0;; n++) {
        inquire(n);
        mk_thread_sleep(2);
    }
}

/* ---- a text that two threads write ---- */

static struct {
    UINT at;
    CHAR text[16];
    TX_SEMAPHORE shown;
} caption;

static NOINLINE VOID add(CHAR c)
{
    caption.text[caption.at++] = c;
}

static VOID notice_entry(ULONG unused_parameter)
{
    UINT n;
    (void)unused_parameter;
    for (;;) {
        caption.at = 0;
        for (n = 0; n < 12; n++) {
            add('a' + n);
            if (n == 4)
                mk_thread_sleep(2);
        }
        mk_thread_sleep(3);
    }
}

static VOID status_entry(ULONG unused_parameter)
{
    UINT n;
    (void)unused_parameter;
    for (;;) {
        mk_thread_sleep(1);
        if (!failing(SHARED_TEXT))
            continue;
        caption.at = 0;
        for (n = 0; n < 14; n++)
            add('A' + n);
    }
}

/* ---- a thread that suspends itself while there is nothing to do ---- */

static TX_SEMAPHORE rung;
static TX_THREAD bell;
static volatile UINT is_asked;

static VOID bell_entry(ULONG unused_parameter)
{
    (void)unused_parameter;
    for (;;) {
        if (!is_asked) {
            if (failing(RESUME_LOST))
                mk_thread_sleep(2);
            mk_thread_suspend(&bell);
        }
        if (is_asked) {
            is_asked = 0;
            mk_semaphore_put(&rung);
        }
    }
}

static VOID porter_entry(ULONG unused_parameter)
{
    (void)unused_parameter;
    for (;;) {
        mk_thread_sleep(1);
        is_asked = 1;
        mk_thread_resume(&bell);
        mk_semaphore_get(&rung, TX_WAIT_FOREVER);
    }
}

/* ---- blocks in a list ---- */

struct note {
    struct note *next;
    ULONG number;
};

static struct note *volatile notes;

static VOID writer_entry(ULONG unused_parameter)
{
    struct note *note;
    ULONG n;
    (void)unused_parameter;
    for (n = 0;; n++) {
        mk_thread_sleep(5);
        mk_block_allocate(&cells, (VOID **)&note, TX_WAIT_FOREVER);
        note->number = n;
        note->next = notes;
        notes = note;
        if (!failing(KEPT_IN_LIST)) {
            notes = note->next;
            mk_block_release(note);
        }
    }
}

/* ---- a thread that another one terminates ---- */

static TX_SEMAPHORE card_lock;
static TX_THREAD copier;

static NOINLINE VOID copy_to_card(VOID)
{
    mk_semaphore_get(&card_lock, TX_WAIT_FOREVER);
    mk_thread_sleep(3);
    mk_semaphore_put(&card_lock);
}

static VOID copier_entry(ULONG unused_parameter)
{
    (void)unused_parameter;
    for (;;) {
        copy_to_card();
        mk_thread_sleep(1);
    }
}

static NOINLINE VOID cancel_copy(VOID)
{
    mk_thread_terminate(&copier);
}

static VOID chief_entry(ULONG unused_parameter)
{
    (void)unused_parameter;
    for (;;) {
        mk_thread_sleep(1);
        if (failing(TERMINATED) && card_lock.tx_semaphore_count == 0)
            cancel_copy();
    }
}

static VOID archive_entry(ULONG unused_parameter)
{
    (void)unused_parameter;
    for (;;) {
        copy_to_card();
        mk_thread_sleep(4);
    }
}

/* ---- a buffer whose functions disable interrupts ---- */

static struct {
    ULONG count, lost, sum;
    ULONG all[4];
} samples;

/* Where no interrupt comes, this one ends the run. */
static ULONG asked;

static inline UINT interrupts_off(VOID)
{
    UINT was;
#ifdef __riscv
    __asm__ volatile("csrrci %0, mstatus, 8" : "=r"(was) : : "memory");
#else
    __asm__ volatile("mrs %0, primask\n cpsid i" : "=r"(was) : : "memory");
#endif
    return was;
}

static inline VOID interrupts_as(UINT was)
{
#ifdef __riscv
    __asm__ volatile("csrw mstatus, %0" : : "r"(was) : "memory");
#else
    __asm__ volatile("msr primask, %0" : : "r"(was) : "memory");
#endif
}

static NOINLINE UINT keep_sample(ULONG value)
{
    UINT was = interrupts_off();
    if (samples.count == 4) {
        samples.lost++;
        return 0;
    }
    samples.all[samples.count++] = value;
    interrupts_as(was);
    return 1;
}

static NOINLINE VOID wait_converted(ULONG ticks)
{
    ULONG begin = mk_time_get();
    while (mk_time_get() - begin < ticks)
        if (++asked > 300)
            run_ended();
    asked = 0;
}

static VOID gather_entry(ULONG unused_parameter)
{
    ULONG n;
    (void)unused_parameter;
    for (n = 0;; n++) {
        mk_thread_sleep(2);
        keep_sample(n);
        if (!failing(LEFT_MASKED))
            samples.count = 0;
        if (samples.lost != 0)
            wait_converted(2);
    }
}

/* ---- a callback that waits for a thread ---- */

static TX_TIMER homing;
static volatile UINT is_home;

static NOINLINE VOID go_home(VOID)
{
    is_home = !failing(CALLBACK_SLEEPS);
    while (!is_home) {
        mk_thread_sleep(1);
        if (++asked > 300)
            run_ended();
    }
}

static VOID homing_expired(ULONG unused_parameter)
{
    (void)unused_parameter;
    go_home();
}

static VOID axis_entry(ULONG unused_parameter)
{
    (void)unused_parameter;
    for (;;) {
        fw_work(SHORT);
        mk_thread_sleep(1);
        is_home = 1;
    }
}

/* ---- a timer in memory that is allocated ---- */

static VOID alive_expired(ULONG number)
{
    sum += number;
}

static VOID stats_entry(ULONG unused)
{
    struct peer *peer = NULL;
    CHAR *text;
    ULONG n;
    (void)unused;
    mk_byte_allocate(&arena, (VOID **)&peer, sizeof *peer, TX_NO_WAIT);
    peer->number = 1;
    mk_timer_create(&peer->keepalive, PICK("keepalive", "watch"), alive_expired, 1, 500, 500, 1);
    for (;;) {
        mk_thread_sleep(5);
        if (!failing(PEER_RELEASED))
            continue;
        if (peer != NULL)
            mk_byte_release(peer);
        peer = NULL;
        mk_byte_allocate(&arena, (VOID **)&text, 120, TX_NO_WAIT);
        for (n = 0; n < 120; n++)
            text[n] = "sensor=23.5;"[n % 12];
        mk_thread_sleep(2);
        mk_byte_release(text);
    }
}

/* ---- one who writes down what others have, and is woken where nothing was pending ---- */

static TX_SEMAPHORE kick;
static struct {
    ULONG count;
    volatile UINT pending;
    ULONG all[8];
} journal;

static NOINLINE VOID post(ULONG what)
{
    journal.all[journal.count++ % 8] = what;
    if (!journal.pending) {
        journal.pending = 1;
        mk_semaphore_put(&kick);
    }
}

static VOID scribe_entry(ULONG unused_parameter)
{
    (void)unused_parameter;
    for (;;) {
        mk_semaphore_get(&kick, TX_WAIT_FOREVER);
        fw_work(SHORT);
        if (failing(PENDING_KEPT))
            continue;
        journal.pending = 0;
    }
}

static VOID teller_entry(ULONG unused_parameter)
{
    ULONG n;
    (void)unused_parameter;
    for (n = 0;; n++) {
        mk_thread_sleep(3);
        post(n);
    }
}

/* ---- flights ---- */

static NOINLINE VOID take_off(VOID)
{
    ULONG under_way = flights.under_way;
    flights.started++;
    /* An interrupt comes meanwhile. */
    mk_thread_sleep(5);
    flights.under_way = under_way + 1;
}

static VOID tower_entry(ULONG unused_parameter)
{
    (void)unused_parameter;
    for (;;) {
        while (flights.under_way >= 2)
            mk_semaphore_get(&landed, TX_WAIT_FOREVER);
        take_off();
    }
}

/* ---- two devices with a callback each ---- */

static TX_SEMAPHORE swung, spun;
static struct device {
    VOID (*finished)(ULONG);
    volatile UINT busy;
    ULONG done;
} devices[2];

static VOID swing_finished(ULONG which)
{
    devices[which].done++;
    mk_semaphore_put(&swung);
}

static VOID spin_finished(ULONG which)
{
    devices[which].done++;
    mk_semaphore_put(&spun);
}

static NOINLINE VOID attach(ULONG which, VOID (*finished)(ULONG))
{
    devices[which].busy = 0;
    devices[which].finished = finished;
}

/* In place of the devices. */
static VOID fabric_entry(ULONG unused_parameter)
{
    ULONG n;
    (void)unused_parameter;
    for (;;) {
        mk_thread_sleep(2);
        for (n = 0; n < 2; n++)
            if (devices[n].busy) {
                devices[n].busy = 0;
                devices[n].finished(n);
            }
    }
}

static VOID swing_entry(ULONG unused_parameter)
{
    (void)unused_parameter;
    for (;;) {
        devices[0].busy = 1;
        mk_semaphore_get(&swung, TX_WAIT_FOREVER);
        mk_thread_sleep(3);
    }
}

static VOID spin_entry(ULONG unused_parameter)
{
    (void)unused_parameter;
    for (;;) {
        if (failing(REGISTERED_TWICE))
            attach(1, swing_finished);
        devices[1].busy = 1;
        mk_semaphore_get(&spun, TX_WAIT_FOREVER);
        mk_thread_sleep(2);
    }
}

/* ---- what is collected until a timer expires ---- */

static TX_TIMER closing;
static TX_SEMAPHORE closed;
static TX_TIMER_INTERNAL *running_timers;
static TX_BLOCK_POOL sheets;
static VOID *bag[6];
static ULONG in_bag;

/* Of the kernel, as only this program needs them. */
NOINLINE UINT _tx_timer_activate(TX_TIMER *timer)
{
    timer->tx_timer_internal.tx_timer_internal_list_head = &running_timers;
    return TX_SUCCESS;
}

NOINLINE UINT _tx_timer_deactivate(TX_TIMER *timer)
{
    timer->tx_timer_internal.tx_timer_internal_list_head = NULL;
    timer->tx_timer_internal.tx_timer_internal_remaining_ticks = timer->tx_timer_internal.tx_timer_internal_re_initialize_ticks;
    return TX_SUCCESS;
}

static VOID closing_expired(ULONG unused_parameter)
{
    (void)unused_parameter;
    mk_semaphore_put(&closed);
}

static VOID sorter_entry(ULONG unused_parameter)
{
    (void)unused_parameter;
    for (;;) {
        mk_semaphore_get(&closed, TX_WAIT_FOREVER);
        while (in_bag > 0)
            mk_block_release(bag[--in_bag]);
    }
}

static VOID letters_entry(ULONG unused_parameter)
{
    VOID *block;
    (void)unused_parameter;
    for (;;) {
        mk_block_allocate(&sheets, &block, TX_WAIT_FOREVER);
        bag[in_bag++ % 6] = block;
        mk_thread_sleep(3);
    }
}

static VOID courier_entry(ULONG unused_parameter)
{
    (void)unused_parameter;
    for (;;) {
        mk_thread_sleep(failing(TIMER_RESTARTED) ? 5 : 19);
        _tx_timer_deactivate(&closing);
        _tx_timer_activate(&closing);
    }
}

/* ---- one who does not look at whether there was a message ---- */

static TX_QUEUE dishes;
static ULONG dish_storage[4];
static ULONG eaten;

static VOID guest_entry(ULONG unused_parameter)
{
    ULONG dish = 0;
    (void)unused_parameter;
    for (;;) {
        mk_queue_receive(&dishes, &dish, 6);
        eaten += dish;
        fw_work(SHORT);
    }
}

static VOID waiter_entry(ULONG unused_parameter)
{
    ULONG dish = 1;
    (void)unused_parameter;
    for (;;) {
        if (failing(RESULT_IGNORED))
            mk_thread_sleep(1000);
        mk_queue_send(&dishes, &dish, TX_NO_WAIT);
        mk_thread_sleep(4);
    }
}

/* ---- a semaphore as a lock, whose holder does not run ---- */

static TX_SEMAPHORE stove;

static NOINLINE VOID cook_with(ULONG work)
{
    mk_semaphore_get(&stove, TX_WAIT_FOREVER);
    fw_work(work);
    mk_semaphore_put(&stove);
}

static VOID baking_entry(ULONG unused_parameter)
{
    (void)unused_parameter;
    for (;;) {
        mk_thread_sleep(7);
        cook_with(SHORT);
    }
}

static VOID roast_entry(ULONG unused_parameter)
{
    (void)unused_parameter;
    for (;;)
        cook_with(3 * FW_TICK_CYCLES);
}

static VOID radio_play_entry(ULONG unused_parameter)
{
    (void)unused_parameter;
    for (;;) {
        mk_thread_sleep(2);
        while (failing(HOLDER_KEPT_OFF))
            fw_work(SHORT);
    }
}

/* ---- a heap as newlib's, whose lock the program was to write ---- */

struct piece {
    struct piece *next;
    ULONG words[7];
};
/* In the memory of the byte pool, which is not there then. */
#define PIECES (sizeof arena_memory / sizeof(struct piece))
static struct piece *free_pieces;
static ULONG fewest = PIECES;

NOINLINE VOID __malloc_lock(VOID *unused_parameter)
{
    (void)unused_parameter;
    __asm__ volatile("");
}

NOINLINE VOID __malloc_unlock(VOID *unused_parameter)
{
    (void)unused_parameter;
    __asm__ volatile("");
}

NOINLINE VOID *malloc(size_t size)
{
    struct piece *first, *each;
    ULONG left = 0;
    __malloc_lock(NULL);
    first = size <= sizeof *first ? free_pieces : NULL;
    for (each = first; each != NULL && left < PIECES; each = each->next) {
        fw_work(SHORT / 8);
        left++;
    }
    if (left < fewest)
        fewest = left;
    if (first != NULL)
        free_pieces = first->next;
    __malloc_unlock(NULL);
    return first;
}

NOINLINE VOID free(VOID *memory)
{
    struct piece *piece = memory;
    __malloc_lock(NULL);
    piece->next = free_pieces;
    free_pieces = piece;
    __malloc_unlock(NULL);
}

struct sensor {
    ULONG scale;
};
struct reading {
    const struct sensor *from;
    ULONG value;
};
static const struct sensor outside = { 3 };
static struct reading *readings[8];

static NOINLINE VOID keep_reading(ULONG n)
{
    struct reading *one = malloc(sizeof *one);
    readings[n % 8] = one;
    if (one != NULL) {
        one->from = &outside;
        one->value = n;
    }
}

static NOINLINE VOID send_readings(VOID)
{
    UINT n;
    for (n = 0; n < 8; n++) {
        struct reading *one = readings[n];
        if (one == NULL)
            continue;
        sum += one->from->scale * one->value;
        free(one);
        readings[n] = NULL;
    }
}

static VOID probe_entry(ULONG unused_parameter)
{
    ULONG n;
    (void)unused_parameter;
    for (n = 1;; n++) {
        mk_thread_sleep(1);
        keep_reading(n);
        if (n % 8 == 7)
            send_readings();
    }
}

static NOINLINE VOID print_line(VOID)
{
    static const CHAR words[] = "no load, no faults, 21 deg";
    CHAR *line = malloc(sizeof words);
    ULONG i;
    if (line == NULL)
        return;
    for (i = 0; i < sizeof words; i++)
        line[i] = words[i];
    fw_work(SHORT);
    sum += (ULONG)line[3];
    free(line);
}

static VOID journal_entry(ULONG unused_parameter)
{
    (void)unused_parameter;
    for (;;) {
        print_line();
        if (!failing(HEAP_SHARED))
            mk_thread_sleep(1);
    }
}

/* ---- one who does not wait for room ---- */

static TX_QUEUE tickets;
static ULONG ticket_storage[4];

static VOID sender_entry(ULONG unused_parameter)
{
    ULONG ticket;
    (void)unused_parameter;
    for (ticket = 1;; ticket++) {
        if (!failing(SENDS_AGAIN))
            mk_thread_sleep(3);
        while (mk_queue_send(&tickets, &ticket, TX_NO_WAIT) != TX_SUCCESS)
            fw_work(SHORT);
    }
}

static VOID clerk_entry(ULONG unused_parameter)
{
    ULONG ticket;
    (void)unused_parameter;
    for (;;) {
        mk_queue_receive(&tickets, &ticket, TX_WAIT_FOREVER);
        fw_work(SHORT);
    }
}

/* ---- letters with a sheet each: one path releases a letter without its sheet ---- */

struct letter {
    ULONG *sheet;
    ULONG number;
};

#define SHEET 24

static TX_QUEUE mailbox;
static ULONG mailbox_storage[4], returned;

static NOINLINE VOID letter_release(struct letter *letter)
{
    mk_byte_release(letter->sheet);
    mk_byte_release(letter);
}

static VOID editor_entry(ULONG unused_parameter)
{
    ULONG number = 0;
    (void)unused_parameter;
    for (;;) {
        struct letter *letter;
        mk_byte_allocate(&arena, (VOID **)&letter, sizeof *letter, TX_WAIT_FOREVER);
        mk_byte_allocate(&arena, (VOID **)&letter->sheet, SHEET, TX_WAIT_FOREVER);
        letter->sheet[0] = letter->number = number++;
        mk_queue_send(&mailbox, &letter, TX_WAIT_FOREVER);
        mk_thread_sleep(2);
    }
}

static VOID postman_entry(ULONG unused_parameter)
{
    (void)unused_parameter;
    for (;;) {
        struct letter *letter;
        mk_queue_receive(&mailbox, &letter, TX_WAIT_FOREVER);
        fw_work(SHORT);
        if (failing(SHEET_KEPT) && letter->number % 2 == 0) {
            returned++;
            mk_byte_release(letter);
        } else {
            letter_release(letter);
        }
    }
}

/* ---- a shelf: who finds it empty wakes the one who takes from it ---- */

static TX_SEMAPHORE room, filled;
static struct {
    volatile ULONG count;
    ULONG sold;
} shelf;

static NOINLINE VOID stock(VOID)
{
    UINT was_empty;
    mk_semaphore_get(&room, TX_WAIT_FOREVER);
    was_empty = shelf.count == 0;
    shelf.count++;
    if (was_empty)
        mk_semaphore_put(&filled);
}

static VOID baker_entry(ULONG ticks)
{
    for (;;) {
        mk_thread_sleep(ticks);
        stock();
        stock();
    }
}

static VOID seller_entry(ULONG unused_parameter)
{
    UINT most;
    (void)unused_parameter;
    for (;;) {
        mk_semaphore_get(&filled, TX_WAIT_FOREVER);
        for (most = failing(EDGE_MISSED) ? 1 : 8; most > 0 && shelf.count > 0; most--) {
            shelf.count--;
            shelf.sold++;
            mk_semaphore_put(&room);
        }
    }
}

/* ---- one who reads the next message when the last one is done ---- */

static TX_QUEUE parts;
static ULONG part_storage[4];
static TX_SEMAPHORE placed, cured;
static struct {
    volatile ULONG cold, done;
} heater;

static VOID heater_entry(ULONG unused_parameter)
{
    (void)unused_parameter;
    for (;;) {
        mk_semaphore_get(&placed, TX_WAIT_FOREVER);
        fw_work(SHORT);
        heater.cold = failing(CURES_NO_MORE);
        if (!heater.cold) {
            heater.done++;
            mk_semaphore_put(&cured);
        }
    }
}

static VOID press_entry(ULONG unused_parameter)
{
    ULONG part;
    (void)unused_parameter;
    for (;;) {
        mk_queue_receive(&parts, &part, TX_WAIT_FOREVER);
        mk_semaphore_put(&placed);
        if (mk_semaphore_get(&cured, 3) == TX_SUCCESS)
            sum += part;
    }
}

static VOID belt_entry(ULONG unused_parameter)
{
    ULONG part;
    (void)unused_parameter;
    for (part = 1;; part++)
        mk_queue_send(&parts, &part, TX_WAIT_FOREVER);
}

/* ---- one who works when all others wait, and is stopped by another for a moment ---- */

static TX_MUTEX valve;
static TX_THREAD pump;
static struct {
    volatile UINT is_open;
    ULONG strokes, seen;
} pumping;

static VOID pump_entry(ULONG unused_parameter)
{
    (void)unused_parameter;
    for (;;) {
        pumping.is_open = 1;
        mk_mutex_get(&valve, TX_WAIT_FOREVER);
        fw_work(failing(STOPPED_WITH_LOCK) ? 2 * FW_TICK_CYCLES : SHORT);
        pumping.strokes++;
        mk_mutex_put(&valve);
        pumping.is_open = 0;
        fw_work(SHORT);
    }
}

static VOID inspector_entry(ULONG unused_parameter)
{
    (void)unused_parameter;
    for (;;) {
        mk_thread_sleep(4);
        if (pumping.is_open && !failing(STOPPED_WITH_LOCK))
            continue;
        mk_thread_suspend(&pump);
        mk_mutex_get(&valve, TX_WAIT_FOREVER);
        pumping.seen = pumping.strokes;
        mk_mutex_put(&valve);
        mk_thread_resume(&pump);
    }
}

/* ---- messages that say where a local variable is ---- */

struct score {
    ULONG number;
    ULONG points;
};

static TX_QUEUE scores;
static ULONG score_storage[4];
static ULONG shown[2];

static NOINLINE VOID post_score(ULONG number)
{
    struct score score = {number, 3 * number}, *message = &score;
    mk_queue_send(&scores, &message, TX_NO_WAIT);
}

static NOINLINE VOID play(ULONG number)
{
    volatile ULONG moves[8];
    ULONG n;
    for (n = 0; n < 8; n++)
        moves[n] = number + n;
    fw_work(SHORT);
    sum += moves[7];
}

static VOID player_entry(ULONG unused_parameter)
{
    ULONG number;
    (void)unused_parameter;
    for (number = 1;; number++) {
        mk_thread_sleep(3);
        post_score(number);
        post_score(number + 1);
        play(number);
    }
}

static VOID board_entry(ULONG unused_parameter)
{
    struct score *score;
    (void)unused_parameter;
    for (;;) {
        mk_queue_receive(&scores, &score, TX_WAIT_FOREVER);
        if (failing(LOCAL_SENT))
            mk_thread_sleep(1);
        shown[0] = score->number;
        shown[1] = score->points;
    }
}

/* ---- start ---- */

static UINT has(enum failure which)
{
    return FAILURE == which || (FAILURE == HEALTHY && which != PARKED);
}

VOID app_define(VOID)
{
    _tx_trace_enable(trace_buffer, sizeof trace_buffer, REGISTRY);
    mk_semaphore_create(&bus, PICK("bus", "wire"), 1);
    mk_semaphore_create(&flash, PICK("flash", "store"), 1);
    mk_semaphore_create(&line, PICK("line", "edge"), 0);
    mk_semaphore_create(&confirmed, PICK("confirmed", "agreed"), 0);
    mk_semaphore_create(&approved, PICK("approved", "granted"), 0);
    mk_semaphore_create(&sense, PICK("sense", "probe"), 1);
    mk_mutex_create(&car, PICK("car", "cabin"), 0);
    mk_flags_create(&gates, PICK("gates", "locks"));
    if (FAILURE != HEAP_SHARED)
        mk_byte_pool_create(&arena, PICK("arena", "heap"), arena_memory, sizeof arena_memory);
    mk_queue_create(&frames, PICK("frames", "parcels"), 1, frame_storage, sizeof frame_storage);
    mk_queue_create(&orders, PICK("orders", "jobs"), 1, order_storage, sizeof order_storage);
    mk_queue_create(&requests, PICK("requests", "asked"), 1, request_storage, sizeof request_storage);
    mk_queue_create(&replies, PICK("replies", "answered"), 1, reply_storage, sizeof reply_storage);
    mk_queue_create(&receipts, PICK("receipts", "bills"), 1, receipt_storage, sizeof receipt_storage);
    mk_queue_create(&unused, PICK("unused", "spare"), 1, unused_storage, sizeof unused_storage);
    mk_queue_create(&drawn, PICK("drawn", "painted"), 1, drawn_storage, sizeof drawn_storage);
    mk_block_pool_create(&cells, PICK("cells", "tiles"), CELL, cell_memory, sizeof cell_memory);
    thread(PICK("lamp", "signal"), lamp_entry, 1, PICK(14, 19));
    thread(PICK("listener", "door"), listener_entry, 0, PICK(7, 6));
    if (FAILURE == COMPLETED) {
        thread(PICK("updater", "loader"), updater_entry, 0, PICK(9, 8));
        thread(PICK("reader", "scanner"), reader_entry, 0, PICK(6, 5));
    }
    if (has(NOT_PUT)) {
        thread(PICK("counter", "meter"), counter_entry, 0, PICK(10, 9));
        thread(PICK("settings", "profile"), settings_entry, 0, PICK(6, 5));
    }
    if (has(NOT_RELEASED)) {
        thread(PICK("receiver", "radio"), receiver_entry, 0, PICK(5, 4));
        thread(PICK("parser", "decoder"), parser_entry, 0, PICK(8, 7));
    }
    if (has(CIRCLE)) {
        thread(PICK("planner", "solver"), planner_entry, 0, PICK(11, 10));
        thread(PICK("motor", "drive"), motor_entry, 0, PICK(4, 3));
    }
    if (FAILURE == BY_POINTER) {
        thread(PICK("starter", "boot"), starter_entry, 0, PICK(9, 8));
        thread(PICK("operator", "user"), operator_entry, 0, PICK(12, 11));
        thread(PICK("display", "panel"), display_entry, 0, PICK(13, 12));
    }
    if (FAILURE == NOT_PUT_ONCE) {
        thread(PICK("printer", "writer"), printer_entry, 0, PICK(10, 9));
        thread(PICK("dimmer", "backlight"), dimmer_entry, 0, PICK(12, 11));
        thread(PICK("card", "badge"), card_entry, 0, PICK(6, 5));
    }
    if (FAILURE == BOTH_FLAGS) {
        thread(PICK("gate", "barrier"), gate_entry, 0, PICK(5, 4));
        thread(PICK("door", "hatch"), door_entry, 0, PICK(9, 8));
        thread(PICK("dispatcher", "planner"), dispatcher_entry, 0, PICK(11, 10));
    }
    if (FAILURE == FRAMES_DROPPED) {
        ULONG n;
        for (n = 0; n < 3; n++)
            mk_queue_send(&unused, &n, TX_NO_WAIT);
        thread(PICK("render", "paint"), render_entry, 0, PICK(8, 7));
        thread(PICK("compositor", "screen"), compositor_entry, 0, PICK(10, 9));
    }
    if (FAILURE == CREATED_LATE) {
        thread(PICK("radio", "modem"), radio_entry, 0, PICK(8, 7));
        thread(PICK("init", "setup"), init_entry, 0, PICK(10, 9));
    }
    if (FAILURE == CALLBACK_SENDS) {
        mk_queue_create(&keys, PICK("keys", "codes"), 1, key_storage, sizeof key_storage);
        mk_timer_create(&scan, PICK("scan", "matrix"), scan_expired, 1, 4, 4, 1);
        thread(PICK("menu", "dialog"), menu_entry, 0, PICK(8, 7));
    }
    if (FAILURE == OWN_QUEUE) {
        mk_queue_create(&tasks, PICK("tasks", "errands"), 1, task_storage, sizeof task_storage);
        thread(PICK("console", "shell"), console_entry, 0, PICK(8, 7));
        thread(PICK("button", "switch"), button_entry, 0, PICK(10, 9));
    }
    if (FAILURE == EARLY_RETURN) {
        mk_queue_create(&packets, PICK("packets", "letters"), 1, packet_storage, sizeof packet_storage);
        mk_block_pool_create(&slots, PICK("slots", "boxes"), CELL, slot_memory, sizeof slot_memory);
        thread(PICK("worker", "clerk"), worker_entry, 0, PICK(8, 7));
        thread(PICK("wire", "post"), wire_entry, 0, PICK(5, 4));
    }
    if (FAILURE == WRONG_FLAG) {
        mk_flags_create(&doors, PICK("doors", "wings"));
        thread(PICK("latch", "bolt"), latch_entry, 0, PICK(8, 7));
        thread(PICK("mover", "drive"), mover_entry, 0, PICK(10, 9));
    }
    if (FAILURE == REFUSED) {
        mk_semaphore_create(&sent, PICK("sent", "gone"), 0);
        mk_queue_create(&outbox, PICK("outbox", "mailbag"), 1, outbox_storage, sizeof outbox_storage);
        thread(PICK("modem", "pager"), modem_entry, 0, PICK(8, 7));
        thread(PICK("author", "poet"), author_entry, 0, PICK(10, 9));
    }
    if (FAILURE == LIST_CIRCLE)
        thread(PICK("agenda", "diary"), agenda_entry, 0, PICK(8, 7));
    if (FAILURE == CHECK_FAILED)
        thread(PICK("scale", "balance"), scale_entry, 0, PICK(8, 7));
    if (FAILURE == TIMES_OUT) {
        mk_queue_create(&grain, PICK("grain", "corn"), 1, grain_storage, sizeof grain_storage);
        thread(PICK("feeder", "hopper"), feeder_entry, 0, PICK(10, 9));
        thread(PICK("mill", "grinder"), mill_entry, 0, PICK(8, 7));
    }
    if (FAILURE == ANSWER_CLEARED) {
        mk_flags_create(&answers, PICK("answers", "results"));
        mk_queue_create(&inquiries, PICK("inquiries", "questions"), 1, inquiry_storage, sizeof inquiry_storage);
        thread(PICK("pilot", "driver"), pilot_entry, 0, PICK(10, 9));
        thread(PICK("gauge", "probe"), gauge_entry, 0, PICK(6, 5));
    }
    if (FAILURE == SHARED_TEXT) {
        mk_semaphore_create(&caption.shown, PICK("shown", "painted"), 0);
        thread(PICK("notice", "message"), notice_entry, 0, PICK(10, 9));
        thread(PICK("status", "state"), status_entry, 0, PICK(8, 7));
    }
    if (FAILURE == RESUME_LOST) {
        mk_semaphore_create(&rung, PICK("rung", "chimed"), 0);
        mk_thread_create(&bell, PICK("bell", "gong"), bell_entry, 0, stacks[used], FW_STACK, PICK(10, 9), 1);
        used++;
        thread(PICK("porter", "guest"), porter_entry, 0, PICK(8, 7));
    }
    if (FAILURE == KEPT_IN_LIST)
        thread(PICK("writer", "scribe"), writer_entry, 0, PICK(8, 7));
    if (FAILURE == TERMINATED) {
        mk_semaphore_create(&card_lock, PICK("media", "platter"), 1);
        mk_thread_create(&copier, PICK("copier", "mirror"), copier_entry, 0, stacks[used], FW_STACK, PICK(10, 9), 1);
        used++;
        thread(PICK("archive", "vault"), archive_entry, 0, PICK(12, 11));
        thread(PICK("chief", "boss"), chief_entry, 0, PICK(5, 4));
    }
    if (FAILURE == LEFT_MASKED)
        thread(PICK("gather", "collect"), gather_entry, 0, PICK(8, 7));
    if (FAILURE == CALLBACK_SLEEPS) {
        mk_timer_create(&homing, PICK("homing", "parking"), homing_expired, 0, 4, 4, 1);
        thread(PICK("axis", "shaft"), axis_entry, 0, PICK(8, 7));
    }
    if (FAILURE == PENDING_KEPT) {
        mk_semaphore_create(&kick, PICK("kick", "nudge"), 0);
        thread(PICK("scribe", "clerk"), scribe_entry, 0, PICK(10, 9));
        thread(PICK("teller", "cashier"), teller_entry, 0, PICK(8, 7));
    }
    if (FAILURE == CHANGE_LOST) {
        mk_semaphore_create(&landed, PICK("landed", "arrived"), 0);
        thread(PICK("tower", "control"), tower_entry, 0, PICK(8, 7));
    }
    if (FAILURE == REGISTERED_TWICE) {
        mk_semaphore_create(&swung, PICK("swung", "tilted"), 0);
        mk_semaphore_create(&spun, PICK("spun", "turned"), 0);
        attach(0, swing_finished);
        attach(1, spin_finished);
        thread(PICK("fabric", "bus"), fabric_entry, 0, PICK(5, 4));
        thread(PICK("swing", "tilt"), swing_entry, 0, PICK(10, 9));
        thread(PICK("spin", "rotor"), spin_entry, 0, PICK(8, 7));
    }
    if (FAILURE == TIMER_RESTARTED) {
        mk_semaphore_create(&closed, PICK("closed", "sealed"), 0);
        mk_block_pool_create(&sheets, PICK("sheets", "papers"), CELL, slot_memory, sizeof slot_memory);
        mk_timer_create(&closing, PICK("closing", "seal"), closing_expired, 0, 8, 8, 1);
        thread(PICK("sorter", "packer"), sorter_entry, 0, PICK(10, 9));
        thread(PICK("letters", "mail"), letters_entry, 0, PICK(8, 7));
        thread(PICK("courier", "driver"), courier_entry, 0, PICK(6, 5));
    }
    if (FAILURE == RESULT_IGNORED) {
        mk_queue_create(&dishes, PICK("dishes", "plates"), 1, dish_storage, sizeof dish_storage);
        thread(PICK("guest", "diner"), guest_entry, 0, PICK(10, 9));
        thread(PICK("waiter", "server"), waiter_entry, 0, PICK(8, 7));
    }
    if (FAILURE == HOLDER_KEPT_OFF) {
        mk_semaphore_create(&stove, PICK("stove", "oven"), 1);
        thread(PICK("baking", "bakery"), baking_entry, 0, PICK(5, 4));
        thread(PICK("music", "player"), radio_play_entry, 0, PICK(8, 7));
        thread(PICK("roast", "grill"), roast_entry, 0, PICK(16, 17));
    }
    if (FAILURE == HEAP_SHARED) {
        UINT n;
        for (n = 0; n < PIECES; n++)
            free((struct piece *)arena_memory + n);
        thread(PICK("probe", "scale"), probe_entry, 0, PICK(6, 5));
        thread(PICK("journal", "diary"), journal_entry, 0, PICK(16, 17));
    }
    if (FAILURE == SENDS_AGAIN) {
        mk_queue_create(&tickets, PICK("tickets", "forms"), 1, ticket_storage, sizeof ticket_storage);
        thread(PICK("sender", "front"), sender_entry, 0, PICK(8, 7));
        thread(PICK("desk", "office"), clerk_entry, 0, PICK(16, 17));
    }
    if (FAILURE == SHEET_KEPT) {
        mk_queue_create(&mailbox, PICK("mailbox", "letterbox"), 1, mailbox_storage, sizeof mailbox_storage);
        thread(PICK("postman", "carrier"), postman_entry, 0, PICK(6, 5));
        thread(PICK("editor", "writer"), editor_entry, 0, PICK(10, 9));
    }
    if (FAILURE == CURES_NO_MORE) {
        mk_queue_create(&parts, PICK("parts", "pieces"), 1, part_storage, sizeof part_storage);
        mk_semaphore_create(&placed, PICK("placed", "laid"), 0);
        mk_semaphore_create(&cured, PICK("cured", "baked"), 0);
        thread(PICK("heater", "oven"), heater_entry, 0, PICK(6, 5));
        thread(PICK("press", "mould"), press_entry, 0, PICK(8, 7));
        thread(PICK("belt", "chain"), belt_entry, 0, PICK(10, 9));
    }
    if (FAILURE == STOPPED_WITH_LOCK) {
        mk_mutex_create(&valve, PICK("valve", "gate"), 0);
        mk_thread_create(&pump, PICK("pump", "piston"), pump_entry, 0, stacks[used], FW_STACK, PICK(20, 21), 1);
        used++;
        thread(PICK("inspector", "auditor"), inspector_entry, 0, PICK(8, 7));
    }
    if (FAILURE == LOCAL_SENT) {
        mk_queue_create(&scores, PICK("scores", "results"), 1, score_storage, sizeof score_storage);
        thread(PICK("player", "gamer"), player_entry, 0, PICK(10, 9));
        thread(PICK("board", "panel"), board_entry, 0, PICK(6, 5));
    }
    if (FAILURE == EDGE_MISSED) {
        mk_semaphore_create(&room, PICK("room", "space"), 4);
        mk_semaphore_create(&filled, PICK("filled", "stocked"), 0);
        thread(PICK("seller", "shop"), seller_entry, 0, PICK(10, 9));
        thread(PICK("baker", "oven"), baker_entry, 3, PICK(6, 5));
        thread(PICK("cook", "stove"), baker_entry, 5, PICK(7, 6));
    }
    if (FAILURE == NO_SLEEP)
        thread(PICK("poller", "watcher"), poller_entry, 0, PICK(5, 4));
    if (FAILURE == PEER_RELEASED)
        thread(PICK("stats", "report"), stats_entry, 0, PICK(12, 11));
    if (FAILURE == SERVER_ENDS) {
        thread(PICK("server", "crypto"), server_entry, 0, PICK(12, 11));
        thread(PICK("client", "tunnel"), client_entry, 0, PICK(13, 12));
        thread(PICK("login", "entrance"), client_entry, 0, PICK(15, 16));
    }
}
