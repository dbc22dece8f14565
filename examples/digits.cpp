// Reads a handwritten digit, 8 x 8 pixels from 0 to 16 on standard input, on the NNAPI provider.
//
//   digits PLUGIN_LIBRARY models/digits.onnx
//
// PLUGIN_LIBRARY is what ep_nnapi.get_library_path() returns. docs/hosts.md says how to build this.
#include <onnxruntime_c_api.h>

#include <algorithm>
#include <array>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string_view>

namespace {

constexpr const char* kProvider = "NnapiPluginExecutionProvider";
const OrtApi* const ort = OrtGetApiBase()->GetApi(ORT_API_VERSION);

void check(OrtStatus* status) {
    if (status == nullptr) return;
    const std::runtime_error error(ort->GetErrorMessage(status));
    ort->ReleaseStatus(status);
    throw error;
}

// An object of ONNX Runtime that releases itself.
template <typename T>
using Owned = std::unique_ptr<T, void (*)(T*)>;

template <typename T, typename Create>
Owned<T> owned(void (*release)(T*), Create create) {
    T* made = nullptr;
    check(create(&made));
    return Owned<T>(made, release);
}

// The provider's registration, which ends after the sessions that use it.
class Plugin {
public:
    Plugin(OrtEnv* env, const char* library) : env_(env) {
        check(ort->RegisterExecutionProviderLibrary(env, kProvider, library));
    }
    ~Plugin() {
        if (OrtStatus* status = ort->UnregisterExecutionProviderLibrary(env_, kProvider))
            ort->ReleaseStatus(status);
    }
    Plugin(const Plugin&) = delete;
    Plugin& operator=(const Plugin&) = delete;

    void append_to(OrtSessionOptions* options) const {
        const OrtEpDevice* const* devices = nullptr;
        size_t count = 0;
        check(ort->GetEpDevices(env_, &devices, &count));
        const auto found = std::find_if(devices, devices + count, [](const OrtEpDevice* device) {
            return std::string_view(ort->EpDevice_EpName(device)) == kProvider;
        });
        if (found == devices + count) throw std::runtime_error("there is no NNAPI device");
        check(ort->SessionOptionsAppendExecutionProvider_V2(options, env_, found, 1, nullptr,
                                                            nullptr, 0));
    }

private:
    OrtEnv* env_;
};

template <size_t N, size_t Rank>
Owned<OrtValue> tensor(std::array<float, N>& data, const std::array<int64_t, Rank>& shape) {
    const auto memory = owned<OrtMemoryInfo>(ort->ReleaseMemoryInfo, [](OrtMemoryInfo** made) {
        return ort->CreateCpuMemoryInfo(OrtArenaAllocator, OrtMemTypeDefault, made);
    });
    return owned<OrtValue>(ort->ReleaseValue, [&](OrtValue** made) {
        return ort->CreateTensorWithDataAsOrtValue(memory.get(), data.data(), sizeof(float) * N,
                                                   shape.data(), Rank,
                                                   ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, made);
    });
}

void classify(const char* library, const char* model, std::array<float, 64>& pixels) {
    const auto env = owned<OrtEnv>(ort->ReleaseEnv, [](OrtEnv** made) {
        return ort->CreateEnv(ORT_LOGGING_LEVEL_ERROR, "digits", made);
    });
    const Plugin plugin(env.get(), library);
    const auto options = owned<OrtSessionOptions>(ort->ReleaseSessionOptions,
                                                  ort->CreateSessionOptions);
    plugin.append_to(options.get());
    const auto session = owned<OrtSession>(ort->ReleaseSession, [&](OrtSession** made) {
        return ort->CreateSession(env.get(), model, options.get(), made);
    });

    std::array<float, 10> scores{};
    const auto image = tensor(pixels, std::array<int64_t, 4>{1, 1, 8, 8});
    const auto result = tensor(scores, std::array<int64_t, 2>{1, 10});
    const char* const names[] = {"image", "scores"};
    const OrtValue* const input = image.get();
    OrtValue* output = result.get();
    check(ort->Run(session.get(), nullptr, &names[0], &input, 1, &names[1], 1, &output));

    std::cout.precision(9);
    for (const float score : scores) std::cout << score << '\n';
    std::cout << "digit " << std::max_element(scores.begin(), scores.end()) - scores.begin() << '\n';
}

}  // namespace

int main(int count, char** arguments) try {
    std::array<float, 64> pixels{};
    if (count != 3) throw std::runtime_error("usage: digits PLUGIN_LIBRARY MODEL < pixels");
    if (ort == nullptr) throw std::runtime_error("onnxruntime is too old");
    for (float& pixel : pixels)
        if (!(std::cin >> pixel)) throw std::runtime_error("64 pixels are needed");
    classify(arguments[1], arguments[2], pixels);
    return 0;
} catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
}
