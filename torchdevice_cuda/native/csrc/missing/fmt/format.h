// Until 2.7 PyTorch has Kineto's headers and not those of the library that they format numbers with. This is as much of
// it as they use; releases that have the library's own take that.
#pragma once

#include <sstream>
#include <string>

namespace fmt {

template <class... Values>
std::string format(const char* text, const Values&... values) {
  std::ostringstream out;
  const auto up_to_value = [&] {
    for (; *text; text++) {
      if (text[0] == '{' && text[1] == '}') {
        text += 2;
        return;
      }
      out << *text;
    }
  };
  ((up_to_value(), out << values), ...);
  out << text;
  return out.str();
}

}  // namespace fmt
