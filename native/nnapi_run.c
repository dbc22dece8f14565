/* nnapi_run: runs a prepared model that one cluster covers, on any NNAPI library; needs no Python
 * and no ONNX Runtime. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "options.h"
#include "receipt.h"
#include "run_files.h"
#include "trial.h"
#include "whole_file.h"

static const char USAGE[] =
    "usage: nnapi_run MODEL_ctx.onnx [option...]\n"
    "       nnapi_run --devices [--runtime LIBRARY]\n"
    "\n"
    "Runs a model that `ep-nnapi prepare --format context` wrote and that is one cluster.\n"
    "\n"
    "  --input NAME=FILE.npy   contents of an input (default: zeros)\n"
    "  --outputs DIR           write each output to DIR/NAME.npy, NAME percent-encoded\n"
    "  --runs N                runs that are timed, after one that is not (default: 10)\n"
    "  --devices               list the devices\n"
    "  --runtime LIBRARY       the NNAPI library (default: the system's)\n"
    "  --device NAME           name or type of the device; all: each in turn\n"
    "  --preference WHAT       fast_single_answer (default), sustained_speed or low_power\n"
    "  --priority WHICH        low, medium (default) or high\n"
    "  --compilation-timeout S, --execution-timeout S\n"
    "  --fallback WHERE        reference (default) or none\n"
    "  --prefer NAMES          order of alternatives, such as litert-gpu,nnapi,nnapi-cpu\n"
    "  --cache-dir DIR         note trials of alternatives there: what ends a start is not tried "
    "again\n"
    "  --trial-timeout S       seconds for the trial of an alternative (default: 30)\n"
    "  --litert LIBRARY        the LiteRT library (default: libLiteRt.so by its name)\n"
    "  --litert-threads N      threads of a run on LiteRT's CPU (default: 1)\n"
    "  --litert-precision P    of LiteRT's GPU: float32 (default) or float16\n"
    "  --litert-cache-dir DIR  keep the weights there that LiteRT's CPU has packed\n"
    "  --receipt FILE          write what ran where to FILE, as JSON\n";

enum { MOST_INPUTS = 256, FAILED = 3, UNUSABLE = 2 };

typedef struct {
  const char *model, *outputs, *inputs[MOST_INPUTS];
  int input_count, runs;
  bool list, all;
  ctx_system system;
} arguments;

typedef struct {
  ctx_onnx file;
  ctx_container container;
  ctx_weights weights;
  void **tensors;       /* contents of the ONNX tensors; NULL ends them */
  ctx_receipt *receipt; /* NULL: none is to be written */
  char *runtime;        /* name of the runtime, for it */
  bool stuck;           /* a driver hangs */
} job;

static double now_ms(void) { return (double)ctx_now() / 1e6; }

static int fail(int status, const char *sentence) {
  fprintf(stderr, "nnapi_run: %s\n", sentence);
  return status;
}

/* "--execution-timeout" is the provider option "execution_timeout". */
static bool set_option(arguments *a, const char *flag, const char *value, ctx_error *error) {
  char key[64];
  size_t i;
  for (i = 0; flag[i + 2] != '\0' && i + 1 < sizeof key; i++)
    key[i] = (char)(flag[i + 2] == '-' ? '_' : flag[i + 2]);
  key[i] = '\0';
  if (strcmp(key, "device") == 0 && strcmp(value, "all") == 0) return a->all = true;
  return ctx_set_option(&a->system.settings, key, value, error);
}

static bool set_runs(arguments *a, const char *value, ctx_error *error) {
  char *end;
  const long runs = strtol(value, &end, 10);
  if (*end != '\0' || end == value || runs < 1 || runs > 1000000)
    return ctx_fail(error, "--runs is '%.50s'; it must be 1 to 1000000", value);
  a->runs = (int)runs;
  return true;
}

static bool parse(int count, char **words, arguments *a, ctx_error *error) {
  int i;
  a->runs = 10;
  a->system.settings = ctx_default_settings();
  for (i = 1; i < count; i++) {
    const char *word = words[i], *value = i + 1 < count ? words[i + 1] : NULL;
    if (strcmp(word, "--devices") == 0) {
      a->list = true;
    } else if (strncmp(word, "--", 2) != 0) {
      if (a->model != NULL) return ctx_fail(error, "one model at a time: '%.100s'", word);
      a->model = word;
    } else if (value == NULL) {
      return ctx_fail(error, "%.100s needs a value", word);
    } else if (strcmp(word, "--input") == 0) {
      if (a->input_count == MOST_INPUTS) return ctx_fail(error, "there are too many inputs");
      a->inputs[a->input_count++] = words[++i];
    } else if (strcmp(word, "--outputs") == 0) {
      a->outputs = words[++i];
    } else if (strcmp(word, "--runs") == 0) {
      if (!set_runs(a, words[++i], error)) return false;
    } else if (!set_option(a, word, words[++i], error)) {
      return false;
    }
  }
  return a->list || a->model != NULL || ctx_fail(error, "a model is missing; --help shows how");
}

/* Memory for the tensors, zeros. */
static bool allocate(job *j, ctx_error *error) {
  const ctx_container *c = &j->container;
  uint32_t i;
  j->tensors = calloc((size_t)ctx_tensor_count(c) + 1, sizeof *j->tensors);
  if (j->tensors == NULL) return ctx_out_of_memory(error);
  for (i = 0; i < ctx_tensor_count(c); i++)
    if ((j->tensors[i] = ctx_aligned(ctx_tensor_bytes(c, ctx_tensor_at(c, i)))) == NULL)
      return ctx_out_of_memory(error);
  return true;
}

static void free_tensors(void **tensors) {
  void **each;
  for (each = tensors; tensors != NULL && *each != NULL; each++) free(*each);
  free(tensors);
}

static bool read_input(const job *j, const char *argument, ctx_error *error) {
  const char *equals = strchr(argument, '=');
  const ctx_container *c = &j->container;
  bool found = false;
  uint32_t i;
  if (equals == NULL)
    return ctx_fail(error, "--input is '%.100s'; NAME=FILE.npy is meant", argument);
  for (i = 0; i < c->chosen->inputs.count; i++) { /* names may have a '=' themselves */
    const ctx_crossing *crossing = &c->inputs[i];
    const size_t length = crossing->name.count;
    if (strlen(argument) <= length || argument[length] != '=' ||
        memcmp(c->text + crossing->name.first, argument, length) != 0)
      continue;
    TRY(ctx_npy_read(argument + length + 1, c, crossing, j->tensors[i], error));
    found = true; /* again where a tensor enters in two layouts */
  }
  return found ||
         ctx_fail(error, "the model has no input '%.*s'", (int)(equals - argument), argument);
}

static bool write_output(const job *j, uint32_t index, const char *folder, ctx_error *error) {
  const ctx_container *c = &j->container;
  const ctx_crossing *crossing = ctx_tensor_at(c, index);
  char *path = ctx_path_of(folder, c->text + crossing->name.first, crossing->name.count, ".npy");
  bool written;
  if (path == NULL) return ctx_out_of_memory(error);
  written = ctx_npy_write(path, c, crossing, j->tensors[index], error);
  free(path);
  return written;
}

static bool open_model(job *j, const char *path, ctx_error *error) {
  if (!ctx_onnx_read(path, &j->file, error)) return ctx_prefix(error, path);
  if (!ctx_read(j->file.data, j->file.size, &j->container, error)) return ctx_prefix(error, path);
  if ((j->container.header->flags & CTX_MODEL_HAS_CHECKSUM) != 0 &&
      !ctx_check_model_file(path, error))
    return false;
  return ctx_weights_open(&j->container, path, &j->weights, error) && allocate(j, error);
}

static int compare_times(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void tell_tried(ctx_choice *choice) {
  uint32_t count, i;
  const ctx_tried *tried = ctx_choice_tried(choice, &count);
  for (i = 0; i < count; i++)
    if (ctx_choice_is_alone(choice))
      fprintf(stderr, "nnapi_run: fallback: %s\n", tried[i].reason.text);
    else
      fprintf(stderr, "nnapi_run: %s gave way: %s\n", tried[i].name, tried[i].reason.text);
}

/* Runs once without a watch, then `runs` times with one. */
static bool time_runs(const job *j, ctx_choice *choice, int runs, ctx_error *error) {
  double *times = calloc((size_t)runs, sizeof *times);
  const double begin = now_ms();
  double first;
  int i;
  bool ran = times != NULL || ctx_out_of_memory(error);
  ran = ran && ctx_choice_run(choice, j->tensors, error);
  first = now_ms() - begin;
  for (i = 0; ran && i < runs; i++) {
    const double start = now_ms();
    ran = ctx_choice_run(choice, j->tensors, error);
    times[i] = now_ms() - start;
  }
  if (ran) {
    qsort(times, (size_t)runs, sizeof *times, compare_times);
    printf("%s: first run %.3f ms, then %d runs: median %.3f ms, least %.3f ms, most %.3f ms\n",
           ctx_choice_name(choice), first, runs, times[runs / 2], times[0], times[runs - 1]);
  }
  free(times);
  return ran;
}

/* `alone`: the first alternative, on one device. */
static bool run_on(job *j, arguments *a, bool alone, ctx_error *error) {
  const double begin = now_ms();
  ctx_choice *choice;
  bool ran;
  TRY(ctx_resolve(&a->system, error));
  ran = ctx_choice_make(&a->system, alone, &j->container, &j->weights, &choice, error);
  if (ran) {
    printf("%s: compiled in %.1f ms\n", ctx_choice_name(choice), now_ms() - begin);
    ran = time_runs(j, choice, a->runs, error);
    if (j->receipt != NULL) ctx_receipt_add(j->receipt, j->file.node, j->runtime, choice);
  } else if (j->receipt != NULL && (alone || !ctx_has_choice(&j->container))) {
    ctx_receipt_add_failure(j->receipt, j->file.node, j->runtime, &j->container,
                            a->system.options.device, error);
  }
  if (ran || (choice != NULL && !ctx_choice_is_alone(choice))) tell_tried(choice);
  j->stuck = !ctx_choice_free(choice);
  return ran;
}

static bool run_all(job *j, arguments *a, ctx_error *error) {
  bool ran = true;
  uint32_t i;
  if (!a->all) return run_on(j, a, false, error);
  a->system.settings.fallback = false;
  for (i = 0; i < a->system.devices.count; i++) {
    a->system.settings.device = a->system.devices.items[i].name;
    if (run_on(j, a, true, error)) continue;
    printf("%s: %s\n", a->system.settings.device, error->text);
    ran = false;
  }
  return ran;
}

static bool begin_receipt(job *j, const arguments *a, ctx_error *error) {
  if (a->system.settings.receipt == NULL) return true;
  j->runtime = ctx_runtime_name(&a->system);
  if (j->runtime == NULL) return ctx_out_of_memory(error);
  j->receipt = ctx_receipt_begin(a->system.settings.receipt, error);
  if (j->receipt != NULL) ctx_receipt_model(j->receipt, a->model);
  return j->receipt != NULL;
}

/* Also of runs that failed. */
static bool end_receipt(job *j, ctx_error *error) {
  ctx_receipt *receipt = j->receipt;
  j->receipt = NULL;
  return receipt == NULL || ctx_receipt_end(receipt, NULL, error);
}

static void list(const ctx_system *s) {
  uint32_t i;
  printf("runtime: feature level %d\n", s->nnapi.feature_level);
  for (i = 0; i < s->devices.count; i++) {
    const ctx_device *device = &s->devices.items[i];
    printf("%s: %s, version %s, feature level %d\n", device->name, ctx_device_type(device->type),
           device->version, device->feature_level);
  }
}

static int work(job *j, arguments *a) {
  const ctx_system *s = &a->system;
  ctx_error error, unwritten;
  uint32_t i;
  bool ran;
  int k;
  ctx_find_runtime(&a->system);
  if (!s->found && (a->list || a->all)) return fail(FAILED, s->missing.text);
  if (a->list) list(s);
  if (a->model == NULL) return 0;
  if (!open_model(j, a->model, &error)) return fail(UNUSABLE, error.text);
  if (!s->found && !ctx_has_choice(&j->container)) return fail(FAILED, s->missing.text);
  for (k = 0; k < a->input_count; k++)
    if (!read_input(j, a->inputs[k], &error)) return fail(UNUSABLE, error.text);
  if (!begin_receipt(j, a, &error)) return fail(UNUSABLE, error.text);
  ran = run_all(j, a, &error);
  if (!end_receipt(j, &unwritten)) return fail(UNUSABLE, unwritten.text);
  if (!ran) return fail(FAILED, error.text);
  for (i = j->container.chosen->inputs.count; i < ctx_tensor_count(&j->container); i++)
    if (a->outputs != NULL && !write_output(j, i, a->outputs, &error))
      return fail(UNUSABLE, error.text);
  return 0;
}

static void release(job *j) {
  if (j->stuck) return; /* what hangs may still read all of it */
  free_tensors(j->tensors);
  ctx_weights_close(&j->weights);
  ctx_receipt_drop(j->receipt);
  free(j->runtime);
  free(j->file.data);
  free(j->file.node);
  ctx_end_trials();
}

int main(int count, char **words) {
  static arguments a; /* what hangs may still read it when this ends */
  job j = {.weights = {.descriptor = -1}};
  ctx_error error;
  int status;
  setvbuf(stdout, NULL, _IOLBF, BUFSIZ); /* a driver may end the process: what was said stays */
  if (count == 2 && strcmp(words[1], "--help") == 0) return fputs(USAGE, stdout), 0;
  if (!parse(count, words, &a, &error)) return fail(UNUSABLE, error.text);
  status = work(&j, &a);
  release(&j);
  return status;
}
