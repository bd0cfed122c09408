//! Where a server takes connections.

use std::io;
use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpSocket, lookup_host};

/// Connections that may wait to be taken, where the system allows as many. With the usual 128 a thousand
/// clients that come at once have to try again after a second, and some may be reset.
const WAITING_MAX: u32 = 4_096;

/// Listens on the first address of `place` that can be had.
pub(crate) async fn listen(place: &str) -> io::Result<TcpListener> {
    first_of(lookup_host(place).await?)
}

fn first_of(addresses: impl Iterator<Item = SocketAddr>) -> io::Result<TcpListener> {
    let mut last = io::Error::new(io::ErrorKind::AddrNotAvailable, "the name has no address");
    for address in addresses {
        match listen_on(address) {
            Ok(listener) => return Ok(listener),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn listen_on(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // A server that is started anew need not wait for the connections of the one before.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(WAITING_MAX)
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn a_thousand_clients_may_come_at_once() {
        let listener = listen("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        // Nobody takes them.
        let clients: Result<Vec<_>, _> = (0..1_000)
            .map(|_| TcpStream::connect_timeout(&address, Duration::from_millis(500)))
            .collect();
        assert_eq!(clients.unwrap().len(), 1_000);
    }

    #[tokio::test]
    async fn what_is_taken_is_said() {
        let first = listen("127.0.0.1:0").await.unwrap();
        let taken = listen(&first.local_addr().unwrap().to_string()).await;
        assert_eq!(taken.unwrap_err().kind(), io::ErrorKind::AddrInUse);
    }

    #[tokio::test]
    async fn an_address_that_cannot_be_had_is_passed() {
        let first = listen("127.0.0.1:0").await.unwrap();
        let taken = first.local_addr().unwrap();
        // Of documentation (RFC 3849): no machine has it, and where there is no IPv6 no socket either.
        let nowhere = "[2001:db8::1]:0".parse().unwrap();
        let free = "127.0.0.1:0".parse().unwrap();
        let listener = first_of([nowhere, taken, free].into_iter()).unwrap();
        assert!(listener.local_addr().unwrap().is_ipv4());
        let none = first_of(std::iter::empty()).unwrap_err();
        assert_eq!(none.kind(), io::ErrorKind::AddrNotAvailable);
    }
}
