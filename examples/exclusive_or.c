/*
 * A network of two layers that computes the exclusive or, built, compiled and run through NNAPI.
 *
 *   cc exclusive_or.c $(ep-nnapi lib --cflags --libs) -o exclusive_or
 *   ./exclusive_or
 */
#include <android/NeuralNetworks.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { CASES = 4, FEATURES = 2, HIDDEN = 2 };

/* Operands are known by the order in which they are added. */
enum { INPUT, WEIGHTS_1, BIAS_1, RELU, HIDDEN_LAYER, WEIGHTS_2, BIAS_2, NONE, OUTPUT };

#define CHECK(call) check((call), #call)

static void check(int code, const char *call) {
    if (code != ANEURALNETWORKS_NO_ERROR) {
        fprintf(stderr, "%s returned %d\n", call, code);
        exit(1);
    }
}

static void add_tensor(ANeuralNetworksModel *model, uint32_t rows, uint32_t columns) {
    const uint32_t dimensions[] = {rows, columns};
    const ANeuralNetworksOperandType type = {
        .type = ANEURALNETWORKS_TENSOR_FLOAT32,
        .dimensionCount = columns == 0 ? 1 : 2,
        .dimensions = dimensions,
    };
    CHECK(ANeuralNetworksModel_addOperand(model, &type));
}

static void add_scalar(ANeuralNetworksModel *model) {
    const ANeuralNetworksOperandType type = {.type = ANEURALNETWORKS_INT32};
    CHECK(ANeuralNetworksModel_addOperand(model, &type));
}

/* hidden = relu(input . w1 + b1), output = hidden . w2 + b2 */
static ANeuralNetworksModel *build(void) {
    static const float weights_1[HIDDEN][FEATURES] = {{1, 1}, {1, 1}}, bias_1[HIDDEN] = {0, -1};
    static const float weights_2[1][HIDDEN] = {{1, -2}}, bias_2[1] = {0};
    static const int32_t relu = ANEURALNETWORKS_FUSED_RELU, none = ANEURALNETWORKS_FUSED_NONE;
    ANeuralNetworksModel *model = NULL;
    CHECK(ANeuralNetworksModel_create(&model));

    add_tensor(model, CASES, FEATURES);
    add_tensor(model, HIDDEN, FEATURES);
    add_tensor(model, HIDDEN, 0);
    add_scalar(model);
    add_tensor(model, CASES, HIDDEN);
    add_tensor(model, 1, HIDDEN);
    add_tensor(model, 1, 0);
    add_scalar(model);
    add_tensor(model, CASES, 1);

    CHECK(ANeuralNetworksModel_setOperandValue(model, WEIGHTS_1, weights_1, sizeof weights_1));
    CHECK(ANeuralNetworksModel_setOperandValue(model, BIAS_1, bias_1, sizeof bias_1));
    CHECK(ANeuralNetworksModel_setOperandValue(model, RELU, &relu, sizeof relu));
    CHECK(ANeuralNetworksModel_setOperandValue(model, WEIGHTS_2, weights_2, sizeof weights_2));
    CHECK(ANeuralNetworksModel_setOperandValue(model, BIAS_2, bias_2, sizeof bias_2));
    CHECK(ANeuralNetworksModel_setOperandValue(model, NONE, &none, sizeof none));

    const uint32_t first[] = {INPUT, WEIGHTS_1, BIAS_1, RELU}, hidden[] = {HIDDEN_LAYER};
    const uint32_t second[] = {HIDDEN_LAYER, WEIGHTS_2, BIAS_2, NONE}, output[] = {OUTPUT};
    CHECK(ANeuralNetworksModel_addOperation(model, ANEURALNETWORKS_FULLY_CONNECTED, 4, first, 1,
                                            hidden));
    CHECK(ANeuralNetworksModel_addOperation(model, ANEURALNETWORKS_FULLY_CONNECTED, 4, second, 1,
                                            output));
    const uint32_t input[] = {INPUT};
    CHECK(ANeuralNetworksModel_identifyInputsAndOutputs(model, 1, input, 1, output));
    CHECK(ANeuralNetworksModel_finish(model));
    return model;
}

/* The first device that executes both operations. */
static const ANeuralNetworksDevice *choose(const ANeuralNetworksModel *model) {
    uint32_t count = 0;
    CHECK(ANeuralNetworks_getDeviceCount(&count));
    for (uint32_t i = 0; i < count; i++) {
        ANeuralNetworksDevice *device = NULL;
        const char *name = NULL;
        int64_t level = 0;
        bool supported[2];
        CHECK(ANeuralNetworks_getDevice(i, &device));
        CHECK(ANeuralNetworksDevice_getName(device, &name));
        CHECK(ANeuralNetworksDevice_getFeatureLevel(device, &level));
        CHECK(ANeuralNetworksModel_getSupportedOperationsForDevices(
            model, (const ANeuralNetworksDevice *const *)&device, 1, supported));
        printf("device %s, feature level code %" PRId64 "\n", name, level);
        if (supported[0] && supported[1]) return device;
    }
    fprintf(stderr, "no device executes the model\n");
    exit(1);
}

int main(void) {
    static const float cases[CASES][FEATURES] = {{0, 0}, {0, 1}, {1, 0}, {1, 1}};
    float results[CASES];
    ANeuralNetworksModel *model = build();
    const ANeuralNetworksDevice *device = choose(model);

    ANeuralNetworksCompilation *compilation = NULL;
    CHECK(ANeuralNetworksCompilation_createForDevices(model, &device, 1, &compilation));
    CHECK(ANeuralNetworksCompilation_finish(compilation));

    ANeuralNetworksExecution *execution = NULL;
    CHECK(ANeuralNetworksExecution_create(compilation, &execution));
    CHECK(ANeuralNetworksExecution_setMeasureTiming(execution, true));
    CHECK(ANeuralNetworksExecution_setInput(execution, 0, NULL, cases, sizeof cases));
    CHECK(ANeuralNetworksExecution_setOutput(execution, 0, NULL, results, sizeof results));

    ANeuralNetworksEvent *event = NULL;
    CHECK(ANeuralNetworksExecution_startCompute(execution, &event));
    CHECK(ANeuralNetworksEvent_wait(event));
    ANeuralNetworksEvent_free(event);

    for (int i = 0; i < CASES; i++)
        printf("%g xor %g = %g\n", cases[i][0], cases[i][1], results[i]);

    uint64_t nanoseconds = 0;
    CHECK(ANeuralNetworksExecution_getDuration(
        execution, ANEURALNETWORKS_DURATION_ON_HARDWARE, &nanoseconds));
    fprintf(stderr, "computed in %" PRIu64 " ns\n", nanoseconds);

    ANeuralNetworksExecution_free(execution);
    ANeuralNetworksCompilation_free(compilation);
    ANeuralNetworksModel_free(model);
    return 0;
}
