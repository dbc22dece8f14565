/*
 * Reads a handwritten digit, 8 x 8 pixels from 0 to 16 on standard input, on the NNAPI provider.
 *
 *   digits PLUGIN_LIBRARY models/digits.onnx
 *
 * PLUGIN_LIBRARY is what ep_nnapi.get_library_path() returns. docs/hosts.md says how to build this.
 */
#include <onnxruntime_c_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIXELS = 64, DIGITS = 10 };

static const OrtApi *ort;

static void check(OrtStatus *status) {
    if (status == NULL) return;
    fprintf(stderr, "%s\n", ort->GetErrorMessage(status));
    ort->ReleaseStatus(status);
    exit(1);
}

/* Session options that have the provider first; ONNX Runtime appends the CPU provider. */
static OrtSessionOptions *on_nnapi(OrtEnv *env, const char *library) {
    static const char name[] = "NnapiPluginExecutionProvider";
    static const char *const keys[] = {"preference"}, *const values[] = {"sustained_speed"};
    const OrtEpDevice *const *devices = NULL, *chosen = NULL;
    size_t count = 0;
    OrtSessionOptions *options = NULL;
    check(ort->RegisterExecutionProviderLibrary(env, name, library));
    check(ort->GetEpDevices(env, &devices, &count));
    for (size_t i = 0; i < count; i++)
        if (strcmp(ort->EpDevice_EpName(devices[i]), name) == 0) chosen = devices[i];
    check(ort->CreateSessionOptions(&options));
    check(ort->SessionOptionsAppendExecutionProvider_V2(options, env, &chosen, 1, keys, values, 1));
    return options;
}

static void run(OrtSession *session, float pixels[PIXELS], float scores[DIGITS]) {
    static const int64_t shape[] = {1, 1, 8, 8}, classes[] = {1, DIGITS};
    static const char *const input_name = "image", *const output_name = "scores";
    OrtMemoryInfo *memory = NULL;
    OrtValue *image = NULL, *result = NULL;
    check(ort->CreateCpuMemoryInfo(OrtArenaAllocator, OrtMemTypeDefault, &memory));
    check(ort->CreateTensorWithDataAsOrtValue(memory, pixels, PIXELS * sizeof(float), shape, 4,
                                              ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &image));
    check(ort->CreateTensorWithDataAsOrtValue(memory, scores, DIGITS * sizeof(float), classes, 2,
                                              ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &result));
    check(ort->Run(session, NULL, &input_name, (const OrtValue *const *)&image, 1, &output_name, 1,
                   &result));
    ort->ReleaseValue(result);
    ort->ReleaseValue(image);
    ort->ReleaseMemoryInfo(memory);
}

int main(int count, char **arguments) {
    float pixels[PIXELS], scores[DIGITS];
    OrtEnv *env = NULL;
    OrtSession *session = NULL;
    int best = 0;
    if (count != 3) return fprintf(stderr, "usage: digits PLUGIN_LIBRARY MODEL < pixels\n"), 2;
    for (int i = 0; i < PIXELS; i++)
        if (scanf("%f", &pixels[i]) != 1) return fprintf(stderr, "64 pixels are needed\n"), 2;
    ort = OrtGetApiBase()->GetApi(ORT_API_VERSION);
    if (ort == NULL) return fprintf(stderr, "onnxruntime is too old\n"), 2;

    check(ort->CreateEnv(ORT_LOGGING_LEVEL_ERROR, "digits", &env));
    OrtSessionOptions *options = on_nnapi(env, arguments[1]);
    check(ort->CreateSession(env, arguments[2], options, &session));
    ort->ReleaseSessionOptions(options);
    run(session, pixels, scores);
    for (int i = 0; i < DIGITS; i++) {
        printf("%.9g\n", scores[i]);
        if (scores[i] > scores[best]) best = i;
    }
    printf("digit %d\n", best);

    ort->ReleaseSession(session);
    check(ort->UnregisterExecutionProviderLibrary(env, "NnapiPluginExecutionProvider"));
    ort->ReleaseEnv(env);
    return 0;
}
