/* Error sentences: bytes of a file that are quoted in one lose what is not printable text. */
#include "error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool ctx_decode(const char *text, size_t limit, uint32_t *code, size_t *size) {
  static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  const unsigned char *c = (const unsigned char *)text;
  size_t i;
  *size = c[0] < 0x80 ? 1 : c[0] < 0xc0 ? 0 : c[0] < 0xe0 ? 2 : c[0] < 0xf0 ? 3 : 4;
  if (*size == 0 || *size > limit || c[0] >= 0xf8) return false;
  *code = *size == 1 ? c[0] : c[0] & (0xffu >> (*size + 1));
  for (i = 1; i < *size; i++) {
    if ((c[i] & 0xc0) != 0x80) return false;
    *code = *code << 6 | (c[i] & 0x3fu);
  }
  return *code >= least[*size] && *code <= 0x10ffff && !(*code >= 0xd800 && *code < 0xe000);
}

bool ctx_is_utf8(const char *text, size_t size) {
  size_t at, length;
  uint32_t code;
  for (at = 0; at < size; at += length)
    if (!ctx_decode(text + at, size - at, &code, &length)) return false;
  return true;
}

bool ctx_is_printable(uint32_t code) {
  return code >= 0x20 && !(code >= 0x7f && code < 0xa0) && code != 0x61c && code != 0xfeff &&
         !(code >= 0x200b && code <= 0x200f) && !(code >= 0x2028 && code <= 0x202e) &&
         !(code >= 0x2060 && code <= 0x206f);
}

static void write_printable(ctx_error *error, const char *format, va_list arguments) {
  char *c = error->text;
  if (vsnprintf(c, sizeof error->text, format, arguments) < 0) *c = '\0';
  while (*c != '\0') {
    uint32_t code;
    size_t size;
    if (ctx_decode(c, strlen(c), &code, &size) && ctx_is_printable(code)) {
      c += size;
      continue;
    }
    *c++ = '?';
  }
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
