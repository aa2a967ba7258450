/*
 * RISC-V, 32 bits, machine mode (QEMU virt): real context switches, in kernel
 * calls and by interrupts, which the software interrupt of the CLINT gives.
 * Threads save what their stacks hold in the layout of ThreadX's port.
 */
#include "kernel.h"

#define MSIP (*(volatile uint32_t *)0x02000000u)
#define TICK_VECTOR 15u
#define UART_VECTOR 21u
#define MIE 8u
#define SOFTWARE_INTERRUPT 0x80000003u

VOID app_last_words(ULONG pc, ULONG lr, ULONG cfsr, ULONG bfar);
VOID trap(VOID);
int main(void);

static volatile UINT tick_pending, uart_pending;
static volatile ULONG exception;

UINT port_disable(VOID)
{
    uint32_t before;
    __asm__ volatile("csrrci %0, mstatus, 8" : "=r"(before) :: "memory");
    return (before & MIE) == 0;
}

VOID port_restore(UINT posture)
{
    if (posture == 0)
        __asm__ volatile("csrsi mstatus, 8" ::: "memory");
}

ULONG port_exception(VOID)
{
    return exception;
}

/* A thread that never ran has the frame of an interrupt. */
VOID port_stack_build(TX_THREAD *t)
{
    uint32_t *sp = (uint32_t *)(((uint32_t)t->tx_thread_stack_end + 1u) & ~15u) - 32;
    UINT i;
    for (i = 0; i < 32; i++)
        sp[i] = 0;
    sp[0] = 1;
    sp[30] = (uint32_t)mk_thread_shell;
    t->tx_thread_stack_ptr = sp;
}

/* The type of a frame, s11 to s0; in a kernel call ra and mstatus follow, in
 * an interrupt t6 to t0, a7 to a0, ra, and mepc. */
#define S_REGISTERS(op) \
    op " s11, 4(sp)\n" op " s10, 8(sp)\n" op " s9, 12(sp)\n" op " s8, 16(sp)\n" \
    op " s7, 20(sp)\n" op " s6, 24(sp)\n" op " s5, 28(sp)\n" op " s4, 32(sp)\n" \
    op " s3, 36(sp)\n" op " s2, 40(sp)\n" op " s1, 44(sp)\n" op " s0, 48(sp)\n"
#define OTHER_REGISTERS(op) \
    op " t6, 52(sp)\n" op " t5, 56(sp)\n" op " t4, 60(sp)\n" op " t3, 64(sp)\n" \
    op " t2, 68(sp)\n" op " t1, 72(sp)\n" op " t0, 76(sp)\n" \
    op " a7, 80(sp)\n" op " a6, 84(sp)\n" op " a5, 88(sp)\n" op " a4, 92(sp)\n" \
    op " a3, 96(sp)\n" op " a2, 100(sp)\n" op " a1, 104(sp)\n" op " a0, 108(sp)\n" op " ra, 112(sp)\n"

/* tx_thread_stack_ptr is 8 bytes into the control block. */
__asm__(".text\n.align 2\n.globl port_switch\n.type port_switch, @function\nport_switch:\n"
        " addi sp, sp, -64\n"
        " sw zero, 0(sp)\n" S_REGISTERS("sw") " sw ra, 52(sp)\n csrr t0, mstatus\n sw t0, 56(sp)\n"
        " la t0, _tx_thread_current_ptr\n lw t1, 0(t0)\n sw sp, 8(t1)\n"
        " j schedule\n.size port_switch, . - port_switch\n"
        /* Nobody called it: a debugger that looks for its caller ends here. */
        ".globl schedule\n.type schedule, @function\nschedule:\n .cfi_startproc\n .cfi_undefined ra\n"
        " la sp, __stack_top\n call mk_pick\n"
        " la t0, _tx_thread_current_ptr\n lw t1, 0(t0)\n lw sp, 8(t1)\n"
        "go_on:\n lw t0, 0(sp)\n bnez t0, 1f\n"
        S_REGISTERS("lw") " lw ra, 52(sp)\n addi sp, sp, 64\n ret\n"
        "1: lw t0, 120(sp)\n csrw mepc, t0\n li t0, 0x1880\n csrw mstatus, t0\n"
        S_REGISTERS("lw") OTHER_REGISTERS("lw") " addi sp, sp, 128\n mret\n"
        " .cfi_endproc\n.size schedule, . - schedule\n"
        /* What was interrupted can be unwound, by the frame that s0 points to. */
        ".align 2\n.globl trap\n.type trap, @function\ntrap:\n"
        " .cfi_startproc\n .cfi_signal_frame\n .cfi_return_column 64\n .cfi_undefined 64\n"
        " addi sp, sp, -128\n" S_REGISTERS("sw") OTHER_REGISTERS("sw")
        " li t0, 1\n sw t0, 0(sp)\n csrr t0, mepc\n sw t0, 120(sp)\n"
        " mv a0, sp\n mv s0, sp\n"
        " .cfi_def_cfa s0, 128\n .cfi_offset 64, -8\n .cfi_offset ra, -16\n .cfi_offset s0, -80\n"
        /* Of a thread: on the stack of the system. While idle it is that already. */
        " la t0, _tx_thread_current_ptr\n lw t1, 0(t0)\n beqz t1, 2f\n la sp, __stack_top\n"
        "2: call trap_body\n mv sp, s0\n beqz a0, go_on\n"
        " la t0, _tx_thread_current_ptr\n lw t1, 0(t0)\n sw sp, 8(t1)\n j schedule\n"
        " .cfi_endproc\n.size trap, . - trap\n"
        ".section .vectors, \"ax\"\n.globl _start\n.type _start, @function\n_start:\n"
        " la sp, __stack_top\n la t0, __bss_start\n la t1, __bss_end\n"
        "3: bgeu t0, t1, 4f\n sw zero, 0(t0)\n addi t0, t0, 4\n j 3b\n"
        "4: call main\n5: j 5b\n.size _start, . - _start\n.text\n");

/* Spins for ever; a debugger or a dump finds it here. */
__attribute__((noinline, used)) VOID fault_spin(VOID)
{
    for (;;)
        __asm__ volatile("");
}

static VOID fault(const uint32_t *frame)
{
    uint32_t address;
    __asm__ volatile("csrr %0, mtval" : "=r"(address));
    exception = 3;
    _tx_thread_system_state++;
    fw_counters.interrupts[3]++;
    fw_fault.vector = 3;
    fw_fault.pc = frame[30];
    fw_fault.lr = frame[28];
    fw_fault.cfsr = 0x8200u; /* as the Cortex-M3 has it, so that the events are the same */
    fw_fault.hfsr = 0x40000000u;
    fw_fault.bfar = address;
    app_last_words(fw_fault.pc, fw_fault.lr, fw_fault.cfsr, fw_fault.bfar);
    fw_fault.magic = 0x44414544u;
    fault_spin();
}

static VOID interrupt(UINT number, VOID (*body)(VOID))
{
    exception = number;
    mk_isr(number, body);
    exception = 0;
}

VOID SysTick_Handler(VOID)
{
    interrupt(TICK_VECTOR, mk_tick);
}

/* Whether the thread that was interrupted gives way to another one. */
__attribute__((used)) UINT trap_body(const uint32_t *frame)
{
    uint32_t cause;
    __asm__ volatile("csrr %0, mcause" : "=r"(cause));
    if (cause != SOFTWARE_INTERRUPT)
        fault(frame);
    MSIP = 0;
    _tx_thread_system_state++;
    if (tick_pending) {
        tick_pending = 0;
        SysTick_Handler();
    }
    if (uart_pending) {
        uart_pending = 0;
        interrupt(UART_VECTOR, app_uart_isr);
    }
    _tx_thread_system_state--;
    return _tx_thread_current_ptr != NULL && _tx_thread_execute_ptr != _tx_thread_current_ptr;
}

VOID port_start(VOID)
{
    __asm__ volatile("csrw mtvec, %0\n csrsi mie, 8" :: "r"(trap) : "memory");
    __asm__ volatile("j schedule");
    __builtin_unreachable();
}

/* The tick is a real interrupt, pended at a place that is the same in every
 * run. In a service, and while the system is idle, interrupts are open. */
VOID port_tick(VOID)
{
    ULONG before = _tx_timer_system_clock;
    tick_pending = 1;
    MSIP = 1;
    if (_tx_thread_current_ptr == NULL)
        port_restore(0);
    while (_tx_timer_system_clock == before)
        ;
    if (_tx_thread_current_ptr == NULL)
        port_disable();
}

VOID port_uart_pend(VOID)
{
    uart_pending = 1;
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

int main(void)
{
    mk_kernel_enter();
    return 0;
}
