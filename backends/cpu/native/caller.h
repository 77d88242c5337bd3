// The Python side of runs: what caller.c and entry.c share. Compiled without Python.h: the functions
// are handed in, and where an array keeps its fields is told by Python, which has verified it.
#ifndef TEGG_CALLER_H
#define TEGG_CALLER_H
#include "program.h"

typedef struct object object;

struct method {  // PyMethodDef
  const char *name;
  void *function;
  int flags;
  const char *doc;
};
enum { NOARGS = 0x4, FASTCALL_KEYWORDS = 0x80 | 0x2 };

struct python {
  void (*inc_ref)(object *), (*dec_ref)(object *);
  object *(*tuple_new)(intptr_t);
  int (*tuple_set)(object *, intptr_t, object *);
  object *(*tuple_get)(object *, intptr_t);
  intptr_t (*tuple_size)(object *);
  object *(*long_from)(long long);
  object *(*dict_new)(void);
  int (*dict_set)(object *, object *, object *);
  object *(*call)(object *, object *, object *);
  void *(*save_thread)(void);
  void (*restore_thread)(void *);
  object *(*capsule_new)(void *, const char *, void (*)(object *));
  void *(*capsule_get)(object *, const char *);
  object *(*function_new)(struct method *, object *, object *);
  object *none, *array_type;
  int64_t header;  // bytes of an object before its own fields; the last of them is its type
};
extern struct python py;

static inline object *nothing(void) {
  py.inc_ref(py.none);
  return py.none;
}

// Pointers and memory for one run in flight, at sizes low..high.
struct entry {
  struct entry *next;
  int64_t *low, *high;
  void **buffers;
  object *keep;
  int nt, release, stale;
  int busy;  // the generation of processes in which it is running
};

int is_busy(const struct entry *e);
struct entry *new_entry(const int64_t *low, const int64_t *high, int symbols, void *const *buffers,
                        int count, object *keep, int nt, int release);
void reserve(struct entry *e);  // with the GIL held, before anything that could let others in
void leave(struct entry *e);    // drops it if that was asked meanwhile
void drop(struct entry *e);
// Runs a program on a reserved entry, without the GIL if the entry says so, and leaves it.
void execute(const struct rt_program *p, struct entry *e, const int64_t *sizes);

#endif
