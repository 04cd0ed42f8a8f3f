/* greet_wire.c - messages of the service "greet". */
#include "greet_wire.h"

static const struct flux_field guest_fields[] = {
    FLUX_FIELD_STR(struct greet_guest, name, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema greet_guest_schema = FLUX_SCHEMA(struct greet_guest, guest_fields);

static const struct flux_field words_fields[] = {
    FLUX_FIELD_STR(struct greet_words, text, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct greet_words, count, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema greet_words_schema = FLUX_SCHEMA(struct greet_words, words_fields);
