/* Memory with a flatbuffer and its weights: see joined.h. */
#include "joined.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ALIGNMENT = 64 };

static size_t up_to(size_t size, size_t multiple) {
  return (size + multiple - 1) / multiple * multiple;
}

/* Maps the weights from a page on once more; MAP_FAILED: they have to be copied. */
static void *map_again(const ctx_flatbuffer *f, size_t first) {
  const uintptr_t page = (uintptr_t)f->weights + first;
  if (!f->mapped || f->weights_size <= first || (uintptr_t)f->weights % ALIGNMENT != 0)
    return MAP_FAILED;
  return mremap((void *)page, 0, f->weights_size - first, MREMAP_MAYMOVE);
}

bool ctx_join(const ctx_flatbuffer *f, ctx_joined *out, ctx_error *error) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE), behind = up_to(f->size, ALIGNMENT);
  const size_t first = up_to((uintptr_t)f->weights, page) - (uintptr_t)f->weights;
  void *const again = map_again(f, first);
  /* the flatbuffer needs a page that weights begin in */
  const size_t copied = again == MAP_FAILED ? f->weights_size : first;
  const size_t front = up_to(behind + copied, page), mapped = f->weights_size - copied;
  const size_t size = front + up_to(mapped, page);
  uint8_t *whole = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  uint8_t *weights;
  if (whole != MAP_FAILED && mapped > 0 &&
      mremap(again, mapped, mapped, MREMAP_MAYMOVE | MREMAP_FIXED, whole + front) == MAP_FAILED) {
    munmap(whole, size);
    whole = MAP_FAILED;
  }
  if (whole == MAP_FAILED) {
    if (again != MAP_FAILED) munmap(again, mapped);
    return ctx_out_of_memory(error);
  }
  weights = whole + (mapped > 0 ? front - copied : behind);
  if (copied > 0) memcpy(weights, f->weights, copied);
  out->start = whole;
  out->size = size;
  out->data = memcpy(weights - behind, f->model, f->size);
  out->data_size = f->weights_size > 0 ? behind + f->weights_size : f->size;
  return true;
}

void ctx_joined_free(ctx_joined *joined) {
  if (joined->start != NULL) munmap(joined->start, joined->size);
  joined->start = NULL;
}
