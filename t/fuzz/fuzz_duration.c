/* fuzz_duration.c - any text as a length of time, an amount of bytes and plain numbers. */
#include <stdlib.h>
#include <string.h>

#include "fuzz_must.h"
#include "libutil/duration.h"
#include "libutil/size.h"
#include "libutil/strutil.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = strndup((const char *)data, size);
    char buf[32];
    errmsg_t err;
    double seconds;
    double again;
    uint64_t bytes;
    uint64_t back;
    int32_t number;

    if (duration_parse(text, &seconds, &err) == 0) {
        MUST(seconds >= 0);
        MUST(duration_parse(duration_format(seconds, buf, sizeof(buf)), &again, &err) == 0);
        MUST(seconds < 1e-9 || seconds > 1e12 ||
             (again >= seconds * 0.99999 && again <= seconds * 1.00001));
    }
    if (duration_parse_minutes(text, &again, &err) == 0) {
        /* As in seconds, or sixty times as much. */
        MUST(duration_parse(text, &seconds, &err) == 0);
        MUST(again == seconds || seconds < 1e-9 ||
             (again >= seconds * 59.99999 && again <= seconds * 60.00001));
    }
    if (size_parse(text, &bytes, &err) == 0) {
        MUST(size_parse(size_format(bytes, buf, sizeof(buf)), &back, &err) == 0);
        MUST(bytes == back);
        MUST(strlen(size_format_short(bytes, buf, sizeof(buf))) <= 6);
    }
    if (str2u64(text, &bytes) == 0)
        MUST(size_parse(text, &back, &err) < 0 || back == bytes);
    (void)str2i32(text, &number);
    MUST(str_utf8_span((const char *)data, size) <= size);
    free(text);
    return 0;
}
