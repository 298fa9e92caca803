//! Answers requests, each connection in a thread of its own.

use std::ffi::OsString;
use std::fs::{File, Permissions};
use std::io::{IoSliceMut, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;

use clap::Parser;
use faultless_console::Failure;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType, bind,
    listen, recvmsg, socket_with,
};

use super::request::{MOST_BYTES, Request};
use super::{BEGUN, PATIENCE, SOCKET, address, is_ours};
use crate::caller::Caller;
use crate::databases::Chosen;
use crate::flags::engine::Source;
use crate::flags::{self, Args};
use crate::{Search, scope, search};

/// Connections that may wait.
const WAITING: i32 = 128;
/// Connections at a time. A client beyond them searches by itself.
const MOST_CONNECTIONS: usize = 64;

/// The socket. Nobody is answered any more when this is dropped.
pub(crate) struct Service(PathBuf);

impl Service {
    /// Listens, and answers in the background. The caller holds the watch's lock, so no other service lives.
    pub(crate) fn begin(chosen: &Chosen) -> Result<Self, Failure> {
        let path = chosen.location.folder.join(SOCKET);
        let failed = |error| Failure(format!("{}: {error}; searches will not be answered", path.display()));
        let listener = listener(chosen, &path).map_err(failed)?;
        let chosen = chosen.clone();
        let thread = std::thread::Builder::new().spawn(move || accept(&listener, &chosen));
        thread.map_err(failed)?;
        Ok(Self(path))
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn listener(chosen: &Chosen, path: &std::path::Path) -> std::io::Result<UnixListener> {
    let _ = std::fs::remove_file(path);
    let folder = File::open(&chosen.location.folder)?;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    bind(&socket, &address(&folder)?)?;
    std::fs::set_permissions(path, Permissions::from_mode(0o600))?;
    listen(&socket, WAITING)?;
    Ok(socket.into())
}

fn accept(listener: &UnixListener, chosen: &Chosen) {
    let connections = Arc::new(());
    for client in listener.incoming() {
        let Ok(client) = client else { continue };
        if !is_ours(&client) || Arc::strong_count(&connections) > MOST_CONNECTIONS {
            continue;
        }
        let (chosen, connection) = (chosen.clone(), connections.clone());
        // Without a thread the client searches by itself.
        let _ = std::thread::Builder::new().spawn(move || {
            while answer(&client, &chosen).is_some() {}
            drop(connection);
        });
    }
}

/// Runs one search for a client. `None` if it has gone, or is not answered.
fn answer(client: &UnixStream, chosen: &Chosen) -> Option<()> {
    let (request, streams) = receive(client)?;
    let args = args(&request.words).filter(needs_the_database_only)?;
    // A database that can't be opened is the client's to report.
    chosen.opened().ok()?;
    let caller =
        Caller::client(request.folder.into(), request.likes_colour, streams, client.try_clone().ok()?);
    (&*client).write_all(&[BEGUN]).ok()?;
    let status = search::run(args, &caller).unwrap_or_else(|failure| {
        caller.tell(&format_args!("faultless: {failure}"));
        2
    });
    (&*client).write_all(&[status]).ok()
}

/// The flags of a search. `None` if they are wrong, or ask for help: the client says so.
fn args(words: &[OsString]) -> Option<Args> {
    let parsed = || Search::try_parse_from([OsString::from("faultless-grep")].iter().chain(words)).ok();
    flags::quick::read(words).or_else(|| parsed().map(|parsed| parsed.search))
}

/// Whether a search reads nothing but the tree's database, and its cost is not asked for. Of the other files the
/// service does not know the paths, nor the client's stdin.
fn needs_the_database_only(args: &Args) -> bool {
    let Args { pattern, paths, matching, which, looks: _, engine } = args;
    let has_path = !paths.is_empty() || !matching.patterns.is_empty() && pattern.is_some();
    let others = has_path
        || !matching.pattern_files.is_empty()
        || !which.databases.project.is_empty()
        || args.beyond_databases().is_some()
        || which.asks_hidden()
        || which.asks_ignored()
        || scope::names_hidden(args);
    !others && !which.fresh && !which.type_list && engine.stat.is_none() && engine.memory == Source::Pool
}

/// The next request, with the client's stdout and stderr.
fn receive(mut client: &UnixStream) -> Option<(Request, [OwnedFd; 2])> {
    client.set_read_timeout(None).ok()?;
    let mut length = [0; 4];
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut descriptors = RecvAncillaryBuffer::new(&mut space);
    let into = &mut [IoSliceMut::new(&mut length)];
    let received = recvmsg(client, into, &mut descriptors, RecvFlags::CMSG_CLOEXEC).ok()?;
    let streams: Vec<OwnedFd> = descriptors
        .drain()
        .filter_map(|message| if let RecvAncillaryMessage::ScmRights(of) = message { Some(of) } else { None })
        .flatten()
        .collect();
    let length = (received.bytes == length.len()).then(|| u32::from_le_bytes(length) as usize)?;
    let mut bytes = vec![0; Some(length).filter(|&length| length <= MOST_BYTES)?];
    client.set_read_timeout(Some(PATIENCE)).ok()?;
    client.read_exact(&mut bytes).ok()?;
    Some((Request::decode(&bytes)?, streams.try_into().ok()?))
}
