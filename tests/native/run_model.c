/* Runs prepared models with ONNX Runtime's C API and the plugin:
 *
 *     run_model PLUGIN LIBRARY DEVICE [MODEL_ctx.onnx INPUTS OUTPUTS]...
 *
 * INPUTS has the contents of the model's inputs, one after the other, and OUTPUTS gets those of its
 * outputs. */
#include <onnxruntime_c_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 64 };

static const OrtApi *ort;

static void fail(const char *sentence) {
  fprintf(stderr, "run_model: %s\n", sentence);
  exit(1);
}

static void check(OrtStatus *status) {
  if (status != NULL) fail(ort->GetErrorMessage(status));
}

static const OrtEpDevice *plugin_device(OrtEnv *env) {
  const OrtEpDevice *const *devices;
  size_t count, i;
  check(ort->GetEpDevices(env, &devices, &count));
  for (i = 0; i < count; i++)
    if (strcmp(ort->EpDevice_EpName(devices[i]), "NnapiContextExecutionProvider") == 0)
      return devices[i];
  fail("the plugin has no device");
  return NULL;
}

static OrtSession *open_session(OrtEnv *env, const char *library, const char *name,
                                const char *model) {
  const char *keys[] = {"runtime", "device", "receipt"};
  const char *values[] = {library, name, getenv("RECEIPT")};
  const OrtEpDevice *device = plugin_device(env);
  OrtSessionOptions *options;
  OrtSession *session;
  check(ort->CreateSessionOptions(&options));
  check(ort->SetSessionLogSeverityLevel(options, 4));
  check(ort->SessionOptionsAppendExecutionProvider_V2(options, env, &device, 1, keys, values,
                                                      values[2] != NULL ? 3 : 2));
  check(ort->CreateSession(env, model, options, &session));
  ort->ReleaseSessionOptions(options);
  return session;
}

/* An input's tensor, with its part of the file as contents. */
static OrtValue *read_input(const OrtSession *session, size_t index, OrtAllocator *allocator,
                            FILE *file) {
  const OrtTensorTypeAndShapeInfo *tensor;
  OrtTypeInfo *type;
  OrtValue *value;
  int64_t shape[MOST];
  size_t rank, size;
  ONNXTensorElementDataType element;
  void *data;
  check(ort->SessionGetInputTypeInfo(session, index, &type));
  check(ort->CastTypeInfoToTensorInfo(type, &tensor));
  check(ort->GetTensorElementType(tensor, &element));
  check(ort->GetDimensionsCount(tensor, &rank));
  if (rank > MOST) fail("an input has too many dimensions");
  check(ort->GetDimensions(tensor, shape, rank));
  ort->ReleaseTypeInfo(type);
  check(ort->CreateTensorAsOrtValue(allocator, shape, rank, element, &value));
  check(ort->GetTensorMutableData(value, &data));
  check(ort->GetTensorSizeInBytes(value, &size));
  if (fread(data, 1, size, file) != size) fail("the file of inputs is too short");
  return value;
}

static void write_output(OrtValue *value, FILE *file) {
  size_t size;
  void *data;
  check(ort->GetTensorMutableData(value, &data));
  check(ort->GetTensorSizeInBytes(value, &size));
  if (fwrite(data, 1, size, file) != size) fail("the file of outputs cannot be written");
  ort->ReleaseValue(value);
}

static void run_session(OrtSession *session, FILE *from, FILE *to) {
  char *input_names[MOST], *output_names[MOST];
  OrtValue *inputs[MOST], *outputs[MOST] = {NULL};
  OrtAllocator *allocator;
  size_t ins, outs, i;
  check(ort->GetAllocatorWithDefaultOptions(&allocator));
  check(ort->SessionGetInputCount(session, &ins));
  check(ort->SessionGetOutputCount(session, &outs));
  if (ins > MOST || outs > MOST) fail("the model has too many inputs or outputs");
  for (i = 0; i < ins; i++) {
    check(ort->SessionGetInputName(session, i, allocator, &input_names[i]));
    inputs[i] = read_input(session, i, allocator, from);
  }
  for (i = 0; i < outs; i++)
    check(ort->SessionGetOutputName(session, i, allocator, &output_names[i]));
  check(ort->Run(session, NULL, (const char *const *)input_names, (const OrtValue *const *)inputs,
                 ins, (const char *const *)output_names, outs, outputs));
  for (i = 0; i < outs; i++) {
    write_output(outputs[i], to);
    check(ort->AllocatorFree(allocator, output_names[i]));
  }
  for (i = 0; i < ins; i++) {
    ort->ReleaseValue(inputs[i]);
    check(ort->AllocatorFree(allocator, input_names[i]));
  }
}

static void run_files(OrtSession *session, const char *inputs, const char *outputs) {
  FILE *from = fopen(inputs, "rb"), *to = fopen(outputs, "wb");
  if (from == NULL || to == NULL) fail("a file of inputs or outputs cannot be opened");
  run_session(session, from, to);
  fclose(from);
  if (fclose(to) != 0) fail("a file of outputs cannot be written");
}

int main(int count, char **words) {
  OrtSession *session;
  OrtEnv *env;
  int i;
  ort = OrtGetApiBase()->GetApi(25);
  if (ort == NULL) return fprintf(stderr, "run_model: onnxruntime is older than 1.25\n"), 1;
  if (count < 4 || count % 3 != 1)
    fail("usage: run_model PLUGIN LIBRARY DEVICE [MODEL_ctx.onnx INPUTS OUTPUTS]...");
  check(ort->CreateEnv(ORT_LOGGING_LEVEL_WARNING, "run_model", &env));
  check(ort->RegisterExecutionProviderLibrary(env, "nnapi", words[1]));
  for (i = 4; i < count; i += 3) {
    session = open_session(env, words[2], words[3], words[i]);
    run_files(session, words[i + 1], words[i + 2]);
    ort->ReleaseSession(session);
  }
  ort->ReleaseEnv(env);
  return 0;
}
