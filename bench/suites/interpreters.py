"""Language runtimes on programs of our own: Node, Java, Go. Every program prints what it computed."""
from .outcomes import job, suite

NODE = {
    "buffers": """const b=[];for(let i=0;i<3000;i++){const x=Buffer.alloc((i*7919)%300000,i&255);if(i%3)b.push(x);if(b.length>40)b.splice(i%40,1)}
let s=0;for(const x of b)for(let i=0;i<x.length;i+=97)s=(s*31+x[i])>>>0;console.log(s,Buffer.concat(b).length);
const a=new ArrayBuffer(8<<20,{maxByteLength:64<<20});for(let i=9;i<64;i++)a.resize(i<<20);console.log(a.byteLength)""",
    "worker_threads": """const {Worker,isMainThread,parentPort,workerData}=require('worker_threads');const c=require('crypto');
if(isMainThread){const out=[];let left=12;for(let i=0;i<12;i++){const w=new Worker(__filename,{workerData:i});w.on('message',m=>{out[i]=m;});
w.on('exit',()=>{if(!--left)console.log(out.join('\\n'))})}}
else{let x=new Uint8Array(4<<20).fill(workerData);const s=new SharedArrayBuffer(1<<20);new Uint8Array(s).set(x.subarray(0,1<<20));
for(let i=0;i<40;i++){x=Buffer.concat([x.subarray(100000),Buffer.alloc(100000,i)])}parentPort.postMessage(c.createHash('sha256').update(x).update(new Uint8Array(s)).digest('hex'))}""",
    "wasm": """const b=new Uint8Array([0,97,115,109,1,0,0,0,1,7,1,96,2,127,127,1,127,3,2,1,0,5,5,1,1,1,255,1,7,11,2,1,102,0,0,3,109,101,109,2,0,10,9,1,7,0,32,0,32,1,106,11]);
WebAssembly.instantiate(b).then(({instance:w})=>{let s=0;for(let i=0;i<1e6;i++)s=w.exports.f(s,i);console.log(s);
for(let i=0;i<200;i++)w.exports.mem.grow(1);const u=new Uint8Array(w.exports.mem.buffer);u.fill(7);console.log(u.length,u.reduce((a,x)=>a+x,0))},e=>console.log(''+e))""",
    "child processes": """const {execFileSync,spawn}=require('child_process');let s=0;for(let i=0;i<30;i++)s+=execFileSync('sh',['-c','echo '+i]).length;console.log(s);
const c=spawn('sort',['-n']);let o='';c.stdout.on('data',d=>o+=d);c.on('close',r=>console.log(r,require('crypto').createHash('md5').update(o).digest('hex')));for(let i=0;i<200000;i++)c.stdin.write((i*7919%200003)+'\\n');c.stdin.end()""",
}


@suite("node", version="node --version", needs=("node",), quick=True)
def node(box):
    """Scripts: Buffers, worker_threads, WebAssembly, child processes."""
    for name, text in NODE.items():
        path = box.write(name.replace(" ", "_") + ".js", text)
        yield job(name, f"node --expose-gc {path}", quick=name in ("buffers", "worker_threads", "wasm"))


JAVA = r"""import java.nio.*; import java.util.*; import java.util.concurrent.*; import java.io.*;
public class Main {
  static long pressure(int seed) { Random r = new Random(seed); Map<Integer, byte[]> m = new HashMap<>(); long s = 0;
    for (int i = 0; i < 15000; i++) { byte[] b = new byte[1 + r.nextInt(20000)]; b[b.length / 2] = (byte) i; m.put(r.nextInt(2000), b); s += b.length; }
    for (byte[] b : m.values()) for (int i = 0; i < b.length; i += 64) s = s * 31 + b[i]; return s; }
  static long direct(int seed) { Random r = new Random(seed); long s = 0; List<ByteBuffer> l = new ArrayList<>();
    for (int i = 0; i < 800; i++) { ByteBuffer b = ByteBuffer.allocateDirect(1 + r.nextInt(500000)); b.put(b.capacity() / 2, (byte) i); l.add(b);
      if (l.size() > 50) { ByteBuffer o = l.remove(r.nextInt(50)); s = s * 31 + o.get(o.capacity() / 2) + o.capacity() + o.get(0); } } return s; }
  static long processes() throws Exception { long s = 0; for (int i = 0; i < 20; i++) { Process p = new ProcessBuilder("sort", "-n").start();
      try (PrintStream o = new PrintStream(p.getOutputStream())) { for (int k = 0; k < 5000; k++) o.println(k * 7919 % 10007); }
      s = s * 31 + new String(p.getInputStream().readAllBytes()).hashCode() + p.waitFor(); } return s; }
  public static void main(String[] a) throws Exception { ExecutorService e = Executors.newFixedThreadPool(8); List<Future<Long>> f = new ArrayList<>();
    for (int i = 0; i < 16; i++) { int n = i; f.add(e.submit(() -> switch (a[0]) { case "pressure" -> pressure(n); case "direct" -> direct(n); default -> n < 3 ? processes() : 0L; })); }
    for (Future<Long> x : f) System.out.println(x.get()); e.shutdown(); } }
"""


@suite("java", version="java --version", needs=("java", "javac"))
def java(box):
    """javac, and a program with GC pressure, direct buffers, threads and processes under each collector."""
    source = box.write("Main.java", JAVA)
    box.prepare("javac Main.java")
    program = f"-XX:TieredStopAtLevel=1 -Xmx512m -cp {box.inputs} Main"
    yield job("javac", f"javac -d . {source} && sha256sum *.class")
    for collector in ("Serial", "Parallel", "G1", "Z", "Shenandoah"):
        yield job(f"pressure, {collector}", f"java -XX:+Use{collector}GC {program} pressure")
    yield job("direct", f"java -XX:NativeMemoryTracking=detail {program} direct")
    for how in ("VFORK", "FORK", "POSIX_SPAWN"):
        yield job(f"processes, {how}", f"java -Djdk.lang.Process.launchMechanism={how} {program} processes")
    yield job("huge pages, always pre-touch", f"java -XX:+UseTransparentHugePages -XX:+AlwaysPreTouch {program} pressure")


GO = r"""package main
/*
#include <stdlib.h>
#include <string.h>
#include <pthread.h>
static void *each(void *p) { unsigned s = 0; for (int i = 0; i < 500; i++) { size_t n = 1 + (i * 7919u) % 400000; unsigned char *b = malloc(n); memset(b, i, n); b = realloc(b, n * 2); s += b[n / 2]; free(b); } *(unsigned *)p = s; return 0; }
static unsigned threads(void) { pthread_t t[4]; unsigned s[4], sum = 0; for (int i = 0; i < 4; i++) pthread_create(t + i, 0, each, s + i); for (int i = 0; i < 4; i++) { pthread_join(t[i], 0); sum += s[i]; } return sum; }
*/
import "C"
import ("fmt"; "os/exec"; "sync"; "unsafe")
func main() {
	var g sync.WaitGroup; out := make([]uint64, 16)
	for n := range out { g.Add(1); go func(n int) { defer g.Done(); var s uint64
		for i := 0; i < 400; i++ { size := 1 + (i*n*7919)%300000; p := C.malloc(C.size_t(size)); C.memset(p, C.int(i), C.size_t(size)); s = s*31 + uint64(*(*byte)(unsafe.Add(p, size/2))) + uint64(len(make([]byte, size))); C.free(p) }
		out[n] = s + uint64(C.threads()) }(n) }
	g.Wait(); fmt.Println(out)
	for i := 0; i < 20; i++ { b, err := exec.Command("sh", "-c", "sort /etc/passwd | wc -l").Output(); if err != nil { panic(err) }; if i == 0 { fmt.Print(len(b) > 0, "\n") } }
}
"""


@suite("go", version="go version", needs=("go", "gcc"))
def go(box):
    """A program with cgo and goroutines; go vet and go build themselves."""
    box.write("main.go", GO)
    box.write("go.mod", "module example.org/t\n\ngo 1.18\n")
    box.prepare("GOFLAGS=-mod=mod GOTOOLCHAIN=local GOCACHE=$PWD/cache go build -o t .")
    yield job("cgo", f"{box.inputs}/t; GOMAXPROCS=8 GOGC=5 {box.inputs}/t")
    yield job("go build and vet", f"cp {box.inputs}/main.go {box.inputs}/go.mod . && export GOTOOLCHAIN=local GOCACHE={box.inputs}/cache && go vet . && go build -trimpath -o t . && ./t")
