/* Workers: see agent.h. docs/agent.md has the payloads. */
#include "agent.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* A model, and its compilation. */
typedef struct {
  frame program; /* the container, which is kept */
  ctx_container container;
  ctx_weights weights;
  ctx_models models;
  ctx_compiled *compiled; /* NULL: not yet */
  agent_runs *runs;
} job;

typedef struct {
  const ctx_settings *settings;
  char *beside; /* the path of a file in the folder of the weights */
  bool loaded;
  ctx_nnapi nnapi;
  ctx_devices devices;
  job job;
} worker;

static const job no_job = {.weights = {.descriptor = -1}};

static void end_job(job *j) {
  agent_runs_free(j->runs);
  ctx_compiled_free(j->compiled);
  if (j->models.items != NULL) ctx_models_free(&j->models);
  ctx_weights_close(&j->weights);
  free(j->program.data);
  *j = no_job;
}

static bool load(worker *w, ctx_error *error) {
  if (w->loaded) return true;
  TRY(ctx_open_runtime(w->settings, &w->nnapi, error));
  TRY(ctx_list_devices(&w->nnapi, &w->devices, error));
  return w->loaded = true;
}

/* The level, the functions that are there by their numbers, and the devices. */
static bool tell_devices(worker *w, frame *reply, ctx_error *error) {
  const uint32_t level = (uint32_t)w->nnapi.feature_level;
  const uint8_t has[] = {
#define HAS(returns, name, exported, level, parameters) w->nnapi.name != NULL,
      NN_FUNCTIONS(HAS)
#undef HAS
  };
  const uint32_t head[] = {level, sizeof has, w->devices.count};
  uint32_t i;
  TRY(frame_add(reply, head, sizeof head, error) && frame_add(reply, has, sizeof has, error));
  for (i = 0; i < w->devices.count; i++) {
    const ctx_device *d = &w->devices.items[i];
    const uint32_t about[] = {(uint32_t)d->type, (uint32_t)d->feature_level,
                              (uint32_t)strlen(d->name), (uint32_t)strlen(d->version)};
    TRY(frame_add(reply, about, sizeof about, error) &&
        frame_add(reply, d->name, about[2], error) &&
        frame_add(reply, d->version, about[3], error));
  }
  return true;
}

/* The request's memory becomes the job's; without a model, it has none from then on. */
static bool take_model(worker *w, frame *request, frame *reply, ctx_error *error) {
  job *j = &w->job;
  const uint32_t level = (uint32_t)w->nnapi.feature_level, none = 0;
  end_job(j);
  if (request->header.length == 0) return frame_add(reply, &none, sizeof none, error);
  j->program = *request;
  request->data = NULL;
  request->capacity = 0;
  TRY(ctx_read_model(j->program.data, j->program.header.length, &j->container, error));
  if (j->container.chosen->feature_level > level)
    return ctx_fail(error, "the model needs feature level %u, the runtime offers %u",
                    j->container.chosen->feature_level, level);
  TRY(ctx_weights_open(&j->container, w->beside, &j->weights, error));
  TRY(ctx_models_build(&w->nnapi, &j->container, &j->weights, &j->models, error));
  TRY(ctx_weights_are_right(&j->weights, error));
  return frame_add(reply, &ctx_chosen_model(&j->container)->operations.count, sizeof(uint32_t),
                   error);
}

static bool has_model(const worker *w, ctx_error *error) {
  return w->job.models.items != NULL || ctx_fail(error, "the job has no model");
}

/* The device that is named by the rest of a payload. */
static bool find_device(const worker *w, frame_reader *reader, const ctx_device **out,
                        ctx_error *error) {
  const size_t length = (size_t)(reader->end - reader->at);
  uint32_t i;
  for (i = 0; i < w->devices.count; i++) {
    const char *name = w->devices.items[i].name;
    if (strlen(name) == length && memcmp(name, reader->at, length) == 0)
      return *out = &w->devices.items[i], true;
  }
  return ctx_fail(error, "there is no device %.*s", (int)(length < 200 ? length : 200),
                  length > 0 ? (const char *)reader->at : "");
}

/* One byte for each operation of the model: 1 if the device supports it. */
static bool tell_supported(worker *w, const frame *request, frame *reply, ctx_error *error) {
  frame_reader reader = frame_payload(request);
  const ctx_device *device = NULL;
  uint32_t count;
  bool *answers;
  TRY(has_model(w, error) && find_device(w, &reader, &device, error));
  count = ctx_chosen_model(&w->job.container)->operations.count;
  answers = frame_extend(reply, count);
  if (answers == NULL) return ctx_out_of_memory(error);
  memset(answers, true, count); /* below level 3, the runtime cannot be asked */
  return device->handle == NULL || NN_CALL(&w->nnapi, Model_getSupportedOperationsForDevices,
                                           w->job.models.items[0], &device->handle, 1, answers);
}

static bool compile(worker *w, const frame *request, frame *reply, ctx_error *error) {
  frame_reader reader = frame_payload(request);
  job *j = &w->job;
  ctx_options options = {0};
  uint32_t preference, priority;
  uint64_t begin, time;
  if (!frame_take_u64(&reader, &options.compilation_timeout) ||
      !frame_take_u32(&reader, &preference) || !frame_take_u32(&reader, &priority))
    return ctx_fail(error, "a compilation's request is cut");
  options.preference = (int32_t)preference;
  options.priority = (int32_t)priority;
  TRY(has_model(w, error) && find_device(w, &reader, &options.device, error));
  if (j->compiled != NULL) return ctx_fail(error, "the job is compiled already");
  begin = ctx_now();
  TRY(ctx_compile(&j->models, NULL, options.device, &options, &j->compiled, error));
  time = ctx_now() - begin;
  j->runs =
      agent_runs_make(&w->nnapi, &j->container, j->compiled, options.device->handle != NULL, error);
  return j->runs != NULL && frame_add(reply, &time, sizeof time, error);
}

static bool run(worker *w, const frame *request, frame *reply, ctx_error *error) {
  if (w->job.runs == NULL) return ctx_fail(error, "the job is not compiled");
  return agent_run(w->job.runs, request, reply, error);
}

/* The most memory that this process has had, in bytes. */
static bool tell_memory(frame *reply, ctx_error *error) {
  struct rusage usage;
  uint64_t bytes;
  getrusage(RUSAGE_SELF, &usage);
  bytes = (uint64_t)usage.ru_maxrss * 1024;
  return frame_add(reply, &bytes, sizeof bytes, error);
}

static bool serve(worker *w, frame *request, frame *reply, ctx_error *error) {
  reply->header.length = 0;
  TRY(load(w, error));
  switch (request->header.kind) {
    case FRAME_DEVICES: return tell_devices(w, reply, error);
    case FRAME_MODEL: return take_model(w, request, reply, error);
    case FRAME_SUPPORTED: return tell_supported(w, request, reply, error);
    case FRAME_COMPILE: return compile(w, request, reply, error);
    case FRAME_RUN: return run(w, request, reply, error);
    case FRAME_MEMORY: return tell_memory(reply, error);
    default:
      return ctx_fail(error, "a frame has kind %u, of which nothing is known here",
                      request->header.kind);
  }
}

int agent_work(int descriptor, const ctx_settings *settings, const char *folder) {
  static const char name[] = "/any";
  worker w = {.settings = settings, .job = no_job};
  frame request = {0}, reply = {0};
  ctx_error error;
  int status = 0;
  w.beside = malloc(strlen(folder) + sizeof name);
  if (w.beside == NULL) return 1;
  sprintf(w.beside, "%s%s", folder, name);
  while (status == 0 && frame_read(descriptor, &request, false, NULL, NULL, &error)) {
    const frame_header asked = request.header;
    const bool served = serve(&w, &request, &reply, &error);
    frame_answer(&reply, &asked, served ? NULL : &error);
    if (!frame_write(descriptor, &reply, NULL, NULL, &error)) status = 1;
  }
  end_job(&w.job);
  free(request.data);
  free(reply.data);
  free(w.beside);
  return status;
}
