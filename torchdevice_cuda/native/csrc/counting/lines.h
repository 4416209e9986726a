// The lines of the program, by the ids that reports and findings name them by.
#pragma once

#include <string>
#include <vector>

#include "runtime/ledger.h"

namespace hostdevice {

// Make find_site() return lines from now on; files with these prefixes are not the program's.
void find_lines(std::vector<std::string> hidden);
// Return all lines found so far, by their ids.
std::vector<SourceLine> list_lines();

}  // namespace hostdevice
