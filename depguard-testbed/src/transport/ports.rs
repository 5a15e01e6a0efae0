//! Ports of servers that a test stops and starts again.

use std::io;
use std::net::{IpAddr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};

/// First of the ports that are given out.
const FIRST: u16 = 12_000;
/// Number of ports that are given out. All of them lie below 32,768, from where on Linux assigns ports to clients.
const PORTS: u32 = 20_000;

/// Returns a port of this address for a server that starts later, or that is stopped and started again.
///
/// The port is free now. No client is assigned the port while the server is away, and no two calls of one process
/// return the same port.
///
/// # Errors
///
/// A thousand ports in a row are in use.
pub fn lasting_port(address: impl Into<IpAddr>) -> io::Result<u16> {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let address = address.into();
    // Another process on this machine begins at another port.
    let begin = std::process::id() % PORTS * 97;
    for _ in 0..1_000 {
        let step = (begin + u32::from(NEXT.fetch_add(1, Ordering::Relaxed))) % PORTS;
        let port = FIRST + u16::try_from(step).map_err(io::Error::other)?;
        if TcpListener::bind((address, port)).is_ok() {
            return Ok(port);
        }
    }
    Err(io::Error::new(io::ErrorKind::AddrInUse, "a thousand ports in a row are in use"))
}
