/* The trace buffer: layout, registry, insertion, wrap, late patches. */
#include "kernel.h"

#ifdef TX_ENABLE_EVENT_TRACE

TX_TRACE_HEADER *_tx_trace_header_ptr;
TX_TRACE_OBJECT_ENTRY *_tx_trace_registry_start_ptr;
TX_TRACE_OBJECT_ENTRY *_tx_trace_registry_end_ptr;
TX_TRACE_BUFFER_ENTRY *_tx_trace_buffer_start_ptr;
TX_TRACE_BUFFER_ENTRY *_tx_trace_buffer_end_ptr;
TX_TRACE_BUFFER_ENTRY *_tx_trace_buffer_current_ptr;
ULONG _tx_trace_event_enable_bits;
ULONG _tx_trace_simulated_time;
VOID (*_tx_trace_full_notify_function)(VOID *buffer);
ULONG _tx_trace_total_registry_entries;
ULONG _tx_trace_available_registry_entries;
ULONG _tx_trace_registry_search_start;

/* Every insert costs the pretend CPU some cycles, never the same number. */
static uint32_t jitter = 0x3A30u;

static ULONG next_stamp(VOID)
{
    jitter = jitter * 1103515245u + 12345u;
    fw_clock += 24u + ((jitter >> 16) % 90u);
    _tx_trace_simulated_time++; /* a port without a counter would stamp with this */
    return (ULONG)fw_clock;
}

static VOID count(ULONG id)
{
    fw_counters.events++;
#if FW_CORES > 1
    fw_counters.by_core[fw_core]++;
#endif
    if (id < 128)
        fw_counters.by_id[id]++;
    else if (id >= 4096 && id < 4112)
        fw_counters.user[id - 4096]++;
    else
        fw_counters.other++;
}

static VOID checkpoint(VOID)
{
    size_t slot = (size_t)(_tx_trace_buffer_current_ptr - _tx_trace_buffer_start_ptr);
    if (slot % FW_CHECKPOINT_EVERY == 0 && slot < FW_RING_EVENTS) {
        mk_account();
        fw_checkpoints[slot / FW_CHECKPOINT_EVERY] = fw_counters;
    }
}

VOID mk_trace(ULONG id, ULONG category, ULONG i1, ULONG i2, ULONG i3, ULONG i4)
{
    /* Volatile, so that the stores leave in the order in which they stand. */
    volatile TX_TRACE_BUFFER_ENTRY *e = _tx_trace_buffer_current_ptr;
    TX_TRACE_BUFFER_ENTRY *next;
    ULONG state = SYSTEM_STATE | port_exception();
    ULONG who, priority;

    if (e == NULL || (_tx_trace_event_enable_bits & category) == 0)
        return;
    checkpoint();

    if (state == 0) {
        TX_THREAD *t = CURRENT;
        who = UL(t);
        priority = 0x80000000u | (t->tx_thread_preempt_threshold << 16) | t->tx_thread_priority;
    } else if (state < TX_INITIALIZE_IN_PROGRESS) {
        who = 0xFFFFFFFFu;
        priority = UL(CURRENT);
    } else {
        who = 0xF0F0F0F0u;
        priority = 0;
    }

    e->tx_trace_buffer_entry_thread_pointer = who;
    e->tx_trace_buffer_entry_thread_priority = priority;
    e->tx_trace_buffer_entry_event_id = ((ULONG)fw_core << 24) | id; /* SMP: the core in the top byte */
    e->tx_trace_buffer_entry_time_stamp = next_stamp();
    e->tx_trace_buffer_entry_information_field_1 = i1;
    e->tx_trace_buffer_entry_information_field_2 = i2;
    e->tx_trace_buffer_entry_information_field_3 = i3;
    e->tx_trace_buffer_entry_information_field_4 = i4;
    count(id);

    next = _tx_trace_buffer_current_ptr + 1;
    if (next >= _tx_trace_buffer_end_ptr) {
        next = _tx_trace_buffer_start_ptr;
        fw_counters.wraps++;
    }
    _tx_trace_buffer_current_ptr = next;
    _tx_trace_header_ptr->tx_trace_header_buffer_current_pointer = UL(next);
    if (next == _tx_trace_buffer_start_ptr && _tx_trace_full_notify_function != NULL)
        _tx_trace_full_notify_function(_tx_trace_header_ptr);
}

/* As in the real kernel the slot is remembered before the insert, without a
 * look at the enable bits: what is filtered out is patched into the oldest. */
mk_patch mk_trace_patchable(ULONG id, ULONG category, ULONG i1, ULONG i2, ULONG i3, ULONG i4)
{
    mk_patch p;
    p.slot = _tx_trace_buffer_current_ptr;
    p.stamp = 0;
    mk_trace(id, category, i1, i2, i3, i4);
    if (p.slot != NULL)
        p.stamp = p.slot->tx_trace_buffer_entry_time_stamp;
    return p;
}

VOID mk_trace_patch_2(mk_patch p, ULONG value)
{
    if (p.slot != NULL && p.slot->tx_trace_buffer_entry_time_stamp == p.stamp) {
        p.slot->tx_trace_buffer_entry_information_field_2 = value;
        fw_counters.patches++;
    }
}

VOID mk_trace_patch_4(mk_patch p, ULONG value)
{
    if (p.slot != NULL && p.slot->tx_trace_buffer_entry_time_stamp == p.stamp) {
        p.slot->tx_trace_buffer_entry_information_field_4 = value;
        fw_counters.patches++;
    }
}

/* Search from the search start: the first slot that never had an object or
 * has this one; else the last free slot of the round; else nothing happens. */
VOID mk_trace_register(UINT type, VOID *object, const CHAR *name, ULONG p1, ULONG p2)
{
    ULONG n, i, at = _tx_trace_registry_search_start, total = _tx_trace_total_registry_entries;
    TX_TRACE_OBJECT_ENTRY *found = NULL;

    if (_tx_trace_registry_start_ptr == NULL || _tx_trace_available_registry_entries == 0)
        return;
    for (n = 0; n < total; n++, at = (at + 1) % total) {
        TX_TRACE_OBJECT_ENTRY *e = &_tx_trace_registry_start_ptr[at];
        if (e->tx_trace_object_entry_thread_pointer == 0
            || e->tx_trace_object_entry_thread_pointer == UL(object)) {
            found = e;
            break;
        }
        if (e->tx_trace_object_entry_available)
            found = e;
    }
    if (found == NULL)
        return;
    at = (ULONG)(found - _tx_trace_registry_start_ptr);
    _tx_trace_registry_search_start = (at + 1) % total;
    _tx_trace_available_registry_entries--;
    found->tx_trace_object_entry_available = 0;
    found->tx_trace_object_entry_type = (UCHAR)type;
    found->tx_trace_object_entry_reserved1 = 0;
    found->tx_trace_object_entry_reserved2 = 0;
    found->tx_trace_object_entry_thread_pointer = UL(object);
    found->tx_trace_object_entry_param_1 = p1;
    found->tx_trace_object_entry_param_2 = p2;
    for (i = 0; i < TX_TRACE_OBJECT_REGISTRY_NAME - 1 && name != NULL && name[i]; i++)
        found->tx_trace_object_entry_name[i] = (UCHAR)name[i];
    found->tx_trace_object_entry_name[i] = 0; /* what lies behind stays */
    if (type == OBJ_THREAD) {
        UINT priority = ((TX_THREAD *)object)->tx_thread_priority;
        found->tx_trace_object_entry_reserved1 = (UCHAR)(0x80u | (priority >> 8));
        found->tx_trace_object_entry_reserved2 = (UCHAR)priority;
    }
}

VOID mk_trace_unregister(VOID *object)
{
    ULONG i;
    if (_tx_trace_registry_start_ptr == NULL)
        return;
    for (i = 0; i < _tx_trace_total_registry_entries; i++) {
        TX_TRACE_OBJECT_ENTRY *e = &_tx_trace_registry_start_ptr[i];
        if (e->tx_trace_object_entry_thread_pointer == UL(object)) {
            e->tx_trace_object_entry_available = 1;
            _tx_trace_available_registry_entries++;
            _tx_trace_registry_search_start = i;
            return;
        }
    }
}

/* Objects that exist when the trace is switched on; note what is lost. */
static VOID register_existing(VOID)
{
    ULONG n;
    TX_THREAD *t = _tx_thread_created_ptr;
    TX_TIMER *tm = _tx_timer_created_ptr;
    TX_EVENT_FLAGS_GROUP *g = _tx_event_flags_created_ptr;
    TX_QUEUE *q = _tx_queue_created_ptr;
    TX_SEMAPHORE *s = _tx_semaphore_created_ptr;
    TX_MUTEX *m = _tx_mutex_created_ptr;
    TX_BLOCK_POOL *b = _tx_block_pool_created_ptr;
    TX_BYTE_POOL *y = _tx_byte_pool_created_ptr;

    for (n = _tx_thread_created_count; n--; t = t->tx_thread_created_next)
        mk_trace_register(OBJ_THREAD, t, t->tx_thread_name,
                          UL(t->tx_thread_stack_start), t->tx_thread_stack_size);
    for (n = _tx_timer_created_count; n--; tm = tm->tx_timer_created_next)
        mk_trace_register(OBJ_TIMER, tm, tm->tx_timer_name, 0,
                          tm->tx_timer_internal.tx_timer_internal_re_initialize_ticks);
    for (n = _tx_event_flags_created_count; n--; g = g->tx_event_flags_group_created_next)
        mk_trace_register(OBJ_FLAGS, g, g->tx_event_flags_group_name, 0, 0);
    for (n = _tx_queue_created_count; n--; q = q->tx_queue_created_next)
        mk_trace_register(OBJ_QUEUE, q, q->tx_queue_name,
                          q->tx_queue_capacity * (ULONG)sizeof(ULONG), 0);
    for (n = _tx_semaphore_created_count; n--; s = s->tx_semaphore_created_next)
        mk_trace_register(OBJ_SEMAPHORE, s, s->tx_semaphore_name, 0, 0);
    for (n = _tx_mutex_created_count; n--; m = m->tx_mutex_created_next)
        mk_trace_register(OBJ_MUTEX, m, m->tx_mutex_name, m->tx_mutex_inherit, 0);
    for (n = _tx_block_pool_created_count; n--; b = b->tx_block_pool_created_next)
        mk_trace_register(OBJ_BLOCK_POOL, b, b->tx_block_pool_name, b->tx_block_pool_size, 0);
    for (n = _tx_byte_pool_created_count; n--; y = y->tx_byte_pool_created_next)
        mk_trace_register(OBJ_BYTE_POOL, y, y->tx_byte_pool_name, y->tx_byte_pool_size, 0);
}

UINT _tx_trace_enable(VOID *start, ULONG size, ULONG registry_entries)
{
    TX_TRACE_HEADER *h = start;
    TX_TRACE_OBJECT_ENTRY *r = (TX_TRACE_OBJECT_ENTRY *)(h + 1);
    TX_TRACE_BUFFER_ENTRY *b = (TX_TRACE_BUFFER_ENTRY *)(r + registry_entries);
    size_t used = (size_t)((UCHAR *)b - (UCHAR *)start);
    size_t events, i;

    if (_tx_trace_buffer_current_ptr != NULL)
        return TX_NOT_DONE;
    events = (size - used) / sizeof(TX_TRACE_BUFFER_ENTRY);

    _tx_trace_event_enable_bits = 0xFFFFFFFFu;
    for (i = 0; i < registry_entries; i++) {
        r[i].tx_trace_object_entry_available = 1;
        r[i].tx_trace_object_entry_type = 0;
        r[i].tx_trace_object_entry_reserved1 = 0;
        r[i].tx_trace_object_entry_reserved2 = 0;
        r[i].tx_trace_object_entry_thread_pointer = 0;
    }
    for (i = 0; i < events; i++)
        b[i].tx_trace_buffer_entry_thread_pointer = 0;

    h->tx_trace_header_id = 0x54585442u;
    h->tx_trace_header_timer_valid_mask = 0xFFFFFFFFu;
    h->tx_trace_header_trace_base_address = UL(h);
    h->tx_trace_header_registry_start_pointer = UL(r);
    h->tx_trace_header_reserved1 = 0;
    h->tx_trace_header_object_name_size = TX_TRACE_OBJECT_REGISTRY_NAME;
    h->tx_trace_header_registry_end_pointer = UL(b);
    h->tx_trace_header_buffer_start_pointer = UL(b);
    h->tx_trace_header_buffer_end_pointer = UL(b + events);
    h->tx_trace_header_buffer_current_pointer = UL(b);
    h->tx_trace_header_reserved2 = 0xAAAAAAAAu;
    h->tx_trace_header_reserved3 = 0xBBBBBBBBu;
    h->tx_trace_header_reserved4 = 0xCCCCCCCCu;

    _tx_trace_header_ptr = h;
    _tx_trace_registry_start_ptr = r;
    _tx_trace_registry_end_ptr = r + registry_entries;
    _tx_trace_buffer_start_ptr = b;
    _tx_trace_buffer_end_ptr = b + events;
    _tx_trace_total_registry_entries = registry_entries;
    _tx_trace_available_registry_entries = registry_entries;
    _tx_trace_registry_search_start = 0;
    register_existing();

    _tx_trace_buffer_current_ptr = b;
    mk_trace(6, T_INTERNAL, 0, 0, 0, 0);
    mk_trace(6, T_INTERNAL, 0, 0, 0, 0);
    return TX_SUCCESS;
}

UINT _tx_trace_disable(VOID)
{
    if (_tx_trace_buffer_current_ptr == NULL)
        return TX_NOT_DONE;
    _tx_trace_buffer_current_ptr = NULL;
    _tx_trace_registry_start_ptr = NULL;
    return TX_SUCCESS;
}

VOID _tx_trace_initialize(VOID)
{
    _tx_trace_header_ptr = NULL;
    _tx_trace_registry_start_ptr = NULL;
    _tx_trace_registry_end_ptr = NULL;
    _tx_trace_buffer_start_ptr = NULL;
    _tx_trace_buffer_end_ptr = NULL;
    _tx_trace_buffer_current_ptr = NULL;
}

UINT _tx_trace_user_event_insert(ULONG id, ULONG i1, ULONG i2, ULONG i3, ULONG i4)
{
    UINT posture = port_disable();
    UINT status = _tx_trace_buffer_current_ptr == NULL ? TX_NOT_DONE : TX_SUCCESS;
    mk_trace(id, T_USER, i1, i2, i3, i4);
    port_restore(posture);
    return status;
}

#else /* the kernel was built without the trace: only the functions remain */

VOID _tx_trace_initialize(VOID) { __asm__ volatile(""); }

UINT _tx_trace_enable(VOID *start, ULONG size, ULONG registry_entries)
{
    (void)start; (void)size; (void)registry_entries;
    return TX_FEATURE_NOT_ENABLED;
}

UINT _tx_trace_disable(VOID) { return TX_FEATURE_NOT_ENABLED; }

UINT _tx_trace_user_event_insert(ULONG id, ULONG i1, ULONG i2, ULONG i3, ULONG i4)
{
    (void)id; (void)i1; (void)i2; (void)i3; (void)i4;
    return TX_FEATURE_NOT_ENABLED;
}

#endif
