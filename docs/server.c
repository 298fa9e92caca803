/* The server of the guide. Each request renders a picture in tiles of new memory, and answers with 1000 bytes of it.
 * It writes its port to the file `port`. */
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { TILES = 8, TILE = 1 << 18, ANSWER = 1000 };

/* Eight tiles of 1 MiB are allocated, touched and freed. */
static void render(unsigned seed, char *answer) {
    unsigned *tiles[TILES];
    for (int tile = 0; tile < TILES; tile++) {
        tiles[tile] = malloc(sizeof **tiles * TILE);
        if (!tiles[tile]) abort();
        for (unsigned at = 0; at < TILE; at++) tiles[tile][at] = (seed += at * 2654435761u);
    }
    for (int at = 0; at < ANSWER; at++) answer[at] = (char)('a' + tiles[at % TILES][at * 100] % 26);
    for (int tile = 0; tile < TILES; tile++) free(tiles[tile]);
}

static void *serve(void *argument) {
    int connection = (int)(long)argument;
    char request[4096], reply[ANSWER + 100];
    int head = sprintf(reply, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", ANSWER);
    for (unsigned seed = 1; read(connection, request, sizeof request) > 0; seed++) {
        render(seed, reply + head);
        if (write(connection, reply, (size_t)(head + ANSWER)) != head + ANSWER) break;
    }
    close(connection);
    return NULL;
}

int main(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (void *)&address, length) || listen(listener, 64)) return 1;
    getsockname(listener, (void *)&address, &length);
    FILE *port = fopen("port", "w");
    if (!port || fprintf(port, "%d\n", ntohs(address.sin_port)) < 0 || fclose(port)) return 1;
    for (int connection; (connection = accept(listener, NULL, NULL)) >= 0;) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, serve, (void *)(long)connection)) close(connection);
        else pthread_detach(thread);
    }
    return 1;
}
