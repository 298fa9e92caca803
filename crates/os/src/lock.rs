//! A futex mutex that can be held across `fork`.
