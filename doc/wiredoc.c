/* wiredoc.c - print the tables of messages for doc/protocol.rst from their descriptions.
 *
 *    wiredoc >protocol-messages.inc
 *    wiredoc control >protocol-control.inc
 *    wiredoc link >protocol-link.inc
 *
 * One table for each service: topic, fields of request and response with their types, meaning; or
 * the table of control messages between brokers.  `make docs-check` fails when a file in the source
 * differs from what this program prints.
 *
 * Failure: none but of the output, which make sees.
 */
#include "config.h"
#include <stdio.h>
#include <string.h>

#include "broker/broker_wire.h"
#include "broker/connector_wire.h"
#include "broker/control_wire.h"
#include "broker/link/unix/ulink_wire.h"
#include "libexec/wrexec_wire.h"
#include "libflux/attr_wire.h"
#include "libflux/barrier_wire.h"
#include "libflux/event_wire.h"
#include "libflux/log_wire.h"
#include "libflux/module_wire.h"
#include "libflux/overlay_wire.h"
#include "libflux/trace_wire.h"
#include "libjob/job_wire.h"
#include "libresource/resrc_wire.h"
#include "libsched/sched_wire.h"
#include "libstream/stream_wire.h"
#include "modules/hb/hb_wire.h"
#include "modules/kvs/km_wire.h"
#include "modules/nest/nest_wire.h"

static const struct {
    const char *service;
    const struct flux_method *methods;
} services[] = {
    {"attr", attr_methods},     {"barrier", barrier_methods},
    {"broker", broker_methods}, {"connector", connector_methods},
    {"event", event_methods},   {"hb", hb_methods},
    {"job", job_methods},       {"kvs", km_wire_methods},
    {"log", log_methods},       {"module", module_methods},
    {"nest", nest_methods},     {"overlay", overlay_methods},
    {"resrc", resrc_methods},   {"sched", sched_methods},
    {"stream", stream_methods}, {"trace", trace_methods},
    {"wrexec", wrexec_methods},
};

static const char *const types[] = {
    [FLUX_T_STR] = "string",   [FLUX_T_INT] = "integer",    [FLUX_T_I64] = "integer",
    [FLUX_T_U32] = "u32",      [FLUX_T_U64] = "u63",        [FLUX_T_DOUBLE] = "number",
    [FLUX_T_BOOL] = "boolean", [FLUX_T_JSON] = "any value", [FLUX_T_OBJECT] = "object",
    [FLUX_T_ARRAY] = "array",
};

static void print_fields(const struct flux_schema *desc)
{
    const char *sep = "";

    for (const struct flux_field *f = desc->fields; f->name; f++) {
        printf("%s%s%s: %s", sep, f->name, f->flags & FLUX_FIELD_OPTIONAL ? "?" : "",
               types[f->type]);
        if (f->of) {
            printf(" of {");
            print_fields(f->of);
            putchar('}');
        }
        sep = ", ";
    }
}

static void print_payload(const struct flux_schema *desc, const char *words)
{
    if (desc)
        print_fields(desc);
    else
        fputs(words ? words : "none", stdout);
    putchar('\n');
}

static void print_method(const struct flux_method *m)
{
    printf("   * - ``%s``%s%s\n     - ", m->topic, m->flags & FLUX_METHOD_EVENT ? " (event)" : "",
           m->flags & FLUX_METHOD_INSTANCES ? " (between instances)" : "");
    print_payload(m->request, m->takes);
    printf("     - %s", m->flags & FLUX_METHOD_STREAM ? "stream of: " : "");
    if (m->flags & (FLUX_METHOD_EVENT | FLUX_METHOD_NORESPONSE))
        printf("none\n");
    else
        print_payload(m->response, m->gives);
    printf("     - %s\n", m->what);
}

static void print_control(const struct flux_method *m, const char *direction)
{
    for (; m->topic; m++) {
        printf("   * - ``%s``\n     - ", m->topic);
        if (direction)
            printf("%s\n     - ", direction);
        print_payload(m->request->fields->name ? m->request : NULL, "empty object");
        printf("     - %s\n", m->what);
    }
}

static void print_controls(void)
{
    printf("\n.. list-table:: Control messages\n   :header-rows: 1\n   :widths: 20 13 30 37\n\n"
           "   * - topic\n     - direction\n     - payload\n     - meaning\n");
    print_control(control_up, "to parent");
    print_control(control_down, "to child");
}

static void print_words(void)
{
    printf("\n.. list-table:: Messages of the local link\n   :header-rows: 1\n"
           "   :widths: 20 40 40\n\n   * - topic\n     - payload\n     - meaning\n");
    print_control(ulink_words, NULL);
}

static void print_services(void)
{
    for (size_t i = 0; i < sizeof(services) / sizeof(services[0]); i++) {
        printf("\n.. list-table:: Service ``%s``\n   :header-rows: 1\n   :widths: 18 27 25 30\n\n"
               "   * - topic\n     - request\n     - response\n     - meaning\n",
               services[i].service);
        for (const struct flux_method *m = services[i].methods; m->topic; m++)
            print_method(m);
    }
}

int main(int argc, char **argv)
{
    printf(".. Made by doc/wiredoc.c: make docs-wire writes it anew.\n");
    if (argc > 1 && strcmp(argv[1], "control") == 0)
        print_controls();
    else if (argc > 1 && strcmp(argv[1], "link") == 0)
        print_words();
    else
        print_services();
    return fflush(stdout) == 0 ? 0 : 1;
}
