// The thread pool: workers spin for a moment after each task, so that the next one reaches them in
// well under a microsecond, and then sleep in the kernel.
#define _GNU_SOURCE
#include "pieces.h"
#include "program.h"

#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/mman.h>
#include <sys/syscall.h>
#endif

#include "scratch.h"

#define EXPORT __attribute__((visibility("default")))
#define LINE __attribute__((aligned(128)))  // two cache lines: the prefetcher fetches pairs
#define THREAD_BITS 10                      // of a round's word; the rest counts rounds
#define SPIN_SECONDS 200e-6                 // a core is kept this long; a sleeper costs 10 us or so

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static inline void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("isb");  // yield is a no-op on most cores
#else
  sched_yield();
#endif
}

// ---- an event: a word on which threads wait until it changes
struct event {
  _Atomic unsigned word;
  _Atomic int sleepers;
};

#ifdef __linux__
static void sleep_while(struct event *e, unsigned seen) {
  syscall(SYS_futex, &e->word, 128 /* FUTEX_WAIT_PRIVATE */, seen, NULL, NULL, 0);
}
static void wake(struct event *e) {
  syscall(SYS_futex, &e->word, 129 /* FUTEX_WAKE_PRIVATE */, INT_MAX, NULL, NULL, 0);
}
#else
static pthread_mutex_t bed = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t bell = PTHREAD_COND_INITIALIZER;
static void sleep_while(struct event *e, unsigned seen) {
  pthread_mutex_lock(&bed);
  while (atomic_load(&e->word) == seen) pthread_cond_wait(&bell, &bed);
  pthread_mutex_unlock(&bed);
}
static void wake(struct event *e) {
  (void)e;
  pthread_mutex_lock(&bed);
  pthread_cond_broadcast(&bell);
  pthread_mutex_unlock(&bed);
}
#endif

static int workers;  // that were started
static int allowed;  // cores, when they were
// Threads of the round outnumber cores, so that who waits lets the one go on that is waited for. Not
// otherwise: a core that some other process wants is then not to be had for milliseconds, after a
// wait of a few microseconds.
static int crowded;
#include "places.h"

// Waits until the word differs from `seen`, and gives its new value.
static unsigned await(struct event *e, unsigned seen) {
  unsigned word;
  double end = 0;
  for (unsigned turn = 1;; turn++) {
    word = atomic_load_explicit(&e->word, memory_order_acquire);
    if (word != seen) return word;
    relax();
    if (turn & 63) continue;
    if (crowded) sched_yield();
    if (end == 0) end = now() + SPIN_SECONDS;
    else if (now() > end) break;
  }
  // The waiter counts itself and then looks; post() changes the word and then looks for waiters.
  // Both are sequentially consistent, so one of the two sees the other.
  lie_down(e);
  atomic_fetch_add(&e->sleepers, 1);
  while ((word = atomic_load(&e->word)) == seen) sleep_while(e, seen);
  atomic_fetch_sub(&e->sleepers, 1);
  get_up();
  return word;
}

static void post(struct event *e, unsigned word) {
  atomic_store(&e->word, word);
  if (!atomic_load(&e->sleepers)) return;
  make_room(e);
  wake(e);
}

// ---- the pool
// A round's word holds its number and its threads in one: a worker that has no part in a round and
// looks late cannot take the next round's task for this one's.
static LINE struct event rounds;
static LINE struct event finished;  // counts rounds that all workers left
static LINE _Atomic int running;    // workers that are still in the round
static LINE struct event gate;      // counts passes of the barrier
static LINE _Atomic int arrived;
static LINE _Atomic int busy;       // one task at a time
static LINE _Atomic int alone;      // callers who run a task without the pool
static rt_task round_task;
static void *round_arg;
static int team;                    // threads of the running round
static _Thread_local int mates = 1; // threads of the task that this one does its share of
static unsigned first_seen[1 << THREAD_BITS];

static void *work(void *p) {
  int tid = (int)(intptr_t)p;
  unsigned word = first_seen[tid];
  here = &places[tid];
  get_up();
  for (;;) {
    word = await(&rounds, word);
    int nt = (int)(word & ((1u << THREAD_BITS) - 1));
    if (tid >= nt) continue;
    mates = nt;
    round_task(round_arg, tid, nt);
    if (atomic_fetch_sub(&running, 1) == 1) post(&finished, atomic_load(&finished.word) + 1);
  }
  return NULL;
}

// That this process may use.
static int cores(void) {
#ifdef __linux__
  cpu_set_t set;
  if (!sched_getaffinity(0, sizeof set, &set)) return CPU_COUNT(&set);
#endif
  return (int)sysconf(_SC_NPROCESSORS_ONLN);
}

// Starts workers until there are `wanted`, or the system refuses more; gives their number.
static int start(int wanted) {
  pthread_attr_t attr;
  sigset_t all, before;
  if (workers >= wanted) return wanted;
  sigfillset(&all);
  pthread_attr_init(&attr);
  pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attr, 4 << 20);  // musl and macOS give a worker less than they do main
  pthread_sigmask(SIG_SETMASK, &all, &before);  // signals are for Python's threads
  while (workers < wanted) {
    struct place *place = &places[workers + 1];
    first_seen[workers + 1] = atomic_load(&rounds.word);
    atomic_store(&place->state, HELD);  // where a thread starts is as where one wakes
    if (pthread_create(&place->thread, &attr, work, (void *)(intptr_t)(workers + 1))) break;
    atomic_store(&place->state, move(place) ? MOVED : ASLEEP);
    workers++;
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&attr);
  allowed = cores();
  return workers;
}

// Each caller who finds the pool busy works alone, and so takes a thread away from the rounds that
// begin meanwhile: callers together keep no more threads busy than one of them was given.
static void run(rt_task task, void *arg, int nt) {
  if (nt > (1 << THREAD_BITS) - 1) nt = (1 << THREAD_BITS) - 1;
  if (nt > 1 && !atomic_exchange(&busy, 1)) {
    nt -= atomic_load(&alone);
    if (nt > 1) nt = (workers < nt - 1 ? start(nt - 1) : nt - 1) + 1;
    if (nt > 1) {
      unsigned before = atomic_load(&finished.word);
      unsigned number = (atomic_load(&rounds.word) >> THREAD_BITS) + 1;
      round_task = task, round_arg = arg, team = nt, crowded = nt > allowed;
      here = places;
      atomic_store(&running, nt - 1);
      post(&rounds, number << THREAD_BITS | (unsigned)nt);
      mates = nt;
      task(arg, 0, nt);
      await(&finished, before);
      atomic_store(&busy, 0);
      return;
    }
    atomic_store(&busy, 0);
  }
  atomic_fetch_add(&alone, 1);
  mates = 1;
  task(arg, 0, 1);
  atomic_fetch_sub(&alone, 1);
}

static void barrier(void) {
  unsigned seen = atomic_load(&gate.word);  // cannot change before this thread arrives
  if (atomic_fetch_add(&arrived, 1) == team - 1) {
    atomic_store(&arrived, 0);
    post(&gate, seen + 1);
  } else {
    await(&gate, seen);
  }
}

static int generation = 1;

int rt_generation(void) { return generation; }

// Only the thread that forked lives on in the child: it starts with an idle pool without workers.
static void forget_workers(void) {
  generation++;
  forget_regions();
  workers = 0;
  memset(places, 0, sizeof places);
  atomic_store(&rounds.sleepers, 0);
  atomic_store(&finished.sleepers, 0);
  atomic_store(&gate.sleepers, 0);
  atomic_store(&arrived, 0);
  atomic_store(&busy, 0);
  atomic_store(&alone, 0);
#ifndef __linux__
  pthread_mutex_init(&bed, NULL);
  pthread_cond_init(&bell, NULL);
#endif
}

static void *scratch(size_t bytes) { return scratch_of(bytes, mates); }

// ---- the table
static struct rt_table table = {run, barrier, scratch, rt_pieces_of, rt_next_piece, now, 1ll << 60, 1ll << 60};
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void prepare(void) {
  pthread_key_create(&block_key, release);
  pthread_atfork(NULL, NULL, forget_workers);
}

// Before the first run.
EXPORT void tegg_caches(int64_t last, int64_t own) { table.last_cache = last, table.own_cache = own; }

EXPORT const struct rt_table *tegg_runtime(void) {
  pthread_once(&once, prepare);
  return &table;
}
