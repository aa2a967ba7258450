/*
 * A pretend kernel: ThreadX's documented globals, control blocks and trace
 * buffer, and just enough behaviour to fill them truthfully.
 *
 * Not ThreadX, and no code of it: the names of globals and members, the
 * offsets and the order of stores are facts about ThreadX 6.4; everything
 * that moves here is ours, and its functions are called mk_*.
 */
#ifndef FW_KERNEL_H
#define FW_KERNEL_H

#include <stddef.h>
#include <stdint.h>

/* ---- Variants: how the run ends, and what the trace then looks like ---- */

#define FW_CRASH     0 /* ring wrapped, newest 51 slots in one piece          */
#define FW_NEVER     1 /* trace compiled in, never enabled                    */
#define FW_NOTRACE   2 /* trace not compiled in                               */
#define FW_DISABLED  3 /* trace switched off just before the fault            */
#define FW_UNWRAPPED 4 /* the fault comes before the ring is full             */
#define FW_STRADDLE  5 /* newest 50 lie at both ends; the time stamp overflows */

#ifndef FW_VARIANT
#define FW_VARIANT FW_CRASH
#endif
#if FW_VARIANT != FW_NOTRACE
#define TX_ENABLE_EVENT_TRACE 1
#endif

/* More than one only with port_linux.c. */
#ifndef FW_CORES
#define FW_CORES 1
#endif

/* Of each thread, in bytes. */
#if defined(__LP64__)
#define FW_STACK 4096
#elif defined(__powerpc__) || FW_CORES > 1
#define FW_STACK 1536
#else
#define FW_STACK 768
#endif

/* ---- Types ---- */

#if defined(ULONG64)
typedef unsigned long ULONG; /* 8 bytes on an LP64 host */
#elif defined(__LP64__)
typedef unsigned int ULONG;  /* 4 bytes: addresses are cut to their low half */
#else
typedef unsigned long ULONG; /* 4 bytes */
#endif
typedef unsigned int UINT;
typedef unsigned short USHORT;
typedef unsigned char UCHAR;
typedef char CHAR;
typedef void VOID;

#define UL(p) ((ULONG)(uintptr_t)(p))

#define TX_NO_WAIT      ((ULONG)0)
#define TX_WAIT_FOREVER ((ULONG)0xFFFFFFFFu)

#define TX_READY          0u
#define TX_COMPLETED      1u
#define TX_TERMINATED     2u
#define TX_SUSPENDED      3u
#define TX_SLEEP          4u
#define TX_QUEUE_SUSP     5u
#define TX_SEMAPHORE_SUSP 6u
#define TX_EVENT_FLAG     7u
#define TX_BLOCK_MEMORY   8u
#define TX_BYTE_MEMORY    9u
#define TX_MUTEX_SUSP     13u

#define TX_OR        0u
#define TX_OR_CLEAR  1u
#define TX_AND       2u
#define TX_AND_CLEAR 3u

#define TX_SUCCESS      0x00u
#define TX_NO_MEMORY    0x10u
#define TX_NO_EVENTS    0x07u
#define TX_QUEUE_EMPTY  0x0Au
#define TX_QUEUE_FULL   0x0Bu
#define TX_NO_INSTANCE  0x0Du
#define TX_NOT_OWNED    0x1Eu
#define TX_NOT_AVAILABLE 0x1Du
#define TX_NOT_DONE     0x20u
#define TX_FEATURE_NOT_ENABLED 0xFFu

#define TX_INITIALIZE_IN_PROGRESS ((ULONG)0xF0F0F0F0u)

/* ---- Control blocks ---- */

struct TX_THREAD_STRUCT;

typedef struct TX_TIMER_INTERNAL_STRUCT {
    ULONG tx_timer_internal_remaining_ticks;
    ULONG tx_timer_internal_re_initialize_ticks;
    VOID (*tx_timer_internal_timeout_function)(ULONG id);
    ULONG tx_timer_internal_timeout_param;
    struct TX_TIMER_INTERNAL_STRUCT *tx_timer_internal_active_next;
    struct TX_TIMER_INTERNAL_STRUCT *tx_timer_internal_active_previous;
    struct TX_TIMER_INTERNAL_STRUCT **tx_timer_internal_list_head;
#ifdef __LP64__
    VOID *tx_timer_internal_extension_ptr;
#endif
} TX_TIMER_INTERNAL;

typedef struct TX_MUTEX_STRUCT TX_MUTEX;

typedef struct TX_THREAD_STRUCT {
    ULONG tx_thread_id;
    ULONG tx_thread_run_count;
    VOID *tx_thread_stack_ptr;
    VOID *tx_thread_stack_start;
    VOID *tx_thread_stack_end;
    ULONG tx_thread_stack_size;
    ULONG tx_thread_time_slice;
    ULONG tx_thread_new_time_slice;
    struct TX_THREAD_STRUCT *tx_thread_ready_next;
    struct TX_THREAD_STRUCT *tx_thread_ready_previous;
#ifdef __LP64__
    /* The Linux port keeps 48 bytes of its own here; so do we. */
    VOID *fw_host_context;
    UCHAR fw_host_pad[40];
#endif
    CHAR *tx_thread_name;
    UINT tx_thread_priority;
    UINT tx_thread_state;
    UINT tx_thread_delayed_suspend;
    UINT tx_thread_suspending;
    UINT tx_thread_preempt_threshold;
    VOID (*tx_thread_schedule_hook)(struct TX_THREAD_STRUCT *thread, ULONG id);
    VOID (*tx_thread_entry)(ULONG id);
    ULONG tx_thread_entry_parameter;
    TX_TIMER_INTERNAL tx_thread_timer;
    VOID (*tx_thread_suspend_cleanup)(struct TX_THREAD_STRUCT *thread, ULONG sequence);
    VOID *tx_thread_suspend_control_block;
    struct TX_THREAD_STRUCT *tx_thread_suspended_next;
    struct TX_THREAD_STRUCT *tx_thread_suspended_previous;
    ULONG tx_thread_suspend_info;
    VOID *tx_thread_additional_suspend_info;
    UINT tx_thread_suspend_option;
    UINT tx_thread_suspend_status;
#ifdef __LP64__
    VOID *tx_thread_extension_ptr;
#endif
    struct TX_THREAD_STRUCT *tx_thread_created_next;
    struct TX_THREAD_STRUCT *tx_thread_created_previous;
    VOID *tx_thread_filex_ptr;
    UINT tx_thread_user_priority;
    UINT tx_thread_user_preempt_threshold;
    UINT tx_thread_inherit_priority;
    UINT tx_thread_owned_mutex_count;
    TX_MUTEX *tx_thread_owned_mutex_list;
    VOID *tx_thread_stack_highest_ptr;
    VOID (*tx_thread_entry_exit_notify)(struct TX_THREAD_STRUCT *thread, UINT type);
    ULONG tx_thread_suspension_sequence;
} TX_THREAD;

typedef struct TX_TIMER_STRUCT {
    ULONG tx_timer_id;
    CHAR *tx_timer_name;
    TX_TIMER_INTERNAL tx_timer_internal;
    struct TX_TIMER_STRUCT *tx_timer_created_next;
    struct TX_TIMER_STRUCT *tx_timer_created_previous;
} TX_TIMER;

typedef struct TX_QUEUE_STRUCT {
    ULONG tx_queue_id;
    CHAR *tx_queue_name;
    UINT tx_queue_message_size;
    UINT tx_queue_capacity;
    UINT tx_queue_enqueued;
    UINT tx_queue_available_storage;
    ULONG *tx_queue_start;
    ULONG *tx_queue_end;
    ULONG *tx_queue_read;
    ULONG *tx_queue_write;
    TX_THREAD *tx_queue_suspension_list;
    UINT tx_queue_suspended_count;
    struct TX_QUEUE_STRUCT *tx_queue_created_next;
    struct TX_QUEUE_STRUCT *tx_queue_created_previous;
    VOID (*tx_queue_send_notify)(struct TX_QUEUE_STRUCT *queue);
} TX_QUEUE;

typedef struct TX_SEMAPHORE_STRUCT {
    ULONG tx_semaphore_id;
    CHAR *tx_semaphore_name;
    ULONG tx_semaphore_count;
    TX_THREAD *tx_semaphore_suspension_list;
    UINT tx_semaphore_suspended_count;
    struct TX_SEMAPHORE_STRUCT *tx_semaphore_created_next;
    struct TX_SEMAPHORE_STRUCT *tx_semaphore_created_previous;
    VOID (*tx_semaphore_put_notify)(struct TX_SEMAPHORE_STRUCT *semaphore);
} TX_SEMAPHORE;

struct TX_MUTEX_STRUCT {
    ULONG tx_mutex_id;
    CHAR *tx_mutex_name;
    UINT tx_mutex_ownership_count;
    TX_THREAD *tx_mutex_owner;
    UINT tx_mutex_inherit;
    UINT tx_mutex_original_priority;
    TX_THREAD *tx_mutex_suspension_list;
    UINT tx_mutex_suspended_count;
    struct TX_MUTEX_STRUCT *tx_mutex_created_next;
    struct TX_MUTEX_STRUCT *tx_mutex_created_previous;
    UINT tx_mutex_highest_priority_waiting;
    struct TX_MUTEX_STRUCT *tx_mutex_owned_next;
    struct TX_MUTEX_STRUCT *tx_mutex_owned_previous;
};

typedef struct TX_EVENT_FLAGS_GROUP_STRUCT {
    ULONG tx_event_flags_group_id;
    CHAR *tx_event_flags_group_name;
    ULONG tx_event_flags_group_current;
    UINT tx_event_flags_group_reset_search;
    TX_THREAD *tx_event_flags_group_suspension_list;
    UINT tx_event_flags_group_suspended_count;
    struct TX_EVENT_FLAGS_GROUP_STRUCT *tx_event_flags_group_created_next;
    struct TX_EVENT_FLAGS_GROUP_STRUCT *tx_event_flags_group_created_previous;
    ULONG tx_event_flags_group_delayed_clear;
    VOID (*tx_event_flags_group_set_notify)(struct TX_EVENT_FLAGS_GROUP_STRUCT *group);
} TX_EVENT_FLAGS_GROUP;

typedef struct TX_BLOCK_POOL_STRUCT {
    ULONG tx_block_pool_id;
    CHAR *tx_block_pool_name;
    UINT tx_block_pool_available;
    UINT tx_block_pool_total;
    UCHAR *tx_block_pool_available_list;
    UCHAR *tx_block_pool_start;
    ULONG tx_block_pool_size;
    UINT tx_block_pool_block_size;
    TX_THREAD *tx_block_pool_suspension_list;
    UINT tx_block_pool_suspended_count;
    struct TX_BLOCK_POOL_STRUCT *tx_block_pool_created_next;
    struct TX_BLOCK_POOL_STRUCT *tx_block_pool_created_previous;
} TX_BLOCK_POOL;

typedef struct TX_BYTE_POOL_STRUCT {
    ULONG tx_byte_pool_id;
    CHAR *tx_byte_pool_name;
    ULONG tx_byte_pool_available;
    UINT tx_byte_pool_fragments;
    UCHAR *tx_byte_pool_list;
    UCHAR *tx_byte_pool_search;
    UCHAR *tx_byte_pool_start;
    ULONG tx_byte_pool_size;
    TX_THREAD *tx_byte_pool_owner;
    TX_THREAD *tx_byte_pool_suspension_list;
    UINT tx_byte_pool_suspended_count;
    struct TX_BYTE_POOL_STRUCT *tx_byte_pool_created_next;
    struct TX_BYTE_POOL_STRUCT *tx_byte_pool_created_previous;
} TX_BYTE_POOL;

/* ---- Trace buffer ---- */

#define TX_TRACE_OBJECT_REGISTRY_NAME 32

typedef struct TX_TRACE_HEADER_STRUCT {
    ULONG tx_trace_header_id;
    ULONG tx_trace_header_timer_valid_mask;
    ULONG tx_trace_header_trace_base_address;
    ULONG tx_trace_header_registry_start_pointer;
    USHORT tx_trace_header_reserved1;
    USHORT tx_trace_header_object_name_size;
    ULONG tx_trace_header_registry_end_pointer;
    ULONG tx_trace_header_buffer_start_pointer;
    ULONG tx_trace_header_buffer_end_pointer;
    ULONG tx_trace_header_buffer_current_pointer;
    ULONG tx_trace_header_reserved2;
    ULONG tx_trace_header_reserved3;
    ULONG tx_trace_header_reserved4;
} TX_TRACE_HEADER;

typedef struct TX_TRACE_OBJECT_ENTRY_STRUCT {
    UCHAR tx_trace_object_entry_available;
    UCHAR tx_trace_object_entry_type;
    UCHAR tx_trace_object_entry_reserved1;
    UCHAR tx_trace_object_entry_reserved2;
    ULONG tx_trace_object_entry_thread_pointer;
    ULONG tx_trace_object_entry_param_1;
    ULONG tx_trace_object_entry_param_2;
    UCHAR tx_trace_object_entry_name[TX_TRACE_OBJECT_REGISTRY_NAME];
} TX_TRACE_OBJECT_ENTRY;

typedef struct TX_TRACE_BUFFER_ENTRY_STRUCT {
    ULONG tx_trace_buffer_entry_thread_pointer;
    ULONG tx_trace_buffer_entry_thread_priority;
    ULONG tx_trace_buffer_entry_event_id;
    ULONG tx_trace_buffer_entry_time_stamp;
    ULONG tx_trace_buffer_entry_information_field_1;
    ULONG tx_trace_buffer_entry_information_field_2;
    ULONG tx_trace_buffer_entry_information_field_3;
    ULONG tx_trace_buffer_entry_information_field_4;
} TX_TRACE_BUFFER_ENTRY;

/* ---- Globals ---- */

extern const CHAR _tx_version_id[];
#if FW_CORES > 1 /* as in ThreadX SMP: one for each core */
extern TX_THREAD *volatile _tx_thread_current_ptr[FW_CORES];
extern TX_THREAD *volatile _tx_thread_execute_ptr[FW_CORES];
extern volatile ULONG _tx_thread_system_state[FW_CORES];
extern UINT fw_core; /* the core whose doings are simulated now */
#define CURRENT (_tx_thread_current_ptr[fw_core])
#define EXECUTE (_tx_thread_execute_ptr[fw_core])
#define SYSTEM_STATE (_tx_thread_system_state[fw_core])
#else
extern TX_THREAD *volatile _tx_thread_current_ptr;
extern TX_THREAD *volatile _tx_thread_execute_ptr;
extern volatile ULONG _tx_thread_system_state;
#define fw_core 0u
#define CURRENT _tx_thread_current_ptr
#define EXECUTE _tx_thread_execute_ptr
#define SYSTEM_STATE _tx_thread_system_state
#endif
extern volatile UINT _tx_thread_preempt_disable;
extern volatile ULONG _tx_timer_system_clock;
extern TX_THREAD *_tx_thread_created_ptr;
extern ULONG _tx_thread_created_count;
extern TX_TIMER *_tx_timer_created_ptr;
extern ULONG _tx_timer_created_count;
extern TX_QUEUE *_tx_queue_created_ptr;
extern ULONG _tx_queue_created_count;
extern TX_MUTEX *_tx_mutex_created_ptr;
extern ULONG _tx_mutex_created_count;
extern TX_SEMAPHORE *_tx_semaphore_created_ptr;
extern ULONG _tx_semaphore_created_count;
extern TX_EVENT_FLAGS_GROUP *_tx_event_flags_created_ptr;
extern ULONG _tx_event_flags_created_count;
extern TX_BLOCK_POOL *_tx_block_pool_created_ptr;
extern ULONG _tx_block_pool_created_count;
extern TX_BYTE_POOL *_tx_byte_pool_created_ptr;
extern ULONG _tx_byte_pool_created_count;
extern TX_THREAD _tx_timer_thread;

/* ---- Trace ---- */

#define T_INTERNAL  0x00000001u
#define T_BLOCK     0x00000002u
#define T_BYTE      0x00000004u
#define T_FLAGS     0x00000008u
#define T_MUTEX     0x00000020u
#define T_QUEUE     0x00000040u
#define T_SEMAPHORE 0x00000080u
#define T_THREAD    0x00000100u
#define T_TIME      0x00000200u
#define T_TIMER     0x00000400u
#define T_USER      0x80000000u

enum object_type { OBJ_THREAD = 1, OBJ_TIMER, OBJ_QUEUE, OBJ_SEMAPHORE, OBJ_MUTEX,
                   OBJ_FLAGS, OBJ_BLOCK_POOL, OBJ_BYTE_POOL };

VOID _tx_trace_initialize(VOID);
UINT _tx_trace_enable(VOID *start, ULONG size, ULONG registry_entries);
UINT _tx_trace_disable(VOID);
UINT _tx_trace_user_event_insert(ULONG id, ULONG i1, ULONG i2, ULONG i3, ULONG i4);

VOID mk_trace(ULONG id, ULONG category, ULONG i1, ULONG i2, ULONG i3, ULONG i4);
VOID mk_trace_register(UINT type, VOID *object, const CHAR *name, ULONG p1, ULONG p2);
VOID mk_trace_unregister(VOID *object);

#ifdef TX_ENABLE_EVENT_TRACE
/* A late patch: remember the slot that the next insert will take. */
typedef struct { TX_TRACE_BUFFER_ENTRY *slot; ULONG stamp; } mk_patch;
mk_patch mk_trace_patchable(ULONG id, ULONG category, ULONG i1, ULONG i2, ULONG i3, ULONG i4);
VOID mk_trace_patch_2(mk_patch p, ULONG value);
VOID mk_trace_patch_4(mk_patch p, ULONG value);
#else
typedef int mk_patch;
#define mk_trace(id, cat, a, b, c, d) ((void)(a), (void)(b), (void)(c), (void)(d))
#define mk_trace_register(t, o, n, p, q) ((void)(p), (void)(q))
#define mk_trace_unregister(o) ((void)(o))
static inline mk_patch mk_trace_patchable(ULONG id, ULONG cat, ULONG a, ULONG b, ULONG c, ULONG d)
{ (void)id; (void)cat; (void)a; (void)b; (void)c; (void)d; return 0; }
#define mk_trace_patch_2(p, v) ((void)(p), (void)(v))
#define mk_trace_patch_4(p, v) ((void)(p), (void)(v))
#endif

/* ---- Services ---- */

VOID mk_kernel_enter(VOID);         /* never returns */
VOID app_define(VOID);              /* the application's, runs in init context */

VOID mk_thread_create(TX_THREAD *t, const CHAR *name, VOID (*entry)(ULONG), ULONG param,
                      VOID *stack, ULONG size, UINT priority, UINT autostart);
VOID mk_thread_sleep(ULONG ticks);
VOID mk_thread_relinquish(VOID);
VOID mk_thread_suspend(TX_THREAD *t); /* of a thread that is ready */
VOID mk_thread_terminate(TX_THREAD *t);
VOID mk_thread_resume(TX_THREAD *t);
TX_THREAD *mk_thread_identify(VOID);
ULONG mk_time_get(VOID);
VOID mk_timer_create(TX_TIMER *t, const CHAR *name, VOID (*fn)(ULONG), ULONG param,
                     ULONG initial, ULONG again, UINT activate);
VOID mk_queue_create(TX_QUEUE *q, const CHAR *name, UINT words, VOID *start, ULONG size);
UINT mk_queue_send(TX_QUEUE *q, VOID *source, ULONG wait);
UINT mk_queue_receive(TX_QUEUE *q, VOID *destination, ULONG wait);
VOID mk_semaphore_create(TX_SEMAPHORE *s, const CHAR *name, ULONG count);
VOID mk_semaphore_delete(TX_SEMAPHORE *s);
UINT mk_semaphore_get(TX_SEMAPHORE *s, ULONG wait);
UINT mk_semaphore_put(TX_SEMAPHORE *s);
VOID mk_mutex_create(TX_MUTEX *m, const CHAR *name, UINT inherit);
UINT mk_mutex_get(TX_MUTEX *m, ULONG wait);
UINT mk_mutex_put(TX_MUTEX *m);
VOID mk_flags_create(TX_EVENT_FLAGS_GROUP *g, const CHAR *name);
#ifdef FW_NAMES
/* TX_OR sets flags, TX_AND keeps these and clears all others. */
UINT mk_flags_change(TX_EVENT_FLAGS_GROUP *g, ULONG flags, UINT option);
#define mk_flags_set(g, flags) mk_flags_change(g, flags, TX_OR)
#else
UINT mk_flags_set(TX_EVENT_FLAGS_GROUP *g, ULONG flags);
#endif
UINT mk_flags_get(TX_EVENT_FLAGS_GROUP *g, ULONG flags, UINT option, ULONG *actual, ULONG wait);
VOID mk_block_pool_create(TX_BLOCK_POOL *p, const CHAR *name, ULONG block, VOID *start, ULONG size);
UINT mk_block_allocate(TX_BLOCK_POOL *p, VOID **block, ULONG wait);
UINT mk_block_release(VOID *block);
VOID mk_byte_pool_create(TX_BYTE_POOL *p, const CHAR *name, VOID *start, ULONG size);
UINT mk_byte_allocate(TX_BYTE_POOL *p, VOID **memory, ULONG size, ULONG wait);
UINT mk_byte_release(VOID *memory);

VOID mk_isr(UINT number, VOID (*body)(VOID)); /* wraps body in ISR_ENTER and ISR_EXIT */
VOID mk_tick(VOID);                           /* body of the tick interrupt */
VOID mk_pick(VOID);                           /* called by the port: choose and account */
VOID mk_account(VOID);                        /* bring fw_counters up to fw_clock */
VOID mk_thread_shell(VOID);                   /* first function of every thread */

/* ---- The firmware's own clock and its own truth ---- */

/* FW_STRADDLE starts its clock so long before 2^32. */
#ifndef FW_CLOCK_TO_OVERFLOW
#define FW_CLOCK_TO_OVERFLOW 20700000u
#endif
#ifndef FW_TICK_CYCLES
#define FW_TICK_CYCLES 250000u      /* 100 ticks a second at 25 MHz */
#endif
#define FW_MAX_THREADS 10
#define FW_MAX_VECTORS 32
#define FW_RING_EVENTS 256
#ifndef FW_CHECKPOINT_EVERY
#define FW_CHECKPOINT_EVERY 32      /* in ring slots */
#endif

extern uint32_t SystemCoreClock;
extern volatile uint32_t fw_clock;  /* simulated CPU cycles; the trace's time source */
VOID fw_work(uint32_t cycles);      /* the CPU is busy for so long */

struct fw_thread_counters {
    uint32_t runs;          /* times it was switched to */
    uint32_t suspensions;   /* SUSPEND (2) inserted for it */
    uint32_t resumptions;   /* RESUME (1) inserted for it */
    uint32_t preemptions;   /* switched away from while still ready */
    uint32_t cycles;        /* on the CPU, interrupts not taken off */
    uint32_t ticks;         /* tick interrupts that found it running */
    uint32_t max_latency;   /* longest RESUME to running, in cycles */
};

struct fw_counters {
    uint32_t magic;         /* "FWCT" = 0x54435746 */
    uint32_t size;          /* of this structure */
    uint32_t events;        /* inserted, all of them */
    uint32_t context_switches;
    uint32_t idle_entries;
    uint32_t idle_cycles;
    uint32_t idle_ticks;
    uint32_t wraps;
    uint32_t patches;       /* words changed after insertion */
    uint32_t clock;         /* fw_clock when this was taken */
    uint32_t interrupts[FW_MAX_VECTORS]; /* by exception number */
    uint32_t by_id[128];    /* ids 0..127 */
    uint32_t user[16];      /* ids 4096..4111 */
    uint32_t other;         /* any other id */
#if FW_CORES > 1
    uint32_t by_core[FW_CORES];
#endif
    struct fw_thread_counters thread[FW_MAX_THREADS]; /* in order of creation */
};

extern struct fw_counters fw_counters;
/* Copies taken before the insert into slot 0, 32, 64 ..: index slot / 32. */
extern struct fw_counters fw_checkpoints[FW_RING_EVENTS / FW_CHECKPOINT_EVERY];
extern TX_THREAD *fw_thread_of[FW_MAX_THREADS]; /* whose counters thread[n] are */

struct fw_fault {
    uint32_t magic;         /* "DEAD" = 0x44414544 once the fault was taken */
    uint32_t vector, exc_return, msp, psp;
    uint32_t r0, r1, r2, r3, r12, lr, pc, xpsr;
    uint32_t r4_r11[8];
    uint32_t cfsr, hfsr, bfar;
};
extern volatile struct fw_fault fw_fault;

/* ---- What a port gives ---- */

UINT port_disable(VOID);
VOID port_restore(UINT posture);
ULONG port_exception(VOID);         /* exception number, 0 in a thread */
VOID port_stack_build(TX_THREAD *t);
VOID port_switch(VOID);             /* interrupts off: let the scheduler choose */
VOID port_start(VOID);              /* run the first thread; never returns */
#if FW_CORES > 1
VOID port_run(VOID);                /* run CURRENT until it calls port_switch */
VOID mk_machine(VOID);              /* what port_start does then; never returns */
extern const signed char app_home[FW_MAX_THREADS]; /* home core in order of creation, -1: any */
#endif
VOID port_tick(VOID);               /* take the tick interrupt now */
VOID port_uart_pend(VOID);          /* from the tick: UART interrupt comes next */

VOID app_uart_isr(VOID);
UINT app_line_has_frame(VOID);      /* the outside world, asked on every tick */

#endif
