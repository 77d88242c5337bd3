// Runs the steps of a program inside one parallel region.
#define _GNU_SOURCE
#include "pieces.h"
#include "program.h"

#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT int rt_evaluate(rt_poly p, const int64_t *sizes, int64_t *value) {
  int64_t sum = 0;
  for (int64_t terms = *p++; terms > 0; terms--) {
    int64_t term = *p++;
    for (int64_t factors = *p++; factors > 0; factors--)
      if (__builtin_mul_overflow(term, sizes[*p++], &term)) return 0;
    if (__builtin_add_overflow(sum, term, &sum)) return 0;
  }
  *value = sum;
  return 1;
}

struct frame {
  const struct rt_program *program;
  void *const *buffers;
  const int64_t *sizes;
  double *seconds;
  struct rt_queue *queues;  // for each step that all threads do, one for each of nt; may be NULL
  int nt;
};

static void copy(const struct rt_step *s, const struct frame *f, int tid, int nt) {
  int64_t bytes = 0;
  if (!rt_evaluate(s->bytes, f->sizes, &bytes)) return;  // no buffer is that large
  int64_t share = ((bytes + nt - 1) / nt + 63) & ~(int64_t)63, first = share * tid;
  if (first >= bytes) return;
  if (share > bytes - first) share = bytes - first;
  memmove((char *)f->buffers[s->buffers[1]] + first, (char *)f->buffers[s->buffers[0]] + first,
          (size_t)share);
}

static void step(const struct rt_step *s, const struct frame *f, int tid, int nt) {
  const int backwards = s->backwards;
  void *buffers[f->program->most_buffers + 1];
  int64_t renamed[f->program->most_sizes + 1];
  const int64_t *sizes = f->sizes;
  if (!s->function) {
    copy(s, f, tid, nt);
    return;
  }
  for (int i = 0; i < s->buffer_count; i++) buffers[i] = f->buffers[s->buffers[i]];
  for (int i = 0; s->offsets && i < s->buffer_count; i++)
    buffers[i] = (char *)buffers[i] + s->offsets[i];
  if (s->given) {
    sizes = s->given;
  } else if (s->derived) {
    for (int i = 0; i < s->size_count; i++)
      if (!rt_evaluate(s->derived[i], f->sizes, &renamed[i])) return;  // no buffer is that large
    sizes = renamed;
  } else if (s->sizes) {
    for (int i = 0; i < s->size_count; i++) renamed[i] = f->sizes[s->sizes[i]];
    sizes = renamed;
  }
  rt_share(f->queues && !s->serial ? f->queues + (int64_t)s->number * f->nt : NULL, backwards);
  if (s->pieces == 1 || (nt == 1 && !backwards)) {
    s->function(buffers, sizes, tid, nt);
    return;
  }
  struct rt_pieces p = rt_pieces_of(tid, nt, s->pieces);
  for (int64_t piece; (piece = rt_next_piece(&p)) >= 0;)
    s->function(buffers, sizes, (int)piece, nt * s->pieces);
}

static void region(void *arg, int tid, int nt) {
  const struct frame *f = arg;
  const struct rt_table *rt = tegg_runtime();
  double before = f->seconds && !tid ? rt->now() : 0;
  for (int i = 0; i < f->program->step_count; i++) {
    const struct rt_step *s = &f->program->steps[i];
    if (nt > 1 && (s->barrier || f->seconds)) rt->barrier();
    if (s->serial) {
      if (tid == 0) step(s, f, 0, 1);
    } else {
      step(s, f, tid, nt);
    }
    if (f->seconds) {
      if (nt > 1) rt->barrier();
      if (tid == 0) {
        double after = rt->now();
        f->seconds[i] = after - before;
        before = after;
      }
    }
  }
  rt_share(NULL, 0);
}

#define QUEUES 1024  // that lie on the stack

EXPORT void rt_run_program(const struct rt_program *p, void *const *buffers, const int64_t *sizes,
                           int nt, double *seconds) {
  struct frame f = {p, buffers, sizes, seconds, NULL, nt};
  if (nt <= 1) {
    region(&f, 0, 1);
    return;
  }
  const size_t count = (size_t)p->shared * (size_t)nt;
  struct rt_queue near[count < QUEUES ? count + 1 : 1];
  void *far = NULL;
  if (count >= QUEUES && posix_memalign(&far, 64, count * sizeof *near)) far = NULL;
  f.queues = count < QUEUES ? near : far;  // without any, each thread does its own pieces
  if (f.queues) memset(f.queues, 0, count * sizeof *near);
  tegg_runtime()->run(region, &f, nt);
  free(far);
}
