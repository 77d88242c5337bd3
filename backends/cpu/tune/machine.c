// What the machine can do at most, measured in the process's own thread pool: bytes a second at each
// size, multiply-adds a second, and what it costs to hand work to threads and to let them wait.
// Stands below the prelude of kernels, whose vectors it uses.

const struct rt_table *tegg_rt;
void tegg_bind(const struct rt_table *t) { tegg_rt = t; }

enum { READ, WRITE, COPY, RUNS };

struct traffic {
  char *from, *to;
  int64_t bytes;  // of each, over all threads
  int mode, repeats;
  double seconds;
  int threads;  // that took part
};

// Four vectors at a time: the loads of a loop, not its counting, are what is measured. Kernels ask for
// what lies a page on where it may come from far away, and hardware follows to a page's end only.
enum { FAR = 1 << 19, PAGE = 4096 };
static float read_bytes(const char *p, int64_t n, int far) {
  vf a = {0}, b = {0}, c = {0}, d = {0};
  const int64_t step = sizeof(vf);
  for (int64_t i = 0; i + 4 * step <= n; i += 4 * step) {
    if (far)
      for (int64_t line = 0; line < 4 * step; line += 64) fetch_run(p + i + line + PAGE);
    a += *(const vf_any *)(p + i);
    b += *(const vf_any *)(p + i + step);
    c += *(const vf_any *)(p + i + 2 * step);
    d += *(const vf_any *)(p + i + 3 * step);
  }
  a += b + c + d;
  return a[0];
}

// The same in four runs side by side, each of a quarter: some hardware follows those sooner than one.
static float read_runs(const char *p, int64_t n) {
  vf sums[4] = {{0}};
  const int64_t apart = n / 4 / (int64_t)sizeof(vf) * (int64_t)sizeof(vf);
  for (int64_t i = 0; i < apart; i += sizeof(vf))
    for (int k = 0; k < 4; k++) sums[k] += *(const vf_any *)(p + i + k * apart);
  return (sums[0] + sums[1] + sums[2] + sums[3])[0];
}

// Stores go past the caches where those of kernels do (stream.h), which is known before a loop. The sum
// keeps compilers from making a call of memcpy out of the loop.
INL void copied(char *to, const char *from, int64_t n, const int past) {
  vf one = vf_splat(1.0f);
  for (int64_t i = 0; i + (int64_t)sizeof(vf) <= n; i += sizeof(vf))
    vf_stream((float *)(to + i), from ? vf_load((const float *)(from + i)) + one : one, past);
}

static void copy_bytes(char *to, const char *from, int64_t n, int past) {
  if (past) copied(to, from, n, 1), stream_fence();
  else if (from) copied(to, from, n, 0);
  else copied(to, NULL, n, 0);
}

static void traffic_task(void *arg, int tid, int nt) {
  struct traffic *t = arg;
  int64_t share = t->bytes / nt & ~(int64_t)255, first = share * tid;
  int past = PAST_ALONG(t->to, t->mode == COPY ? 2 * t->bytes : t->bytes);
  volatile float sink;
  if (nt > 1) tegg_rt->barrier();
  double start = tegg_rt->now();
  for (int r = 0; r < t->repeats; r++) {
    if (t->mode == READ) sink = read_bytes(t->from + first, share, t->bytes >= FAR);
    else if (t->mode == RUNS) sink = read_runs(t->from + first, share);
    else copy_bytes(t->to + first, t->mode == COPY ? t->from + first : 0, share, past);
    __asm__ volatile("" ::: "memory");
  }
  if (nt > 1) tegg_rt->barrier();
  if (tid == 0) t->seconds = tegg_rt->now() - start, t->threads = nt;
  (void)sink;
}

// Seconds of one pass over `bytes`; 0 where the pool was busy and other threads did not take part.
double tegg_traffic(char *from, char *to, int64_t bytes, int mode, int repeats, int nt) {
  struct traffic t = {from, to, bytes, mode, repeats, 0, 0};
  tegg_rt->run(traffic_task, &t, nt);
  return t.threads == nt ? t.seconds / repeats : 0;
}

// ---- multiply-adds: enough chains side by side to hide the latency of each. The vectors are those
// of the machine, and the compiler may fuse: this is what the processor can do, not what kernels do.
#define CHAINS 12
#define BYTES (4 * TEGG_LANES)
#if defined(__clang__)
#define FUSED
#define FUSE _Pragma("clang fp contract(fast)")
#else
#define FUSED __attribute__((noinline, optimize("fp-contract=fast")))
#define FUSE
#endif
#define MULTIPLY_ADDS(NAME, T) \
  static FUSED double NAME(int64_t steps) { \
    FUSE \
    typedef T v __attribute__((vector_size(BYTES))); \
    v r[CHAINS], m = (T)0.999999 - (v){0}, d = (T)1e-6 - (v){0}; \
    for (int i = 0; i < CHAINS; i++) r[i] = (T)(1.0 + i * 1e-3) - (v){0}; \
    for (int64_t k = 0; k < steps; k++) \
      for (int i = 0; i < CHAINS; i++) r[i] = r[i] * m + d; \
    for (int i = 1; i < CHAINS; i++) r[0] += r[i]; \
    return (double)r[0][0]; \
  }
MULTIPLY_ADDS(fma_f32, float)
MULTIPLY_ADDS(fma_f64, double)

struct arithmetic {
  int64_t steps;
  int wide;
  double seconds;
  int threads;
};

static void arithmetic_task(void *arg, int tid, int nt) {
  struct arithmetic *a = arg;
  volatile double sink;
  if (nt > 1) tegg_rt->barrier();
  double start = tegg_rt->now();
  sink = a->wide ? fma_f64(a->steps) : fma_f32(a->steps);
  if (nt > 1) tegg_rt->barrier();
  if (tid == 0) a->seconds = tegg_rt->now() - start, a->threads = nt;
  (void)sink;
}

// Seconds of one multiply-add of one lane in each of nt threads; `wide`: of float64.
double tegg_multiply_add(int64_t steps, int wide, int nt) {
  struct arithmetic a = {steps, wide, 0, 0};
  tegg_rt->run(arithmetic_task, &a, nt);
  return a.threads == nt ? a.seconds / ((double)steps * CHAINS * (wide ? TEGG_LANES / 2 : TEGG_LANES)) : 0;
}

// ---- threads
struct waiting {
  int repeats;
  double seconds;
  int threads;
};

static void waiting_task(void *arg, int tid, int nt) {
  struct waiting *w = arg;
  if (nt > 1) tegg_rt->barrier();
  double start = tegg_rt->now();
  for (int i = 0; i < w->repeats && nt > 1; i++) tegg_rt->barrier();
  if (tid == 0) w->seconds = tegg_rt->now() - start, w->threads = nt;
}

// Seconds of one barrier of nt threads.
double tegg_barrier(int repeats, int nt) {
  struct waiting w = {repeats, 0, 0};
  tegg_rt->run(waiting_task, &w, nt);
  return w.threads == nt ? w.seconds / repeats : 0;
}

static void nothing(void *arg, int tid, int nt) { (void)arg, (void)tid, (void)nt; }

// Seconds to hand a task to nt threads and to hear that all are done.
double tegg_start(int repeats, int nt) {
  double start = tegg_rt->now();
  for (int i = 0; i < repeats; i++) tegg_rt->run(nothing, 0, nt);
  return (tegg_rt->now() - start) / repeats;
}
