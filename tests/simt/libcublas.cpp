// A libcublas.so for machines without a GPU, over the driver that libcuda.cpp plays: matrices in
// columns, as the library documents them, and its refusals. What is asked for runs when its stream does.
#include <math.h>
#include <stdint.h>
#include <string.h>
#include <array>
#include <map>
#include <set>
#include <string>

extern "C" {
void simt_known(void *, size_t);
int fake_put(void *stream, int (*work)(void *), const void *data, size_t n);
int fake_captured(void *stream);
int cuMemAllocAsync(uint64_t *, size_t, void *);
int fake_inside(const void *, size_t);
int fake_context(void);
int fake_setting(const char *);
void fake_words(const char *);
}

namespace {
enum { OK, NOT_INITIALIZED = 1, ALLOC_FAILED = 3, INVALID_VALUE = 7, ARCH_MISMATCH = 8,
       EXECUTION_FAILED = 13, NOT_SUPPORTED = 15 };
enum { F32 = 0, F64 = 1, F16 = 2, BF16 = 14 };
enum { COMPUTE_32F = 68, COMPUTE_64F = 70, FAST_16F = 74, FAST_16BF = 75, FAST_TF32 = 77 };
struct Handle { void *stream = nullptr; char *space = nullptr; size_t bytes = 0; };
struct Matrix { char *at; int type; long lead, step; bool turned; };
struct Gemm { long m, n, k, batch; Matrix a, b, c; double alpha, beta; int compute; char *space;
              size_t bytes; };

std::map<std::string, long> counts;
std::map<std::string, int> planted;
std::set<std::array<int, 6>> loaded;
const int DEEP = 64;  // from which a sum takes two kernels
int version[2] = {12, 4};

int enter(const char *name, bool handle = true) {
  counts[name]++;
  auto found = planted.find(name);
  if (found != planted.end()) {
    const int status = found->second;
    planted.erase(found);
    return status;
  }
  return handle ? OK : NOT_INITIALIZED;
}
long size_of(int type) { return type == F64 ? 8 : type == F32 ? 4 : 2; }
float from_half(uint16_t h) {
  const int exponent = h >> 10 & 31, mantissa = h & 1023;
  const float sign = h & 0x8000 ? -1.f : 1.f;
  if (exponent == 31) return mantissa ? NAN : sign * INFINITY;
  return sign * (exponent ? ldexpf(1024 + mantissa, exponent - 25) : ldexpf(mantissa, -24));
}
uint16_t to_half(float f) {
  uint32_t bits;
  memcpy(&bits, &f, 4);
  const uint16_t sign = bits >> 16 & 0x8000;
  if (isnan(f)) return sign | 0x7e00;
  const float a = fabsf(f);
  if (a >= 65520.f) return sign | 0x7c00;
  if (a < ldexpf(1, -14)) return sign | (uint16_t)nearbyintf(ldexpf(a, 24));
  int exponent;
  const float mantissa = frexpf(a, &exponent);  // 0.5 to 1
  const int whole = (int)nearbyintf(ldexpf(mantissa, 11));
  return sign | (uint16_t)(((exponent + 14) << 10) + (whole - 1024));
}
float from_brain(uint16_t h) {
  const uint32_t bits = (uint32_t)h << 16;
  float f;
  memcpy(&f, &bits, 4);
  return f;
}
uint32_t cut(float f, int dropped) {  // to nearest even, without the last bits
  uint32_t bits;
  memcpy(&bits, &f, 4);
  if (isnan(f)) return bits | 0x00400000;
  const uint32_t half = (1u << (dropped - 1)) - 1 + (bits >> dropped & 1);
  return (bits + half) >> dropped << dropped;
}
float rounded(float f, int compute) {
  if (compute == FAST_16F) return from_half(to_half(f));
  if (compute != FAST_16BF && compute != FAST_TF32) return f;
  const uint32_t bits = cut(f, compute == FAST_16BF ? 16 : 13);
  memcpy(&f, &bits, 4);
  return f;
}
double read(const Matrix &x, long row, long column, long item, int compute) {
  if (x.turned) std::swap(row, column);
  const char *p = x.at + (item * x.step + column * x.lead + row) * size_of(x.type);
  if (x.type == F64) return *(double *)p;
  if (x.type == F16) return from_half(*(uint16_t *)p);
  if (x.type == BF16) return from_brain(*(uint16_t *)p);
  return rounded(*(float *)p, compute);
}
void write(const Matrix &x, long row, long column, long item, double value) {
  char *p = x.at + (item * x.step + column * x.lead + row) * size_of(x.type);
  if (x.type == F64) *(double *)p = value;
  else if (x.type == F32) *(float *)p = (float)value;
  else if (x.type == F16) *(uint16_t *)p = to_half((float)value);
  else *(uint16_t *)p = cut((float)value, 16) >> 16;
  simt_known(p, size_of(x.type));
}
// The bytes that a matrix spans must be of one allocation.
bool holds(const Matrix &x, long rows, long columns, long batch) {
  if (x.turned) std::swap(rows, columns);
  if (!rows || !columns || !batch) return true;
  return fake_inside(x.at, ((batch - 1) * x.step + (columns - 1) * x.lead + rows) * size_of(x.type));
}
// A workspace keeps nothing between calls. With a deep sum a kernel of its own writes it.
int scribble(void *data) {
  const Gemm *g = (Gemm *)data;
  if (!g->space || !fake_inside(g->space, g->bytes)) {
    fake_words("the workspace of cuBLAS is gone");
    return 719;
  }
  memset(g->space, 0x77, g->bytes);
  return 0;
}
int run(void *data) {
  const Gemm *g = (Gemm *)data;
  if (!holds(g->a, g->m, g->k, g->batch) || !holds(g->b, g->k, g->n, g->batch)
      || !holds(g->c, g->m, g->n, g->batch) || (g->space && !fake_inside(g->space, g->bytes))) {
    fake_words("a product of cuBLAS leaves its allocation");
    return 719;
  }
  if (g->space) memset(g->space, 0x77, g->bytes);
  counts["products"]++;
  for (long item = 0; item < g->batch; item++)
    for (long j = 0; j < g->n; j++)
      for (long i = 0; i < g->m; i++) {
        double total = 0;
        float narrow = 0;
        for (long l = 0; l < g->k; l++) {
          const double x = read(g->a, i, l, item, g->compute), y = read(g->b, l, j, item, g->compute);
          if (g->compute == COMPUTE_64F) total += x * y;
          else narrow += (float)x * (float)y;
        }
        if (g->compute != COMPUTE_64F) total = narrow;
        const double old = g->beta ? g->beta * read(g->c, i, j, item, COMPUTE_32F) : 0;
        write(g->c, i, j, item, g->alpha * total + old);
      }
  return 0;
}
int gemm(Handle *h, int ta, int tb, int m, int n, int k, const void *alpha, Matrix a, Matrix b,
         const void *beta, Matrix c, int batch, int compute, int algorithm) {
  if (!h) return NOT_INITIALIZED;
  if (m < 0 || n < 0 || k < 0 || batch < 0 || ta < 0 || ta > 2 || tb < 0 || tb > 2 || !alpha
      || !beta || algorithm < -1)
    return INVALID_VALUE;
  a.turned = ta, b.turned = tb, c.turned = false;
  const int most_a = ta ? k : m, most_b = tb ? n : k;
  if (a.lead < (most_a > 1 ? most_a : 1) || b.lead < (most_b > 1 ? most_b : 1)
      || c.lead < (m > 1 ? m : 1))
    return INVALID_VALUE;
  if (m && n && batch && (!a.at || !b.at || !c.at)) return INVALID_VALUE;
  const bool wide = a.type == F64 && c.type == F64 && compute == COMPUTE_64F;
  const bool plain = a.type == F32 && c.type == F32
                     && (compute == COMPUTE_32F || (compute >= FAST_16F && compute <= FAST_TF32));
  const bool half = (a.type == F16 || a.type == BF16) && (c.type == a.type || c.type == F32)
                    && compute == COMPUTE_32F;
  if (a.type != b.type || !(wide || plain || half)) return NOT_SUPPORTED;
  const bool recent = a.type == BF16 || compute == FAST_16BF || compute == FAST_TF32;
  if (recent && fake_setting("major") < 8) return ARCH_MISMATCH;
  if (batch > 1 && c.step < (long)c.lead * (n - 1) + m && m && n) return INVALID_VALUE;
  const bool d = compute == COMPUTE_64F;
  Gemm g{m, n, k, batch, a, b, c, d ? *(double *)alpha : *(float *)alpha,
         d ? *(double *)beta : *(float *)beta, compute, h->space, h->bytes};
  counts[h->space ? "with workspace" : "without workspace"]++;
  counts["captured"] += fake_captured(h->stream);
  // a kernel is loaded when it is first started, which only some captures allow: here none does
  if (loaded.insert({a.type, c.type, compute, ta, tb, k > DEEP}).second && fake_captured(h->stream))
    return EXECUTION_FAILED;
  if (!h->space && cuMemAllocAsync((uint64_t *)&g.space, g.bytes = 1 << 20, h->stream))
    return ALLOC_FAILED;
  if (k > DEEP && fake_put(h->stream, scribble, &g, sizeof g)) return EXECUTION_FAILED;
  return fake_put(h->stream, run, &g, sizeof g) ? EXECUTION_FAILED : OK;
}
}  // namespace

extern "C" {
long fake_blas_count(const char *what) { return counts[what]; }
void fake_blas_fail(const char *call, int status) { planted[call] = status; }
void fake_blas_version(int major, int minor) { version[0] = major, version[1] = minor; }
void fake_blas_reset(void) {
  counts.clear(), planted.clear(), loaded.clear();
  fake_blas_version(12, 4);
}

int cublasGetProperty(int which, int *out) {
  if (which < 0 || which > 2 || !out) return INVALID_VALUE;
  *out = which < 2 ? version[which] : 0;
  return OK;
}
int cublasCreate_v2(Handle **out) {
  if (int r = enter(__func__)) return r;
  if (!fake_context()) return NOT_INITIALIZED;
  *out = new Handle;
  return OK;
}
int cublasDestroy_v2(Handle *h) {
  if (int r = enter(__func__, h)) return r;
  delete h;
  return OK;
}
int cublasSetStream_v2(Handle *h, void *stream) {
  if (int r = enter(__func__, h)) return r;
  *h = Handle{stream};  // and the workspace is the library's own again
  return OK;
}
int cublasSetWorkspace_v2(Handle *h, void *p, size_t n) {
  if (int r = enter(__func__, h)) return r;
  if ((uintptr_t)p % 256) return INVALID_VALUE;
  h->space = (char *)p, h->bytes = n;
  return OK;
}
int cublasSetMathMode(Handle *h, int mode) {
  if (int r = enter(__func__, h)) return r;
  return mode & ~(1 | 2 | 3 | 16) ? INVALID_VALUE : OK;
}
int cublasSetPointerMode_v2(Handle *h, int mode) {
  if (int r = enter(__func__, h)) return r;
  return mode ? NOT_SUPPORTED : OK;  // played with numbers of the host alone
}
int cublasGemmEx(Handle *h, int ta, int tb, int m, int n, int k, const void *alpha, void *a, int da,
                 int la, void *b, int db, int lb, const void *beta, void *c, int dc, int lc,
                 int compute, int algorithm) {
  if (int r = enter(__func__, h)) return r;
  return gemm(h, ta, tb, m, n, k, alpha, {(char *)a, da, la, 0}, {(char *)b, db, lb, 0}, beta,
              {(char *)c, dc, lc, 0}, 1, compute, algorithm);
}
int cublasGemmStridedBatchedEx(Handle *h, int ta, int tb, int m, int n, int k, const void *alpha,
                               void *a, int da, int la, long long sa, void *b, int db, int lb,
                               long long sb, const void *beta, void *c, int dc, int lc,
                               long long sc, int batch, int compute, int algorithm) {
  if (int r = enter(__func__, h)) return r;
  return gemm(h, ta, tb, m, n, k, alpha, {(char *)a, da, la, (long)sa},
              {(char *)b, db, lb, (long)sb}, beta, {(char *)c, dc, lc, (long)sc}, batch, compute,
              algorithm);
}
}
