// Memory of runs in flight, runs with and without the GIL, and programs bound to their arrays.
#include "caller.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

struct python py;

EXPORT void tegg_python(const struct python *p) { py = *p; }

// A child of fork() has none of the threads that were running an entry: those are free again.
int is_busy(const struct entry *e) { return e->busy == rt_generation(); }

void reserve(struct entry *e) { e->busy = rt_generation(); }

void leave(struct entry *e) {
  e->busy = 0;
  if (e->stale) drop(e);
}

void drop(struct entry *e) {
  if (e->keep) py.dec_ref(e->keep);
  free(e->low);
  free(e->high);
  free(e->buffers);
  free(e);
}

void execute(const struct rt_program *p, struct entry *e, const int64_t *sizes) {
  void *thread = e->release ? py.save_thread() : NULL;
  rt_run_program(p, e->buffers, sizes, e->nt, NULL);
  if (e->release) py.restore_thread(thread);
  leave(e);
}

static int64_t *copied(const int64_t *values, int count) {
  int64_t *made = malloc((size_t)(count + 1) * sizeof *made);
  if (made) memcpy(made, values, (size_t)count * sizeof *made);
  return made;
}

struct entry *new_entry(const int64_t *low, const int64_t *high, int symbols, void *const *buffers,
                        int count, object *keep, int nt, int release) {
  struct entry *e = calloc(1, sizeof *e);
  if (!e) return NULL;
  e->low = copied(low, symbols);
  e->high = copied(high, symbols);
  e->buffers = malloc((size_t)(count + 1) * sizeof(void *));
  if (!e->low || !e->high || !e->buffers) {
    drop(e);
    return NULL;
  }
  memcpy(e->buffers, buffers, (size_t)count * sizeof(void *));
  py.inc_ref(e->keep = keep);
  e->nt = nt;
  e->release = release;
  return e;
}

// ---- a program with all its arrays
struct bound {
  const struct rt_program *program;
  struct entry *entry;
  struct method method;
};

static object *run_bound(object *self, object *none) {
  struct bound *b = py.capsule_get(self, NULL);
  (void)none;
  while (is_busy(b->entry)) {  // another thread runs it: one after the other
    void *thread = py.save_thread();
    sched_yield();
    py.restore_thread(thread);
  }
  reserve(b->entry);
  execute(b->program, b->entry, b->entry->low);
  return nothing();
}

static void destroy_bound(object *capsule) {
  struct bound *b = py.capsule_get(capsule, NULL);
  drop(b->entry);
  free(b);
}

EXPORT object *tegg_bind(const struct rt_program *program, const int64_t *sizes, int symbols,
                         void *const *buffers, int count, object *keep, int nt, int release) {
  struct bound *b = malloc(sizeof *b);
  struct entry *e = new_entry(sizes, sizes, symbols, buffers, count, keep, nt, release);
  if (!b || !e) {
    free(b);
    if (e) drop(e);
    return nothing();
  }
  *b = (struct bound){program, e, {"run", (void *)run_bound, NOARGS, NULL}};
  object *capsule = py.capsule_new(b, NULL, destroy_bound);
  if (!capsule) return NULL;
  object *made = py.function_new(&b->method, capsule, NULL);
  py.dec_ref(capsule);
  return made;
}
