/*
 * The firmware's own look at its ring, for runs in which somebody else writes
 * to it: linked in front of mk_thread_sleep (--wrap), which threads call while
 * no event is inserted. What it finds wrong first, it keeps.
 */
#include "kernel.h"

extern TX_TRACE_HEADER *_tx_trace_header_ptr;
extern TX_TRACE_BUFFER_ENTRY *_tx_trace_buffer_start_ptr, *_tx_trace_buffer_end_ptr, *_tx_trace_buffer_current_ptr;

VOID __real_mk_thread_sleep(ULONG ticks);
VOID __wrap_mk_thread_sleep(ULONG ticks);

struct {
    uint32_t checks; /* how often it looked                       */
    uint32_t wrong;  /* which of the rules below was broken first */
    uint32_t slot;   /* in which slot                             */
    uint32_t marks;  /* events of the id below that it saw, newest ring alone */
    uint32_t id;     /* told from outside                         */
} fw_ring;

static int is_thread(ULONG who)
{
    TX_THREAD *t = _tx_thread_created_ptr;
    ULONG n = _tx_thread_created_count;
    for (; n--; t = t->tx_thread_created_next)
        if (UL(t) == who)
            return 1;
    return 0;
}

static VOID broken(uint32_t rule, uint32_t slot)
{
    if (fw_ring.wrong == 0) {
        fw_ring.wrong = rule;
        fw_ring.slot = slot;
    }
}

static VOID look(VOID)
{
    const TX_TRACE_HEADER *h = _tx_trace_header_ptr;
    const TX_TRACE_BUFFER_ENTRY *start = _tx_trace_buffer_start_ptr, *end = _tx_trace_buffer_end_ptr;
    const TX_TRACE_BUFFER_ENTRY *at = _tx_trace_buffer_current_ptr;
    uint32_t slots = (uint32_t)(end - start), i, marks = 0;
    ULONG before = 0;
    int any = 0;

    fw_ring.checks++;
    if (h->tx_trace_header_id != 0x54585442u || h->tx_trace_header_trace_base_address != UL(h)
        || h->tx_trace_header_buffer_start_pointer != UL(start) || h->tx_trace_header_buffer_end_pointer != UL(end))
        broken(1, 0);
    if (at < start || at >= end || (UL(at) - UL(start)) % sizeof *at != 0)
        broken(2, 0);
    else if (h->tx_trace_header_buffer_current_pointer != UL(at))
        broken(3, (uint32_t)(at - start));
    for (i = 0; i < slots; i++) { /* oldest first */
        const TX_TRACE_BUFFER_ENTRY *e = at + i < end ? at + i : at + i - slots;
        ULONG who = e->tx_trace_buffer_entry_thread_pointer;
        uint32_t slot = (uint32_t)(e - start);
        if (who == 0) {
            if (any)
                broken(4, slot); /* a hole */
            continue;
        }
        if (who != 0xFFFFFFFFu && who != 0xF0F0F0F0u) {
            if (!is_thread(who))
                broken(5, slot);
            if ((e->tx_trace_buffer_entry_thread_priority & 0x80000000u) == 0)
                broken(6, slot);
        }
        if (any && (int32_t)(e->tx_trace_buffer_entry_time_stamp - before) < 0)
            broken(7, slot);
        if (fw_ring.id != 0 && e->tx_trace_buffer_entry_event_id == fw_ring.id)
            marks++;
        before = e->tx_trace_buffer_entry_time_stamp;
        any = 1;
    }
    fw_ring.marks = marks;
}

/* A place to stop at: outside of every insertion. */
VOID __wrap_mk_thread_sleep(ULONG ticks)
{
    UINT posture = port_disable();
    if (_tx_trace_header_ptr != NULL && _tx_trace_buffer_current_ptr != NULL)
        look();
    port_restore(posture);
    __real_mk_thread_sleep(ticks);
}
