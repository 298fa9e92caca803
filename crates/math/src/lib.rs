//! What `faultless` and its libraries call of C's mathematical library, under the names of C but in Rust, so that the program need not be
//! linked with that library: to map and relocate one more file takes a seventh of a short search. LLD then leaves the library out; GNU ld
//! does not, and nothing else changes.
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

#[cfg(test)]
mod tests {
    use std::f64::consts::{E, PI};
    use std::hint::black_box;

    #[test]
    fn the_standard_library_gets_what_c_defines() {
        let of = |number: f64| black_box(number);
        assert_eq!(of(2.0).powf(of(0.5)), 2_f64.sqrt());
        assert_eq!(of(0.0).powf(of(0.0)), 1.0);
        assert_eq!((of(0.0).exp(), of(1000.0).exp(), of(-1000.0).exp()), (1.0, f64::INFINITY, 0.0));
        assert_eq!((of(1.0).ln(), of(0.0).ln()), (0.0, f64::NEG_INFINITY));
        assert!(of(-1.0).ln().is_nan() && of(f64::NAN).exp().is_nan());
        assert_eq!((of(1000.0).log10(), of(1e-20).ln_1p()), (3.0, 1e-20));
        assert_eq!((of(0.0).cos(), of(PI).cos()), (1.0, -1.0));
        assert_eq!(of(-3.0).hypot(of(4.0)), 5.0);
        assert!((of(3e200).hypot(of(4e200)) / 5e200 - 1.0).abs() < 1e-15);
        assert!((of(1.0).exp() - E).abs() < 1e-15 && (of(E).ln() - 1.0).abs() < 1e-15);
    }
}
