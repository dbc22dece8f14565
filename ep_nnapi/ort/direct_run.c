/* Fused nodes whose tensors need no conversion run in the session of a device, or as its program,
 * without Python.
 */
#include <stdlib.h>
#include <string.h>

#include "parts.h"

/* Runs without Python, which forks wait for: locks of ONNX Runtime would stay locked in a child. */
static atomic_int direct_runs, fork_waits;

void hold_direct_runs(int hold) { atomic_store(&fork_waits, hold); }
int count_direct_runs(void) { return atomic_load(&direct_runs); }

void forget_direct_runs(void) {
  atomic_store(&direct_runs, 0);
  atomic_store(&fork_waits, 0);
}

static void leave_direct_run(void) { atomic_fetch_sub(&direct_runs, 1); }

static int enter_direct_run(void) {
  atomic_fetch_add(&direct_runs, 1);
  if (!atomic_load(&fork_waits)) return 1;
  leave_direct_run();
  return 0;
}

/* 1 for INT64 numbers of which none is further from 0. */
static int is_within(const Tensor *tensor, int64_t most) {
  const int64_t *numbers = tensor->data;
  size_t i, count = tensor->bytes / sizeof *numbers;
  if (tensor->dtype != INT64) return 0;
  for (i = 0; i < count; i++)
    if (numbers[i] > most || numbers[i] < -most) return 0;
  return 1;
}

/* Sets *fits to 0 if the fused node's input is not what `wanted` says; adds its elements. */
static OrtStatus *match(OrtKernelContext *context, const DirectTensor *wanted, int64_t *elements,
                        int *fits) {
  const OrtValue *value = NULL;
  Tensor found;
  size_t i;
  *fits = 0;
  TRY(api->KernelContext_GetInput(context, wanted->position, &value));
  if (value == NULL) return NULL;
  TRY(api->GetTensorElementTypeAndShapeDataReference(value, &found.dtype, &found.dims,
                                                     &found.rank));
  if (found.rank != wanted->rank) return NULL;
  for (i = 0; i < found.rank; i++)
    if (wanted->dims[i] < 0 ? found.dims[i] < 1 : found.dims[i] != wanted->dims[i]) return NULL;
  *fits = 1;
  *elements += count_elements(found.dims, found.rank);
  if (wanted->contents == NULL && wanted->most == 0) return NULL;
  TRY(read_tensor(value, &found));
  *fits = wanted->contents == NULL
              ? is_within(&found, wanted->most)
              : found.bytes == wanted->bytes &&
                    (found.bytes == 0 || !memcmp(found.data, wanted->contents, found.bytes));
  return NULL;
}

/* `sizes`: of the outputs, one after another, if the run has a program for them; `elements`: of the
 * inputs. A run that may be long for its sizes does not fit. */
static OrtStatus *match_all(const DirectRun *run, OrtKernelContext *context, int64_t *sizes,
                            int64_t *elements, int *fits) {
  size_t i;
  *fits = 1;
  *elements = 0;
  for (i = 0; i < run->given_count && *fits; i++)
    TRY(match(context, &run->given[i], elements, fits));
  if (run->session != NULL && may_grow_long(run->session, *elements, run->long_ns)) *fits = 0;
  return *fits && run->sizes != NULL ? compute_sizes(run->sizes, context, sizes, fits) : NULL;
}

/* A tensor whose type or rank is another one in the session, and the value that the session has;
 * any tensor of a program.
 *
 * data      that a program has
 * numbers   of an INT64 tensor, `wide`, as INT32
 * count     how many they are */
typedef struct {
  OrtValue *value;
  void *data;
  int32_t *numbers;
  int64_t *wide;
  size_t count;
} Converted;

static int is_converted(const DirectRun *run, const DirectTensor *tensor) {
  return run->session == NULL || tensor->narrowed || tensor->flat;
}

static OrtStatus *narrow(Tensor *tensor, Converted *made) {
  made->wide = (int64_t *)tensor->data;
  made->count = tensor->bytes / sizeof *made->wide;
  tensor->bytes = made->count * sizeof *made->numbers;
  made->numbers = malloc(tensor->bytes + 1);
  if (made->numbers == NULL) return create_status("ep_nnapi: out of memory");
  tensor->data = made->numbers;
  tensor->dtype = INT32;
  return NULL;
}

static OrtStatus *convert(const DirectRun *run, const DirectTensor *wanted, const OrtValue *value,
                          Converted *made) {
  Tensor tensor;
  int64_t count;
  TRY(read_tensor(value, &tensor));
  if (wanted->narrowed) TRY(narrow(&tensor, made));
  made->data = (void *)tensor.data;
  if (run->session == NULL) return NULL;
  if (wanted->flat) {
    count = count_elements(tensor.dims, tensor.rank);
    tensor.dims = &count;
    tensor.rank = 1;
  }
  return tensor_over(run->session, &tensor, &made->value);
}

static void release_converted(Converted *converted, size_t count) {
  size_t i;
  for (i = 0; i < count; i++) {
    if (converted[i].value != NULL) api->ReleaseValue(converted[i].value);
    free(converted[i].numbers);
  }
}

/* Numbers beyond INT32 wrap around as numpy's do. */
static OrtStatus *read_inputs(const DirectRun *run, OrtKernelContext *context,
                              const OrtValue **inputs, Converted *converted) {
  const DirectTensor *tensor;
  size_t i, k;
  for (i = 0; i < run->input_count; i++) {
    tensor = &run->inputs[i];
    TRY(api->KernelContext_GetInput(context, tensor->position, &inputs[i]));
    if (!is_converted(run, tensor)) continue;
    TRY(convert(run, tensor, inputs[i], &converted[i]));
    for (k = 0; k < converted[i].count; k++)
      converted[i].numbers[k] = (int32_t)converted[i].wide[k];
    inputs[i] = converted[i].value;
  }
  return NULL;
}

static OrtStatus *make_outputs(const DirectRun *run, OrtKernelContext *context,
                               const int64_t *sizes, OrtValue **outputs, Converted *converted) {
  DirectTensor tensor;
  size_t i;
  for (i = 0; i < run->output_count; i++) {
    tensor = run->outputs[i];
    if (run->sizes != NULL) tensor.dims = sizes;
    sizes += tensor.rank;
    TRY(api->KernelContext_GetOutput(context, tensor.position, tensor.dims, tensor.rank,
                                     &outputs[i]));
    if (!is_converted(run, &tensor)) continue;
    TRY(convert(run, &tensor, outputs[i], &converted[i]));
    outputs[i] = converted[i].value;
  }
  return NULL;
}

static void widen_outputs(const Converted *converted, size_t count) {
  size_t i, k;
  for (i = 0; i < count; i++)
    for (k = 0; k < converted[i].count; k++) converted[i].wide[k] = converted[i].numbers[k];
}

static OrtStatus *run_outside(const DirectRun *run, const Converted *inputs,
                              const Converted *outputs) {
  const void *given[MOST_DIRECT_TENSORS];
  void *made[MOST_DIRECT_TENSORS];
  size_t i;
  for (i = 0; i < run->input_count; i++) given[i] = inputs[i].data;
  for (i = 0; i < run->output_count; i++) made[i] = outputs[i].data;
  return run->runner(run->model, given, made) ? NULL : create_status("ep_nnapi: a program failed");
}

static OrtStatus *run_on_inputs(const DirectRun *run, OrtKernelContext *context,
                                const int64_t *sizes, const OrtValue *const *inputs,
                                const Converted *given) {
  OrtValue *outputs[MOST_DIRECT_TENSORS];
  Converted converted[MOST_DIRECT_TENSORS];
  OrtStatus *status;
  memset(converted, 0, run->output_count * sizeof *converted);
  status = make_outputs(run, context, sizes, outputs, converted);
  if (status == NULL && run->session == NULL)
    status = run_outside(run, given, converted);
  else if (status == NULL) {
    start_threads(run->session);
    status = api->Run(run->session->session, run_options, run->input_names, inputs,
                      run->input_count, run->output_names, run->output_count, outputs);
  }
  if (status == NULL) widen_outputs(converted, run->output_count);
  release_converted(converted, run->output_count);
  return status;
}

static OrtStatus *run_on_tensors(const DirectRun *run, OrtKernelContext *context,
                                 const int64_t *sizes) {
  const OrtValue *inputs[MOST_DIRECT_TENSORS];
  Converted converted[MOST_DIRECT_TENSORS];
  OrtStatus *status;
  memset(converted, 0, run->input_count * sizeof *converted);
  status = read_inputs(run, context, inputs, converted);
  if (status == NULL) status = run_on_inputs(run, context, sizes, inputs, converted);
  release_converted(converted, run->input_count);
  return status;
}

static void count_direct_run(DirectCounts *counts, int64_t ns) {
  int64_t least;
  __atomic_fetch_add(&counts->runs, 1, __ATOMIC_RELAXED);
  if (!counts->timed) return;
  __atomic_fetch_add(&counts->total_ns, ns, __ATOMIC_RELAXED);
  least = __atomic_load_n(&counts->least_ns, __ATOMIC_RELAXED);
  while ((least == 0 || ns < least) &&
         !__atomic_compare_exchange_n(&counts->least_ns, &least, ns, 1, __ATOMIC_RELAXED,
                                      __ATOMIC_RELAXED))
    continue;
}

/* After a long run Python does the next, which it can end. */
static OrtStatus *run_entry(DirectEntry *entry, OrtKernelContext *context, int *fits) {
  const DirectRun *run;
  OrtStatus *status = NULL;
  int64_t sizes[MOST_SIZES], elements = 0, start, ns;
  atomic_fetch_add(&entry->users, 1);
  run = atomic_load(&entry->run);
  if (run != NULL) status = match_all(run, context, sizes, &elements, fits);
  if (status == NULL && *fits) {
    start = now_ns();
    atomic_store(&entry->last, start);
    status = run_on_tensors(run, context, sizes);
    ns = now_ns() - start;
    if (status == NULL) count_direct_run(run->counts, ns);
    if (status == NULL && run->session != NULL) note_run(run->session, elements, ns);
    if (ns > run->long_ns) atomic_store(&entry->run, NULL);
  }
  atomic_fetch_sub(&entry->users, 1);
  return status;
}

int run_directly(DirectSlot *slot, OrtKernelContext *context, OrtStatus **status) {
  size_t i;
  int fits = 0;
  if (has_options || atomic_load(&slot->failed) || !enter_direct_run()) return 0;
  for (i = 0; i < MOST_DIRECT_RUNS && !fits && *status == NULL; i++)
    if (atomic_load(&slot->entries[i].run) != NULL)
      *status = run_entry(&slot->entries[i], context, &fits);
  leave_direct_run();
  if (*status == NULL) return fits;
  if (run_terminated()) return 1;
  api->ReleaseStatus(*status);
  *status = NULL;
  atomic_store(&slot->failed, 1);
  return 0;
}
