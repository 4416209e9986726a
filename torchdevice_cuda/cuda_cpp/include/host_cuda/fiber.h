// Switching between stacks: callee-saved registers go onto the old stack, the new stack's come back. Nothing asks the
// system, as ucontext does for the signal mask. What a barrier costs is measured by tools/bench/kernels.py.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <new>

#if !defined(__x86_64__) && !defined(__aarch64__)
#include <ucontext.h>
#endif

#pragma GCC visibility push(hidden)
namespace host_cuda {

constexpr size_t kStackBytes = 256 << 10;  // touched pages count only

#if defined(__x86_64__) || defined(__aarch64__)
struct Stack {
  void* pointer = nullptr;  // where its registers are while it does not run
};

#if defined(__APPLE__)
#define HOST_CUDA_SYMBOL "_host_cuda_switch"
#else
#define HOST_CUDA_SYMBOL "host_cuda_switch"
#endif
extern "C" void host_cuda_switch(void** save, void* to);

#if defined(__x86_64__)
__asm__(
    ".pushsection .text.host_cuda_switch,\"axG\",@progbits,host_cuda_switch,comdat\n"
    ".weak host_cuda_switch\n.hidden host_cuda_switch\n.type host_cuda_switch,@function\nhost_cuda_switch:\n"
    "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\n"
    "movq %rsp, (%rdi)\nmovq %rsi, %rsp\n"
    "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\nret\n"
    ".size host_cuda_switch,.-host_cuda_switch\n.popsection\n");
constexpr size_t kSaved = 6;  // registers below the return address
inline void* first_frame(char* top, void (*entry)()) {
  auto* p = reinterpret_cast<void**>(reinterpret_cast<uintptr_t>(top) & ~uintptr_t{15});
  *--p = nullptr;  // so that the stack is aligned as after a call
  *--p = reinterpret_cast<void*>(entry);
  for (size_t i = 0; i < kSaved; ++i) *--p = nullptr;
  return p;
}
#else
#if defined(__APPLE__)
#define HOST_CUDA_SECTION ".text\n.weak_definition _host_cuda_switch\n.private_extern _host_cuda_switch\n.p2align 2\n"
#define HOST_CUDA_AFTER ""
#else
#define HOST_CUDA_SECTION                                                                                   \
  ".pushsection .text.host_cuda_switch,\"axG\",%progbits,host_cuda_switch,comdat\n.weak host_cuda_switch\n" \
  ".hidden host_cuda_switch\n.type host_cuda_switch,%function\n.p2align 2\n"
#define HOST_CUDA_AFTER ".size host_cuda_switch,.-host_cuda_switch\n.popsection\n"
#endif
__asm__(HOST_CUDA_SECTION HOST_CUDA_SYMBOL
        ":\n"
        "sub sp, sp, #160\n"
        "stp x19, x20, [sp]\nstp x21, x22, [sp, #16]\nstp x23, x24, [sp, #32]\nstp x25, x26, [sp, #48]\n"
        "stp x27, x28, [sp, #64]\nstp x29, x30, [sp, #80]\n"
        "stp d8, d9, [sp, #96]\nstp d10, d11, [sp, #112]\nstp d12, d13, [sp, #128]\nstp d14, d15, [sp, #144]\n"
        "mov x9, sp\nstr x9, [x0]\nmov sp, x1\n"
        "ldp x19, x20, [sp]\nldp x21, x22, [sp, #16]\nldp x23, x24, [sp, #32]\nldp x25, x26, [sp, #48]\n"
        "ldp x27, x28, [sp, #64]\nldp x29, x30, [sp, #80]\n"
        "ldp d8, d9, [sp, #96]\nldp d10, d11, [sp, #112]\nldp d12, d13, [sp, #128]\nldp d14, d15, [sp, #144]\n"
        "add sp, sp, #160\nret\n" HOST_CUDA_AFTER);
inline void* first_frame(char* top, void (*entry)()) {
  auto* p = reinterpret_cast<void**>(reinterpret_cast<uintptr_t>(top) & ~uintptr_t{15}) - 20;
  for (size_t i = 0; i < 20; ++i) p[i] = nullptr;
  p[11] = reinterpret_cast<void*>(entry);  // x30, to which `ret` goes
  return p;
}
#undef HOST_CUDA_SECTION
#undef HOST_CUDA_AFTER
#endif
#undef HOST_CUDA_SYMBOL

// Stacks begin at different lines of the cache: were all at the begin of a page, they would push each other out of it.
inline void prepare(Stack& stack, char* memory, unsigned place, void (*entry)()) {
  stack.pointer = first_frame(memory + kStackBytes - place % 61 * 64 * 5 % 4096, entry);
}
inline void change(Stack& from, Stack& to) {
  host_cuda_switch(&from.pointer, to.pointer);
}

#else  // any other processor
struct Stack {
  ucontext_t context;
};
inline void prepare(Stack& stack, char* memory, unsigned, void (*entry)()) {
  getcontext(&stack.context);
  stack.context.uc_stack.ss_sp = memory;
  stack.context.uc_stack.ss_size = kStackBytes;
  stack.context.uc_link = nullptr;
  makecontext(&stack.context, entry, 0);
}
inline void change(Stack& from, Stack& to) {
  swapcontext(&from.context, &to.context);
}
#endif

// With a page below it that nobody may touch: a kernel that runs out of stack ends there and not in other memory.
inline char* new_stack() {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* p = mmap(nullptr, kStackBytes + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) throw std::bad_alloc();
  mprotect(p, page, PROT_NONE);
  return static_cast<char*>(p) + page;
}
inline void free_stack(char* memory) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  munmap(memory - page, kStackBytes + page);
}

}  // namespace host_cuda
#pragma GCC visibility pop
