/* fuzz_sched_feed.c - feeds of the job module: whatever they are, reading them does no harm, and
 * what was read can be taken in. */
#include "config.h"
#include <stdlib.h>
#include <string.h>

#include "fuzz_must.h"
#include "libsched/sched_feeddata.h"

static void alloc_cb(uint64_t id, rset_t *R, double now, double end, void *arg)
{
    rset_destroy(R);
}

static void deny_cb(uint64_t id, const char *note, void *arg)
{
}

static sched_t *make(void)
{
    static const char json[] =
        "{\"nodes\":[{\"ranks\":\"0-3\",\"hosts\":\"n[0-3]\",\"cores\":\"0-3\","
        "\"gpus\":\"0\",\"memory\":100}],"
        "\"pools\":[{\"name\":\"power\",\"count\":10}]}";
    sched_t *s = sched_create();
    resgraph_t *g = resgraph_parse(json, strlen(json), NULL);
    idset_t *up = resgraph_ranks(g);

    if (!s || sched_inventory(s, g, up, NULL, NULL) < 0)
        abort();
    idset_destroy(up);
    resgraph_destroy(g);
    return s;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct sched_feed in = {0};
    struct sched_feeddata data = {0};
    struct sched_ops ops = {alloc_cb, deny_cb, NULL};
    char why[SCHED_REASON_MAX];
    errmsg_t err;
    json_t *owner = flux_schema_decode(&sched_feed_schema, (const char *)bytes, size, &in, &err);
    sched_t *s;
    double t;

    if (!owner)
        return 0;
    if (sched_feeddata_read(&data, &in, &err) == 0) {
        s = make();
        for (size_t i = 0; i < data.nrunning; i++)
            sched_running(s, data.running[i].id, data.R[i], data.running[i].end, 1000., &err);
        for (size_t i = 0; i < data.nadd; i++)
            sched_add(s, &data.add[i], 1000., &err);
        for (size_t i = 0; i < data.nurgency; i++)
            sched_urgency(s, data.urgency[i], data.level[i], 1000.);
        while (sched_pass(s, 1000., 1000, &ops))
            ;
        for (size_t i = 0; i < data.nadd; i++)
            sched_why_estimate(s, data.add[i].id, 1000., 0, &t, why);
        for (size_t i = 0; i < data.nremove; i++)
            sched_remove(s, data.remove[i]);
        for (size_t i = 0; i < data.nfree; i++)
            sched_free(s, data.free[i], 1001.);
        while (sched_pass(s, 1001., 1000, &ops))
            ;
        sched_destroy(s);
    }
    sched_feeddata_clear(&data);
    json_decref(owner);
    return 0;
}
