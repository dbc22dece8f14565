/* The parts of nnapi_agent: docs/agent.md has the protocol. Python's frames are
 * ep_nnapi/remote/stream.py. */
#ifndef NNAPI_CONTEXT_AGENT_H
#define NNAPI_CONTEXT_AGENT_H

#include "execution.h"
#include "options.h"

#define FRAME_MAGIC "NNAF"
enum { FRAME_VERSION = 1, FRAME_HEADER_BYTES = 32, FRAME_MOST_BYTES = 1 << 30 };

/* Kinds of requests; a reply has that of its request and FRAME_REPLY, or is FRAME_ERROR. */
enum {
  FRAME_HELLO = 1,
  FRAME_DEVICES = 2,
  FRAME_PUT = 3,
  FRAME_STORE = 4,
  FRAME_MODEL = 5,
  FRAME_SUPPORTED = 6,
  FRAME_COMPILE = 7,
  FRAME_RUN = 8,
  FRAME_MEMORY = 9,
  FRAME_FREE = 10,
  FRAME_REPLY = 0x8000,
  FRAME_ERROR = 0xffff,
};

/* Little-endian, as the processor is: container.c demands it. */
typedef struct {
  uint8_t magic[4];
  uint16_t version, kind;
  uint32_t id;                      /* of the request; its reply has it too */
  uint32_t job;                     /* a compilation with its runs */
  uint32_t length;                  /* bytes of the payload */
  uint32_t limit_ms;                /* of a request: time until its job is ended; 0: no limit */
  uint32_t payload_crc, header_crc; /* CRC-32 (IEEE 802.3); that of the bytes before this one */
} frame_header;
_Static_assert(sizeof(frame_header) == FRAME_HEADER_BYTES, "frame header");

typedef struct {
  frame_header header;
  uint8_t *data; /* the payload, at a multiple of 64 */
  size_t capacity;
} frame;

/* Waits until `descriptor` can be read, or written; false if that is in vain. */
typedef bool (*frame_wait)(void *context, int descriptor, bool writing, ctx_error *error);

/* Reads a frame; memory grows with what arrives. At the end of the stream the error has no text.
 * `check`: the payload's checksum too. */
bool frame_read(int descriptor, frame *out, bool check, frame_wait wait, void *context,
                ctx_error *error);

/* Writes a frame as it is. */
bool frame_write(int descriptor, const frame *f, frame_wait wait, void *context, ctx_error *error);

/* Makes the header of the reply to a request, whose payload is there; `failure`: that of FRAME_ERROR
 * instead, the code and the sentence. */
void frame_answer(frame *reply, const frame_header *asked, const ctx_error *failure);

/* Room for `size` more bytes of payload, zeros; NULL if memory is short. */
void *frame_extend(frame *f, size_t size);

/* Adds bytes to the payload. */
bool frame_add(frame *f, const void *data, size_t size, ctx_error *error);

/* The next `size` bytes of a payload; NULL if there are fewer. */
typedef struct {
  const uint8_t *at, *end;
} frame_reader;
frame_reader frame_payload(const frame *f);
const void *frame_take(frame_reader *reader, size_t size);
bool frame_take_u32(frame_reader *reader, uint32_t *out);
bool frame_take_u64(frame_reader *reader, uint64_t *out);

/* Runs of a model whose inputs and outputs are operands, without a border.
 *
 * Sizes that the model leaves open are those of a run's inputs; outputs of open sizes get buffers
 * that grow. Python's is ep_nnapi/nnapi/library/compilation.py. */
typedef struct agent_runs agent_runs;

/* `measurable`: it was compiled for a chosen device, whose runs may be timed and limited. */
agent_runs *agent_runs_make(const ctx_nnapi *nnapi, const ctx_container *container,
                            const ctx_compiled *compiled, bool measurable, ctx_error *error);
void agent_runs_free(agent_runs *runs);

/* Runs as often as the request says; adds times and outputs to the reply. */
bool agent_run(agent_runs *runs, const frame *request, frame *reply, ctx_error *error);

/* The weights that were pushed: files in a folder, named by their SHA-256.
 *
 * Writes the part of a file that the request has, and says how much of it is there; the whole file
 * gets its name when its digest is right. */
bool agent_put(const char *folder, const frame *request, frame *reply, ctx_error *error);

/* Lists the files, lines of bytes and name; removes them if the request says 1. */
bool agent_store(const char *folder, const frame *request, frame *reply, ctx_error *error);

/* A worker, one process that has one job of an NNAPI library at a time: serves the frames of
 * `descriptor` until its end; returns the process's exit status. `folder` has the weights. */
int agent_work(int descriptor, const ctx_settings *settings, const char *folder);

#endif
