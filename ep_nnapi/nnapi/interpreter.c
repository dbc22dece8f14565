/*
 * Finds the Python that implements a library of this package, and the table of callbacks in it.
 *
 * Both libraries include this file: libneuralnetworks.so and ONNX Runtime's plugin library.
 * There is no Python header and no Python symbol at link time: everything is looked up by name, in
 * the running process first, else in a libpython that is loaded and started here. The including
 * library defines NN_ADAPTER, the module whose `connect` returns the table; NN_FUNCTIONS and
 * NN_IDENTITY, of that table; NN_PACKAGE_DEPTH, the number of path components from the directory
 * that holds the package to the library; and NN_BUILD_*, the Python that it was built with.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>
#include <wchar.h>

#define NN_EXPORT __attribute__((visibility("default")))
#define NN_FILES 16  /* descriptors that the first call needs, and some */
#define NN_LINE 1000 /* characters of a message */

typedef struct {
  uint32_t identity;
  void (*functions[NN_FUNCTIONS])(void);
} nn_table;

typedef void *py_object;

/* X(returns, field, name, parameters): Python's functions; the last one is there once all are, as a
 * process may have a Python that lacks some. */
#define NN_PYTHON(X)                                                           \
  X(void, initialize, "Py_InitializeEx", (int))                                \
  X(wchar_t *, decode, "Py_DecodeLocale", (const char *, size_t *))            \
  X(int, ensure, "PyGILState_Ensure", (void))                                  \
  X(void, release, "PyGILState_Release", (int))                                \
  X(int, holds, "PyGILState_Check", (void))                                    \
  X(void *, save_thread, "PyEval_SaveThread", (void))                          \
  X(py_object, import, "PyImport_ImportModule", (const char *))                \
  X(py_object, attribute, "PyObject_GetAttrString", (py_object, const char *)) \
  X(py_object, call, "PyObject_CallObject", (py_object, py_object))            \
  X(size_t, as_size, "PyLong_AsSize_t", (py_object))                           \
  X(py_object, decode_path, "PyUnicode_DecodeFSDefault", (const char *))       \
  X(py_object, sys_object, "PySys_GetObject", (const char *))                  \
  X(int, append, "PyList_Append", (py_object, py_object))                      \
  X(void, fetch, "PyErr_Fetch", (py_object *, py_object *, py_object *))       \
  X(py_object, string, "PyObject_Str", (py_object))                            \
  X(const char *, text, "PyUnicode_AsUTF8AndSize", (py_object, size_t *))      \
  X(void, clear, "PyErr_Clear", (void))                                        \
  X(int, pending, "PyErr_ExceptionMatches", (py_object))                       \
  X(void, set_interrupt, "PyErr_SetInterrupt", (void))                         \
  X(void, forget, "Py_DecRef", (py_object))                                    \
  X(void, before_fork, "PyOS_BeforeFork", (void))                              \
  X(void, after_fork_parent, "PyOS_AfterFork_Parent", (void))                  \
  X(void, after_fork_child, "PyOS_AfterFork_Child", (void))                    \
  X(int, is_initialized, "Py_IsInitialized", (void))

static struct {
#define NN_FIELD(returns, field, name, parameters) returns(*field) parameters;
  NN_PYTHON(NN_FIELD)
  void (*set_program_name)(const wchar_t *);
  py_object *interrupt; /* KeyboardInterrupt */
} py;

static _Atomic(const nn_table *) nn_connected;
static pthread_mutex_t nn_starting = PTHREAD_MUTEX_INITIALIZER;

/* Whether as many files can be opened as an interpreter that starts and imports has open at once.
 * Without them it would end the process, or leave modules half imported, for good. */
static bool nn_can_open_files(void) {
  int files[NN_FILES], count = 0;
  while (count < NN_FILES && (files[count] = open("/", O_RDONLY | O_CLOEXEC)) >= 0) count++;
  bool enough = count == NN_FILES;
  while (count > 0) close(files[--count]);
  return enough;
}

/* The directory that holds the package ep_nnapi, which holds this library. */
static bool nn_root(char path[PATH_MAX]) {
  Dl_info here;
  if (dladdr((void *)&nn_connected, &here) == 0 || realpath(here.dli_fname, path) == NULL)
    return false;
  for (int i = 0; i < NN_PACKAGE_DEPTH; i++) {
    char *slash = strrchr(path, '/');
    if (slash == NULL) return false;
    *slash = '\0';
  }
  return true;
}

/* Fills `prefix` and `minor` of the Python executable that the user names; `minor` from the name of
 * the file that it is or links to, like python3.12. */
static bool nn_named_prefix(const char *program, char prefix[PATH_MAX], int *minor) {
  char file[PATH_MAX];
  if (realpath(program, file) == NULL) return false;
  const char *name = strrchr(file, '/');
  if (name == NULL || sscanf(name, "/python3.%d", minor) != 1) return false;
  snprintf(prefix, PATH_MAX, "%s", program);
  for (int i = 0; i < 2; i++) { /* <prefix>/bin/python */
    char *slash = strrchr(prefix, '/');
    if (slash == NULL) return false;
    *slash = '\0';
  }
  return true;
}

/* Fills `prefix` and `minor` from a root like <prefix>/lib/python3.<minor>/site-packages. */
static bool nn_prefix(const char *root, char prefix[PATH_MAX], int *minor) {
  static const char landmark[] = "/lib/python3.";
  const char *found = strstr(root, landmark);
  if (found == NULL) return false;
  *minor = atoi(found + sizeof landmark - 1);
  snprintf(prefix, PATH_MAX, "%.*s", (int)(found - root), root);
  return true;
}

/* The directory `home` of <prefix>/pyvenv.cfg: where the Python of a virtual environment lives. */
static bool nn_venv_home(const char *prefix, char home[PATH_MAX]) {
  char line[PATH_MAX];
  bool found = false;
  snprintf(line, sizeof line, "%.4000s/pyvenv.cfg", prefix);
  FILE *file = fopen(line, "r");
  if (file == NULL) return false;
  while (!found && fgets(line, sizeof line, file) != NULL) {
    line[strcspn(line, "\r\n")] = '\0';
    char *value = strchr(line, '=');
    if (strncmp(line, "home", 4) == 0 && value != NULL) {
      snprintf(home, PATH_MAX, "%s", value + 1 + strspn(value + 1, " "));
      found = true;
    }
  }
  fclose(file);
  return found;
}

static void *nn_load(const char *format, const char *directory, int minor) {
  char path[PATH_MAX];
  snprintf(path, sizeof path, format, directory, minor);
  return path[0] == '/' && access(path, R_OK) != 0 ? NULL : dlopen(path, RTLD_NOW | RTLD_GLOBAL);
}

/* libpython: what the user says, the environment this library is installed in, the one it was
 * built with, the loader's own path. */
static void *nn_libpython(const char *prefix, int minor) {
  char home[PATH_MAX];
  void *handle = NULL;
  const char *said = getenv("EP_NNAPI_LIBPYTHON");
  if (said != NULL) return dlopen(said, RTLD_NOW | RTLD_GLOBAL);
  if (prefix != NULL) {
    if (nn_venv_home(prefix, home))
      handle = nn_load("%.4000s/../lib/libpython3.%d.so.1.0", home, minor);
    if (handle == NULL) handle = nn_load("%.4000s/lib/libpython3.%d.so.1.0", prefix, minor);
  } else if (NN_BUILD_LIBPYTHON[0] != '\0') {
    handle = nn_load("%s", NN_BUILD_LIBPYTHON, minor);
  }
  return handle != NULL ? handle : nn_load("%slibpython3.%d.so.1.0", "", minor);
}

/* The interpreter whose site-packages are to be seen. */
static bool nn_program(const char *prefix, int minor, char program[PATH_MAX]) {
  if (prefix == NULL) {
    snprintf(program, PATH_MAX, "%s", NN_BUILD_PYTHON);
    return access(program, X_OK) == 0;
  }
  snprintf(program, PATH_MAX, "%.4000s/bin/python3.%d", prefix, minor);
  if (access(program, X_OK) == 0) return true;
  snprintf(program, PATH_MAX, "%.4000s/bin/python", prefix);
  return access(program, X_OK) == 0;
}

static bool nn_symbols(void *from) {
  *(void **)&py.set_program_name = dlsym(from, "Py_SetProgramName"); /* gone from Python 3.15 on */
  if ((*(void **)&py.interrupt = dlsym(from, "PyExc_KeyboardInterrupt")) == NULL) return false;
#define NN_FIND(returns, field, name, parameters) \
  if ((*(void **)&py.field = dlsym(from, name)) == NULL) return false;
  NN_PYTHON(NN_FIND)
  return true;
}

/* A process forked while another thread computes would wait for ever for the interpreter's lock,
 * which that thread has and the new process has not: so the forking thread takes it meanwhile. A
 * thread that has it already is Python's own fork, which sees to that itself. */
static bool nn_is_ours; /* the interpreter */
static _Thread_local bool nn_held;
static _Thread_local int nn_state;

static void nn_before_fork(void) {
  if (py.holds() || !py.is_initialized()) return;
  nn_state = py.ensure();
  nn_held = true;
  py.before_fork();
}

static void nn_after_fork(void (*python)(void)) {
  if (!nn_held) return;
  nn_held = false;
  python();
  py.release(nn_state);
}

static void nn_in_parent(void) { nn_after_fork(py.after_fork_parent); }
static void nn_in_child(void) { nn_after_fork(py.after_fork_child); }

/* After every import: what is registered last runs first, so before BLAS stops its own threads. */
static void nn_watch_forks(void) {
  if (nn_is_ours) pthread_atfork(nn_before_fork, nn_in_parent, nn_in_child);
  nn_is_ours = false;
}

static bool nn_names_code(const char *variable) {
  return strncmp(variable, "PYTHON", 6) == 0 || strncmp(variable, "EP_NNAPI_", 9) == 0;
}

/* A set-uid program does not load what its user names: by Python's variables, or by ours. */
static void nn_drop_variables(void) {
  char **kept = environ;
  if (getauxval(AT_SECURE) == 0 || environ == NULL) return;
  for (char **entry = environ; *entry != NULL; entry++)
    if (!nn_names_code(*entry)) *kept++ = *entry;
  *kept = NULL;
}

/* Starts an interpreter in a process that has none, and lets go of its lock. */
static const char *nn_start(const char *root) {
  char prefix[PATH_MAX], program[PATH_MAX];
  int minor = NN_BUILD_MINOR;
  nn_drop_variables();
  const char *named = getenv("EP_NNAPI_PYTHON"), *in = NULL;
  if (named != NULL && !nn_named_prefix(named, prefix, &minor))
    return "EP_NNAPI_PYTHON is not the path of a Python 3 executable (<environment>/bin/python)";
  if (named != NULL || nn_prefix(root, prefix, &minor)) in = prefix;
  void *library = nn_libpython(in, minor);
  if (library == NULL)
    return "no shared libpython was found (a Python without one cannot serve C programs; "
           "set EP_NNAPI_LIBPYTHON to the path of one)";
  if (!nn_symbols(library)) return "the libpython that was found is not a Python 3";
  if (py.set_program_name != NULL && nn_program(in, minor, program)) {
    wchar_t *wide = py.decode(program, NULL);
    if (wide != NULL) py.set_program_name(wide);
  }
  py.initialize(0);
  py.save_thread();
  nn_is_ours = true;
  return NULL;
}

/* Makes sure that an interpreter runs. A running one's lock is never asked for in here. */
static const char *nn_interpreter(const char *root) {
  const char *why = NULL;
  pthread_mutex_lock(&nn_starting);
  bool present = py.is_initialized != NULL || nn_symbols(RTLD_DEFAULT);
  if (!present || !py.is_initialized()) why = nn_start(root);
  pthread_mutex_unlock(&nn_starting);
  return why;
}

/* Whether Ctrl-C ended the import. */
static bool nn_is_interrupted(void) { return py.pending(*py.interrupt); }

static py_object nn_import(const char *root) {
  py_object module = py.import(NN_ADAPTER);
  if (module != NULL || nn_is_interrupted()) return module;
  static bool told; /* where this library lives; under the interpreter's lock */
  py_object path = py.sys_object("path"), entry = py.decode_path(root);
  py.clear();
  if (!told && path != NULL && entry != NULL) told = py.append(path, entry) == 0;
  if (entry != NULL) py.forget(entry);
  return py.import(NN_ADAPTER);
}

static void nn_forget(py_object object) {
  if (object != NULL) py.forget(object);
}

/* What the pending exception says, which is over then. Ctrl-C has no reason, "": Python raises
 * KeyboardInterrupt again in the main thread, once this call has returned to it. */
static void nn_reason(char reason[NN_LINE]) {
  reason[0] = '\0';
  if (nn_is_interrupted()) {
    py.clear();
    py.set_interrupt();
    return;
  }
  py_object type = NULL, value = NULL, traceback = NULL;
  py.fetch(&type, &value, &traceback);
  py_object words = value != NULL ? py.string(value) : NULL;
  const char *text = words != NULL ? py.text(words, NULL) : NULL;
  snprintf(reason, NN_LINE, "the Python package ep_nnapi cannot be used: %.900s",
           text != NULL ? text : "no reason is given");
  py.clear();
  nn_forget(words);
  nn_forget(type);
  nn_forget(value);
  nn_forget(traceback);
}

/* Called with the interpreter's lock, which also makes simultaneous first calls harmless. Fills
 * `reason` where it returns NULL. */
static const nn_table *nn_table_of(const char *root, char reason[NN_LINE]) {
  const nn_table *table = NULL;
  py_object module = nn_import(root);
  py_object connect = module != NULL ? py.attribute(module, "connect") : NULL;
  py_object address = connect != NULL ? py.call(connect, NULL) : NULL;
  if (address != NULL)
    table = (const nn_table *)py.as_size(address);
  else
    nn_reason(reason);
  nn_forget(address);
  nn_forget(connect);
  nn_forget(module);
  return table;
}

static bool nn_fail(char reason[NN_LINE], const char *why) {
  snprintf(reason, NN_LINE, "%s", why);
  return false;
}

/* Makes sure that the package can be imported. */
static bool nn_prepare(char root[PATH_MAX], char reason[NN_LINE]) {
  if (!nn_can_open_files())
    return nn_fail(reason, "too few file descriptors are free to start Python");
  if (!nn_root(root)) return nn_fail(reason, "its own path is unknown");
  const char *why = nn_interpreter(root);
  return why == NULL || nn_fail(reason, why);
}

/* The table of callbacks; NULL with the reason if there is none. Later calls try again: what was
 * missing may be there by then. */
static const nn_table *nn_connect_first(char reason[NN_LINE]) {
  char root[PATH_MAX];
  if (!nn_prepare(root, reason)) return NULL;
  int state = py.ensure();
  const nn_table *table = nn_table_of(root, reason);
  if (table != NULL) nn_watch_forks();
  py.release(state);
  if (table != NULL && table->identity != NN_IDENTITY) {
    nn_fail(reason, "the Python package ep_nnapi is another version's");
    return NULL;
  }
  if (table != NULL) atomic_store(&nn_connected, table);
  return table;
}
