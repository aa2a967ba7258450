/*
 * Stalls on purpose: a small pump controller whose CPU comes to where it does
 * not go on, or whose interrupts do not come, in the way that the word at
 * 0x20010000 says, which a loader puts there before the start. stalls.tsv says
 * what is true of each way; some are healthy. With FW_OTHER the same have
 * other names, priorities, and another tick.
 */
#include "kernel.h"

enum stall {
    QUIET,              /* healthy: halted in a thread that works                */
    SHORT_MASK,         /* healthy: a critical section, and the tick is pending  */
    SHORT_ISR,          /* healthy: an interrupt, and the tick is pending        */
    TICKLESS,           /* healthy: no tick comes while no thread is ready       */
    OTHER_TICK,         /* healthy: another timer than SysTick gives the tick    */
    URGENT_SILENT,      /* healthy: an urgent interrupt that calls no kernel     */
    MASKED_WAIT,        /* PRIMASK, and a wait for a variable                    */
    MASKED_ON,          /* PRIMASK, and the thread goes on                       */
    BASEPRI_LEFT,       /* BASEPRI, and the thread goes on                       */
    ISR_WAITS,          /* the handler of an interrupt waits for a variable      */
    ISR_LOOPS,          /* the handler of an interrupt is an endless loop        */
    TICK_OFF,           /* the timer of the tick is off, and a thread runs       */
    TICK_DISABLED,      /* the interrupt of the tick is disabled                 */
    TICK_BEHIND,        /* SysTick cannot interrupt PendSV                       */
    SMASHED,            /* a return address is text                              */
    JUMP_DATA,          /* a call of data, which is no instruction               */
    RUNS_DATA,          /* a return into data, which is a loop                   */
    PANIC,              /* an assertion of the application's own                 */
    CALLBACK,           /* a wild store in the callback of a timer               */
    URGENT,             /* an interrupt above BASEPRI calls the kernel           */
    PENDSV_ABOVE,       /* PendSV interrupts an interrupt that calls the kernel  */
    STORM,              /* an interrupt that is never acknowledged, no trace     */
    RUNS_ON,            /* BASEPRI keeps back the switch of threads as well      */
    TICK_LOST,          /* the tick does not reach the kernel while it is idle   */
    CALLBACK_WAITS,     /* the callback of a timer jumps to a wait               */
    ISR_COUNTS,         /* an interrupt waits, and counts how often it looked    */
    MASKED_HIDDEN,      /* PRIMASK, which the core does not have                 */
    JUST_PENDING,       /* healthy: the tick has just come, nothing masks it     */
    ASLEEP,             /* WFI, where no interrupt is enabled                    */
    ASLEEP_SHORT,       /* healthy: WFI, and an interrupt is enabled             */
    VECTOR,             /* the tick's vector, in RAM, was overwritten            */
    VECTORS_IN_RAM,     /* healthy: vectors in RAM                               */
    STACK_BELOW,        /* a sleep below its stack, in the room of the next      */
    STACK_DEEP,         /* healthy: a sleep deep in its stack                    */
    TICK_STORM,         /* the tick comes again before its handler has ended     */
    LATE_TICK,          /* healthy: one tick was taken late                      */
    CALLBACK_LONG,      /* a callback takes most of the period of its timer      */
    ISR_TICKS,          /* an interrupt waits for ticks, which it keeps back     */
    CALLED_HANDLER,     /* a thread calls what the vector table has              */
    INIT_WAITS,         /* no interrupt comes before the first thread            */
    MASKED_CLOCK,       /* PRIMASK, and a wait for the kernel's time             */
    NO_ACK,             /* an interrupt that is never acknowledged, and the tick */
    SHORT_CLOCK,        /* healthy: a short wait for the kernel's time           */
    IRQ_OFF,            /* an interrupt that is disabled, and pending            */
    MASKED_AWAITED,     /* PRIMASK, and a wait for what a pending interrupt sets */
    NMI_STOPS,          /* a wait for a variable, until a watchdog raises NMI    */
    INBOX_FULL,         /* a handler that returns before it acknowledges         */
    INBOX_FREE,         /* healthy: the same handler, which acknowledges         */
    SINK_CLOSED,        /* a thread calls what another one cleared meanwhile     */
    LIST_CIRCLE,        /* a handler walks a list that leads back to itself      */
    LENGTH_0,           /* a handler parses a record of length 0, and ticks come */
    ENTRY_MISSING,      /* a table of functions has none for a command           */
    PAST_POINTERS       /* behind an array of pointers is read, and is none      */
};

/* Behind what the program itself has of RAM. */
#define STALL (*(volatile uint32_t *)0x20010000u)
#define NOINLINE __attribute__((noinline))
#define REGISTER(at) (*(volatile uint32_t *)(at))
#define ICSR REGISTER(0xE000ED04u)
#define SHPR3 REGISTER(0xE000ED20u)
#define NVIC_ISER0 REGISTER(0xE000E100u)
#define NVIC_ICER0 REGISTER(0xE000E180u)
#define NVIC_ISPR0 REGISTER(0xE000E200u)
#define SYST_RVR REGISTER(0xE000E014u)
#define SYST_CSR REGISTER(0xE000E010u)
#define VTOR REGISTER(0xE000ED08u)
/* Of no section. */
#define VECTORS ((volatile uint32_t *)0x20011000u)
#define SYSTICK_VECTOR 15u
#define UART_INTCLEAR REGISTER(0x4000400Cu)
#define NVIC_IPR1 REGISTER(0xE000E404u)
#define PENDST_SET (1u << 26)
#define NMIPENDSET (1u << 31)
#define PENDSV_SET (1u << 28)
#define UART (1u << 5)
#define TIMER (1u << 6)
#define TIMER_VECTOR 22u

#ifdef FW_OTHER
#define PICK(a, b) b
#else
#define PICK(a, b) a
#endif

#define BEGIN 30u
/* Of work: less than a tick. */
#define SHORT (FW_TICK_CYCLES / 8)

#define REGISTRY 24
static ULONG trace_buffer[(sizeof(TX_TRACE_HEADER) + REGISTRY * sizeof(TX_TRACE_OBJECT_ENTRY)
                           + FW_RING_EVENTS * sizeof(TX_TRACE_BUFFER_ENTRY)) / sizeof(ULONG)];

enum { SAMPLER, MOTOR, PUMP, LOGGER, THREADS };
static ULONG stacks[THREADS][FW_STACK / sizeof(ULONG)] __attribute__((aligned(16)));
static TX_THREAD sampler, motor, pump, logger;
static TX_EVENT_FLAGS_GROUP frames;
static TX_SEMAPHORE samples;
static TX_TIMER heartbeat, housekeeping;
static volatile uint32_t sum, transfer_done, received;
static ULONG lost;

/* As the kernel has it: it looks at each of its timers within one turn of this wheel. */
TX_TIMER *volatile _tx_timer_list[32];

/* Instructions, as far as the CPU is concerned: undefined ones, or a loop. */
static volatile uint32_t calibration[8];

/* What a stub does not show: special registers where the stall begins. */
volatile struct { uint32_t primask, basepri, faultmask, psp; } stall_says;

NOINLINE VOID stall_here(VOID)
{
    uint32_t primask, basepri, faultmask, psp;
    __asm__ volatile("mrs %0, primask\n mrs %1, basepri\n mrs %2, faultmask\n mrs %3, psp"
                     : "=r"(primask), "=r"(basepri), "=r"(faultmask), "=r"(psp));
    stall_says.primask = primask;
    stall_says.basepri = basepri;
    stall_says.faultmask = faultmask;
    stall_says.psp = psp;
}

static UINT stalling(enum stall which)
{
    return STALL == which && _tx_timer_system_clock >= BEGIN;
}

/* ---- another way to mask interrupts: by their priority ---- */

UINT _tx_thread_interrupt_disable(VOID);
NOINLINE UINT _tx_thread_interrupt_disable(VOID)
{
    UINT posture;
    __asm__ volatile("mrs %0, basepri\n movs r3, #0x40\n msr basepri, r3" : "=r"(posture) :: "r3", "memory");
    return posture;
}

UINT __real_port_disable(VOID);
UINT __wrap_port_disable(VOID);
UINT __wrap_port_disable(VOID)
{
    return STALL == URGENT || STALL == URGENT_SILENT ? _tx_thread_interrupt_disable() : __real_port_disable();
}

VOID __real_port_restore(UINT posture);
VOID __wrap_port_restore(UINT posture);
VOID __wrap_port_restore(UINT posture)
{
    if (STALL == URGENT || STALL == URGENT_SILENT)
        __asm__ volatile("msr basepri, %0\n dsb\n isb" :: "r"(posture) : "memory");
    else
        __real_port_restore(posture);
}

/* ---- another tick ---- */

VOID Timer_Handler(VOID)
{
    mk_isr(TIMER_VECTOR, mk_tick);
    if (_tx_thread_current_ptr != NULL && _tx_thread_execute_ptr != _tx_thread_current_ptr)
        ICSR = PENDSV_SET;
}

/* Time passes, and no timer comes nearer to its end. */
static VOID lose_tick(VOID)
{
    TX_THREAD *t = _tx_thread_created_ptr;
    TX_TIMER *tm = _tx_timer_created_ptr;
    ULONG n;
    for (n = _tx_thread_created_count; n--; t = t->tx_thread_created_next)
        t->tx_thread_timer.tx_timer_internal_remaining_ticks++;
    for (n = _tx_timer_created_count; n--; tm = tm->tx_timer_created_next)
        tm->tx_timer_internal.tx_timer_internal_remaining_ticks++;
    mk_tick();
    _tx_timer_system_clock--;
    if (++lost == 300)
        stall_here();
}

/* In these ways interrupts are not announced, as most programs do not. */
static UINT is_silent;
VOID __real_mk_isr(UINT number, VOID (*body)(VOID));
VOID __wrap_mk_isr(UINT number, VOID (*body)(VOID));
VOID __wrap_mk_isr(UINT number, VOID (*body)(VOID))
{
    if (is_silent)
        body();
    else
        __real_mk_isr(number, body);
}

VOID __real_mk_tick(VOID);
VOID __wrap_mk_tick(VOID);
VOID __wrap_mk_tick(VOID)
{
    __real_mk_tick();
    if (stalling(LATE_TICK) && lost++ == 0) {
        ICSR = PENDST_SET;
        stall_here();
    }
    if (stalling(NO_ACK) || stalling(LENGTH_0)) /* the kernel resumes the thread of its timers in each tick, also where that is ready */
        mk_trace(1, T_INTERNAL, UL(&_tx_timer_thread), _tx_timer_thread.tx_thread_state, 0, UL(_tx_thread_execute_ptr));
    if (stalling(TICK_STORM)) {
        SYST_RVR = 99;
        ICSR = PENDST_SET;
        if (++lost == 40)
            stall_here();
    }
}

VOID __real_port_tick(VOID);
VOID __wrap_port_tick(VOID);
VOID __wrap_port_tick(VOID)
{
    ULONG before = _tx_timer_system_clock;
    if (stalling(TICK_LOST)) {
        lose_tick();
        return;
    }
    if (STALL == TICKLESS && _tx_thread_current_ptr == NULL) {
        mk_tick(); /* counted after the sleep; no interrupt came */
        return;
    }
    if (STALL != OTHER_TICK && STALL != TICK_DISABLED) {
        __real_port_tick();
        return;
    }
    NVIC_ISPR0 = TIMER;
    __asm__ volatile("dsb\n isb" ::: "memory");
    while (_tx_timer_system_clock == before)
        ;
}

/* ---- the pump controller ---- */

static NOINLINE VOID wait_transfer(VOID)
{
    while (transfer_done == 0)
        ;
}

static NOINLINE VOID wait_received(VOID)
{
    while (received == 0)
        ;
}

/* The watchdog's early warning: it comes while a thread waits in this way. */
static VOID watchdog_warning(VOID)
{
    stall_here();
    for (;;)
        ;
}

static NOINLINE VOID wait_ready(VOID)
{
    UINT polls = 0;
    while (transfer_done == 0)
        if (++polls == 1000)
            ICSR = NMIPENDSET;
}

static NOINLINE VOID wait_ticks(ULONG ticks)
{
    ULONG begin = _tx_timer_system_clock;
    while (_tx_timer_system_clock - begin < ticks)
        ;
}

static NOINLINE VOID count_transfer(VOID)
{
    while (transfer_done == 0)
        sum++;
}

VOID app_last_words(ULONG pc, ULONG lr, ULONG cfsr, ULONG bfar)
{
    (void)pc; (void)lr; (void)cfsr; (void)bfar;
}

UINT app_line_has_frame(VOID)
{
    return lost != 0 ? lost % 12u == 0 : _tx_timer_system_clock % 3u == 1;
}

/* What the line has sent, for nobody who reads it; `halts_at`: the tick of the stall. */
static struct { uint32_t size, head, tail, lost, halts_at, data[4]; } inbox;

static NOINLINE VOID uart_receive(VOID)
{
    if (inbox.head - inbox.tail >= inbox.size) {
        inbox.lost++;
        if (_tx_timer_system_clock >= inbox.halts_at)
            stall_here();
        return;
    }
    inbox.data[inbox.head++ % 4u] = fw_clock;
    UART_INTCLEAR = 2;
    if (_tx_timer_system_clock >= inbox.halts_at)
        stall_here();
}

/* ---- a list whose last element leads back to itself ---- */

static struct cell {
    struct cell *next;
    uint32_t due;
} cells[3], *first_cell;

static NOINLINE uint32_t count_due(const struct cell *cell)
{
    uint32_t n = 0;
    for (; cell != NULL; cell = cell->next)
        n += cell->due <= fw_clock;
    return n;
}

/* ---- records, each with its length in front ---- */

static struct {
    UCHAR bytes[32];
    uint32_t is_used, read, written, records;
} wire;

static NOINLINE VOID parse_wire(VOID)
{
    while (wire.read != wire.written) {
        wire.records++;
        wire.read += wire.bytes[wire.read];
        if (wire.records % 16 == 15)
            ICSR = PENDST_SET;
        if (wire.records == 16 * 80)
            stall_here();
    }
}

VOID app_uart_isr(VOID)
{
    fw_clock += 150;
    if (first_cell != NULL) {
        if (_tx_timer_system_clock >= BEGIN) {
            cells[2].next = &cells[2];
            stall_here();
        }
        sum += count_due(first_cell);
    }
    if (wire.is_used) {
        wire.bytes[0] = 4;
        wire.bytes[4] = _tx_timer_system_clock >= BEGIN ? 0 : 3;
        wire.read = wire.records = 0;
        wire.written = 7;
        parse_wire();
    }
    if (inbox.size != 0) {
        uart_receive();
        return;
    }
    received = 1;
    if (stalling(SHORT_ISR))
        ICSR = PENDST_SET;
    if (stalling(ISR_WAITS)) {
        ICSR = PENDST_SET;
        stall_here();
        wait_transfer();
    }
    if (stalling(ISR_TICKS)) {
        ICSR = PENDST_SET;
        stall_here();
        wait_ticks(2);
    }
    if (stalling(ISR_COUNTS)) {
        stall_here();
        count_transfer();
    }
    if (stalling(ISR_LOOPS)) {
        stall_here();
        for (;;)
            sum++;
    }
    if (stalling(NO_ACK)) {
        port_uart_pend();
        fw_work(FW_TICK_CYCLES / 4);
        if (sum++ == 120)
            stall_here();
        return;
    }
    if (stalling(STORM)) {
        port_uart_pend();
        if (sum++ % 100 == 99)
            stall_here();
        return;
    }
    if (STALL != URGENT_SILENT)
        mk_flags_set(&frames, 1);
    if (stalling(SHORT_ISR)) {
        stall_here();
        sum++;
    }
}

/* The thread goes on, and its events show that time passes. `pend`: the tick is due again and again. */
static NOINLINE VOID work_on(UINT pend)
{
    uint32_t n;
    for (n = 0;; n++) {
        fw_clock += SHORT;
        if (pend == 1 && n % 8 == 7)
            ICSR = PENDST_SET;
        if (pend == 2 && n % 8 == 7)
            NVIC_ISPR0 = TIMER;
        mk_time_get();
        if (n == 40)
            stall_here();
    }
}

/* `step`: ticks of the clock from one call to the next. The ring has nothing else then. */
static NOINLINE VOID wait_time(ULONG step)
{
    uint32_t n;
    for (n = 0; n < 2 * FW_RING_EVENTS; n++) {
        fw_clock += step;
        mk_time_get();
    }
    ICSR = PENDST_SET;
    stall_here();
    while (mk_time_get() != 0)
        ;
}

/* What a function called last is where lr leads to as it returns. */
static NOINLINE __attribute__((unused)) VOID checked(uint32_t word)
{
    sum += word;
}

static NOINLINE VOID copy_name(const volatile CHAR *from)
{
    volatile CHAR name[8];
    UINT i;
    for (i = 0; from[i] != 0; i++)
        name[i] = from[i];
#ifdef FW_OTHER
    checked((uint32_t)name[0]);
#else
    sum += (uint32_t)name[0];
#endif
    __asm__ volatile("" ::: "lr");
}

static NOINLINE VOID copy_words(uint32_t word)
{
    volatile uint32_t block[2];
    UINT i;
    for (i = 0; i < 4; i++)
        block[i] = word;
#ifdef FW_OTHER
    sum += block[0];
    __asm__ volatile("" ::: "lr");
#else
    checked(block[0]);
#endif
}

NOINLINE VOID board_halt(const CHAR *file, UINT line)
{
    __asm__ volatile("cpsid i" ::: "memory");
    stall_here();
#ifdef FW_OTHER
    volatile struct { UINT line; const CHAR *file; } said = { line, file };
    for (;;)
        __asm__ volatile("" :: "r"(&said) : "r0", "r1", "r2", "r3", "r4", "r5", "r6", "memory");
#else
    for (;;)
        __asm__ volatile("" :: "r"(file), "r"(line));
#endif
}

static NOINLINE VOID enter_stop(uint32_t wakes)
{
    __asm__ volatile("cpsid i" ::: "memory");
    SYST_CSR = 0;
    NVIC_ICER0 = ~wakes;
    stall_here();
    for (;;)
        __asm__ volatile("dsb\n wfi\n cpsie i\n isb\n cpsid i" ::: "memory");
}

static VOID move_vectors(VOID)
{
    UINT i;
    for (i = 0; i < 64; i++)
        VECTORS[i] = REGISTER(4u * i);
    VTOR = (uint32_t)VECTORS;
    __asm__ volatile("dsb\n isb" ::: "memory");
}

/* Of a long line the words are written from its lowest address on: the stack above keeps its fill. */
static NOINLINE VOID format_long(VOID)
{
    volatile CHAR line[FW_STACK + FW_STACK / 2];
    line[0] = 'p';
    mk_thread_sleep(2);
    sum += (uint32_t)line[0];
}

static NOINLINE VOID format_short(VOID)
{
    volatile CHAR line[FW_STACK / 3];
    line[0] = 'p';
    mk_thread_sleep(2);
    sum += (uint32_t)line[0];
}

/* ---- a table of functions that has no entry for the last command ---- */

static VOID open_valve(ULONG n)
{
    sum += n;
}

static VOID close_valve(ULONG n)
{
    sum -= n;
}

enum { VALVE_OPEN, VALVE_CLOSE, VALVE_HALF, VALVE_PURGE, VALVE_COMMANDS };

static UCHAR last_command = VALVE_PURGE;
static VOID (*const commands[VALVE_COMMANDS])(ULONG n) = { open_valve, close_valve, open_valve };

static NOINLINE VOID obey(const volatile UCHAR *command)
{
    _tx_trace_user_event_insert(4100, *command, 7, 0, 0);
    commands[*command](1);
    sum += *command;
}

/* ---- what is behind an array of pointers ---- */

static struct {
    volatile uint32_t *valve[4];
    struct { uint32_t crc, length; } table;
} manifold;

static NOINLINE VOID fire(UINT lane)
{
    volatile uint32_t *valve = manifold.valve[lane];
    valve[1] = 5;
}

static NOINLINE VOID regulate(VOID)
{
    static const volatile CHAR name[] = "pressure-of-the-second-line";
    static VOID (*volatile handler)(VOID);

    switch (STALL) {
    case QUIET: case TICKLESS: case OTHER_TICK: case URGENT: case URGENT_SILENT: case PENDSV_ABOVE:
        mk_time_get();
        stall_here();
        fw_work(SHORT);
        break;
    case SHORT_MASK:
        __asm__ volatile("cpsid i" ::: "memory");
        ICSR = PENDST_SET;
        stall_here();
        sum++;
        __asm__ volatile("cpsie i" ::: "memory");
        break;
    case MASKED_WAIT:
        __asm__ volatile("cpsid i" ::: "memory");
        ICSR = PENDST_SET;
        stall_here();
        wait_transfer();
        break;
    case MASKED_AWAITED:
        __asm__ volatile("cpsid i" ::: "memory");
        received = 0;
        port_uart_pend();
        stall_here();
        wait_received();
        break;
    case IRQ_OFF:
        NVIC_ICER0 = UART;
        if (_tx_timer_system_clock >= 3 * BEGIN)
            stall_here();
        break;
    case MASKED_CLOCK:
        __asm__ volatile("cpsid i" ::: "memory");
        wait_time(SHORT);
        break;
    case SHORT_CLOCK:
        __asm__ volatile("cpsid i" ::: "memory");
        wait_time(FW_TICK_CYCLES / (4 * FW_RING_EVENTS));
        break;
    case MASKED_HIDDEN:
        stall_here();
        __asm__ volatile("cpsid i" ::: "memory");
        ICSR = PENDST_SET;
        wait_transfer();
        break;
    case JUST_PENDING:
        stall_here();
        /* So it looks between the moment in which the tick comes and that in which it is taken. */
        __asm__ volatile("msr primask, %0" :: "r"(1) : "memory");
        ICSR = PENDST_SET;
        fw_work(SHORT);
        while (transfer_done == 0)
            sum++;
        break;
    case RUNS_ON:
        __asm__ volatile("msr basepri, %0" :: "r"(0x20) : "memory");
        for (sum = 0;; sum++) {
            mk_thread_sleep(2);
            if (sum == 39)
                stall_here();
        }
    case MASKED_ON:
        __asm__ volatile("cpsid i" ::: "memory");
        work_on(1);
        break;
    case BASEPRI_LEFT:
        __asm__ volatile("msr basepri, %0" :: "r"(0x40) : "memory");
        work_on(1);
        break;
    case TICK_OFF: work_on(0); break;
    case TICK_DISABLED:
        NVIC_ICER0 = TIMER;
        work_on(2);
        break;
    case TICK_BEHIND:
        SHPR3 = 0xFFFF0000u;
        stall_here();
        break;
    case SMASHED: copy_name(name); break;
    case JUMP_DATA:
        calibration[0] = 0xDE00DE00u;
        handler = (VOID (*)(VOID))((uint32_t)calibration | 1u);
        handler();
        break;
    case RUNS_DATA:
        calibration[0] = 0xE7FEE7FEu;
        stall_here();
        copy_words((uint32_t)calibration | 1u);
        break;
    case ASLEEP: enter_stop(0); break;
    case ASLEEP_SHORT: enter_stop(UART); break;
    case VECTOR:
        move_vectors();
        calibration[0] = 0xDE00DE00u;
        VECTORS[SYSTICK_VECTOR] = (uint32_t)calibration | 1u;
        ICSR = PENDST_SET;
        fw_work(SHORT);
        break;
    case NMI_STOPS:
        move_vectors();
        VECTORS[2] = (uint32_t)watchdog_warning;
        fw_work(12 * FW_TICK_CYCLES);
        wait_ready();
        break;
    case VECTORS_IN_RAM:
        move_vectors();
        mk_thread_sleep(2);
        stall_here();
        fw_work(SHORT);
        break;
    case STACK_BELOW: case STACK_DEEP:
        if (STALL == STACK_BELOW)
            format_long();
        else
            format_short();
        stall_here();
        fw_work(SHORT);
        break;
    case CALLED_HANDLER:
        handler = ((VOID (*const volatile *)(VOID))0x08)[0];
        handler();
        sum++;
        break;
    case ENTRY_MISSING: obey(&last_command); break;
    case PAST_POINTERS: fire(4); break;
    case PANIC: board_halt("drivers/pump.c", 217); break;
    default: break;
    }
}

/* Who wants to know what the pump does. The sampler closes the third one when the time has come. */
static struct { uint32_t topic; VOID (*call)(uint32_t value, VOID *context); VOID *context; uint32_t count; } sinks[4];

static VOID count_value(uint32_t value, VOID *context)
{
    *(volatile uint32_t *)context += value;
}

static NOINLINE VOID sink_open(UINT n)
{
    sinks[n].context = (VOID *)&sum;
    sinks[n].call = count_value;
}

static NOINLINE VOID sink_close(UINT n)
{
    sinks[n].call = NULL;
    sinks[n].context = NULL;
}

static NOINLINE VOID deliver(uint32_t value)
{
    for (UINT n = 0; n < 4; n++) {
        if (sinks[n].call == NULL)
            continue;
        if ((sinks[n].count++ & 1) == 0)
            mk_thread_sleep(3);
        sinks[n].call(value, sinks[n].context);
    }
}

/* Its last call is a jump. */
static __attribute__((optimize("optimize-sibling-calls"))) VOID heartbeat_expired(ULONG n)
{
    sum += n;
    if (stalling(CALLBACK))
        *(volatile uint32_t *)0xE0200000u = n;
    if (stalling(CALLBACK_LONG) && n != 0) {
        __asm__ volatile("cpsie i" ::: "memory");
        fw_work(3 * FW_TICK_CYCLES);
        __asm__ volatile("cpsid i" ::: "memory");
        if (++lost == 20)
            stall_here();
    }
    if (stalling(CALLBACK_WAITS)) {
        __asm__ volatile("cpsie i" ::: "memory");
        stall_here();
        wait_transfer();
    }
}

static VOID sampler_entry(ULONG unused)
{
    (void)unused;
    for (;;) {
        mk_thread_sleep(2);
        fw_work(SHORT);
        if (STALL == SINK_CLOSED && _tx_timer_system_clock >= BEGIN && sinks[2].count != 0)
            sink_close(2);
        mk_semaphore_put(&samples);
    }
}

static VOID motor_entry(ULONG unused)
{
    (void)unused;
    for (;;) {
        ULONG actual;
        if (STALL == URGENT_SILENT)
            mk_thread_sleep(3);
        else
            mk_flags_get(&frames, 1, TX_OR_CLEAR, &actual, TX_WAIT_FOREVER);
        fw_work(SHORT);
    }
}

static VOID pump_entry(ULONG unused)
{
    (void)unused;
    for (;;) {
        mk_thread_sleep(3);
        fw_work(SHORT);
        if (_tx_timer_system_clock >= BEGIN)
            regulate();
        if (STALL == SINK_CLOSED && _tx_timer_system_clock >= BEGIN)
            deliver(1);
    }
}

static VOID logger_entry(ULONG unused)
{
    (void)unused;
    for (;;) {
        mk_semaphore_get(&samples, TX_WAIT_FOREVER);
        fw_work(SHORT);
    }
}

VOID app_define(VOID)
{
    if (STALL != STORM)
        _tx_trace_enable(trace_buffer, sizeof trace_buffer, REGISTRY);
    mk_flags_create(&frames, PICK("frames", "telegrams"));
    mk_semaphore_create(&samples, PICK("samples", "readings"), 0);
    mk_timer_create(&heartbeat, PICK("heartbeat", "blink"), heartbeat_expired, 1, 4, 4, 1);
    mk_timer_create(&housekeeping, PICK("housekeeping", "cleaning"), heartbeat_expired, 0, 9, 9, 1);
#define THREAD(t, name, entry, n, priority) \
    mk_thread_create(&t, name, entry, n, stacks[n], FW_STACK, priority, 1)
    THREAD(sampler, PICK("sampler", "adc task"), sampler_entry, SAMPLER, PICK(4, 7));
    THREAD(motor, PICK("motor", "drive"), motor_entry, MOTOR, PICK(6, 9));
    THREAD(pump, PICK("pump", "valve"), pump_entry, PUMP, PICK(8, 12));
    THREAD(logger, PICK("logger", "journal"), logger_entry, LOGGER, PICK(12, 20));
    if (STALL == INIT_WAITS) {
        __asm__ volatile("cpsid i" ::: "memory");
        stall_here();
        wait_transfer();
    }
}

/* Called where the port has set up its interrupts. */
VOID app_started(VOID)
{
    SYST_RVR = FW_TICK_CYCLES - 1;
    _tx_timer_list[0] = NULL;
    NVIC_IPR1 = (STALL == URGENT || STALL == URGENT_SILENT ? 0x20u : 0x40u) << 8 | 0x40u << 16;
    if (STALL == LIST_CIRCLE) {
        cells[0].next = &cells[1];
        cells[1].next = &cells[2];
        first_cell = &cells[0];
    }
    wire.is_used = STALL == LENGTH_0;
    if (STALL == PAST_POINTERS) {
        for (UINT n = 0; n < 4; n++)
            manifold.valve[n] = &sum;
        manifold.table.crc = 0x8E41D3A4u;
        manifold.table.length = 4;
    }
    is_silent = STALL == NO_ACK || STALL == LIST_CIRCLE || STALL == LENGTH_0 || STALL == INBOX_FULL || STALL == INBOX_FREE;
    if (STALL == INBOX_FULL || STALL == INBOX_FREE) {
        inbox.size = STALL == INBOX_FULL ? 4 : 1000000;
        inbox.halts_at = BEGIN;
    }
    for (UINT n = 1; STALL == SINK_CLOSED && n < 4; n++)
        sink_open(n);
    if (STALL == NO_ACK || STALL == LENGTH_0)
        SHPR3 = 0x00u << 24 | 0xF0u << 16;
    if (STALL == PENDSV_ABOVE)
        SHPR3 = 0x00u << 24 | 0x20u << 16;
    if (STALL == OTHER_TICK || STALL == TICK_DISABLED)
        NVIC_ISER0 = TIMER;
}
