// A C++ program whose objects own their handles. Its argument says what it does; it exits with the
// number of things that went wrong, each of which has its line on stderr.
#include <android/NeuralNetworks.h>
#include <dirent.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr uint32_t kSize = 256;
constexpr int kChildren = 6;
constexpr int kSeconds = 30;  // a process that takes longer hangs
std::atomic<int> wrong{0};

void expect(bool right, int line) {
    if (right) return;
    wrong++;
    std::fprintf(stderr, "line %d\n", line);
}
#define EXPECT(condition) expect(condition, __LINE__)
#define OK(call) EXPECT((call) == ANEURALNETWORKS_NO_ERROR)

template <typename T, void (*Free)(T*)>
struct Deleter {
    void operator()(T* handle) const { Free(handle); }
};
template <typename T, void (*Free)(T*)>
using Owner = std::unique_ptr<T, Deleter<T, Free>>;
using Model = Owner<ANeuralNetworksModel, ANeuralNetworksModel_free>;
using Compilation = Owner<ANeuralNetworksCompilation, ANeuralNetworksCompilation_free>;
using Execution = Owner<ANeuralNetworksExecution, ANeuralNetworksExecution_free>;
using Burst = Owner<ANeuralNetworksBurst, ANeuralNetworksBurst_free>;
using Event = Owner<ANeuralNetworksEvent, ANeuralNetworksEvent_free>;

template <typename Owned, typename Create>
Owned made(Create create) {
    typename Owned::pointer handle = nullptr;
    OK(create(&handle));
    return Owned(handle);
}

Model addition() {
    auto model = made<Model>(ANeuralNetworksModel_create);
    const ANeuralNetworksOperandType tensor{ANEURALNETWORKS_TENSOR_FLOAT32, 1, &kSize, 0, 0};
    const ANeuralNetworksOperandType scalar{ANEURALNETWORKS_INT32, 0, nullptr, 0, 0};
    for (auto type : {&tensor, &tensor, &scalar, &tensor})
        OK(ANeuralNetworksModel_addOperand(model.get(), type));
    const int32_t none = ANEURALNETWORKS_FUSED_NONE;
    const uint32_t in[] = {0, 1, 2}, out[] = {3};
    OK(ANeuralNetworksModel_setOperandValue(model.get(), 2, &none, sizeof none));
    OK(ANeuralNetworksModel_addOperation(model.get(), ANEURALNETWORKS_ADD, 3, in, 1, out));
    OK(ANeuralNetworksModel_identifyInputsAndOutputs(model.get(), 2, in, 1, out));
    OK(ANeuralNetworksModel_finish(model.get()));
    return model;
}

Compilation compiled(const Model& model, const std::string& cache = "") {
    auto compilation = made<Compilation>(
        [&](auto handle) { return ANeuralNetworksCompilation_create(model.get(), handle); });
    const uint8_t token[ANEURALNETWORKS_BYTE_SIZE_OF_CACHE_TOKEN] = {1, 2, 3};
    if (!cache.empty())
        OK(ANeuralNetworksCompilation_setCaching(compilation.get(), cache.c_str(), token));
    OK(ANeuralNetworksCompilation_finish(compilation.get()));
    return compilation;
}

Compilation compiled_for(const Model& model, const std::string& name) {
    uint32_t count = 0;
    OK(ANeuralNetworks_getDeviceCount(&count));
    for (uint32_t i = 0; i < count; i++) {
        ANeuralNetworksDevice* device = nullptr;
        const char* found = nullptr;
        OK(ANeuralNetworks_getDevice(i, &device));
        OK(ANeuralNetworksDevice_getName(device, &found));
        if (name != found) continue;
        auto compilation = made<Compilation>([&](auto handle) {
            return ANeuralNetworksCompilation_createForDevices(model.get(), &device, 1, handle);
        });
        OK(ANeuralNetworksCompilation_finish(compilation.get()));
        return compilation;
    }
    EXPECT(!"there is such a device");
    return nullptr;
}

// One execution of x + 2x, with the memory that it reads and writes.
class Run {
   public:
    Run(const Compilation& compilation, int x)
        : a_(kSize, x), b_(kSize, 2 * x), sum_(kSize, -1), expected_(3 * x) {
        execution_ = made<Execution>([&](auto handle) {
            return ANeuralNetworksExecution_create(compilation.get(), handle);
        });
        const size_t length = kSize * sizeof(float);
        OK(ANeuralNetworksExecution_setInput(get(), 0, nullptr, a_.data(), length));
        OK(ANeuralNetworksExecution_setInput(get(), 1, nullptr, b_.data(), length));
        OK(ANeuralNetworksExecution_setOutput(get(), 0, nullptr, sum_.data(), length));
    }
    ANeuralNetworksExecution* get() const { return execution_.get(); }
    Event started() {
        return made<Event>(
            [&](auto event) { return ANeuralNetworksExecution_startCompute(get(), event); });
    }
    bool right() const {
        return std::all_of(sum_.begin(), sum_.end(), [&](float s) { return s == expected_; });
    }

   private:
    std::vector<float> a_, b_, sum_;
    float expected_;
    Execution execution_;
};

void computes(const Compilation& compilation, int x) {
    Run run(compilation, x);
    OK(ANeuralNetworksExecution_compute(run.get()));
    EXPECT(run.right());
}

void computes_in_each_way(const Compilation& compilation, int x) {
    computes(compilation, x);
    Run started(compilation, x + 1), burst(compilation, x + 2);
    OK(ANeuralNetworksEvent_wait(started.started().get()));
    EXPECT(started.right());
    auto sequence = made<Burst>(
        [&](auto handle) { return ANeuralNetworksBurst_create(compilation.get(), handle); });
    OK(ANeuralNetworksExecution_burstCompute(burst.get(), sequence.get()));
    EXPECT(burst.right());
}

void in_threads(int count, const std::function<void(int)>& work) {
    std::vector<std::thread> threads;
    for (int i = 0; i < count; i++) threads.emplace_back(work, i);
    for (auto& thread : threads) thread.join();
}

int descriptors() {
    const auto close = [](DIR* directory) { closedir(directory); };
    std::unique_ptr<DIR, decltype(close)> directory(opendir("/proc/self/fd"), close);
    int count = 0;
    while (readdir(directory.get()) != nullptr) count++;
    return count;
}

long resident() {
    long pages = 0;
    FILE* file = std::fopen("/proc/self/statm", "r");
    EXPECT(std::fscanf(file, "%*d %ld", &pages) == 1);
    std::fclose(file);
    return pages * sysconf(_SC_PAGESIZE);
}

double cpu_seconds(const std::function<void()>& work) {
    const auto before = std::clock();
    work();
    return double(std::clock() - before) / CLOCKS_PER_SEC;
}

struct {  // destroyed after main, the event first
    Model model;
    Compilation compilation;
    std::unique_ptr<Run> run;
    Event event;
} global;

void threads() {
    const Model model = addition();
    const Compilation compilation = compiled(model);
    computes_in_each_way(compilation, 1);
    const int before = descriptors();
    in_threads(8, [&](int id) {
        for (int i = 0; i < 20; i++) computes_in_each_way(compilation, id * 100 + i);
    });
    EXPECT(descriptors() == before);
}

void global_objects() {
    global.model = addition();
    global.compilation = compiled(global.model);
    global.run = std::make_unique<Run>(global.compilation, 1);
    global.event = global.run->started();
}

void unfreed() {
    Model model = addition();
    Compilation compilation = compiled(model);
    auto* run = new Run(compilation, 1);
    run->started().release();
    model.release();
    compilation.release();
}

// What runs until the process ends may use its compilation until then.
void keep_computing() {
    static const Model model = addition();
    static auto* compilation = new Compilation(compiled(model));
    for (int i = 0; i < 32; i++) (new Run(*compilation, i))->started().release();
    for (int i = 0; i < 4; i++)
        std::thread([] {
            for (;;) ANeuralNetworksExecution_compute(Run(*compilation, 1).get());
        }).detach();
    computes(*compilation, 1);
}

void exit_amid() { keep_computing(); }

void quick_exit_amid() {
    keep_computing();
    std::quick_exit(wrong);
}

void forks(const Compilation& compilation) {
    for (int i = 0; i < kChildren; i++) {
        const pid_t child = fork();
        if (child == 0) {
            alarm(kSeconds);
            computes_in_each_way(compilation, 1);
            computes_in_each_way(compiled(addition()), 2);
            std::exit(wrong);
        }
        int status = -1;
        EXPECT(waitpid(child, &status, 0) == child && status == 0);
        computes_in_each_way(compilation, 3);
    }
}

void fork_idle() {
    const Model model = addition();
    forks(compiled(model));
}

void fork_busy() {
    const Model model = addition();
    const Compilation compilation = compiled(model);
    std::atomic<bool> over{false};
    std::thread others([&] {
        in_threads(4, [&](int) {
            while (!over) computes(compilation, 4);
        });
    });
    forks(compilation);
    over = true;
    others.join();
}

// ONNX Runtime computes: it holds locks meanwhile, and its threads are not in the child.
void fork_host_cpu() {
    const Model model = addition();
    const Compilation compilation = compiled_for(model, "host-cpu");
    std::atomic<bool> over{false};
    std::thread others([&] {
        in_threads(2, [&](int id) {
            while (!over) {
                computes(compilation, 4);
                if (id == 0) computes(compiled_for(model, "host-cpu"), 4);
            }
        });
    });
    for (int i = 0; i < kChildren; i++) {
        const pid_t child = fork();
        if (child == 0) {
            alarm(kSeconds);
            computes_in_each_way(compilation, 1);
            computes_in_each_way(compiled_for(addition(), "host-cpu"), 2);
            std::_Exit(wrong);
        }
        int status = -1;
        EXPECT(waitpid(child, &status, 0) == child && status == 0);
        computes_in_each_way(compilation, 3);
    }
    over = true;
    others.join();
}

// Matrix products in a row, each large enough for BLAS to spread it over every core. Forks wait for
// single ones on nnapi-reference.
struct Products {
    static constexpr uint32_t kRows = 384, kCount = 12;
    std::vector<float> square = std::vector<float>(kRows * kRows), out = square;
    std::vector<float> bias = std::vector<float>(kRows);
    Model model = made<Model>(ANeuralNetworksModel_create);
    Compilation compilation;

    Products() {
        const uint32_t sizes[] = {kRows, kRows}, length = square.size() * sizeof(float);
        const ANeuralNetworksOperandType matrix{ANEURALNETWORKS_TENSOR_FLOAT32, 2, sizes, 0, 0};
        const ANeuralNetworksOperandType row{ANEURALNETWORKS_TENSOR_FLOAT32, 1, sizes, 0, 0};
        const ANeuralNetworksOperandType scalar{ANEURALNETWORKS_INT32, 0, nullptr, 0, 0};
        for (auto type : {&matrix, &row, &scalar, &matrix})
            OK(ANeuralNetworksModel_addOperand(model.get(), type));
        const int32_t none = ANEURALNETWORKS_FUSED_NONE;
        OK(ANeuralNetworksModel_setOperandValue(model.get(), 0, square.data(), length));
        OK(ANeuralNetworksModel_setOperandValue(model.get(), 1, bias.data(), length / kRows));
        OK(ANeuralNetworksModel_setOperandValue(model.get(), 2, &none, sizeof none));
        for (uint32_t i = 3; i < 3 + kCount; i++) {
            const uint32_t in[] = {i, 0, 1, 2}, out[] = {i + 1};
            OK(ANeuralNetworksModel_addOperand(model.get(), &matrix));
            OK(ANeuralNetworksModel_addOperation(model.get(), ANEURALNETWORKS_FULLY_CONNECTED, 4,
                                                 in, 1, out));
        }
        const uint32_t first = 3, last = 3 + kCount;
        OK(ANeuralNetworksModel_identifyInputsAndOutputs(model.get(), 1, &first, 1, &last));
        OK(ANeuralNetworksModel_finish(model.get()));
        compilation = compiled_for(model, "nnapi-reference");
    }

    Execution execution() {
        const size_t length = square.size() * sizeof(float);
        auto run = made<Execution>([&](auto handle) {
            return ANeuralNetworksExecution_create(compilation.get(), handle);
        });
        OK(ANeuralNetworksExecution_setInput(run.get(), 0, nullptr, square.data(), length));
        OK(ANeuralNetworksExecution_setOutput(run.get(), 0, nullptr, out.data(), length));
        return run;
    }
};

// The child is told that what the parent computes does not end there; the parent computes on.
void fork_products() {
    Products products;
    for (int i = 0; i < kChildren; i++) {
        const Execution run = products.execution();
        const auto event = made<Event>(
            [&](auto handle) { return ANeuralNetworksExecution_startCompute(run.get(), handle); });
        const pid_t child = fork();
        if (child == 0) {
            alarm(kSeconds);
            EXPECT(ANeuralNetworksEvent_wait(event.get()) == ANEURALNETWORKS_DEAD_OBJECT);
            OK(ANeuralNetworksExecution_compute(products.execution().get()));
            std::_Exit(wrong);
        }
        int status = -1;
        EXPECT(waitpid(child, &status, 0) == child && status == 0);
        OK(ANeuralNetworksEvent_wait(event.get()));
    }
}

// Ten threads make one entry of a cache, and then use it.
void cache() {
    const char* directory = std::getenv("CACHE");
    const Model model = addition();
    for (int time = 0; time < 2; time++)
        in_threads(10, [&](int id) { computes(compiled(model, directory), id); });
}

// Prints how many bytes 2,000 cycles leave behind, and how much slower the last of them are.
void cycles() {
    const auto some = [] {
        for (int i = 0; i < 250; i++) computes_in_each_way(compiled(addition()), i);
    };
    some();
    const long before = resident();
    const double first = cpu_seconds(some);
    for (int i = 0; i < 6; i++) some();
    const double last = cpu_seconds(some);
    std::printf("%ld %f\n", resident() - before, last / first);
}

}  // namespace

int main(int count, char** arguments) {
    static const std::map<std::string, void (*)()> parts = {
        {"threads", threads},         {"global_objects", global_objects},
        {"unfreed", unfreed},         {"exit_amid", exit_amid},
        {"fork_idle", fork_idle},     {"quick_exit_amid", quick_exit_amid},
        {"fork_busy", fork_busy},     {"cache", cache},
        {"fork_products", fork_products}, {"fork_host_cpu", fork_host_cpu},
        {"cycles", cycles},
    };
    if (count != 2 || parts.count(arguments[1]) == 0) return 99;
    parts.at(arguments[1])();
    return wrong;
}
