/* fuzz_pmi_server.c - whatever clients say, the PMI server stays whole.
 *
 * The input is a list of steps: a byte that names the task (low two bits) and what happens (the
 * rest), a length byte, and this many bytes said.  Also fed to the line parser, whose accepted
 * lines must survive being written and read again.
 */
#include "config.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz_must.h"
#include "libpmi/pmi_server.h"
#include "libpmi/pmi_wire.h"

#define NTASKS 3

struct world {
    struct pmi_server *s;
    char blob[1 << 16];
    size_t bloblen;
    size_t answers;
};

/* All that is sent has to be whole lines of the protocol. */
static int on_send(void *arg, size_t idx, const void *data, size_t len)
{
    struct world *w = arg;
    const char *p = data;
    struct pmi_msg msg;
    ptrdiff_t n;

    MUST(idx < NTASKS);
    for (; len && (n = pmi_wire_line(p, len)) >= 0; p += n + 1, len -= (size_t)n + 1) {
        MUST(pmi_wire_parse(p, (size_t)n, &msg) == 0);
        w->answers++;
    }
    MUST(len == 0);
    return 0;
}

static void on_barrier(void *arg, const void *blob, size_t len, size_t npairs)
{
    struct world *w = arg;

    w->bloblen = len < sizeof(w->blob) ? len : 0;
    memcpy(w->blob, blob, w->bloblen);
}

static int on_name(void *arg, size_t idx, const char *service)
{
    return idx == 1 ? -1 : 0;
}

static int on_publish(void *arg, size_t idx, const char *service, const char *port)
{
    struct world *w = arg;

    return idx ? pmi_server_name_done(w->s, idx, 0, NULL, NULL) : 0;
}

static void on_error(void *arg, size_t idx, const char *text)
{
    MUST(*text && !strchr(text, '\n'));
}

static const struct pmi_server_ops ops = {.send = on_send,
                                          .barrier = on_barrier,
                                          .client_error = on_error,
                                          .publish = on_publish,
                                          .lookup = on_name,
                                          .unpublish = on_name};

static void line_round_trip(const uint8_t *data, size_t size)
{
    static char mem[PMI_WIRE_LINE_MAX];
    struct pmi_msg a, b;
    struct pmi_out o;
    struct pmi_field f;

    (void)pmi_wire_parse_block((const char *)data, size, &f);
    if (pmi_wire_parse((const char *)data, size, &a) < 0 || a.block)
        return;
    pmi_out_init(&o, mem, sizeof(mem));
    pmi_out_cmd(&o, a.cmd);
    for (size_t i = 0; i < a.nfields; i++) {
        char name[256];

        if (a.fields[i].name.len >= sizeof(name))
            return;
        memcpy(name, a.fields[i].name.p, a.fields[i].name.len);
        name[a.fields[i].name.len] = '\0';
        pmi_out_bytes(&o, name, a.fields[i].value.p, a.fields[i].value.len);
    }
    MUST(!o.bad && pmi_wire_parse(o.p, o.len, &b) == 0 && b.cmd == a.cmd && b.nfields == a.nfields);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint32_t ranks[NTASKS] = {0, 1, 2};
    static const char init[] = "cmd=init pmi_version=1 pmi_subversion=1\n";
    struct pmi_server_params p = {
        .kvsname = "k", .size = 4, .nlocal = NTASKS, .ranks = ranks, .store_max = 1 << 16};
    struct world *w;

    line_round_trip(data, size);
    w = calloc(1, sizeof(*w));
    if (!w)
        return 0;
    w->s = pmi_server_create(&ops, w, &p, NULL);
    MUST(w->s != NULL);
    while (size >= 2) {
        size_t idx = data[0] & 3, len = data[1];
        int what = data[0] >> 2 & 7;

        data += 2;
        size -= 2;
        if (len > size)
            len = size;
        if (what == 1)
            pmi_server_input(w->s, idx, init, sizeof(init) - 1);
        if (what == 2)
            pmi_server_merge(w->s, w->blob, w->bloblen);
        if (what == 3)
            pmi_server_barrier_done(w->s, len & 1, NULL);
        if (what == 4)
            pmi_server_name_done(w->s, idx, len & 1, "port 1", "why not");
        if (what == 5)
            pmi_server_eof(w->s, idx);
        pmi_server_input(w->s, idx, data, len);
        data += len;
        size -= len;
    }
    pmi_server_destroy(w->s);
    free(w);
    return 0;
}
