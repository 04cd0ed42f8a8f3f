/* check_backing.c - the directory of a launcher beside other launchers: a launcher that starts
 * takes the directory for stale, locks it and removes it, at any moment until its owner holds the
 * lock.  No job may be without its directory for that.  The test acts as the other launcher; the
 * list of locks of the kernel shows that a thread waits. */
#include "config.h"
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "libutil/fdutil.h"
#include "libutil/hostmark.h"
#include "libutil/test/suite.h"
#include "../launcher.h"

#define TOKEN "0123456789abcdef"
#define OTHER "fedcba9876543210"

/* --- functions that backing.c calls --- */

void nodejob_work(struct nodejob *j, struct batch *b, struct work *w)
{
    w->job = j;
    list_append(&b->todo, &w->node);
}

void nodejob_dir_made(struct nodejob *j, const char *why)
{
    ck_assert_ptr_null(why);
}

void starter_batch_add(struct launcher *l, struct batch *b, struct work *w)
{
    list_append(&b->todo, &w->node);
}

/* --- a launcher and its job --- */

static char tmp[64], upper[128], other[128];

static struct launcher launcher(void)
{
    struct launcher l = {
        .tmpdir = tmp, .token = TOKEN, .dirlock = -1, .dirmutex = PTHREAD_MUTEX_INITIALIZER};
    char mark[HOSTMARK_SIZE];

    strcpy(tmp, "/tmp/check_backing.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(tmp));
    hostmark_get(mark);
    snprintf(upper, sizeof(upper), "%s/flux-%u-%s-" TOKEN, tmp, (unsigned)getuid(), mark);
    snprintf(other, sizeof(other), "%s/flux-%u-%s-" OTHER, tmp, (unsigned)getuid(), mark);
    return l;
}

static void ask(struct launcher *l, struct nodejob *j, uint64_t id)
{
    errmsg_t err;

    *j = (struct nodejob){.l = l, .id = id, .state = JOB_NEW};
    list_init(&j->first.todo);
    ck_assert_int_eq(backing_make(j, &err), 0);
}

static struct work *asked(struct nodejob *j)
{
    return list_entry(list_first(&j->first.todo), struct work, node);
}

struct attempt {
    struct work *w;
    pthread_t thread;
    bool over;
};

static void *attempt_run(void *arg)
{
    struct attempt *a = arg;

    a->w->run(a->w, NULL);
    __atomic_store_n(&a->over, true, __ATOMIC_SEQ_CST);
    return NULL;
}

static void attempt_start(struct attempt *a, struct nodejob *j)
{
    *a = (struct attempt){.w = asked(j)};
    ck_assert_int_eq(pthread_create(&a->thread, NULL, attempt_run, a), 0);
}

static void attempt_end(struct attempt *a)
{
    ck_assert_int_eq(pthread_join(a->thread, NULL), 0);
    a->w->done(a->w);
}

/* Returns whether a thread waits for a lock on this directory. */
static bool waited_for(ino_t ino)
{
    FILE *f = fopen("/proc/locks", "r");
    char line[256], end[32];
    bool found = false;

    ck_assert_ptr_nonnull(f);
    snprintf(end, sizeof(end), ":%lu 0 EOF", (unsigned long)ino);
    while (fgets(line, sizeof(line), f))
        found |= strstr(line, "-> FLOCK") && strstr(line, end);
    fclose(f);
    return found;
}

static void await_waiter(const struct attempt *a, ino_t ino)
{
    const struct timespec moment = {0, 1000000};

    while (!__atomic_load_n(&a->over, __ATOMIC_SEQ_CST) && !waited_for(ino))
        nanosleep(&moment, NULL);
}

static int take(const char *path, ino_t *ino)
{
    struct stat st;
    int fd;

    ck_assert_int_eq(mkdir(path, 0700), 0);
    fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_eq(flock(fd, LOCK_EX | LOCK_NB), 0);
    ck_assert_int_eq(fstat(fd, &st), 0);
    *ino = st.st_ino;
    return fd;
}

static void has_dir(const struct launcher *l, struct nodejob *j)
{
    char want[160];

    snprintf(want, sizeof(want), "%s/%u", upper, (unsigned)j->id);
    ck_assert_msg(j->dir != NULL, "job %u has no directory", (unsigned)j->id);
    ck_assert_str_eq(j->dir, want);
    ck_assert_int_eq(access(want, W_OK), 0);
    ck_assert_int_ge(l->dirlock, 0);
    ck_assert(backing_held(l, TOKEN));
    free(j->dir);
}

static void end(struct launcher *l)
{
    backing_fini(l);
    dir_remove_tree(tmp);
}

START_TEST(taken_for_stale)
{
    struct launcher l = launcher();
    struct nodejob one, two;
    struct attempt a, b;
    ino_t ino;
    int fd = take(upper, &ino);

    ask(&l, &one, 1);
    ask(&l, &two, 2);
    attempt_start(&a, &one);
    await_waiter(&a, ino);
    attempt_start(&b, &two); /* as when the first attempt hangs */
    ck_assert_int_eq(rmdir(upper), 0);
    close(fd);
    attempt_end(&a);
    attempt_end(&b);
    has_dir(&l, &one);
    has_dir(&l, &two);
    end(&l);
}
END_TEST

/* A launcher that found nothing stale releases the lock without removing the directory. */
START_TEST(looked_at)
{
    struct launcher l = launcher();
    struct nodejob one;
    struct attempt a;
    ino_t ino;
    int fd = take(upper, &ino);

    ask(&l, &one, 1);
    attempt_start(&a, &one);
    await_waiter(&a, ino);
    close(fd);
    attempt_end(&a);
    has_dir(&l, &one);
    end(&l);
}
END_TEST

START_TEST(several_jobs)
{
    struct launcher l = launcher();
    struct nodejob jobs[3];

    for (unsigned i = 0; i < 3; i++)
        ask(&l, &jobs[i], i + 1);
    for (unsigned i = 0; i < 3; i++) {
        struct work *w = asked(&jobs[i]);

        w->run(w, NULL);
    }
    for (unsigned i = 0; i < 3; i++) {
        struct work *w = asked(&jobs[i]);

        w->done(w);
    }
    for (unsigned i = 0; i < 3; i++)
        has_dir(&l, &jobs[i]);
    end(&l);
}
END_TEST

START_TEST(stale)
{
    struct launcher l = launcher();
    struct nodejob one;
    struct attempt a;
    char file[160];
    ino_t ino;
    int fd = take(other, &ino);

    snprintf(file, sizeof(file), "%s/file", other);
    close(open(file, O_WRONLY | O_CREAT, 0600));
    ask(&l, &one, 1);
    attempt_start(&a, &one);
    attempt_end(&a);
    has_dir(&l, &one);
    ck_assert_int_eq(access(file, F_OK), 0);
    backing_fini(&l);
    close(fd);

    l.dirlock = -1;
    l.dirheld = false;
    ask(&l, &one, 2);
    attempt_start(&a, &one);
    attempt_end(&a);
    has_dir(&l, &one);
    ck_assert_int_lt(access(other, F_OK), 0);
    end(&l);
}
END_TEST

int main(void)
{
    RUN_SUITE("backing", taken_for_stale, looked_at, several_jobs, stale);
}
