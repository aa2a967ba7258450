/*
 * Cortex-M3 (QEMU mps2-an385): vectors, start, real context switches by
 * PendSV, a tick by SysTick, a UART interrupt by the NVIC, and a fault.
 */
#include "kernel.h"

#define ICSR (*(volatile uint32_t *)0xE000ED04u)
#define SHPR3 (*(volatile uint32_t *)0xE000ED20u)
#define CFSR (*(volatile uint32_t *)0xE000ED28u)
#define HFSR (*(volatile uint32_t *)0xE000ED2Cu)
#define BFAR (*(volatile uint32_t *)0xE000ED38u)
#define NVIC_ISER0 (*(volatile uint32_t *)0xE000E100u)
#define NVIC_ISPR0 (*(volatile uint32_t *)0xE000E200u)
#define NVIC_IPR1 (*(volatile uint32_t *)0xE000E404u)

#define PENDSV_SET (1u << 28)
#define PENDST_SET (1u << 26)
#define UART_IRQ 5u
#define UART_VECTOR (16u + UART_IRQ)

extern uint32_t __stack_top, __data_start, __data_end, __data_load, __bss_start, __bss_end;

VOID app_last_words(ULONG pc, ULONG lr, ULONG cfsr, ULONG bfar);
int main(void);
#ifdef FW_STALLS /* stalls.c has another timer, and chooses priorities */
VOID app_started(VOID);
VOID Timer_Handler(VOID);
#define TIMER_HANDLER Timer_Handler
#else
#define TIMER_HANDLER Default_Handler
#endif

UINT port_disable(VOID)
{
    UINT posture;
    __asm__ volatile("mrs %0, primask\n cpsid i" : "=r"(posture) :: "memory");
    return posture;
}

VOID port_restore(UINT posture)
{
    __asm__ volatile("msr primask, %0\n dsb\n isb" :: "r"(posture) : "memory");
}

ULONG port_exception(VOID)
{
    ULONG ipsr;
    __asm__ volatile("mrs %0, ipsr" : "=r"(ipsr));
    return ipsr & 0x1FF;
}

/* A thread that never ran has the frame that PendSV would have left. */
VOID port_stack_build(TX_THREAD *t)
{
    uint32_t *sp = (uint32_t *)(((uint32_t)t->tx_thread_stack_end + 1u) & ~7u) - 17;
    UINT i;
    sp[0] = 0xFFFFFFFDu;              /* EXC_RETURN: thread mode, PSP, no FP */
    for (i = 1; i < 15; i++)
        sp[i] = 0;                    /* r4-r11, r0-r3, r12 */
    sp[14] = 0xFFFFFFFFu;             /* lr: nobody called */
    sp[15] = (uint32_t)mk_thread_shell & ~1u;
    sp[16] = 0x01000000u;             /* xpsr: Thumb */
    t->tx_thread_stack_ptr = sp;
}

VOID port_switch(VOID)
{
    ICSR = PENDSV_SET;
}

VOID port_start(VOID)
{
    SHPR3 = (0x40u << 24) | (0xFFu << 16); /* SysTick above PendSV */
    NVIC_IPR1 = 0x40u << 8;                /* UART as SysTick: they do not nest */
    NVIC_ISER0 = 1u << UART_IRQ;
#ifdef FW_STALLS
    app_started();
#endif
    ICSR = PENDSV_SET;
    __asm__ volatile("cpsie i\n dsb\n isb" ::: "memory");
    for (;;)
        ;
}

/* The tick is a real SysTick exception, pended by hand at a place that is
 * the same in every run; the SysTick timer itself never counts. */
VOID port_tick(VOID)
{
    ULONG before = _tx_timer_system_clock;
    ICSR = PENDST_SET;
    __asm__ volatile("dsb\n isb" ::: "memory");
    while (_tx_timer_system_clock == before)
        ;
}

VOID port_uart_pend(VOID)
{
    NVIC_ISPR0 = 1u << UART_IRQ;
}

static VOID preempt(VOID)
{
    if (_tx_thread_current_ptr != NULL && _tx_thread_execute_ptr != _tx_thread_current_ptr)
        ICSR = PENDSV_SET;
}

VOID SysTick_Handler(VOID)
{
    mk_isr(15, mk_tick);
    preempt();
}

VOID UART_Handler(VOID)
{
    mk_isr(UART_VECTOR, app_uart_isr);
    preempt();
}

__attribute__((naked)) VOID PendSV_Handler(VOID)
{
    __asm__ volatile(
        "ldr r3, =_tx_thread_current_ptr\n"
        "ldr r2, [r3]\n"
        "cbz r2, 1f\n"
        "mrs r12, psp\n"
        "stmdb r12!, {r4-r11}\n"
        "str lr, [r12, #-4]!\n"
        "str r12, [r2, #8]\n"          /* tx_thread_stack_ptr */
        "1: bl mk_pick\n"
        "ldr r3, =_tx_thread_current_ptr\n"
        "ldr r2, [r3]\n"
        "ldr r12, [r2, #8]\n"
        "ldr lr, [r12], #4\n"
        "ldmia r12!, {r4-r11}\n"
        "msr psp, r12\n"
        "bx lr\n"
        ".ltorg\n");
}

/* Spins for ever; a debugger or a dump finds it here. */
__attribute__((noinline, used)) VOID fault_spin(VOID)
{
    for (;;)
        __asm__ volatile("");
}

/* saved: r4-r11, EXC_RETURN; then what the hardware pushed is on PSP or MSP. */
__attribute__((used)) VOID fault_handler(const uint32_t *saved, uint32_t msp)
{
    uint32_t psp, i;
    const uint32_t *frame;
    __asm__ volatile("mrs %0, psp" : "=r"(psp));
    frame = (const uint32_t *)((saved[8] & 4u) ? psp : msp);

    fw_counters.interrupts[3]++;
    for (i = 0; i < 8; i++)
        fw_fault.r4_r11[i] = saved[i];
    fw_fault.vector = port_exception();
    fw_fault.exc_return = saved[8];
    fw_fault.msp = msp;
    fw_fault.psp = psp;
    fw_fault.r0 = frame[0];
    fw_fault.r1 = frame[1];
    fw_fault.r2 = frame[2];
    fw_fault.r3 = frame[3];
    fw_fault.r12 = frame[4];
    fw_fault.lr = frame[5];
    fw_fault.pc = frame[6];
    fw_fault.xpsr = frame[7];
    fw_fault.cfsr = CFSR;
    fw_fault.hfsr = HFSR;
    fw_fault.bfar = BFAR;
    app_last_words(fw_fault.pc, fw_fault.lr, fw_fault.cfsr, fw_fault.bfar);
    fw_fault.magic = 0x44414544u;
    fault_spin();
}
FW_MAY_BE_REPLACED /* by crashes.c: weak there, and nothing at all otherwise */
__attribute__((naked)) VOID HardFault_Handler(VOID)
{
    __asm__ volatile(
        "mrs r1, msp\n"
        "push {r4-r11, lr}\n"
        "mov r0, sp\n"
        "sub sp, #4\n"               /* keep the stack 8-byte aligned */
        "bl fault_handler\n"
        "b .\n");
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

VOID Default_Handler(VOID)
{
    for (;;)
        ;
}

VOID Reset_Handler(VOID)
{
    uint32_t *from = &__data_load, *to;
    for (to = &__data_start; to < &__data_end;)
        *(volatile uint32_t *)to++ = *from++;
    for (to = &__bss_start; to < &__bss_end;)
        *(volatile uint32_t *)to++ = 0;
    main();
}

int main(void)
{
    __asm__ volatile("cpsid i");
    mk_kernel_enter();
    return 0;
}

__attribute__((section(".vectors"), used)) static const VOID *const vectors[16 + 32] = {
    &__stack_top,      Reset_Handler,   Default_Handler, HardFault_Handler,
    Default_Handler,   Default_Handler, Default_Handler, NULL,
    NULL,              NULL,            NULL,            Default_Handler,
    Default_Handler,   NULL,            PendSV_Handler,  SysTick_Handler,
    [16 ... UART_VECTOR - 1] = Default_Handler,
    [UART_VECTOR] = UART_Handler,
    [UART_VECTOR + 1] = TIMER_HANDLER,
    [UART_VECTOR + 2 ... 16 + 31] = Default_Handler,
};
