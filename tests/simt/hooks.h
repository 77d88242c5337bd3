// The hooks that -fsanitize=thread calls. Part of machine.cpp, whose names they use.
extern "C" {
#define ACCESS(N) \
  void __tsan_read##N(void *p) { access(p, N, false); } \
  void __tsan_write##N(void *p) { access(p, N, true); } \
  void __tsan_unaligned_read##N(void *p) { access(p, N, false); } \
  void __tsan_unaligned_write##N(void *p) { access(p, N, true); } \
  void __tsan_volatile_read##N(void *p) { access(p, N, false); } \
  void __tsan_volatile_write##N(void *p) { access(p, N, true); }
ACCESS(1) ACCESS(2) ACCESS(4) ACCESS(8) ACCESS(16)
// ... and those of -fsanitize=alignment,bounds
struct Mismatch {
  const char *file;
  uint32_t line, column;
  const void *type;
  unsigned char log_alignment, kind;
};
void __ubsan_handle_type_mismatch_v1(Mismatch *m, uintptr_t p) {
  simt_fail("access at line %u to an address that is no multiple of %d", m->line,
            1 << m->log_alignment);
}
void __ubsan_handle_out_of_bounds(Mismatch *m, uintptr_t index) {
  simt_fail("line %u reads or writes index %ld of a fixed array, beyond its end", m->line,
            (long)index);
}
void __tsan_read_range(void *p, size_t n) { access(p, n, false); }
void __tsan_write_range(void *p, size_t n) { access(p, n, true); }
// What clang makes of structures that are copied: bytes, of no alignment of their own.
void *__tsan_memcpy(void *to, const void *from, size_t n) {
  for (size_t i = 0; i < n; i++) access((char *)from + i, 1, false), access((char *)to + i, 1, true);
  return memcpy(to, from, n);
}
void *__tsan_memset(void *to, int value, size_t n) {
  for (size_t i = 0; i < n; i++) access((char *)to + i, 1, true);
  return memset(to, value, n);
}
void __tsan_func_entry(void *) {}
void __tsan_func_exit(void) {}
void __tsan_init(void) {}
}
