// A program: steps that one parallel region runs in order, on buffers and sizes given by number.
#ifndef TEGG_PROGRAM_H
#define TEGG_PROGRAM_H
#include "runtime.h"

// A polynomial in the sizes, as a stream: the number of terms, then for each term its coefficient,
// the number of its factors, and the number of the size that each factor is.
typedef const int64_t *rt_poly;

// Gives 0 where the value does not fit 64 bits.
int rt_evaluate(rt_poly p, const int64_t *sizes, int64_t *value);

const struct rt_table *tegg_runtime(void);

// Grows with every fork() that leads to this process.
int rt_generation(void);

struct rt_step {
  void (*function)(void *const *buffers, const int64_t *sizes, int tid, int nt);  // NULL: a copy
  const int32_t *buffers;  // of the program, in the order that the function takes
  const int64_t *offsets;  // bytes by which each begins later; NULL: none does
  const int32_t *sizes;    // likewise; NULL: the program's own order
  const int64_t *given;    // sizes that are known; NULL: those of the program, as above
  const rt_poly *derived;  // or what follows from those of the program, each by itself
  rt_poly bytes;           // of a copy from buffers[0] to buffers[1]
  int32_t buffer_count, size_count;
  int32_t serial;          // only thread 0 has work
  int32_t barrier;         // wait for all threads before it
  int32_t pieces;          // of a thread's work, each a call; 1: the function shares it out itself
  int32_t number;          // among those that all threads do
  int32_t backwards;       // through its pieces, from the last one on
};

struct rt_program {
  const struct rt_step *steps;
  int32_t step_count, most_buffers, most_sizes;
  int32_t shared;          // steps that all threads do
};

// Runs a program on at most nt threads. `seconds`, if not NULL, gets the time of each step.
void rt_run_program(const struct rt_program *p, void *const *buffers, const int64_t *sizes, int nt,
                    double *seconds);

#endif
