// Loads and unloads the library that its argument names, in eight threads; exits with 0 when every
// call was right.
#include <dlfcn.h>

#include <atomic>
#include <thread>
#include <vector>

namespace {

std::atomic<int> wrong{0};

void load_and_unload(const char* path) {
    void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const auto create = (int (*)(void**))dlsym(library, "ANeuralNetworksModel_create");
    const auto free = (void (*)(void*))dlsym(library, "ANeuralNetworksModel_free");
    void *freed = nullptr, *left = nullptr;
    wrong += create(&freed) != 0;
    wrong += create(&left) != 0;
    wrong += freed == left;
    free(freed);
    wrong += dlclose(library) != 0;
}

}  // namespace

int main(int, char** arguments) {
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; i++)
        threads.emplace_back([&] {
            for (int k = 0; k < 20; k++) load_and_unload(arguments[1]);
        });
    for (auto& thread : threads) thread.join();
    return wrong != 0;
}
