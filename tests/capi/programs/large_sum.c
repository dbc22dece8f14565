/* Adds tensors that are large enough for host-cpu, on the device that the runtime chooses.
 *
 *   large_sum         runs once and exits
 *   large_sum fork    a child runs, too, and exits
 *   large_sum leave   exits while executions run
 */
#include <android/NeuralNetworks.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { COUNT = 1000000, LEFT = 4 };

static float ones[COUNT], sums[COUNT];

#define CHECK(call) check((call), #call)

static void check(int code, const char *call) {
    if (code == ANEURALNETWORKS_NO_ERROR) return;
    fprintf(stderr, "%s returned %d\n", call, code);
    exit(1);
}

static ANeuralNetworksModel *build(void) {
    static const uint32_t dimensions[] = {COUNT}, inputs[] = {0, 1, 2}, outputs[] = {3};
    static const int32_t none = ANEURALNETWORKS_FUSED_NONE;
    const ANeuralNetworksOperandType tensor = {
        .type = ANEURALNETWORKS_TENSOR_FLOAT32, .dimensionCount = 1, .dimensions = dimensions};
    const ANeuralNetworksOperandType scalar = {.type = ANEURALNETWORKS_INT32};
    ANeuralNetworksModel *model = NULL;
    CHECK(ANeuralNetworksModel_create(&model));
    CHECK(ANeuralNetworksModel_addOperand(model, &tensor));
    CHECK(ANeuralNetworksModel_addOperand(model, &tensor));
    CHECK(ANeuralNetworksModel_addOperand(model, &scalar));
    CHECK(ANeuralNetworksModel_addOperand(model, &tensor));
    CHECK(ANeuralNetworksModel_setOperandValue(model, 2, &none, sizeof none));
    CHECK(ANeuralNetworksModel_addOperation(model, ANEURALNETWORKS_ADD, 3, inputs, 1, outputs));
    CHECK(ANeuralNetworksModel_identifyInputsAndOutputs(model, 2, inputs, 1, outputs));
    CHECK(ANeuralNetworksModel_finish(model));
    return model;
}

static ANeuralNetworksExecution *ready(ANeuralNetworksCompilation *compilation) {
    ANeuralNetworksExecution *execution = NULL;
    int32_t i;
    CHECK(ANeuralNetworksExecution_create(compilation, &execution));
    for (i = 0; i < 2; i++)
        CHECK(ANeuralNetworksExecution_setInput(execution, i, NULL, ones, sizeof ones));
    CHECK(ANeuralNetworksExecution_setOutput(execution, 0, NULL, sums, sizeof sums));
    return execution;
}

static int run(ANeuralNetworksCompilation *compilation) {
    ANeuralNetworksExecution *execution = ready(compilation);
    size_t i, wrong = 0;
    memset(sums, 0, sizeof sums);
    CHECK(ANeuralNetworksExecution_compute(execution));
    ANeuralNetworksExecution_free(execution);
    for (i = 0; i < COUNT; i++) wrong += sums[i] != 2;
    return wrong != 0;
}

static int run_in_child(ANeuralNetworksCompilation *compilation) {
    const pid_t child = fork();
    int status = 1;
    if (child == 0) {
        alarm(60);
        exit(run(compilation));
    }
    waitpid(child, &status, 0);
    return status != 0 || run(compilation);
}

static int leave(ANeuralNetworksCompilation *compilation) {
    ANeuralNetworksEvent *event;
    int i;
    for (i = 0; i < LEFT; i++)
        CHECK(ANeuralNetworksExecution_startCompute(ready(compilation), &event));
    return 0;
}

int main(int count, char **words) {
    const char *what = count > 1 ? words[1] : "";
    ANeuralNetworksCompilation *compilation = NULL;
    size_t i;
    for (i = 0; i < COUNT; i++) ones[i] = 1;
    CHECK(ANeuralNetworksCompilation_create(build(), &compilation));
    CHECK(ANeuralNetworksCompilation_finish(compilation));
    if (run(compilation)) return 1;
    if (strcmp(what, "fork") == 0) return run_in_child(compilation);
    if (strcmp(what, "leave") == 0) return leave(compilation);
    return 0;
}
