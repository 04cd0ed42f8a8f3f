/* check_lane.c - the page between a writer and a reader: every step comes back once, is seen at
 * most once, and neither side is harmed by what the other writes. */
#include "config.h"
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "libstream/lane.h"
#include "libutil/test/suite.h"

struct pair {
    void *page;
    lane_tx_t *tx;
    lane_rx_t *rx;
};

static struct pair pair_create(void)
{
    struct pair p = {.page = aligned_alloc(64, lane_page_size())};

    memset(p.page, 0, lane_page_size());
    p.tx = lane_tx_create(p.page);
    p.rx = lane_rx_create(p.page);
    ck_assert(p.tx && p.rx);
    return p;
}

static void pair_destroy(struct pair *p)
{
    lane_tx_destroy(p->tx);
    lane_rx_destroy(p->rx);
    free(p->page);
}

static char refs[100000];

static bool offer(struct pair *p, uint64_t step)
{
    struct lane_item item = {.step = step, .off = step * 100, .len = 10};

    return lane_tx_offer(p->tx, &item, &refs[step]);
}

static uint64_t take(struct pair *p, struct lane_item *item)
{
    ck_assert_int_eq(lane_rx_take(p->rx, item), 1);
    ck_assert_uint_eq(item->off, item->step * 100);
    ck_assert_uint_eq(item->len, 10);
    return item->step;
}

START_TEST(order)
{
    struct pair p = pair_create();
    struct lane_item a;
    struct lane_item b;
    struct lane_item c;

    ck_assert_int_eq(lane_rx_take(p.rx, &a), 0);
    ck_assert(offer(&p, 5) && offer(&p, 7) && offer(&p, 8));
    ck_assert_uint_eq(lane_tx_live(p.tx), 3);
    ck_assert_uint_eq(lane_tx_bytes(p.tx), 30);
    ck_assert_uint_eq(take(&p, &a), 5);
    ck_assert_uint_eq(take(&p, &b), 7);
    ck_assert_uint_eq(take(&p, &c), 8);
    ck_assert_int_eq(lane_rx_take(p.rx, &(struct lane_item){0}), 0);
    ck_assert_ptr_null(lane_tx_reap(p.tx));
    ck_assert_int_eq(lane_rx_release(p.rx, b.number), 0);
    ck_assert_ptr_null(lane_tx_reap(p.tx)); /* 5 is held */
    ck_assert_int_eq(lane_rx_release(p.rx, a.number), 0);
    ck_assert_ptr_eq(lane_tx_reap(p.tx), &refs[5]);
    ck_assert_ptr_eq(lane_tx_reap(p.tx), &refs[7]);
    ck_assert_ptr_null(lane_tx_reap(p.tx));
    ck_assert_int_eq(lane_rx_release(p.rx, a.number), -1); /* twice */
    ck_assert_int_eq(errno, EINVAL);
    ck_assert_int_eq(lane_rx_release(p.rx, c.number + 1), -1); /* never taken */
    ck_assert_int_eq(lane_rx_release(p.rx, 0), -1);
    ck_assert_ptr_eq(lane_tx_forget(p.tx), &refs[8]);
    ck_assert_ptr_null(lane_tx_forget(p.tx));
    ck_assert_uint_eq(lane_tx_live(p.tx), 0);
    ck_assert_uint_eq(lane_tx_bytes(p.tx), 0);
    pair_destroy(&p);
}
END_TEST

/* A waiting step can be taken back, a step that was taken cannot. */
START_TEST(drop)
{
    struct pair p = pair_create();
    struct lane_item a;

    ck_assert(offer(&p, 1) && offer(&p, 2) && offer(&p, 3));
    ck_assert_uint_eq(take(&p, &a), 1);
    ck_assert_ptr_eq(lane_tx_drop(p.tx), &refs[2]);
    ck_assert_ptr_eq(lane_tx_drop(p.tx), &refs[3]);
    ck_assert_ptr_null(lane_tx_drop(p.tx));
    ck_assert_uint_eq(lane_tx_live(p.tx), 1);
    ck_assert_int_eq(lane_rx_take(p.rx, &(struct lane_item){0}), 0);
    ck_assert(offer(&p, 4));
    ck_assert_int_eq(lane_rx_release(p.rx, a.number), 0);
    ck_assert_uint_eq(take(&p, &a), 4);
    ck_assert_ptr_eq(lane_tx_reap(p.tx), &refs[1]);
    ck_assert_ptr_null(lane_tx_reap(p.tx));
    ck_assert_int_eq(lane_rx_release(p.rx, a.number), 0);
    ck_assert_ptr_eq(lane_tx_reap(p.tx), &refs[4]);
    ck_assert_ptr_null(lane_tx_reap(p.tx));
    pair_destroy(&p);
}
END_TEST

/* Two steps are offered, the first one in the place of one that was taken back, while the reader
 * looks whether there is a second: it is stopped there by memory that it cannot read yet. */
static struct pair *stopped;
static char *fence;
static size_t fence_len;

static void on_fault(int sig)
{
    mprotect(fence, fence_len, PROT_READ | PROT_WRITE);
    offer(stopped, 2);
    offer(stopped, 3);
}

START_TEST(overtaken)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t before = 128 + 2 * 32; /* what is read first: the heads, and slots 0 and 1 */
    struct sigaction sa = {.sa_handler = on_fault};
    struct sigaction old;
    struct lane_item a;
    struct pair p;
    char *mem;

    fence_len = (lane_page_size() + page - 1) / page * page;
    mem = mmap(NULL, page + fence_len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert(mem != MAP_FAILED);
    fence = mem + page;
    p = (struct pair){.page = fence - before};
    p.tx = lane_tx_create(p.page);
    p.rx = lane_rx_create(p.page);
    stopped = &p;
    ck_assert(offer(&p, 1));
    ck_assert_ptr_eq(lane_tx_drop(p.tx), &refs[1]);
    ck_assert_int_eq(mprotect(fence, fence_len, PROT_NONE), 0);
    ck_assert_int_eq(sigaction(SIGSEGV, &sa, &old), 0);
    ck_assert_uint_eq(take(&p, &a), 2);
    ck_assert_int_eq(sigaction(SIGSEGV, &old, NULL), 0);
    ck_assert_uint_eq(take(&p, &a), 3);
    lane_tx_destroy(p.tx);
    lane_rx_destroy(p.rx);
    munmap(mem, page + fence_len);
}
END_TEST

/* While a reader works on one step, its latest one is replaced as often as there is a newer one. */
START_TEST(latest)
{
    struct pair p = pair_create();
    struct lane_item held;
    struct lane_item a;

    ck_assert(offer(&p, 1));
    take(&p, &held);
    for (uint64_t step = 2; step < 3000; step++) {
        if (step > 2)
            ck_assert_ptr_eq(lane_tx_drop(p.tx), &refs[step - 1]);
        ck_assert(offer(&p, step));
    }
    ck_assert_uint_eq(take(&p, &a), 2999);
    pair_destroy(&p);
}
END_TEST

START_TEST(slots)
{
    struct pair p = pair_create();
    struct lane_item a;

    for (uint64_t step = 1; step <= LANE_SLOTS; step++)
        ck_assert(offer(&p, step));
    ck_assert(!offer(&p, LANE_SLOTS + 1));
    ck_assert_uint_eq(take(&p, &a), 1);
    ck_assert(!offer(&p, LANE_SLOTS + 1));
    ck_assert_int_eq(lane_rx_release(p.rx, a.number), 0);
    ck_assert_ptr_eq(lane_tx_reap(p.tx), &refs[1]);
    ck_assert(offer(&p, LANE_SLOTS + 1));
    for (uint64_t step = 2; step <= LANE_SLOTS + 1; step++)
        ck_assert_uint_eq(take(&p, &a), step);
    pair_destroy(&p);
}
END_TEST

/* Any order of operations, from a seed. */
START_TEST(any_order)
{
    enum { OFFERED = 1, HELD, FREE };
    static char state[20000];
    static struct lane_item held[LANE_SLOTS];
    struct pair p = pair_create();
    uint64_t next = 1;
    uint64_t seen = 0;
    unsigned nheld = 0;
    unsigned live = 0;
    char *ref;

    srand(1317);
    for (int i = 0; i < 20000; i++) {
        struct lane_item a;

        switch (rand() % 6) {
        case 0:
        case 1:
            if (next < 20000 && offer(&p, next)) {
                state[next++] = OFFERED;
                live++;
            }
            break;
        case 2:
            if (rand() % 3 == 0 && (ref = lane_tx_drop(p.tx))) {
                ck_assert_int_eq(state[ref - refs], OFFERED);
                state[ref - refs] = FREE;
                live--;
            }
            break;
        case 3:
            while ((ref = lane_tx_reap(p.tx))) {
                ck_assert_int_eq(state[ref - refs], HELD);
                state[ref - refs] = FREE;
                live--;
            }
            break;
        case 4:
            if (nheld < LANE_SLOTS && lane_rx_take(p.rx, &a) == 1) {
                ck_assert_uint_gt(a.step, seen);
                ck_assert_int_eq(state[a.step], OFFERED);
                state[seen = a.step] = HELD;
                held[nheld++] = a;
            }
            break;
        default:
            if (nheld > 0) {
                unsigned k = (unsigned)rand() % nheld;

                ck_assert_int_eq(lane_rx_release(p.rx, held[k].number), 0);
                held[k] = held[--nheld];
            }
        }
        ck_assert_uint_eq(lane_tx_live(p.tx), live);
        ck_assert_uint_eq(lane_tx_bytes(p.tx), (uint64_t)live * 10);
    }
    ck_assert_uint_gt(seen, 100);
    while ((ref = lane_tx_forget(p.tx)))
        live--;
    ck_assert_uint_eq(live, 0);
    pair_destroy(&p);
}
END_TEST

/* A writer that takes steps back while the reader, another thread, takes them. */
enum { THREAD_STEPS = 50000 };

static void *thread_writer(void *arg)
{
    struct pair *p = arg;
    uintptr_t dropped = 0;
    unsigned seed = 7;
    uint32_t seen;

    for (uint64_t step = 1; step <= THREAD_STEPS; step++) {
        while (lane_tx_reap(p->tx))
            ;
        if (rand_r(&seed) % 4 == 0 && lane_tx_drop(p->tx))
            dropped++;
        while (!offer(p, step)) {
            if (lane_tx_sleep(p->tx, &seen))
                lane_tx_wait(p->tx, seen, 10.);
            while (lane_tx_reap(p->tx))
                ;
        }
    }
    lane_tx_end(p->tx, LANE_CLOSED);
    return (void *)dropped;
}

START_TEST(threads)
{
    struct pair p = pair_create();
    pthread_t t;
    uint64_t seen = 0;
    uint64_t n = 0;
    void *dropped;

    ck_assert_int_eq(pthread_create(&t, NULL, thread_writer, &p), 0);
    for (;;) {
        struct lane_item a;
        enum lane_end end = lane_rx_end(p.rx);
        int rc = lane_rx_take(p.rx, &a);

        ck_assert_int_ge(rc, 0);
        if (rc == 0 && end == LANE_CLOSED)
            break;
        if (rc == 0) {
            sched_yield();
            continue;
        }
        ck_assert_uint_gt(a.step, seen);
        ck_assert_uint_eq(a.off, a.step * 100);
        seen = a.step;
        n++;
        ck_assert_int_eq(lane_rx_release(p.rx, a.number), 0);
    }
    pthread_join(t, &dropped);
    ck_assert_uint_eq(n + (uintptr_t)dropped, THREAD_STEPS);
    pair_destroy(&p);
}
END_TEST

/* A sleeper is rung for what comes after it went to sleep, once. */
START_TEST(bells)
{
    struct pair p = pair_create();
    struct lane_item a;

    ck_assert(!lane_tx_asleep(p.tx));
    ck_assert(lane_rx_sleep(p.rx));
    ck_assert(offer(&p, 1));
    ck_assert(lane_tx_asleep(p.tx));
    ck_assert(!lane_tx_asleep(p.tx));
    ck_assert(!lane_rx_sleep(p.rx));
    ck_assert(!lane_tx_asleep(p.tx));
    take(&p, &a);
    ck_assert(lane_rx_sleep(p.rx));
    lane_tx_end(p.tx, LANE_EVICTED);
    ck_assert(lane_tx_asleep(p.tx));
    ck_assert(!lane_rx_sleep(p.rx));
    ck_assert_int_eq(lane_rx_end(p.rx), LANE_EVICTED);
    pair_destroy(&p);
}
END_TEST

/* A kick between the decision to wait and the wait is not lost. */
START_TEST(kick)
{
    struct pair p = pair_create();
    uint32_t seen;

    ck_assert(offer(&p, 1));
    ck_assert(lane_tx_sleep(p.tx, &seen));
    lane_tx_kick(p.tx);
    lane_tx_wait(p.tx, seen, 3600.);
    ck_assert_ptr_null(lane_tx_reap(p.tx));
    pair_destroy(&p);
}
END_TEST

/* Each end, with a page in which the other has written anything. */
START_TEST(garbage)
{
    srand(99);
    for (int round = 0; round < 300; round++) {
        struct pair p = pair_create();
        uint64_t *words = p.page;
        struct lane_item a;
        int live = 0;

        for (uint64_t step = 1; step <= 20; step++)
            live += offer(&p, step) ? 1 : 0;
        for (int i = 0; i < 400; i++)
            words[(size_t)rand() % (i < 200 ? 120 : lane_page_size() / 8)] =
                i % 2 ? (uint64_t)rand() % 128 : (uint64_t)rand() << 40 | (uint64_t)rand();
        for (int i = 0; i < 50; i++) {
            if (lane_rx_take(p.rx, &a) < 0)
                ck_assert_int_eq(errno, EPROTO);
            lane_rx_release(p.rx, (uint64_t)rand() % 40);
            live -= lane_tx_drop(p.tx) ? 1 : 0;
            live -= lane_tx_reap(p.tx) ? 1 : 0;
            live += offer(&p, 100) ? 1 : 0;
            lane_tx_asleep(p.tx);
            lane_rx_sleep(p.rx);
        }
        ck_assert_int_eq(lane_rx_end(p.rx) & ~3, 0);
        while (lane_tx_forget(p.tx))
            live--;
        ck_assert_int_eq(live, 0);
        pair_destroy(&p);
    }
}
END_TEST

int main(void)
{
    RUN_SUITE("lane", order, drop, overtaken, latest, slots, any_order, threads, bells, kick,
              garbage);
}
