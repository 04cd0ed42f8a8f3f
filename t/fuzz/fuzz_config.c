/* Fuzz target: configuration files.  Whatever the text, it is read or refused with a sentence,
 * within its bounds of time and memory. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz_must.h"
#include "libconfig/config_file.h"

static const struct config_field fields[] = {
    {"session", "hosts", CONFIG_STRING, true}, {"session", "address", CONFIG_TEXT_OF, false},
    {"session", "curve", CONFIG_BOOL, false},  {"session", "limit", CONFIG_NUMBER, false},
    {"session", "attrs", CONFIG_PAIRS, false}, CONFIG_FIELD_END,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    errmsg_t err = {""};
    config_t *c = config_load_text((const char *)data, size, "fuzz.lua", fields, &err);
    char buf[300], *key, *value;

    if (!c) {
        if (!err.text[0])
            abort();
        return 0;
    }
    config_string(c, "session", "hosts");
    config_bool(c, "session", "curve", true);
    config_number(c, "session", "limit", 1.);
    for (uint32_t rank = 0; rank < 3; rank++)
        config_text_of(c, "session", "address", rank, "node", buf, sizeof(buf), &err);
    for (size_t i = 0; config_pair(c, "session", "attrs", i, &key, &value) > 0; i++) {
        free(key);
        free(value);
    }
    config_destroy(c);
    return 0;
}
