// A small HTTP server on a port of its own choice, which it writes into the file `port`. /work fills a megabyte; /stats tells
// how many requests it has served and how many failed.

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.concurrent.Executors;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.atomic.AtomicLong;

public class Server {
    static final AtomicLong served = new AtomicLong(), failed = new AtomicLong();

    static void answer(HttpExchange exchange, byte[] text) throws IOException {
        exchange.sendResponseHeaders(200, text.length);
        exchange.getResponseBody().write(text);
        exchange.close();
    }

    static void work(HttpExchange exchange) {
        try {
            byte[] block = new byte[1 << 20];
            Arrays.fill(block, (byte) 'x');
            answer(exchange, Arrays.copyOf(block, 1000));
            served.incrementAndGet();
        } catch (IOException error) {
            failed.incrementAndGet();
        }
    }

    public static void main(String[] words) throws IOException {
        HttpServer server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 64);
        server.createContext("/work", Server::work);
        server.createContext("/stats", exchange -> answer(exchange, (served + " " + failed).getBytes()));
        ThreadPoolExecutor threads = (ThreadPoolExecutor) Executors.newFixedThreadPool(8);
        threads.prestartAllCoreThreads();
        server.setExecutor(threads);
        server.start();
        Files.writeString(Path.of("port"), "" + server.getAddress().getPort());
    }
}
