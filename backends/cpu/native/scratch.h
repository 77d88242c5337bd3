// Scratch memory of kernels: a block a thread, which grows and is kept.
//
// Threads of a team ask for as much each, so large blocks are cut side by side from a region for all
// of them. Where a region fills pages of 2 MB it lies in such, if the system has them: hardware
// fetches ahead to the end of a page, and what shares a page does not share sets of a cache by chance.
// A page that would stay half empty is made of small ones: it would be memory for nothing.
#define SMALL_BLOCK ((size_t)1 << 18)
#define GRAIN ((size_t)1 << 16)
#define PAGE ((size_t)1 << 21)

struct region {
  char *memory;
  size_t used, size;
  int blocks;
};
struct block {
  struct region *in;  // NULL: the memory is its own
  char *memory;
  size_t bytes;
};
static pthread_key_t block_key;
static _Thread_local struct block *own;
static struct region *open_region;  // whose rest the next block may have
static pthread_mutex_t regions = PTHREAD_MUTEX_INITIALIZER;

static size_t rounded(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

// Gives a block's memory back; of a region with its last block.
static void drop(struct block *b) {
  struct region *r = b->in;
  if (!r) free(b->memory);
  b->in = NULL, b->memory = NULL, b->bytes = 0;
  if (!r) return;
  pthread_mutex_lock(&regions);
  if (--r->blocks == 0) {
    if (open_region == r) open_region = NULL;
    free(r->memory);
    free(r);
  }
  pthread_mutex_unlock(&regions);
}

static void release(void *block) {
  drop(block);
  free(block);
}

static struct region *new_region(size_t size) {
  struct region *r = calloc(1, sizeof *r);
  void *memory = NULL;
  const size_t full = (size + PAGE / 2) / PAGE * PAGE;  // of large pages
  if (!r || posix_memalign(&memory, full ? PAGE : 64, rounded(size, full ? PAGE : GRAIN))) {
    free(r);
    return NULL;
  }
#ifdef MADV_HUGEPAGE
  if (full) madvise(memory, full, MADV_HUGEPAGE);
#endif
  r->memory = memory, r->size = size;
  return r;
}

// A large block, beside those of the other threads of the team.
static int take(struct block *b, size_t size, int threads) {
  pthread_mutex_lock(&regions);
  struct region *r = open_region;
  if (!r || r->size - r->used < size) r = open_region = new_region(size * (size_t)threads);
  if (r) {
    b->in = r, b->memory = r->memory + r->used, b->bytes = size;
    r->used += size, r->blocks++;
  }
  pthread_mutex_unlock(&regions);
  return r != NULL;
}

// At least so many bytes for the calling thread, one of `threads`; what they held is forgotten.
static void *scratch_of(size_t bytes, int threads) {
  if (own && bytes <= own->bytes) return own->memory;
  if (!own) {
    own = calloc(1, sizeof *own);
    if (own) pthread_setspecific(block_key, own);  // freed when the thread ends
  }
  const int small = bytes < SMALL_BLOCK;
  const size_t size = rounded(small ? bytes + bytes / 2 : bytes, small ? 4096 : GRAIN);
  if (own) {
    drop(own);
    if (!small && take(own, size, threads)) return own->memory;
    void *memory;
    if (small && !posix_memalign(&memory, 64, size)) {
      own->memory = memory, own->bytes = size;
      return memory;
    }
  }
  fprintf(stderr, "tegg: no memory for %zu bytes of a kernel's scratch\n", size);
  abort();  // a kernel has no way to fail
}

// In the child of a fork: whoever held the lock is not there to give it back.
static void forget_regions(void) {
  pthread_mutex_init(&regions, NULL);
  open_region = NULL;
}
