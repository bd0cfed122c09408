//! Lanes that are long, and lanes that are many.

use std::collections::HashSet;

use tasklane_core::{NewTask, Policies, TaskType};
use tasklane_redis::Mode;
use tasklane_redis::test_server::TestServer;
use tasklane_store::{ClaimRequest, Store, Submission};

use crate::work::{claim, open, run, tasks, worker};

#[test]
fn claims_that_come_together_take_more_of_a_lane_than_a_script_passes_at_once() {
    const CLAIMS: usize = 10;
    let server = TestServer::start(&[]).unwrap();
    run(async {
        let store = open(&server.address(), Mode::Fast).await;
        let mut requests = Vec::new();
        for _ in 0..CLAIMS {
            store.submit(tasks(1_000)).await.unwrap().remove(0).unwrap();
            let worker = worker(&store).await;
            requests.push(ClaimRequest { worker, count: 1_000, auto_start: true, narrowed: None });
        }
        let claimed = store.claim(requests).await.unwrap().into_iter().flat_map(Result::unwrap);
        let claimed: Vec<_> = claimed.collect();
        let ids: HashSet<_> = claimed.iter().map(|claimed| claimed.task.id).collect();
        assert_eq!((claimed.len(), ids.len()), (CLAIMS * 1_000, CLAIMS * 1_000));
        assert_eq!(store.check().await.unwrap(), []);
    });
}

#[test]
fn a_claim_looks_only_at_the_lanes_that_have_waited_longest() {
    let server = TestServer::start(&[]).unwrap();
    let ranges = || {
        let info: String = server.command(&["INFO", "commandstats"]).unwrap();
        let line = info.lines().find_map(|line| line.strip_prefix("cmdstat_zrange:calls="));
        line.map_or(0, |line| line.split(',').next().unwrap().parse::<usize>().unwrap())
    };
    run(async {
        let store = open(&server.address(), Mode::Fast).await;
        let worker = worker(&store).await;
        for lane in 0..200 {
            let task_type = TaskType::new(format!("t{lane}")).unwrap();
            let draft = NewTask::new(task_type, "").resolve(&Policies::default()).unwrap();
            let submitted = store.submit(vec![Submission { tasks: vec![draft] }]).await.unwrap();
            assert!(submitted[0].is_ok());
        }
        for lane in 0..20 {
            let before = ranges();
            let claimed = claim(&store, worker, 1).await;
            assert_eq!(claimed[0].task.spec.lane.task_type.as_str(), format!("t{lane}"));
            let looked = ranges() - before;
            assert!(looked <= 40, "{looked} looks into sorted sets for one task");
        }
    });
}
