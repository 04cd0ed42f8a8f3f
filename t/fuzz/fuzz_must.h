/* What all fuzz targets share: the function that libFuzzer calls with an input, and the condition
 * that must hold whatever the input is. */
#ifndef FUZZ_MUST_H
#define FUZZ_MUST_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(cond)   \
    do {             \
        if (!(cond)) \
            abort(); \
    } while (0)

#endif
