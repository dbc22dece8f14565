"""List of the 75 functions of NNAPI's C API, from which headers and bindings are generated.

Names omit the prefix ANeuralNetworks; the number is the feature level that added a function, and
+ says that a library of that level must have it to be used at that level by `nnapi.library`; an
argument with ? after its name may be null.
Source: NeuralNetworks.h and NeuralNetworksTypes.h of the NDK. The build executes this file by
path: it must import nothing of the package.
"""

import re
from typing import NamedTuple

_FUNCTIONS = """
3+ int _getDeviceCount(uint32_t* numDevices);
3+ int _getDevice(uint32_t devIndex, Device** device);
4 uint64_t _getDefaultLoopTimeout();
4 uint64_t _getMaximumLoopTimeout();
5+ int64_t _getRuntimeFeatureLevel();

3+ int Device_getName(const Device* device, const char** name);
3+ int Device_getType(const Device* device, int32_t* type);
3+ int Device_getVersion(const Device* device, const char** version);
3+ int Device_getFeatureLevel(const Device* device, int64_t* featureLevel);
3 int Device_getExtensionSupport(const Device* device, const char* extensionName,
                                 bool* isExtensionSupported);
4 int Device_wait(const Device* device);

1+ int Model_create(Model** model);
1+ void Model_free(Model* model);
1+ int Model_finish(Model* model);
1+ int Model_addOperand(Model* model, const OperandType* type);
1+ int Model_setOperandValue(Model* model, int32_t index, const void* buffer?, size_t length);
1+ int Model_setOperandValueFromMemory(Model* model, int32_t index, const Memory* memory,
                                      size_t offset, size_t length);
1+ int Model_addOperation(Model* model, OperationType type, uint32_t inputCount,
                         const uint32_t* inputs, uint32_t outputCount, const uint32_t* outputs);
1+ int Model_identifyInputsAndOutputs(Model* model, uint32_t inputCount, const uint32_t* inputs,
                                     uint32_t outputCount, const uint32_t* outputs);
2+ int Model_relaxComputationFloat32toFloat16(Model* model, bool allow);
3+ int Model_getSupportedOperationsForDevices(const Model* model, const Device* const* devices,
                                             uint32_t numDevices, bool* supportedOps);
3+ int Model_setOperandSymmPerChannelQuantParams(Model* model, int32_t index,
                                                const SymmPerChannelQuantParams* channelQuant);
3 int Model_getExtensionOperandType(Model* model, const char* extensionName,
                                    uint16_t operandCodeWithinExtension, int32_t* type);
3 int Model_getExtensionOperationType(Model* model, const char* extensionName,
                                      uint16_t operationCodeWithinExtension, OperationType* type);
3 int Model_setOperandExtensionData(Model* model, int32_t index, const void* data?, size_t length);
4+ int Model_setOperandValueFromModel(Model* model, int32_t index, const Model* value);

1+ int Compilation_create(Model* model, Compilation** compilation);
1+ void Compilation_free(Compilation* compilation);
1+ int Compilation_setPreference(Compilation* compilation, int32_t preference);
1+ int Compilation_finish(Compilation* compilation);
3+ int Compilation_createForDevices(Model* model, const Device* const* devices,
                                   uint32_t numDevices, Compilation** compilation);
3 int Compilation_setCaching(Compilation* compilation, const char* cacheDir,
                             const uint8_t* token);
4 int Compilation_setPriority(Compilation* compilation, int priority);
4 int Compilation_setTimeout(Compilation* compilation, uint64_t duration);
5 int Compilation_getPreferredMemoryAlignmentForInput(const Compilation* compilation,
                                                      uint32_t index, uint32_t* alignment);
5 int Compilation_getPreferredMemoryPaddingForInput(const Compilation* compilation,
                                                    uint32_t index, uint32_t* padding);
5 int Compilation_getPreferredMemoryAlignmentForOutput(const Compilation* compilation,
                                                       uint32_t index, uint32_t* alignment);
5 int Compilation_getPreferredMemoryPaddingForOutput(const Compilation* compilation,
                                                     uint32_t index, uint32_t* padding);
8 int Compilation_addExtensionAttribute(Compilation* compilation, const char* extensionName,
                                        uint16_t attributeCodeWithinExtension,
                                        const void* data?, size_t length);

1+ int Execution_create(Compilation* compilation, Execution** execution);
1+ void Execution_free(Execution* execution);
1+ int Execution_setInput(Execution* execution, int32_t index, const OperandType* type?,
                         const void* buffer?, size_t length);
1 int Execution_setInputFromMemory(Execution* execution, int32_t index, const OperandType* type?,
                                   const Memory* memory, size_t offset, size_t length);
1+ int Execution_setOutput(Execution* execution, int32_t index, const OperandType* type?,
                          void* buffer?, size_t length);
1 int Execution_setOutputFromMemory(Execution* execution, int32_t index, const OperandType* type?,
                                    const Memory* memory, size_t offset, size_t length);
1+ int Execution_startCompute(Execution* execution, Event** event);
3 int Execution_compute(Execution* execution);
3+ int Execution_getOutputOperandRank(Execution* execution, int32_t index, uint32_t* rank);
3+ int Execution_getOutputOperandDimensions(Execution* execution, int32_t index,
                                           uint32_t* dimensions);
3 int Execution_burstCompute(Execution* execution, Burst* burst);
3 int Execution_setMeasureTiming(Execution* execution, bool measure);
3 int Execution_getDuration(const Execution* execution, int32_t durationCode,
                            uint64_t* duration);
4 int Execution_setTimeout(Execution* execution, uint64_t duration);
4 int Execution_setLoopTimeout(Execution* execution, uint64_t duration);
4 int Execution_startComputeWithDependencies(Execution* execution,
                                             const Event* const* dependencies?,
                                             uint32_t num_dependencies, uint64_t duration,
                                             Event** event);
5 int Execution_enableInputAndOutputPadding(Execution* execution, bool enable);
5 int Execution_setReusable(Execution* execution, bool reusable);
8 int Execution_addExtensionAttribute(Execution* execution, const char* extensionName,
                                      uint16_t attributeCodeWithinExtension,
                                      const void* data?, size_t length);

3 int Burst_create(Compilation* compilation, Burst** burst);
3 void Burst_free(Burst* burst);

1+ int Event_wait(Event* event);
1+ void Event_free(Event* event);
4 int Event_createFromSyncFenceFd(int sync_fence_fd, Event** event);
4 int Event_getSyncFenceFd(const Event* event, int* sync_fence_fd);

4 int MemoryDesc_create(MemoryDesc** desc);
4 void MemoryDesc_free(MemoryDesc* desc);
4 int MemoryDesc_addInputRole(MemoryDesc* desc, const Compilation* compilation, uint32_t index,
                              float frequency);
4 int MemoryDesc_addOutputRole(MemoryDesc* desc, const Compilation* compilation, uint32_t index,
                               float frequency);
4 int MemoryDesc_setDimensions(MemoryDesc* desc, uint32_t rank, const uint32_t* dimensions?);
4 int MemoryDesc_finish(MemoryDesc* desc);

1+ int Memory_createFromFd(size_t size, int protect, int fd, size_t offset, Memory** memory);
1+ void Memory_free(Memory* memory);
3 int Memory_createFromAHardwareBuffer(const AHardwareBuffer* ahwb?, Memory** memory);
4 int Memory_createFromDesc(const MemoryDesc* desc, Memory** memory);
4 int Memory_copy(const Memory* src, const Memory* dst);
"""

PREFIX = "ANeuralNetworks"
OBJECTS = ("Device", "Model", "Compilation", "Execution", "Burst", "Event", "MemoryDesc", "Memory")
STRUCTS = """
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
"""
OPERATION_TYPE = "int32_t"
_OPAQUE = re.compile(rf"(?:const )?({'|'.join(OBJECTS)}|AHardwareBuffer)\*(?: const)?(\*?)$")
_OWN = re.compile(rf"\b({'|'.join(OBJECTS)}|OperandType|SymmPerChannelQuantParams|OperationType)\b")
_DECLARATION = re.compile(r"(\d)(\+?) (\w+) (\w+)\((.*)\)$")


class Parameter(NamedTuple):
    """One parameter; `type` is as in the header, without the prefix."""

    type: str
    name: str
    optional: bool = False

    @property
    def public(self) -> str:
        """The parameter's declaration in the header."""
        return f"{public_type(self.type)} {self.name}"

    @property
    def adapter_type(self) -> str:
        """The parameter's type on the Python side; handles are integers, never dereferenced."""
        opaque = _OPAQUE.match(self.type)
        plain = self.type.replace("OperationType", OPERATION_TYPE)
        return f"uintptr_t{opaque[2]}" if opaque else public_type(plain)

    @property
    def kind(self) -> str:
        """The kind of object whose handle, or pointer to handles, it is; "" for all else."""
        opaque = _OPAQUE.match(self.type)
        return opaque[1] if opaque else ""


class Function(NamedTuple):
    """One function; `name` is without the prefix, `needed` as in the list above."""

    level: int
    returns: str
    name: str
    parameters: tuple[Parameter, ...]
    needed: bool = False

    @property
    def c_name(self) -> str:
        """The exported name."""
        return PREFIX + self.name

    @property
    def python_name(self) -> str:
        """The name of the Python callback."""
        return self.name.lstrip("_")

    @property
    def prototype(self) -> str:
        """The function's declaration in the header, without the semicolon."""
        parameters = ", ".join(p.public for p in self.parameters)
        return f"{self.returns} {self.c_name}({parameters or 'void'})"


def public_type(text: str) -> str:
    """Returns a type as the header spells it."""
    return _OWN.sub(PREFIX + r"\1", text)


def _parse(declaration: str) -> Function:
    match = _DECLARATION.match(" ".join(declaration.split()))
    if match is None:
        raise ValueError(f"malformed declaration: {declaration}")
    level, needed, returns, name, parameters = match.groups()
    pairs = [p.rsplit(" ", 1) for p in parameters.split(", ") if p]
    declared = tuple(Parameter(t, n.rstrip("?"), n.endswith("?")) for t, n in pairs)
    return Function(int(level), returns, name, declared, bool(needed))


FUNCTIONS = tuple(_parse(d) for d in _FUNCTIONS.split(";") if d.strip())
