//! How much of a list.

use clap::Args;
use tasklane_client::Error;

use crate::show::List;

/// What a server gives at once.
const PAGE_MAX: u32 = 1_000;

#[derive(Debug, Clone, Args)]
pub(super) struct Paging {
    /// How many at most.
    #[arg(long, default_value_t = 50, value_name = "COUNT", help_heading = "How many")]
    limit: u32,
    /// All of them.
    #[arg(long, conflicts_with = "limit", help_heading = "How many")]
    all: bool,
    /// Go on where an earlier list stopped.
    #[arg(long, value_name = "CURSOR", help_heading = "How many")]
    cursor: Option<Box<str>>,
}

impl Paging {
    /// Asks for page after page until there are enough. A page may be short and not the last.
    pub(super) async fn gather<T>(
        &self,
        name: &'static str,
        mut page: impl AsyncFnMut(Option<u32>, Option<Box<str>>) -> Result<Page<T>, Error>,
    ) -> Result<List<T>, Error> {
        let mut left = if self.all { u32::MAX } else { self.limit };
        let mut list = List { name, things: Vec::new(), next_cursor: self.cursor.clone() };
        while left > 0 {
            let (things, next) = page(Some(left.min(PAGE_MAX)), list.next_cursor.take()).await?;
            left = left.saturating_sub(u32::try_from(things.len()).unwrap_or(u32::MAX));
            list.things.extend(things);
            list.next_cursor = next;
            if list.next_cursor.is_none() {
                break;
            }
        }
        Ok(list)
    }
}

/// Things, and where to go on.
pub(super) type Page<T> = (Vec<T>, Option<Box<str>>);
