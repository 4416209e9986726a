// Accesses of the host that no operator makes: NumPy arrays over pinned memory, tolist(), C code. While a copy may
// access a page of pinned memory, the page is protected, so that the host's first access is noticed.
#pragma once

#include <cstdint>

#include "races/layout.h"

namespace hostdevice {

// Protect the pages of a copy in flight: against all accesses if the copy writes them, else against writes. Blocks of
// the pinned allocator have their pages for themselves; of memory that the program has registered, only whole pages are
// protected.
void protect_pages(const Layout& layout, bool is_written);
void unprotect_pages(uintptr_t begin, uintptr_t end);
// Unprotect the pages that no copy in flight accesses any more.
void unprotect_idle_pages(bool (*is_in_flight)(uintptr_t begin, uintptr_t end));

// Called for an access of the host to a protected page, which is unprotected by then.
extern void (*g_access_to_page)(uintptr_t address, bool writes);

}  // namespace hostdevice
