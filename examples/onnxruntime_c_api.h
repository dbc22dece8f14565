/*
 * The part of ONNX Runtime's C API that the examples call, for machines that have onnxruntime only
 * as a Python wheel, which has the library and no header. ONNX Runtime's own header of this name
 * works in its place: the examples are written against that.
 *
 * OrtApi is a table of functions to which ONNX Runtime only appends: the number behind a gap is the
 * slot of the function after it.
 * Source: onnxruntime_c_api.h of onnxruntime 1.25 to 1.31.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ORT_API_VERSION 25
#define ORTCHAR_T char

typedef enum OrtLoggingLevel {
    ORT_LOGGING_LEVEL_VERBOSE,
    ORT_LOGGING_LEVEL_INFO,
    ORT_LOGGING_LEVEL_WARNING,
    ORT_LOGGING_LEVEL_ERROR,
    ORT_LOGGING_LEVEL_FATAL
} OrtLoggingLevel;
typedef enum ONNXTensorElementDataType {
    ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED,
    ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT
} ONNXTensorElementDataType;
typedef enum OrtAllocatorType { OrtDeviceAllocator, OrtArenaAllocator } OrtAllocatorType;
typedef enum OrtMemType { OrtMemTypeCPU = -1, OrtMemTypeDefault = 0 } OrtMemType;

typedef struct OrtStatus OrtStatus;
typedef struct OrtEnv OrtEnv;
typedef struct OrtSessionOptions OrtSessionOptions;
typedef struct OrtSession OrtSession;
typedef struct OrtRunOptions OrtRunOptions;
typedef struct OrtMemoryInfo OrtMemoryInfo;
typedef struct OrtValue OrtValue;
typedef struct OrtTensorTypeAndShapeInfo OrtTensorTypeAndShapeInfo;
typedef struct OrtEpDevice OrtEpDevice;

typedef struct OrtApi {
    void *gap0[2]; /* 2 */
    const char *(*GetErrorMessage)(const OrtStatus *);
    OrtStatus *(*CreateEnv)(OrtLoggingLevel, const char *, OrtEnv **);
    void *gap4[3]; /* 7 */
    OrtStatus *(*CreateSession)(const OrtEnv *, const ORTCHAR_T *, const OrtSessionOptions *,
                                OrtSession **);
    void *gap8[1]; /* 9 */
    OrtStatus *(*Run)(OrtSession *, const OrtRunOptions *, const char *const *,
                      const OrtValue *const *, size_t, const char *const *, size_t, OrtValue **);
    OrtStatus *(*CreateSessionOptions)(OrtSessionOptions **);
    void *gap11[38]; /* 49 */
    OrtStatus *(*CreateTensorWithDataAsOrtValue)(const OrtMemoryInfo *, void *, size_t,
                                                 const int64_t *, size_t,
                                                 ONNXTensorElementDataType, OrtValue **);
    void *gap50[1]; /* 51 */
    OrtStatus *(*GetTensorMutableData)(OrtValue *, void **);
    void *gap52[12]; /* 64 */
    OrtStatus *(*GetTensorShapeElementCount)(const OrtTensorTypeAndShapeInfo *, size_t *);
    OrtStatus *(*GetTensorTypeAndShape)(const OrtValue *, OrtTensorTypeAndShapeInfo **);
    void *gap66[3]; /* 69 */
    OrtStatus *(*CreateCpuMemoryInfo)(OrtAllocatorType, OrtMemType, OrtMemoryInfo **);
    void *gap70[22]; /* 92 */
    void (*ReleaseEnv)(OrtEnv *);
    void (*ReleaseStatus)(OrtStatus *);
    void (*ReleaseMemoryInfo)(OrtMemoryInfo *);
    void (*ReleaseSession)(OrtSession *);
    void (*ReleaseValue)(OrtValue *);
    void *gap97[2]; /* 99 */
    void (*ReleaseTensorTypeAndShapeInfo)(OrtTensorTypeAndShapeInfo *);
    void (*ReleaseSessionOptions)(OrtSessionOptions *);
    void *gap101[200]; /* 301 */
    OrtStatus *(*RegisterExecutionProviderLibrary)(OrtEnv *, const char *, const ORTCHAR_T *);
    OrtStatus *(*UnregisterExecutionProviderLibrary)(OrtEnv *, const char *);
    OrtStatus *(*GetEpDevices)(const OrtEnv *, const OrtEpDevice *const **, size_t *);
    OrtStatus *(*SessionOptionsAppendExecutionProvider_V2)(OrtSessionOptions *, OrtEnv *,
                                                           const OrtEpDevice *const *, size_t,
                                                           const char *const *,
                                                           const char *const *, size_t);
    void *gap305[7]; /* 312 */
    const char *(*EpDevice_EpName)(const OrtEpDevice *);
} OrtApi;

typedef struct OrtApiBase {
    const OrtApi *(*GetApi)(uint32_t);
    const char *(*GetVersionString)(void);
} OrtApiBase;

const OrtApiBase *OrtGetApiBase(void);

#ifdef __cplusplus
}
#endif
