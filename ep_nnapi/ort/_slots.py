"""Functions of ONNX Runtime's C API that the plugin uses, by their slots in its tables.

ONNX Runtime only appends to its function tables, so each function has a fixed slot number.
Source: onnxruntime_c_api.h and onnxruntime_ep_c_api.h of onnxruntime 1.25 to 1.32.

_build.py executes this file by path: it must not import the package.
"""

OPAQUE = (
    *("OrtStatus", "OrtValue", "OrtGraph", "OrtNode", "OrtValueInfo", "OrtTypeInfo", "OrtOpAttr"),
    *("OrtTensorTypeAndShapeInfo", "OrtKernelContext", "OrtSessionOptions", "OrtKeyValuePairs"),
    *("OrtHardwareDevice", "OrtEpDevice", "OrtLogger", "OrtEpGraphSupportInfo"),
    *("OrtNodeComputeContext", "OrtDataTransferImpl", "OrtEp", "OrtEpFactory", "OrtEnv"),
    *("OrtSession", "OrtRunOptions"),
    *("OrtEpProfilerImpl", "OrtProfilingEvent", "OrtProfilingEventsContainer"),
    *("OrtNodeComputeInfo", "OrtNodeFusionOptions", "OrtApi", "OrtEpApi", "OrtApiBase"),
    *("OrtModelEditorApi", "OrtModel", "OrtPrepackedWeightsContainer"),
    "OrtEpContextConfig",
    "OrtAllocator",
    "OrtMemoryInfo",
)

ORT_API = {
    0: "OrtStatus *(*CreateStatus)(int, const char *)",
    2: "const char *(*GetErrorMessage)(const OrtStatus *)",
    3: "OrtStatus *(*CreateEnv)(int, const char *, OrtEnv **)",
    8: "OrtStatus *(*CreateSessionFromArray)"
    "(const OrtEnv *, const void *, size_t, const OrtSessionOptions *, OrtSession **)",
    9: "OrtStatus *(*Run)(OrtSession *, const OrtRunOptions *, const char *const *, "
    "const OrtValue *const *, size_t, const char *const *, size_t, OrtValue **)",
    10: "OrtStatus *(*CreateSessionOptions)(OrtSessionOptions **)",
    11: "OrtStatus *(*SetOptimizedModelFilePath)(OrtSessionOptions *, const char *)",
    12: "OrtStatus *(*CloneSessionOptions)(const OrtSessionOptions *, OrtSessionOptions **)",
    15: "OrtStatus *(*DisableProfiling)(OrtSessionOptions *)",
    22: "OrtStatus *(*SetSessionLogSeverityLevel)(OrtSessionOptions *, int)",
    24: "OrtStatus *(*SetIntraOpNumThreads)(OrtSessionOptions *, int)",
    25: "OrtStatus *(*SetInterOpNumThreads)(OrtSessionOptions *, int)",
    33: "OrtStatus *(*SessionGetInputTypeInfo)(const OrtSession *, size_t, OrtTypeInfo **)",
    39: "OrtStatus *(*CreateRunOptions)(OrtRunOptions **)",
    46: "OrtStatus *(*RunOptionsSetTerminate)(OrtRunOptions *)",
    49: "OrtStatus *(*CreateTensorWithDataAsOrtValue)"
    "(const OrtMemoryInfo *, void *, size_t, const int64_t *, size_t, int, OrtValue **)",
    51: "OrtStatus *(*GetTensorMutableData)(OrtValue *, void **)",
    55: "OrtStatus *(*CastTypeInfoToTensorInfo)"
    "(const OrtTypeInfo *, const OrtTensorTypeAndShapeInfo **)",
    56: "OrtStatus *(*GetOnnxTypeFromTypeInfo)(const OrtTypeInfo *, int *)",
    60: "OrtStatus *(*GetTensorElementType)(const OrtTensorTypeAndShapeInfo *, int *)",
    61: "OrtStatus *(*GetDimensionsCount)(const OrtTensorTypeAndShapeInfo *, size_t *)",
    62: "OrtStatus *(*GetDimensions)(const OrtTensorTypeAndShapeInfo *, int64_t *, size_t)",
    63: "OrtStatus *(*GetSymbolicDimensions)"
    "(const OrtTensorTypeAndShapeInfo *, const char **, size_t)",
    69: "OrtStatus *(*CreateCpuMemoryInfo)(int, int, OrtMemoryInfo **)",
    76: "OrtStatus *(*AllocatorFree)(OrtAllocator *, void *)",
    78: "OrtStatus *(*GetAllocatorWithDefaultOptions)(OrtAllocator **)",
    90: "OrtStatus *(*KernelContext_GetInput)(const OrtKernelContext *, size_t, const OrtValue **)",
    91: "OrtStatus *(*KernelContext_GetOutput)"
    "(OrtKernelContext *, size_t, const int64_t *, size_t, OrtValue **)",
    92: "void (*ReleaseEnv)(OrtEnv *)",
    93: "void (*ReleaseStatus)(OrtStatus *)",
    94: "void (*ReleaseMemoryInfo)(OrtMemoryInfo *)",
    95: "void (*ReleaseSession)(OrtSession *)",
    96: "void (*ReleaseValue)(OrtValue *)",
    97: "void (*ReleaseRunOptions)(OrtRunOptions *)",
    98: "void (*ReleaseTypeInfo)(OrtTypeInfo *)",
    100: "void (*ReleaseSessionOptions)(OrtSessionOptions *)",
    130: "OrtStatus *(*AddSessionConfigEntry)(OrtSessionOptions *, const char *, const char *)",
    211: "OrtStatus *(*CreateOpAttr)(const char *, const void *, int, int, OrtOpAttr **)",
    212: "void (*ReleaseOpAttr)(OrtOpAttr *)",
    247: "OrtStatus *(*Logger_LogMessage)"
    "(const OrtLogger *, int, const char *, const char *, int, const char *)",
    272: "OrtStatus *(*ReadOpAttr)(const OrtOpAttr *, int, void *, size_t, size_t *)",
    285: "void (*ReleaseValueInfo)(OrtValueInfo *)",
    287: "void (*ReleaseGraph)(OrtGraph *)",
    288: "void (*ReleaseModel)(OrtModel *)",
    289: "OrtStatus *(*GetValueInfoName)(const OrtValueInfo *, const char **)",
    290: "OrtStatus *(*GetValueInfoTypeInfo)(const OrtValueInfo *, const OrtTypeInfo **)",
    291: "const OrtModelEditorApi *(*GetModelEditorApi)(void)",
    295: "void (*CreateKeyValuePairs)(OrtKeyValuePairs **)",
    296: "void (*AddKeyValuePair)(OrtKeyValuePairs *, const char *, const char *)",
    297: "const char *(*GetKeyValue)(const OrtKeyValuePairs *, const char *)",
    298: "void (*GetKeyValuePairs)(const OrtKeyValuePairs *, const char *const **, "
    "const char *const **, size_t *)",
    300: "void (*ReleaseKeyValuePairs)(OrtKeyValuePairs *)",
    307: "int (*HardwareDevice_Type)(const OrtHardwareDevice *)",
    317: "const OrtEpApi *(*GetEpApi)(void)",
    318: "OrtStatus *(*GetTensorSizeInBytes)(const OrtValue *, size_t *)",
    326: "OrtStatus *(*ValueInfo_GetInitializerValue)(const OrtValueInfo *, const OrtValue **)",
    331: "OrtStatus *(*ValueInfo_IsConstantInitializer)(const OrtValueInfo *, _Bool *)",
    336: "OrtStatus *(*Graph_GetNumOperatorSets)(const OrtGraph *, size_t *)",
    337: "OrtStatus *(*Graph_GetOperatorSets)(const OrtGraph *, const char **, int64_t *, size_t)",
    338: "OrtStatus *(*Graph_GetNumInputs)(const OrtGraph *, size_t *)",
    339: "OrtStatus *(*Graph_GetInputs)(const OrtGraph *, const OrtValueInfo **, size_t)",
    340: "OrtStatus *(*Graph_GetNumOutputs)(const OrtGraph *, size_t *)",
    341: "OrtStatus *(*Graph_GetOutputs)(const OrtGraph *, const OrtValueInfo **, size_t)",
    344: "OrtStatus *(*Graph_GetNumNodes)(const OrtGraph *, size_t *)",
    345: "OrtStatus *(*Graph_GetNodes)(const OrtGraph *, const OrtNode **, size_t)",
    346: "OrtStatus *(*Graph_GetParentNode)(const OrtGraph *, const OrtNode **)",
    348: "OrtStatus *(*Node_GetId)(const OrtNode *, size_t *)",
    349: "OrtStatus *(*Node_GetName)(const OrtNode *, const char **)",
    350: "OrtStatus *(*Node_GetOperatorType)(const OrtNode *, const char **)",
    351: "OrtStatus *(*Node_GetDomain)(const OrtNode *, const char **)",
    352: "OrtStatus *(*Node_GetSinceVersion)(const OrtNode *, int *)",
    353: "OrtStatus *(*Node_GetNumInputs)(const OrtNode *, size_t *)",
    354: "OrtStatus *(*Node_GetInputs)(const OrtNode *, const OrtValueInfo **, size_t)",
    355: "OrtStatus *(*Node_GetNumOutputs)(const OrtNode *, size_t *)",
    356: "OrtStatus *(*Node_GetOutputs)(const OrtNode *, const OrtValueInfo **, size_t)",
    357: "OrtStatus *(*Node_GetNumImplicitInputs)(const OrtNode *, size_t *)",
    358: "OrtStatus *(*Node_GetImplicitInputs)(const OrtNode *, const OrtValueInfo **, size_t)",
    359: "OrtStatus *(*Node_GetNumAttributes)(const OrtNode *, size_t *)",
    360: "OrtStatus *(*Node_GetAttributes)(const OrtNode *, const OrtOpAttr **, size_t)",
    361: "OrtStatus *(*Node_GetAttributeByName)(const OrtNode *, const char *, const OrtOpAttr **)",
    362: "OrtStatus *(*OpAttr_GetTensorAttributeAsOrtValue)(const OrtOpAttr *, OrtValue **)",
    363: "OrtStatus *(*OpAttr_GetType)(const OrtOpAttr *, int *)",
    364: "OrtStatus *(*OpAttr_GetName)(const OrtOpAttr *, const char **)",
    365: "OrtStatus *(*Node_GetNumSubgraphs)(const OrtNode *, size_t *)",
    366: "OrtStatus *(*Node_GetSubgraphs)"
    "(const OrtNode *, const OrtGraph **, size_t, const char **)",
    333: "OrtStatus *(*Graph_GetName)(const OrtGraph *, const char **)",
    334: "OrtStatus *(*Graph_GetModelPath)(const OrtGraph *, const char **)",
    368: "OrtStatus *(*Node_GetEpName)(const OrtNode *, const char **)",
    373: "const char *(*GetRunConfigEntry)(const OrtRunOptions *, const char *)",
    378: "OrtStatus *(*GetTensorData)(const OrtValue *, const void **)",
    379: "OrtStatus *(*GetSessionOptionsConfigEntries)"
    "(const OrtSessionOptions *, OrtKeyValuePairs **)",
    390: "_Bool (*TensorTypeAndShape_HasShape)(const OrtTensorTypeAndShapeInfo *)",
    414: "OrtStatus *(*GetTensorElementTypeAndShapeDataReference)"
    "(const OrtValue *, int *, const int64_t **, size_t *)",
}

ORT_EP_API = {
    0: "OrtStatus *(*CreateEpDevice)(OrtEpFactory *, const OrtHardwareDevice *, "
    "const OrtKeyValuePairs *, const OrtKeyValuePairs *, OrtEpDevice **)",
    1: "void (*ReleaseEpDevice)(OrtEpDevice *)",
    2: "OrtStatus *(*EpGraphSupportInfo_AddNodesToFuse)(OrtEpGraphSupportInfo *, "
    "const OrtNode *const *, size_t, const OrtNodeFusionOptions *)",
    16: "OrtStatus *(*CreateHardwareDevice)(int, uint32_t, uint32_t, const char *, "
    "const OrtKeyValuePairs *, OrtHardwareDevice **)",
    17: "void (*ReleaseHardwareDevice)(OrtHardwareDevice *)",
    49: "OrtStatus *(*GetEnvConfigEntries)(OrtKeyValuePairs **)",
    65: "OrtStatus *(*CreateProfilingEvent)(int, int32_t, int32_t, const char *, int64_t, int64_t, "
    "const char *const *, const char *const *, size_t, OrtProfilingEvent **)",
    66: "void (*ReleaseProfilingEvent)(OrtProfilingEvent *)",
    72: "OrtStatus *(*ProfilingEventsContainer_AddEvents)(OrtProfilingEventsContainer *, "
    "const OrtProfilingEvent *const *, size_t)",
    74: "OrtStatus *(*SessionOptions_GetEpContextConfig)"
    "(const OrtSessionOptions *, OrtEpContextConfig **)",
    75: "void (*ReleaseEpContextConfig)(OrtEpContextConfig *)",
    76: "OrtStatus *(*EpContextConfig_GetEpContextDataReadFunc)"
    "(const OrtEpContextConfig *, OrtReadNamedBufferFunc *, void **)",
    77: "OrtStatus *(*EpContextConfig_GetEpContextDataWriteFunc)"
    "(const OrtEpContextConfig *, OrtWriteNamedBufferFunc *, void **)",
}

FUNCTION_TYPES = (
    "typedef OrtStatus *(*OrtReadNamedBufferFunc)"
    "(void *, const char *, OrtAllocator *, void **, size_t *);",
    "typedef OrtStatus *(*OrtWriteNamedBufferFunc)(void *, const char *, const void *, size_t);",
)

MODEL_EDITOR_API = {
    5: "OrtStatus *(*CreateValueInfo)(const char *, const OrtTypeInfo *, OrtValueInfo **)",
    6: "OrtStatus *(*CreateNode)(const char *, const char *, const char *, const char *const *, "
    "size_t, const char *const *, size_t, OrtOpAttr **, size_t, OrtNode **)",
    7: "OrtStatus *(*CreateGraph)(OrtGraph **)",
    8: "OrtStatus *(*SetGraphInputs)(OrtGraph *, OrtValueInfo **, size_t)",
    10: "OrtStatus *(*AddInitializerToGraph)(OrtGraph *, const char *, OrtValue *, _Bool)",
    12: "OrtStatus *(*CreateModel)(const char *const *, const int *, size_t, OrtModel **)",
    13: "OrtStatus *(*AddGraphToModel)(OrtModel *, OrtGraph *)",
    16: "OrtStatus *(*CreateModelEditorSessionFromArray)"
    "(const OrtEnv *, const void *, size_t, const OrtSessionOptions *, OrtSession **)",
    18: "OrtStatus *(*ApplyModelToModelEditorSession)(OrtSession *, OrtModel *)",
    19: "OrtStatus *(*FinalizeModelEditorSession)"
    "(OrtSession *, const OrtSessionOptions *, OrtPrepackedWeightsContainer *)",
}

ORT_API_BASE = {
    0: "const OrtApi *(*GetApi)(uint32_t)",
    1: "const char *(*GetVersionString)(void)",
}

FACTORY = {
    0: "const char *(*GetName)(const OrtEpFactory *)",
    1: "const char *(*GetVendor)(const OrtEpFactory *)",
    2: "OrtStatus *(*GetSupportedDevices)(OrtEpFactory *, const OrtHardwareDevice *const *, size_t,"
    " OrtEpDevice **, size_t, size_t *)",
    3: "OrtStatus *(*CreateEp)(OrtEpFactory *, const OrtHardwareDevice *const *, "
    "const OrtKeyValuePairs *const *, size_t, const OrtSessionOptions *, const OrtLogger *, "
    "OrtEp **)",
    4: "void (*ReleaseEp)(OrtEpFactory *, OrtEp *)",
    5: "uint32_t (*GetVendorId)(const OrtEpFactory *)",
    6: "const char *(*GetVersion)(const OrtEpFactory *)",
    7: "OrtStatus *(*ValidateCompiledModelCompatibilityInfo)"
    "(OrtEpFactory *, const OrtHardwareDevice *const *, size_t, const char *, int *)",
    10: "OrtStatus *(*CreateDataTransfer)(OrtEpFactory *, OrtDataTransferImpl **)",
    19: "void *SelectBestModelCandidate",
}

EP = {
    0: "const char *(*GetName)(const OrtEp *)",
    1: "OrtStatus *(*GetCapability)(OrtEp *, const OrtGraph *, OrtEpGraphSupportInfo *)",
    2: "OrtStatus *(*Compile)(OrtEp *, const OrtGraph **, const OrtNode **, size_t, "
    "OrtNodeComputeInfo **, OrtNode **)",
    3: "void (*ReleaseNodeComputeInfos)(OrtEp *, OrtNodeComputeInfo **, size_t)",
    6: "OrtStatus *(*SetDynamicOptions)(OrtEp *, const char *const *, const char *const *, size_t)",
    7: "OrtStatus *(*OnRunStart)(OrtEp *, const OrtRunOptions *)",
    8: "OrtStatus *(*OnRunEnd)(OrtEp *, const OrtRunOptions *, _Bool)",
    11: "const char *(*GetCompiledModelCompatibilityInfo)(OrtEp *, const OrtGraph *)",
    15: "OrtStatus *(*CreateProfiler)(OrtEp *, OrtEpProfilerImpl **)",
    21: "OrtStatus *(*OnSessionInitializationEnd)(OrtEp *)",
    24: "void *GetWeightlessSupport",
    25: "OrtStatus *(*GetEpContextDataSupport)(const OrtEp *, uint32_t *)",
}

COMPUTE = {
    0: "OrtStatus *(*CreateState)(OrtNodeComputeInfo *, OrtNodeComputeContext *, void **)",
    1: "OrtStatus *(*Compute)(OrtNodeComputeInfo *, void *, OrtKernelContext *)",
    2: "void (*ReleaseState)(OrtNodeComputeInfo *, void *)",
}
