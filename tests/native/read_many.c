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

#include "options.h"
#include "trial.h"

/* Tensors of that side, each in memory of exactly its size. */
static void **tensors(const ctx_container *c, const ctx_crossing *crossings, uint32_t count) {
  enum { MOST = 1 << 26 };
  void **made = calloc((size_t)count + 1, sizeof *made);
  uint32_t i;
  for (i = 0; made != NULL && i < count; i++)
    if (ctx_tensor_bytes(c, &crossings[i]) < MOST)
      made[i] = calloc(1, ctx_tensor_bytes(c, &crossings[i]));
  return made;
}

static bool all_there(void **made, uint32_t count) {
  uint32_t i;
  for (i = 0; made != NULL && i < count; i++)
    if (made[i] == NULL) return false;
  return made != NULL;
}

static void release(void **made, uint32_t count) {
  uint32_t i;
  for (i = 0; made != NULL && i < count; i++) free(made[i]);
  free(made);
}

/* `program`: NULL if there is a choice. */
static bool run(ctx_program *program, ctx_choice *choice, const ctx_container *c,
                ctx_error *error) {
  const uint32_t ins = c->chosen->inputs.count, outs = c->chosen->outputs.count;
  void **inputs = tensors(c, c->inputs, ins), **outputs = tensors(c, c->outputs, outs);
  bool ran = true;
  if (all_there(inputs, ins) && all_there(outputs, outs))
    ran = program != NULL ? ctx_program_run(program, (const void *const *)inputs, outputs, error)
                          : ctx_choice_run(choice, (const void *const *)inputs, outputs, error);
  release(inputs, ins);
  release(outputs, outs);
  return ran;
}

static bool choose(const ctx_nnapi *nnapi, const ctx_devices *devices, const ctx_options *options,
                   const ctx_container *c, ctx_weights *weights, ctx_error *error) {
  const ctx_settings settings = ctx_default_settings();
  ctx_system system = ctx_system_of(&settings, nnapi, devices, options, NULL);
  ctx_choice *choice = NULL;
  bool done;
  system.prefer = options->litert != NULL ? "litert-cpu" : "nnapi-cpu,cpu,nnapi";
  done = ctx_choice_make(&system, c, weights, &choice, error) && run(NULL, choice, c, error);
  return ctx_choice_free(choice) && done;
}

static bool use(const ctx_settings *settings, const ctx_nnapi *nnapi, const ctx_devices *devices,
                const uint8_t *data, size_t size, ctx_error *error) {
  ctx_container container;
  ctx_weights weights = {.descriptor = -1};
  ctx_options options;
  ctx_program *program = NULL;
  bool done = ctx_read(data, size, &container, error) &&
              ctx_resolve(settings, devices, &options, error) &&
              ctx_weights_open(&container, NULL, &weights, error);
  if (done && ctx_has_choice(&container))
    done = choose(nnapi, devices, &options, &container, &weights, error);
  else
    done = done && ctx_program_create(nnapi, &container, &weights, &options, &program, error) &&
           run(program, NULL, &container, error);
  ctx_program_free(program);
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
  ctx_settings settings = ctx_default_settings();
  FILE *file = count > 2 ? fopen(words[2], "rb") : NULL;
  long refused = 0, ran = 0;
  ctx_error error = {0};
  ctx_nnapi nnapi;
  ctx_devices devices;
  uint8_t *data;
  size_t size;
  settings.runtime = count > 1 ? words[1] : NULL;
  settings.options.litert = count > 3 ? words[3] : NULL;
  if (file == NULL || !ctx_open_runtime(&settings, &nnapi, &error) ||
      !ctx_list_devices(&nnapi, &devices, &error))
    return fprintf(stderr, "read_many: %s\n", error.text), 2;
  while ((data = next(file, &size)) != NULL) {
    error.text[0] = '\0';
    if (use(&settings, &nnapi, &devices, data, size, &error))
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
