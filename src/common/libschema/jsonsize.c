/* jsonsize.c - count the values of a JSON text without parsing it.
 *
 * A parsed value takes up to 80 bytes for each byte of its text ("[],[],..."), so a caller that
 * must bound memory has to count first.  Outside strings, each '[', '{', ',' and ':' begins at most
 * one value or name, and there may be one more at the start.
 *
 * Failure: none.  A text that is not JSON gives a number too; parsing it ends at the first error.
 */
#include "config.h"
#include <stdbool.h>

#include "jsonsize.h"

size_t flux_json_count(const char *text, size_t len, size_t max)
{
    bool in_string = false;
    size_t n = 1;

    for (size_t i = 0; i < len && n <= max; i++) {
        char c = text[i];

        if (in_string) {
            if (c == '\\')
                i++;
            else if (c == '"')
                in_string = false;
        } else if (c == '"')
            in_string = true;
        else if (c == '[' || c == '{' || c == ',' || c == ':')
            n++;
    }
    return n;
}
