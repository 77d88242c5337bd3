// Pieces of a step's work: a thread's own, and those that it takes from others.
#ifndef TEGG_PIECES_H
#define TEGG_PIECES_H
#include "runtime.h"

// What is left of one thread's pieces; all zero as long as nobody has looked.
struct rt_queue {
  _Atomic uint64_t left;
} __attribute__((aligned(64)));

// Of the step that this thread goes on to, one for each thread; NULL: each does its own pieces.
// backwards: whether from the last one on.
void rt_share(struct rt_queue *queues, int backwards);

// Members of struct rt_table.
struct rt_pieces rt_pieces_of(int tid, int nt, int pieces);
int64_t rt_next_piece(struct rt_pieces *p);

#endif
