/*
 * Another application: events without end, in a sequence that can be checked.
 * One thread inserts STREAM_STEP with its number, the number's complement, a
 * product of it and a constant; every 64th is followed by STREAM_MARK. How fast
 * is for who starts it to say: so many microseconds lie between two events,
 * none at all where the word is 0.
 */
#include "kernel.h"

enum stream_event {
    STREAM_STEP = 4096, /* number, ~number, number * 2654435761, "STRM"    */
    STREAM_MARK         /* number / 64                                     */
};

/* Behind what the program itself has of RAM; a loader puts a word there before
 * the start. On the host it is STREAM_PERIOD in the environment. */
#ifdef __arm__
#define PERIOD (*(volatile uint32_t *)0x20010000u)
#else
#define PERIOD stream_period
#endif
volatile uint32_t stream_period;

#define REGISTRY 8
static ULONG trace_buffer[(sizeof(TX_TRACE_HEADER) + REGISTRY * sizeof(TX_TRACE_OBJECT_ENTRY)
                           + FW_RING_EVENTS * sizeof(TX_TRACE_BUFFER_ENTRY)) / sizeof(ULONG)];
static ULONG stack[FW_STACK / sizeof(ULONG)] __attribute__((aligned(16)));
static TX_THREAD streamer;
volatile uint32_t stream_number;

UINT app_line_has_frame(VOID) { return 0; }
VOID app_uart_isr(VOID) {}
VOID app_last_words(ULONG pc, ULONG lr, ULONG cfsr, ULONG bfar)
{
    (void)pc; (void)lr; (void)cfsr; (void)bfar;
}

#ifdef __arm__
#define SYST_CSR (*(volatile uint32_t *)0xE000E010u)
#define SYST_RVR (*(volatile uint32_t *)0xE000E014u)
#define SYST_CVR (*(volatile uint32_t *)0xE000E018u)

/* SysTick counts 25 MHz and is asked, not heard. */
static VOID rest(uint32_t microseconds)
{
    SYST_RVR = microseconds * 25u - 1u;
    SYST_CVR = 0;
    SYST_CSR = 5;
    while (!(SYST_CSR & (1u << 16)))
        ;
}
#else
#include <stdlib.h>
#include <unistd.h>
static VOID rest(uint32_t microseconds) { usleep(microseconds); }
#endif

static VOID streamer_entry(ULONG unused)
{
    (void)unused;
    for (;;) {
        uint32_t n = stream_number, period = PERIOD;
        _tx_trace_user_event_insert(STREAM_STEP, (ULONG)n, (ULONG)~n, (ULONG)(n * 2654435761u), 0x5354524Du);
        if (n % 64 == 63)
            _tx_trace_user_event_insert(STREAM_MARK, n / 64, 0, 0, 0);
        stream_number = n + 1;
        if (period != 0)
            rest(period);
    }
}

VOID app_define(VOID)
{
#ifndef __arm__
    const char *period = getenv("STREAM_PERIOD");
    stream_period = period ? (uint32_t)atoi(period) : 20000u;
#endif
    _tx_trace_enable(trace_buffer, sizeof trace_buffer, REGISTRY);
    mk_thread_create(&streamer, "streamer", streamer_entry, 0, stack, FW_STACK, 5, 1);
}
