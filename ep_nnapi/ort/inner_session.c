/* Sessions on the CPU provider for devices that compute NNAPI models in ONNX Runtime itself.
 *
 * They belong to the ONNX Runtime that has loaded the plugin. Fused nodes run in them without Python:
 * see direct_run.c. run_options.c stands in front of this file.
 */
#include <time.h>

/* Python's time.perf_counter_ns(). */
static int64_t now_ns(void) {
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void close_inner_session(InnerSession *session) {
  if (session == NULL) return;
  if (session->session != NULL) api->ReleaseSession(session->session);
  if (session->memory != NULL) api->ReleaseMemoryInfo(session->memory);
  if (session->env != NULL) api->ReleaseEnv(session->env);
  free(session);
}

static OrtStatus *tensor_over(const InnerSession *session, const Tensor *tensor, OrtValue **value) {
  return api->CreateTensorWithDataAsOrtValue(session->memory, (void *)tensor->data, tensor->bytes,
                                             tensor->dims, tensor->rank, tensor->dtype, value);
}

/* Creates values over the tensors; those without data stay NULL. Returns the first error. */
static OrtStatus *tensors_over(const InnerSession *session, const Tensor *tensors, size_t count,
                               OrtValue **values) {
  size_t i;
  memset(values, 0, count * sizeof *values);
  for (i = 0; i < count; i++)
    if (tensors[i].data != NULL) TRY(tensor_over(session, &tensors[i], &values[i]));
  return NULL;
}

static void release_values(OrtValue **values, size_t count) {
  size_t i;
  for (i = 0; i < count; i++)
    if (values[i] != NULL) api->ReleaseValue(values[i]);
}

static OrtStatus *configure(const InnerSession *session, const SessionSetting *settings,
                            size_t count, OrtSessionOptions *options) {
  enum { FATAL = 4 };
  size_t i;
  TRY(api->SetSessionLogSeverityLevel(options, FATAL));
  TRY(api->SetIntraOpNumThreads(options, session->threads));
  for (i = 0; i < count; i++)
    TRY(api->AddSessionConfigEntry(options, settings[i].key, settings[i].value));
  return NULL;
}

/* `values` has room for the inputs. */
static OrtStatus *set_inputs(const InnerSession *session, const InnerModel *model,
                             OrtValueInfo **values, OrtGraph *graph) {
  OrtTypeInfo *type;
  OrtStatus *status;
  size_t i;
  for (i = 0; i < model->input_count; i++) {
    TRY(api->SessionGetInputTypeInfo(session->session, i, &type));
    status = api->GetModelEditorApi()->CreateValueInfo(model->inputs[i], type, &values[i]);
    api->ReleaseTypeInfo(type);
    if (status != NULL) return status;
  }
  return api->GetModelEditorApi()->SetGraphInputs(graph, values, model->input_count);
}

/* Values that a graph does not take over are released. */
static OrtStatus *fill_graph(const InnerSession *session, const InnerModel *model,
                             OrtGraph *graph) {
  OrtValueInfo **inputs = calloc(model->input_count + 1, sizeof(OrtValueInfo *));
  OrtStatus *status;
  OrtValue *value;
  size_t i;
  if (inputs == NULL) return create_status("ep_nnapi: out of memory");
  status = set_inputs(session, model, inputs, graph);
  for (i = 0; status != NULL && i < model->input_count; i++)
    if (inputs[i] != NULL) api->ReleaseValueInfo(inputs[i]);
  free(inputs);
  for (i = 0; status == NULL && i < model->weights->count; i++) {
    status = tensor_over(session, &model->weights->tensors[i], &value);
    if (status != NULL) break;
    status = api->GetModelEditorApi()->AddInitializerToGraph(graph, model->weights->names[i],
                                                             value, 1);
    if (status != NULL) api->ReleaseValue(value);
  }
  return status;
}

/* Replaces the inputs that stand for weights by the weights themselves, where they are. */
static OrtStatus *set_weights(const InnerSession *session, const InnerModel *model,
                              OrtModel *changes) {
  OrtGraph *graph;
  OrtStatus *status;
  TRY(api->GetModelEditorApi()->CreateGraph(&graph));
  status = fill_graph(session, model, graph);
  if (status == NULL) status = api->GetModelEditorApi()->AddGraphToModel(changes, graph);
  if (status != NULL) {
    api->ReleaseGraph(graph);
    return status;
  }
  return api->GetModelEditorApi()->ApplyModelToModelEditorSession(session->session, changes);
}

static OrtStatus *load_session(InnerSession *session, const InnerModel *model,
                               const OrtSessionOptions *options) {
  const OrtModelEditorApi *editor = api->GetModelEditorApi();
  OrtModel *changes;
  OrtStatus *status;
  TRY(editor->CreateModelEditorSessionFromArray(session->env, model->content, model->bytes, options,
                                                &session->session));
  TRY(editor->CreateModel(NULL, NULL, 0, &changes));
  status = set_weights(session, model, changes);
  api->ReleaseModel(changes);
  if (status != NULL) return status;
  return editor->FinalizeModelEditorSession(session->session, options, NULL);
}

static OrtStatus *open_session(InnerSession *session, const InnerModel *model,
                               const SessionSetting *settings, size_t count) {
  enum { WARNING = 2, ARENA = 1, DEFAULT = 0 };
  OrtSessionOptions *options = NULL;
  OrtStatus *status;
  TRY(api->CreateEnv(WARNING, "ep_nnapi", &session->env)); /* the process's own, once more */
  TRY(api->CreateCpuMemoryInfo(ARENA, DEFAULT, &session->memory));
  TRY(api->CreateSessionOptions(&options));
  status = configure(session, settings, count, options);
  if (status == NULL) status = load_session(session, model, options);
  api->ReleaseSessionOptions(options);
  return status;
}

OrtStatus *open_inner_session(const InnerModel *model, int threads, const SessionSetting *settings,
                              size_t count, InnerSession **opened) {
  InnerSession *session = calloc(1, sizeof(InnerSession));
  OrtStatus *status;
  *opened = NULL;
  if (session == NULL) return create_status("ep_nnapi: out of memory");
  session->threads = threads;
  status = open_session(session, model, settings, count);
  if (status == NULL) *opened = session;
  else close_inner_session(session);
  return status;
}

OrtStatus *run_inner_session(const InnerSession *session, const NamedTensors *inputs,
                             const NamedTensors *outputs, OrtRunOptions *options,
                             OrtValue **results) {
  OrtValue **given = calloc(inputs->count + 1, sizeof(OrtValue *));
  OrtStatus *status;
  if (given == NULL) return create_status("ep_nnapi: out of memory");
  status = tensors_over(session, inputs->tensors, inputs->count, given);
  if (status == NULL) status = tensors_over(session, outputs->tensors, outputs->count, results);
  if (status == NULL)
    status = api->Run(session->session, options, inputs->names, (const OrtValue *const *)given,
                      inputs->count, outputs->names, outputs->count, results);
  release_values(given, inputs->count);
  free(given);
  return status;
}

OrtStatus *read_result(const OrtValue *value, Tensor *tensor) { return read_tensor(value, tensor); }
OrtStatus *new_run_options(OrtRunOptions **options) { return api->CreateRunOptions(options); }
OrtStatus *terminate_run(OrtRunOptions *options) { return api->RunOptionsSetTerminate(options); }
void release_run_options(OrtRunOptions *options) { api->ReleaseRunOptions(options); }
