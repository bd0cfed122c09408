//! Trails and results: in a task's record while they are small, else in hashes of their own.

use std::time::Duration;

use bytes::Bytes;
use tasklane_core::{Command, Intent, Outcome, Retention};
use tasklane_redis::Mode;
use tasklane_redis::test_server::TestServer;
use tasklane_store::{Prune, Store};

use crate::work::{claim, open, run, submit, token, worker};

#[test]
fn trails_and_results_of_any_size_come_back_and_leave_nothing_behind() {
    let server = TestServer::start(&[]).unwrap();
    let fields =
        |hash: &str| -> i64 { server.command(&["HLEN", &format!("{{beside}}:{hash}")]).unwrap() };
    run(async {
        let address = format!("{}?namespace=beside", server.address());
        let store = open(&address, Mode::Fast).await;
        // In turns: who has given a task back does not get it again at once.
        let workers = [worker(&store).await, worker(&store).await];
        let settle = async |turn: usize, outcome: Outcome| {
            let claimed = claim(&store, workers[turn % 2], 1).await.remove(0);
            let intent = Intent::Settle(token(&claimed), outcome);
            let command = Command { task: claimed.task.id, intent };
            store.execute(vec![command.clone()]).await.unwrap().remove(0).unwrap();
            let again = store.execute(vec![command]).await.unwrap().remove(0).unwrap();
            assert!(again.repeated, "its trail tells that it was settled so");
        };
        let mut apart = [0, 0];
        for (releases, size) in [(0, 0), (1, 256), (0, 257), (30, 1), (30, 100_000)] {
            let id = submit(&store).await.unwrap();
            for turn in 0..releases {
                let before = store.trail(id).await.unwrap().unwrap().entries.len();
                settle(turn, Outcome::Released { delay: None }).await;
                let trail = store.trail(id).await.unwrap().unwrap();
                assert!(trail.entries.len() > before);
            }
            let result = Bytes::from(vec![b'7'; size]);
            settle(releases, Outcome::Completed(result.clone())).await;
            let stored = store.get(vec![id]).await.unwrap().remove(0).unwrap();
            assert_eq!((stored.result, stored.task.id), (Some(result), id));
            assert_eq!(store.check().await.unwrap(), []);
            apart[0] += i64::from(releases > 1);
            apart[1] += i64::from(size > 256);
            assert_eq!([fields("trail"), fields("result")], apart);
        }
        assert_eq!(fields("record"), 5);
        let retention = Retention { completed: Some(Duration::ZERO), ..Retention::default() };
        let prune = Prune { retention, ..Prune::default() };
        assert_eq!(store.prune(prune).await.unwrap().tasks_total(), 5);
        for hash in ["task", "record", "trail", "result"] {
            assert_eq!(fields(hash), 0, "{hash}");
        }
    });
}
