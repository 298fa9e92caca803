//! What `faultless` and its libraries call of C's mathematical library, under the names of C but in Rust, so that the program need not be
//! linked with that library: to map and relocate one more file takes a tenth of a short search.
//!
//! In: numbers. Out: what the `libm` crate makes of them, within an ulp or so (as C's own, of which IEEE 754 asks no more either).
//!
//! What it does not do: belong into a library that is loaded into other programs, whose functions it would replace.

/// Defines functions of the C library by those of the crate.
macro_rules! functions {
    ($($name:ident($($number:ident),+)),+ $(,)?) => {$(
        #[doc = concat!("C's `", stringify!($name), "`.")]
        // SAFETY: it takes and gives what the C standard (7.12) says of the function of this name, which is all that the compiler, too,
        // takes for granted of it; nobody else defines one in this program.
        #[unsafe(no_mangle)]
        pub extern "C" fn $name($($number: f64),+) -> f64 {
            libm::$name($($number),+)
        }
    )+};
}

functions!(cos(x), exp(x), hypot(x, y), log(x), log10(x), log1p(x), pow(x, y));
