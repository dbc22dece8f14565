/* Weights and checksums: see weights.h. Python's are in ep_nnapi/epcontext. */
#include "weights.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "sha256.h"

/* Weights and their digest, or the file of a model. What is in a file has not changed since as long
 * as all of this is the same, as ep_nnapi/epcontext/contexts.py has it for models. */
typedef struct {
  uint64_t facts[8]; /* device, inode and size of the file, its times, place of the weights in it,
                        WHOLE for a model; zeros: not in a file */
  uint64_t size;
  uint8_t digest[SHA256_BYTES];
} identity;

enum { REMEMBERED = 32, RECENT = 3 /* seconds: file systems have times in steps of up to 2 */ };

static const uint64_t WHOLE = UINT64_MAX;

static pthread_mutex_t verified_lock = PTHREAD_MUTEX_INITIALIZER;
static identity verified_weights[REMEMBERED];
static unsigned verified_count;

static void add_facts(const struct stat *facts, uint64_t place, identity *out) {
  out->facts[0] = (uint64_t)facts->st_dev;
  out->facts[1] = (uint64_t)facts->st_ino;
  out->facts[2] = (uint64_t)facts->st_size;
  out->facts[3] = (uint64_t)facts->st_mtim.tv_sec;
  out->facts[4] = (uint64_t)facts->st_mtim.tv_nsec;
  out->facts[5] = (uint64_t)facts->st_ctim.tv_sec;
  out->facts[6] = (uint64_t)facts->st_ctim.tv_nsec;
  out->facts[7] = place;
}

/* `facts` of the file; NULL: not in a file. */
static identity identity_of(const ctx_container *c, const struct stat *facts) {
  identity one = {.size = c->header->weights_size};
  memcpy(one.digest, c->header->weights_sha256, sizeof one.digest);
  if (facts != NULL) add_facts(facts, c->header->weights_offset, &one);
  return one;
}

static bool is_verified(const identity *one) {
  bool found = false;
  unsigned i;
  pthread_mutex_lock(&verified_lock);
  for (i = 0; i < REMEMBERED && !found; i++)
    found = memcmp(&verified_weights[i], one, sizeof *one) == 0;
  pthread_mutex_unlock(&verified_lock);
  return found;
}

/* Not of a file that was written just now: another write might leave it with the same times. */
static void remember(const identity *one) {
  const time_t modified = (time_t)one->facts[3], changed = (time_t)one->facts[5];
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (modified > now.tv_sec - RECENT || changed > now.tv_sec - RECENT) return;
  pthread_mutex_lock(&verified_lock);
  verified_weights[verified_count++ % REMEMBERED] = *one;
  pthread_mutex_unlock(&verified_lock);
}

/* The digest of weights, computed in a thread while NNAPI compiles. */
struct ctx_check {
  identity expected;
  const uint8_t *data;
  pthread_t thread;
  bool runs, right;
};

enum { FEW_BYTES = 1 << 17 }; /* hashed in less time than a thread is started in */

static void *compute_digest(void *given) {
  ctx_check *check = given;
  uint8_t digest[SHA256_BYTES];
  sha256_of(check->data, (size_t)check->expected.size, digest);
  check->right = memcmp(digest, check->expected.digest, sizeof digest) == 0;
  return NULL;
}

static bool begin_check(const identity *expected, ctx_weights *weights, ctx_error *error) {
  ctx_check *check = calloc(1, sizeof *check);
  if (check == NULL) return ctx_out_of_memory(error);
  check->expected = *expected;
  check->data = weights->data;
  check->runs = expected->size > FEW_BYTES &&
                pthread_create(&check->thread, NULL, compute_digest, check) == 0;
  if (!check->runs) compute_digest(check);
  weights->check = check;
  return true;
}

static bool begin_check_in_memory(const ctx_container *c, ctx_weights *weights, ctx_error *error) {
  const identity expected = identity_of(c, NULL);
  return begin_check(&expected, weights, error);
}

static void end_check(ctx_check *check) {
  if (check == NULL || !check->runs) return;
  pthread_join(check->thread, NULL);
  check->runs = false;
}

bool ctx_weights_are_right(ctx_weights *weights, ctx_error *error) {
  const ctx_check *check = weights->check;
  if (check == NULL) return true;
  end_check(weights->check);
  if (!check->right)
    return ctx_fail(error, "the context's weights are corrupt; prepare the model again");
  if (weights->mapped != NULL) remember(&check->expected);
  return true;
}

/* The file's name is one in the folder itself, as no name with a slash is. */
static bool is_plain(const char *name, size_t length) {
  return length > 0 && memchr(name, '/', length) == NULL &&
         !(length <= 2 && memcmp(name, "..", length) == 0);
}

static bool map_file(int descriptor, size_t size, void **out, ctx_error *error) {
  *out = NULL;
  if (size == 0) return true;
  *out = mmap(NULL, size, PROT_READ, MAP_SHARED, descriptor, 0);
  if (*out != MAP_FAILED) return true;
  *out = NULL;
  return ctx_fail(error, "the weights cannot be mapped: %s", strerror(errno));
}

/* Opens a regular file that is no link; its size is checked against `wanted` unless that is 0. */
static bool open_file(const char *path, uint64_t wanted, int *descriptor, struct stat *facts,
                      ctx_error *error) {
  uint64_t size;
  *descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | (wanted > 0 ? O_NOFOLLOW : 0));
  if (*descriptor < 0 && errno == ELOOP)
    return ctx_fail(error, "the context's weights %.300s are outside of the model's folder", path);
  if (*descriptor < 0) return ctx_fail(error, "%.300s: %s", path, strerror(errno));
  if (fstat(*descriptor, facts) == 0 && S_ISREG(facts->st_mode) && facts->st_size >= 0) {
    size = (uint64_t)facts->st_size;
    if (size > SIZE_MAX)
      ctx_fail(error, "%.300s is too large for a process of 32 bits", path);
    else if (wanted == 0 || size == wanted)
      return true;
    else
      ctx_fail(error, "%.300s is %s; prepare the model again", path,
               size < wanted ? "truncated" : "corrupt: it has another size");
  } else {
    ctx_fail(error, "%.300s is no file", path);
  }
  close(*descriptor);
  *descriptor = -1;
  return false;
}

static bool open_external(const ctx_container *c, const char *path, ctx_weights *out,
                          ctx_error *error) {
  const uint64_t size = c->header->weights_file_size;
  struct stat facts;
  identity expected;
  if (!open_file(path, size, &out->descriptor, &facts, error)) return false;
  out->mapped_size = (size_t)size;
  out->offset = c->header->weights_offset;
  expected = identity_of(c, &facts);
  if (map_file(out->descriptor, out->mapped_size, &out->mapped, error)) {
    static const uint8_t none = 0; /* an empty file is not mapped */
    out->data = out->mapped == NULL ? &none : (const uint8_t *)out->mapped + out->offset;
    if (is_verified(&expected) || begin_check(&expected, out, error)) return true;
  }
  ctx_weights_close(out);
  return false;
}

/* The path of a file in the folder of the model's file, to be freed; NULL if memory is short. */
static char *path_beside(const char *model, const char *name, size_t length) {
  const char *slash = strrchr(model, '/');
  const size_t folder = slash == NULL ? 0 : (size_t)(slash - model) + 1;
  char *path = malloc(folder + length + 1);
  if (path == NULL) return NULL;
  memcpy(path, model, folder);
  memcpy(path + folder, name, length);
  path[folder + length] = '\0';
  return path;
}

bool ctx_weights_open(const ctx_container *c, const char *model, ctx_weights *out,
                      ctx_error *error) {
  const ctx_range file = c->header->weights_file;
  const ctx_weights none = {.descriptor = -1, .digest = c->header->weights_sha256};
  const char *name = c->text + file.first;
  char *path;
  bool opened;
  *out = none;
  if (c->embedded != NULL) {
    out->data = c->embedded;
    return begin_check_in_memory(c, out, error);
  }
  if (model == NULL || model[0] == '\0')
    return ctx_fail(error, "the weights are in '%.*s'; load the prepared model from its file",
                    (int)file.count, name);
  if (!is_plain(name, file.count))
    return ctx_fail(error, "the context's weights '%.*s' are outside of the model's folder",
                    (int)file.count, name);
  path = path_beside(model, name, file.count);
  if (path == NULL) return ctx_out_of_memory(error);
  opened = open_external(c, path, out, error);
  free(path);
  return opened;
}

bool ctx_weights_use(const ctx_container *c, const void *contents, size_t size, ctx_weights *out,
                     ctx_error *error) {
  const ctx_range file = c->header->weights_file;
  const ctx_weights none = {.descriptor = -1, .digest = c->header->weights_sha256};
  *out = none;
  if (size != c->header->weights_file_size)
    return ctx_fail(error, "the application's weights '%.*s' have %zu bytes, not %llu; %s",
                    (int)file.count, c->text + file.first, size,
                    (unsigned long long)c->header->weights_file_size, "prepare the model again");
  out->data = contents == NULL ? c->data : (const uint8_t *)contents + c->header->weights_offset;
  return begin_check_in_memory(c, out, error);
}

void ctx_weights_close(ctx_weights *weights) {
  end_check(weights->check);
  free(weights->check);
  weights->check = NULL;
  if (weights->mapped != NULL) munmap(weights->mapped, weights->mapped_size);
  if (weights->descriptor >= 0) close(weights->descriptor);
  weights->mapped = NULL;
  weights->descriptor = -1;
}

/* The last place of the metadata entry's key, tag and length in the file; NULL if it has none. */
static const uint8_t *find_checksum(const uint8_t *data, size_t size) {
  static const char entry[] = "ep_nnapi.sha256\x12\x40";
  const size_t length = sizeof entry - 1;
  const uint8_t *p;
  if (size < length + 2 * SHA256_BYTES) return NULL;
  for (p = data + size - 2 * SHA256_BYTES - length; p >= data; p--)
    if (*p == 'e' && memcmp(p, entry, length) == 0) return p + length;
  return NULL;
}

static bool checksum_is_right(const uint8_t *data, size_t size) {
  const uint8_t *found = find_checksum(data, size);
  uint8_t digest[SHA256_BYTES], zeros[2 * SHA256_BYTES];
  char text[2 * SHA256_BYTES + 1];
  sha256 hash;
  if (found == NULL) return false;
  memset(zeros, '0', sizeof zeros);
  sha256_begin(&hash);
  sha256_add(&hash, data, (size_t)(found - data));
  sha256_add(&hash, zeros, sizeof zeros);
  sha256_add(&hash, found + sizeof zeros, size - (size_t)(found - data) - sizeof zeros);
  sha256_end(&hash, digest);
  sha256_hex(digest, SHA256_BYTES, text);
  return memcmp(found, text, sizeof zeros) == 0;
}

static bool check_model(int descriptor, size_t size, const char *path, ctx_error *error) {
  void *data = NULL;
  bool right;
  TRY(map_file(descriptor, size, &data, error));
  right = data != NULL && checksum_is_right(data, size);
  if (data != NULL) munmap(data, size);
  return right ||
         ctx_fail(error, "%.300s is corrupt or was changed; prepare the model again", path);
}

bool ctx_check_model_file(const char *path, ctx_error *error) {
  identity one = {0};
  struct stat facts;
  int descriptor;
  bool right;
  if (!open_file(path, 0, &descriptor, &facts, error)) return false;
  add_facts(&facts, WHOLE, &one);
  right = is_verified(&one);
  if (!right && (right = check_model(descriptor, (size_t)facts.st_size, path, error)))
    remember(&one);
  close(descriptor);
  return right;
}
