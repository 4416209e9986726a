// What the tools found: a line on standard error for each, a line of a file for the process that asked for it, and an
// exit status.
#pragma once

#include <fcntl.h>

#include <atomic>
#include <string>

#include "tools.h"

#pragma GCC visibility push(hidden)
namespace host_sanitizer {

struct Finding {
  Tool tool;
  bool is_error;
  const char* kernel;
  const char* file;
  int line;
  unsigned block[3], thread[3];
  const char* text;
};

inline std::atomic<int>& error_count() {
  static std::atomic<int> count{0};
  return count;
}
inline void add_quoted(std::string& to, const char* text) {
  to += '"';
  for (const char* at = text ? text : ""; *at; ++at) {
    if (*at == '"' || *at == '\\')
      to += '\\', to += *at;
    else if (static_cast<unsigned char>(*at) < 32)
      to += ' ';
    else
      to += *at;
  }
  to += '"';
}
// Append to the file that sanitizer/findings.py reads, if there is one.
inline void append(const std::string& line) {
  const char* const path = getenv("TORCHDEVICE_SANITIZE_FILE");
  if (!path || !*path) return;
  const int file = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
  if (file < 0) return;
  if (write(file, line.data(), line.size()) < 0) perror(path);
  close(file);
}
// A line of JSON.
inline void write_to_file(const Finding& found) {
  const auto add_place = [](std::string& line, const char* key, const unsigned (&place)[3]) {
    char text[80];
    snprintf(text, sizeof text, ", \"%s\": [%u, %u, %u]", key, place[0], place[1], place[2]);
    line += text;
  };
  std::string line = "{\"tool\": \"";
  line += name_of(found.tool);
  line += found.is_error ? "\", \"level\": \"error\", \"kernel\": " : "\", \"level\": \"warning\", \"kernel\": ";
  add_quoted(line, found.kernel);
  line += ", \"file\": ";
  add_quoted(line, found.file);
  line += ", \"line\": " + std::to_string(found.line);
  add_place(line, "block", found.block);
  add_place(line, "thread", found.thread);
  line += ", \"text\": ";
  add_quoted(line, found.text);
  line += "}\n";
  append(line);
}
// `says`: whether the line on standard error is still to be written.
inline void report(const Finding& found, bool says = true) {
  if (found.is_error) ++error_count();
  if (says) {
    fflush(stdout);
    fprintf(
        stderr, "%s:%d: kernel %s: block: [%u,%u,%u], thread: [%u,%u,%u] %s\n", found.file ? found.file : "?",
        found.line, found.kernel, found.block[0], found.block[1], found.block[2], found.thread[0], found.thread[1],
        found.thread[2], found.text);
  }
  write_to_file(found);
}
// A process in which there were errors ends with this status: what starts it must not take it for a good one.
inline void end_process() {
  if (!error_count()) return;
  fflush(nullptr);
  _exit(1);
}

}  // namespace host_sanitizer
#pragma GCC visibility pop
