/*
 * A native process: every thread has its own stack and swapcontext switches
 * between them, interrupts are calls at the very places where the Cortex-M3
 * build pends them. No threads of the system, no clock: each run is the same,
 * but for addresses.
 */
#define _GNU_SOURCE
#include "kernel.h"
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

#define UART_VECTOR 21u

VOID app_last_words(ULONG pc, ULONG lr, ULONG cfsr, ULONG bfar);
VOID port_fault(VOID);

static ucontext_t scheduler, contexts[FW_MAX_THREADS];
static UINT exception, uart_pending, wait_at_end;

UINT port_disable(VOID) { return 0; }
VOID port_restore(UINT posture) { (void)posture; }
ULONG port_exception(VOID) { return exception; }

VOID port_stack_build(TX_THREAD *t)
{
    ucontext_t *c = &contexts[_tx_thread_created_count];
    getcontext(c);
    c->uc_stack.ss_sp = t->tx_thread_stack_start;
    c->uc_stack.ss_size = t->tx_thread_stack_size;
    c->uc_link = NULL;
    makecontext(c, mk_thread_shell, 0);
    t->fw_host_context = c;
    t->tx_thread_stack_ptr = t->tx_thread_stack_end;
}

VOID port_switch(VOID)
{
    TX_THREAD *t = CURRENT;
    t->tx_thread_stack_ptr = __builtin_frame_address(0);
    swapcontext(t->fw_host_context, &scheduler);
}

VOID port_start(VOID)
{
    for (;;) {
        mk_pick();
        swapcontext(&scheduler, CURRENT->fw_host_context);
    }
}

static VOID interrupt(UINT number, VOID (*body)(VOID))
{
    exception = number;
    mk_isr(number, body);
    exception = 0;
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

VOID port_uart_pend(VOID)
{
    uart_pending = 1;
}

/* What the Cortex-M3 does by a store to nowhere. */
VOID port_fault(VOID)
{
    exception = 3;
    fw_counters.interrupts[3]++;
    fw_fault.vector = 3;
    fw_fault.cfsr = 0x8200u;
    fw_fault.hfsr = 0x40000000u;
    fw_fault.bfar = 0xE0200000u;
    app_last_words(UL(__builtin_return_address(0)), UL(port_fault), fw_fault.cfsr, fw_fault.bfar);
    fw_fault.magic = 0x44414544u;
    while (wait_at_end)
        pause();
    abort();
}

int main(int argc, char **argv)
{
    wait_at_end = argc > 1 && strcmp(argv[1], "wait") == 0;
    mk_kernel_enter();
    return 0;
}
