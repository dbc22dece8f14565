/* Receipts: see receipt.h. */
#include "receipt.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sha256.h"
#include "whole_file.h"

#ifndef NNAPI_CONTEXT_RELEASE
#define NNAPI_CONTEXT_RELEASE "0.0.0"
#endif

struct ctx_receipt {
  char *path, *model, *clusters; /* JSON of the clusters */
  char digest[2 * SHA256_BYTES + 1];
  FILE *stream; /* writes `clusters` */
  size_t size;
  pid_t process;
};

/* A JSON string; what is not UTF-8 becomes U+FFFD. */
static void write_string(FILE *out, const char *text) {
  uint32_t code;
  size_t size;
  if (text == NULL) {
    fputs("null", out);
    return;
  }
  fputc('"', out);
  for (; *text != '\0'; text += size) {
    if (!ctx_decode(text, strlen(text), &code, &size)) {
      code = 0xfffd;
      size = 1;
    }
    if (code == '"' || code == '\\')
      fprintf(out, "\\%c", (char)code);
    else if (!ctx_is_printable(code) || code == 0xfffd)
      fprintf(out, "\\u%04" PRIx32, code); /* none of them is beyond U+FFFF */
    else
      fwrite(text, 1, size, out);
  }
  fputc('"', out);
}

/* `before`, with a key at its end, and a string. */
static void write_item(FILE *out, const char *before, const char *text) {
  fputs(before, out);
  write_string(out, text);
}

/* Milliseconds with a fraction, in any locale. */
static void write_milliseconds(FILE *out, uint64_t nanoseconds) {
  fprintf(out, "%" PRIu64 ".%06" PRIu64, nanoseconds / 1000000, nanoseconds % 1000000);
}

ctx_receipt *ctx_receipt_begin(const char *path, ctx_error *error) {
  ctx_receipt *r;
  ctx_file trial;
  if (!ctx_file_open(path, &trial, error)) return (void)ctx_prefix(error, "receipt"), NULL;
  (void)ctx_file_close(&trial, false, error);
  r = calloc(1, sizeof *r);
  if (r == NULL) return (void)ctx_out_of_memory(error), NULL;
  r->process = getpid();
  r->path = strdup(path);
  r->stream = open_memstream(&r->clusters, &r->size);
  if (r->path != NULL && r->stream != NULL) return r;
  ctx_receipt_drop(r);
  return (void)ctx_out_of_memory(error), NULL;
}

void ctx_receipt_model(ctx_receipt *r, const char *path) {
  FILE *file = path != NULL && path[0] != '\0' && r->model == NULL ? fopen(path, "rb") : NULL;
  uint8_t block[1 << 14], digest[SHA256_BYTES];
  sha256 hash;
  size_t size;
  if (file == NULL) return;
  sha256_begin(&hash);
  while ((size = fread(block, 1, sizeof block, file)) > 0) sha256_add(&hash, block, size);
  fclose(file);
  sha256_end(&hash, digest);
  sha256_hex(digest, SHA256_BYTES, r->digest);
  r->model = realpath(path, NULL);
}

/* Operations and bytes of constant tensors of all models of a container. */
static void write_compiled(FILE *out, const ctx_container *c, const ctx_record *record) {
  const ctx_range own = c->chosen->models;
  uint64_t bytes = 0, operations = 0;
  uint32_t i, k;
  if (!record->compiled) {
    fputs("null", out);
    return;
  }
  for (k = 0; k < own.count; k++) {
    const ctx_model *model = &c->models[own.first + k];
    const ctx_operand *operands = c->operands + model->operands.first;
    operations += model->operations.count;
    for (i = 0; i < model->operands.count; i++)
      if (operands[i].value == CTX_VALUE_CONSTANT && operands[i].dimensions.count > 0)
        bytes += operands[i].size;
  }
  fprintf(out, "{\"operations\": %" PRIu64 ", \"weight_bytes\": %" PRIu64 ", \"milliseconds\": ",
          operations, bytes);
  write_milliseconds(out, record->compile_time);
  fputc('}', out);
}

static void write_runs(FILE *out, const ctx_record *record) {
  const uint64_t runs = record->device_runs + record->fallback_runs + record->other_runs;
  fprintf(out, ",\n   \"runs\": %" PRIu64 ", \"device_runs\": %" PRIu64 ", \"fallbacks\": [", runs,
          record->device_runs);
  if (record->fallback != NULL) {
    write_item(out, "{\"to\": ", record->fallback);
    fprintf(out, ", \"phase\": \"%s\", \"reason\": ", record->compiled ? "run" : "compile");
    write_string(out, record->reason);
    fprintf(out, ", \"runs\": %" PRIu64 "}", record->fallback_runs);
  }
  fputs("],\n   \"milliseconds\": ", out);
  if (runs == 0) {
    fputs("null", out);
    return;
  }
  fputs("{\"total\": ", out);
  write_milliseconds(out, record->total_time);
  fputs(", \"least\": ", out);
  write_milliseconds(out, record->least_time);
  fputc('}', out);
}

static void write_choice(FILE *out, ctx_choice *choice) {
  uint32_t count, i;
  const ctx_tried *tried = ctx_choice_tried(choice, &count);
  write_item(out, ",\n   \"alternative\": ", ctx_choice_name(choice));
  fputs(", \"tried\": [", out);
  for (i = 0; i < count; i++) {
    write_item(out,
               i > 0 ? ",\n    {\"alternative\": " : "\n    {\"alternative\": ", tried[i].name);
    write_item(out, ", \"reason\": ", tried[i].reason.text);
    fprintf(out, ", \"runs\": %" PRIu64 "}", tried[i].runs);
  }
  fputc(']', out);
}

static void write_cluster(ctx_receipt *r, const char *node, const char *runtime,
                          const ctx_container *c, const ctx_record *record, ctx_choice *choice) {
  FILE *out = r->stream;
  fputs(ftell(out) > 0 ? ",\n  {\"name\": " : "\n  {\"name\": ", out);
  write_string(out, node);
  write_item(out, ", \"nodes\": [", node);
  write_item(out, "], \"runtime\": ", runtime);
  write_item(out, ",\n   \"device\": ", record->device);
  fprintf(out, ", \"feature_level\": %u,\n   \"compiled\": ", c->chosen->feature_level);
  write_compiled(out, c, record);
  write_runs(out, record);
  if (choice != NULL) write_choice(out, choice);
  if (record->fallback == NULL && record->reason != NULL)
    write_item(out, ",\n   \"error\": ", record->reason);
  fputc('}', out);
}

void ctx_receipt_add(ctx_receipt *r, const char *node, const char *runtime, ctx_choice *choice) {
  const ctx_record record = ctx_choice_record(choice);
  const ctx_container c = ctx_choice_container(choice);
  write_cluster(r, node, runtime, &c, &record, ctx_choice_is_alone(choice) ? NULL : choice);
}

void ctx_receipt_add_failure(ctx_receipt *r, const char *node, const char *runtime,
                             const ctx_container *container, const ctx_device *device,
                             const ctx_error *reason) {
  const ctx_record record = {.device = device->name, .reason = reason->text};
  write_cluster(r, node, runtime, container, &record, NULL);
}

static void write_receipt(const ctx_receipt *r, const char *onnxruntime, FILE *out) {
  write_item(
      out, "{\n \"format\": \"ep-nnapi receipt\", \"version\": 1,\n \"versions\": {\"ep_nnapi\": ",
      NNAPI_CONTEXT_RELEASE);
  if (onnxruntime != NULL) write_item(out, ", \"onnxruntime\": ", onnxruntime);
  write_item(out, "},\n \"model\": {\"path\": ", r->model);
  write_item(out, ", \"sha256\": ", r->model != NULL ? r->digest : NULL);
  fputs("},\n \"clusters\": [", out);
  fwrite(r->clusters, 1, r->size, out);
  fputs("\n ]\n}\n", out);
}

bool ctx_receipt_end(ctx_receipt *r, const char *onnxruntime, ctx_error *error) {
  ctx_file file;
  bool written = r->process != getpid();
  if (!written) {
    written = fflush(r->stream) == 0 || ctx_out_of_memory(error);
    if (written && (written = ctx_file_open(r->path, &file, error))) {
      write_receipt(r, onnxruntime, file.stream);
      written = ctx_file_close(&file, true, error);
    }
    if (!written) (void)ctx_prefix(error, "the receipt cannot be written");
  }
  ctx_receipt_drop(r);
  return written;
}

void ctx_receipt_drop(ctx_receipt *r) {
  if (r == NULL) return;
  if (r->stream != NULL) fclose(r->stream);
  free(r->clusters);
  free(r->model);
  free(r->path);
  free(r);
}
