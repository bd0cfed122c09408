//! Payloads, results and labels come back as they came, whatever a database thinks of them.

use bytes::Bytes;
use tasklane_core::{Command, Intent, Metadata, NewTask, Outcome, Policies, TaskType};
use tasklane_store::{Store, Submission};

use crate::fixture::runtime;
use crate::servers::{claim, fresh, open, register};

/// What neither `text` nor `jsonb` takes: a NUL in words and as itself, half a character.
const STRANGE: [&[u8]; 3] = [br#"{"a":  "\u0000", "a": 1e0}"#, b"\"\0\"", b"\"\xff\xfe\""];

#[test]
fn what_no_text_column_takes_is_kept_byte_for_byte() {
    let options = fresh();
    runtime().block_on(async {
        let store = open(&options).await;
        let worker = register(&store).await;
        // Beside the task, and in a table of its own.
        let long = [STRANGE[0], b" ".repeat(3_000).as_slice()].concat();
        for strange in STRANGE.map(<[u8]>::to_vec).into_iter().chain([long]) {
            let strange = Bytes::from(strange);
            let mut task = NewTask::new(TaskType::new("a").unwrap(), strange.clone());
            task.metadata = Metadata::new([("label", r"\u0000 and \x00")]).unwrap();
            let tasks = vec![task.resolve(&Policies::default()).unwrap()];
            store.submit(vec![Submission { tasks }]).await.unwrap().remove(0).unwrap();
            let held = claim(&store, worker, 1).await.remove(0);
            assert_eq!(held.payload, strange);
            let token = held.task.state.lease().unwrap().token;
            let intent = Intent::Settle(token, Outcome::Completed(strange.clone()));
            let command = Command { task: held.task.id, intent };
            store.execute(vec![command]).await.unwrap().remove(0).unwrap();
            let stored = store.get(vec![held.task.id]).await.unwrap().remove(0).unwrap();
            assert_eq!((&stored.payload, stored.result.as_ref()), (&strange, Some(&strange)));
            assert_eq!(stored.task.spec.metadata.get("label"), Some(r"\u0000 and \x00"));
        }
        assert_eq!(store.check().await.unwrap(), []);
    });
}
