/*
 * A host of ONNX Runtime that has nothing to do with Python.
 *
 *   host PLUGIN MODEL INPUT OUTPUT OUTPUT_NAME RANK DIM... MODE [COUNT]
 *
 * Reads the raw floats of the model's input `image` from the file INPUT and writes those of its
 * output to the file OUTPUT. MODE:
 *   once         one session, one run
 *   threads      8 threads with a session each, and 8 that share one; COUNT runs each
 *   sessions     COUNT sessions, one after the other
 *   again        COUNT times: register, session, run, unregister with the session alive, release
 *   exit         exit() on another thread, nothing released
 * Prints the growth of resident memory in KiB, from half of COUNT to its end, for `sessions`.
 */
#include <onnxruntime_c_api.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { THREADS = 8, MAX_RANK = 8 };

static const char NAME[] = "NnapiPluginExecutionProvider";
static const OrtApi *ort;
static OrtEnv *env;
static OrtMemoryInfo *memory;
static const char *plugin, *model, *input_name = "image", *output_name;
static float *pixels, *expected;
static size_t pixel_count, output_count;
static int64_t shape[MAX_RANK];
static size_t rank;
static long repeats = 1;

static void check(OrtStatus *status) {
    if (status == NULL) return;
    fprintf(stderr, "%s\n", ort->GetErrorMessage(status));
    _exit(1);
}

static void *read_file(const char *path, size_t *bytes) {
    FILE *file = fopen(path, "rb");
    if (file == NULL) _exit(3);
    fseek(file, 0, SEEK_END);
    *bytes = (size_t)ftell(file);
    rewind(file);
    void *data = malloc(*bytes);
    if (fread(data, 1, *bytes, file) != *bytes) _exit(3);
    fclose(file);
    return data;
}

static void enter(void) { check(ort->RegisterExecutionProviderLibrary(env, NAME, plugin)); }
static void leave(void) { check(ort->UnregisterExecutionProviderLibrary(env, NAME)); }

static OrtSession *open_session(void) {
    const OrtEpDevice *const *devices = NULL, *chosen = NULL;
    OrtSessionOptions *options = NULL;
    OrtSession *session = NULL;
    const char *key = "receipt", *receipt = getenv("RECEIPT");
    size_t count = 0;
    check(ort->GetEpDevices(env, &devices, &count));
    for (size_t i = 0; i < count; i++)
        if (strcmp(ort->EpDevice_EpName(devices[i]), NAME) == 0) chosen = devices[i];
    check(ort->CreateSessionOptions(&options));
    check(ort->SessionOptionsAppendExecutionProvider_V2(options, env, &chosen, 1, &key, &receipt,
                                                        receipt != NULL));
    check(ort->CreateSession(env, model, options, &session));
    ort->ReleaseSessionOptions(options);
    return session;
}

/* Runs once; a result that differs from the first one ends the process. */
static void run(OrtSession *session, const char *save) {
    OrtValue *image = NULL, *result = NULL;
    OrtTensorTypeAndShapeInfo *info = NULL;
    float *data = NULL;
    size_t count = 0;
    check(ort->CreateTensorWithDataAsOrtValue(memory, pixels, pixel_count * sizeof(float), shape,
                                              rank, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &image));
    check(ort->Run(session, NULL, &input_name, (const OrtValue *const *)&image, 1, &output_name, 1,
                   &result));
    check(ort->GetTensorTypeAndShape(result, &info));
    check(ort->GetTensorShapeElementCount(info, &count));
    check(ort->GetTensorMutableData(result, (void **)&data));
    if (save != NULL) {
        FILE *file = fopen(save, "wb");
        if (file == NULL || fwrite(data, sizeof(float), count, file) != count) _exit(3);
        fclose(file);
        expected = malloc(count * sizeof(float));
        memcpy(expected, data, count * sizeof(float));
        output_count = count;
    } else if (count != output_count || memcmp(data, expected, count * sizeof(float)) != 0) {
        fprintf(stderr, "a run had another result\n");
        _exit(4);
    }
    ort->ReleaseTensorTypeAndShapeInfo(info);
    ort->ReleaseValue(result);
    ort->ReleaseValue(image);
}

static void *own_session(void *unused) {
    OrtSession *session = open_session();
    for (long i = 0; i < repeats; i++) run(session, NULL);
    ort->ReleaseSession(session);
    return unused;
}

static void *shared_session(void *session) {
    for (long i = 0; i < repeats; i++) run(session, NULL);
    return NULL;
}

static void *leave_process(void *unused) {
    (void)unused;
    exit(0);
}

static void in_threads(OrtSession *shared) {
    pthread_t threads[2 * THREADS];
    for (int i = 0; i < THREADS; i++) {
        pthread_create(&threads[2 * i], NULL, own_session, NULL);
        pthread_create(&threads[2 * i + 1], NULL, shared_session, shared);
    }
    for (int i = 0; i < 2 * THREADS; i++) pthread_join(threads[i], NULL);
}

static long resident_kib(void) {
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == NULL || fscanf(file, "%*d %ld", &pages) != 1) _exit(3);
    fclose(file);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static void many_sessions(void) {
    long before = 0;
    for (long i = 0; i < repeats; i++) {
        if (i == repeats / 2) before = resident_kib();
        OrtSession *session = open_session();
        run(session, NULL);
        ort->ReleaseSession(session);
    }
    printf("%ld\n", resident_kib() - before);
}

static void register_again(void) {
    for (long i = 0; i < repeats; i++) {
        leave();
        enter();
        OrtSession *session = open_session();
        leave();
        run(session, NULL);
        ort->ReleaseSession(session);
        enter();
    }
}

int main(int count, char **arguments) {
    size_t bytes;
    plugin = arguments[1];
    model = arguments[2];
    pixels = read_file(arguments[3], &bytes);
    pixel_count = bytes / sizeof(float);
    output_name = arguments[5];
    rank = (size_t)atoi(arguments[6]);
    for (size_t i = 0; i < rank; i++) shape[i] = atol(arguments[7 + i]);
    const char *mode = arguments[7 + rank];
    if (count > (int)(8 + rank)) repeats = atol(arguments[8 + rank]);

    ort = OrtGetApiBase()->GetApi(ORT_API_VERSION);
    check(ort->CreateEnv(ORT_LOGGING_LEVEL_ERROR, "host", &env));
    check(ort->CreateCpuMemoryInfo(OrtArenaAllocator, OrtMemTypeDefault, &memory));
    enter();
    OrtSession *session = open_session();
    run(session, arguments[4]);
    if (strcmp(mode, "threads") == 0) in_threads(session);
    if (strcmp(mode, "sessions") == 0) many_sessions();
    if (strcmp(mode, "again") == 0) register_again();
    if (strcmp(mode, "exit") == 0) {
        pthread_t thread;
        pthread_create(&thread, NULL, leave_process, NULL);
        pthread_join(thread, NULL);
    }
    ort->ReleaseSession(session);
    leave();
    ort->ReleaseMemoryInfo(memory);
    ort->ReleaseEnv(env);
    free(pixels);
    free(expected);
    return 0;
}
