// A libcuda.so.1 for machines without a GPU: the driver's calls over the machine of machine.cpp.
// A "cubin" is a shared object that simulator.py made. What a stream is given runs when something
// waits for it, so that host code that forgets to wait reads what was there before.
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

extern "C" {
void simt_add(void *, size_t, const char *, int);
void simt_drop(void *);
void simt_known(void *, size_t);
int simt_launch(void (*)(void *), void *, unsigned, unsigned, int, void *, void *, size_t);
const char *simt_message(void);
}

namespace {
typedef int Result;
enum { OK, INVALID = 1, NO_MEMORY = 2, NOT_STARTED = 3, NO_DEVICE = 100, BAD_DEVICE = 101,
       BAD_IMAGE = 200, NO_CONTEXT = 201, NO_BINARY = 209, ILLEGAL_STATE = 401, NOT_FOUND = 500,
       NOT_READY = 600, FAILED = 719, UNSUPPORTED = 801, CAPTURE_UNSUPPORTED = 900,
       CAPTURE_INVALIDATED = 901, CAPTURE_IMPLICIT = 906, CAPTURED_EVENT = 907,
       WRONG_THREAD = 908, UPDATE_FAILED = 910 };
typedef std::function<Result()> Work;
struct Point { struct Stream *on; bool done = false; double time = 0; };  // one record of an event
typedef std::shared_ptr<Point> Mark;
struct Event { Mark last; };
struct Op { Work work; Mark records, waits; };
struct Stream { std::deque<Op> todo; bool blocking = true; struct Capture *capture = nullptr; };
struct Allocation { size_t size, mapped; int device; void *context; bool registered; };
struct Module { void *handle; char *low, *high; std::string path; };
struct Function { Module *module; std::string name; void (*body)(void *); int count; int dynamic; };
// A kernel, what another library starts, memory that is allocated, or a graph of its own.
struct Node { Function *function; unsigned blocks, threads, shared; std::vector<int64_t> arguments;
              std::vector<Node *> before; Work work; bool allocates = false;
              struct Graph *inner = nullptr; struct Event *event = nullptr; };
struct Graph { std::vector<Node *> nodes; };
// What a stream is given while it is captured. mode: 0 global, 1 of this thread, 2 relaxed.
struct Capture { Graph *graph; int mode; pthread_t thread; bool invalid = false; };
// As the driver's ABI has it.
struct NodeParameters { Function *function; unsigned grid[3], block[3], shared; void **parameters;
                        void **extra; };

std::recursive_mutex lock;
std::map<char *, Allocation> memory;
Stream legacy;
std::vector<Stream *> streams{&legacy};
std::map<std::string, long> settings{{"devices", 1}, {"major", 9}, {"minor", 0},
                                     {"version", 12090}, {"memory", 256l << 20}, {"pools", 1},
                                     {"multiprocessors", 1}, {"dry", 0}};
std::map<std::string, long> counts;
std::map<std::string, std::pair<int, int>> planted;  // call -> code, calls that still succeed
std::map<std::string, std::string> launched;
std::string log_text, words;
thread_local std::vector<void *> contexts;
int primary[8], created[8], sticky, started, order;  // contexts by device: one of each
size_t used, spare;  // bytes that are allocated, that the pool keeps
double clock_ms;
std::vector<Capture *> captures;

Result enter(const char *name, bool context = true) {
  counts[name]++;
  auto found = planted.find(name);
  if (found != planted.end() && found->second.second-- <= 0) {
    const int code = found->second.first;
    planted.erase(found);
    if (code >= 700 && code < 800) sticky = code;  // faults of kernels
    return code;
  }
  if (started && started != getpid()) return NOT_STARTED;
  if (sticky) return sticky;
  return context && contexts.empty() ? NO_CONTEXT : OK;
}
// What may not be called while a stream is captured: allocations that no stream orders, waits for all.
Result unsafe() {
  for (Capture *c : captures)
    if (c->mode == 0 || (c->mode == 1 && pthread_equal(c->thread, pthread_self()))) {
      c->invalid = true;
      words = "an operation is not permitted when a stream is capturing";
      return CAPTURE_UNSUPPORTED;
    }
  return OK;
}
// Calls that are played outside of captures alone.
#define UNCAPTURED(s) \
  if (stream_of(s)->capture) return stream_of(s)->capture->invalid = true, CAPTURE_UNSUPPORTED; \
  if (Result r = implicit(stream_of(s))) return r
#define SAFE if (Result refused = unsafe()) return refused
#define ENTER(...) \
  std::lock_guard<std::recursive_mutex> guard(lock); \
  if (Result refused = enter(__func__ __VA_OPT__(,) __VA_ARGS__)) return refused

Stream *stream_of(void *s);
Result implicit(Stream *s);
Allocation *inside(const void *p, size_t n) {
  auto it = memory.upper_bound((char *)p);
  if (it == memory.begin()) return nullptr;
  --it;
  return (char *)p + n <= it->first + it->second.size ? &it->second : nullptr;
}
Op of(Work work) {
  Op op;
  op.work = std::move(work);
  return op;
}
void drain(Stream *s, Point *until = nullptr);
void step(Stream *s) {
  Op op = std::move(s->todo.front());
  s->todo.pop_front();
  if (op.waits) {
    while (!op.waits->done && !op.waits->on->todo.empty()) step(op.waits->on);
  } else if (op.records) {
    op.records->done = true;
    op.records->time = clock_ms += 0.25;
  } else if (Result r = op.work()) {
    if (!sticky) sticky = r;
  }
}
// While one stream is waited for, the others go on beside it.
void drain(Stream *s, Point *until) {
  while (!s->todo.empty() && !(until && until->done)) {
    step(s);
    for (size_t i = 0; i < streams.size(); i++) {
      Stream *other = streams[i];
      if (other == s || other->todo.empty()) continue;
      const Op &next = other->todo.front();
      if (!next.waits || next.waits->done) step(other);
    }
  }
}
Stream *stream_of(void *s) { return (uintptr_t)s <= 2 ? &legacy : (Stream *)s; }
// A node after all that a captured stream was given.
Result noted(Stream *s, Node *node) {
  Capture *c = s->capture;
  if (c->invalid) return CAPTURE_INVALIDATED;
  if (!c->graph->nodes.empty()) node->before = {c->graph->nodes.back()};
  c->graph->nodes.push_back(node);
  return OK;
}
// Work for the default stream is refused while one that follows it is captured.
Result implicit(Stream *s) {
  for (Stream *other : streams)
    if (s == &legacy && other->capture && other->blocking) {
      other->capture->invalid = true;
      return CAPTURE_IMPLICIT;
    }
  return OK;
}
// The default stream and those that are not "non-blocking" follow one another.
void put(void *to, Op op) {
  Stream *s = stream_of(to);
  for (Stream *other : streams)
    if (other != s && (s == &legacy ? other->blocking : other == &legacy && s->blocking))
      drain(other);
  s->todo.push_back(std::move(op));
}
Result settled() {
  for (Stream *s : streams) drain(s);
  return sticky;
}
Result copied(void *to, const void *from, size_t n, bool to_device, bool from_device) {
  if ((to_device && !inside(to, n)) || (from_device && !inside(from, n))) {
    words = "a copy leaves its allocation";
    return INVALID;
  }
  if (settings["dry"]) return OK;
  memmove(to, from, n);
  if (to_device) simt_known(to, n);
  return OK;
}
Result run(Function *f, unsigned blocks, unsigned threads, unsigned shared,
           std::vector<int64_t> arguments) {
  counts["kernels"]++;
  log_text += f->name + " " + std::to_string(blocks) + " " + std::to_string(threads) + "\n";
  if (settings["dry"]) return OK;
  std::vector<void *> table;
  for (auto &a : arguments) table.push_back(&a);
  if (simt_launch(f->body, table.data(), blocks, threads, order++ % 3, f->module->low,
                  f->module->high, shared)) {
    words = f->name + ": " + simt_message();
    return FAILED;
  }
  return OK;
}
Result checked(Function *f, const unsigned *grid, const unsigned *block, unsigned shared) {
  const bool fits = grid[0] && grid[0] <= 2147483647u && grid[1] == 1 && grid[2] == 1 && block[0]
                    && block[0] <= 1024 && block[1] == 1 && block[2] == 1;
  if (!fits) words = "a grid or a block that the device cannot have";
  // the driver gives up to 48 KiB unasked, of which what a kernel declares, unknown here, is a part
  if (fits && shared > (unsigned)f->dynamic) {
    words = "more shared memory than the kernel was allowed";
    return INVALID;
  }
  return fits ? OK : INVALID;
}
std::vector<int64_t> values(Function *f, void **parameters) {
  std::vector<int64_t> out;
  for (int i = 0; i < f->count; i++) out.push_back(*(int64_t *)parameters[i]);
  return out;
}
Graph *copied(const Graph *g) {
  Graph *out = new Graph;
  std::map<const Node *, Node *> mine{{nullptr, nullptr}};
  for (const Node *n : g->nodes) {
    out->nodes.push_back(mine[n] = new Node(*n));
    for (Node *&b : out->nodes.back()->before) b = mine[b];
  }
  return out;
}
void recorded(Event *e, void *s) {
  Op op;
  op.records = e->last = std::make_shared<Point>(Point{stream_of(s)});
  put(s, op);
}
// Of the nodes that may run, the one that was added last runs first.
void started_graph(const Graph *g, void *s) {
  std::vector<Node *> left = g->nodes;
  while (!left.empty()) {
    size_t pick = left.size();
    for (size_t i = 0; i < left.size(); i++) {
      bool ready = true;
      for (Node *b : left[i]->before)
        for (Node *l : left) ready = ready && b != l;
      if (ready) pick = i;
    }
    const Node now = *left[pick];
    if (now.inner) started_graph(now.inner, s);
    else if (now.event) recorded(now.event, s);
    else if (now.work) put(s, of(now.work));
    else put(s, of([=] { return run(now.function, now.blocks, now.threads, now.shared, now.arguments); }));
    left.erase(left.begin() + pick);
  }
}
void *reserved(size_t n, int device, void *context) {
  const size_t mapped = (n + 3 * 4096) / 4096 * 4096;
  char *base = (char *)mmap(nullptr, mapped, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) return nullptr;
  char *p = base + 4096;
  const bool real = !settings["dry"];
  if (real) memset(p, 0x5a, n), simt_add(p, n, "device memory", 0);
  memory[p] = Allocation{n, mapped, device, context, real};
  used += n;
  return p;
}
Result allocated(uint64_t *out, size_t n, bool pool = false) {
  if (!n) return INVALID;
  const size_t again = pool ? std::min(spare, n) : 0;
  if (used + spare - again + n > (size_t)settings["memory"]) return NO_MEMORY;
  spare -= again;
  *out = (uint64_t)reserved(n, 0, pool ? nullptr : contexts.back());
  return *out ? OK : NO_MEMORY;
}
Result freed(uint64_t p, bool pool = false) {
  auto it = memory.find((char *)p);
  if (it == memory.end()) return INVALID;
  used -= it->second.size;
  spare += pool ? it->second.size : 0;
  if (it->second.registered) simt_drop(it->first);
  munmap(it->first - 4096, it->second.mapped);
  memory.erase(it);
  return OK;
}
}  // namespace

extern "C" {
// ---- what tests set and ask
void fake_set(const char *what, long value) { settings[what] = value; }
long fake_count(const char *what) { return counts[what]; }
void fake_fail(const char *call, int code, int after) { planted[call] = {code, after}; }
const char *fake_log(void) { return log_text.c_str(); }
void fake_reset(void) {
  for (Stream *s : streams) s->todo.clear();
  counts.clear(), planted.clear(), log_text.clear();
  for (Stream *s : streams) s->capture = nullptr;
  captures.clear();
  sticky = 0, spare = 0;
}
size_t fake_used(void) { return used; }
// What another library puts on a stream, and asks about memory.
int fake_put(void *stream, int (*work)(void *), const void *data, size_t n) {
  std::lock_guard<std::recursive_mutex> guard(lock);
  if (sticky || contexts.empty()) return sticky ? sticky : NO_CONTEXT;
  std::vector<char> kept((const char *)data, (const char *)data + n);
  Work work_of = [=] { return settings["dry"] ? OK : work((void *)kept.data()); };
  Stream *s = stream_of(stream);
  if (s->capture) {
    Node *node = new Node{};
    node->work = work_of;
    return noted(s, node);
  }
  if (Result r = implicit(s)) return r;
  put(stream, of(work_of));
  return OK;
}
int fake_captured(void *stream) { return stream_of(stream)->capture != nullptr; }
int fake_inside(const void *p, size_t n) { return inside(p, n) != nullptr; }
int fake_context(void) { return !contexts.empty(); }
int fake_setting(const char *what) { return settings[what]; }
void fake_words(const char *text) { words = text; }
uint64_t fake_foreign(size_t n, int device, int context) {
  return (uint64_t)reserved(n, device, &primary[context]);
}

// ---- start
Result cuInit(unsigned) {
  ENTER(false);
  // what a process of its own is told: "major=8 minor=0"
  if (const char *said = getenv("PLAYED_DEVICE")) {
    char name[32];
    long value;
    for (int n; sscanf(said, " %31[a-z]=%ld%n", name, &value, &n) == 2; said += n)
      settings[name] = value;
  }
  if (!settings["devices"]) return NO_DEVICE;
  static void *promoted = dlopen("machine.so", RTLD_NOW | RTLD_GLOBAL);
  (void)promoted;
  started = getpid();
  return OK;
}
// Tables of calls that are not public: this driver has none.
Result cuGetExportTable(const void **table, const void *) { *table = nullptr; return NOT_FOUND; }
Result cuDriverGetVersion(int *v) { *v = settings["version"]; return OK; }
Result cuGetErrorName(int code, const char **out) {
  static const std::map<int, const char *> names{
      {1, "CUDA_ERROR_INVALID_VALUE"}, {2, "CUDA_ERROR_OUT_OF_MEMORY"},
      {3, "CUDA_ERROR_NOT_INITIALIZED"}, {100, "CUDA_ERROR_NO_DEVICE"},
      {200, "CUDA_ERROR_INVALID_IMAGE"}, {201, "CUDA_ERROR_INVALID_CONTEXT"},
      {209, "CUDA_ERROR_NO_BINARY_FOR_GPU"}, {500, "CUDA_ERROR_NOT_FOUND"},
      {719, "CUDA_ERROR_LAUNCH_FAILED"}};
  auto it = names.find(code);
  *out = it == names.end() ? nullptr : it->second;
  return it == names.end() ? INVALID : OK;
}
Result cuGetErrorString(int code, const char **out) {
  static std::string text;
  text = code == NO_DEVICE ? "no CUDA-capable device is detected" :
         code == NO_MEMORY ? "out of memory" :
         (code == FAILED || code == INVALID) && !words.empty() ? words : "error " + std::to_string(code);
  *out = text.c_str();
  return OK;
}
Result cuDeviceGetCount(int *n) { ENTER(false); *n = settings["devices"]; return OK; }
Result cuDeviceGet(int *d, int i) {
  ENTER(false);
  if (i < 0 || i >= settings["devices"]) return BAD_DEVICE;
  *d = i;
  return OK;
}
Result cuDeviceGetName(char *s, int n, int) {
  ENTER(false);
  snprintf(s, n, "Simulated GPU");
  return OK;
}
Result cuDeviceTotalMem_v2(size_t *n, int) { ENTER(false); *n = settings["memory"]; return OK; }
Result cuDeviceComputeCapability(int *major, int *minor, int) {
  ENTER(false);
  *major = settings["major"], *minor = settings["minor"];
  return OK;
}
Result cuDeviceGetAttribute(int *v, int which, int) {
  ENTER(false);
  switch (which) {
    case 1: case 39: *v = 1024; break;  // threads of a block, of a multiprocessor
    case 10: *v = 32; break;            // of a warp
    case 8: *v = 49152; break;          // shared memory of a block
    case 12: *v = 65536; break;         // registers
    case 16: *v = settings["multiprocessors"]; break;
    case 38: *v = 50 << 20; break;
    case 75: *v = settings["major"]; break;
    case 76: *v = settings["minor"]; break;
    case 97: *v = 232448; break;
    case 115: *v = settings["pools"]; break;
    case 41: *v = 1; break;
    default: *v = 0;
  }
  return OK;
}

// ---- contexts, which belong to threads
Result cuDevicePrimaryCtxRetain(void **c, int d) { ENTER(false); *c = &primary[d]; return OK; }
Result cuDevicePrimaryCtxRelease_v2(int) { return OK; }
Result cuCtxPushCurrent_v2(void *c) { ENTER(false); contexts.push_back(c); return OK; }
Result cuCtxPopCurrent_v2(void **c) {
  if (contexts.empty()) return NO_CONTEXT;
  if (c) *c = contexts.back();
  contexts.pop_back();
  return OK;
}
Result cuCtxCreate_v4(void **c, void *, unsigned, int d) {
  ENTER(false);
  contexts.push_back(*c = &created[d]);
  return OK;
}
Result cuCtxGetDevice(int *d) {
  ENTER();
  int *c = (int *)contexts.back();
  *d = c - (c >= created && c < created + 8 ? created : primary);
  return OK;
}
Result cuCtxDetach(void *) { return OK; }
Result cuCtxSynchronize(void) { ENTER(); SAFE; return settled(); }

// ---- kernels
Result cuModuleLoadData(Module **out, const void *image) {
  ENTER();
  SAFE;
  const unsigned char *p = (const unsigned char *)image;
  if (memcmp(p, "\177ELF", 4)) return BAD_IMAGE;
  if (p[18] != 62) return NO_BINARY;  // machine code of a GPU
  const size_t n = *(uint64_t *)(p + 40) + (size_t) * (uint16_t *)(p + 58) * *(uint16_t *)(p + 60);
  char path[] = "/tmp/tegg-simt-module-XXXXXX";
  const int file = mkstemp(path);
  if (file < 0 || write(file, p, n) != (ssize_t)n) return NO_MEMORY;
  close(file);
  void *h = dlopen(path, RTLD_NOW);
  unlink(path);
  if (!h) {
    words = dlerror();
    return BAD_IMAGE;
  }
  Module *m = new Module{h, nullptr, nullptr, path};
  ((void (*)(char **, char **))dlsym(h, "simt_shared_range"))(&m->low, &m->high);
  *out = m;
  return OK;
}
Result cuModuleUnload(Module *m) { ENTER(); SAFE; settled(); dlclose(m->handle); delete m; return OK; }
Result cuModuleGetFunction(Function **out, Module *m, const char *name) {
  ENTER();
  void *body = dlsym(m->handle, (std::string("simt_body_") + name).c_str());
  void *count = dlsym(m->handle, (std::string("simt_arguments_") + name).c_str());
  if (!body || !count) return NOT_FOUND;
  *out = new Function{m, name, (void (*)(void *))body, ((int (*)(void))count)(), 0};
  return OK;
}
Result cuFuncGetAttribute(int *v, int, Function *) { ENTER(); *v = 0; return OK; }
Result cuFuncSetAttribute(Function *f, int which, int v) {
  ENTER();
  if (which == 8) f->dynamic = v;
  return v > 232448 ? INVALID : OK;
}
Result cuLaunchKernel(Function *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                      unsigned bz, unsigned shared, void *s, void **parameters, void **) {
  ENTER();
  const unsigned grid[] = {gx, gy, gz}, block[] = {bx, by, bz};
  if (Result r = checked(f, grid, block, shared)) return r;
  auto arguments = values(f, parameters);
  Stream *to = stream_of(s);
  if (to->capture) return noted(to, new Node{f, gx, bx, shared, arguments, {}});
  if (Result r = implicit(to)) return r;
  put(s, of([=] { return run(f, gx, bx, shared, arguments); }));
  return OK;
}

// ---- memory
Result cuMemAlloc_v2(uint64_t *out, size_t n) { ENTER(); SAFE; return allocated(out, n); }
Result cuMemFree_v2(uint64_t p) { ENTER(); SAFE; settled(); return freed(p); }
Result cuMemAllocAsync(uint64_t *out, size_t n, void *s) {
  ENTER();
  if (Capture *c = stream_of(s)->capture) {
    if (c->invalid) return CAPTURE_INVALIDATED;
    Node *node = new Node{};
    node->allocates = true;
    if (Result r = noted(stream_of(s), node)) return r;
  }
  return allocated(out, n, true);
}
Result cuMemFreeAsync(uint64_t p, void *s) {
  ENTER();
  if (stream_of(s)->capture) return stream_of(s)->capture->invalid = true, CAPTURE_UNSUPPORTED;
  put(s, of([=] { return freed(p, true); }));
  return OK;
}
Result cuMemAllocHost_v2(void **out, size_t n) {
  ENTER();
  SAFE;
  *out = n ? aligned_alloc(4096, (n + 4095) / 4096 * 4096) : nullptr;
  return *out ? OK : INVALID;
}
Result cuMemFreeHost(void *p) { ENTER(); SAFE; settled(); free(p); return OK; }
Result cuMemGetInfo_v2(size_t *free, size_t *total) {
  ENTER();
  *total = settings["memory"];
  *free = *total > used + spare ? *total - used - spare : 0;
  return OK;
}
Result cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t n, void *s) {
  ENTER();
  UNCAPTURED(s);
  if (settings["dry"]) return OK;
  std::vector<char> staged((const char *)from, (const char *)from + n);
  put(s, of([=] { return copied((void *)to, staged.data(), n, true, false); }));
  return OK;
}
Result cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t n, void *s) {
  ENTER();
  UNCAPTURED(s);
  put(s, of([=] { return copied(to, (void *)from, n, false, true); }));
  return OK;
}
Result cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t n, void *s) {
  ENTER();
  UNCAPTURED(s);
  put(s, of([=] { return copied((void *)to, (void *)from, n, true, true); }));
  return OK;
}
Result cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t n) {
  ENTER();
  SAFE;
  if (Result r = settled()) return r;
  return copied((void *)to, from, n, true, false);
}
Result cuMemcpyDtoH_v2(void *to, uint64_t from, size_t n) {
  ENTER();
  SAFE;
  if (Result r = settled()) return r;
  return copied(to, (void *)from, n, false, true);
}
Result cuPointerGetAttribute(void *out, int which, uint64_t p) {
  ENTER();
  Allocation *a = inside((void *)p, 1);
  if (!a) return INVALID;
  if (which == 1 && !a->context) return INVALID;  // a pool's
  if (which == 1) *(void **)out = a->context;
  else if (which == 2) *(unsigned *)out = 2;
  else if (which == 9) *(int *)out = a->device;
  else return INVALID;
  return OK;
}
Result cuDeviceGetDefaultMemPool(void **pool, int) { ENTER(false); *pool = &legacy; return OK; }
Result cuMemPoolSetAttribute(void *, int, void *) { ENTER(false); return OK; }
Result cuMemPoolTrimTo(void *, size_t keep) { ENTER(); spare = std::min(spare, keep); return OK; }

// ---- streams and events
Result cuStreamCreate(void **s, unsigned flags) {
  ENTER();
  Stream *made = new Stream;
  made->blocking = !(flags & 1);
  streams.push_back(made);
  *s = made;
  return OK;
}
Result cuStreamDestroy_v2(void *s) {
  ENTER();
  UNCAPTURED(s);
  drain(stream_of(s));
  for (size_t i = 0; i < streams.size(); i++)
    if (streams[i] == s) streams.erase(streams.begin() + i);
  return OK;
}
Result cuStreamSynchronize(void *s) {
  ENTER();
  UNCAPTURED(s);
  if (stream_of(s) == &legacy) return settled();
  drain(stream_of(s));
  return sticky;
}
Result cuStreamWaitEvent(void *s, Event *e, unsigned) {
  ENTER();
  UNCAPTURED(s);
  Op op;
  op.waits = e->last;
  if (op.waits) put(s, op);
  return OK;
}
Result cuEventCreate(Event **e, unsigned) { ENTER(); *e = new Event; return OK; }
Result cuEventDestroy_v2(Event *) { ENTER(); return settled(); }
Result cuEventRecord(Event *e, void *s) {
  ENTER();
  UNCAPTURED(s);
  recorded(e, s);
  return OK;
}
Result cuEventSynchronize(Event *e) {
  ENTER();
  if (e->last) drain(e->last->on, e->last.get());
  return sticky;
}
Result cuEventElapsedTime(float *ms, Event *a, Event *b) {
  ENTER();
  if (!a->last || !b->last || !a->last->done || !b->last->done) return NOT_READY;
  *ms = b->last->time - a->last->time;
  return OK;
}

// ---- what a stream is given, taken down
Result cuStreamBeginCapture_v2(void *s, int mode) {
  ENTER();
  Stream *to = stream_of(s);
  if (to == &legacy) return CAPTURE_UNSUPPORTED;
  if (to->capture) return ILLEGAL_STATE;
  if (mode < 0 || mode > 2) return INVALID;
  captures.push_back(to->capture = new Capture{new Graph, mode, pthread_self()});
  return OK;
}
Result cuStreamEndCapture(void *s, Graph **out) {
  ENTER();
  Stream *to = stream_of(s);
  Capture *c = to->capture;
  *out = nullptr;
  if (!c) return ILLEGAL_STATE;
  if (c->mode != 2 && !pthread_equal(c->thread, pthread_self())) return WRONG_THREAD;
  for (size_t i = 0; i < captures.size(); i++)
    if (captures[i] == c) captures.erase(captures.begin() + i);
  to->capture = nullptr;
  std::unique_ptr<Capture> gone(c);
  if (c->invalid) return CAPTURE_INVALIDATED;
  *out = c->graph;
  return OK;
}

// ---- graphs
Result cuGraphCreate(Graph **g, unsigned) { ENTER(); *g = new Graph; return OK; }
Result cuGraphDestroy(Graph *g) { ENTER(); delete g; return OK; }
Result cuGraphAddKernelNode(Node **out, Graph *g, Node **before, size_t n, NodeParameters *p) {
  ENTER();
  if (Result r = checked(p->function, p->grid, p->block, p->shared)) return r;
  g->nodes.push_back(new Node{p->function, p->grid[0], p->block[0], p->shared,
                              values(p->function, p->parameters),
                              std::vector<Node *>(before, before + n)});
  *out = g->nodes.back();
  return OK;
}
Result cuGraphInstantiateWithFlags(Graph **out, Graph *g, unsigned long long) {
  ENTER();
  *out = new Graph(*g);
  return OK;
}
Result cuGraphExecKernelNodeSetParams(Graph *, Node *node, NodeParameters *p) {
  ENTER();
  if (Result r = checked(p->function, p->grid, p->block, p->shared)) return r;
  node->function = p->function, node->blocks = p->grid[0], node->threads = p->block[0];
  node->arguments = values(p->function, p->parameters);
  return OK;
}
Result cuGraphExecDestroy(Graph *g) { ENTER(); delete g; return OK; }
Result cuGraphAddChildGraphNode(Node **out, Graph *g, Node **before, size_t n, Graph *inner) {
  ENTER();
  for (Node *node : inner->nodes)
    if (node->allocates) return words = "a graph that allocates is no node", UNSUPPORTED;
  Node *made = new Node{};
  made->inner = copied(inner);
  made->before = std::vector<Node *>(before, before + n);
  g->nodes.push_back(*out = made);
  return OK;
}
Result cuGraphAddEventRecordNode(Node **out, Graph *g, Node **before, size_t n, Event *e) {
  ENTER();
  Node *made = new Node{};
  made->event = e;
  made->before = std::vector<Node *>(before, before + n);
  g->nodes.push_back(*out = made);
  return OK;
}
// Only a graph of the same nodes, in the same order, can take the place of another.
Result cuGraphExecChildGraphNodeSetParams(Graph *, Node *node, Graph *inner) {
  ENTER();
  if (!node->inner || node->inner->nodes.size() != inner->nodes.size()) return UPDATE_FAILED;
  node->inner = copied(inner);
  return OK;
}
Result cuGraphLaunch(Graph *g, void *s) {
  ENTER();
  UNCAPTURED(s);
  started_graph(g, s);
  return OK;
}
}
