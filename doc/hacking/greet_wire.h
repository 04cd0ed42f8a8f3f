/* Messages of the service "greet". */
#ifndef GREET_WIRE_H
#define GREET_WIRE_H

#include <libflux/flux.h>

/* greet.hello */
struct greet_guest {
    const char *name; /* borrowed from what was decoded */
};
extern const struct flux_schema greet_guest_schema;

/* The answer to it. */
struct greet_words {
    const char *text;
    uint64_t count; /* greetings so far, this one included */
};
extern const struct flux_schema greet_words_schema;

#endif
