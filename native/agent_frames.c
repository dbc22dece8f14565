/* Frames: see agent.h. */
#include "agent.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SLICES = 16, FIRST_BYTES = 1 << 16 };

static uint32_t crc_tables[SLICES][256];

static void make_crc_tables(void) {
  uint32_t i, k;
  for (i = 0; i < 256; i++) {
    uint32_t value = i;
    for (k = 0; k < 8; k++) value = value & 1 ? value >> 1 ^ 0xedb88320u : value >> 1;
    crc_tables[0][i] = value;
  }
  for (k = 1; k < SLICES; k++)
    for (i = 0; i < 256; i++)
      crc_tables[k][i] = crc_tables[k - 1][i] >> 8 ^ crc_tables[0][crc_tables[k - 1][i] & 255];
}

/* Sixteen bytes at a time: a table for each of their places. */
static uint32_t crc32_of(const uint8_t *data, size_t size) {
  uint32_t crc = UINT32_MAX;
  if (crc_tables[0][1] == 0) make_crc_tables();
  for (; size >= SLICES; size -= SLICES, data += SLICES) {
    uint32_t words[SLICES / 4];
    int i;
    memcpy(words, data, sizeof words);
    words[0] ^= crc;
    for (crc = 0, i = 0; i < SLICES / 4; i++) {
      uint32_t (*const tables)[256] = &crc_tables[SLICES - 4 - 4 * i];
      const uint32_t word = words[i];
      crc ^= tables[3][word & 255] ^ tables[2][word >> 8 & 255] ^ tables[1][word >> 16 & 255] ^
             tables[0][word >> 24];
    }
  }
  for (; size > 0; size--) crc = crc >> 8 ^ crc_tables[0][(crc ^ *data++) & 255];
  return ~crc;
}

static uint32_t header_crc(const frame_header *header) {
  return crc32_of((const uint8_t *)header, offsetof(frame_header, header_crc));
}

/* Reads or writes all of it; at the end of a stream that is read, the error has no text. */
static bool transfer(int descriptor, uint8_t *data, size_t size, bool writing, frame_wait wait,
                     void *context, ctx_error *error) {
  while (size > 0) {
    ssize_t count;
    if (wait != NULL && !wait(context, descriptor, writing, error)) return false;
    count = writing ? write(descriptor, data, size) : read(descriptor, data, size);
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (count <= 0 && writing) return ctx_fail(error, "the stream is closed");
    if (count <= 0) {
      error->text[0] = '\0';
      error->code = 0;
      return false;
    }
    data += count;
    size -= (size_t)count;
  }
  return true;
}

static bool reserve(frame *f, size_t size) {
  uint8_t *grown;
  if (size <= f->capacity) return true;
  if (posix_memalign((void **)&grown, CTX_ALIGNMENT, size) != 0) return false;
  if (f->data != NULL) memcpy(grown, f->data, f->capacity);
  free(f->data);
  f->data = grown;
  f->capacity = size;
  return true;
}

static bool check_header(const frame_header *header, ctx_error *error) {
  if (memcmp(header->magic, FRAME_MAGIC, sizeof header->magic) != 0 ||
      header->header_crc != header_crc(header))
    return ctx_fail(error, "a frame is damaged");
  if (header->version != FRAME_VERSION)
    return ctx_fail(error, "a frame has version %u, this agent speaks %d", header->version,
                    FRAME_VERSION);
  return header->length <= FRAME_MOST_BYTES || ctx_fail(error, "a frame has more than 1 GB");
}

bool frame_read(int descriptor, frame *out, bool check, frame_wait wait, void *context,
                ctx_error *error) {
  size_t have = 0;
  TRY(transfer(descriptor, (uint8_t *)&out->header, sizeof out->header, false, wait, context,
               error));
  TRY(check_header(&out->header, error));
  while (have < out->header.length) {
    size_t next = have < FIRST_BYTES ? FIRST_BYTES : 2 * have;
    if (next > out->header.length) next = out->header.length;
    if (!reserve(out, next)) return ctx_out_of_memory(error);
    TRY(transfer(descriptor, out->data + have, next - have, false, wait, context, error));
    have = next;
  }
  return !check || out->header.payload_crc == crc32_of(out->data, out->header.length) ||
         ctx_fail(error, "a frame's payload is damaged");
}

bool frame_write(int descriptor, const frame *f, frame_wait wait, void *context, ctx_error *error) {
  frame_header header = f->header;
  return transfer(descriptor, (uint8_t *)&header, sizeof header, true, wait, context, error) &&
         transfer(descriptor, f->data, f->header.length, true, wait, context, error);
}

void *frame_extend(frame *f, size_t size) {
  const size_t length = f->header.length;
  if (size > FRAME_MOST_BYTES - length) return NULL;
  if ((f->data == NULL || length + size > f->capacity) && !reserve(f, 2 * length + size + 1))
    return NULL;
  f->header.length = (uint32_t)(length + size);
  return memset(f->data + length, 0, size);
}

bool frame_add(frame *f, const void *data, size_t size, ctx_error *error) {
  void *room = frame_extend(f, size);
  if (room == NULL) return ctx_out_of_memory(error);
  if (size > 0) memcpy(room, data, size);
  return true;
}

void frame_answer(frame *reply, const frame_header *asked, const ctx_error *failure) {
  frame_header *header = &reply->header;
  if (failure != NULL) {
    const int32_t code = failure->code;
    ctx_error ignored;
    header->length = 0;
    if (frame_add(reply, &code, sizeof code, &ignored))
      (void)frame_add(reply, failure->text, strlen(failure->text), &ignored);
  }
  memcpy(header->magic, FRAME_MAGIC, sizeof header->magic);
  header->version = FRAME_VERSION;
  header->kind = failure != NULL ? FRAME_ERROR : (uint16_t)(asked->kind | FRAME_REPLY);
  header->id = asked->id;
  header->job = asked->job;
  header->limit_ms = 0;
  header->payload_crc = crc32_of(reply->data, header->length);
  header->header_crc = header_crc(header);
}

frame_reader frame_payload(const frame *f) {
  const frame_reader reader = {f->data, f->data + f->header.length};
  return reader;
}

const void *frame_take(frame_reader *reader, size_t size) {
  const uint8_t *taken = reader->at;
  if (taken == NULL || size > (size_t)(reader->end - taken)) return NULL;
  reader->at += size;
  return taken;
}

static bool take_into(frame_reader *reader, void *out, size_t size) {
  const void *taken = frame_take(reader, size);
  return taken != NULL && memcpy(out, taken, size) != NULL;
}

bool frame_take_u32(frame_reader *reader, uint32_t *out) {
  return take_into(reader, out, sizeof *out);
}

bool frame_take_u64(frame_reader *reader, uint64_t *out) {
  return take_into(reader, out, sizeof *out);
}
