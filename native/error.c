/* Error sentences: bytes of a file that are quoted in one lose their control characters. */
#include "error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void write_printable(ctx_error *error, const char *format, va_list arguments) {
  char *c;
  if (vsnprintf(error->text, sizeof error->text, format, arguments) < 0) error->text[0] = '\0';
  for (c = error->text; *c != '\0'; c++)
    if ((unsigned char)*c < 0x20 || *c == 0x7f) *c = '?';
}

bool ctx_fail(ctx_error *error, const char *format, ...) {
  va_list arguments;
  error->code = 0;
  va_start(arguments, format);
  write_printable(error, format, arguments);
  va_end(arguments);
  return false;
}

bool ctx_malformed(ctx_error *error, const char *format, ...) {
  ctx_error detail;
  va_list arguments;
  va_start(arguments, format);
  write_printable(&detail, format, arguments);
  va_end(arguments);
  return ctx_fail(error, "the context is malformed (%.400s); prepare the model again", detail.text);
}

bool ctx_prefix(ctx_error *error, const char *prefix) {
  const ctx_error whole = *error;
  ctx_fail(error, "%.100s: %.400s", prefix, whole.text);
  error->code = whole.code;
  return false;
}

bool ctx_suffix(ctx_error *error, const char *suffix, unsigned number) {
  const ctx_error whole = *error;
  ctx_fail(error, "%.400s: %.60s %u", whole.text, suffix, number);
  error->code = whole.code;
  return false;
}

bool ctx_out_of_memory(ctx_error *error) { return ctx_fail(error, "out of memory"); }
