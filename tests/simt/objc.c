// The entry points of libobjc and Metal, for x86-64: a message is a jump to what `simt_find` gives for
// its receiver and selector, with all arguments where the caller has put them, as the real one does.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

void *(*simt_find)(void *to, const char *selector);
void *(*simt_class)(const char *name);
void *(*simt_push)(void);
void (*simt_pop)(void *pool);
void *(*simt_device)(void);

__attribute__((used)) static void *found(void *to, const char *selector) {
  return simt_find(to, selector);
}

__asm__(".text\n.globl objc_msgSend\n.type objc_msgSend, @function\nobjc_msgSend:\n"
        "  push %rbp\n  mov %rsp, %rbp\n  sub $192, %rsp\n"
        "  mov %rdi, (%rsp)\n  mov %rsi, 8(%rsp)\n  mov %rdx, 16(%rsp)\n  mov %rcx, 24(%rsp)\n"
        "  mov %r8, 32(%rsp)\n  mov %r9, 40(%rsp)\n"
        "  movups %xmm0, 48(%rsp)\n  movups %xmm1, 64(%rsp)\n  movups %xmm2, 80(%rsp)\n"
        "  movups %xmm3, 96(%rsp)\n  movups %xmm4, 112(%rsp)\n  movups %xmm5, 128(%rsp)\n"
        "  movups %xmm6, 144(%rsp)\n  movups %xmm7, 160(%rsp)\n"
        "  call found\n  mov %rax, %r11\n"
        "  mov (%rsp), %rdi\n  mov 8(%rsp), %rsi\n  mov 16(%rsp), %rdx\n  mov 24(%rsp), %rcx\n"
        "  mov 32(%rsp), %r8\n  mov 40(%rsp), %r9\n"
        "  movups 48(%rsp), %xmm0\n  movups 64(%rsp), %xmm1\n  movups 80(%rsp), %xmm2\n"
        "  movups 96(%rsp), %xmm3\n  movups 112(%rsp), %xmm4\n  movups 128(%rsp), %xmm5\n"
        "  movups 144(%rsp), %xmm6\n  movups 160(%rsp), %xmm7\n"
        "  leave\n  jmp *%r11\n");

void *objc_getClass(const char *name) { return simt_class(name); }
void *objc_autoreleasePoolPush(void) { return simt_push(); }
void objc_autoreleasePoolPop(void *pool) { simt_pop(pool); }
void *MTLCreateSystemDefaultDevice(void) { return simt_device(); }

// One address for each selector.
void *sel_registerName(const char *name) {
  static char *known[256];
  for (int i = 0; i < 256; i++) {
    if (!known[i]) known[i] = strdup(name);
    if (!strcmp(known[i], name)) return known[i];
  }
  abort();
}
