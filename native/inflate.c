/* Bytes that were deflated: see inflate.h. Names of fields are those of RFC 1951. */
#include "inflate.h"

#include <string.h>

#include "error.h"

enum { LONGEST = 15, LITERALS = 286, FIXED = 288, DISTANCES = 30, LENGTHS = 19, END = 256 };

typedef struct {
  const uint8_t *next, *end;
  uint32_t bits; /* that were read from there and not used, the lowest first */
  unsigned count;
  ctx_bytes before;
  uint8_t *out;
  size_t size, capacity;
} stream;

/* A code of Huffman's: its symbols in the order of their codes, and how many are of each length. */
typedef struct {
  uint16_t symbols[FIXED];
  uint16_t counts[LONGEST + 1];
} code;

static bool read_bits(stream *s, unsigned count, uint32_t *out) {
  while (s->count < count) {
    TRY(s->next < s->end);
    s->bits |= (uint32_t)*s->next++ << s->count;
    s->count += 8;
  }
  *out = s->bits & ((1u << count) - 1);
  s->bits >>= count;
  s->count -= count;
  return true;
}

/* The code with these lengths; 0: a symbol has none. All of its codes must be used, but a code may
 * have no symbol and, of literals and distances, one symbol of one bit. */
static bool make_code(const uint8_t *lengths, unsigned count, code *out) {
  uint16_t places[LONGEST + 1];
  uint32_t unused = 1;
  unsigned i, used = 0;
  memset(out->counts, 0, sizeof out->counts);
  for (i = 0; i < count; i++)
    if (lengths[i] > 0) out->counts[lengths[i]]++;
  for (i = 1; i <= LONGEST; i++) {
    unused *= 2;
    TRY(out->counts[i] <= unused);
    unused -= out->counts[i];
    places[i] = (uint16_t)used;
    used += out->counts[i];
  }
  TRY(unused == 0 || used == 0 || (used == 1 && out->counts[1] == 1 && count != LENGTHS));
  for (i = 0; i < count; i++)
    if (lengths[i] > 0) out->symbols[places[lengths[i]]++] = (uint16_t)i;
  return true;
}

/* Codes of one length are numbers in a row, after twice those of the length before. */
static bool read_symbol(stream *s, const code *c, uint32_t *out) {
  uint32_t value = 0, first = 0, bit;
  unsigned length, passed = 0;
  for (length = 1; length <= LONGEST; length++) {
    TRY(read_bits(s, 1, &bit));
    value = value * 2 + bit;
    first *= 2;
    if (value - first < c->counts[length]) {
      *out = c->symbols[passed + value - first];
      return true;
    }
    first += c->counts[length];
    passed += c->counts[length];
  }
  return false;
}

static bool copy(stream *s, size_t distance, size_t length) {
  TRY(length <= s->capacity - s->size);
  TRY(distance <= s->size || distance - s->size <= s->before.size);
  for (; length > 0; length--, s->size++)
    s->out[s->size] = distance <= s->size ? s->out[s->size - distance]
                                          : s->before.data[s->before.size - (distance - s->size)];
  return true;
}

/* A number after its symbol: those of a group of symbols have as many more bits. The first `few`
 * symbols have none; each group is `group` symbols. */
static bool read_number(stream *s, uint32_t symbol, uint32_t few, uint32_t group, uint32_t *out) {
  const uint32_t extra = symbol < few ? 0 : symbol / group - 1;
  uint32_t rest;
  TRY(read_bits(s, extra, &rest));
  *out = symbol < few ? symbol : ((group + symbol % group) << extra) + rest;
  return true;
}

static bool read_copy(stream *s, uint32_t symbol, const code *distances) {
  enum { SHORTEST = 3, LAST = 28, MOST = 258 };
  uint32_t length = MOST - SHORTEST, distance;
  TRY(symbol <= LAST);
  if (symbol < LAST) TRY(read_number(s, symbol, 8, 4, &length));
  TRY(read_symbol(s, distances, &symbol) && symbol < DISTANCES);
  TRY(read_number(s, symbol, 4, 2, &distance));
  return copy(s, distance + 1, length + SHORTEST);
}

static bool read_block(stream *s, const code *literals, const code *distances) {
  for (;;) {
    uint32_t symbol;
    TRY(read_symbol(s, literals, &symbol));
    if (symbol == END) return true;
    if (symbol > END) {
      TRY(read_copy(s, symbol - END - 1, distances));
      continue;
    }
    TRY(s->size < s->capacity);
    s->out[s->size++] = (uint8_t)symbol;
  }
}

static bool read_stored(stream *s) {
  uint32_t size, inverse, skipped;
  TRY(read_bits(s, s->count % 8, &skipped));
  TRY(read_bits(s, 16, &size) && read_bits(s, 16, &inverse) && (size ^ inverse) == 0xFFFF);
  TRY(size <= (size_t)(s->end - s->next) && size <= s->capacity - s->size);
  memcpy(s->out + s->size, s->next, size);
  s->next += size;
  s->size += size;
  return true;
}

static bool read_fixed(stream *s) {
  uint8_t lengths[FIXED], same[DISTANCES + 2];
  code literals, distances;
  memset(lengths, 8, 144);
  memset(lengths + 144, 9, 112);
  memset(lengths + 256, 7, 24);
  memset(lengths + 280, 8, 8);
  memset(same, 5, sizeof same);
  TRY(make_code(lengths, FIXED, &literals) && make_code(same, sizeof same, &distances));
  return read_block(s, &literals, &distances);
}

/* Lengths of codes, of which some are repeated. */
static bool read_lengths(stream *s, const code *of_lengths, uint8_t *lengths, unsigned count) {
  static const uint8_t bits[] = {2, 3, 7}, least[] = {3, 3, 11};
  unsigned i = 0;
  while (i < count) {
    uint32_t symbol, more;
    TRY(read_symbol(s, of_lengths, &symbol));
    if (symbol < 16) {
      lengths[i++] = (uint8_t)symbol;
      continue;
    }
    TRY(read_bits(s, bits[symbol - 16], &more));
    more += least[symbol - 16];
    TRY(more <= count - i && (symbol > 16 || i > 0));
    memset(lengths + i, symbol == 16 ? lengths[i - 1] : 0, more);
    i += more;
  }
  return true;
}

static bool read_dynamic(stream *s) {
  static const uint8_t order[LENGTHS] = {16, 17, 18, 0, 8,  7, 9,  6, 10, 5,
                                         11, 4,  12, 3, 13, 2, 14, 1, 15};
  uint8_t lengths[LITERALS + DISTANCES] = {0};
  uint32_t hlit, hdist, hclen, length, i;
  code of_lengths, literals, distances;
  TRY(read_bits(s, 5, &hlit) && read_bits(s, 5, &hdist) && read_bits(s, 4, &hclen));
  hlit += 257;
  hdist += 1;
  TRY(hlit <= LITERALS && hdist <= DISTANCES);
  for (i = 0; i < hclen + 4; i++) {
    TRY(read_bits(s, 3, &length));
    lengths[order[i]] = (uint8_t)length;
  }
  TRY(make_code(lengths, LENGTHS, &of_lengths));
  TRY(read_lengths(s, &of_lengths, lengths, hlit + hdist) && lengths[END] > 0);
  TRY(make_code(lengths, hlit, &literals) && make_code(lengths + hlit, hdist, &distances));
  return read_block(s, &literals, &distances);
}

bool ctx_inflate(ctx_bytes packed, ctx_bytes before, uint8_t *out, size_t out_size) {
  stream s = {.next = packed.data,
              .end = packed.data + packed.size,
              .before = before,
              .out = out,
              .capacity = out_size};
  uint32_t final, type;
  do {
    TRY(read_bits(&s, 1, &final) && read_bits(&s, 2, &type));
    if (type == 0)
      TRY(read_stored(&s));
    else if (type == 1)
      TRY(read_fixed(&s));
    else
      TRY(type == 2 && read_dynamic(&s));
  } while (!final);
  return s.next == s.end && s.size == out_size;
}
