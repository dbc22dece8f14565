/* Pushed weights: see agent.h. */
#include "agent.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "nnapi_functions.h"
#include "sha256.h"

#define PREFIX "weights-"
#define PART ".part"
enum { MOST_PATH = 4096, LOCK_TRIES = 10000, NAME_LENGTH = sizeof PREFIX - 1 + 2 * SHA256_BYTES };

typedef struct {
  char whole[MOST_PATH], part[MOST_PATH];
  uint8_t digest[SHA256_BYTES];
  uint64_t size, offset; /* of the file, and of the piece that the request has */
} place;

static bool failed(const char *path, ctx_error *error) {
  const int number = errno;
  const bool full = number == ENOSPC || number == EDQUOT || number == EFBIG;
  ctx_fail(error, "%.300s: %s%s", path, strerror(number),
           full ? "; ep-nnapi devices --clean removes what was pushed" : "");
  if (full) error->code = NN_OUT_OF_MEMORY;
  return false;
}

static bool place_of(const char *folder, frame_reader *reader, place *out, ctx_error *error) {
  char name[NAME_LENGTH + 1] = PREFIX;
  const uint8_t *digest = frame_take(reader, SHA256_BYTES);
  if (digest == NULL || !frame_take_u64(reader, &out->size) ||
      !frame_take_u64(reader, &out->offset))
    return ctx_fail(error, "a put's request is cut");
  memcpy(out->digest, digest, SHA256_BYTES);
  sha256_hex(digest, SHA256_BYTES, name + sizeof PREFIX - 1);
  if (snprintf(out->whole, sizeof out->whole, "%s/%s", folder, name) >= MOST_PATH ||
      snprintf(out->part, sizeof out->part, "%s/%s" PART, folder, name) >= MOST_PATH)
    return ctx_fail(error, "the path of the weights is too long");
  return true;
}

static uint64_t size_of(const char *path) {
  struct stat facts;
  return lstat(path, &facts) == 0 && S_ISREG(facts.st_mode) ? (uint64_t)facts.st_size : 0;
}

static bool write_piece(int descriptor, const place *p, const uint8_t *data, size_t size,
                        ctx_error *error) {
  uint64_t at = p->offset;
  while (size > 0) {
    const ssize_t count = pwrite(descriptor, data, size, (off_t)at);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return failed(p->part, error);
    data += count;
    at += (uint64_t)count;
    size -= (size_t)count;
  }
  return true;
}

static bool digest_is_right(int descriptor, const place *p) {
  uint8_t buffer[1 << 16], digest[SHA256_BYTES];
  sha256 hash;
  ssize_t count;
  sha256_begin(&hash);
  if (lseek(descriptor, 0, SEEK_SET) != 0) return false;
  while ((count = read(descriptor, buffer, sizeof buffer)) > 0)
    sha256_add(&hash, buffer, (size_t)count);
  sha256_end(&hash, digest);
  return count == 0 && memcmp(digest, p->digest, sizeof digest) == 0;
}

/* Other agents have the same folder: one at a time changes what is there. The descriptor is to be
 * closed; -1: another one has stopped in the middle. Where nothing can be locked, nothing is. */
static int lock(const char *folder, ctx_error *error) {
  static const struct timespec step = {0, 1000000};
  const int descriptor = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  int tries = 0;
  if (descriptor < 0) return failed(folder, error), -1;
  while (flock(descriptor, LOCK_EX | LOCK_NB) != 0 && (errno == EWOULDBLOCK || errno == EINTR)) {
    if (++tries == LOCK_TRIES) {
      ctx_fail(error, "%.300s: another agent holds it", folder);
      return close(descriptor), -1;
    }
    nanosleep(&step, NULL);
  }
  return descriptor;
}

/* Gives the part its name once it is complete; one that is not what it says is removed. */
static bool finish(int descriptor, const place *p, ctx_error *error) {
  if (digest_is_right(descriptor, p))
    return rename(p->part, p->whole) == 0 || failed(p->whole, error);
  unlink(p->part);
  return ctx_fail(error, "the weights that came are not those that were announced");
}

static bool put(const place *p, const uint8_t *data, size_t size, ctx_error *error) {
  const uint64_t have = size_of(p->part);
  int descriptor;
  bool done;
  if (size == 0 && have < p->size) return true;
  if (size > 0 && (p->offset > have || p->offset > p->size || size > p->size - p->offset))
    return ctx_fail(error, "a put's piece is not the next one");
  descriptor = open(p->part, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);
  if (descriptor < 0) return failed(p->part, error);
  done = write_piece(descriptor, p, data, size, error) &&
         (size_of(p->part) < p->size || finish(descriptor, p, error));
  close(descriptor);
  return done;
}

bool agent_put(const char *folder, const frame *request, frame *reply, ctx_error *error) {
  frame_reader reader = frame_payload(request);
  place p;
  uint64_t have;
  int locked;
  bool done;
  TRY(place_of(folder, &reader, &p, error));
  locked = lock(folder, error);
  if (locked < 0) return false;
  done = size_of(p.whole) == p.size || put(&p, reader.at, (size_t)(reader.end - reader.at), error);
  have = size_of(p.whole) == p.size ? p.size : size_of(p.part);
  close(locked);
  return done && frame_add(reply, &have, sizeof have, error);
}

static bool is_ours(const char *name) {
  const char *rest = name + NAME_LENGTH;
  size_t i;
  if (strlen(name) < NAME_LENGTH || strncmp(name, PREFIX, sizeof PREFIX - 1) != 0) return false;
  for (i = sizeof PREFIX - 1; i < NAME_LENGTH; i++)
    if (strchr("0123456789abcdef", name[i]) == NULL) return false;
  return *rest == '\0' || strcmp(rest, PART) == 0;
}

bool agent_store(const char *folder, const frame *request, frame *reply, ctx_error *error) {
  frame_reader reader = frame_payload(request);
  uint32_t removes = 0;
  const struct dirent *entry;
  bool listed = true;
  DIR *found;
  int locked;
  if (!frame_take_u32(&reader, &removes)) return ctx_fail(error, "a listing's request is cut");
  locked = lock(folder, error);
  if (locked < 0) return false;
  found = fdopendir(locked);
  if (found == NULL) return failed(folder, error), close(locked), false;
  while (listed && (entry = readdir(found)) != NULL) {
    char path[MOST_PATH], line[NAME_LENGTH + 40];
    int length;
    if (!is_ours(entry->d_name) ||
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name) >= MOST_PATH)
      continue;
    length =
        snprintf(line, sizeof line, "%llu %s\n", (unsigned long long)size_of(path), entry->d_name);
    if (removes != 0 && unlink(path) != 0 && errno != ENOENT) listed = failed(path, error);
    listed = listed && frame_add(reply, line, (size_t)length, error);
  }
  closedir(found); /* and the lock */
  return listed;
}
