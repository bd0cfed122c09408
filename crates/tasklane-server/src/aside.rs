//! Work that takes a while, out of the way of calls that wait for the same thread.

use tokio::runtime::{Handle, RuntimeFlavor};

/// Does something. If it `is_long`, other calls go on meanwhile: another thread takes over what this
/// one had to do.
pub(crate) fn aside<T>(is_long: bool, work: impl FnOnce() -> T) -> T {
    if is_long && has_other_threads() { tokio::task::block_in_place(work) } else { work() }
}

fn has_other_threads() -> bool {
    Handle::try_current()
        .is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn others_go_on_on_a_single_thread() {
        let (said, heard) = mpsc::channel();
        let done = tokio::spawn(async move {
            tokio::spawn(async move { said.send(()) });
            // Only who is served meanwhile can say something.
            aside(true, || heard.recv())
        });
        assert_eq!(done.await.unwrap(), Ok(()));
    }

    #[tokio::test]
    async fn it_is_done_in_place_where_there_is_no_other_thread() {
        assert_eq!(aside(true, || 5), 5);
    }
}
