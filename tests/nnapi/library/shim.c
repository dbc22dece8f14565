/* The fixed part of a library that forwards NNAPI calls to another one, with faults.
 *
 * shim.py appends one wrapper for each function that is to be visible. FUNCTIONS is how many there
 * are; NAMES their names in order; REAL the library that is called. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))
#define OPERATIONS 106
#define MODELS 4096

static const char *const names[] = { NAMES };

/* A fault of a function: its nth call from now (0: every call) sleeps, then returns the code unless
 * that is 0; the code DIES ends the process. */
#define DIES (-1)
static struct { atomic_long calls, nth, code, milliseconds; } faults[FUNCTIONS];
static atomic_long live[FUNCTIONS];  /* objects made by a function, or freed by it */
static atomic_int per_mille;         /* of all calls that return a code; 0: no random faults */
static atomic_ulong seeds;
static atomic_bool declined[OPERATIONS];
static void *real[FUNCTIONS];

static int index_of(const char *name) {
    for (int i = 0; i < FUNCTIONS; i++)
        if (strcmp(names[i], name) == 0) return i;
    return -1;
}

__attribute__((constructor)) static void load(void) {
    void *library = dlopen(REAL, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) abort();
    for (int i = 0; i < FUNCTIONS; i++) {
        real[i] = dlsym(library, names[i]);
        atomic_store(&faults[i].nth, -1);
    }
}

EXPORT void shim_fault(const char *name, long nth, long code, long milliseconds) {
    int i = index_of(name);
    if (i < 0) abort();
    atomic_store(&faults[i].calls, 0);
    atomic_store(&faults[i].code, code);
    atomic_store(&faults[i].milliseconds, milliseconds);
    atomic_store(&faults[i].nth, nth);
}

EXPORT void shim_clear(void) {
    for (int i = 0; i < FUNCTIONS; i++) atomic_store(&faults[i].nth, -1);
    for (int i = 0; i < OPERATIONS; i++) atomic_store(&declined[i], false);
    atomic_store(&per_mille, 0);
}

EXPORT void shim_random(unsigned long seed, int chance) {
    atomic_store(&seeds, seed);
    atomic_store(&per_mille, chance);
}

EXPORT void shim_decline(int operation) { atomic_store(&declined[operation], true); }

EXPORT long shim_calls(const char *name) { return atomic_load(&faults[index_of(name)].calls); }

EXPORT long shim_live(const char *name) {
    int i = index_of(name);
    return i < 0 ? 0 : atomic_load(&live[i]);
}

static void sleep_for(long milliseconds) {
    struct timespec left = { milliseconds / 1000, milliseconds % 1000 * 1000000 };
    while (nanosleep(&left, &left) != 0) { }
}

static unsigned long drawn(void) {
    static _Thread_local unsigned long state;
    if (state == 0) state = atomic_fetch_add(&seeds, 0x9E3779B97F4A7C15u) | 1;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

/* Sleeps as the call's fault demands; its code, 0 to go on. */
static int fault(int i, bool returns_code) {
    long number = atomic_fetch_add(&faults[i].calls, 1) + 1, nth = atomic_load(&faults[i].nth);
    if (nth == 0 || nth == number) {
        sleep_for(atomic_load(&faults[i].milliseconds));
        if (atomic_load(&faults[i].code) == DIES) abort();
        return (int)atomic_load(&faults[i].code);
    }
    int chance = atomic_load(&per_mille);
    if (returns_code && chance > 0 && drawn() % 1000 < (unsigned long)chance)
        return 1 + (int)(drawn() % 14);
    return 0;
}

/* The operations of each model, to answer whether a declined one is among them. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct { const void *model; int count; int *types; } models[MODELS];

static int place(const void *model, bool add) {
    for (int i = 0; i < MODELS; i++)
        if (models[i].model == model) return i;
    for (int i = 0; add && i < MODELS; i++)
        if (models[i].model == NULL) {
            models[i].model = model;
            return i;
        }
    return -1;
}

static void note_operation(const void *model, int type) {
    pthread_mutex_lock(&lock);
    int i = place(model, true);
    if (i < 0) abort();
    models[i].types = realloc(models[i].types, sizeof(int) * (size_t)(models[i].count + 1));
    models[i].types[models[i].count++] = type;
    pthread_mutex_unlock(&lock);
}

static void forget_model(const void *model) {
    pthread_mutex_lock(&lock);
    int i = place(model, false);
    if (i >= 0) {
        free(models[i].types);
        models[i].model = NULL;
        models[i].count = 0;
        models[i].types = NULL;
    }
    pthread_mutex_unlock(&lock);
}

static void mask(const void *model, bool *supported) {
    pthread_mutex_lock(&lock);
    int i = place(model, false);
    for (int n = 0; i >= 0 && n < models[i].count; n++)
        if (atomic_load(&declined[models[i].types[n]])) supported[n] = false;
    pthread_mutex_unlock(&lock);
}
