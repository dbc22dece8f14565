/* Bytes that were deflated (RFC 1951). */
#ifndef NNAPI_CONTEXT_INFLATE_H
#define NNAPI_CONTEXT_INFLATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Inflates `size` bytes to exactly `out_size`; false if they are more, fewer or none such. The bytes
 * are not trusted. */
bool ctx_inflate(const uint8_t *data, size_t size, uint8_t *out, size_t out_size);

#endif
