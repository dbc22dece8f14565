/* Runs of operands: see agent.h. */
#include "agent.h"

#include <stdlib.h>
#include <string.h>

enum {
  MOST_RANK = 64,
  TRIES = 8,
  LEAST_BYTES = 1 << 12, /* of the first buffer for an output of open sizes; then four times more */
  MOST_REPEATS = 100000,
  OMITTED = -1, /* rank of an input that is left out */
  MEASURE = 1,  /* flag of a request */
};

/* An input or output with its buffer; execution objects are computed again while all stay. */
typedef struct {
  const ctx_operand *operand;
  bool known; /* all its sizes are declared */
  int32_t rank;
  uint32_t sizes[MOST_RANK];
  size_t bytes; /* of the run's tensor; for outputs of open sizes: of the buffer */
  void *buffer;
  size_t capacity;
} end;

typedef struct {
  uint64_t timeout, loop_timeout; /* nanoseconds; 0: none */
  uint32_t flags, repeats;
} order;

struct agent_runs {
  const ctx_nnapi *nnapi;
  const ctx_compiled *compiled;
  const uint32_t *numbers; /* of the container: declared sizes */
  bool measurable;
  uint32_t input_count, count;
  end *ends; /* inputs, then outputs */
  ANeuralNetworksBurst *burst;
  ANeuralNetworksExecution *execution; /* NULL: the next run makes one */
  order last;                          /* that it was made for */
};

static size_t element(const end *e) { return ctx_operand_element(e->operand->type); }

/* Bytes of a tensor of these sizes; 0 if one of them is open, or if they are too many. */
static size_t bytes_of(const end *e) {
  uint64_t bytes = element(e);
  int32_t i;
  for (i = 0; i < e->rank; i++) {
    if (e->sizes[i] != 0 && bytes > FRAME_MOST_BYTES / e->sizes[i]) return 0;
    bytes *= e->sizes[i];
  }
  return bytes > FRAME_MOST_BYTES ? 0 : (size_t)bytes;
}

static void drop_execution(agent_runs *r) {
  if (r->execution != NULL) r->nnapi->Execution_free(r->execution);
  r->execution = NULL;
}

/* Room of `bytes` for an operand; another place ends the execution that has the old one. */
static bool hold(agent_runs *r, end *e, size_t bytes, ctx_error *error) {
  if (bytes > e->capacity || e->buffer == NULL) {
    void *made = ctx_aligned(bytes);
    if (made == NULL) return ctx_out_of_memory(error);
    drop_execution(r);
    free(e->buffer);
    e->buffer = made;
    e->capacity = bytes;
  }
  e->bytes = bytes;
  return true;
}

static bool describe(agent_runs *r, end *e, const ctx_operand *operand, ctx_error *error) {
  const ctx_range dimensions = operand->dimensions;
  e->operand = operand;
  if (dimensions.count > MOST_RANK || element(e) == 0)
    return ctx_fail(error, "the model has an input or output that cannot be run");
  e->rank = (int32_t)dimensions.count;
  if (dimensions.count > 0)
    memcpy(e->sizes, r->numbers + dimensions.first, dimensions.count * sizeof *e->sizes);
  /* a tensor without sizes has any rank; scalars have none */
  e->known = bytes_of(e) > 0 && (e->rank > 0 || ctx_is_scalar(operand->type));
  return !e->known || hold(r, e, bytes_of(e), error);
}

agent_runs *agent_runs_make(const ctx_nnapi *nnapi, const ctx_container *c,
                            const ctx_compiled *compiled, bool measurable, ctx_error *error) {
  const ctx_model *model = ctx_chosen_model(c);
  agent_runs *r = calloc(1, sizeof *r);
  bool made = r != NULL;
  uint32_t i;
  if (!made) return ctx_out_of_memory(error), NULL;
  r->nnapi = nnapi;
  r->compiled = compiled;
  r->numbers = c->numbers;
  r->measurable = measurable && nnapi->Execution_setMeasureTiming != NULL &&
                  nnapi->Execution_getDuration != NULL;
  r->input_count = model->inputs.count;
  r->count = model->inputs.count + model->outputs.count;
  r->ends = calloc((size_t)r->count + 1, sizeof *r->ends);
  made = r->ends != NULL || ctx_out_of_memory(error);
  for (i = 0; made && i < r->count; i++) {
    const uint32_t at =
        i < r->input_count ? model->inputs.first + i : model->outputs.first + i - r->input_count;
    made = describe(r, &r->ends[i], &c->operands[model->operands.first + c->numbers[at]], error);
  }
  if (made) r->burst = ctx_burst_of(nnapi, compiled->compilation);
  if (made) return r;
  agent_runs_free(r);
  return NULL;
}

void agent_runs_free(agent_runs *r) {
  uint32_t i;
  if (r == NULL) return;
  drop_execution(r);
  if (r->burst != NULL) r->nnapi->Burst_free(r->burst);
  for (i = 0; r->ends != NULL && i < r->count; i++) free(r->ends[i].buffer);
  free(r->ends);
  free(r);
}

/* The sizes of an input as the request has them; they fit the model's. */
static bool take_sizes(agent_runs *r, end *e, frame_reader *reader, ctx_error *error) {
  const ctx_range dimensions = e->operand->dimensions;
  const uint32_t *declared = r->numbers + dimensions.first;
  const int32_t before = e->rank;
  uint32_t rank, bytes, i;
  bool same = true;
  if (!frame_take_u32(reader, &rank) || !frame_take_u32(reader, &bytes) ||
      ((int32_t)rank != OMITTED && rank > MOST_RANK))
    return ctx_fail(error, "a run's request is malformed");
  e->rank = (int32_t)rank;
  for (i = 0; e->rank > 0 && i < rank; i++) {
    uint32_t size;
    if (!frame_take_u32(reader, &size)) return ctx_fail(error, "a run's request is malformed");
    if (dimensions.count > 0 &&
        (rank != dimensions.count || (declared[i] != 0 && declared[i] != size)))
      return ctx_fail(error, "an input does not fit the model");
    same = same && e->sizes[i] == size;
    e->sizes[i] = size;
  }
  if (e->rank == 0 && dimensions.count > 0) return ctx_fail(error, "an input does not fit");
  if (!same || before != e->rank) drop_execution(r);
  if (bytes != (e->rank == OMITTED ? 0 : bytes_of(e)))
    return ctx_fail(error, "an input has not the bytes of its sizes");
  return hold(r, e, bytes, error);
}

/* A payload's tensors begin at multiples of 64. */
static void align(frame_reader *reader, const frame *request) {
  const size_t past = (size_t)(reader->at - request->data) % CTX_ALIGNMENT;
  const size_t skip = past > 0 ? CTX_ALIGNMENT - past : 0;
  reader->at = skip > (size_t)(reader->end - reader->at) ? reader->end : reader->at + skip;
}

static bool take_inputs(agent_runs *r, const frame *request, order *out, ctx_error *error) {
  frame_reader reader = frame_payload(request);
  uint32_t count, i;
  if (!frame_take_u64(&reader, &out->timeout) || !frame_take_u64(&reader, &out->loop_timeout) ||
      !frame_take_u32(&reader, &out->flags) || !frame_take_u32(&reader, &out->repeats) ||
      !frame_take_u32(&reader, &count) || count != r->input_count || out->flags > MEASURE ||
      out->repeats < 1 || out->repeats > MOST_REPEATS)
    return ctx_fail(error, "a run's request is malformed");
  for (i = 0; i < count; i++) TRY(take_sizes(r, &r->ends[i], &reader, error));
  for (i = 0; i < count; i++) {
    const void *data;
    align(&reader, request);
    data = frame_take(&reader, r->ends[i].bytes);
    if (data == NULL) return ctx_fail(error, "a run's request is cut");
    memcpy(r->ends[i].buffer, data, r->ends[i].bytes);
  }
  return reader.at == reader.end || ctx_fail(error, "a run's request is too long");
}

/* The first buffers of outputs; those of open sizes keep what they have grown to. */
static bool hold_outputs(agent_runs *r, ctx_error *error) {
  uint32_t i;
  for (i = r->input_count; i < r->count; i++) {
    end *e = &r->ends[i];
    if (!e->known && !hold(r, e, e->capacity > LEAST_BYTES ? e->capacity : LEAST_BYTES, error))
      return false;
  }
  return true;
}

#define CALL(...) TRY(NN_CALL(nnapi, __VA_ARGS__))

static bool set_limits(agent_runs *r, const order *o, ctx_error *error) {
  const ctx_nnapi *nnapi = r->nnapi;
  if (o->timeout > 0 && r->compiled->device->handle != NULL && nnapi->Execution_setTimeout != NULL)
    CALL(Execution_setTimeout, r->execution, o->timeout);
  if (o->loop_timeout > 0 && nnapi->Execution_setLoopTimeout != NULL)
    CALL(Execution_setLoopTimeout, r->execution, o->loop_timeout);
  if ((o->flags & MEASURE) != 0 && r->measurable)
    CALL(Execution_setMeasureTiming, r->execution, true);
  return true;
}

static bool set_ends(agent_runs *r, ctx_error *error) {
  const ctx_nnapi *nnapi = r->nnapi;
  uint32_t i;
  for (i = 0; i < r->input_count; i++) {
    const end *e = &r->ends[i];
    const ANeuralNetworksOperandType type = {e->operand->type, (uint32_t)e->rank, e->sizes,
                                             (float)e->operand->scale, e->operand->zero_point};
    if (e->rank == OMITTED)
      CALL(Execution_setInput, r->execution, (int32_t)i, NULL, NULL, 0);
    else
      CALL(Execution_setInput, r->execution, (int32_t)i, e->known ? NULL : &type, e->buffer,
           e->bytes);
  }
  for (; i < r->count; i++)
    CALL(Execution_setOutput, r->execution, (int32_t)(i - r->input_count), NULL, r->ends[i].buffer,
         r->ends[i].bytes);
  return true;
}

static bool prepare(agent_runs *r, const order *o, ctx_error *error) {
  const ctx_nnapi *nnapi = r->nnapi;
  if (r->execution != NULL && r->last.timeout == o->timeout &&
      r->last.loop_timeout == o->loop_timeout && r->last.flags == o->flags)
    return true;
  drop_execution(r);
  CALL(Execution_create, r->compiled->compilation, &r->execution);
  if (r->execution == NULL) return ctx_succeeded(NN_UNEXPECTED_NULL, "Execution_create", error);
  r->last = *o;
  TRY(set_limits(r, o, error) && set_ends(r, error));
  if (nnapi->Execution_setReusable != NULL) CALL(Execution_setReusable, r->execution, true);
  return true;
}

/* True also where the output did not fit, as its sizes are told then too. */
static bool asked(bool told, const ctx_error *error) {
  return told || error->code == NN_OUTPUT_INSUFFICIENT_SIZE;
}

/* The sizes of an output that was computed, or did not fit. */
static bool ask_sizes(agent_runs *r, uint32_t index, ctx_error *error) {
  const ctx_nnapi *nnapi = r->nnapi;
  end *e = &r->ends[index];
  const int32_t at = (int32_t)(index - r->input_count);
  uint32_t rank = 0;
  TRY(asked(NN_CALL(nnapi, Execution_getOutputOperandRank, r->execution, at, &rank), error));
  if (rank > MOST_RANK) return ctx_fail(error, "an output has %u dimensions", rank);
  e->rank = (int32_t)rank;
  return rank == 0 ||
         asked(NN_CALL(nnapi, Execution_getOutputOperandDimensions, r->execution, at, e->sizes),
               error);
}

/* Asks for the sizes of open outputs; `grow`: the buffers were too small. */
static bool settle(agent_runs *r, bool grow, ctx_error *error) {
  uint32_t i;
  for (i = r->input_count; i < r->count; i++)
    if (!r->ends[i].known) TRY(ask_sizes(r, i, error));
  for (i = r->input_count; grow && i < r->count; i++) {
    end *e = &r->ends[i];
    const size_t wanted = e->known || e->rank == 0 ? 0 : bytes_of(e);
    if (!e->known && (wanted == 0 || wanted > e->bytes))
      TRY(hold(r, e, wanted > 0 ? wanted : 4 * e->bytes, error));
  }
  return true;
}

static bool has_open_outputs(const agent_runs *r) {
  uint32_t i;
  for (i = r->input_count; i < r->count; i++)
    if (!r->ends[i].known) return true;
  return false;
}

/* Runs once; an output that does not fit gets a larger buffer. */
static bool run_once(agent_runs *r, const order *o, uint64_t *time, ctx_error *error) {
  const bool open = has_open_outputs(r);
  int tries;
  for (tries = 1;; tries++) {
    bool ran;
    ctx_error failure;
    uint64_t begin;
    TRY(prepare(r, o, error));
    begin = ctx_now();
    ran = ctx_compute(r->nnapi, r->execution, r->burst, &failure);
    *time = ctx_now() - begin;
    if (ran) return !open || settle(r, false, error);
    if (!open || failure.code != NN_OUTPUT_INSUFFICIENT_SIZE || tries == TRIES ||
        !settle(r, true, error))
      return *error = failure, false;
    drop_execution(r);
  }
}

static bool add_times(agent_runs *r, uint64_t time, frame *reply, ctx_error *error) {
  uint64_t times[3] = {time, UINT64_MAX, UINT64_MAX};
  if ((r->last.flags & MEASURE) != 0 && r->measurable) {
    const ctx_nnapi *nnapi = r->nnapi;
    CALL(Execution_getDuration, r->execution, NN_DURATION_ON_HARDWARE, &times[1]);
    CALL(Execution_getDuration, r->execution, NN_DURATION_IN_DRIVER, &times[2]);
  }
  return frame_add(reply, times, sizeof times, error);
}

static bool add_outputs(const agent_runs *r, frame *reply, ctx_error *error) {
  uint32_t i;
  for (i = r->input_count; i < r->count; i++) {
    const end *e = &r->ends[i];
    const size_t sizes = (size_t)e->rank * sizeof *e->sizes;
    const uint32_t head[2] = {(uint32_t)e->rank, (uint32_t)(e->known ? e->bytes : bytes_of(e))};
    if (head[1] > e->bytes) return ctx_fail(error, "an output is larger than its buffer");
    TRY(frame_add(reply, head, sizeof head, error) && frame_add(reply, e->sizes, sizes, error));
  }
  for (i = r->input_count; i < r->count; i++) {
    const end *e = &r->ends[i];
    const size_t bytes = e->known ? e->bytes : bytes_of(e);
    const size_t past = reply->header.length % CTX_ALIGNMENT;
    const size_t padding = past > 0 ? CTX_ALIGNMENT - past : 0;
    if (frame_extend(reply, padding) == NULL) return ctx_out_of_memory(error);
    TRY(frame_add(reply, e->buffer, bytes, error));
  }
  return true;
}

bool agent_run(agent_runs *r, const frame *request, frame *reply, ctx_error *error) {
  order o;
  uint32_t i;
  bool ran = take_inputs(r, request, &o, error) && hold_outputs(r, error);
  for (i = 0; ran && i < o.repeats; i++) {
    uint64_t time;
    ran = run_once(r, &o, &time, error) && add_times(r, time, reply, error);
    if (r->nnapi->Execution_setReusable == NULL) drop_execution(r);
  }
  if (!ran) drop_execution(r);
  return ran && add_outputs(r, reply, error);
}
