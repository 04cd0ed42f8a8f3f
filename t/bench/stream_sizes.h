/* stream_sizes.h - the sizes of steps over which bench_stream.c and bench_stream_tcp.c measure. */
#ifndef BENCH_STREAM_SIZES_H
#define BENCH_STREAM_SIZES_H

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

#define SIZE_ROUNDS 3

/* Of the steps of a round, `warm` do not count: in these, memory is used for the first time. */
static const struct stream_size {
    const char *name;
    size_t size;
    int steps;
    int warm;
} stream_sizes[] = {
    {"steps of 1 KiB", (size_t)1 << 10, 50000, 5000},
    {"steps of 64 KiB", (size_t)64 << 10, 4000, 1000},
    {"steps of 1 MiB", (size_t)1 << 20, 800, 200},
    {"steps of 16 MiB", (size_t)16 << 20, 60, 20},
    {"steps of 64 MiB", (size_t)64 << 20, 24, 8},
};
#define STREAM_SIZES ((long)(sizeof(stream_sizes) / sizeof(stream_sizes[0])))

/* How many of them the arguments `sizes [N]` mean. */
static inline size_t stream_sizes_of(int argc, char *argv[])
{
    long n = argc > 1 ? strtol(argv[1], NULL, 10) : STREAM_SIZES;

    if (strcmp(argv[0], "sizes") != 0 || argc > 2 || n < 1 || n > STREAM_SIZES)
        bench_die("the only arguments are: sizes [1 to %ld]", STREAM_SIZES);
    return (size_t)n;
}

#endif
