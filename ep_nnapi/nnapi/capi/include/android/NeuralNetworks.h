/* The functions of NNAPI's C API, as libneuralnetworks.so of ep-nnapi has them. Generated. */
#ifndef EP_NNAPI_NEURAL_NETWORKS_FUNCTIONS_H
#define EP_NNAPI_NEURAL_NETWORKS_FUNCTIONS_H
#include <android/NeuralNetworksTypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif
/* feature level 3 */
int ANeuralNetworks_getDeviceCount(uint32_t* numDevices);
/* feature level 3 */
int ANeuralNetworks_getDevice(uint32_t devIndex, ANeuralNetworksDevice** device);
/* feature level 4 */
uint64_t ANeuralNetworks_getDefaultLoopTimeout(void);
/* feature level 4 */
uint64_t ANeuralNetworks_getMaximumLoopTimeout(void);
/* feature level 5 */
int64_t ANeuralNetworks_getRuntimeFeatureLevel(void);
/* feature level 3 */
int ANeuralNetworksDevice_getName(const ANeuralNetworksDevice* device, const char** name);
/* feature level 3 */
int ANeuralNetworksDevice_getType(const ANeuralNetworksDevice* device, int32_t* type);
/* feature level 3 */
int ANeuralNetworksDevice_getVersion(const ANeuralNetworksDevice* device, const char** version);
/* feature level 3 */
int ANeuralNetworksDevice_getFeatureLevel(const ANeuralNetworksDevice* device, int64_t* featureLevel);
/* feature level 3 */
int ANeuralNetworksDevice_getExtensionSupport(const ANeuralNetworksDevice* device, const char* extensionName, bool* isExtensionSupported);
/* feature level 4 */
int ANeuralNetworksDevice_wait(const ANeuralNetworksDevice* device);
/* feature level 1 */
int ANeuralNetworksModel_create(ANeuralNetworksModel** model);
/* feature level 1 */
void ANeuralNetworksModel_free(ANeuralNetworksModel* model);
/* feature level 1 */
int ANeuralNetworksModel_finish(ANeuralNetworksModel* model);
/* feature level 1 */
int ANeuralNetworksModel_addOperand(ANeuralNetworksModel* model, const ANeuralNetworksOperandType* type);
/* feature level 1 */
int ANeuralNetworksModel_setOperandValue(ANeuralNetworksModel* model, int32_t index, const void* buffer, size_t length);
/* feature level 1 */
int ANeuralNetworksModel_setOperandValueFromMemory(ANeuralNetworksModel* model, int32_t index, const ANeuralNetworksMemory* memory, size_t offset, size_t length);
/* feature level 1 */
int ANeuralNetworksModel_addOperation(ANeuralNetworksModel* model, ANeuralNetworksOperationType type, uint32_t inputCount, const uint32_t* inputs, uint32_t outputCount, const uint32_t* outputs);
/* feature level 1 */
int ANeuralNetworksModel_identifyInputsAndOutputs(ANeuralNetworksModel* model, uint32_t inputCount, const uint32_t* inputs, uint32_t outputCount, const uint32_t* outputs);
/* feature level 2 */
int ANeuralNetworksModel_relaxComputationFloat32toFloat16(ANeuralNetworksModel* model, bool allow);
/* feature level 3 */
int ANeuralNetworksModel_getSupportedOperationsForDevices(const ANeuralNetworksModel* model, const ANeuralNetworksDevice* const* devices, uint32_t numDevices, bool* supportedOps);
/* feature level 3 */
int ANeuralNetworksModel_setOperandSymmPerChannelQuantParams(ANeuralNetworksModel* model, int32_t index, const ANeuralNetworksSymmPerChannelQuantParams* channelQuant);
/* feature level 3 */
int ANeuralNetworksModel_getExtensionOperandType(ANeuralNetworksModel* model, const char* extensionName, uint16_t operandCodeWithinExtension, int32_t* type);
/* feature level 3 */
int ANeuralNetworksModel_getExtensionOperationType(ANeuralNetworksModel* model, const char* extensionName, uint16_t operationCodeWithinExtension, ANeuralNetworksOperationType* type);
/* feature level 3 */
int ANeuralNetworksModel_setOperandExtensionData(ANeuralNetworksModel* model, int32_t index, const void* data, size_t length);
/* feature level 4 */
int ANeuralNetworksModel_setOperandValueFromModel(ANeuralNetworksModel* model, int32_t index, const ANeuralNetworksModel* value);
/* feature level 1 */
int ANeuralNetworksCompilation_create(ANeuralNetworksModel* model, ANeuralNetworksCompilation** compilation);
/* feature level 1 */
void ANeuralNetworksCompilation_free(ANeuralNetworksCompilation* compilation);
/* feature level 1 */
int ANeuralNetworksCompilation_setPreference(ANeuralNetworksCompilation* compilation, int32_t preference);
/* feature level 1 */
int ANeuralNetworksCompilation_finish(ANeuralNetworksCompilation* compilation);
/* feature level 3 */
int ANeuralNetworksCompilation_createForDevices(ANeuralNetworksModel* model, const ANeuralNetworksDevice* const* devices, uint32_t numDevices, ANeuralNetworksCompilation** compilation);
/* feature level 3 */
int ANeuralNetworksCompilation_setCaching(ANeuralNetworksCompilation* compilation, const char* cacheDir, const uint8_t* token);
/* feature level 4 */
int ANeuralNetworksCompilation_setPriority(ANeuralNetworksCompilation* compilation, int priority);
/* feature level 4 */
int ANeuralNetworksCompilation_setTimeout(ANeuralNetworksCompilation* compilation, uint64_t duration);
/* feature level 5 */
int ANeuralNetworksCompilation_getPreferredMemoryAlignmentForInput(const ANeuralNetworksCompilation* compilation, uint32_t index, uint32_t* alignment);
/* feature level 5 */
int ANeuralNetworksCompilation_getPreferredMemoryPaddingForInput(const ANeuralNetworksCompilation* compilation, uint32_t index, uint32_t* padding);
/* feature level 5 */
int ANeuralNetworksCompilation_getPreferredMemoryAlignmentForOutput(const ANeuralNetworksCompilation* compilation, uint32_t index, uint32_t* alignment);
/* feature level 5 */
int ANeuralNetworksCompilation_getPreferredMemoryPaddingForOutput(const ANeuralNetworksCompilation* compilation, uint32_t index, uint32_t* padding);
/* feature level 8 */
int ANeuralNetworksCompilation_addExtensionAttribute(ANeuralNetworksCompilation* compilation, const char* extensionName, uint16_t attributeCodeWithinExtension, const void* data, size_t length);
/* feature level 1 */
int ANeuralNetworksExecution_create(ANeuralNetworksCompilation* compilation, ANeuralNetworksExecution** execution);
/* feature level 1 */
void ANeuralNetworksExecution_free(ANeuralNetworksExecution* execution);
/* feature level 1 */
int ANeuralNetworksExecution_setInput(ANeuralNetworksExecution* execution, int32_t index, const ANeuralNetworksOperandType* type, const void* buffer, size_t length);
/* feature level 1 */
int ANeuralNetworksExecution_setInputFromMemory(ANeuralNetworksExecution* execution, int32_t index, const ANeuralNetworksOperandType* type, const ANeuralNetworksMemory* memory, size_t offset, size_t length);
/* feature level 1 */
int ANeuralNetworksExecution_setOutput(ANeuralNetworksExecution* execution, int32_t index, const ANeuralNetworksOperandType* type, void* buffer, size_t length);
/* feature level 1 */
int ANeuralNetworksExecution_setOutputFromMemory(ANeuralNetworksExecution* execution, int32_t index, const ANeuralNetworksOperandType* type, const ANeuralNetworksMemory* memory, size_t offset, size_t length);
/* feature level 1 */
int ANeuralNetworksExecution_startCompute(ANeuralNetworksExecution* execution, ANeuralNetworksEvent** event);
/* feature level 3 */
int ANeuralNetworksExecution_compute(ANeuralNetworksExecution* execution);
/* feature level 3 */
int ANeuralNetworksExecution_getOutputOperandRank(ANeuralNetworksExecution* execution, int32_t index, uint32_t* rank);
/* feature level 3 */
int ANeuralNetworksExecution_getOutputOperandDimensions(ANeuralNetworksExecution* execution, int32_t index, uint32_t* dimensions);
/* feature level 3 */
int ANeuralNetworksExecution_burstCompute(ANeuralNetworksExecution* execution, ANeuralNetworksBurst* burst);
/* feature level 3 */
int ANeuralNetworksExecution_setMeasureTiming(ANeuralNetworksExecution* execution, bool measure);
/* feature level 3 */
int ANeuralNetworksExecution_getDuration(const ANeuralNetworksExecution* execution, int32_t durationCode, uint64_t* duration);
/* feature level 4 */
int ANeuralNetworksExecution_setTimeout(ANeuralNetworksExecution* execution, uint64_t duration);
/* feature level 4 */
int ANeuralNetworksExecution_setLoopTimeout(ANeuralNetworksExecution* execution, uint64_t duration);
/* feature level 4 */
int ANeuralNetworksExecution_startComputeWithDependencies(ANeuralNetworksExecution* execution, const ANeuralNetworksEvent* const* dependencies, uint32_t num_dependencies, uint64_t duration, ANeuralNetworksEvent** event);
/* feature level 5 */
int ANeuralNetworksExecution_enableInputAndOutputPadding(ANeuralNetworksExecution* execution, bool enable);
/* feature level 5 */
int ANeuralNetworksExecution_setReusable(ANeuralNetworksExecution* execution, bool reusable);
/* feature level 8 */
int ANeuralNetworksExecution_addExtensionAttribute(ANeuralNetworksExecution* execution, const char* extensionName, uint16_t attributeCodeWithinExtension, const void* data, size_t length);
/* feature level 3 */
int ANeuralNetworksBurst_create(ANeuralNetworksCompilation* compilation, ANeuralNetworksBurst** burst);
/* feature level 3 */
void ANeuralNetworksBurst_free(ANeuralNetworksBurst* burst);
/* feature level 1 */
int ANeuralNetworksEvent_wait(ANeuralNetworksEvent* event);
/* feature level 1 */
void ANeuralNetworksEvent_free(ANeuralNetworksEvent* event);
/* feature level 4 */
int ANeuralNetworksEvent_createFromSyncFenceFd(int sync_fence_fd, ANeuralNetworksEvent** event);
/* feature level 4 */
int ANeuralNetworksEvent_getSyncFenceFd(const ANeuralNetworksEvent* event, int* sync_fence_fd);
/* feature level 4 */
int ANeuralNetworksMemoryDesc_create(ANeuralNetworksMemoryDesc** desc);
/* feature level 4 */
void ANeuralNetworksMemoryDesc_free(ANeuralNetworksMemoryDesc* desc);
/* feature level 4 */
int ANeuralNetworksMemoryDesc_addInputRole(ANeuralNetworksMemoryDesc* desc, const ANeuralNetworksCompilation* compilation, uint32_t index, float frequency);
/* feature level 4 */
int ANeuralNetworksMemoryDesc_addOutputRole(ANeuralNetworksMemoryDesc* desc, const ANeuralNetworksCompilation* compilation, uint32_t index, float frequency);
/* feature level 4 */
int ANeuralNetworksMemoryDesc_setDimensions(ANeuralNetworksMemoryDesc* desc, uint32_t rank, const uint32_t* dimensions);
/* feature level 4 */
int ANeuralNetworksMemoryDesc_finish(ANeuralNetworksMemoryDesc* desc);
/* feature level 1 */
int ANeuralNetworksMemory_createFromFd(size_t size, int protect, int fd, size_t offset, ANeuralNetworksMemory** memory);
/* feature level 1 */
void ANeuralNetworksMemory_free(ANeuralNetworksMemory* memory);
/* feature level 3 */
int ANeuralNetworksMemory_createFromAHardwareBuffer(const AHardwareBuffer* ahwb, ANeuralNetworksMemory** memory);
/* feature level 4 */
int ANeuralNetworksMemory_createFromDesc(const ANeuralNetworksMemoryDesc* desc, ANeuralNetworksMemory** memory);
/* feature level 4 */
int ANeuralNetworksMemory_copy(const ANeuralNetworksMemory* src, const ANeuralNetworksMemory* dst);
#ifdef __cplusplus
}
#endif
#endif
