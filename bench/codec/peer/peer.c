// Encodes and decodes zlib streams with libdeflate, zlib and, where ISAL is defined, ISA-L, for the
// benchmark of the codec. It reads commands from standard input, one a line, and answers each with a
// line. Files hold records: two lengths of 32 bits, little-endian, of the stream and of the tile,
// then both.
//
//	pack NAME FILE   replace the streams of a file by those of libdeflate or zlib, level 6
//	load FILE        read a file, decode it with each library and compare
//	time NAME N      decode all streams N times: nanoseconds of processor time
//	encode NAME N    encode all tiles N times at level 1: nanoseconds of processor time, and the
//	                 bytes of the streams
#include <libdeflate.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zlib.h>
#ifdef ISAL
#include <isa-l/igzip_lib.h>
#endif

struct tile {
  uint32_t packed, raw;
  unsigned char *stream, *bytes;
};
static struct tile *tiles;
static size_t count;
static unsigned char *out;
static struct libdeflate_decompressor *decompressor;
static struct libdeflate_compressor *compressor; // level 1
static unsigned char *packed;
static size_t bound; // of packed

static void fail(const char *what) {
  fprintf(stderr, "peer: %s\n", what);
  exit(1);
}

static void load(const char *name) {
  uint32_t n[2], most = 0;
  FILE *f = fopen(name, "rb");
  if (!f) fail("can't open a file of tiles");
  for (size_t i = 0; i < count; i++) free(tiles[i].stream);
  count = 0;
  while (fread(n, 4, 2, f) == 2) {
    tiles = realloc(tiles, (count + 1) * sizeof *tiles);
    struct tile *t = &tiles[count++];
    t->packed = n[0], t->raw = n[1];
    t->stream = malloc((size_t)n[0] + n[1] + 1);
    t->bytes = t->stream + n[0];
    if (fread(t->stream, 1, (size_t)n[0] + n[1], f) != (size_t)n[0] + n[1]) fail("a file of tiles is short");
    if (n[1] > most) most = n[1];
  }
  fclose(f);
  free(out);
  out = malloc(most + 1);
  free(packed);
  bound = 2 * (size_t)most + 1000;
  packed = malloc(bound);
}

static void pack(const char *library, const char *name) {
  load(name);
  FILE *f = fopen(name, "wb");
  if (!f) fail("can't write a file of tiles");
  struct libdeflate_compressor *c = libdeflate_alloc_compressor(6);
  for (size_t i = 0; i < count; i++) {
    struct tile *t = &tiles[i];
    uLongf n = libdeflate_zlib_compress_bound(c, t->raw) + compressBound(t->raw);
    unsigned char *p = malloc(n);
    if (!strcmp(library, "libdeflate")) n = libdeflate_zlib_compress(c, t->bytes, t->raw, p, n);
    else if (compress2(p, &n, t->bytes, t->raw, 6) != Z_OK) fail("zlib can't compress");
    uint32_t head[2] = {n, t->raw};
    if (fwrite(head, 4, 2, f) != 2 || fwrite(p, 1, n, f) != n || fwrite(t->bytes, 1, t->raw, f) != t->raw)
      fail("can't write a file of tiles");
    free(p);
  }
  libdeflate_free_compressor(c);
  if (fclose(f)) fail("can't write a file of tiles");
}

static void decode(const char *library, struct tile *t) {
#ifdef ISAL
  if (!strcmp(library, "isal")) {
    static struct inflate_state s;
    isal_inflate_init(&s);
    s.crc_flag = ISAL_ZLIB;
    s.next_in = t->stream, s.avail_in = t->packed, s.next_out = out, s.avail_out = t->raw;
    if (isal_inflate(&s) != ISAL_DECOMP_OK || s.total_out != t->raw) fail("isal refuses a stream");
    return;
  }
#endif
  size_t n;
  if (strcmp(library, "libdeflate")) fail("no such library");
  if (libdeflate_zlib_decompress(decompressor, t->stream, t->packed, out, t->raw, &n) || n != t->raw)
    fail("libdeflate refuses a stream");
}

// encode writes the stream of a tile to packed and returns its size.
static size_t encode(const char *library, struct tile *t) {
#ifdef ISAL
  if (!strcmp(library, "isal")) {
    static struct isal_zstream s;
    static unsigned char level[ISAL_DEF_LVL1_DEFAULT]; // as igzip has it
    isal_deflate_init(&s);
    s.level = 1, s.level_buf = level, s.level_buf_size = sizeof level;
    s.gzip_flag = IGZIP_ZLIB, s.end_of_stream = 1, s.flush = NO_FLUSH;
    s.next_in = t->bytes, s.avail_in = t->raw, s.next_out = packed, s.avail_out = bound;
    if (isal_deflate(&s) != COMP_OK || s.internal_state.state != ZSTATE_END) fail("isal can't compress");
    return s.total_out;
  }
#endif
  if (strcmp(library, "libdeflate")) fail("no such library");
  size_t n = libdeflate_zlib_compress(compressor, t->bytes, t->raw, packed, bound);
  if (n == 0) fail("libdeflate can't compress");
  return n;
}

// check_encoder decodes what a library encodes, and compares.
static void check_encoder(const char *library) {
  for (size_t i = 0; i < count; i++) {
    size_t n, k = encode(library, &tiles[i]);
    if (libdeflate_zlib_decompress(decompressor, packed, k, out, tiles[i].raw, &n) || n != tiles[i].raw ||
        memcmp(out, tiles[i].bytes, n))
      fail("an encoder's stream gives other bytes");
  }
}

int main(void) {
  char line[4096], verb[16], name[4000], rest[4000];
  decompressor = libdeflate_alloc_decompressor();
  compressor = libdeflate_alloc_compressor(1);
  while (fgets(line, sizeof line, stdin)) {
    int n = sscanf(line, "%15s %3999s %3999s", verb, name, rest);
    if (n == 3 && !strcmp(verb, "pack")) {
      pack(name, rest);
      puts("ok");
    } else if (n == 2 && !strcmp(verb, "load")) {
      load(name);
      for (size_t i = 0; i < count; i++) {
        decode("libdeflate", &tiles[i]);
        if (memcmp(out, tiles[i].bytes, tiles[i].raw)) fail("libdeflate gives other bytes");
#ifdef ISAL
        decode("isal", &tiles[i]);
        if (memcmp(out, tiles[i].bytes, tiles[i].raw)) fail("isal gives other bytes");
#endif
      }
      puts("ok");
    } else if (n == 3 && !strcmp(verb, "time")) {
      struct timespec a, b;
      clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
      for (int k = atoi(rest); k > 0; k--)
        for (size_t i = 0; i < count; i++) decode(name, &tiles[i]);
      clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b);
      printf("%lld\n", (long long)(b.tv_sec - a.tv_sec) * 1000000000 + b.tv_nsec - a.tv_nsec);
    } else if (n == 3 && !strcmp(verb, "encode")) {
      struct timespec a, b;
      size_t bytes = 0;
      check_encoder(name);
      clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
      for (int k = atoi(rest); k > 0; k--) {
        bytes = 0;
        for (size_t i = 0; i < count; i++) bytes += encode(name, &tiles[i]);
      }
      clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b);
      printf("%lld %zu\n", (long long)(b.tv_sec - a.tv_sec) * 1000000000 + b.tv_nsec - a.tv_nsec, bytes);
    } else {
      fail("unknown command");
    }
    fflush(stdout);
  }
  return 0;
}
