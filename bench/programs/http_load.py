"""Load for Server.java in this folder: so many requests of four connections, or without end. Fails if one is lost."""
import http.client, itertools, sys, threading

LOST = []


def connection(requests):
    try:
        client = http.client.HTTPConnection("127.0.0.1", int(open("port").read()), timeout=20)
        for _ in requests:
            client.request("GET", "/work")
            if len(client.getresponse().read()) != 1000:
                raise ValueError("a short answer")
    except (OSError, ValueError, http.client.HTTPException) as error:
        LOST.append(error)


def main():
    wanted = int(sys.argv[1]) if sys.argv[1:] else None
    each = range(wanted // 4) if wanted else itertools.count()
    threads = [threading.Thread(target=connection, args=(each,), daemon=True) for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    sys.exit(f"lost: {LOST[0]}" if LOST else 0)


main()
