/*
 * A disk that fails, between a program and the system: loaded before libc (LD_PRELOAD), it counts
 * every write, sync and change of length of the files in one folder, makes one of them fail, and
 * knows what a loss of power would take.
 *
 *   FAULTS_FOLDER   the folder of the store
 *   FAULTS_CONTROL  a file: what is written to it is an order, what it holds afterwards the answer
 *
 *   arm N ERROR LASTING   from now on count; the N-th call fails (0: none does). ERROR is eio,
 *                         enospc or short; LASTING 1 makes those after it fail too. lie: syncs from
 *                         the N-th call on do nothing, and say that they did. power: from the
 *                         N-th call on nothing reaches the disk, for the power is gone; what was
 *                         not synced before may have
 *   disarm                nothing more fails; counting goes on
 *   status                the answer: calls, which failed, syncs that came too late; then a letter
 *                         for each call
 *   crash SEED            the power goes: of what was not synced, some or all is lost; what a failed
 *                         sync should have saved is lost in any case. Then counting ends
 *
 * A sync that failed is told once to each handle of the file, as Linux does, and a later sync that
 * succeeds saves nothing of what the failed one did not: only writing it again does.
 * Changes of length, new files and removed ones are taken for durable at once.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SECTOR 512
#define FILES 8
#define HANDLES 4096

enum { CLEAN = 0, DIRTY, DOOMED };

struct file {
    char path[PATH_MAX];
    char letter;            /* d database, l log, i its index, o another */
    unsigned errors;        /* syncs that failed */
    off_t synced_length;
    size_t sectors;         /* of the two below */
    unsigned char *state;
    unsigned char **before; /* what a sector held when it was last synced */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct file files[FILES];
static int file_count;
static struct { struct file *file; unsigned told; } handles[HANDLES];
static int control = -1;

static struct {
    int on, error, lasting, is_short, lies, is_power;
    long at, calls, fired_at, late_syncs, syncs_after;
    char fired;
    char *letters;
    size_t room;
} plan;

/* The system itself. */
static ssize_t real_pwrite(int fd, const void *bytes, size_t count, off_t at) {
    return syscall(SYS_pwrite64, fd, bytes, count, at);
}
static ssize_t real_pread(int fd, void *bytes, size_t count, off_t at) {
    return syscall(SYS_pread64, fd, bytes, count, at);
}
static int real_open(const char *path, int flags, mode_t mode) {
    return syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

/* Files and handles. */
static void forget(struct file *file) {
    for (size_t i = 0; i < file->sectors; i++) {
        free(file->before[i]);
        file->before[i] = NULL;
        file->state[i] = CLEAN;
    }
    file->synced_length = 0;
}

static char letter_of(const char *path) {
    size_t length = strlen(path);
    if (length > 4 && !strcmp(path + length - 4, "-wal")) return 'l';
    if (length > 4 && !strcmp(path + length - 4, "-shm")) return 'i';
    if (length > 3 && !strcmp(path + length - 3, ".db")) return 'd';
    return 'o';
}

static struct file *file_of(const char *path) {
    const char *folder = getenv("FAULTS_FOLDER");
    if (!folder || strncmp(path, folder, strlen(folder))) return NULL;
    for (int i = 0; i < file_count; i++)
        if (!strcmp(files[i].path, path)) return &files[i];
    if (file_count == FILES) return NULL;
    struct file *file = &files[file_count++];
    struct stat status;
    snprintf(file->path, sizeof file->path, "%s", path);
    file->letter = letter_of(path);
    file->errors = 0;
    /* What was there before is durable. */
    file->synced_length = stat(path, &status) ? 0 : status.st_size;
    return file;
}

static void opened(int fd, const char *path) {
    if (fd < 0 || fd >= HANDLES) return;
    int kept = errno;
    const char *orders = getenv("FAULTS_CONTROL");
    pthread_mutex_lock(&lock);
    handles[fd].file = NULL;
    if (orders && !strcmp(path, orders)) {
        control = fd;
    } else if (plan.on) {
        struct file *file = file_of(path);
        struct stat status;
        handles[fd].file = file;
        if (file) {
            handles[fd].told = file->errors;
            if (!fstat(fd, &status) && status.st_size == 0) forget(file);
        }
    }
    pthread_mutex_unlock(&lock);
    errno = kept;
}

/* What a write takes the place of, kept until a sync. */
static void keep_before(int fd, struct file *file, off_t at, size_t count) {
    if (!count || file->letter == 'i') return;
    size_t first = at / SECTOR, last = (at + count - 1) / SECTOR;
    if (last >= file->sectors) {
        size_t sectors = (last + 1) * 2;
        file->state = realloc(file->state, sectors);
        file->before = realloc(file->before, sectors * sizeof *file->before);
        memset(file->state + file->sectors, CLEAN, sectors - file->sectors);
        memset(file->before + file->sectors, 0, (sectors - file->sectors) * sizeof *file->before);
        file->sectors = sectors;
    }
    for (size_t i = first; i <= last; i++) {
        if (file->state[i] == CLEAN) {
            file->before[i] = calloc(1, SECTOR);
            if (real_pread(fd, file->before[i], SECTOR, (off_t)i * SECTOR) < 0) abort();
        }
        file->state[i] = DIRTY;
    }
}

static void synced(int fd, struct file *file) {
    struct stat status;
    int doomed = 0;
    for (size_t i = 0; i < file->sectors; i++) {
        if (file->state[i] == DIRTY) {
            free(file->before[i]);
            file->before[i] = NULL;
            file->state[i] = CLEAN;
        }
        doomed |= file->state[i] == DOOMED;
    }
    if (doomed) plan.late_syncs++;
    if (!fstat(fd, &status)) file->synced_length = status.st_size;
}

/* Whether the call that is about to be made fails; `kind` is w, s or t. */
static int fails(struct file *file, char kind) {
    if ((size_t)plan.calls + 2 > plan.room) {
        plan.room = plan.room ? plan.room * 2 : 4096;
        plan.letters = realloc(plan.letters, plan.room);
    }
    char letter = kind == 'w' ? file->letter : kind == 's' ? file->letter - 'a' + 'A' : 't';
    plan.letters[plan.calls++] = letter;
    if (!plan.at || plan.calls < plan.at) return 0;
    if (plan.calls == plan.at) {
        plan.fired = letter;
        plan.fired_at = plan.calls;
        return !plan.lies;
    }
    if (!plan.lasting || !plan.fired || plan.lies) return 0;
    /* A full disk fails syncs only if that is how it began. */
    int sync_began = plan.fired >= 'A' && plan.fired <= 'Z';
    return plan.error == EIO || kind != 's' || sync_began;
}

/* Orders. */
static uint64_t draw(uint64_t *seed) {
    uint64_t z = *seed += 0x9E3779B97F4A7C15ull;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}

static void lose_power(uint64_t seed) {
    /* All is lost, only what was doomed is, or some is. */
    uint64_t weather = draw(&seed) % 3;
    for (int f = 0; f < file_count; f++) {
        struct file *file = &files[f];
        struct stat status;
        int fd = real_open(file->path, O_RDWR, 0);
        if (fd < 0 || fstat(fd, &status)) {
            forget(file);
            continue;
        }
        off_t end = file->synced_length;
        for (size_t i = 0; i < file->sectors; i++) {
            if (file->state[i] == CLEAN) continue;
            int lost = file->state[i] == DOOMED || weather == 0 || (weather == 2 && draw(&seed) % 2);
            off_t at = (off_t)i * SECTOR;
            if (at >= status.st_size) continue;
            if (lost) {
                size_t count = status.st_size - at < SECTOR ? status.st_size - at : SECTOR;
                real_pwrite(fd, file->before[i], count, at);
            } else if (at + SECTOR > end) {
                end = at + SECTOR < status.st_size ? at + SECTOR : status.st_size;
            }
        }
        if (file->letter != 'i' && end < status.st_size) syscall(SYS_ftruncate, fd, end);
        syscall(SYS_close, fd);
        if (file->letter == 'i') syscall(SYS_unlink, file->path);
        forget(file);
    }
    file_count = 0;
    memset(handles, 0, sizeof handles);
    plan.on = 0;
}

static void obey(const char *order) {
    char error[16] = "";
    unsigned long long seed = 0;
    long at = 0;
    int lasting = 0;
    if (sscanf(order, "arm %ld %15s %d", &at, error, &lasting) == 3) {
        char *letters = plan.letters;
        size_t room = plan.room;
        memset(&plan, 0, sizeof plan);
        plan.letters = letters, plan.room = room;
        plan.on = 1, plan.at = at, plan.lasting = lasting;
        plan.is_short = !strcmp(error, "short");
        plan.lies = !strcmp(error, "lie");
        plan.is_power = !strcmp(error, "power");
        plan.error = !strcmp(error, "eio") || plan.is_power ? EIO : ENOSPC;
    } else if (!strncmp(order, "disarm", 6)) {
        plan.at = 0;
    } else if (sscanf(order, "crash %llu", &seed) == 1) {
        lose_power(seed);
    }
}

static void answer(int fd) {
    char text[256];
    int length = snprintf(text, sizeof text, "%ld %c %ld %ld %ld\n", plan.calls,
                          plan.fired ? plan.fired : '-', plan.fired_at, plan.late_syncs,
                          plan.syncs_after);
    syscall(SYS_ftruncate, fd, 0);
    real_pwrite(fd, text, length, 0);
    if (plan.calls) real_pwrite(fd, plan.letters, plan.calls, length);
}

/* What programs call. */
static ssize_t write_at(int fd, const void *bytes, size_t count, off_t at, int moves) {
    pthread_mutex_lock(&lock);
    struct file *file = handles[fd].file;
    size_t wanted = count;
    if (fails(file, 'w')) {
        /* Half of it fits; after that, nothing does. */
        int half = plan.is_short && plan.calls == plan.at && count > 1;
        if (!half) {
            pthread_mutex_unlock(&lock);
            errno = plan.error;
            return -1;
        }
        wanted = count / 2;
    }
    keep_before(fd, file, at, wanted);
    ssize_t written = real_pwrite(fd, bytes, wanted, at);
    if (moves && written > 0) lseek(fd, at + written, SEEK_SET);
    pthread_mutex_unlock(&lock);
    return written;
}

static int is_watched(int fd) {
    return plan.on && fd >= 0 && fd < HANDLES && handles[fd].file;
}

ssize_t write(int fd, const void *bytes, size_t count) {
    if (fd >= 0 && fd == control) {
        char order[128] = "";
        memcpy(order, bytes, count < sizeof order - 1 ? count : sizeof order - 1);
        pthread_mutex_lock(&lock);
        obey(order);
        answer(fd);
        pthread_mutex_unlock(&lock);
        return count;
    }
    if (!is_watched(fd)) return syscall(SYS_write, fd, bytes, count);
    return write_at(fd, bytes, count, lseek(fd, 0, SEEK_CUR), 1);
}

ssize_t pwrite64(int fd, const void *bytes, size_t count, off_t at) {
    if (!is_watched(fd)) return real_pwrite(fd, bytes, count, at);
    return write_at(fd, bytes, count, at, 0);
}

ssize_t pwrite(int fd, const void *bytes, size_t count, off_t at) {
    return pwrite64(fd, bytes, count, at);
}

static int sync_file(int fd, long call) {
    if (!is_watched(fd)) return syscall(call, fd);
    pthread_mutex_lock(&lock);
    struct file *file = handles[fd].file;
    int failed = fails(file, 's');
    if (file->errors) plan.syncs_after++;
    if (failed) {
        file->errors++;
        for (size_t i = 0; i < file->sectors && !plan.is_power; i++)
            if (file->state[i] == DIRTY) file->state[i] = DOOMED;
    }
    if (failed || handles[fd].told < file->errors) {
        handles[fd].told = file->errors;
        int error = failed ? plan.error : EIO;
        pthread_mutex_unlock(&lock);
        errno = error;
        return -1;
    }
    int done = syscall(call, fd);
    if (!done && !(plan.lies && plan.fired)) synced(fd, file);
    pthread_mutex_unlock(&lock);
    return done;
}

int fsync(int fd) { return sync_file(fd, SYS_fsync); }
int fdatasync(int fd) { return sync_file(fd, SYS_fdatasync); }

static int resize(int fd) {
    if (!is_watched(fd)) return 0;
    pthread_mutex_lock(&lock);
    int failed = fails(handles[fd].file, 't');
    pthread_mutex_unlock(&lock);
    return failed;
}

int ftruncate64(int fd, off_t length) {
    if (resize(fd)) {
        errno = plan.error;
        return -1;
    }
    int done = syscall(SYS_ftruncate, fd, length);
    if (!done && is_watched(fd)) {
        pthread_mutex_lock(&lock);
        struct file *file = handles[fd].file;
        if (length == 0) forget(file);
        if (length < file->synced_length) file->synced_length = length;
        pthread_mutex_unlock(&lock);
    }
    return done;
}

int ftruncate(int fd, off_t length) { return ftruncate64(fd, length); }

int fallocate64(int fd, int mode, off_t at, off_t length) {
    if (resize(fd)) {
        errno = plan.error;
        return -1;
    }
    return syscall(SYS_fallocate, fd, mode, at, length);
}

int fallocate(int fd, int mode, off_t at, off_t length) { return fallocate64(fd, mode, at, length); }

int posix_fallocate64(int fd, off_t at, off_t length) {
    return fallocate64(fd, 0, at, length) ? errno : 0;
}

int posix_fallocate(int fd, off_t at, off_t length) { return posix_fallocate64(fd, at, length); }

int openat64(int folder, const char *path, int flags, ...) {
    mode_t mode = 0;
    if (flags & (O_CREAT | O_TMPFILE)) {
        va_list rest;
        va_start(rest, flags);
        mode = va_arg(rest, mode_t);
        va_end(rest);
    }
    int fd = syscall(SYS_openat, folder, path, flags, mode);
    opened(fd, path);
    return fd;
}

#define OPEN_MODE \
    va_list rest; \
    va_start(rest, flags); \
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0; \
    va_end(rest)

int openat(int folder, const char *path, int flags, ...) {
    OPEN_MODE;
    return openat64(folder, path, flags, mode);
}

int open64(const char *path, int flags, ...) {
    OPEN_MODE;
    return openat64(AT_FDCWD, path, flags, mode);
}

int open(const char *path, int flags, ...) {
    OPEN_MODE;
    return openat64(AT_FDCWD, path, flags, mode);
}

int close(int fd) {
    if (fd >= 0 && fd < HANDLES) {
        pthread_mutex_lock(&lock);
        handles[fd].file = NULL;
        if (fd == control) control = -1;
        pthread_mutex_unlock(&lock);
    }
    return syscall(SYS_close, fd);
}

int unlink(const char *path) {
    const char *folder = getenv("FAULTS_FOLDER");
    if (plan.on && plan.is_power && plan.fired && folder && !strncmp(path, folder, strlen(folder))) {
        errno = EIO;
        return -1;
    }
    int done = syscall(SYS_unlink, path);
    if (!done && plan.on) {
        pthread_mutex_lock(&lock);
        for (int i = 0; i < file_count; i++)
            if (!strcmp(files[i].path, path)) forget(&files[i]);
        pthread_mutex_unlock(&lock);
    }
    return done;
}
