/* The choice among alternatives: see choice.h. */
#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64 /* on 32 bits, files may have more than 2 GB */
#include "choice.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "litert.h"
#include "sha256.h"

typedef enum { NNAPI, LITERT_NPU, LITERT_GPU, NNAPI_CPU, LITERT_CPU, CPU, KINDS } preference;

static const char *const kind_names[KINDS] = {"nnapi",     "litert-npu", "litert-gpu",
                                              "nnapi-cpu", "litert-cpu", "cpu"};

/* An alternative on a device. */
typedef struct {
  uint32_t alternative;
  preference kind;
  const ctx_device *device; /* NULL: not of NNAPI */
  ctx_engine *engine;       /* NULL until it is opened; stays, as runs may still use it */
  uint32_t *tensors;     /* of its inputs, then its outputs: which of the container's first ones */
  _Atomic uint64_t runs; /* that ended well */
} candidate;

struct ctx_choice {
  ctx_system system;
  ctx_container container; /* with its first alternative, whose tensors are those of a run */
  ctx_weights *weights;
  candidate *candidates;
  uint32_t count;
  _Atomic uint32_t current; /* the candidate that is chosen */
  ctx_tried *tried;         /* room for all, as they are read while others are added */
  _Atomic uint32_t tried_count;
  char name[160];
  atomic_bool proved;                      /* it has run */
  bool stuck;                              /* a driver hangs */
  _Atomic uint64_t total_time, least_time; /* of runs, in nanoseconds, if they are measured */
  pthread_mutex_t lock;
};

/* The kind of that name; KINDS if it is none. */
static preference kind_of(const char *name, size_t length) {
  preference kind = NNAPI;
  while (kind < KINDS &&
         (strlen(kind_names[kind]) != length || memcmp(kind_names[kind], name, length) != 0))
    kind++;
  return kind;
}

bool ctx_check_prefer(const char *names, ctx_error *error) {
  for (;; names++) {
    const size_t length = strcspn(names, ",");
    if (kind_of(names, length) == KINDS)
      return ctx_fail(error, "prefer has '%.*s'; give some of " CTX_PREFER,
                      length < 50 ? (int)length : 50, names);
    names += length;
    if (*names == '\0') return true;
  }
}

static void name_of(const ctx_choice *x, const candidate *c, char *out, size_t capacity) {
  const ctx_range name = x->container.alternatives[c->alternative].name;
  const char *on = c->device != NULL ? c->device->name : kind_names[c->kind];
  if (c->kind == CPU)
    snprintf(out, capacity, "%.*s", (int)name.count, x->container.text + name.first);
  else
    snprintf(out, capacity, "%.*s on %.80s", (int)name.count, x->container.text + name.first, on);
}

/* Notes that a candidate gives way. */
static void give_way(ctx_choice *x, const candidate *c, const ctx_error *reason) {
  ctx_tried *next = &x->tried[x->tried_count];
  if (x->tried_count == x->count) return; /* each is noted once */
  name_of(x, c, next->name, sizeof next->name);
  next->reason = *reason;
  next->runs = c->runs;
  x->tried_count++;
}

static bool add_candidate(ctx_choice *x, uint32_t alternative, preference kind,
                          const ctx_device *device, ctx_error *error) {
  const candidate made = {alternative, kind, device, NULL, NULL, 0};
  candidate *grown = realloc(x->candidates, (x->count + 1) * sizeof *grown);
  if (grown == NULL) return ctx_out_of_memory(error);
  x->candidates = grown;
  grown[x->count++] = made;
  return true;
}

static bool goes_with(preference kind, uint32_t alternative_kind) {
  switch (kind) {
    case NNAPI:
    case NNAPI_CPU:
      return alternative_kind == CTX_KIND_NNAPI || alternative_kind == CTX_KIND_PARTITION;
    case CPU: return alternative_kind == CTX_KIND_ONNX;
    default: return alternative_kind == CTX_KIND_LITERT;
  }
}

/* A device that was asked for is the only one of NNAPI, and comes where accelerators do. */
static bool is_meant(const ctx_system *s, preference kind, const ctx_device *device) {
  if (s->device != NULL) return kind == NNAPI && strcmp(device->name, s->device->name) == 0;
  return (kind == NNAPI_CPU) == (device->type == NN_DEVICE_CPU);
}

/* The alternatives of one preference on a device; NULL: not of NNAPI. */
static bool add_all(ctx_choice *x, preference kind, const ctx_device *device, ctx_error *error) {
  uint32_t i;
  for (i = 0; i < x->container.header->choices; i++)
    if (goes_with(kind, x->container.alternatives[i].kind))
      TRY(add_candidate(x, i, kind, device, error));
  return true;
}

static bool add_kind(ctx_choice *x, preference kind, ctx_error *error) {
  uint32_t i;
  if (kind != NNAPI && kind != NNAPI_CPU) return add_all(x, kind, NULL, error);
  if (x->system.nnapi == NULL) return kind == NNAPI_CPU || add_all(x, kind, NULL, error);
  for (i = 0; i < x->system.devices->count; i++)
    if (is_meant(&x->system, kind, &x->system.devices->items[i]))
      TRY(add_all(x, kind, &x->system.devices->items[i], error));
  return true;
}

static bool find_candidates(ctx_choice *x, ctx_error *error) {
  const char *names = x->system.prefer;
  for (;; names++) {
    const size_t length = strcspn(names, ",");
    const preference kind = kind_of(names, length);
    if (kind < KINDS) TRY(add_kind(x, kind, error));
    names += length;
    if (*names == '\0') break;
  }
  x->tried = calloc((size_t)x->count + 1, sizeof *x->tried);
  return x->tried != NULL || ctx_out_of_memory(error);
}

/* The tensor among the container's first ones with the name, type and sizes of another. */
static bool find_first(const ctx_container *c, const ctx_crossing *wanted, bool output,
                       uint32_t *out) {
  const ctx_crossing *crossings = output ? c->outputs : c->inputs;
  const uint32_t count = output ? c->chosen->outputs.count : c->chosen->inputs.count;
  for (*out = 0; *out < count; ++*out) {
    const ctx_range name = crossings[*out].name;
    if (name.count == wanted->name.count &&
        memcmp(c->text + name.first, c->text + wanted->name.first, name.count) == 0)
      return ctx_same_tensor(c, &crossings[*out], wanted);
  }
  return false;
}

static bool bind(const ctx_choice *x, candidate *a, ctx_error *error) {
  const ctx_container c = ctx_choose(&x->container, a->alternative);
  const uint32_t in = c.chosen->inputs.count, count = in + c.chosen->outputs.count;
  uint32_t i;
  free(a->tensors);
  a->tensors = calloc((size_t)count + 1, sizeof *a->tensors);
  if (a->tensors == NULL) return ctx_out_of_memory(error);
  for (i = 0; i < count; i++)
    if (!find_first(&x->container, i < in ? &c.inputs[i] : &c.outputs[i - in], i >= in,
                    &a->tensors[i]))
      return ctx_fail(error, "it has other tensors or sizes");
  return count - in == x->container.chosen->outputs.count ||
         ctx_fail(error, "it has other outputs");
}

/* Runs an engine on the tensors of the container's first alternative. */
static bool run_candidate(const ctx_choice *x, candidate *c, const void *const *inputs,
                          void *const *outputs, ctx_error *error) {
  enum { FEW = 32 };
  const ctx_alternative *a = &x->container.alternatives[c->alternative];
  const uint32_t in = a->inputs.count, count = in + a->outputs.count;
  void *few[FEW] = {0}, **all = count > FEW ? calloc(count, sizeof *all) : few;
  uint32_t i;
  bool ran;
  if (all == NULL) return ctx_out_of_memory(error);
  for (i = 0; i < count; i++)
    all[i] = i < in ? (void *)(uintptr_t)inputs[c->tensors[i]] : outputs[c->tensors[i]];
  ran = c->engine->run(c->engine, (const void *const *)all, all + in, error);
  if (ran) atomic_fetch_add(&c->runs, 1);
  if (all != few) free(all);
  return ran;
}

/* What is called in a thread, as it may not come back: the opening of a candidate, or its first run
 * on copies of the tensors. Whoever comes last frees it. */
typedef struct {
  const ctx_choice *choice;
  candidate *candidate;
  ctx_place place;
  ctx_container container;
  ctx_weights *weights;
  ctx_engine *engine;
  void **tensors; /* the container's first inputs, then outputs; NULL: it is to be opened */
  ctx_error error;
  bool succeeded, ended, left;
  pthread_mutex_t lock;
  pthread_cond_t end;
} trial;

static uint32_t tensor_count(const trial *t) {
  const ctx_alternative *first = t->choice->container.chosen;
  return first->inputs.count + first->outputs.count;
}

static void free_trial(trial *t) {
  uint32_t i;
  for (i = 0; t->tensors != NULL && i < tensor_count(t); i++) free(t->tensors[i]);
  free(t->tensors);
  pthread_cond_destroy(&t->end);
  pthread_mutex_destroy(&t->lock);
  free(t);
}

static void *try(void *given) {
  trial *t = given;
  bool last, succeeded;
  if (t->tensors == NULL)
    succeeded = ctx_engine_open(&t->place, &t->container, t->weights, &t->engine, &t->error);
  else
    succeeded = run_candidate(t->choice, t->candidate, (const void *const *)t->tensors,
                              t->tensors + t->choice->container.chosen->inputs.count, &t->error);
  pthread_mutex_lock(&t->lock);
  t->succeeded = succeeded;
  t->ended = true;
  last = t->left;
  pthread_cond_signal(&t->end);
  pthread_mutex_unlock(&t->lock);
  if (last) free_trial(t);
  return NULL;
}

/* Waits until it has ended; false at the deadline. */
static bool wait_for(trial *t, uint64_t nanoseconds) {
  struct timespec end;
  bool ended;
  clock_gettime(CLOCK_MONOTONIC, &end);
  end.tv_sec += (time_t)(nanoseconds / 1000000000);
  end.tv_nsec += (long)(nanoseconds % 1000000000);
  if (end.tv_nsec >= 1000000000) {
    end.tv_nsec -= 1000000000;
    end.tv_sec++;
  }
  pthread_mutex_lock(&t->lock);
  while (!t->ended && pthread_cond_timedwait(&t->end, &t->lock, &end) == 0) {
  }
  ended = t->ended;
  t->left = !ended;
  pthread_mutex_unlock(&t->lock);
  return ended;
}

/* Runs it in a thread; a trial that is left is the thread's. */
static bool carry_out(ctx_choice *x, trial *t, ctx_error *error) {
  pthread_t thread;
  pthread_attr_t detached;
  bool started;
  pthread_attr_init(&detached);
  pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
  started = pthread_create(&thread, &detached, try, t) == 0;
  pthread_attr_destroy(&detached);
  if (!started) return ctx_fail(error, "no thread can be started for a trial");
  if (wait_for(t, x->system.deadline)) {
    *error = t->error;
    return t->succeeded;
  }
  x->stuck = true;
  return ctx_fail(error, "it did not %s within %.3g s", t->tensors == NULL ? "compile" : "run",
                  (double)x->system.deadline / 1e9);
}

static trial *make_trial(ctx_choice *x, candidate *c, ctx_error *error) {
  static const int accelerators[KINDS] = {
      [LITERT_NPU] = CTX_LITERT_NPU, [LITERT_GPU] = CTX_LITERT_GPU, [LITERT_CPU] = CTX_LITERT_CPU};
  pthread_condattr_t monotonic;
  trial *t = calloc(1, sizeof *t);
  if (t == NULL) return (void)ctx_out_of_memory(error), NULL;
  t->choice = x;
  t->candidate = c;
  t->place.nnapi = x->system.nnapi;
  t->place.options = x->system.options;
  t->place.options.device = c->device;
  t->place.options.fallback = NULL;
  t->place.options.ask = true;
  t->place.accelerator = accelerators[c->kind];
  t->place.open_onnx = x->system.open_onnx;
  t->container = ctx_choose(&x->container, c->alternative);
  t->weights = x->weights;
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_cond_init(&t->end, &monotonic);
  pthread_condattr_destroy(&monotonic);
  pthread_mutex_init(&t->lock, NULL);
  return t;
}

/* The build of the system, of which drivers are a part. */
static void system_build(char *out, size_t capacity) {
  struct utsname about;
  char fingerprint[92] = ""; /* Source: PROP_VALUE_MAX of Android's system_properties.h */
  int (*get)(const char *, char *);
  void *found = dlsym(RTLD_DEFAULT, "__system_property_get");
  memcpy(&get, &found, sizeof get);
  if (get != NULL) (void)get("ro.build.fingerprint", fingerprint);
  if (fingerprint[0] == '\0' && uname(&about) == 0)
    snprintf(out, capacity, "%.60s %.60s", about.release, about.version);
  else
    snprintf(out, capacity, "%s", fingerprint);
}

/* The path of a note about a candidate, or about the choice (NULL); false without a folder. */
static bool note_path(const ctx_choice *x, const candidate *c, char *out, size_t capacity) {
  char about[512], build[128] = "", name[160] = "choice";
  uint8_t digest[SHA256_BYTES];
  if (x->system.cache_dir == NULL) return false;
  system_build(build, sizeof build);
  if (c != NULL) name_of(x, c, name, sizeof name);
  snprintf(about, sizeof about, "%s\n%s\n%s", name,
           c != NULL && c->device != NULL ? c->device->version : "", build);
  sha256 hash;
  sha256_begin(&hash);
  sha256_add(&hash, x->container.header->sha256, sizeof x->container.header->sha256);
  sha256_add(&hash, (const uint8_t *)about, strlen(about));
  sha256_end(&hash, digest);
  return ctx_cache_path(x->system.cache_dir, digest, c != NULL ? "trying" : "chosen", out,
                        capacity);
}

static void write_note(const char *path, const char *text) {
  FILE *file = fopen(path, "we");
  if (file == NULL) return;
  fprintf(file, "%s\n", text);
  fflush(file);
  (void)fsync(fileno(file));
  fclose(file);
}

/* Before a candidate that may end the process: false if it did so at an earlier start. */
static bool begin_note(const ctx_choice *x, const candidate *c, bool again, ctx_error *error) {
  char path[4096], name[160];
  if (c->kind == CPU || !note_path(x, c, path, sizeof path)) return true;
  if (!again && access(path, F_OK) == 0)
    return ctx_fail(error, "an earlier start ended in it, as %.200s says", path);
  name_of(x, c, name, sizeof name);
  write_note(path, name);
  return true;
}

static void end_note(const ctx_choice *x, const candidate *c) {
  char path[4096];
  if (c->kind != CPU && note_path(x, c, path, sizeof path)) (void)unlink(path);
}

/* The lowest feature level at which a candidate's alternative runs. */
static uint32_t needed(const ctx_container *c, const ctx_alternative *a) {
  uint32_t level = a->feature_level, i;
  for (i = 0; i < a->parts.count; i++)
    if (c->alternatives[a->parts.first + i].feature_level > level)
      level = c->alternatives[a->parts.first + i].feature_level;
  return level;
}

static bool may_run(const ctx_choice *x, const candidate *c, ctx_error *error) {
  const uint32_t level = needed(&x->container, &x->container.alternatives[c->alternative]);
  if (c->kind != NNAPI && c->kind != NNAPI_CPU) return true;
  if (c->device == NULL) return ctx_fail(error, "%.400s", x->system.no_library);
  return level <= (uint32_t)c->device->feature_level ||
         ctx_fail(error, "it needs feature level %u, the device has %d", level,
                  c->device->feature_level);
}

/* Opens a candidate: the CPU provider at once, others with a deadline. */
static bool open_candidate(ctx_choice *x, uint32_t index, ctx_error *error) {
  candidate *c = &x->candidates[index];
  trial *t;
  bool opened;
  if (!bind(x, c, error) || !may_run(x, c, error) || !begin_note(x, c, false, error)) return false;
  t = make_trial(x, c, error);
  if (t == NULL) return false;
  if (c->kind == CPU) {
    opened = ctx_engine_open(&t->place, &t->container, t->weights, &t->engine, error);
    t->ended = true;
  } else {
    opened = carry_out(x, t, error);
  }
  if (!t->ended) return false; /* its thread has it; the note stays */
  end_note(x, c);
  c->engine = opened ? t->engine : NULL;
  free_trial(t);
  return opened;
}

/* Chooses the first candidate from `index` on that opens. */
static bool choose_from(ctx_choice *x, uint32_t index, ctx_error *error) {
  for (; index < x->count; index++) {
    if (x->candidates[index].engine == NULL && !open_candidate(x, index, error)) {
      give_way(x, &x->candidates[index], error);
      continue;
    }
    atomic_store(&x->current, index);
    name_of(x, &x->candidates[index], x->name, sizeof x->name);
    atomic_store(&x->proved, x->candidates[index].kind == CPU);
    return true;
  }
  return false;
}

static void note_choice(const ctx_choice *x) {
  char path[4096];
  if (note_path(x, NULL, path, sizeof path)) write_note(path, x->name);
}

bool ctx_choice_make(const ctx_system *system, const ctx_container *container, ctx_weights *weights,
                     ctx_choice **out, ctx_error *error) {
  ctx_choice *x = calloc(1, sizeof *x);
  bool made;
  if (x == NULL) return ctx_out_of_memory(error);
  x->system = *system;
  x->container = *container;
  x->weights = weights;
  pthread_mutex_init(&x->lock, NULL);
  atomic_init(&x->proved, false);
  ctx_fail(error, "no alternative of it is preferred here");
  made = find_candidates(x, error) && choose_from(x, 0, error);
  if (made && (x->candidates[x->current].kind != CPU || ctx_weights_are_right(weights, error))) {
    note_choice(x);
    return *out = x, true;
  }
  if (!made && x->tried_count > 0) {
    const ctx_tried first = x->tried[0];
    ctx_fail(error, "no alternative runs here: %.100s: %.250s", first.name, first.reason.text);
  }
  (void)ctx_weights_are_right(weights, error); /* what is said of wrong weights means nothing */
  (void)ctx_choice_free(x);
  return false;
}

bool ctx_choice_free(ctx_choice *x) {
  uint32_t i;
  if (x == NULL) return true;
  if (x->stuck) return false; /* what hangs may still read all of it */
  for (i = 0; i < x->count; i++) {
    ctx_engine_free(x->candidates[i].engine);
    free(x->candidates[i].tensors);
  }
  free(x->candidates);
  free(x->tried);
  pthread_mutex_destroy(&x->lock);
  free(x);
  return true;
}

/* Copies of the inputs, and memory for the outputs: a run that is left must not have the caller's. */
static bool copy_tensors(trial *t, const void *const *inputs, ctx_error *error) {
  const ctx_container *c = &t->choice->container;
  const uint32_t in = c->chosen->inputs.count;
  uint32_t i;
  t->tensors = calloc((size_t)tensor_count(t) + 1, sizeof *t->tensors);
  if (t->tensors == NULL) return ctx_out_of_memory(error);
  for (i = 0; i < tensor_count(t); i++) {
    const size_t size = ctx_tensor_bytes(c, i < in ? &c->inputs[i] : &c->outputs[i - in]);
    t->tensors[i] = ctx_aligned(size);
    if (t->tensors[i] == NULL) return ctx_out_of_memory(error);
    if (i < in) memcpy(t->tensors[i], inputs[i], size);
  }
  return true;
}

/* The first run of what is chosen. */
static bool prove(ctx_choice *x, const void *const *inputs, void *const *outputs,
                  ctx_error *error) {
  candidate *c = &x->candidates[x->current];
  trial *t = make_trial(x, c, error);
  const uint32_t in = x->container.chosen->inputs.count;
  uint32_t i;
  bool ran;
  if (t == NULL) return false;
  if (!copy_tensors(t, inputs, error)) return free_trial(t), false;
  (void)begin_note(x, c, true, error);
  ran = carry_out(x, t, error);
  if (!t->ended) return false;
  end_note(x, c);
  for (i = 0; ran && i < x->container.chosen->outputs.count; i++)
    memcpy(outputs[i], t->tensors[in + i],
           ctx_tensor_bytes(&x->container, &x->container.outputs[i]));
  free_trial(t);
  return ran;
}

/* Runs it, and the next ones in its place, until one runs. If none does, the inputs are to blame. */
static bool run_some(ctx_choice *x, const void *const *inputs, void *const *outputs,
                     ctx_error *error) {
  const uint32_t first = x->current, tried = x->tried_count;
  const bool proved = atomic_load(&x->proved);
  ctx_error reason;
  for (;;) {
    candidate *c = &x->candidates[x->current];
    const bool ran = atomic_load(&x->proved) ? run_candidate(x, c, inputs, outputs, &reason)
                                             : prove(x, inputs, outputs, &reason);
    if (ran) break;
    if (x->current == first) *error = reason;
    give_way(x, &x->candidates[x->current], &reason);
    if (!choose_from(x, x->current + 1, &reason)) {
      if (x->candidates[first].engine == NULL || x->stuck) return false;
      x->tried_count = tried;
      (void)choose_from(x, first, &reason);
      atomic_store(&x->proved, proved);
      return false;
    }
  }
  if (x->current != first) note_choice(x);
  atomic_store(&x->proved, true);
  return true;
}

static bool run(ctx_choice *x, const void *const *inputs, void *const *outputs, ctx_error *error) {
  bool ran;
  if (atomic_load(&x->proved)) {
    if (run_candidate(x, &x->candidates[x->current], inputs, outputs, error)) return true;
    if (!x->system.gives_way) return false;
  }
  pthread_mutex_lock(&x->lock);
  ran = run_some(x, inputs, outputs, error);
  pthread_mutex_unlock(&x->lock);
  return ran;
}

bool ctx_choice_run(ctx_choice *x, const void *const *inputs, void *const *outputs,
                    ctx_error *error) {
  struct timespec begin, end;
  uint64_t time, least;
  if (!x->system.options.measure) return run(x, inputs, outputs, error);
  clock_gettime(CLOCK_MONOTONIC, &begin);
  TRY(run(x, inputs, outputs, error));
  clock_gettime(CLOCK_MONOTONIC, &end);
  time = (uint64_t)(end.tv_sec - begin.tv_sec) * 1000000000 + (uint64_t)end.tv_nsec -
         (uint64_t)begin.tv_nsec;
  atomic_fetch_add(&x->total_time, time);
  least = atomic_load(&x->least_time);
  while ((least == 0 || time < least) &&
         !atomic_compare_exchange_weak(&x->least_time, &least, time)) {
  }
  return true;
}

ctx_record ctx_choice_record(ctx_choice *x) {
  const candidate *c = &x->candidates[x->current];
  ctx_record record = {.device = c->device != NULL ? c->device->name : kind_names[c->kind],
                       .compiled = true};
  uint32_t i;
  if (c->engine->program != NULL) record = ctx_program_record(c->engine->program);
  record.device_runs = c->runs;
  record.other_runs = 0;
  for (i = 0; i < x->count; i++)
    if (i != x->current) record.other_runs += x->candidates[i].runs;
  record.total_time = x->total_time;
  record.least_time = x->least_time;
  return record;
}

const char *ctx_choice_name(ctx_choice *x) { return x->name; }

const ctx_tried *ctx_choice_tried(ctx_choice *x, uint32_t *count) {
  *count = x->tried_count;
  return x->tried;
}

ctx_container ctx_choice_container(const ctx_choice *x) {
  return ctx_choose(&x->container, x->candidates[x->current].alternative);
}
