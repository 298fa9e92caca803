#include <regex>
#include <iostream>
#include <map>
#include <string>
int main(int argc, char **argv) {
  std::map<std::string, int> m;
  std::regex r("(\\w+)=(\\d+)");
  for (int i = 1; i < argc; i++) { std::cmatch c; if (std::regex_match(argv[i], c, r)) m[c[1]] += std::stoi(c[2]); }
  for (auto &[k, v] : m) std::cout << k << ' ' << v << '\n';
}
