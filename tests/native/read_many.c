/* Reads containers from a file and does with each what the plugin does, on the NNAPI library that
 * the first argument names: it is refused in one sentence, or built, compiled and run.
 *
 *     read_many LIBRARY FILE [LITERT]
 *
 * LITERT names a libLiteRt.so, whose CPU alone computes then. The file has, for each container, its
 * size (u64) and its bytes. Prints how many were refused and how many ran; ends with 1 if an error
 * has no sentence or more than one line. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "choice.h"
#include "trial.h"

/* Tensors, each in memory of exactly its size. */
static void **make_tensors(const ctx_container *c) {
  enum { MOST = 1 << 26 };
  void **made = calloc((size_t)ctx_tensor_count(c) + 1, sizeof *made);
  uint32_t i;
  for (i = 0; made != NULL && i < ctx_tensor_count(c); i++)
    if (ctx_tensor_bytes(c, ctx_tensor_at(c, i)) < MOST)
      made[i] = calloc(1, ctx_tensor_bytes(c, ctx_tensor_at(c, i)));
  return made;
}

static bool run(ctx_choice *choice, const ctx_container *c, ctx_error *error) {
  void **tensors = make_tensors(c);
  bool there = tensors != NULL, ran;
  uint32_t i;
  for (i = 0; there && i < ctx_tensor_count(c); i++) there = tensors[i] != NULL;
  ran = !there || ctx_choice_run(choice, tensors, error);
  for (i = 0; tensors != NULL && i < ctx_tensor_count(c); i++) free(tensors[i]);
  free(tensors);
  return ran;
}

static bool use(ctx_system *system, const uint8_t *data, size_t size, ctx_error *error) {
  ctx_container container;
  ctx_weights weights = {.descriptor = -1};
  ctx_choice *choice = NULL;
  bool done = ctx_read(data, size, &container, error) && ctx_resolve(system, error) &&
              ctx_weights_open(&container, NULL, &weights, error) &&
              ctx_choice_make(system, false, &container, &weights, &choice, error) &&
              run(choice, &container, error);
  done = ctx_choice_free(choice) && done;
  ctx_weights_close(&weights);
  return done;
}

/* The next container, in memory of exactly its size; NULL at the end. */
static uint8_t *next(FILE *file, size_t *size) {
  uint64_t length;
  void *data = NULL;
  if (fread(&length, sizeof length, 1, file) != 1) return NULL;
  *size = (size_t)length;
  if (posix_memalign(&data, CTX_ALIGNMENT, *size > 0 ? *size : 1) != 0) return NULL;
  if (fread(data, 1, *size, file) == *size) return data;
  free(data);
  return NULL;
}

int main(int count, char **words) {
  ctx_system system = {.settings = ctx_default_settings(), .found = true};
  FILE *file = count > 2 ? fopen(words[2], "rb") : NULL;
  long refused = 0, ran = 0;
  ctx_error error = {0};
  uint8_t *data;
  size_t size;
  system.settings.runtime = count > 1 ? words[1] : NULL;
  system.settings.options.litert = count > 3 ? words[3] : NULL;
  system.settings.prefer = count > 3 ? "litert-cpu" : "nnapi-cpu,cpu,nnapi";
  if (file == NULL || !ctx_open_runtime(&system.settings, &system.nnapi, &error) ||
      !ctx_list_devices(&system.nnapi, &system.devices, &error))
    return fprintf(stderr, "read_many: %s\n", error.text), 2;
  while ((data = next(file, &size)) != NULL) {
    error.text[0] = '\0';
    if (use(&system, data, size, &error))
      ran++;
    else if (error.text[0] != '\0' && strchr(error.text, '\n') == NULL)
      refused++;
    else
      return fprintf(stderr, "read_many: an error without a sentence\n"), 1;
    free(data);
  }
  fclose(file);
  ctx_end_trials();
  printf("%ld refused, %ld ran\n", refused, ran);
  return 0;
}
