/* Prints the SHA-256 of the first 0, 1, 3, 7, ... bytes of standard input and of all of it, each a
 * second time as it is computed from parts. */
#include <stdio.h>

#include "sha256.h"

static void print(const uint8_t digest[SHA256_BYTES]) {
  int i;
  for (i = 0; i < SHA256_BYTES; i++) printf("%02x", digest[i]);
  printf("\n");
}

static void hash(const uint8_t *data, size_t size) {
  uint8_t digest[SHA256_BYTES];
  size_t at = 0, part = 1;
  sha256 parts;
  sha256_of(data, size, digest);
  print(digest);
  sha256_begin(&parts);
  for (; at < size; at += part, part = part * 3 % 201) {
    if (part > size - at) part = size - at;
    sha256_add(&parts, data + at, part);
  }
  sha256_end(&parts, digest);
  print(digest);
}

int main(void) {
  static uint8_t data[1 << 16];
  const size_t size = fread(data, 1, sizeof data, stdin);
  size_t count = 0;
  for (; count < size; count = count * 2 + 1) hash(data, count);
  hash(data, size);
  return 0;
}
