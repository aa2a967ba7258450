/*
 * A process whose threads are those of the system, as in ThreadX's port to
 * Linux: control blocks name them by a pthread_t, and each stops somewhere in
 * the C library. For backtraces; there is no trace in it.
 */
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <unistd.h>

typedef struct TX_THREAD_STRUCT {
    unsigned tx_thread_id, tx_thread_run_count;
    void *tx_thread_stack_ptr, *tx_thread_stack_start, *tx_thread_stack_end;
    unsigned tx_thread_stack_size, tx_thread_time_slice, tx_thread_new_time_slice;
    struct TX_THREAD_STRUCT *tx_thread_ready_next, *tx_thread_ready_previous;
    pthread_t tx_thread_linux_thread_id;
    char *tx_thread_name;
    unsigned tx_thread_priority, tx_thread_state;
    void (*tx_thread_entry)(unsigned long);
    struct TX_THREAD_STRUCT *tx_thread_created_next, *tx_thread_created_previous;
} TX_THREAD;

#define THREADS 3
#define SUSPENDED 3
static TX_THREAD threads[THREADS];
static unsigned char stacks[THREADS][256];
TX_THREAD *_tx_thread_created_ptr = threads, *_tx_thread_current_ptr, *_tx_thread_execute_ptr;
unsigned _tx_thread_created_count = THREADS;
volatile unsigned _tx_thread_system_state;
static sem_t never;
static volatile unsigned waiting;

#define NOINLINE __attribute__((noinline))

static NOINLINE void wait_for_ever(unsigned depth)
{
    volatile char local[64];
    local[depth] = 1;
    waiting++;
    sem_wait(&never);
    waiting -= local[depth];
}

static NOINLINE unsigned parse(unsigned depth)
{
    if (depth == 0)
        wait_for_ever(7);
    else
        parse(depth - 1);
    return waiting + depth;
}

static NOINLINE void receive(unsigned long n)
{
    void (*volatile through)(unsigned) = wait_for_ever;
    if (n % 2)
        waiting += parse(3);
    else
        through(9);
    waiting--;
}

static void thread_entry(unsigned long n)
{
    for (;;)
        receive(n);
}

static void *begin(void *at)
{
    TX_THREAD *thread = at;
    thread->tx_thread_entry(thread->tx_thread_priority);
    return 0;
}

int main(void)
{
    static char *names[THREADS] = { "first", "second", "third" };
    unsigned i;
    sem_init(&never, 0, 0);
    for (i = 0; i < THREADS; i++) {
        TX_THREAD *t = &threads[i];
        t->tx_thread_id = 0x54485244;
        t->tx_thread_name = names[i];
        t->tx_thread_priority = i + 1;
        t->tx_thread_state = SUSPENDED;
        t->tx_thread_entry = thread_entry;
        t->tx_thread_stack_start = t->tx_thread_stack_ptr = stacks[i];
        t->tx_thread_stack_end = stacks[i] + sizeof stacks[i] - 1;
        t->tx_thread_stack_size = sizeof stacks[i];
        t->tx_thread_created_next = &threads[(i + 1) % THREADS];
        t->tx_thread_created_previous = &threads[(i + THREADS - 1) % THREADS];
        pthread_create(&t->tx_thread_linux_thread_id, 0, begin, t);
    }
    while (waiting < THREADS)
        usleep(1000);
    for (;;)
        pause();
}
