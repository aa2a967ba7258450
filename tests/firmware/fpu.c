/*
 * The same programs on a Cortex-M4F: every thread uses the floating-point unit,
 * so that each exception makes room for its registers, which the processor
 * stores only when a handler uses the unit too (lazily). Linked beside
 * port_cm3.c with --wrap=mk_kernel_enter and --wrap=fw_work.
 */
#include "kernel.h"

#define VTOR (*(volatile uint32_t *)0xE000ED08u)
#define CPACR (*(volatile uint32_t *)0xE000ED88u)
#define PENDSV 14u

VOID __real_mk_kernel_enter(VOID);
VOID __wrap_mk_kernel_enter(VOID);
VOID __real_fw_work(uint32_t cycles);
VOID __wrap_fw_work(uint32_t cycles);
static uint32_t vectors_in_ram[16 + 32] __attribute__((aligned(256)));
static volatile float worked;

/* As PendSV of port_cm3.c; where EXC_RETURN says so, s16 to s31 are kept too. */
static __attribute__((naked)) VOID switch_with_floats(VOID)
{
    __asm__ volatile(
        "ldr r3, =_tx_thread_current_ptr\n"
        "ldr r2, [r3]\n"
        "cbz r2, 1f\n"
        "mrs r12, psp\n"
        "stmdb r12!, {r4-r11}\n"
        "tst lr, #0x10\n"
        "it eq\n"
        "vstmdbeq r12!, {s16-s31}\n"
        "str lr, [r12, #-4]!\n"
        "str r12, [r2, #8]\n"          /* tx_thread_stack_ptr */
        "1: bl mk_pick\n"
        "ldr r3, =_tx_thread_current_ptr\n"
        "ldr r2, [r3]\n"
        "ldr r12, [r2, #8]\n"
        "ldr lr, [r12], #4\n"
        "tst lr, #0x10\n"
        "it eq\n"
        "vldmiaeq r12!, {s16-s31}\n"
        "ldmia r12!, {r4-r11}\n"
        "msr psp, r12\n"
        "bx lr\n"
        ".ltorg\n");
}

VOID __wrap_mk_kernel_enter(VOID)
{
    const volatile uint32_t *vectors = (const volatile uint32_t *)(VTOR + 4);
    uint32_t i;
    /* Entry 0, at address 0, is the stack pointer after a reset: nobody needs it again. */
    for (i = 1; i < sizeof vectors_in_ram / sizeof *vectors_in_ram; i++)
        vectors_in_ram[i] = vectors[i - 1];
    vectors_in_ram[PENDSV] = (uint32_t)switch_with_floats | 1u;
    VTOR = (uint32_t)vectors_in_ram;
    CPACR |= 0xFu << 20;
    __asm__ volatile("dsb\n isb" ::: "memory");
    __real_mk_kernel_enter();
}

VOID __wrap_fw_work(uint32_t cycles)
{
    if (port_exception() == 0)
        worked += (float)cycles * 0.5f;
    __real_fw_work(cycles);
}
