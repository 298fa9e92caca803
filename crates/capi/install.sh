#!/bin/sh
# Builds the C and C++ interface and copies it below PREFIX (default /usr/local): include/, lib/, lib/pkgconfig/ and
# lib/cmake/faultless/. Everything found there finds its neighbours relatively, so the tree may be moved.
#
#     crates/capi/install.sh [PREFIX [PROFILE]]
#
# PROFILE is a cargo profile; the default, preload, is the optimised one without unwinding. DESTDIR is honoured, for packagers;
# cargo's variables (CARGO_TARGET_DIR, CARGO_BUILD_TARGET, CARGO_NET_OFFLINE, ...) as well. CC links the shared library.
set -eu

prefix=${1:-/usr/local}
profile=${2:-preload}
here=$(cd "$(dirname "$0")" && pwd)
to=${DESTDIR:-}$prefix
cargo=${CARGO:-cargo}

# The library's path is cargo's to tell: it prints it as JSON.
artifacts=$("$cargo" build --package faultless-capi --profile "$profile" --manifest-path "$here/Cargo.toml" \
    --config "$here/../preload/profile.toml" --message-format json-render-diagnostics)
archive=$(printf '%s\n' "$artifacts" | sed -n 's/.*"\([^"]*libfaultless\.a\)".*/\1/p' | tail -n 1)
version=$("$cargo" pkgid --manifest-path "$here/Cargo.toml" | sed 's/.*[#@]//')
major=${version%%.*}
minor=${version#*.}
minor=${minor%%.*}
# What the archive needs besides what every C compiler links (rustc --print native-static-libs): the unwinder and the C library
# are among the latter, in a static program too.
private='pthread dl m'
# A program linked by pkg-config finds the library at run time too, unless it lies where the loader looks anyway. Packagers
# (DESTDIR) have rules of their own.
# shellcheck disable=SC2016 # for pkg-config
rpath=' -Wl,-rpath,${libdir}'
case ${DESTDIR:-}:$prefix in
    :/usr | :/usr/ | ?*:*) rpath= ;;
esac

fill() {
    sed -e "s|@RPATH@|$rpath|" -e "s/@VERSION@/$version/g" -e "s/@MAJOR@/$major/g" -e "s/@MINOR@/$minor/g" \
        -e "s/@PRIVATE_LIBS@/$(echo "$private" | tr ' ' ';')/g" \
        -e "s/@PRIVATE_LIBS_FLAGS@/$(echo " $private" | sed 's/ / -l/g; s/^ //')/g" "$here/$1" >"$to/$2"
}

mkdir -p "$to/include" "$to/lib/pkgconfig" "$to/lib/cmake/faultless"
cp "$here/include/faultless.h" "$here/include/faultless.hpp" "$to/include/"
cp "$archive" "$to/lib/libfaultless.a"
# nodelete: its fork handlers stay until the process ends.
# shellcheck disable=SC2086 # a compiler with its flags
${CC:-cc} -shared -o "$to/lib/libfaultless.so.$version" -Wl,-soname,"libfaultless.so.$major" -Wl,-z,nodelete \
    -Wl,--version-script="$here/faultless.map" -Wl,--gc-sections -s \
    -Wl,--whole-archive "$archive" -Wl,--no-whole-archive -lpthread -ldl -lm
ln -sf "libfaultless.so.$version" "$to/lib/libfaultless.so.$major"
ln -sf "libfaultless.so.$major" "$to/lib/libfaultless.so"
fill faultless.pc.in lib/pkgconfig/faultless.pc
fill cmake/faultless-config.cmake.in lib/cmake/faultless/faultless-config.cmake
fill cmake/faultless-config-version.cmake.in lib/cmake/faultless/faultless-config-version.cmake
# Programs that are linked otherwise need the loader's list, which only root may write.
case ${DESTDIR:-}:$prefix in
    :/usr | :/usr/local) ldconfig 2>/dev/null || echo "run ldconfig as root, so that the loader finds libfaultless.so.$major" >&2 ;;
    :*) echo "without pkg-config, link with -L$prefix/lib -lfaultless -Wl,-rpath,$prefix/lib" >&2 ;;
esac
