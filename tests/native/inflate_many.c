/* Inflates what standard input has: for each its bytes, those that it follows and those to inflate to
 * (u32), then it and what it follows. Prints a byte, 1 if it is right, and what it is then. All are in
 * memory of exactly their sizes. */
#include <stdio.h>
#include <stdlib.h>

#include "inflate.h"

int main(void) {
  uint32_t sizes[3];
  while (fread(sizes, sizeof *sizes, 3, stdin) == 3) {
    uint8_t *data = malloc(sizes[0]), *before = malloc(sizes[1]), *out = malloc(sizes[2]);
    bool right;
    if (data == NULL || before == NULL || out == NULL ||
        fread(data, 1, sizes[0], stdin) != sizes[0] ||
        fread(before, 1, sizes[1], stdin) != sizes[1])
      return 1;
    right = ctx_inflate((ctx_bytes){data, sizes[0]}, (ctx_bytes){before, sizes[1]}, out, sizes[2]);
    putchar(right);
    if (right) fwrite(out, 1, sizes[2], stdout);
    free(data);
    free(before);
    free(out);
  }
  return 0;
}
