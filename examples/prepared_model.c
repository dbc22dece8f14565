/* Runs a prepared model on NNAPI in a C program with ONNX Runtime, without Python:
 *
 *     cc prepared_model.c -lonnxruntime -o prepared_model
 *     ./prepared_model libonnxruntime_providers_nnapi_context.so digits_ctx.onnx [LIBRARY DEVICE]
 *
 * reads the digit that is on standard input, 64 floats, with models/digits.onnx as
 * `ep-nnapi prepare --format context` compiled it. The plugin is a path, or the bare name of a library
 * beside ONNX Runtime's, as in an APK. LIBRARY: a libneuralnetworks.so (default: the
 * system's, or the one beside the plugin); DEVICE: one of its devices. */
#define _XOPEN_SOURCE 700 /* realpath */
#include <onnxruntime_c_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const OrtApi *ort;

/* Ends the program with a status's message. */
static void check(OrtStatus *status) {
  if (status == NULL) return;
  fprintf(stderr, "prepared_model: %s\n", ort->GetErrorMessage(status));
  ort->ReleaseStatus(status);
  exit(1);
}

/* The first device of the plugin; a session option may name another. */
static const OrtEpDevice *plugin_device(OrtEnv *env) {
  const OrtEpDevice *const *devices;
  size_t count, i;
  check(ort->GetEpDevices(env, &devices, &count));
  for (i = 0; i < count; i++)
    if (strcmp(ort->EpDevice_EpName(devices[i]), "NnapiContextExecutionProvider") == 0)
      return devices[i];
  fprintf(stderr, "prepared_model: the plugin has no device\n");
  exit(1);
}

/* ONNX Runtime looks for every path that is relative beside its own library, not in this folder. */
static void register_plugin(OrtEnv *env, const char *path) {
  char *here = realpath(path, NULL);
  check(ort->RegisterExecutionProviderLibrary(env, "nnapi", here != NULL ? here : path));
  free(here);
}

static OrtSession *open_session(OrtEnv *env, const char *model, int count, char **words) {
  const char *keys[] = {"runtime", "device"};
  const OrtEpDevice *device = plugin_device(env);
  OrtSessionOptions *options;
  OrtSession *session;
  check(ort->CreateSessionOptions(&options));
  check(ort->SessionOptionsAppendExecutionProvider_V2(options, env, &device, 1, keys,
                                                      (const char *const *)words, (size_t)count));
  check(ort->CreateSession(env, model, options, &session));
  ort->ReleaseSessionOptions(options);
  return session;
}

static void recognise(OrtSession *session, float *image) {
  static const int64_t shape[] = {1, 1, 8, 8};
  const char *input = "image", *output = "scores";
  OrtMemoryInfo *memory;
  OrtValue *tensor = NULL, *result = NULL;
  void *data;
  int i, best = 0;
  check(ort->CreateCpuMemoryInfo(OrtArenaAllocator, OrtMemTypeDefault, &memory));
  check(ort->CreateTensorWithDataAsOrtValue(memory, image, 64 * sizeof *image, shape, 4,
                                            ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &tensor));
  check(ort->Run(session, NULL, &input, (const OrtValue *const *)&tensor, 1, &output, 1, &result));
  check(ort->GetTensorMutableData(result, &data));
  for (i = 0; i < 10; i++) {
    const float score = ((const float *)data)[i];
    if (score > ((const float *)data)[best]) best = i;
    printf("%a\n", (double)score);
  }
  printf("this is a %d\n", best);
  ort->ReleaseValue(result);
  ort->ReleaseValue(tensor);
  ort->ReleaseMemoryInfo(memory);
}

int main(int count, char **words) {
  float image[64];
  OrtEnv *env;
  OrtSession *session;
  if (count < 3 || count > 5 || fread(image, sizeof *image, 64, stdin) != 64) {
    fprintf(stderr, "usage: prepared_model PLUGIN MODEL_ctx.onnx [LIBRARY DEVICE] < image\n");
    return 2;
  }
  ort = OrtGetApiBase()->GetApi(25);
  if (ort == NULL) return fprintf(stderr, "prepared_model: onnxruntime is older than 1.25\n"), 1;
  check(ort->CreateEnv(ORT_LOGGING_LEVEL_WARNING, "prepared_model", &env));
  register_plugin(env, words[1]);
  session = open_session(env, words[2], count - 3, words + 3);
  recognise(session, image);
  ort->ReleaseSession(session);
  ort->ReleaseEnv(env);
  return 0;
}
