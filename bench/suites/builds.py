"""Compilers and builds: g++ -j, clang; cargo, and Rust programs with an allocator of their own."""
from .outcomes import Skip, job, suite

CPP = "".join(f"#include <{name}>\n" for name in "algorithm functional iostream map memory regex string unordered_map vector".split()) + r"""
template <int N> struct F%(n)d { static constexpr long v = F%(n)d<N - 1>::v * 31 %% 1000003 + N; };
template <> struct F%(n)d<0> { static constexpr long v = %(n)d; };
template <class T, std::size_t... I> auto sums(std::index_sequence<I...>) { return std::array<T, sizeof...(I)>{F%(n)d<I>::v...}; }
long part%(n)d() { auto a = sums<long>(std::make_index_sequence<200>{}); std::map<std::string, std::vector<std::unique_ptr<long>>> m;
  for (auto x : a) m[std::to_string(x %% 17)].push_back(std::make_unique<long>(x)); std::unordered_map<long, std::function<long(long)>> h; long s = 0;
  for (auto &[k, v] : m) for (auto &p : v) { h[*p] = [&](long y) { return y + *p; }; s += h[*p](s) %% 1009; }
  std::regex r("([a-z]+)([0-9]+)"); std::smatch w; std::string t = "abc123"; if (std::regex_match(t, w, r)) s += w.size(); std::sort(a.begin(), a.end()); return s + a[7]; }
"""


@suite("g++", version="g++ --version", needs=("g++", "make"))
def cplusplus(box):
    """make -j of generated, template-heavy files with g++ (and clang++): the same objects, the same program."""
    for n in range(3):
        box.write(f"p{n}.cc", CPP % {"n": n})
    box.write("main.cc", "#include <iostream>\nlong part0(); long part1(); long part2(); int main() { std::cout << part0() << ' ' << part1() << ' ' << part2() << std::endl; }")
    box.write("Makefile", f"vpath %.cc {box.inputs}\nt: p0.o p1.o p2.o main.o\n\t$(CXX) $(CXXFLAGS) -o $@ $^ -pthread\n"
              "%.o: %.cc\n\t$(CXX) -std=c++17 $(CXXFLAGS) -frandom-seed=1 -c -o $@ $<\n")
    make = f"make -s -f {box.inputs}/Makefile"
    yield job("-O2, make -j2", f"{make} -j2 CXXFLAGS=-O2 && sha256sum *.o t && ./t")
    yield job("-O0 -g, make -j4", f"{make} -j4 CXXFLAGS='-O0 -g -gno-record-gcc-switches' && ./t && nm -C t | wc -l")
    yield job("link-time optimization", f"{make} -j2 CXXFLAGS='-O1 -flto=2' && ./t")
    yield job("an error", f"g++ -std=c++17 -DF0=1 -c -o e.o {box.inputs}/p0.cc 2>&1 | wc -l; g++ -c {box.inputs}/none.cc")
    yield job("clang++", f"command -v clang++ >/dev/null || exit 0; {make} -j2 CXX=clang++ CXXFLAGS=-O2 && sha256sum *.o && ./t")


OWN = """#[global_allocator] static ALLOCATOR: {path} = {path};
fn main() {{ let all: Vec<u64> = (0..8u64).map(|n| std::thread::spawn(move || {{ let mut keep: Vec<Vec<u8>> = Vec::new(); let mut sum = 0u64;
  for i in 0..3000u64 {{ let mut v = vec![(i + n) as u8; (i * 7919 % 200_000) as usize]; v.resize(v.len() * 2, 1); sum = sum.wrapping_mul(31) + v.iter().step_by(997).map(|b| *b as u64).sum::<u64>(); keep.push(v); if keep.len() > 20 {{ keep.swap_remove((i % 20) as usize); }} }} sum }})).map(|t| t.join().unwrap()).collect();
  println!("{{all:?}}"); let out = std::process::Command::new("sort").arg("/etc/passwd").output().unwrap(); println!("{{}}", out.stdout.len() > 1); }}
"""


@suite("rust", version="rustc --version", needs=("cargo", "cc"))
def rust(box):
    """cargo; and programs whose global allocator is jemalloc, mimalloc or the system's. The crates come from the registry (--install)."""
    if not box.install:
        raise Skip("needs crates: --install fetches them")
    jemalloc, mimalloc = "tikv_jemallocator::Jemalloc", "mimalloc::MiMalloc"
    for name, crate, path in (("jemalloc", 'tikv-jemallocator = "0.6"', jemalloc), ("mimalloc", 'mimalloc = "0.1"', mimalloc), ("system", "", "std::alloc::System"),
                              ("unprefixed", 'tikv-jemallocator = { version = "0.6", features = ["unprefixed_malloc_on_supported_platforms"] }', jemalloc),
                              ("override", 'mimalloc = { version = "0.1", features = ["override"] }', mimalloc)):
        box.write(f"{name}/Cargo.toml", f"[package]\nname = \"t\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[workspace]\n[dependencies]\n{crate}\n")
        box.write(f"{name}/src/main.rs", OWN.format(path=path))
        box.prepare(f"cd {name} && cargo build -q --release", limit_s=900)
        yield job(name, f"{box.inputs}/{name}/target/release/t")
    yield job("cargo build", f"cp -r {box.inputs}/override t && rm -rf t/target && cd t && cargo build -q --offline && target/debug/t", limit_s=900)
