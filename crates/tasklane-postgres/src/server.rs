//! What is at the other end of a connection, and whether it will do.

use deadpool_postgres::Object;
use tasklane_store::StoreError;

use crate::fault::Fault;

/// The oldest version whose SQL is spoken here.
const VERSION_MIN: i32 = 150_000;

/// Refuses a server that will not do, warns of one that forgets. Gives what transactions that write
/// have to say so that a commit means what it should.
pub(crate) async fn look(client: &Object) -> Result<&'static str, Fault> {
    let sql =
        "SELECT current_setting('server_version_num')::int4, current_setting('server_version'),
               current_setting('server_encoding'), current_setting('synchronous_commit'),
               current_setting('fsync'), current_setting('full_page_writes'), pg_is_in_recovery()";
    let found = client.query_typed(sql, &[]).await?;
    let Some(row) = found.first() else {
        return Err(Fault::NoConnection("the database says nothing of itself".into()));
    };
    let (number, version): (i32, &str) = (row.get(0), row.get(1));
    if number < VERSION_MIN {
        let text = format!("this is PostgreSQL {version}; it has to be 15 or newer");
        return Err(StoreError::Version(text).into());
    }
    let encoding: &str = row.get(2);
    if encoding != "UTF8" {
        let text = format!("the database's encoding is {encoding}; it has to be UTF8");
        return Err(StoreError::Version(text).into());
    }
    if row.get::<_, bool>(6) {
        let text = "the database is a standby, which takes no writes";
        return Err(StoreError::Unavailable(text.into()).into());
    }
    for (setting, column) in [("fsync", 4), ("full_page_writes", 5)] {
        if row.get::<_, &str>(column) == "off" {
            tracing::warn!("{setting} is off: the database may lose what it has committed");
        }
    }
    // More than the default is left as it is.
    Ok(match row.get::<_, &str>(3) {
        "remote_apply" => "",
        _ => "; SET LOCAL synchronous_commit TO on",
    })
}
