/* What the machine can do: bytes read per second at a working set, multiply-adds per second. */
#define _DEFAULT_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

/* of a register: the multiply-adds of wider vectors would wait for memory */
#if defined(__AVX512F__)
#define LANES 16
#elif defined(__AVX__)
#define LANES 8
#else
#define LANES 4
#endif
typedef float v __attribute__((vector_size(4 * LANES)));

/* ahead: bytes that are asked for before they are read, for hardware follows to a page's end only.
   apart: vectors between the eight that are read together; other hardware follows several runs. */
struct share { const v *data; long vectors, passes, ahead, apart; float sink; double seconds; };
static pthread_barrier_t start;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + 1e-9 * t.tv_nsec;
}

static void reading(struct share *s) {
  v total[8] = {{0}};
  for (long p = 0; p < s->passes; p++) {
    if (s->apart > 1)
      for (long i = 0; i < s->apart; i++)
        for (int j = 0; j < 8; j++) total[j] += s->data[i + j * s->apart];
    else
      for (long i = 0; i < s->vectors; i += 8)
        for (int j = 0; j < 8; j++) {
          if (s->ahead) __builtin_prefetch((const char *)(s->data + i + j) + s->ahead);
          total[j] += s->data[i + j];
        }
    __asm__ volatile("" ::: "memory");
  }
  for (int j = 0; j < 8; j++) s->sink += total[j][0];
}

static void adding(struct share *s) {
  v a[14], by = {0}, more = {0};
  by += 0.9999999f;
  more += 1e-7f;
  for (int i = 0; i < 14; i++) a[i] = by * (float)(1 + i);
  for (long p = 0; p < s->passes; p++) {
#pragma GCC unroll 14
    for (int i = 0; i < 14; i++) a[i] = a[i] * by + more;
  }
  for (int i = 0; i < 14; i++) s->sink += a[i][0];
}

static void *one(void *p) {
  struct share *s = p;
  pthread_barrier_wait(&start);
  double t = now();
  if (s->data) reading(s); else adding(s);
  s->seconds = now() - t;
  return 0;
}

static double best(int threads, const float *data, long floats, long passes, int tries) {
  double least = 1e30;
  pthread_t ids[256];
  static struct share shares[256];
  for (int k = 0; k < tries; k++) {
    double most = 0;
    pthread_barrier_init(&start, 0, threads);
    for (int i = 0; i < threads; i++) {
      long vectors = floats / LANES / threads / 8 * 8;
      shares[i] = (struct share){data ? (const v *)data + vectors * i : 0, vectors, passes,
                                 k % 3 == 1 ? 4096 : 0, k % 3 == 2 ? vectors / 8 : 1, 0, 0};
      pthread_create(&ids[i], 0, one, &shares[i]);
    }
    for (int i = 0; i < threads; i++) {
      pthread_join(ids[i], 0);
      if (shares[i].seconds > most) most = shares[i].seconds;
    }
    pthread_barrier_destroy(&start);
    if (most < least) least = most;
  }
  return least;
}

/* limits THREADS BYTES...: multiply-adds per second, then bytes per second for each working set */
int main(int argc, char **argv) {
  int threads = argc > 1 ? atoi(argv[1]) : 1;
  if (threads < 1 || threads > 256) return 2;
  long passes = 300000;
  printf("%.6g\n", threads * passes * 14.0 * LANES / best(threads, 0, 0, passes, 40));
  for (int i = 2; i < argc; i++) {
    long bytes = atol(argv[i]), floats = bytes / 4;
    long grain = 8L * LANES * threads;
    floats = (floats + grain - 1) / grain * grain;
    size_t whole = (floats * 4 + (2 << 20) - 1) / (2 << 20) * (2 << 20);
    float *data = aligned_alloc(2 << 20, whole);
    if (!data) return 3;
#ifdef MADV_HUGEPAGE
    madvise(data, whole, MADV_HUGEPAGE);  /* as NumPy asks for */
#endif
    for (long k = 0; k < floats; k++) data[k] = 1;
    long again = 1 + 16000000 / floats;
    printf("%.6g\n", floats * 4.0 * again / best(threads, data, floats, again, 24));
    free(data);
  }
  return 0;
}
