/* Errors: one sentence. Functions that can fail return false and fill a ctx_error. */
#ifndef NNAPI_CONTEXT_ERROR_H
#define NNAPI_CONTEXT_ERROR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

_Static_assert(sizeof(off_t) == 8, "files may have more than 2 GB: -D_FILE_OFFSET_BITS=64");

/* Ends a function that failed below and has filled the error. */
#define TRY(condition)              \
  do {                              \
    if (!(condition)) return false; \
  } while (0)

typedef struct {
  char text[512];
  int code; /* NNAPI's result code; 0 (NN_NO_ERROR) if it is another failure */
} ctx_error;

#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
/* Fills the error; returns false. */
bool ctx_fail(ctx_error *error, const char *format, ...);

/* "the context is malformed (…); prepare the model again". */
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
bool ctx_malformed(ctx_error *error, const char *format, ...);

/* Puts "prefix: " before the error's text; returns false. */
bool ctx_prefix(ctx_error *error, const char *prefix);

/* Puts ": suffix number" after the error's text; returns false. */
bool ctx_suffix(ctx_error *error, const char *suffix, unsigned number);

bool ctx_out_of_memory(ctx_error *error);

bool ctx_is_utf8(const char *text, size_t size);

/* The code of the UTF-8 character at `text`, and its bytes, of `limit` at most; false if none is
 * there. */
bool ctx_decode(const char *text, size_t limit, uint32_t *code, size_t *size);

/* False for what a terminal acts on: controls, separators of lines, marks that hide or turn text. */
bool ctx_is_printable(uint32_t code);

#endif
