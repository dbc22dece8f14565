/* Bytes that were deflated (RFC 1951). */
#ifndef NNAPI_CONTEXT_INFLATE_H
#define NNAPI_CONTEXT_INFLATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes, which need not be trusted. */
typedef struct {
  const uint8_t *data;
  size_t size;
} ctx_bytes;

/* Inflates bytes, which were deflated as if they followed those of `before`, to exactly `out_size`;
 * false if they are more, fewer or none such. */
bool ctx_inflate(ctx_bytes packed, ctx_bytes before, uint8_t *out, size_t out_size);

#endif
