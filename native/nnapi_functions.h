/* NNAPI's C API. Generated from ep_nnapi/nnapi: python -m tests.native.test_headers. */
#ifndef NNAPI_FUNCTIONS_H
#define NNAPI_FUNCTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ANeuralNetworksDevice ANeuralNetworksDevice;
typedef struct ANeuralNetworksModel ANeuralNetworksModel;
typedef struct ANeuralNetworksCompilation ANeuralNetworksCompilation;
typedef struct ANeuralNetworksExecution ANeuralNetworksExecution;
typedef struct ANeuralNetworksBurst ANeuralNetworksBurst;
typedef struct ANeuralNetworksEvent ANeuralNetworksEvent;
typedef struct ANeuralNetworksMemoryDesc ANeuralNetworksMemoryDesc;
typedef struct ANeuralNetworksMemory ANeuralNetworksMemory;
typedef struct AHardwareBuffer AHardwareBuffer;
typedef int32_t ANeuralNetworksOperationType;

typedef struct ANeuralNetworksOperandType {
    int32_t type;
    uint32_t dimensionCount;
    const uint32_t* dimensions;
    float scale;
    int32_t zeroPoint;
} ANeuralNetworksOperandType;

typedef struct ANeuralNetworksSymmPerChannelQuantParams {
    uint32_t channelDim;
    uint32_t scaleCount;
    const float* scales;
} ANeuralNetworksSymmPerChannelQuantParams;

enum { NN_NO_ERROR = 0, NN_OUT_OF_MEMORY = 1, NN_INCOMPLETE = 2, NN_UNEXPECTED_NULL = 3, NN_BAD_DATA = 4, NN_OP_FAILED = 5, NN_BAD_STATE = 6, NN_UNMAPPABLE = 7, NN_OUTPUT_INSUFFICIENT_SIZE = 8, NN_UNAVAILABLE_DEVICE = 9, NN_MISSED_DEADLINE_TRANSIENT = 10, NN_MISSED_DEADLINE_PERSISTENT = 11, NN_RESOURCE_EXHAUSTED_TRANSIENT = 12, NN_RESOURCE_EXHAUSTED_PERSISTENT = 13, NN_DEAD_OBJECT = 14 };
enum { NN_DEVICE_UNKNOWN = 0, NN_DEVICE_OTHER = 1, NN_DEVICE_CPU = 2, NN_DEVICE_GPU = 3, NN_DEVICE_ACCELERATOR = 4 };
enum { NN_DURATION_ON_HARDWARE = 0, NN_DURATION_IN_DRIVER = 1, NN_FENCED_DURATION_ON_HARDWARE = 2, NN_FENCED_DURATION_IN_DRIVER = 3 };
enum { NN_PREFERENCE_LOW_POWER = 0, NN_PREFERENCE_FAST_SINGLE_ANSWER = 1, NN_PREFERENCE_SUSTAINED_SPEED = 2 };
enum { NN_PRIORITY_LOW = 90, NN_PRIORITY_MEDIUM = 100, NN_PRIORITY_HIGH = 110 };
enum { NN_COPIED_AT_ONCE = 128 };

/* X(code) for the name of each result code. */
#define NN_RESULTS(X) \
  X(NO_ERROR) \
  X(OUT_OF_MEMORY) \
  X(INCOMPLETE) \
  X(UNEXPECTED_NULL) \
  X(BAD_DATA) \
  X(OP_FAILED) \
  X(BAD_STATE) \
  X(UNMAPPABLE) \
  X(OUTPUT_INSUFFICIENT_SIZE) \
  X(UNAVAILABLE_DEVICE) \
  X(MISSED_DEADLINE_TRANSIENT) \
  X(MISSED_DEADLINE_PERSISTENT) \
  X(RESOURCE_EXHAUSTED_TRANSIENT) \
  X(RESOURCE_EXHAUSTED_PERSISTENT) \
  X(DEAD_OBJECT)

/* X(returns, name, exported name, level, parameters); level: the first that no
 * library has without the function, or 9. */
#define NN_FUNCTIONS(X) \
  X(int, getDeviceCount, ANeuralNetworks_getDeviceCount, 3, (uint32_t* numDevices)) \
  X(int, getDevice, ANeuralNetworks_getDevice, 3, (uint32_t devIndex, ANeuralNetworksDevice** device)) \
  X(uint64_t, getDefaultLoopTimeout, ANeuralNetworks_getDefaultLoopTimeout, 9, (void)) \
  X(uint64_t, getMaximumLoopTimeout, ANeuralNetworks_getMaximumLoopTimeout, 9, (void)) \
  X(int64_t, getRuntimeFeatureLevel, ANeuralNetworks_getRuntimeFeatureLevel, 5, (void)) \
  X(int, Device_getName, ANeuralNetworksDevice_getName, 3, (const ANeuralNetworksDevice* device, const char** name)) \
  X(int, Device_getType, ANeuralNetworksDevice_getType, 3, (const ANeuralNetworksDevice* device, int32_t* type)) \
  X(int, Device_getVersion, ANeuralNetworksDevice_getVersion, 3, (const ANeuralNetworksDevice* device, const char** version)) \
  X(int, Device_getFeatureLevel, ANeuralNetworksDevice_getFeatureLevel, 3, (const ANeuralNetworksDevice* device, int64_t* featureLevel)) \
  X(int, Device_getExtensionSupport, ANeuralNetworksDevice_getExtensionSupport, 9, (const ANeuralNetworksDevice* device, const char* extensionName, bool* isExtensionSupported)) \
  X(int, Device_wait, ANeuralNetworksDevice_wait, 9, (const ANeuralNetworksDevice* device)) \
  X(int, Model_create, ANeuralNetworksModel_create, 1, (ANeuralNetworksModel** model)) \
  X(void, Model_free, ANeuralNetworksModel_free, 1, (ANeuralNetworksModel* model)) \
  X(int, Model_finish, ANeuralNetworksModel_finish, 1, (ANeuralNetworksModel* model)) \
  X(int, Model_addOperand, ANeuralNetworksModel_addOperand, 1, (ANeuralNetworksModel* model, const ANeuralNetworksOperandType* type)) \
  X(int, Model_setOperandValue, ANeuralNetworksModel_setOperandValue, 1, (ANeuralNetworksModel* model, int32_t index, const void* buffer, size_t length)) \
  X(int, Model_setOperandValueFromMemory, ANeuralNetworksModel_setOperandValueFromMemory, 1, (ANeuralNetworksModel* model, int32_t index, const ANeuralNetworksMemory* memory, size_t offset, size_t length)) \
  X(int, Model_addOperation, ANeuralNetworksModel_addOperation, 1, (ANeuralNetworksModel* model, ANeuralNetworksOperationType type, uint32_t inputCount, const uint32_t* inputs, uint32_t outputCount, const uint32_t* outputs)) \
  X(int, Model_identifyInputsAndOutputs, ANeuralNetworksModel_identifyInputsAndOutputs, 1, (ANeuralNetworksModel* model, uint32_t inputCount, const uint32_t* inputs, uint32_t outputCount, const uint32_t* outputs)) \
  X(int, Model_relaxComputationFloat32toFloat16, ANeuralNetworksModel_relaxComputationFloat32toFloat16, 2, (ANeuralNetworksModel* model, bool allow)) \
  X(int, Model_getSupportedOperationsForDevices, ANeuralNetworksModel_getSupportedOperationsForDevices, 3, (const ANeuralNetworksModel* model, const ANeuralNetworksDevice* const* devices, uint32_t numDevices, bool* supportedOps)) \
  X(int, Model_setOperandSymmPerChannelQuantParams, ANeuralNetworksModel_setOperandSymmPerChannelQuantParams, 3, (ANeuralNetworksModel* model, int32_t index, const ANeuralNetworksSymmPerChannelQuantParams* channelQuant)) \
  X(int, Model_getExtensionOperandType, ANeuralNetworksModel_getExtensionOperandType, 9, (ANeuralNetworksModel* model, const char* extensionName, uint16_t operandCodeWithinExtension, int32_t* type)) \
  X(int, Model_getExtensionOperationType, ANeuralNetworksModel_getExtensionOperationType, 9, (ANeuralNetworksModel* model, const char* extensionName, uint16_t operationCodeWithinExtension, ANeuralNetworksOperationType* type)) \
  X(int, Model_setOperandExtensionData, ANeuralNetworksModel_setOperandExtensionData, 9, (ANeuralNetworksModel* model, int32_t index, const void* data, size_t length)) \
  X(int, Model_setOperandValueFromModel, ANeuralNetworksModel_setOperandValueFromModel, 4, (ANeuralNetworksModel* model, int32_t index, const ANeuralNetworksModel* value)) \
  X(int, Compilation_create, ANeuralNetworksCompilation_create, 1, (ANeuralNetworksModel* model, ANeuralNetworksCompilation** compilation)) \
  X(void, Compilation_free, ANeuralNetworksCompilation_free, 1, (ANeuralNetworksCompilation* compilation)) \
  X(int, Compilation_setPreference, ANeuralNetworksCompilation_setPreference, 1, (ANeuralNetworksCompilation* compilation, int32_t preference)) \
  X(int, Compilation_finish, ANeuralNetworksCompilation_finish, 1, (ANeuralNetworksCompilation* compilation)) \
  X(int, Compilation_createForDevices, ANeuralNetworksCompilation_createForDevices, 3, (ANeuralNetworksModel* model, const ANeuralNetworksDevice* const* devices, uint32_t numDevices, ANeuralNetworksCompilation** compilation)) \
  X(int, Compilation_setCaching, ANeuralNetworksCompilation_setCaching, 9, (ANeuralNetworksCompilation* compilation, const char* cacheDir, const uint8_t* token)) \
  X(int, Compilation_setPriority, ANeuralNetworksCompilation_setPriority, 9, (ANeuralNetworksCompilation* compilation, int priority)) \
  X(int, Compilation_setTimeout, ANeuralNetworksCompilation_setTimeout, 9, (ANeuralNetworksCompilation* compilation, uint64_t duration)) \
  X(int, Compilation_getPreferredMemoryAlignmentForInput, ANeuralNetworksCompilation_getPreferredMemoryAlignmentForInput, 9, (const ANeuralNetworksCompilation* compilation, uint32_t index, uint32_t* alignment)) \
  X(int, Compilation_getPreferredMemoryPaddingForInput, ANeuralNetworksCompilation_getPreferredMemoryPaddingForInput, 9, (const ANeuralNetworksCompilation* compilation, uint32_t index, uint32_t* padding)) \
  X(int, Compilation_getPreferredMemoryAlignmentForOutput, ANeuralNetworksCompilation_getPreferredMemoryAlignmentForOutput, 9, (const ANeuralNetworksCompilation* compilation, uint32_t index, uint32_t* alignment)) \
  X(int, Compilation_getPreferredMemoryPaddingForOutput, ANeuralNetworksCompilation_getPreferredMemoryPaddingForOutput, 9, (const ANeuralNetworksCompilation* compilation, uint32_t index, uint32_t* padding)) \
  X(int, Compilation_addExtensionAttribute, ANeuralNetworksCompilation_addExtensionAttribute, 9, (ANeuralNetworksCompilation* compilation, const char* extensionName, uint16_t attributeCodeWithinExtension, const void* data, size_t length)) \
  X(int, Execution_create, ANeuralNetworksExecution_create, 1, (ANeuralNetworksCompilation* compilation, ANeuralNetworksExecution** execution)) \
  X(void, Execution_free, ANeuralNetworksExecution_free, 1, (ANeuralNetworksExecution* execution)) \
  X(int, Execution_setInput, ANeuralNetworksExecution_setInput, 1, (ANeuralNetworksExecution* execution, int32_t index, const ANeuralNetworksOperandType* type, const void* buffer, size_t length)) \
  X(int, Execution_setInputFromMemory, ANeuralNetworksExecution_setInputFromMemory, 9, (ANeuralNetworksExecution* execution, int32_t index, const ANeuralNetworksOperandType* type, const ANeuralNetworksMemory* memory, size_t offset, size_t length)) \
  X(int, Execution_setOutput, ANeuralNetworksExecution_setOutput, 1, (ANeuralNetworksExecution* execution, int32_t index, const ANeuralNetworksOperandType* type, void* buffer, size_t length)) \
  X(int, Execution_setOutputFromMemory, ANeuralNetworksExecution_setOutputFromMemory, 9, (ANeuralNetworksExecution* execution, int32_t index, const ANeuralNetworksOperandType* type, const ANeuralNetworksMemory* memory, size_t offset, size_t length)) \
  X(int, Execution_startCompute, ANeuralNetworksExecution_startCompute, 1, (ANeuralNetworksExecution* execution, ANeuralNetworksEvent** event)) \
  X(int, Execution_compute, ANeuralNetworksExecution_compute, 9, (ANeuralNetworksExecution* execution)) \
  X(int, Execution_getOutputOperandRank, ANeuralNetworksExecution_getOutputOperandRank, 3, (ANeuralNetworksExecution* execution, int32_t index, uint32_t* rank)) \
  X(int, Execution_getOutputOperandDimensions, ANeuralNetworksExecution_getOutputOperandDimensions, 3, (ANeuralNetworksExecution* execution, int32_t index, uint32_t* dimensions)) \
  X(int, Execution_burstCompute, ANeuralNetworksExecution_burstCompute, 9, (ANeuralNetworksExecution* execution, ANeuralNetworksBurst* burst)) \
  X(int, Execution_setMeasureTiming, ANeuralNetworksExecution_setMeasureTiming, 9, (ANeuralNetworksExecution* execution, bool measure)) \
  X(int, Execution_getDuration, ANeuralNetworksExecution_getDuration, 9, (const ANeuralNetworksExecution* execution, int32_t durationCode, uint64_t* duration)) \
  X(int, Execution_setTimeout, ANeuralNetworksExecution_setTimeout, 9, (ANeuralNetworksExecution* execution, uint64_t duration)) \
  X(int, Execution_setLoopTimeout, ANeuralNetworksExecution_setLoopTimeout, 9, (ANeuralNetworksExecution* execution, uint64_t duration)) \
  X(int, Execution_startComputeWithDependencies, ANeuralNetworksExecution_startComputeWithDependencies, 9, (ANeuralNetworksExecution* execution, const ANeuralNetworksEvent* const* dependencies, uint32_t num_dependencies, uint64_t duration, ANeuralNetworksEvent** event)) \
  X(int, Execution_enableInputAndOutputPadding, ANeuralNetworksExecution_enableInputAndOutputPadding, 9, (ANeuralNetworksExecution* execution, bool enable)) \
  X(int, Execution_setReusable, ANeuralNetworksExecution_setReusable, 9, (ANeuralNetworksExecution* execution, bool reusable)) \
  X(int, Execution_addExtensionAttribute, ANeuralNetworksExecution_addExtensionAttribute, 9, (ANeuralNetworksExecution* execution, const char* extensionName, uint16_t attributeCodeWithinExtension, const void* data, size_t length)) \
  X(int, Burst_create, ANeuralNetworksBurst_create, 9, (ANeuralNetworksCompilation* compilation, ANeuralNetworksBurst** burst)) \
  X(void, Burst_free, ANeuralNetworksBurst_free, 9, (ANeuralNetworksBurst* burst)) \
  X(int, Event_wait, ANeuralNetworksEvent_wait, 1, (ANeuralNetworksEvent* event)) \
  X(void, Event_free, ANeuralNetworksEvent_free, 1, (ANeuralNetworksEvent* event)) \
  X(int, Event_createFromSyncFenceFd, ANeuralNetworksEvent_createFromSyncFenceFd, 9, (int sync_fence_fd, ANeuralNetworksEvent** event)) \
  X(int, Event_getSyncFenceFd, ANeuralNetworksEvent_getSyncFenceFd, 9, (const ANeuralNetworksEvent* event, int* sync_fence_fd)) \
  X(int, MemoryDesc_create, ANeuralNetworksMemoryDesc_create, 9, (ANeuralNetworksMemoryDesc** desc)) \
  X(void, MemoryDesc_free, ANeuralNetworksMemoryDesc_free, 9, (ANeuralNetworksMemoryDesc* desc)) \
  X(int, MemoryDesc_addInputRole, ANeuralNetworksMemoryDesc_addInputRole, 9, (ANeuralNetworksMemoryDesc* desc, const ANeuralNetworksCompilation* compilation, uint32_t index, float frequency)) \
  X(int, MemoryDesc_addOutputRole, ANeuralNetworksMemoryDesc_addOutputRole, 9, (ANeuralNetworksMemoryDesc* desc, const ANeuralNetworksCompilation* compilation, uint32_t index, float frequency)) \
  X(int, MemoryDesc_setDimensions, ANeuralNetworksMemoryDesc_setDimensions, 9, (ANeuralNetworksMemoryDesc* desc, uint32_t rank, const uint32_t* dimensions)) \
  X(int, MemoryDesc_finish, ANeuralNetworksMemoryDesc_finish, 9, (ANeuralNetworksMemoryDesc* desc)) \
  X(int, Memory_createFromFd, ANeuralNetworksMemory_createFromFd, 1, (size_t size, int protect, int fd, size_t offset, ANeuralNetworksMemory** memory)) \
  X(void, Memory_free, ANeuralNetworksMemory_free, 1, (ANeuralNetworksMemory* memory)) \
  X(int, Memory_createFromAHardwareBuffer, ANeuralNetworksMemory_createFromAHardwareBuffer, 9, (const AHardwareBuffer* ahwb, ANeuralNetworksMemory** memory)) \
  X(int, Memory_createFromDesc, ANeuralNetworksMemory_createFromDesc, 9, (const ANeuralNetworksMemoryDesc* desc, ANeuralNetworksMemory** memory)) \
  X(int, Memory_copy, ANeuralNetworksMemory_copy, 9, (const ANeuralNetworksMemory* src, const ANeuralNetworksMemory* dst))

#endif
