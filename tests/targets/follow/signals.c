/*
 * A program that works as ThreadX's Linux port does: a scheduler suspends and
 * resumes worker threads by signals, and waits until each has taken its signal.
 * One signal that is lost stops it for ever. It writes an event of each round
 * into a ThreadX trace, and its counters into the file that it is given.
 *
 *   signals FILE [PAUSE_US]
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define WORKERS 4
#define SLOTS   1024
#define OBJECTS 8

typedef uint32_t u32;

/* The file: four numbers of 8 bytes. */
struct counters {
    volatile uint64_t rounds, sent, taken, written;
};
static struct counters *counters;

/* ---- The trace, with words of 4 bytes as on a 32-bit target ---- */

struct header { u32 id, mask, base, registry_start; uint16_t reserved, name_size; u32 registry_end, start, end, current, r[3]; };
struct object { unsigned char available, type, r1, r2; u32 pointer, parameter[2]; char name[32]; };
struct event { u32 thread, priority, id, stamp, info[4]; };
static struct { struct header header; struct object objects[OBJECTS]; struct event events[SLOTS]; } trace;
static unsigned next;

/* Volatile, as in the kernel. */
struct header *volatile _tx_trace_header_ptr;
struct event *volatile _tx_trace_buffer_current_ptr;

#define LOW(p) ((u32)(uintptr_t)(p))

static void enable(void)
{
    struct header h = {0x54585442, 0xFFFFFFFF, LOW(&trace), LOW(trace.objects), 0, 32, LOW(trace.events),
                       LOW(trace.events), LOW(trace.events + SLOTS), LOW(trace.events), {0, 0, 0}};
    int i;
    for (i = 1; i < OBJECTS; i++)
        trace.objects[i].available = 1;
    trace.objects[0].type = 1;
    trace.objects[0].pointer = 0x1000;
    strcpy(trace.objects[0].name, "streamer");
    trace.header = h;
    _tx_trace_buffer_current_ptr = trace.events;
    _tx_trace_header_ptr = &trace.header;
}

static void insert(u32 n)
{
    volatile struct event *e = &trace.events[next];
    e->thread = 0x1000;
    e->priority = 0x80050005;
    e->id = 4096;
    e->stamp = 1000 + 7 * n;
    e->info[0] = n;
    e->info[1] = ~n;
    e->info[2] = n * 2654435761u;
    e->info[3] = 0x5354524D;
    next = (next + 1) % SLOTS;
    _tx_trace_buffer_current_ptr = &trace.events[next];
    *(volatile u32 *)&trace.header.current = LOW(&trace.events[next]);
    counters->written = n + 1;
}

/* ---- Threads that are suspended and resumed by signals ---- */

static sem_t answered;

static void suspended(int unused)
{
    sigset_t others;
    (void)unused;
    __atomic_fetch_add(&counters->taken, 1, __ATOMIC_RELAXED);
    sem_post(&answered);
    sigfillset(&others);
    sigdelset(&others, SIGUSR2);
    sigsuspend(&others); /* until it is resumed */
}

static void resumed(int unused)
{
    (void)unused;
    __atomic_fetch_add(&counters->taken, 1, __ATOMIC_RELAXED);
    sem_post(&answered);
}

static void *work(void *unused)
{
    (void)unused;
    for (;;)
        pause();
    return NULL;
}

static void tell(pthread_t thread, int signal)
{
    counters->sent++;
    pthread_kill(thread, signal);
    while (sem_wait(&answered) != 0)
        ;
}

int main(int argc, char **argv)
{
    pthread_t threads[WORKERS];
    struct sigaction action;
    useconds_t rest = argc > 2 ? (useconds_t)atoi(argv[2]) : 1000;
    u32 n;
    int i, file = argc > 1 ? open(argv[1], O_RDWR | O_CREAT, 0600) : -1;
    if (file < 0 || ftruncate(file, 4096) != 0)
        return 2;
    counters = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (counters == MAP_FAILED)
        return 2;
    memset(&action, 0, sizeof action);
    sigaddset(&action.sa_mask, SIGUSR2);
    action.sa_handler = suspended;
    sigaction(SIGUSR1, &action, NULL);
    action.sa_handler = resumed;
    sigaction(SIGUSR2, &action, NULL);
    sem_init(&answered, 0, 0);
    for (i = 0; i < WORKERS; i++)
        pthread_create(&threads[i], NULL, work, NULL);
    enable();
    for (n = 0;; n++) {
        for (i = 0; i < WORKERS; i++)
            tell(threads[i], SIGUSR1);
        insert(n);
        for (i = 0; i < WORKERS; i++)
            tell(threads[i], SIGUSR2);
        counters->rounds = n + 1;
        usleep(rest);
    }
}
