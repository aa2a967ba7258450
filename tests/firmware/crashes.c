/*
 * Crashes on purpose: a program that fails in the way that the word at
 * 0x20010000 says, which a loader puts there before the start. 0: it runs for
 * ever. What happened is written to crash_truth by the code that fails, just
 * before it does; nothing of that is looked at by tx-trace.
 */
#include "kernel.h"

enum failure {
    HEALTHY,         /* runs for ever                                         */
    WILD_STORE,      /* in the thread's own function                          */
    NESTED,          /* the same, three calls below it                        */
    IN_ISR,          /* the same, in an interrupt that came upon the thread   */
    OVERFLOW,        /* into a guard without access: nothing can be pushed    */
    AFTER_INTERRUPT, /* the instruction behind one that was interrupted       */
    DIVIDE,          /* by zero: UsageFault, whose handler is a loop          */
    NULL_CALL,       /* of a function at 0                                    */
    ASSERT,          /* a loop with interrupts off, in the thread             */
    GUARD,           /* the same, and what cannot be written holds what an
                      * older interrupt had pushed                            */
    HOLLOW,          /* above the frame of the crash lie older ones, in a
                      * variable that was never written                       */
    SMASHED,         /* a return to text: BusFault, whose handler is a loop   */
    CONSTANT,        /* a call of a constant: UsageFault, the same handler    */
    ISR_NULL_CALL,   /* a call of a function at 0, in interrupt 10            */
    RECURSION,       /* over the end of the stack, whose last word is in a
                      * variable that was never written; then as WILD_STORE   */
    NMI_WAITS        /* the handler of NMI waits for a variable               */
};

/* Behind what the program itself has of RAM. */
#define FAILURE (*(volatile uint32_t *)0x20010000u)

/* What is true of the failure. Zero: not known, or not so. */
struct truth {
    uint32_t pc;      /* of the instruction that fails                        */
    uint32_t sp;      /* the stack pointer there                              */
    uint32_t failure;
    const char *function;
    uint32_t line;
    uint32_t in_isr;  /* exception that fails; 0: a thread                    */
    TX_THREAD *thread;
    uint32_t written; /* what the exception pushes was written                */
    uint32_t frame;   /* where that lies, as the handler found it             */
    uint32_t exc_return;
    uint32_t psp, msp;
    uint32_t cfsr, hfsr, bfar, mmfar;
};
volatile struct truth crash_truth;

#define ICSR (*(volatile uint32_t *)0xE000ED04u)
#define VTOR (*(volatile uint32_t *)0xE000ED08u)
#define CCR (*(volatile uint32_t *)0xE000ED14u)
#define SHCSR (*(volatile uint32_t *)0xE000ED24u)
#define CFSR (*(volatile uint32_t *)0xE000ED28u)
#define HFSR (*(volatile uint32_t *)0xE000ED2Cu)
#define MMFAR (*(volatile uint32_t *)0xE000ED34u)
#define BFAR (*(volatile uint32_t *)0xE000ED38u)
#define NVIC_ISER0 (*(volatile uint32_t *)0xE000E100u)
#define NVIC_ISPR0 (*(volatile uint32_t *)0xE000E200u)
#define MPU_CTRL (*(volatile uint32_t *)0xE000ED94u)
#define MPU_RBAR (*(volatile uint32_t *)0xE000ED9Cu)
#define MPU_RASR (*(volatile uint32_t *)0xE000EDA0u)

#define NOINLINE __attribute__((noinline))
#define REGISTRY 8
static ULONG trace_buffer[(sizeof(TX_TRACE_HEADER) + REGISTRY * sizeof(TX_TRACE_OBJECT_ENTRY)
                           + FW_RING_EVENTS * sizeof(TX_TRACE_BUFFER_ENTRY)) / sizeof(ULONG)];
static ULONG stack[2 * FW_STACK / sizeof(ULONG)] __attribute__((aligned(256)));
static ULONG neighbour_stack[FW_STACK / sizeof(ULONG)] __attribute__((aligned(16)));
static TX_THREAD victim, neighbour;
static volatile uint32_t rounds;

UINT app_line_has_frame(VOID) { return 0; }
VOID app_last_words(ULONG pc, ULONG lr, ULONG cfsr, ULONG bfar)
{
    (void)pc; (void)lr; (void)cfsr; (void)bfar;
}

static VOID note(const char *function, uint32_t line)
{
    crash_truth.failure = FAILURE;
    crash_truth.function = function;
    crash_truth.line = line;
    crash_truth.in_isr = port_exception();
    crash_truth.thread = _tx_thread_current_ptr;
    crash_truth.written = FAILURE != OVERFLOW && FAILURE != GUARD;
}

/* Puts the address of the instruction at 1: and the stack pointer down. */
#define HERE                                                                    \
    "movw r2, #:lower16:1f\n movt r2, #:upper16:1f\n str r2, [%0]\n"            \
    "mov r2, sp\n str r2, [%0, #4]\n"
/* Fails in one instruction, whose address and stack pointer are known. */
#define FAIL(instruction)                                                       \
    do {                                                                        \
        note(__func__, __LINE__);                                               \
        __asm__ volatile(HERE instruction "\n nop" :: "r"(&crash_truth), "r"(0xE0200000u) : "r2", "r3", "memory", "lr"); \
    } while (0)
#define STORE "1: str r2, [%1]"

/* ---- work, with ticks at several depths: each leaves what it pushed ---- */

static NOINLINE uint32_t filter(uint32_t n)
{
    fw_work(FW_TICK_CYCLES + 1000 * n);
    return n * 2654435761u;
}

static NOINLINE uint32_t smooth(uint32_t n)
{
    uint32_t window[6], i, sum = 0;
    for (i = 0; i < 6; i++)
        window[i] = filter(n + i) >> (i + n % 3);
    for (i = 0; i < 6; i++)
        sum += window[i];
    return sum;
}

static NOINLINE uint32_t measure(uint32_t n)
{
    uint32_t value = smooth(n);
    fw_work(FW_TICK_CYCLES);
    return value ^ n;
}

/* ---- failures ---- */

static NOINLINE uint32_t parse_field(uint32_t at)
{
    FAIL(STORE);
    return at + 1;
}

static NOINLINE uint32_t parse_frame(uint32_t at)
{
    uint32_t fields[3] = { at, at + 1, at + 2 };
    fields[at % 3] = parse_field(at);
    return fields[0] ^ fields[1] ^ fields[2];
}

static NOINLINE uint32_t receive(uint32_t at)
{
    return parse_frame(at + 1) + 1;
}

static NOINLINE VOID isr_store(VOID)
{
    FAIL(STORE);
}

VOID app_uart_isr(VOID)
{
    fw_clock += 150;
    if (crash_truth.failure == IN_ISR)
        isr_store();
}

static NOINLINE uint32_t interrupted(uint32_t n)
{
    port_uart_pend();
    __asm__ volatile("dsb\n isb" ::: "memory");
    return n + 1;
}

static NOINLINE VOID after_interrupt(VOID)
{
    note(__func__, __LINE__ + 2);
    /* ISPR: the interrupt comes at the barrier, and the store is the next. */
    __asm__ volatile(HERE "mov r2, #32\n str r2, [%2]\n dsb\n isb\n" STORE "\n nop"
                     :: "r"(&crash_truth), "r"(0xE0200000u), "r"(0xE000E200u) : "r2", "memory");
}

static NOINLINE VOID divide(VOID)
{
    CCR |= 1u << 4;
    SHCSR |= 1u << 18;
    FAIL("mov r3, #0\n1: udiv r2, r2, r3");
}

static NOINLINE VOID call(VOID)
{
    note(__func__, 0);
    __asm__ volatile("mov r2, sp\n str r2, [%0, #4]\n mov r3, #0\n blx r3\n nop" :: "r"(&crash_truth) : "r2", "r3", "lr", "memory");
}

NOINLINE VOID assert_failed(VOID)
{
    note(__func__, __LINE__ + 2);
    __asm__ volatile(HERE "cpsid i\n" :: "r"(&crash_truth) : "r2", "memory");
    __asm__ volatile("1: b 1b\n");
}

/* The lowest bytes of the stack, 2 << size of them, can no longer be written; where `access` is 0 not be read either. */
static VOID protect(uint32_t size, uint32_t access)
{
    MPU_RBAR = (uint32_t)stack | 1u << 4;
    MPU_RASR = access << 24 | size << 1 | 1u;
    MPU_CTRL = 5u; /* the rest as without, and nothing of it in a HardFault */
    __asm__ volatile("dsb\n isb" ::: "memory");
}

static NOINLINE uint32_t overflow(uint32_t n)
{
    volatile uint32_t local[8];
    local[n % 8] = n;
    note(__func__, 0);
    return n == 0 ? 0 : overflow(n + 1) + local[n % 8];
}

/* The last 32 bytes of the stack cannot be written, but read. They hold a frame that looks right, by an old interrupt. */
static NOINLINE VOID guard(VOID)
{
    uint32_t *low = (uint32_t *)stack, i;
    const uint32_t frame[8] = { 1, 2, 3, 4, 12, (uint32_t)interrupted | 1u, ((uint32_t)filter & ~1u) + 2, 0x01000000u };
    for (i = 0; i < 8; i++)
        low[i] = frame[i];
    protect(4, 6);
    note(__func__, 0);
    /* The stack pointer comes to the end of the guard: what is pushed next lies in it. */
    __asm__ volatile("mov sp, %0\n str %0, [%1]\n nop" :: "r"(low + 8), "r"(0xE0200000u) : "memory");
}

static NOINLINE uint32_t hollow(uint32_t n)
{
    volatile uint32_t never_written[64];
    if (n == 0)
        never_written[0] = n;
    FAIL(STORE);
    return never_written[1];
}

/* It calls nothing: behind it lr leads to who called it. */
static NOINLINE VOID checked(uint32_t n)
{
    rounds += n;
}

static NOINLINE VOID smashed(VOID)
{
    SHCSR |= 1u << 17;
    note(__func__, 0);
    checked(3);
    /* The word that is popped is the text "ceur". */
    __asm__ volatile("movw r3, #0x6563\n movt r3, #0x7275\n bic r2, r3, #1\n str r2, [%0]\n mov r2, sp\n str r2, [%0, #4]\n"
                     "push {r3}\n pop {pc}" :: "r"(&crash_truth) : "r2", "r3", "memory");
}

static NOINLINE VOID constant(VOID)
{
    static const uint32_t erased[2] __attribute__((aligned(4))) = { 0xDEFFDEFFu, 0xDEFFDEFFu };
    SHCSR |= 1u << 18;
    note(__func__, 0);
    __asm__ volatile("mov r2, sp\n str r2, [%0, #4]\n str %1, [%0]\n orr r3, %1, #1\n blx r3\n nop"
                     :: "r"(&crash_truth), "r"(erased) : "r2", "r3", "lr", "memory");
}

/* A vector table with one handler of our own. */
static VOID take_exception(UINT number, VOID (*handler)(VOID))
{
    static volatile uint32_t vectors[64] __attribute__((aligned(256)));
    const volatile uint32_t *old = (const volatile uint32_t *)VTOR;
    UINT i;
    for (i = 0; i < 64; i++)
        vectors[i] = old[i];
    vectors[number] = (uint32_t)handler;
    VTOR = (uint32_t)vectors;
    __asm__ volatile("dsb\n isb" ::: "memory");
}

static NOINLINE VOID isr_call(VOID)
{
    call();
}

static NOINLINE VOID null_call_in_isr(VOID)
{
    take_exception(26, isr_call);
    NVIC_ISER0 = 1u << 10;
    NVIC_ISPR0 = 1u << 10;
    __asm__ volatile("dsb\n isb" ::: "memory");
}

static NOINLINE uint32_t ascend(uint32_t n);

static NOINLINE uint32_t descend(uint32_t n)
{
    volatile uint32_t never_written[8];
    if (n == 0)
        never_written[0] = n;
    return ascend(n + 1) + never_written[1];
}

static NOINLINE uint32_t ascend(uint32_t n)
{
    if ((uint32_t)__builtin_frame_address(0) < (uint32_t)stack - 40)
        FAIL(STORE);
    return descend(n + 1) + 1;
}

NOINLINE VOID nmi_waits(VOID)
{
    while (crash_truth.failure != HEALTHY)
        ;
}

static VOID fail(VOID)
{
    switch (FAILURE) {
    case NESTED: rounds = receive(3); break;
    case IN_ISR:
        crash_truth.failure = IN_ISR;
        rounds = interrupted(4);
        break;
    case OVERFLOW:
        protect(7, 0);
        rounds = overflow(1);
        break;
    case AFTER_INTERRUPT: after_interrupt(); break;
    case DIVIDE: divide(); break;
    case NULL_CALL: call(); break;
    case ASSERT: assert_failed(); break;
    case GUARD: guard(); break;
    case HOLLOW: rounds = hollow(7); break;
    case SMASHED: smashed(); break;
    case CONSTANT: constant(); break;
    case ISR_NULL_CALL: null_call_in_isr(); break;
    case RECURSION: rounds = descend(1); break;
    case NMI_WAITS:
        note("nmi_waits", 0);
        crash_truth.written = 0;
        take_exception(2, nmi_waits);
        ICSR = 1u << 31;
        __asm__ volatile("dsb\n isb" ::: "memory");
        break;
    default: break;
    }
}

static VOID victim_entry(ULONG unused)
{
    (void)unused;
    for (;;) {
        uint32_t value = measure(rounds++);
        _tx_trace_user_event_insert(4096, rounds, value, 0, 0);
        interrupted(value);
        mk_thread_sleep(2);
        if (rounds < 4)
            continue;
        if (FAILURE == WILD_STORE)
            FAIL(STORE);
        fail();
    }
}

static VOID neighbour_entry(ULONG unused)
{
    (void)unused;
    for (;;)
        measure(1);
}

/* ---- the fault handler: as most are written, which look at the frame in C ---- */

NOINLINE VOID crash_stop(VOID)
{
    for (;;)
        __asm__ volatile("");
}

__attribute__((used)) VOID crash_handler(const uint32_t *frame, uint32_t exc_return)
{
    uint32_t psp, msp;
    __asm__ volatile("mrs %0, psp\n mrs %1, msp" : "=r"(psp), "=r"(msp));
    crash_truth.frame = (uint32_t)frame;
    crash_truth.exc_return = exc_return;
    crash_truth.psp = psp;
    crash_truth.msp = msp;
    crash_truth.cfsr = CFSR;
    crash_truth.hfsr = HFSR;
    crash_truth.bfar = BFAR;
    crash_truth.mmfar = MMFAR;
    crash_stop();
}

__attribute__((naked)) VOID HardFault_Handler(VOID)
{
    __asm__ volatile(
        "tst lr, #4\n"
        "ite eq\n"
        "mrseq r0, msp\n"
        "mrsne r0, psp\n"
        "mov r1, lr\n"
        "b crash_handler\n");
}

VOID app_define(VOID)
{
    _tx_trace_enable(trace_buffer, sizeof trace_buffer, REGISTRY);
    mk_thread_create(&victim, "victim", victim_entry, 0, stack, sizeof stack, 5, 1);
    mk_thread_create(&neighbour, "neighbour", neighbour_entry, 1, neighbour_stack, FW_STACK, 9, 1);
}
