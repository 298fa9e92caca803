//! Asks the service to search.

use std::ffi::OsString;
use std::fs::File;
use std::io::{IoSlice, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use faultless_grepdb::engine::{Database, Location};
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, connect,
    sendmsg, socket_with,
};

use super::request::Request;
use super::{BEGUN, PATIENCE, SOCKET, address, is_ours};
use crate::caller::likes_colour;

/// The exit status of the search with these words, if the service of the current tree has run it.
pub(crate) fn ask(words: &[OsString]) -> Option<u8> {
    let folder = std::env::current_dir().ok()?;
    let root = Database::find_root(&folder)?;
    let mut service = connected(&Location::in_tree(&root))?;
    let request =
        Request { folder: folder.into_os_string(), likes_colour: likes_colour(), words: words.to_vec() };
    send(&service, &request.encode()?)?;
    service.set_read_timeout(Some(PATIENCE)).ok()?;
    (byte(&mut service)? == BEGUN).then_some(())?;
    service.set_read_timeout(None).ok()?;
    let status = byte(&mut service);
    if status.is_none() {
        eprintln!("faultless: the service has ended, and lines may be missing; run the search again");
    }
    Some(status.unwrap_or(2))
}

fn connected(location: &Location) -> Option<UnixStream> {
    // Most trees have no watch: one system call instead of five.
    location.folder.join(SOCKET).exists().then_some(())?;
    let folder = File::open(&location.folder).ok()?;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).ok()?;
    connect(&socket, &address(&folder).ok()?).ok()?;
    is_ours(&socket).then(|| socket.into())
}

/// Sends the request, with stdout and stderr.
fn send(mut service: &UnixStream, request: &[u8]) -> Option<()> {
    let (stdout, stderr) = (std::io::stdout(), std::io::stderr());
    let streams = [stdout.as_fd(), stderr.as_fd()];
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut descriptors = SendAncillaryBuffer::new(&mut space);
    descriptors.push(SendAncillaryMessage::ScmRights(&streams)).then_some(())?;
    let sent = sendmsg(service, &[IoSlice::new(request)], &mut descriptors, SendFlags::NOSIGNAL).ok()?;
    service.write_all(&request[sent..]).ok()
}

fn byte(service: &mut UnixStream) -> Option<u8> {
    let mut byte = [0];
    service.read_exact(&mut byte).ok().map(|()| byte[0])
}
