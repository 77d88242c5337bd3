// The call path from Python: a builtin function that checks NumPy arrays against a signature, fills
// in a table of pointers, allocates results and runs a program. Whatever does not fit the signature
// is not judged here: the function gives None, and Python takes the slow way, which converts or
// says what is wrong.
#include "caller.h"

#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))

// ---- NumPy arrays
struct array {  // PyArrayObject_fields, after the header
  char *data;
  int nd;
  intptr_t *dimensions, *strides;
  object *base, *descr;
  int flags;
};
enum { CONTIGUOUS = 0x1, ALIGNED = 0x100, WRITEABLE = 0x400 };

static inline const struct array *as_array(object *o) {
  char *fields = (char *)o + py.header;
  return ((object **)fields)[-1] == py.array_type ? (const struct array *)fields : NULL;
}

// ---- what a program takes and gives
struct dim {
  int64_t size;  // if symbol < 0 and there is no polynomial
  int32_t symbol;
  int32_t fixed;
  rt_poly poly;
};

struct spec {
  object *descr, *name;
  const struct dim *dims;
  const int32_t *slots;  // buffers of the program that get the pointer
  object *allocate;      // results: called with arguments, or with a shape and descr
  object *arguments;     // results of fixed shape: (shape, descr)
  int32_t nd, slot_count, writable, itemsize;
};

struct caller {
  const struct rt_program *program;
  const struct spec *inputs, *outputs;
  const rt_poly *claims;  // that are >= 0
  const int64_t *minimum, *maximum;
  object *keep;           // what the pointers above point into
  int32_t input_count, output_count, symbol_count, claim_count, named, writes_inputs;
  struct entry *entries;
  struct method method;
};

static int fits(const struct spec *s, const struct array *a, int64_t *sizes) {
  int need = CONTIGUOUS | ALIGNED | (s->writable ? WRITEABLE : 0);
  if (!a || a->descr != s->descr || a->nd != s->nd || (a->flags & need) != need) return 0;
  for (int i = 0; i < s->nd; i++) {
    const struct dim *d = &s->dims[i];
    if (d->fixed) {
      if (a->dimensions[i] != d->size) return 0;
    } else if (d->symbol >= 0) {
      if (sizes[d->symbol] < 0) sizes[d->symbol] = a->dimensions[i];
      else if (sizes[d->symbol] != a->dimensions[i]) return 0;
    }
  }
  return 1;
}

// Dims that are polynomials, once every symbol has its size.
static int agrees(const struct spec *s, const struct array *a, const int64_t *sizes) {
  int64_t value;
  for (int i = 0; i < s->nd; i++)
    if (s->dims[i].poly &&
        (!rt_evaluate(s->dims[i].poly, sizes, &value) || value != a->dimensions[i]))
      return 0;
  return 1;
}

static int allowed(const struct caller *c, const int64_t *sizes) {
  int64_t value;
  for (int i = 0; i < c->symbol_count; i++)
    if (sizes[i] < c->minimum[i] || sizes[i] > c->maximum[i]) return 0;
  for (int i = 0; i < c->claim_count; i++)
    if (!rt_evaluate(c->claims[i], sizes, &value) || value < 0) return 0;
  return 1;
}

static struct entry *find(const struct caller *c, const int64_t *sizes) {
  for (struct entry *e = c->entries; e; e = e->next) {
    int inside = !is_busy(e);
    for (int i = 0; inside && i < c->symbol_count; i++)
      inside = e->low[i] <= sizes[i] && sizes[i] <= e->high[i];
    if (inside) return e;
  }
  return NULL;
}

static size_t extent(const struct spec *s, const struct array *a) {
  size_t bytes = (size_t)s->itemsize;
  for (int i = 0; i < a->nd; i++) bytes *= (size_t)a->dimensions[i];
  return bytes;
}

static int overlap(const struct spec *s, const struct array *a, const struct spec *t,
                   const struct array *b) {
  return a->data < b->data + extent(t, b) && b->data < a->data + extent(s, a);
}

// Whether an array that is written shares memory with another one of the call.
static int clash(const struct caller *c, const struct array *const *arrays, int count) {
  for (int i = 0; i < count; i++) {
    const struct spec *s = i < c->input_count ? &c->inputs[i] : &c->outputs[i - c->input_count];
    if (!s->writable) continue;
    for (int j = 0; j < count; j++) {
      const struct spec *t = j < c->input_count ? &c->inputs[j] : &c->outputs[j - c->input_count];
      if (j != i && overlap(s, arrays[i], t, arrays[j])) return 1;
    }
  }
  return 0;
}

static void place(const struct spec *s, const struct array *a, void **buffers) {
  for (int i = 0; i < s->slot_count; i++) buffers[s->slots[i]] = a->data;
}

// ---- results
static object *allocate(const struct spec *s, const int64_t *sizes) {
  if (s->arguments) return py.call(s->allocate, s->arguments, NULL);
  object *shape = py.tuple_new(s->nd), *arguments = py.tuple_new(2), *made = NULL;
  if (shape && arguments) {
    for (int i = 0; i < s->nd; i++) {
      const struct dim *d = &s->dims[i];
      int64_t size = d->fixed ? d->size : d->symbol >= 0 ? sizes[d->symbol] : 0;
      if (d->poly && !rt_evaluate(d->poly, sizes, &size)) size = -1;  // refused by the allocator
      py.tuple_set(shape, i, py.long_from(size));
    }
    py.inc_ref(s->descr);
    py.tuple_set(arguments, 0, shape);
    py.tuple_set(arguments, 1, s->descr);
    shape = NULL;
    made = py.call(s->allocate, arguments, NULL);
  }
  if (shape) py.dec_ref(shape);
  if (arguments) py.dec_ref(arguments);
  return made;
}

static object *gather(const struct caller *c, object **results) {
  object *made = c->named ? py.dict_new() : py.tuple_new(c->output_count);
  for (int i = 0; i < c->output_count; i++) {
    if (made && !c->named) {
      py.tuple_set(made, i, results[i]);  // takes the reference
      continue;
    }
    if (made && py.dict_set(made, c->outputs[i].name, results[i])) {
      py.dec_ref(made);
      made = NULL;
    }
    py.dec_ref(results[i]);
  }
  return made;
}

// ---- calls
// Positional and named arguments in the order of the inputs; 0 where they do not fit.
static int collect(const struct caller *c, object *const *args, intptr_t count, object *names,
                   object **values) {
  intptr_t named = names ? py.tuple_size(names) : 0;
  if (count + named != c->input_count) return 0;
  for (intptr_t i = 0; i < c->input_count; i++) values[i] = i < count ? args[i] : NULL;
  for (intptr_t k = 0; k < named; k++) {
    object *name = py.tuple_get(names, k);  // names in a call are interned, as ours are
    intptr_t i = count;
    while (i < c->input_count && c->inputs[i].name != name) i++;
    if (i == c->input_count || values[i]) return 0;
    values[i] = args[count + k];
  }
  return 1;
}

// Makes the results; 0 where the allocator gave something else, or raised (then *raised is set).
static int make(const struct caller *c, const struct array **arrays, const int64_t *sizes,
                object **results, int *raised) {
  for (int i = 0; i < c->output_count; i++) {
    const struct spec *s = &c->outputs[i];
    object *made = results[i] = allocate(s, sizes);
    const struct array *a = made ? as_array(made) : NULL;
    arrays[c->input_count + i] = a;
    if (fits(s, a, (int64_t *)sizes) && agrees(s, a, sizes)) continue;
    *raised = !made;
    for (int k = 0; k <= i; k++)
      if (results[k]) py.dec_ref(results[k]);
    return 0;
  }
  return 1;
}

static object *finish(const struct caller *c, const struct array **arrays, const int64_t *sizes,
                      object *const *given) {
  object *results[c->output_count + 1];
  struct entry *e = find(c, sizes);
  int raised = 0;
  if (!e) return nothing();
  reserve(e);
  if (given) {
    for (int i = 0; i < c->output_count; i++) py.inc_ref(results[i] = given[i]);
  } else if (!make(c, arrays, sizes, results, &raised)) {
    leave(e);
    return raised ? NULL : nothing();
  }
  for (int i = 0; i < c->input_count; i++) place(&c->inputs[i], arrays[i], e->buffers);
  for (int i = 0; i < c->output_count; i++)
    place(&c->outputs[i], arrays[c->input_count + i], e->buffers);
  execute(c->program, e, sizes);
  return gather(c, results);
}

// call(*inputs, **inputs): with results made here. After all inputs by position, the results may
// be given too.
static object *call(object *self, object *const *args, intptr_t count, object *names) {
  const struct caller *c = py.capsule_get(self, NULL);
  int given = !names && c->output_count && count == c->input_count + c->output_count;
  int total = c->input_count + (given ? c->output_count : 0);
  object *values[c->input_count + 1];
  const struct array *arrays[c->input_count + c->output_count + 1];
  int64_t sizes[c->symbol_count + 1];
  if (!collect(c, args, given ? c->input_count : count, names, values)) return nothing();
  for (int i = 0; i < c->symbol_count; i++) sizes[i] = -1;
  for (int i = 0; i < c->input_count; i++) {
    arrays[i] = as_array(values[i]);
    if (!fits(&c->inputs[i], arrays[i], sizes)) return nothing();
  }
  if (c->symbol_count) {
    if (!allowed(c, sizes)) return nothing();
    for (int i = 0; i < c->input_count; i++)
      if (!agrees(&c->inputs[i], arrays[i], sizes)) return nothing();
  }
  for (int i = c->input_count; i < total; i++) {
    const struct spec *s = &c->outputs[i - c->input_count];
    arrays[i] = as_array(args[i]);
    if (!fits(s, arrays[i], sizes) || !agrees(s, arrays[i], sizes)) return nothing();
  }
  if ((given || c->writes_inputs) && clash(c, arrays, total)) return nothing();
  return finish(c, arrays, sizes, given ? args + c->input_count : NULL);
}

// ---- made and changed by Python, which holds the GIL
static void clear(struct caller *c) {
  struct entry *e = c->entries, *next;
  c->entries = NULL;
  for (; e; e = next) {
    next = e->next;
    if (is_busy(e)) e->stale = 1;  // freed by the thread that runs it
    else drop(e);
  }
}

static void destroy(object *capsule) {
  struct caller *c = py.capsule_get(capsule, NULL);
  clear(c);
  py.dec_ref(c->keep);
  free(c);
}

EXPORT object *tegg_caller_new(const struct caller *description) {
  struct caller *c = malloc(sizeof *c);
  if (!c) return nothing();
  *c = *description;
  c->entries = NULL;
  c->method = (struct method){"call", (void *)call, FASTCALL_KEYWORDS, NULL};
  py.inc_ref(c->keep);
  object *capsule = py.capsule_new(c, NULL, destroy);
  if (!capsule) return NULL;
  object *made = py.function_new(&c->method, capsule, NULL);
  py.dec_ref(capsule);
  return made;
}

EXPORT int tegg_caller_prepare(object *capsule, const int64_t *low, const int64_t *high,
                               void *const *buffers, int count, object *keep, int nt, int release) {
  struct caller *c = py.capsule_get(capsule, NULL);
  struct entry *e = new_entry(low, high, c->symbol_count, buffers, count, keep, nt, release);
  if (!e) return 0;
  e->next = c->entries;
  c->entries = e;
  return 1;
}

EXPORT void tegg_caller_clear(object *capsule) { clear(py.capsule_get(capsule, NULL)); }
