/* SHA-256 (FIPS 180-4). */
#ifndef NNAPI_CONTEXT_SHA256_H
#define NNAPI_CONTEXT_SHA256_H

#include <stddef.h>
#include <stdint.h>

enum { SHA256_BYTES = 32 };

typedef struct {
  uint32_t state[8];
  uint64_t length; /* bytes so far */
  uint8_t block[64];
} sha256;

void sha256_begin(sha256 *hash);
void sha256_add(sha256 *hash, const void *data, size_t size);
void sha256_end(sha256 *hash, uint8_t digest[SHA256_BYTES]);

/* The digest of one piece of memory. */
void sha256_of(const void *data, size_t size, uint8_t digest[SHA256_BYTES]);

/* Writes the first bytes of a digest in hex, with the 0 at the end. */
void sha256_hex(const uint8_t *digest, size_t bytes, char *out);

#endif
