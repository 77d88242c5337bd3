// What compiled programs and the thread pool share. One pool serves every program of a process:
// a program gets the table below when it is loaded.
#ifndef TEGG_RUNTIME_H
#define TEGG_RUNTIME_H
#include <stddef.h>
#include <stdint.h>

typedef void (*rt_task)(void *arg, int tid, int nt);

// A thread's way through the pieces of a step.
struct rt_pieces {
  struct rt_queue *queues;  // what is left of each thread's; NULL: only its own are done
  int tid, nt, pieces;      // of a thread
  int done;                 // of the queues; or of its own pieces
  int backwards;            // its own from the last one on
};

struct rt_table {
  // Runs task(arg, tid, nt) on nt threads, the caller being thread 0, and returns when all are
  // done. A pool that is busy (another Python thread runs a program) runs it here, with nt = 1, and
  // for each caller who runs so meanwhile a task gets a thread less.
  void (*run)(rt_task task, void *arg, int nt);
  // Waits for the other threads of the running task. Only inside a task, and if its nt > 1.
  void (*barrier)(void);
  // At least `bytes` of memory of this thread, aligned to 64. Valid until the thread asks again.
  void *(*scratch)(size_t bytes);
  // The pieces of a step's work, so many for each of nt threads: piece p is of thread p / pieces.
  struct rt_pieces (*pieces)(int tid, int nt, int pieces);
  // The next one to do, the thread's own first, in every other step of a program backwards; -1
  // where nothing is left.
  int64_t (*next)(struct rt_pieces *p);
  // Seconds of a clock that never goes back.
  double (*now)(void);
  // Bytes of the cache that lies before memory, and of the second one, which a core has for itself.
  int64_t last_cache, own_cache;
};

#endif
