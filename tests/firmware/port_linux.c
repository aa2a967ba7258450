/*
 * A bare Linux process, without any library, to be run by QEMU's user mode:
 * big-endian PowerPC on one core, and an Arm Cortex-A9 that pretends to have
 * two (see mk_machine). The same story as port_host.c, in a program and a core
 * that hold nothing else; its end is a true SIGSEGV, and a handler in the
 * fault handler's place.
 */
#include "kernel.h"

#define UART_VECTOR 21u
#define SIGSEGV 11
#define SA_SIGINFO 0x00000004u
#define SA_ONSTACK 0x08000000u
#define SA_RESETHAND 0x80000000u

VOID app_last_words(ULONG pc, ULONG lr, ULONG cfsr, ULONG bfar);
VOID port_swap(VOID **save, VOID *load);
VOID port_main(uintptr_t *stack);

/* ---- What the processor is ---- */

#if defined(__powerpc__)

enum { NR_EXIT = 1, NR_PAUSE = 29, NR_MUNMAP = 91, NR_RT_SIGACTION = 173, NR_SIGALTSTACK = 185 };

static long call(long number, long a, long b, long c, long d)
{
    register long r0 __asm__("r0") = number;
    register long r3 __asm__("r3") = a;
    register long r4 __asm__("r4") = b;
    register long r5 __asm__("r5") = c;
    register long r6 __asm__("r6") = d;
    __asm__ volatile("sc" : "+r"(r0), "+r"(r3), "+r"(r4), "+r"(r5), "+r"(r6)
                     :: "r7", "r8", "r9", "r10", "r11", "r12", "ctr", "cr0", "memory");
    return r3;
}

/* Back chain, place for LR, CR, r13 to r31: as a function's frame would be. */
__asm__(".text\n.globl _start\n.type _start, @function\n_start:\n"
        " mr 3, 1\n clrrwi 1, 1, 4\n li 0, 0\n mtlr 0\n stwu 1, -16(1)\n stw 0, 0(1)\n"
        " bl port_main\n trap\n.size _start, . - _start\n"
        ".globl port_swap\n.type port_swap, @function\nport_swap:\n"
        " stwu 1, -96(1)\n mflr 0\n stw 0, 100(1)\n mfcr 0\n stw 0, 12(1)\n stmw 13, 16(1)\n"
        " stw 1, 0(3)\n mr 1, 4\n"
        " lmw 13, 16(1)\n lwz 0, 12(1)\n mtcr 0\n lwz 0, 100(1)\n mtlr 0\n addi 1, 1, 96\n blr\n"
        ".size port_swap, . - port_swap\n");

VOID port_stack_build(TX_THREAD *t)
{
    uint32_t *top = (uint32_t *)(((uintptr_t)t->tx_thread_stack_end + 1u) & ~15u) - 4, *sp = top - 24;
    UINT i;
    for (i = 0; i < 28; i++)
        sp[i] = 0;
    sp[0] = (uint32_t)(uintptr_t)top; /* back chain; the one of top is 0: nobody called */
    top[1] = (uint32_t)(uintptr_t)mk_thread_shell;
    t->tx_thread_stack_ptr = sp;
}

/* struct ucontext: flags, link, stack, padding, then a pointer to the registers. */
#define REGISTERS(context) ((const uint32_t *)(uintptr_t)((const uint32_t *)(context))[12])
#define REG_PC 32
#define REG_LR 36

#elif defined(__arm__)

enum { NR_EXIT = 1, NR_PAUSE = 29, NR_MUNMAP = 91, NR_RT_SIGACTION = 174, NR_SIGALTSTACK = 186 };

static long call(long number, long a, long b, long c, long d)
{
    register long r7 __asm__("r7") = number;
    register long r0 __asm__("r0") = a;
    register long r1 __asm__("r1") = b;
    register long r2 __asm__("r2") = c;
    register long r3 __asm__("r3") = d;
    __asm__ volatile("svc 0" : "+r"(r0) : "r"(r7), "r"(r1), "r"(r2), "r"(r3) : "memory");
    return r0;
}

__asm__(".text\n.arm\n.globl _start\n.type _start, %function\n_start:\n"
        " mov r0, sp\n bic sp, sp, #7\n mov fp, #0\n mov lr, #0\n bl port_main\n udf #0\n"
        ".size _start, . - _start\n"
        ".globl port_swap\n.type port_swap, %function\nport_swap:\n"
        " push {r3-r11, lr}\n str sp, [r0]\n mov sp, r1\n pop {r3-r11, pc}\n"
        ".size port_swap, . - port_swap\n");

VOID port_stack_build(TX_THREAD *t)
{
    uint32_t *sp = (uint32_t *)(((uintptr_t)t->tx_thread_stack_end + 1u) & ~7u) - 10;
    UINT i;
    for (i = 0; i < 9; i++)
        sp[i] = 0;
    sp[9] = (uint32_t)(uintptr_t)mk_thread_shell;
    t->tx_thread_stack_ptr = sp;
}

/* struct ucontext: flags, link, stack, then trap number, error code, mask, r0.. */
#define REGISTERS(context) ((const uint32_t *)(context) + 8)
#define REG_PC 15
#define REG_LR 14

#else
#error "PowerPC or Arm"
#endif

/* ---- The port ---- */

static VOID *scheduler_sp;
static UINT exception, uart_pending, wait_at_end;
static UCHAR signal_stack[4096] __attribute__((aligned(16)));

UINT port_disable(VOID) { return 0; }
VOID port_restore(UINT posture) { (void)posture; }
ULONG port_exception(VOID) { return exception; }

VOID port_switch(VOID)
{
    TX_THREAD *t = CURRENT;
    port_swap(&t->tx_thread_stack_ptr, scheduler_sp);
}

VOID port_run(VOID)
{
    TX_THREAD *t = CURRENT;
    port_swap(&scheduler_sp, t->tx_thread_stack_ptr);
}

static VOID interrupt(UINT number, VOID (*body)(VOID))
{
    exception = number;
    mk_isr(number, body);
    exception = 0;
}

#if FW_CORES > 1
/* The tick is core 0's interrupt, the UART is core 1's. */
VOID port_start(VOID)
{
    mk_machine();
}

VOID port_tick(VOID)
{
    fw_core = 0;
    interrupt(15, mk_tick);
    if (uart_pending) {
        uart_pending = 0;
        fw_core = 1;
        interrupt(UART_VECTOR, app_uart_isr);
    }
}
#else
VOID port_start(VOID)
{
    for (;;) {
        mk_pick();
        port_run();
    }
}

VOID port_tick(VOID)
{
    interrupt(15, mk_tick);
    if (uart_pending) {
        uart_pending = 0;
        interrupt(UART_VECTOR, app_uart_isr);
    }
    if (CURRENT != NULL && EXECUTE != CURRENT)
        port_switch();
}
#endif

VOID port_uart_pend(VOID)
{
    uart_pending = 1;
}

/* In the fault handler's place. The handler is gone once it was called: on
 * return the store faults again, and the core is of that place. */
static VOID fault_handler(int signal, const uint32_t *info, const VOID *context)
{
    const uint32_t *r = REGISTERS(context);
    (void)signal;
    exception = 3;
    fw_counters.interrupts[3]++;
    fw_fault.vector = 3;
    fw_fault.pc = r[REG_PC];
    fw_fault.lr = r[REG_LR];
    fw_fault.cfsr = 0x8200u; /* as the Cortex-M3 has it, so that the events are the same */
    fw_fault.hfsr = 0x40000000u;
    fw_fault.bfar = info[3];
    app_last_words(fw_fault.pc, fw_fault.lr, fw_fault.cfsr, fw_fault.bfar);
    fw_fault.magic = 0x44414544u;
    while (wait_at_end)
        call(NR_PAUSE, 0, 0, 0, 0);
}

/* The kernel's structures, of 32-bit words. */
static struct { VOID (*handler)(int, const uint32_t *, const VOID *); uint32_t flags, restorer, mask[2]; } action;
static struct { VOID *sp; int flags; uint32_t size; } alternate;

VOID port_main(uintptr_t *stack)
{
    const CHAR *word = stack[0] > 1 ? (const CHAR *)stack[2] : "";
    wait_at_end = word[0] == 'w';
    /* QEMU gives no stack smaller than 128 KiB, and the core would hold it all. */
    call(NR_MUNMAP, (long)(((uintptr_t)stack & ~0xFFFu) - 0x1D000u), 0x1C000, 0, 0);
    alternate.sp = signal_stack;
    alternate.size = sizeof signal_stack;
    call(NR_SIGALTSTACK, (long)&alternate, 0, 0, 0);
    action.handler = fault_handler;
    action.flags = SA_SIGINFO | SA_ONSTACK | SA_RESETHAND;
    call(NR_RT_SIGACTION, SIGSEGV, (long)&action, 0, 8);
    mk_kernel_enter();
    call(NR_EXIT, 1, 0, 0, 0);
}

/* The compiler copies structures by these; there is no library here. */
VOID *memcpy(VOID *to, const VOID *from, size_t n);
VOID *memset(VOID *to, int byte, size_t n);

VOID *memcpy(VOID *to, const VOID *from, size_t n)
{
    UCHAR *t = to;
    const UCHAR *f = from;
    while (n--)
        *t++ = *f++;
    return to;
}

VOID *memset(VOID *to, int byte, size_t n)
{
    UCHAR *t = to;
    while (n--)
        *t++ = (UCHAR)byte;
    return to;
}
