/* ONNX Runtime's tables of functions, which it only appends to: each function has a slot for ever.
 * Slots that nothing here calls are declared as `unused`, by the number of the first one.
 * Both plugins are compiled with this file; ep_nnapi/ort/_build.py hands its types to cffi too.
 *
 * Source: onnxruntime_c_api.h and onnxruntime_ep_c_api.h of onnxruntime 1.25 to 1.32. */
#ifndef NNAPI_ORT_API_H
#define NNAPI_ORT_API_H

#include <stddef.h>
#include <stdint.h>

typedef struct OrtStatus OrtStatus;
typedef struct OrtValue OrtValue;
typedef struct OrtGraph OrtGraph;
typedef struct OrtNode OrtNode;
typedef struct OrtValueInfo OrtValueInfo;
typedef struct OrtTypeInfo OrtTypeInfo;
typedef struct OrtExternalInitializerInfo OrtExternalInitializerInfo;
typedef struct OrtOpAttr OrtOpAttr;
typedef struct OrtTensorTypeAndShapeInfo OrtTensorTypeAndShapeInfo;
typedef struct OrtKernelContext OrtKernelContext;
typedef struct OrtSessionOptions OrtSessionOptions;
typedef struct OrtKeyValuePairs OrtKeyValuePairs;
typedef struct OrtHardwareDevice OrtHardwareDevice;
typedef struct OrtEpDevice OrtEpDevice;
typedef struct OrtLogger OrtLogger;
typedef struct OrtEpGraphSupportInfo OrtEpGraphSupportInfo;
typedef struct OrtNodeComputeContext OrtNodeComputeContext;
typedef struct OrtDataTransferImpl OrtDataTransferImpl;
typedef struct OrtEp OrtEp;
typedef struct OrtEpFactory OrtEpFactory;
typedef struct OrtEnv OrtEnv;
typedef struct OrtSession OrtSession;
typedef struct OrtRunOptions OrtRunOptions;
typedef struct OrtEpProfilerImpl OrtEpProfilerImpl;
typedef struct OrtProfilingEvent OrtProfilingEvent;
typedef struct OrtProfilingEventsContainer OrtProfilingEventsContainer;
typedef struct OrtNodeComputeInfo OrtNodeComputeInfo;
typedef struct OrtNodeFusionOptions OrtNodeFusionOptions;
typedef struct OrtApi OrtApi;
typedef struct OrtEpApi OrtEpApi;
typedef struct OrtApiBase OrtApiBase;
typedef struct OrtModelEditorApi OrtModelEditorApi;
typedef struct OrtModel OrtModel;
typedef struct OrtPrepackedWeightsContainer OrtPrepackedWeightsContainer;
typedef struct OrtEpContextConfig OrtEpContextConfig;
typedef struct OrtAllocator OrtAllocator;
typedef struct OrtMemoryInfo OrtMemoryInfo;
typedef struct OrtCustomHandleType OrtCustomHandleType; /* a thread of the application's */
typedef void (*OrtThreadWorkerFn)(void *);
typedef OrtCustomHandleType *(*OrtCustomCreateThreadFn)(void *, OrtThreadWorkerFn, void *);
typedef void (*OrtCustomJoinThreadFn)(OrtCustomHandleType *);
typedef OrtStatus *(*OrtReadNamedBufferFunc)(void *, const char *, OrtAllocator *, void **,
                                             size_t *);
typedef OrtStatus *(*OrtWriteNamedBufferFunc)(void *, const char *, const void *, size_t);

struct OrtApi {
  OrtStatus *(*CreateStatus)(int, const char *);
  void *unused1[1];
  const char *(*GetErrorMessage)(const OrtStatus *);
  OrtStatus *(*CreateEnv)(int, const char *, OrtEnv **);
  void *unused4[4];
  OrtStatus *(*CreateSessionFromArray)(const OrtEnv *, const void *, size_t,
                                       const OrtSessionOptions *, OrtSession **);
  OrtStatus *(*Run)(OrtSession *, const OrtRunOptions *, const char *const *,
                    const OrtValue *const *, size_t, const char *const *, size_t, OrtValue **);
  OrtStatus *(*CreateSessionOptions)(OrtSessionOptions **);
  OrtStatus *(*SetOptimizedModelFilePath)(OrtSessionOptions *, const char *);
  OrtStatus *(*CloneSessionOptions)(const OrtSessionOptions *, OrtSessionOptions **);
  void *unused13[2];
  OrtStatus *(*DisableProfiling)(OrtSessionOptions *);
  void *unused16[6];
  OrtStatus *(*SetSessionLogSeverityLevel)(OrtSessionOptions *, int);
  void *unused23[1];
  OrtStatus *(*SetIntraOpNumThreads)(OrtSessionOptions *, int);
  OrtStatus *(*SetInterOpNumThreads)(OrtSessionOptions *, int);
  void *unused26[7];
  OrtStatus *(*SessionGetInputTypeInfo)(const OrtSession *, size_t, OrtTypeInfo **);
  void *unused34[5];
  OrtStatus *(*CreateRunOptions)(OrtRunOptions **);
  void *unused40[6];
  OrtStatus *(*RunOptionsSetTerminate)(OrtRunOptions *);
  void *unused47[2];
  OrtStatus *(*CreateTensorWithDataAsOrtValue)(const OrtMemoryInfo *, void *, size_t,
                                               const int64_t *, size_t, int, OrtValue **);
  void *unused50[1];
  OrtStatus *(*GetTensorMutableData)(OrtValue *, void **);
  void *unused52[3];
  OrtStatus *(*CastTypeInfoToTensorInfo)(const OrtTypeInfo *, const OrtTensorTypeAndShapeInfo **);
  OrtStatus *(*GetOnnxTypeFromTypeInfo)(const OrtTypeInfo *, int *);
  void *unused57[3];
  OrtStatus *(*GetTensorElementType)(const OrtTensorTypeAndShapeInfo *, int *);
  OrtStatus *(*GetDimensionsCount)(const OrtTensorTypeAndShapeInfo *, size_t *);
  OrtStatus *(*GetDimensions)(const OrtTensorTypeAndShapeInfo *, int64_t *, size_t);
  OrtStatus *(*GetSymbolicDimensions)(const OrtTensorTypeAndShapeInfo *, const char **, size_t);
  void *unused64[5];
  OrtStatus *(*CreateCpuMemoryInfo)(int, int, OrtMemoryInfo **);
  void *unused70[6];
  OrtStatus *(*AllocatorFree)(OrtAllocator *, void *);
  void *unused77[1];
  OrtStatus *(*GetAllocatorWithDefaultOptions)(OrtAllocator **);
  void *unused79[1];
  OrtStatus *(*GetValue)(const OrtValue *, int, OrtAllocator *, OrtValue **);
  void *unused81[1];
  OrtStatus *(*CreateValue)(const OrtValue *const *, size_t, int, OrtValue **);
  void *unused83[7];
  OrtStatus *(*KernelContext_GetInput)(const OrtKernelContext *, size_t, const OrtValue **);
  OrtStatus *(*KernelContext_GetOutput)(OrtKernelContext *, size_t, const int64_t *, size_t,
                                        OrtValue **);
  void (*ReleaseEnv)(OrtEnv *);
  void (*ReleaseStatus)(OrtStatus *);
  void (*ReleaseMemoryInfo)(OrtMemoryInfo *);
  void (*ReleaseSession)(OrtSession *);
  void (*ReleaseValue)(OrtValue *);
  void (*ReleaseRunOptions)(OrtRunOptions *);
  void (*ReleaseTypeInfo)(OrtTypeInfo *);
  void *unused99[1];
  void (*ReleaseSessionOptions)(OrtSessionOptions *);
  void *unused101[29];
  OrtStatus *(*AddSessionConfigEntry)(OrtSessionOptions *, const char *, const char *);
  void *unused131[65];
  OrtStatus *(*SessionOptionsSetCustomCreateThreadFn)(OrtSessionOptions *, OrtCustomCreateThreadFn);
  OrtStatus *(*SessionOptionsSetCustomThreadCreationOptions)(OrtSessionOptions *, void *);
  OrtStatus *(*SessionOptionsSetCustomJoinThreadFn)(OrtSessionOptions *, OrtCustomJoinThreadFn);
  void *unused199[12];
  OrtStatus *(*CreateOpAttr)(const char *, const void *, int, int, OrtOpAttr **);
  void (*ReleaseOpAttr)(OrtOpAttr *);
  void *unused213[34];
  OrtStatus *(*Logger_LogMessage)(const OrtLogger *, int, const char *, const char *, int,
                                  const char *);
  void *unused248[24];
  OrtStatus *(*ReadOpAttr)(const OrtOpAttr *, int, void *, size_t, size_t *);
  void *unused273[6];
  OrtStatus *(*AddExternalInitializersFromFilesInMemory)(OrtSessionOptions *, const char *const *,
                                                         char *const *, const size_t *, size_t);
  void *unused280[5];
  void (*ReleaseValueInfo)(OrtValueInfo *);
  void *unused286[1];
  void (*ReleaseGraph)(OrtGraph *);
  void (*ReleaseModel)(OrtModel *);
  OrtStatus *(*GetValueInfoName)(const OrtValueInfo *, const char **);
  OrtStatus *(*GetValueInfoTypeInfo)(const OrtValueInfo *, const OrtTypeInfo **);
  const OrtModelEditorApi *(*GetModelEditorApi)(void);
  void *unused292[3];
  void (*CreateKeyValuePairs)(OrtKeyValuePairs **);
  void (*AddKeyValuePair)(OrtKeyValuePairs *, const char *, const char *);
  const char *(*GetKeyValue)(const OrtKeyValuePairs *, const char *);
  void (*GetKeyValuePairs)(const OrtKeyValuePairs *, const char *const **, const char *const **,
                           size_t *);
  void *unused299[1];
  void (*ReleaseKeyValuePairs)(OrtKeyValuePairs *);
  void *unused301[6];
  int (*HardwareDevice_Type)(const OrtHardwareDevice *);
  void *unused308[9];
  const OrtEpApi *(*GetEpApi)(void);
  OrtStatus *(*GetTensorSizeInBytes)(const OrtValue *, size_t *);
  void *unused319[7];
  OrtStatus *(*ValueInfo_GetInitializerValue)(const OrtValueInfo *, const OrtValue **);
  OrtStatus *(*ValueInfo_GetExternalInitializerInfo)(const OrtValueInfo *,
                                                     OrtExternalInitializerInfo **);
  void *unused328[3];
  OrtStatus *(*ValueInfo_IsConstantInitializer)(const OrtValueInfo *, _Bool *);
  void *unused332[1];
  OrtStatus *(*Graph_GetName)(const OrtGraph *, const char **);
  OrtStatus *(*Graph_GetModelPath)(const OrtGraph *, const char **);
  void *unused335[1];
  OrtStatus *(*Graph_GetNumOperatorSets)(const OrtGraph *, size_t *);
  OrtStatus *(*Graph_GetOperatorSets)(const OrtGraph *, const char **, int64_t *, size_t);
  OrtStatus *(*Graph_GetNumInputs)(const OrtGraph *, size_t *);
  OrtStatus *(*Graph_GetInputs)(const OrtGraph *, const OrtValueInfo **, size_t);
  OrtStatus *(*Graph_GetNumOutputs)(const OrtGraph *, size_t *);
  OrtStatus *(*Graph_GetOutputs)(const OrtGraph *, const OrtValueInfo **, size_t);
  void *unused342[2];
  OrtStatus *(*Graph_GetNumNodes)(const OrtGraph *, size_t *);
  OrtStatus *(*Graph_GetNodes)(const OrtGraph *, const OrtNode **, size_t);
  OrtStatus *(*Graph_GetParentNode)(const OrtGraph *, const OrtNode **);
  void *unused347[1];
  OrtStatus *(*Node_GetId)(const OrtNode *, size_t *);
  OrtStatus *(*Node_GetName)(const OrtNode *, const char **);
  OrtStatus *(*Node_GetOperatorType)(const OrtNode *, const char **);
  OrtStatus *(*Node_GetDomain)(const OrtNode *, const char **);
  OrtStatus *(*Node_GetSinceVersion)(const OrtNode *, int *);
  OrtStatus *(*Node_GetNumInputs)(const OrtNode *, size_t *);
  OrtStatus *(*Node_GetInputs)(const OrtNode *, const OrtValueInfo **, size_t);
  OrtStatus *(*Node_GetNumOutputs)(const OrtNode *, size_t *);
  OrtStatus *(*Node_GetOutputs)(const OrtNode *, const OrtValueInfo **, size_t);
  OrtStatus *(*Node_GetNumImplicitInputs)(const OrtNode *, size_t *);
  OrtStatus *(*Node_GetImplicitInputs)(const OrtNode *, const OrtValueInfo **, size_t);
  OrtStatus *(*Node_GetNumAttributes)(const OrtNode *, size_t *);
  OrtStatus *(*Node_GetAttributes)(const OrtNode *, const OrtOpAttr **, size_t);
  OrtStatus *(*Node_GetAttributeByName)(const OrtNode *, const char *, const OrtOpAttr **);
  OrtStatus *(*OpAttr_GetTensorAttributeAsOrtValue)(const OrtOpAttr *, OrtValue **);
  OrtStatus *(*OpAttr_GetType)(const OrtOpAttr *, int *);
  OrtStatus *(*OpAttr_GetName)(const OrtOpAttr *, const char **);
  OrtStatus *(*Node_GetNumSubgraphs)(const OrtNode *, size_t *);
  OrtStatus *(*Node_GetSubgraphs)(const OrtNode *, const OrtGraph **, size_t, const char **);
  void *unused367[1];
  OrtStatus *(*Node_GetEpName)(const OrtNode *, const char **);
  void (*ReleaseExternalInitializerInfo)(OrtExternalInitializerInfo *);
  const char *(*ExternalInitializerInfo_GetFilePath)(const OrtExternalInitializerInfo *);
  int64_t (*ExternalInitializerInfo_GetFileOffset)(const OrtExternalInitializerInfo *);
  void *unused372[1];
  const char *(*GetRunConfigEntry)(const OrtRunOptions *, const char *);
  void *unused374[4];
  OrtStatus *(*GetTensorData)(const OrtValue *, const void **);
  OrtStatus *(*GetSessionOptionsConfigEntries)(const OrtSessionOptions *, OrtKeyValuePairs **);
  void *unused380[10];
  _Bool (*TensorTypeAndShape_HasShape)(const OrtTensorTypeAndShapeInfo *);
  void *unused391[23];
  OrtStatus *(*GetTensorElementTypeAndShapeDataReference)(const OrtValue *, int *, const int64_t **,
                                                          size_t *);
};

struct OrtEpApi {
  OrtStatus *(*CreateEpDevice)(OrtEpFactory *, const OrtHardwareDevice *, const OrtKeyValuePairs *,
                               const OrtKeyValuePairs *, OrtEpDevice **);
  void (*ReleaseEpDevice)(OrtEpDevice *);
  OrtStatus *(*EpGraphSupportInfo_AddNodesToFuse)(OrtEpGraphSupportInfo *, const OrtNode *const *,
                                                  size_t, const OrtNodeFusionOptions *);
  void *unused3[13];
  OrtStatus *(*CreateHardwareDevice)(int, uint32_t, uint32_t, const char *,
                                     const OrtKeyValuePairs *, OrtHardwareDevice **);
  void (*ReleaseHardwareDevice)(OrtHardwareDevice *);
  void *unused18[31];
  OrtStatus *(*GetEnvConfigEntries)(OrtKeyValuePairs **);
  void *unused50[15];
  OrtStatus *(*CreateProfilingEvent)(int, int32_t, int32_t, const char *, int64_t, int64_t,
                                     const char *const *, const char *const *, size_t,
                                     OrtProfilingEvent **);
  void (*ReleaseProfilingEvent)(OrtProfilingEvent *);
  void *unused67[5];
  OrtStatus *(*ProfilingEventsContainer_AddEvents)(OrtProfilingEventsContainer *,
                                                   const OrtProfilingEvent *const *, size_t);
  void *unused73[1];
  OrtStatus *(*SessionOptions_GetEpContextConfig)(const OrtSessionOptions *, OrtEpContextConfig **);
  void (*ReleaseEpContextConfig)(OrtEpContextConfig *);
  OrtStatus *(*EpContextConfig_GetEpContextDataReadFunc)(const OrtEpContextConfig *,
                                                         OrtReadNamedBufferFunc *, void **);
  OrtStatus *(*EpContextConfig_GetEpContextDataWriteFunc)(const OrtEpContextConfig *,
                                                          OrtWriteNamedBufferFunc *, void **);
};

struct OrtModelEditorApi {
  void *unused0[5];
  OrtStatus *(*CreateValueInfo)(const char *, const OrtTypeInfo *, OrtValueInfo **);
  OrtStatus *(*CreateNode)(const char *, const char *, const char *, const char *const *, size_t,
                           const char *const *, size_t, OrtOpAttr **, size_t, OrtNode **);
  OrtStatus *(*CreateGraph)(OrtGraph **);
  OrtStatus *(*SetGraphInputs)(OrtGraph *, OrtValueInfo **, size_t);
  void *unused9[1];
  OrtStatus *(*AddInitializerToGraph)(OrtGraph *, const char *, OrtValue *, _Bool);
  void *unused11[1];
  OrtStatus *(*CreateModel)(const char *const *, const int *, size_t, OrtModel **);
  OrtStatus *(*AddGraphToModel)(OrtModel *, OrtGraph *);
  void *unused14[2];
  OrtStatus *(*CreateModelEditorSessionFromArray)(const OrtEnv *, const void *, size_t,
                                                  const OrtSessionOptions *, OrtSession **);
  void *unused17[1];
  OrtStatus *(*ApplyModelToModelEditorSession)(OrtSession *, OrtModel *);
  OrtStatus *(*FinalizeModelEditorSession)(OrtSession *, const OrtSessionOptions *,
                                           OrtPrepackedWeightsContainer *);
};

struct OrtApiBase {
  const OrtApi *(*GetApi)(uint32_t);
  const char *(*GetVersionString)(void);
};

struct OrtEpFactory {
  uint32_t ort_version_supported;
  const char *(*GetName)(const OrtEpFactory *);
  const char *(*GetVendor)(const OrtEpFactory *);
  OrtStatus *(*GetSupportedDevices)(OrtEpFactory *, const OrtHardwareDevice *const *, size_t,
                                    OrtEpDevice **, size_t, size_t *);
  OrtStatus *(*CreateEp)(OrtEpFactory *, const OrtHardwareDevice *const *,
                         const OrtKeyValuePairs *const *, size_t, const OrtSessionOptions *,
                         const OrtLogger *, OrtEp **);
  void (*ReleaseEp)(OrtEpFactory *, OrtEp *);
  uint32_t (*GetVendorId)(const OrtEpFactory *);
  const char *(*GetVersion)(const OrtEpFactory *);
  OrtStatus *(*ValidateCompiledModelCompatibilityInfo)(OrtEpFactory *,
                                                       const OrtHardwareDevice *const *, size_t,
                                                       const char *, int *);
  void *unused8[2];
  OrtStatus *(*CreateDataTransfer)(OrtEpFactory *, OrtDataTransferImpl **);
  void *unused11[8];
  void *SelectBestModelCandidate;
};

struct OrtEp {
  uint32_t ort_version_supported;
  const char *(*GetName)(const OrtEp *);
  OrtStatus *(*GetCapability)(OrtEp *, const OrtGraph *, OrtEpGraphSupportInfo *);
  OrtStatus *(*Compile)(OrtEp *, const OrtGraph **, const OrtNode **, size_t, OrtNodeComputeInfo **,
                        OrtNode **);
  void (*ReleaseNodeComputeInfos)(OrtEp *, OrtNodeComputeInfo **, size_t);
  void *unused4[2];
  OrtStatus *(*SetDynamicOptions)(OrtEp *, const char *const *, const char *const *, size_t);
  OrtStatus *(*OnRunStart)(OrtEp *, const OrtRunOptions *);
  OrtStatus *(*OnRunEnd)(OrtEp *, const OrtRunOptions *, _Bool);
  void *unused9[2];
  const char *(*GetCompiledModelCompatibilityInfo)(OrtEp *, const OrtGraph *);
  void *unused12[3];
  OrtStatus *(*CreateProfiler)(OrtEp *, OrtEpProfilerImpl **);
  void *unused16[5];
  OrtStatus *(*OnSessionInitializationEnd)(OrtEp *);
  void *unused22[2];
  void *GetWeightlessSupport;
  OrtStatus *(*GetEpContextDataSupport)(const OrtEp *, uint32_t *);
};

struct OrtNodeComputeInfo {
  uint32_t ort_version_supported;
  OrtStatus *(*CreateState)(OrtNodeComputeInfo *, OrtNodeComputeContext *, void **);
  OrtStatus *(*Compute)(OrtNodeComputeInfo *, void *, OrtKernelContext *);
  void (*ReleaseState)(OrtNodeComputeInfo *, void *);
};

struct OrtNodeFusionOptions {
  uint32_t ort_version_supported;
  _Bool drop_constant_initializers;
};

#endif
