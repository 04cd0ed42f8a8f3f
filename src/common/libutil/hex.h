/* Bytes as hexadecimal digits in lower case, and back.
 *
 * Thread rules: none.
 */
#ifndef UTIL_HEX_H
#define UTIL_HEX_H

#include <stddef.h>
#include <stdint.h>

/* Write two digits for each of `len` bytes, without NUL.  Returns the end of the output. */
static inline char *hex_encode(char *out, const uint8_t *data, size_t len)
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < len; i++) {
        *out++ = digits[data[i] >> 4];
        *out++ = digits[data[i] & 15];
    }
    return out;
}

/* Value of a digit, or -1. */
static inline int hex_value(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Read `len` bytes from twice as many digits.  0, or -1 if a character is not a digit; keeps
 * errno. */
static inline int hex_decode(uint8_t *out, const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        int hi = hex_value(text[2 * i]), lo = hex_value(text[2 * i + 1]);

        if (hi < 0 || lo < 0)
            return -1;
        out[i] = (uint8_t)(hi << 4 | lo);
    }
    return 0;
}

#endif
