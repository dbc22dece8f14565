/* SHA-256 (FIPS 180-4), with the instructions that x86-64 and ARM64 processors have for it. */
#include "sha256.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__)
#define HAS_X86 1
#include <cpuid.h>
#include <immintrin.h>
#elif defined(__aarch64__) && defined(__linux__) && defined(__GNUC__)
#define HAS_ARM 1
#include <arm_neon.h>
#include <sys/auxv.h>
#endif

static const uint32_t K[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotated(uint32_t x, int n) { return (x >> n) | (x << (32 - n)); }

static uint32_t big_endian(const uint8_t *p) {
  return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void schedule(const uint8_t *block, uint32_t w[64]) {
  int i;
  for (i = 0; i < 16; i++) w[i] = big_endian(block + 4 * i);
  for (i = 16; i < 64; i++) {
    uint32_t a = w[i - 15], b = w[i - 2];
    w[i] = w[i - 16] + (rotated(a, 7) ^ rotated(a, 18) ^ (a >> 3)) + w[i - 7] +
           (rotated(b, 17) ^ rotated(b, 19) ^ (b >> 10));
  }
}

static void blocks_portable(uint32_t state[8], const uint8_t *data, size_t count) {
  uint32_t w[64], v[8];
  int i;
  for (; count > 0; count--, data += 64) {
    schedule(data, w);
    memcpy(v, state, sizeof v);
    for (i = 0; i < 64; i++) {
      uint32_t e = v[4], a = v[0];
      uint32_t s1 = rotated(e, 6) ^ rotated(e, 11) ^ rotated(e, 25);
      uint32_t s0 = rotated(a, 2) ^ rotated(a, 13) ^ rotated(a, 22);
      uint32_t t1 = v[7] + s1 + ((e & v[5]) ^ (~e & v[6])) + K[i] + w[i];
      uint32_t t2 = s0 + ((a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]));
      memmove(v + 1, v, 7 * sizeof v[0]);
      v[4] += t1;
      v[0] = t1 + t2;
    }
    for (i = 0; i < 8; i++) state[i] += v[i];
  }
}

#if defined(HAS_X86)
static bool find_instructions(void) {
  unsigned a, b, c, d;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (b & 1u << 29) == 0) return false;
  return __get_cpuid(1, &a, &b, &c, &d) && (c & 1u << 19) != 0;
}

__attribute__((target("sha,sse4.1"))) static void blocks_fast(uint32_t state[8],
                                                              const uint8_t *data, size_t count) {
  const __m128i order = _mm_set_epi64x(0x0c0d0e0f08090a0bLL, 0x0405060700010203LL);
  __m128i low = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)(const void *)state), 0xB1);
  __m128i high =
      _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)(const void *)(state + 4)), 0x1B);
  __m128i abef = _mm_alignr_epi8(low, high, 8), cdgh = _mm_blend_epi16(high, low, 0xF0);
  for (; count > 0; count--, data += 64) {
    __m128i w[4], saved_abef = abef, saved_cdgh = cdgh;
    int i;
    for (i = 0; i < 4; i++)
      w[i] =
          _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(const void *)(data + 16 * i)), order);
#pragma GCC unroll 16
    for (i = 0; i < 16; i++) {
      __m128i sum =
          _mm_add_epi32(w[i & 3], _mm_loadu_si128((const __m128i *)(const void *)(K + 4 * i)));
      cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
      abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sum, 0x0E));
      if (i < 12) {
        __m128i next = _mm_sha256msg1_epu32(w[i & 3], w[(i + 1) & 3]);
        next = _mm_add_epi32(next, _mm_alignr_epi8(w[(i + 3) & 3], w[(i + 2) & 3], 4));
        w[i & 3] = _mm_sha256msg2_epu32(next, w[(i + 3) & 3]);
      }
    }
    abef = _mm_add_epi32(abef, saved_abef);
    cdgh = _mm_add_epi32(cdgh, saved_cdgh);
  }
  low = _mm_shuffle_epi32(abef, 0x1B);
  high = _mm_shuffle_epi32(cdgh, 0xB1);
  _mm_storeu_si128((__m128i *)(void *)state, _mm_blend_epi16(low, high, 0xF0));
  _mm_storeu_si128((__m128i *)(void *)(state + 4), _mm_alignr_epi8(high, low, 8));
}
#elif defined(HAS_ARM)
static bool find_instructions(void) {
  enum { SHA2 = 1 << 6 }; /* Source: HWCAP_SHA2 in Linux's asm/hwcap.h */
  return (getauxval(AT_HWCAP) & SHA2) != 0;
}

/* In assembler: clang before 16 has the intrinsics only where every processor meant has them. */
#define EXTENSION ".arch_extension sha2\n"

static uint32x4_t hash_abcd(uint32x4_t abcd, uint32x4_t efgh, uint32x4_t sum) {
  __asm__(EXTENSION "sha256h %q0, %q1, %2.4s" : "+w"(abcd) : "w"(efgh), "w"(sum));
  return abcd;
}

static uint32x4_t hash_efgh(uint32x4_t efgh, uint32x4_t abcd, uint32x4_t sum) {
  __asm__(EXTENSION "sha256h2 %q0, %q1, %2.4s" : "+w"(efgh) : "w"(abcd), "w"(sum));
  return efgh;
}

/* The four words of the schedule that follow w0, w1, w2 and w3. */
static uint32x4_t next_words(uint32x4_t w0, uint32x4_t w1, uint32x4_t w2, uint32x4_t w3) {
  __asm__(EXTENSION "sha256su0 %0.4s, %1.4s" : "+w"(w0) : "w"(w1));
  __asm__(EXTENSION "sha256su1 %0.4s, %1.4s, %2.4s" : "+w"(w0) : "w"(w2), "w"(w3));
  return w0;
}

static void blocks_fast(uint32_t state[8], const uint8_t *data, size_t count) {
  uint32x4_t abcd = vld1q_u32(state), efgh = vld1q_u32(state + 4);
  for (; count > 0; count--, data += 64) {
    uint32x4_t w[4], saved_abcd = abcd, saved_efgh = efgh;
    int i;
    for (i = 0; i < 4; i++) w[i] = vreinterpretq_u32_u8(vrev32q_u8(vld1q_u8(data + 16 * i)));
#pragma GCC unroll 16
    for (i = 0; i < 16; i++) {
      uint32x4_t sum = vaddq_u32(w[i & 3], vld1q_u32(K + 4 * i)), before = abcd;
      abcd = hash_abcd(abcd, efgh, sum);
      efgh = hash_efgh(efgh, before, sum);
      if (i < 12) w[i & 3] = next_words(w[i & 3], w[(i + 1) & 3], w[(i + 2) & 3], w[(i + 3) & 3]);
    }
    abcd = vaddq_u32(abcd, saved_abcd);
    efgh = vaddq_u32(efgh, saved_efgh);
  }
  vst1q_u32(state, abcd);
  vst1q_u32(state + 4, efgh);
}
#else
static bool find_instructions(void) { return false; }
#define blocks_fast blocks_portable
#endif

/* Asked once: virtual machines take longer to answer than a block takes. */
static bool has_instructions(void) {
  enum { UNKNOWN, MISSING, THERE };
  static _Atomic int known;
  int answer = atomic_load(&known);
  if (answer == UNKNOWN) {
    answer = find_instructions() ? THERE : MISSING;
    atomic_store(&known, answer);
  }
  return answer == THERE;
}

static void add_blocks(uint32_t state[8], const uint8_t *data, size_t count) {
  if (has_instructions())
    blocks_fast(state, data, count);
  else
    blocks_portable(state, data, count);
}

void sha256_begin(sha256 *hash) {
  static const uint32_t initial[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  memcpy(hash->state, initial, sizeof initial);
  hash->length = 0;
}

void sha256_add(sha256 *hash, const void *data, size_t size) {
  const uint8_t *p = data;
  size_t used = (size_t)(hash->length % 64);
  hash->length += size;
  if (used > 0) {
    size_t part = size < 64 - used ? size : 64 - used;
    memcpy(hash->block + used, p, part);
    p += part;
    size -= part;
    if (used + part < 64) return;
    add_blocks(hash->state, hash->block, 1);
  }
  if (size >= 64) add_blocks(hash->state, p, size / 64);
  if (size % 64 > 0) memcpy(hash->block, p + size / 64 * 64, size % 64);
}

void sha256_end(sha256 *hash, uint8_t digest[SHA256_BYTES]) {
  static const uint8_t padding[64] = {0x80};
  uint64_t bits = hash->length * 8;
  size_t used = (size_t)(hash->length % 64);
  uint8_t length[8];
  int i;
  for (i = 0; i < 8; i++) length[i] = (uint8_t)(bits >> (56 - 8 * i));
  sha256_add(hash, padding, used < 56 ? 56 - used : 120 - used);
  sha256_add(hash, length, sizeof length);
  for (i = 0; i < 32; i++) digest[i] = (uint8_t)(hash->state[i / 4] >> (24 - 8 * (i % 4)));
}

void sha256_of(const void *data, size_t size, uint8_t digest[SHA256_BYTES]) {
  sha256 hash;
  sha256_begin(&hash);
  if (size > 0) sha256_add(&hash, data, size);
  sha256_end(&hash, digest);
}

void sha256_hex(const uint8_t *digest, size_t bytes, char *out) {
  static const char digits[] = "0123456789abcdef";
  for (; bytes > 0; bytes--, digest++) {
    *out++ = digits[*digest >> 4];
    *out++ = digits[*digest & 15];
  }
  *out = '\0';
}
