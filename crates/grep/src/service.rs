//! The service of `faultless index watch`: it answers the searches of other processes over a socket in the database's
//! folder.
//!
//! ```text
//! faultless grep -> words, folder, stdout and stderr -> service: the same search, with the database open
//!                <- exit status                      <-
//! ```
//! In: requests. Out: what `faultless grep` would print, on the client's own streams, and its exit status.
//!
//! A client that gets no answer searches by itself: there is no service, it is another version's or another user's, it
//! does not answer in time, or it does not take such a search. It takes searches of the tree that need nothing but the
//! database. Once a search has begun, only its exit status counts, because lines may have been printed.

mod client;
mod request;
mod server;

pub(crate) use client::ask;
pub(crate) use server::Service;

use std::path::Path;
use std::time::Duration;

use rustix::net::SocketAddrUnix;

/// The socket in the database's folder.
const SOCKET: &str = "socket";
/// What the service says when a search begins. Afterwards it says the exit status.
const BEGUN: u8 = b'B';
/// Both sides wait so long for the other's first words.
const PATIENCE: Duration = Duration::from_millis(500);

/// The address of the socket in an open folder. The path of the folder could be longer than an address.
fn address(folder: &impl std::os::fd::AsRawFd) -> rustix::io::Result<SocketAddrUnix> {
    SocketAddrUnix::new(Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string()).join(SOCKET))
}

/// Whether the other side of a socket belongs to the same user.
fn is_ours(socket: &impl std::os::fd::AsFd) -> bool {
    rustix::net::sockopt::socket_peercred(socket).is_ok_and(|peer| peer.uid == rustix::process::geteuid())
}
