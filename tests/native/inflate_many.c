/* Inflates what standard input has: for each its bytes and those to inflate to (u32), then it. Prints
 * a byte, 1 if it is right, and what it is then. Both are in memory of exactly their sizes. */
#include <stdio.h>
#include <stdlib.h>

#include "inflate.h"

int main(void) {
  uint32_t sizes[2];
  while (fread(sizes, sizeof *sizes, 2, stdin) == 2) {
    uint8_t *data = malloc(sizes[0]), *out = malloc(sizes[1]);
    bool right;
    if (data == NULL || out == NULL || fread(data, 1, sizes[0], stdin) != sizes[0]) return 1;
    right = ctx_inflate(data, sizes[0], out, sizes[1]);
    putchar(right);
    if (right) fwrite(out, 1, sizes[1], stdout);
    free(data);
    free(out);
  }
  return 0;
}
