// The work of a step in pieces, so many for each thread. A thread does its own in order, and then
// what others have not begun, from their other end: none waits while there is work, be its core slower
// or taken away for a while. Every other step goes backwards (but where it reads large weights): it
// begins with what the one before it wrote last, which the caches still hold. Which thread does a
// piece, and when, changes nothing of its result.
#include "pieces.h"

#include <stdatomic.h>

#define BEGUN ((uint64_t)1 << 63)
#define HALF 31  // bits of a queue's word for the first piece that is left, and for the end of them

static _Thread_local struct rt_queue *step_queues;
static _Thread_local int step_backwards;

void rt_share(struct rt_queue *queues, int backwards) {
  step_queues = queues;
  step_backwards = backwards;
}

struct rt_pieces rt_pieces_of(int tid, int nt, int pieces) {
  return (struct rt_pieces){nt > 1 ? step_queues : NULL, tid, nt, pieces, 0, step_backwards};
}

// Takes a piece of a queue, its first or its last; -1 where none is left.
static int take(struct rt_queue *q, int pieces, int first) {
  uint64_t left = atomic_load_explicit(&q->left, memory_order_relaxed);
  for (;;) {
    const uint64_t mask = ((uint64_t)1 << HALF) - 1;
    uint64_t from = left & mask, to = left ? left >> HALF & mask : (uint64_t)pieces;
    if (from >= to) return -1;
    const uint64_t taken = first ? from++ : --to;
    // Relaxed: what a piece reads was there when the step began, and barriers pass on its results.
    if (atomic_compare_exchange_weak_explicit(&q->left, &left, BEGUN | to << HALF | from,
                                              memory_order_relaxed, memory_order_relaxed))
      return (int)taken;
  }
}

int64_t rt_next_piece(struct rt_pieces *p) {
  if (!p->queues) {
    if (p->done >= p->pieces) return -1;
    int piece = p->done++;
    return (int64_t)p->tid * p->pieces + (p->backwards ? p->pieces - 1 - piece : piece);
  }
  for (; p->done < p->nt; p->done++) {  // queues that were found empty stay so
    int owner = (p->tid + p->done) % p->nt;
    int piece = take(&p->queues[owner], p->pieces, (owner == p->tid) != p->backwards);
    if (piece >= 0) return (int64_t)owner * p->pieces + piece;
  }
  return -1;
}
