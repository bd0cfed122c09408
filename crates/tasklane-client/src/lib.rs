//! What a Tasklane server and its clients say to each other.
//!
//! [`wire`] holds every body of the HTTP interface as a type: the server reads and writes these
//! and nothing else, so a client that uses them cannot drift from it.
//!
//! Nothing here knows of a store, a server's inside, or sockets.

pub mod wire;
