// What compiled kernels ask of the machine. Threads of a block are fibers of one OS thread.
#pragma once
#include <stddef.h>
#include <stdint.h>

#define SIMT_PLAIN __attribute__((no_sanitize("thread", "alignment"), unused))
enum { SIMT_SLOT = 32 };  // bytes that a lane can hand to its warp

extern "C" {
unsigned simt_thread(void);
unsigned simt_block(void);
unsigned simt_threads(void);
unsigned simt_blocks(void);
void *simt_dynamic(void);  // the shared memory whose size the launch says
void simt_barrier(int line);
// Which memory it orders: 1, that of all blocks, 2, that of the block, 3, both.
void simt_barrier_of(int line, int memory);
void simt_warp_barrier(unsigned mask, int line);
// One of fifteen more barriers: those who come there without waiting go on at once.
void simt_numbered(int number, int waits, int line);
// Hands n bytes to the warp, waits for all lanes of the mask; lane k's bytes lie at k * SIMT_SLOT.
const char *simt_exchange(unsigned mask, const void *mine, size_t n, int line, const char *what);
// Starts to copy n bytes to shared memory, zeros after the first `filled`; they are there for this
// thread after a wait for the group that the copy was committed to, and for others after a barrier.
void simt_copy(void *to, const void *from, int n, int filled, int line);
void simt_commit(void);
void simt_read(const void *from, size_t n);  // what the compiler does not see
void simt_wait(int groups);  // for all but the last groups
// Products of four warps, all of whose threads call these. Sums of 64 rows and so many columns, 16 deep;
// left, right: where the operands lie, or four registers of each thread; flags: 1, 2: whose lines go
// along rows, along columns; 4: bfloat16; 8: the sums are the products alone.
uint32_t simt_shared_address(const void *p);
void simt_shown(void);  // what this thread has written is what products read, once a barrier follows
void simt_products_fence(int line);
void simt_products(float *d, uint64_t left, uint64_t right, int columns, int flags, int line);
void simt_products_held(float *d, const uint32_t *left, uint64_t right, int columns, int flags, int line);
void simt_products_commit(int line);
void simt_products_wait(int batches, int line);
void simt_fail(const char *format, ...);
}
// Where the memory of a block lies in a translation unit.
#define SIMT_MODULE \
  extern "C" char __start_simt_shared[] __attribute__((weak)), \
      __stop_simt_shared[] __attribute__((weak)); \
  extern "C" void simt_shared_range(char **low, char **high) { \
    *low = __start_simt_shared; \
    *high = __stop_simt_shared; \
  }
