/* LiteRT's compiled models: see litert.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "container.h"
#include "litert_functions.h"

#define CALL LITERT_CALL

enum { OPTION_TEXT = 4608 };
typedef ctx_litert_handle handle;

enum { READ = 0, WRITE = 1 };

/* A buffer of an instance: over the caller's memory, its own staging, or LiteRT's own memory. */
typedef struct {
  handle buffer;
  const void *over; /* the memory of `buffer`; NULL where it is LiteRT's */
  void *staging;
  size_t size; /* as LiteRT wants it */
} place;

/* A compiled model, which one thread at a time may run. */
typedef struct instance {
  struct instance *next;
  handle compiled;
  place *places;              /* of the inputs, then the outputs */
  handle *buffers;            /* theirs */
  ctx_litert_tensor *tensors; /* with the sizes of the last run */
  ctx_litert_type *types;
} instance;

struct ctx_litert_model {
  ctx_litert_model *next;  /* of `models`, */
  ctx_litert_model **link; /* which point to it from here */
  ctx_litert *library;
  ctx_joined memory; /* of the model */
  handle model;
  ctx_litert_options options;
  char *weight_cache;
  uint32_t inputs, outputs;
  bool open; /* some sizes are those of a run */
  ctx_litert_tensor *tensors;
  ctx_litert_type *types;
  pthread_mutex_t lock; /* of the members below */
  pthread_cond_t freed;
  instance *idle;
  uint32_t made;
};

static ctx_litert_model *models;

/* A forked child has no threads of its parent: what they compute with is left behind there. */
static void before_fork(void) { pthread_mutex_lock(&ctx_litert_lock); }
static void after_fork_in_parent(void) { pthread_mutex_unlock(&ctx_litert_lock); }
static void after_fork_in_child(void) {
  ctx_litert_model *m;
  pthread_mutex_init(&ctx_litert_lock, NULL);
  for (m = models; m != NULL; m = m->next) {
    pthread_mutex_init(&m->lock, NULL);
    pthread_cond_init(&m->freed, NULL);
    m->idle = NULL;
    m->made = 0;
  }
}

static void watch_forks(void) {
  (void)pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

/* TOML. */
static char *option_text(const ctx_litert_options *o, ctx_error *error) {
  char *text = calloc(1, OPTION_TEXT);
  const char *c;
  size_t used;
  if (text == NULL) return (void)ctx_out_of_memory(error), NULL;
  if (o->accelerator == CTX_LITERT_GPU) {
    snprintf(text, OPTION_TEXT, "precision = %d\n", o->half ? 1 : 2);
    return text;
  }
  used = (size_t)snprintf(text, OPTION_TEXT, "num_threads = %d\n", o->threads < 1 ? 1 : o->threads);
  if (o->weight_cache == NULL) return text;
  used += (size_t)snprintf(text + used, OPTION_TEXT - used, "weight_cache_file_path = \"");
  for (c = o->weight_cache; *c != '\0' && used + 4 < OPTION_TEXT; c++) {
    if (*c == '"' || *c == '\\') text[used++] = '\\';
    text[used++] = *c;
  }
  text[used++] = '"';
  text[used] = '\n';
  if (*c == '\0') return text;
  free(text);
  ctx_fail(error, "the path of the weight cache is too long");
  return NULL;
}

static bool add_option_text(const ctx_litert *l, const ctx_litert_options *o, handle options,
                            ctx_error *error) {
  const char *kind = o->accelerator == CTX_LITERT_GPU ? "gpu_options" : "xnnpack";
  char *text;
  handle opaque = NULL;
  if (o->accelerator == CTX_LITERT_NPU) return true;
  TRY((text = option_text(o, error)) != NULL);
  if (!CALL(l, CreateOpaqueOptions, kind, text, free, &opaque)) return free(text), false;
  if (CALL(l, AddOpaqueOptions, options, opaque)) return true;
  l->DestroyOpaqueOptions(opaque);
  return false;
}

/* Compiles for the accelerator alone; with the CPU beside it, LiteRT would take that in silence. */
static bool compile(const ctx_litert_model *m, handle env, handle *out, ctx_error *error) {
  const ctx_litert *l = m->library;
  const int accelerator = m->options.accelerator;
  handle options = NULL;
  bool made, fully = true;
  /* where no vendor's library is, older ones end the process */
  if (accelerator == CTX_LITERT_NPU && l->IsNonCpuFullyAccelerated == NULL)
    return ctx_fail(error, "LiteRT's NPU needs LiteRT 2.3");
  TRY(CALL(l, CreateOptions, &options));
  made = CALL(l, SetOptionsHardwareAccelerators, options, accelerator) &&
         add_option_text(l, &m->options, options, error) &&
         CALL(l, CreateCompiledModel, env, m->model, options, out);
  l->DestroyOptions(options);
  if (made && accelerator != CTX_LITERT_CPU && l->IsNonCpuFullyAccelerated != NULL)
    made = CALL(l, IsNonCpuFullyAccelerated, *out, &fully) &&
           (fully || ctx_fail(error, "LiteRT would compute it on the CPU"));
  return made || ctx_prefix(error, accelerator == CTX_LITERT_CPU   ? "LiteRT's CPU"
                                   : accelerator == CTX_LITERT_GPU ? "LiteRT's GPU"
                                                                   : "LiteRT's NPU");
}

static uint32_t count_of(const ctx_litert_model *m) { return m->inputs + m->outputs; }

static void place_clear(const ctx_litert *l, place *p) {
  if (p->buffer != NULL) l->DestroyTensorBuffer(p->buffer);
  free(p->staging);
  memset(p, 0, sizeof *p);
}

static void instance_free(const ctx_litert_model *m, instance *in) {
  uint32_t i;
  if (in == NULL) return;
  for (i = 0; in->places != NULL && i < count_of(m); i++) place_clear(m->library, &in->places[i]);
  if (in->compiled != NULL) m->library->DestroyCompiledModel(in->compiled);
  free(in->places);
  free(in->buffers);
  free(in->tensors);
  free(in->types);
  free(in);
}

/* The size that LiteRT wants of a buffer; off the CPU, the buffer too. */
static bool make_place(const ctx_litert_model *m, handle env, instance *in, uint32_t i,
                       ctx_error *error) {
  const ctx_litert *l = m->library;
  place *p = &in->places[i];
  handle wanted = NULL;
  TRY(i < m->inputs ? CALL(l, GetCompiledModelInputBufferRequirements, in->compiled, 0, i, &wanted)
                    : CALL(l, GetCompiledModelOutputBufferRequirements, in->compiled, 0,
                           i - m->inputs, &wanted));
  TRY(CALL(l, GetTensorBufferRequirementsBufferSize, wanted, &p->size));
  if (p->size < in->tensors[i].bytes) p->size = in->tensors[i].bytes;
  if (m->options.accelerator == CTX_LITERT_CPU) return true;
  TRY(CALL(l, CreateManagedTensorBufferFromRequirements, env, &in->types[i], wanted, &p->buffer));
  in->buffers[i] = p->buffer;
  return true;
}

static instance *instance_make(const ctx_litert_model *m, ctx_error *error) {
  instance *in = calloc(1, sizeof *in);
  const uint32_t count = count_of(m);
  handle env = NULL;
  uint32_t i;
  bool made = in != NULL && (in->places = calloc(count, sizeof *in->places)) != NULL &&
              (in->buffers = calloc(count, sizeof *in->buffers)) != NULL &&
              (in->tensors = calloc(count, sizeof *in->tensors)) != NULL &&
              (in->types = calloc(count, sizeof *in->types)) != NULL;
  if (!made) ctx_out_of_memory(error);
  if (made) {
    memcpy(in->tensors, m->tensors, count * sizeof *in->tensors);
    memcpy(in->types, m->types, count * sizeof *in->types);
  }
  made = made && ctx_litert_environment(m->library, m->options.accelerator, &env, error) &&
         compile(m, env, &in->compiled, error);
  for (i = 0; made && !m->open && i < count; i++) made = make_place(m, env, in, i, error);
  if (made) return in;
  instance_free(m, in);
  return NULL;
}

/* An instance for this thread alone. */
static instance *take(ctx_litert_model *m, ctx_error *error) {
  instance *in;
  pthread_mutex_lock(&m->lock);
  while (m->idle == NULL && m->made >= m->options.instances) pthread_cond_wait(&m->freed, &m->lock);
  in = m->idle;
  if (in != NULL)
    m->idle = in->next;
  else
    m->made++;
  pthread_mutex_unlock(&m->lock);
  if (in != NULL || (in = instance_make(m, error)) != NULL) return in;
  pthread_mutex_lock(&m->lock);
  m->made--;
  pthread_cond_signal(&m->freed);
  pthread_mutex_unlock(&m->lock);
  return NULL;
}

static void give(ctx_litert_model *m, instance *in) {
  pthread_mutex_lock(&m->lock);
  in->next = m->idle;
  m->idle = in;
  pthread_cond_signal(&m->freed);
  pthread_mutex_unlock(&m->lock);
}

/* Has the buffer over `memory`; a new one takes less than half a microsecond. */
static bool put_over(const ctx_litert_model *m, instance *in, uint32_t i, const void *memory,
                     ctx_error *error) {
  const ctx_litert *l = m->library;
  place *p = &in->places[i];
  if (p->over == memory) return true;
  if (p->buffer != NULL) l->DestroyTensorBuffer(p->buffer);
  p->buffer = in->buffers[i] = NULL;
  p->over = NULL;
  TRY(CALL(l, CreateTensorBufferFromHostMemory, &in->types[i], (void *)(uintptr_t)memory, p->size,
           NULL, &p->buffer));
  p->over = memory;
  in->buffers[i] = p->buffer;
  return true;
}

/* True if LiteRT may read or write the memory itself. */
static bool is_fit(const instance *in, uint32_t i, const void *memory) {
  return (uintptr_t)memory % CTX_ALIGNMENT == 0 && in->places[i].size == in->tensors[i].bytes;
}

static bool enter(const ctx_litert_model *m, instance *in, uint32_t i, const void *memory,
                  ctx_error *error) {
  place *p = &in->places[i];
  const size_t bytes = in->tensors[i].bytes;
  void *to;
  if (m->options.accelerator != CTX_LITERT_CPU) {
    if (i >= m->inputs) return true;
    TRY(CALL(m->library, LockTensorBuffer, p->buffer, &to, WRITE));
    memcpy(to, memory, bytes);
    return CALL(m->library, UnlockTensorBuffer, p->buffer);
  }
  if (is_fit(in, i, memory)) return put_over(m, in, i, memory, error);
  if (p->staging == NULL && (p->staging = ctx_aligned(p->size)) == NULL)
    return ctx_out_of_memory(error);
  if (i < m->inputs) memcpy(p->staging, memory, bytes);
  return put_over(m, in, i, p->staging, error);
}

static bool leave(const ctx_litert_model *m, const instance *in, uint32_t i, void *memory,
                  ctx_error *error) {
  const place *p = &in->places[i];
  void *from;
  if (m->options.accelerator != CTX_LITERT_CPU) {
    TRY(CALL(m->library, LockTensorBuffer, p->buffer, &from, READ));
    memcpy(memory, from, in->tensors[i].bytes);
    return CALL(m->library, UnlockTensorBuffer, p->buffer);
  }
  if (p->over != memory) memcpy(memory, p->over, in->tensors[i].bytes);
  return true;
}

static bool run(const ctx_litert_model *m, instance *in, const void *const *inputs,
                void *const *outputs, ctx_error *error) {
  uint32_t i;
  for (i = 0; i < count_of(m); i++)
    TRY(enter(m, in, i, i < m->inputs ? inputs[i] : outputs[i - m->inputs], error));
  TRY(CALL(m->library, RunCompiledModel, in->compiled, 0, m->inputs, in->buffers, m->outputs,
           in->buffers + m->inputs));
  for (i = m->inputs; i < count_of(m); i++) TRY(leave(m, in, i, outputs[i - m->inputs], error));
  return true;
}

static size_t element_bytes(int32_t type) {
  switch (type) {
    case CTX_LITERT_UINT8:
    case CTX_LITERT_INT8:
    case CTX_LITERT_BOOL: return 1;
    case CTX_LITERT_INT16:
    case CTX_LITERT_FLOAT16: return 2;
    case CTX_LITERT_FLOAT32:
    case CTX_LITERT_INT32: return 4;
    case CTX_LITERT_INT64:
    case CTX_LITERT_FLOAT64: return 8;
    default: return 0;
  }
}

/* False for types and sizes that no run can have memory for.
 * open: is set if sizes are -1; NULL: none may be. */
static bool describe(ctx_litert_tensor *out, const ctx_litert_type *type, bool *open,
                     ctx_error *error) {
  uint64_t bytes = element_bytes(type->element);
  uint32_t i;
  bool is_open = false;
  out->type = type->element;
  out->rank = type->layout.rank;
  if (bytes == 0 || type->layout.rank > CTX_LITERT_MOST_AXES)
    return ctx_fail(error, "the .tflite has a tensor of type %d and rank %u", (int)type->element,
                    (unsigned)type->layout.rank);
  for (i = 0; i < type->layout.rank; i++) {
    const int32_t size = out->dims[i] = type->layout.dims[i];
    if (size == -1 && open != NULL)
      *open = is_open = true;
    else if (size < 1 || (bytes *= (uint64_t)size) > INT32_MAX)
      return ctx_fail(error, "the .tflite has a tensor of unknown size, or of 2 GB and more");
  }
  out->bytes = is_open ? 0 : (size_t)bytes;
  return true;
}

static bool fits(const ctx_litert_model *m, const instance *in, const int32_t *sizes) {
  uint32_t i;
  for (i = 0; i < count_of(m); sizes += m->tensors[i++].rank)
    if (memcmp(in->tensors[i].dims, sizes, m->tensors[i].rank * sizeof *sizes) != 0) return false;
  return true;
}

static bool resize_tensor(const ctx_litert_model *m, instance *in, uint32_t i, const int32_t *sizes,
                          ctx_error *error) {
  const uint32_t rank = m->tensors[i].rank;
  place_clear(m->library, &in->places[i]);
  in->buffers[i] = NULL;
  memcpy(in->types[i].layout.dims, sizes, rank * sizeof *sizes);
  TRY(describe(&in->tensors[i], &in->types[i], NULL, error));
  if (i >= m->inputs || memcmp(m->tensors[i].dims, sizes, rank * sizeof *sizes) == 0) return true;
  return CALL(m->library, CompiledModelResizeInputTensor, in->compiled, 0, i, sizes, rank);
}

/* False if LiteRT computes outputs of other sizes than these. */
static bool check_outputs(const ctx_litert_model *m, const instance *in, ctx_error *error) {
  ctx_litert_layout *found = calloc(m->outputs, sizeof *found);
  uint32_t i;
  bool right = found != NULL || ctx_out_of_memory(error);
  right = right && CALL(m->library, GetCompiledModelOutputTensorLayouts, in->compiled, 0,
                        m->outputs, found, true);
  for (i = 0; right && i < m->outputs; i++) {
    const ctx_litert_tensor *t = &in->tensors[m->inputs + i];
    if (found[i].rank != t->rank || memcmp(found[i].dims, t->dims, t->rank * sizeof *t->dims) != 0)
      right = ctx_fail(error, "LiteRT computes output %u in another shape", (unsigned)i);
  }
  free(found);
  return right;
}

static bool resize(const ctx_litert_model *m, instance *in, const int32_t *sizes,
                   ctx_error *error) {
  const uint32_t count = count_of(m);
  uint32_t i;
  bool done = true;
  for (i = 0; done && i < count; sizes += m->tensors[i++].rank)
    done = resize_tensor(m, in, i, sizes, error);
  done = done && check_outputs(m, in, error);
  for (i = 0; done && i < count; i++) done = make_place(m, NULL, in, i, error);
  if (!done) memcpy(in->tensors, m->tensors, count * sizeof *in->tensors); /* for the next run */
  return done;
}

static bool run_with(ctx_litert_model *m, const int32_t *sizes, const void *const *inputs,
                     void *const *outputs, ctx_error *error) {
  instance *in = take(m, error);
  bool ran;
  if (in == NULL) return false;
  ran = (sizes == NULL || fits(m, in, sizes) || resize(m, in, sizes, error)) &&
        run(m, in, inputs, outputs, error);
  give(m, in);
  return ran;
}

bool ctx_litert_run(ctx_litert_model *m, const void *const *inputs, void *const *outputs,
                    ctx_error *error) {
  if (m->open) return ctx_fail(error, "the .tflite has open sizes");
  return run_with(m, NULL, inputs, outputs, error);
}

bool ctx_litert_run_sized(ctx_litert_model *m, const int32_t *sizes, const void *const *inputs,
                          void *const *outputs, ctx_error *error) {
  if (!m->open) return ctx_fail(error, "the sizes of the .tflite are fixed");
  return run_with(m, sizes, inputs, outputs, error);
}

static bool read_tensor(ctx_litert_model *m, handle signature, uint32_t i, ctx_error *error) {
  const ctx_litert *l = m->library;
  handle tensor = NULL;
  if (i < m->inputs) {
    TRY(CALL(l, GetSignatureInputName, signature, i, &m->tensors[i].name));
    TRY(CALL(l, GetSignatureInputTensorByIndex, signature, i, &tensor));
  } else {
    TRY(CALL(l, GetSignatureOutputName, signature, i - m->inputs, &m->tensors[i].name));
    TRY(CALL(l, GetSignatureOutputTensorByIndex, signature, i - m->inputs, &tensor));
  }
  TRY(CALL(l, GetRankedTensorType, tensor, &m->types[i]));
  return describe(&m->tensors[i], &m->types[i],
                  m->options.accelerator == CTX_LITERT_CPU ? &m->open : NULL, error);
}

static bool read_signature(ctx_litert_model *m, ctx_error *error) {
  const ctx_litert *l = m->library;
  size_t count = 0, inputs = 0, outputs = 0;
  handle signature = NULL;
  uint32_t i;
  TRY(CALL(l, GetNumModelSignatures, m->model, &count));
  if (count != 1) return ctx_fail(error, "the .tflite has %zu signatures instead of one", count);
  TRY(CALL(l, GetModelSignature, m->model, 0, &signature));
  TRY(CALL(l, GetNumSignatureInputs, signature, &inputs));
  TRY(CALL(l, GetNumSignatureOutputs, signature, &outputs));
  if (inputs > 65536 || outputs < 1 || outputs > 65536)
    return ctx_fail(error, "the .tflite has %zu inputs and %zu outputs", inputs, outputs);
  m->inputs = (uint32_t)inputs;
  m->outputs = (uint32_t)outputs;
  m->tensors = calloc(inputs + outputs, sizeof *m->tensors);
  m->types = calloc(inputs + outputs, sizeof *m->types);
  if (m->tensors == NULL || m->types == NULL) return ctx_out_of_memory(error);
  for (i = 0; i < count_of(m); i++) TRY(read_tensor(m, signature, i, error));
  return true;
}

/* With its first instance, so that what does not compile is known. */
static bool create(ctx_litert_model *m, const ctx_flatbuffer *flatbuffer,
                   const ctx_litert_options *options, ctx_error *error) {
  instance *first;
  handle env = NULL;
  m->options = *options;
  if (options->instances == 0) m->options.instances = 1;
  if (options->weight_cache != NULL) {
    m->options.weight_cache = m->weight_cache = strdup(options->weight_cache);
    if (m->weight_cache == NULL) return ctx_out_of_memory(error);
  }
  TRY(ctx_litert_environment(m->library, options->accelerator, &env, error));
  TRY(ctx_join(flatbuffer, &m->memory, error));
  TRY(CALL(m->library, CreateModelFromBuffer, env, m->memory.data, m->memory.data_size, &m->model));
  TRY(read_signature(m, error) && (first = take(m, error)) != NULL);
  give(m, first);
  return true;
}

bool ctx_litert_compile(ctx_litert *library, const ctx_flatbuffer *flatbuffer,
                        const ctx_litert_options *options, ctx_litert_model **out,
                        ctx_error *error) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  ctx_litert_model *m = calloc(1, sizeof *m);
  pthread_once(&once, watch_forks);
  if (m == NULL) return ctx_out_of_memory(error);
  m->library = library;
  pthread_mutex_init(&m->lock, NULL);
  pthread_cond_init(&m->freed, NULL);
  pthread_mutex_lock(&ctx_litert_lock);
  if ((m->next = models) != NULL) models->link = &m->next;
  models = m;
  m->link = &models;
  pthread_mutex_unlock(&ctx_litert_lock);
  if (!create(m, flatbuffer, options, error)) return ctx_litert_free(m), false;
  *out = m;
  return true;
}

void ctx_litert_free(ctx_litert_model *m) {
  if (m == NULL) return;
  pthread_mutex_lock(&ctx_litert_lock);
  if ((*m->link = m->next) != NULL) m->next->link = m->link;
  pthread_mutex_unlock(&ctx_litert_lock);
  while (m->idle != NULL) {
    instance *in = m->idle;
    m->idle = in->next;
    instance_free(m, in);
  }
  if (m->model != NULL) m->library->DestroyModel(m->model);
  ctx_joined_free(&m->memory);
  pthread_mutex_destroy(&m->lock);
  pthread_cond_destroy(&m->freed);
  free(m->weight_cache);
  free(m->tensors);
  free(m->types);
  free(m);
}

const ctx_litert_tensor *ctx_litert_tensors(const ctx_litert_model *m, uint32_t *inputs,
                                            uint32_t *outputs) {
  *inputs = m->inputs;
  *outputs = m->outputs;
  return m->tensors;
}
