/* Sizes of a run, computed from the sizes of its inputs. */
#include "parts.h"

/* 0 if the tensor is no integers, or too few of them. */
static int read_number(const Tensor *tensor, size_t at, int64_t *number) {
  size_t bytes = tensor->dtype == INT64 ? sizeof(int64_t) : sizeof(int32_t);
  if (tensor->dtype != INT64 && tensor->dtype != INT32) return 0;
  if (at >= tensor->bytes / bytes) return 0;
  *number = tensor->dtype == INT64 ? ((const int64_t *)tensor->data)[at]
                                   : ((const int32_t *)tensor->data)[at];
  return 1;
}

/* Sets *fits to 0 if there is none. */
static OrtStatus *read_symbol(const OrtValue *value, const SizeSymbol *symbol, int64_t *number,
                              int *fits) {
  Tensor found;
  if (symbol->contents) {
    TRY(read_tensor(value, &found));
    *fits = read_number(&found, symbol->at, number);
    return NULL;
  }
  TRY(api->GetTensorElementTypeAndShapeDataReference(value, &found.dtype, &found.dims,
                                                     &found.rank));
  *fits = symbol->at < found.rank;
  if (!*fits) return NULL;
  *number = found.dims[symbol->at];
  *fits = *number >= 1; /* what is known of expressions holds for such sizes */
  return NULL;
}

static OrtStatus *read_symbols(const SizeProgram *program, OrtKernelContext *context,
                               int64_t *symbols, int *fits) {
  const OrtValue *value;
  size_t i;
  for (i = 0; i < program->symbol_count && *fits; i++) {
    value = NULL;
    TRY(api->KernelContext_GetInput(context, program->symbols[i].position, &value));
    *fits = value != NULL;
    if (*fits) TRY(read_symbol(value, &program->symbols[i], &symbols[i], fits));
  }
  return NULL;
}

/* The quotient rounded down; 0 if there is none. */
static int divide(int64_t dividend, int64_t divisor, int64_t *quotient) {
  if (divisor == 0 || (dividend == INT64_MIN && divisor == -1)) return 0;
  *quotient = dividend / divisor;
  if (dividend % divisor != 0 && (dividend < 0) != (divisor < 0)) --*quotient;
  return 1;
}

/* 0 if the result is no 64-bit integer; replaces `left` by it. */
static int combine(int64_t instruction, int64_t *left, int64_t right) {
  if (instruction == SIZE_ADD) return !__builtin_add_overflow(*left, right, left);
  if (instruction == SIZE_MULTIPLY) return !__builtin_mul_overflow(*left, right, left);
  return divide(*left, right, left);
}

static int holds(int64_t instruction, int64_t value) {
  if (instruction == SIZE_ZERO) return value == 0;
  return instruction == SIZE_NONZERO ? value != 0 : value >= 0;
}

/* Who writes a program sees to it that the stack has its operands, and `sizes` room. */
static int run_program(const SizeProgram *program, const int64_t *symbols, int64_t *sizes) {
  int64_t stack[MOST_OPERANDS], instruction;
  size_t i = 0, count = 0;
  while (i < program->length) {
    instruction = program->code[i++];
    if (instruction == SIZE_SYMBOL) {
      stack[count++] = symbols[program->code[i++]];
    } else if (instruction == SIZE_NUMBER) {
      stack[count++] = program->code[i++];
    } else if (instruction == SIZE_STORE) {
      *sizes++ = stack[--count];
    } else if (instruction <= SIZE_DIVIDE) {
      count--;
      if (!combine(instruction, &stack[count - 1], stack[count])) return 0;
    } else if (!holds(instruction, stack[--count])) {
      return 0;
    }
  }
  return 1;
}

OrtStatus *compute_sizes(const SizeProgram *program, OrtKernelContext *context, int64_t *sizes,
                         int *fits) {
  int64_t symbols[MOST_SYMBOLS];
  TRY(read_symbols(program, context, symbols, fits));
  if (*fits) *fits = run_program(program, symbols, sizes);
  return NULL;
}
