/* kap_plan.c - the keys and values of each process of flux kap.
 *
 * Processes are numbered over all ranks, in blocks.  Producers and consumers are spread evenly
 * over them.  Producer p puts the keys p*puts to p*puts+puts-1; consumer c gets `gets` keys, from
 * number c*stride on, wrapping around.
 *
 * A value consists of words that are computed from the run of the test and the number of the key
 * (0 for all keys, if values are redundant), so that every process can compute the expected value,
 * and each wrong byte is detected.
 */
#include "config.h"
#include <stdio.h>
#include <string.h>

#include "kap.h"

const char *const kap_phase_names[KAP_PHASES] = {"producer", "sync", "consumer"};

static const struct flux_field config_fields[] = {
    FLUX_FIELD_STR(struct kap_config, id, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct kap_config, ns, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct kap_config, ranks, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct kap_config, nprocs, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct kap_config, producers, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct kap_config, consumers, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct kap_config, value_size, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct kap_config, puts, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct kap_config, gets, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct kap_config, stride, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct kap_config, dir_keys, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_BOOL(struct kap_config, redundant, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_BOOL(struct kap_config, commit, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_DOUBLE(struct kap_config, timeout, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema kap_config_schema = FLUX_SCHEMA(struct kap_config, config_fields);

static const struct flux_field go_fields[] = {
    FLUX_FIELD_U32(struct kap_go, run, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct kap_go, step, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct kap_go, version, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema kap_go_schema = FLUX_SCHEMA(struct kap_go, go_fields);

static const struct flux_field at_fields[] = {
    FLUX_FIELD_U32(struct kap_at, rank, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct kap_at, run, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct kap_at, step, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct kap_at, version, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct kap_at, error, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_U64(struct kap_at, n, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_DOUBLE(struct kap_at, sum, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_DOUBLE(struct kap_at, min, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_DOUBLE(struct kap_at, max, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema kap_at_schema = FLUX_SCHEMA(struct kap_at, at_fields);

/* Number `i` of `n` when `some` of them are chosen evenly. */
static uint32_t chosen(uint32_t i, uint32_t n, uint32_t some)
{
    uint32_t before = (uint32_t)((uint64_t)i * some / n);
    uint32_t after = (uint32_t)((uint64_t)(i + 1) * some / n);
    return after > before ? before : KAP_NOBODY;
}

uint32_t kap_producer(const struct kap_config *cfg, uint32_t i)
{
    return chosen(i, cfg->nprocs, cfg->producers);
}

uint32_t kap_consumer(const struct kap_config *cfg, uint32_t i)
{
    return chosen(i, cfg->nprocs, cfg->consumers);
}

void kap_share(const struct kap_config *cfg, uint32_t w, uint32_t n, uint32_t *first,
               uint32_t *count)
{
    uint32_t each = cfg->nprocs / n, more = cfg->nprocs % n;
    *first = w * each + (w < more ? w : more);
    *count = each + (w < more);
}

uint64_t kap_keys(const struct kap_config *cfg)
{
    return (uint64_t)cfg->producers * cfg->puts;
}

uint64_t kap_wanted(const struct kap_config *cfg, uint32_t consumer, uint32_t j)
{
    return ((uint64_t)consumer * cfg->stride + j) % kap_keys(cfg);
}

void kap_top(const struct kap_config *cfg, char buf[KAP_KEY_MAX])
{
    snprintf(buf, KAP_KEY_MAX, "kap-%.32s", cfg->id);
}

void kap_dir(const struct kap_config *cfg, uint32_t run, char buf[KAP_KEY_MAX])
{
    snprintf(buf, KAP_KEY_MAX, "kap-%.32s.%u", cfg->id, run);
}

void kap_key(const struct kap_config *cfg, uint32_t run, uint64_t k, char buf[KAP_KEY_MAX])
{
    if (cfg->dir_keys > 0)
        snprintf(buf, KAP_KEY_MAX, "kap-%.32s.%u.d%llu.k%llu", cfg->id, run,
                 (unsigned long long)(k / cfg->dir_keys), (unsigned long long)k);
    else
        snprintf(buf, KAP_KEY_MAX, "kap-%.32s.%u.k%llu", cfg->id, run, (unsigned long long)k);
}

static uint64_t word(const struct kap_config *cfg, uint32_t run, uint64_t k, size_t i)
{
    uint64_t first = cfg->redundant ? 0 : k;
    /* The first word tells keys apart as far as it goes: values of few bytes are unique, too. */
    return first + (uint64_t)run * 1000003 + i * (first * 2 + 0x9e3779b97f4a7c15ull);
}

void kap_value(const struct kap_config *cfg, uint32_t run, uint64_t k, uint8_t *buf)
{
    for (size_t at = 0; at < cfg->value_size; at += 8) {
        uint64_t w = word(cfg, run, k, at / 8);
        size_t n = cfg->value_size - at < 8 ? cfg->value_size - at : 8;
        memcpy(buf + at, &w, n);
    }
}

size_t kap_compare(const struct kap_config *cfg, uint32_t run, uint64_t k, const void *data,
                   size_t len)
{
    const uint8_t *p = data;
    for (size_t at = 0; at < len; at += 8) {
        uint64_t w = word(cfg, run, k, at / 8);
        size_t n = len - at < 8 ? len - at : 8;
        if (memcmp(p + at, &w, n) != 0)
            return at;
    }
    return len;
}

void kap_stat_add(struct kap_stat *s, double seconds)
{
    struct kap_stat one = {1, seconds, seconds, seconds};
    kap_stat_merge(s, &one);
}

void kap_stat_merge(struct kap_stat *s, const struct kap_stat *more)
{
    if (more->n == 0)
        return;
    if (s->n == 0 || more->min < s->min)
        s->min = more->min;
    if (s->n == 0 || more->max > s->max)
        s->max = more->max;
    s->n += more->n;
    s->sum += more->sum;
}
