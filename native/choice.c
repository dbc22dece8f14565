/* The choice among alternatives: see choice.h. */
#include "choice.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "litert.h"
#include "trial.h"

typedef enum { NNAPI, LITERT_NPU, LITERT_GPU, NNAPI_CPU, LITERT_CPU, CPU, KINDS } preference;

static const char *const kind_names[KINDS] = {"nnapi",     "litert-npu", "litert-gpu",
                                              "nnapi-cpu", "litert-cpu", "cpu"};

/* An alternative on a device. */
typedef struct {
  uint32_t alternative;
  preference kind;
  const ctx_device *device; /* NULL: not of NNAPI */
  char name[160];
  ctx_container container; /* of the alternative, from when it is opened */
  uint8_t *data;           /* of that; NULL: it is the first one's */
  ctx_engine *engine;      /* NULL until it is opened; stays, as runs may still use it */
  uint32_t *tensors;     /* of its inputs, then its outputs: which of the container's first ones */
  _Atomic uint64_t runs; /* that ended well */
} candidate;

/* A trial that has begun. */
typedef struct {
  struct trial *trial; /* NULL: there is none, or it does not come back and is no one's */
  ctx_call *call;      /* NULL: it was carried out at once */
} attempt;

struct ctx_choice {
  const ctx_system *system;
  bool alone;
  ctx_container container; /* with its first alternative, whose tensors are those of a run */
  ctx_weights *weights;
  candidate *candidates;
  uint32_t count;
  uint32_t next;            /* the candidate that is being opened, or was last */
  attempt opening;          /* its trial */
  _Atomic uint32_t current; /* the candidate that is chosen */
  ctx_tried *tried;         /* room for all, as they are read while others are added */
  _Atomic uint32_t tried_count;
  atomic_bool proved;                      /* it has run */
  atomic_bool settled;                     /* and begun to with the caller's tensors */
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

/* Notes that a candidate gives way. */
static void give_way(ctx_choice *x, const candidate *c, const ctx_error *reason) {
  if (x->tried_count == x->count) return; /* each is noted once */
  x->tried[x->tried_count] = (ctx_tried){c->name, *reason, c->runs};
  x->tried_count++;
}

static bool add_candidate(ctx_choice *x, uint32_t alternative, preference kind,
                          const ctx_device *device, ctx_error *error) {
  const candidate made = {.alternative = alternative, .kind = kind, .device = device};
  const ctx_range name = x->container.alternatives[alternative].name;
  candidate *grown = realloc(x->candidates, (x->count + 1) * sizeof *grown);
  if (grown == NULL) return ctx_out_of_memory(error);
  x->candidates = grown;
  grown += x->count++;
  *grown = made;
  snprintf(grown->name, sizeof grown->name, "%.*s%s%.80s", (int)name.count,
           x->container.text + name.first, kind == CPU ? "" : " on ",
           kind == CPU      ? ""
           : device != NULL ? device->name
                            : kind_names[kind]);
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
  if (s->settings.device != NULL)
    return kind == NNAPI && strcmp(device->name, s->options.device->name) == 0;
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
  if (!x->system->found) return kind == NNAPI_CPU || add_all(x, kind, NULL, error);
  for (i = 0; i < 2 * x->system->devices.count; i++) { /* the slowest last */
    const ctx_device *device = &x->system->devices.items[i % x->system->devices.count];
    const bool last = i >= x->system->devices.count;
    if ((strcmp(device->name, CTX_REFERENCE_DEVICE) == 0) == last &&
        is_meant(x->system, kind, device))
      TRY(add_all(x, kind, device, error));
  }
  return true;
}

static bool find_candidates(ctx_choice *x, ctx_error *error) {
  const char *names = x->system->settings.prefer;
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

/* Finds each tensor among those of the first alternative: that of its name, type and sizes. */
static bool bind(const ctx_choice *x, candidate *a, ctx_error *error) {
  const ctx_container *c = &a->container, *first = &x->container;
  uint32_t i;
  free(a->tensors);
  a->tensors = calloc((size_t)ctx_tensor_count(c) + 1, sizeof *a->tensors);
  if (a->tensors == NULL) return ctx_out_of_memory(error);
  for (i = 0; i < ctx_tensor_count(c); i++) {
    const ctx_crossing *own = ctx_tensor_at(c, i);
    if (!ctx_find_tensor(first, i >= c->chosen->inputs.count, c->text + own->name.first,
                         own->name.count, &a->tensors[i]) ||
        !ctx_same_tensor(first, ctx_tensor_at(first, a->tensors[i]), c, own))
      return ctx_fail(error, "it has other tensors or sizes");
  }
  return c->chosen->outputs.count == first->chosen->outputs.count ||
         ctx_fail(error, "it has other outputs");
}

/* Runs an engine on the tensors of the container's first alternative. */
static bool run_candidate(candidate *c, void *const *tensors, ctx_error *error) {
  enum { FEW = 32 };
  const uint32_t count = ctx_tensor_count(&c->container);
  void *few[FEW], **own = count > FEW ? calloc(count, sizeof *own) : few;
  uint32_t i;
  bool ran;
  if (own == NULL) return ctx_out_of_memory(error);
  for (i = 0; i < count; i++) own[i] = tensors[c->tensors[i]];
  ran = c->engine->run(c->engine, own, error);
  if (ran) atomic_fetch_add(&c->runs, 1);
  if (own != few) free(own);
  return ran;
}

/* What may not come back: the opening of a candidate, its first run on copies of the tensors, and
 * its release. */
typedef struct trial {
  const ctx_choice *choice;
  candidate *candidate;
  ctx_place place;
  ctx_container container;
  ctx_weights *weights;
  ctx_engine *engine;
  void **tensors; /* the container's first inputs, then outputs; NULL: it is no run */
  ctx_error error;
  bool succeeded;
} trial;

static void free_trial(void *given) {
  trial *t = given;
  uint32_t i;
  for (i = 0; t->tensors != NULL && i < ctx_tensor_count(&t->choice->container); i++)
    free(t->tensors[i]);
  free(t->tensors);
  free(t);
}

static void open_it(void *given) {
  trial *t = given;
  t->succeeded = ctx_engine_open(&t->place, &t->container, t->weights, &t->engine, &t->error);
}

static void run_it(void *given) {
  trial *t = given;
  t->succeeded = run_candidate(t->candidate, t->tensors, &t->error);
}

static void release_it(void *given) {
  trial *t = given;
  ctx_engine_free(t->engine);
  t->succeeded = true;
}

static trial *make_trial(ctx_choice *x, candidate *c, ctx_error *error) {
  static const int accelerators[KINDS] = {
      [LITERT_NPU] = CTX_LITERT_NPU, [LITERT_GPU] = CTX_LITERT_GPU, [LITERT_CPU] = CTX_LITERT_CPU};
  trial *t = calloc(1, sizeof *t);
  if (t == NULL) return (void)ctx_out_of_memory(error), NULL;
  t->choice = x;
  t->candidate = c;
  t->place.nnapi = x->system->found ? &x->system->nnapi : NULL;
  t->place.options = x->system->options;
  t->place.options.device = c->device;
  t->place.options.fallback = NULL;
  t->place.options.ask = true;
  t->place.accelerator = accelerators[c->kind];
  t->place.open_onnx = x->system->open_onnx;
  t->container = c->container;
  t->weights = x->weights;
  t->engine = c->engine;
  return t;
}

/* A note about the device of a candidate with this model, by this cluster of it: what ends or hangs
 * a start does so once, whatever alternative of whatever cluster it was tried with. */
static ctx_note note_of(const ctx_choice *x, const candidate *c) {
  const ctx_header *h = x->container.header;
  const bool in_file = h->weights_file.count > 0; /* whose name has the digest of all weights */
  const void *model =
      in_file ? (const void *)(x->container.text + h->weights_file.first) : (const void *)h->sha256;
  char tried[256] = "choice", kind = 'c';
  if (x->system->settings.cache_dir == NULL) return (ctx_note){0};
  if (c != NULL && c->device != NULL) {
    kind = 'n';
    snprintf(tried, sizeof tried, "%.120s %.120s", c->device->name, c->device->version);
  } else if (c != NULL) {
    kind = 'l';
    snprintf(tried, sizeof tried, "%s", kind_names[c->kind]);
  }
  return ctx_note_of(x->system->settings.cache_dir, model,
                     in_file ? h->weights_file.count : sizeof h->sha256, kind, tried, h->sha256,
                     sizeof h->sha256);
}

/* Fails if a start has ended in the candidate's device; for a CPU of NNAPI's, in any of NNAPI's
 * devices: it is not worth that a library ends a start once more. */
static bool is_free(const ctx_choice *x, const candidate *c, ctx_error *error) {
  const ctx_note note = note_of(x, c);
  return c->kind == CPU || ctx_note_is_free(&note, c->kind == NNAPI_CPU, error);
}

/* Begins it: the CPU provider's is done at once, others have a deadline and a note. */
static bool begin(ctx_choice *x, void (*work)(void *), trial *t, attempt *out, ctx_error *error) {
  ctx_note note;
  out->trial = t;
  out->call = NULL;
  if (t->candidate->kind == CPU) return work(t), true;
  note = note_of(x, t->candidate);
  ctx_note_begin(&note, t->candidate->name);
  out->call = ctx_begin_call(&note, x->system->settings.trial_timeout, work, free_trial, t, error);
  if (out->call != NULL) return true;
  x->stuck = true;
  out->trial = NULL;
  return false;
}

/* Waits for it. A trial that does not come back is no longer the caller's. */
static bool end(ctx_choice *x, attempt *a, const char *doing, ctx_error *error) {
  if (a->call != NULL && !ctx_end_call(a->call, doing, error)) {
    x->stuck = true;
    a->trial = NULL;
    return false;
  }
  if (!a->trial->succeeded) *error = a->trial->error;
  return a->trial->succeeded;
}

/* Does it; *out is NULL if it does not come back. */
static bool carry_out(ctx_choice *x, void (*work)(void *), trial **out, const char *doing,
                      ctx_error *error) {
  attempt a;
  const bool succeeded = begin(x, work, *out, &a, error) && end(x, &a, doing, error);
  *out = a.trial;
  return succeeded;
}

static bool may_run(const ctx_choice *x, const candidate *c, ctx_error *error) {
  const uint32_t level = ctx_needed(&x->container, c->alternative);
  if (c->kind != NNAPI && c->kind != NNAPI_CPU) return true;
  if (c->device == NULL) return ctx_fail(error, "%.400s", x->system->missing.text);
  return level <= (uint32_t)c->device->feature_level ||
         ctx_fail(error, "it needs feature level %u, the device has %d", level,
                  c->device->feature_level);
}

/* False. */
static bool drop_data(candidate *c) {
  free(c->data);
  c->data = NULL;
  return false;
}

static bool begin_to_open(ctx_choice *x, candidate *c, ctx_error *error) {
  trial *t;
  TRY(may_run(x, c, error));
  TRY(ctx_unpack(&x->container, c->alternative, &c->data, &c->container, error));
  t = bind(x, c, error) && is_free(x, c, error) ? make_trial(x, c, error) : NULL;
  if (t == NULL) return drop_data(c);
  return begin(x, open_it, t, &x->opening, error);
}

static bool end_opening(ctx_choice *x, candidate *c, ctx_error *error) {
  const bool opened = end(x, &x->opening, "compile", error);
  trial *t = x->opening.trial;
  x->opening.trial = NULL;
  if (t == NULL) return false; /* what hangs may still read it */
  c->engine = t->engine;
  free_trial(t);
  return opened || drop_data(c);
}

/* Begins to open the first candidate from `index` on that can be tried. */
static bool begin_from(ctx_choice *x, uint32_t index, ctx_error *error) {
  for (x->next = index; x->next < x->count; x->next++) {
    candidate *c = &x->candidates[x->next];
    if (c->engine != NULL || begin_to_open(x, c, error)) return true;
    give_way(x, c, error);
  }
  return false;
}

/* Chooses the first candidate that opens, from the one on that is being opened. */
static bool choose(ctx_choice *x, ctx_error *error) {
  while (x->next < x->count) {
    candidate *c = &x->candidates[x->next];
    if (c->engine != NULL || end_opening(x, c, error)) {
      atomic_store(&x->current, x->next);
      atomic_store(&x->proved, c->kind == CPU);
      atomic_store(&x->settled, c->kind == CPU);
      return true;
    }
    give_way(x, c, error);
    (void)begin_from(x, x->next + 1, error);
  }
  return false;
}

static bool choose_from(ctx_choice *x, uint32_t index, ctx_error *error) {
  return begin_from(x, index, error) && choose(x, error);
}

static void note_choice(const ctx_choice *x) {
  const ctx_note note = note_of(x, NULL);
  ctx_note_write(&note, "chosen", ctx_choice_name(x));
}

/* The first alternative alone. */
static bool open_alone(ctx_choice *x, ctx_error *error) {
  const ctx_place place = {.nnapi = &x->system->nnapi, .options = x->system->options};
  candidate *c;
  if (!x->system->found) return *error = x->system->missing, false;
  if (x->container.chosen->kind != CTX_KIND_NNAPI)
    return ctx_fail(error, "the context has no NNAPI program first; prepare the model again");
  TRY(add_candidate(x, 0, NNAPI, place.options.device, error));
  c = &x->candidates[0];
  c->container = x->container;
  x->tried = calloc(1, sizeof *x->tried);
  if (x->tried == NULL) return ctx_out_of_memory(error);
  return ctx_engine_open(&place, &x->container, x->weights, &c->engine, error);
}

bool ctx_choice_begin(const ctx_system *system, bool alone, const ctx_container *container,
                      ctx_weights *weights, ctx_choice **out, ctx_error *error) {
  ctx_choice *x = calloc(1, sizeof *x);
  *out = x;
  if (x == NULL) return ctx_out_of_memory(error);
  x->system = system;
  x->alone = alone || !ctx_has_choice(container);
  x->container = *container;
  x->weights = weights;
  pthread_mutex_init(&x->lock, NULL);
  atomic_init(&x->proved, x->alone);
  atomic_init(&x->settled, x->alone);
  if (x->alone) return open_alone(x, error);
  if (!find_candidates(x, error)) return false;
  (void)begin_from(x, 0, error);
  return true;
}

bool ctx_choice_end(ctx_choice *x, ctx_error *error) {
  if (x->alone) return true;
  if (choose(x, error)) {
    if (x->candidates[x->current].kind == CPU) TRY(ctx_weights_are_right(x->weights, error));
    note_choice(x);
    return true;
  }
  if (x->count > 0)
    ctx_fail(error,
             "no alternative runs here; prepare the model with others (--alternatives), or "
             "change the options runtime, device or prefer");
  else
    ctx_fail(error, "no alternative of it is preferred here; change the option prefer");
  if (!ctx_weights_are_right(x->weights, error))
    x->tried_count = 0; /* what they said means nothing */
  return false;
}

bool ctx_choice_make(const ctx_system *system, bool alone, const ctx_container *container,
                     ctx_weights *weights, ctx_choice **out, ctx_error *error) {
  return ctx_choice_begin(system, alone, container, weights, out, error) &&
         ctx_choice_end(*out, error);
}

/* Releases an engine; what hangs in that may still read all of the choice, which is stuck then. */
static void free_engine(ctx_choice *x, candidate *c) {
  ctx_error ignored;
  trial *t = c->engine != NULL ? make_trial(x, c, &ignored) : NULL;
  if (t == NULL) return;
  c->engine = NULL;
  (void)carry_out(x, release_it, &t, "end", &ignored);
  if (t != NULL) free_trial(t);
}

bool ctx_choice_free(ctx_choice *x) {
  ctx_error ignored;
  uint32_t i;
  if (x == NULL) return true;
  if (x->opening.trial != NULL) (void)end_opening(x, &x->candidates[x->next], &ignored);
  if (x->alone && x->count > 0) ctx_engine_free(x->candidates[0].engine);
  for (i = 0; !x->alone && !x->stuck && i < x->count; i++) free_engine(x, &x->candidates[i]);
  if (x->stuck) return false; /* what hangs may still read all of it */
  for (i = 0; i < x->count; i++) {
    free(x->candidates[i].tensors);
    free(x->candidates[i].data);
  }
  free(x->candidates);
  free(x->tried);
  pthread_mutex_destroy(&x->lock);
  free(x);
  return true;
}

/* Copies of the inputs, and memory for the outputs: a run that is left must not have the caller's. */
static bool copy_tensors(trial *t, void *const *tensors, ctx_error *error) {
  const ctx_container *c = &t->choice->container;
  uint32_t i;
  t->tensors = calloc((size_t)ctx_tensor_count(c) + 1, sizeof *t->tensors);
  if (t->tensors == NULL) return ctx_out_of_memory(error);
  for (i = 0; i < ctx_tensor_count(c); i++) {
    const size_t size = ctx_tensor_bytes(c, ctx_tensor_at(c, i));
    t->tensors[i] = ctx_aligned(size);
    if (t->tensors[i] == NULL) return ctx_out_of_memory(error);
    if (i < c->chosen->inputs.count) memcpy(t->tensors[i], tensors[i], size);
  }
  return true;
}

/* The first run of what is chosen. */
static bool prove(ctx_choice *x, void *const *tensors, ctx_error *error) {
  const ctx_container *c = &x->container;
  trial *t = make_trial(x, &x->candidates[x->current], error);
  uint32_t i;
  bool ran;
  if (t == NULL) return false;
  if (!copy_tensors(t, tensors, error)) return free_trial(t), false;
  ran = carry_out(x, run_it, &t, "run", error);
  if (t == NULL) return false;
  for (i = c->chosen->inputs.count; ran && i < ctx_tensor_count(c); i++)
    memcpy(tensors[i], t->tensors[i], ctx_tensor_bytes(c, ctx_tensor_at(c, i)));
  free_trial(t);
  return ran;
}

/* Runs it, and the next ones in its place, until one runs. If none does, the inputs are to blame. */
static bool run_some(ctx_choice *x, void *const *tensors, ctx_error *error) {
  const uint32_t first = x->current, tried = x->tried_count;
  const bool proved = atomic_load(&x->proved);
  ctx_error reason;
  for (;;) {
    candidate *c = &x->candidates[x->current];
    const bool ran =
        atomic_load(&x->proved) ? run_candidate(c, tensors, &reason) : prove(x, tensors, &reason);
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

/* Runs what has run. The first time is noted: a driver is given other tensors than in the trial. */
static bool run_proved(ctx_choice *x, void *const *tensors, ctx_error *error) {
  candidate *c = &x->candidates[x->current];
  ctx_note note;
  bool ran;
  if (atomic_load(&x->settled) || atomic_exchange(&x->settled, true))
    return run_candidate(c, tensors, error);
  note = note_of(x, c);
  ctx_note_begin(&note, c->name);
  ran = run_candidate(c, tensors, error);
  ctx_note_end(&note);
  return ran;
}

static bool run(ctx_choice *x, void *const *tensors, ctx_error *error) {
  bool ran;
  if (atomic_load(&x->proved)) {
    if (run_proved(x, tensors, error)) return true;
    if (!x->system->settings.fallback) return false;
  }
  pthread_mutex_lock(&x->lock);
  ran = run_some(x, tensors, error);
  pthread_mutex_unlock(&x->lock);
  return ran;
}

bool ctx_choice_run(ctx_choice *x, void *const *tensors, ctx_error *error) {
  uint64_t begin, time, least;
  if (x->alone) return x->candidates[0].engine->run(x->candidates[0].engine, tensors, error);
  if (!x->system->options.measure) return run(x, tensors, error);
  begin = ctx_now();
  TRY(run(x, tensors, error));
  time = ctx_now() - begin;
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
  if (x->alone) return record;
  record.device_runs = c->runs;
  record.other_runs = 0;
  for (i = 0; i < x->count; i++)
    if (i != x->current) record.other_runs += x->candidates[i].runs;
  record.total_time = x->total_time;
  record.least_time = x->least_time;
  return record;
}

bool ctx_choice_is_alone(const ctx_choice *x) { return x->alone; }

const char *ctx_choice_name(const ctx_choice *x) {
  const candidate *c = &x->candidates[x->current];
  return x->alone ? ctx_program_device(c->engine->program)->name : c->name;
}

/* The device of a program alone is tried once it was left for the fallback. */
static void note_left(ctx_choice *x) {
  const char *why = ctx_program_failure(x->candidates[0].engine->program);
  if (why[0] == '\0') return;
  pthread_mutex_lock(&x->lock);
  if (x->tried_count == 0) {
    x->tried->name = x->system->options.device->name;
    ctx_fail(&x->tried->reason, "%s", why);
    x->tried_count = 1;
  }
  pthread_mutex_unlock(&x->lock);
}

const ctx_tried *ctx_choice_tried(ctx_choice *x, uint32_t *count) {
  if (x->alone && x->tried_count == 0) note_left(x);
  *count = x->tried_count;
  return x->tried;
}

uint32_t ctx_choice_tell(ctx_choice *x, const char *node, uint32_t told, ctx_error *said) {
  uint32_t count;
  const ctx_tried *tried = ctx_choice_tried(x, &count);
  /* another thread that changes it tells what came of that */
  if (count == told || pthread_mutex_trylock(&x->lock) != 0) return told;
  count = x->tried_count;
  said->text[0] = '\0';
  if (count > 0 && x->alone)
    ctx_fail(said, "%.100s runs on %.60s from now on: %.300s", node, ctx_choice_name(x),
             tried->reason.text);
  else if (count > 0)
    ctx_fail(said, "%.100s runs as %.100s, as %.100s gave way: %.200s", node, ctx_choice_name(x),
             tried[count - 1].name, tried[count - 1].reason.text);
  else if (!x->alone)
    ctx_fail(said, "%.100s runs as %.160s", node, ctx_choice_name(x));
  pthread_mutex_unlock(&x->lock);
  return count;
}

ctx_container ctx_choice_container(const ctx_choice *x) {
  return x->candidates[x->current].container;
}
