/* floor-wait FILE          sleeps until nobody owns FILE, then writes its first 4 KiB out
 * floor-wait FILE FIFO     owns FILE until somebody writes to FIFO
 *
 * The yardstick of many arrivals of one key: the least that a waiter must do. The lock is shared, so that all waiters wake
 * at once; the owner gives it up explicitly, as idem's does. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <unistd.h>

enum { PAGE = 4096 };

static int fail(const char *what)
{
    perror(what);
    return 125;
}

int main(int argc, char **argv)
{
    static char page[PAGE];
    if (argc != 2 && argc != 3) {
        fputs("usage: floor-wait FILE [FIFO]\n", stderr);
        return 125;
    }
    int ledger = open(argv[1], O_RDONLY | O_CLOEXEC);
    if (ledger < 0)
        return fail(argv[1]);
    if (flock(ledger, argc == 3 ? LOCK_EX : LOCK_SH) != 0)
        return fail("flock");
    if (argc == 3) {
        int fifo = open(argv[2], O_RDONLY | O_CLOEXEC);
        if (fifo < 0 || read(fifo, page, 1) < 0)
            return fail(argv[2]);
        return flock(ledger, LOCK_UN) == 0 ? 0 : fail("flock");
    }
    if (read(ledger, page, PAGE) != PAGE || write(STDOUT_FILENO, page, PAGE) != PAGE)
        return fail(argv[1]);
    return 0;
}
