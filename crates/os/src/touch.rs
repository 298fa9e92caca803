//! First touches: one access per page, by read or by write.
