/* floor-replay FILE
 *
 * The yardstick of a replay: open the ledger, read the recorded result (4 KiB), write it out. No key, no look-up. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

enum { PAGE = 4096 };

int main(int argc, char **argv)
{
    static char page[PAGE];
    if (argc != 2) {
        fputs("usage: floor-replay FILE\n", stderr);
        return 125;
    }
    int ledger = open(argv[1], O_RDONLY | O_CLOEXEC);
    if (ledger < 0 || read(ledger, page, PAGE) != PAGE || write(STDOUT_FILENO, page, PAGE) != PAGE) {
        perror(argv[1]);
        return 125;
    }
    return 0;
}
