//! How queues are filled and served.

use super::*;

#[test]
fn depths_count_for_all_queues_or_for_one() {
    let limits = "depth_limits = { normal = 1, high = 2, all = 3 }\n";
    for section in ["queue_defaults", "queues.mail"] {
        let site = Site::new(&format!("[{section}]\n{limits}"));
        let submit = |priority: &str| {
            let task = json!({"type": "a", "queue": "mail", "priority": priority});
            site.call("POST", "/api/v1/tasks", &task).0
        };
        assert_eq!(submit("low"), 201);
        // A queue that a task makes gets what is set for all a moment later.
        site.eventually("it is configured", |site| {
            site.get("/admin/queues/mail")["depth_limits"]["normal"] == 1
        });
        let answers = ["low", "high", "high", "critical", "critical"].map(submit);
        assert_eq!(answers, [429, 201, 429, 201, 503], "{section}");
    }
}

#[test]
fn waiting_raises_tasks_as_it_is_set_for_all_queues_or_for_one() {
    let site = Site::new("");
    for section in ["queue_defaults.aging", "queues.mail.aging"] {
        for (level, name) in [("normal", "normal"), ("high", "high"), ("critical", "critical")] {
            let times = ["normal", "high", "critical"].map(|other| match other == level {
                true => format!("{other}_seconds = 0.02\n"),
                false => format!("{other}_seconds = \"never\"\n"),
            });
            site.configure(&format!("[{section}]\n{}", times.concat()));
            let low = json!({"type": "a", "queue": "mail", "priority": "low"});
            let id = site.server.submit(low);
            site.eventually(&format!("{section}: {level}"), |site| {
                site.server.task(&id)["effective_priority"] == name
            });
        }
    }
}

#[test]
fn queues_draw_and_take_turns_as_it_is_set() {
    let drawn = "order = \"weighted\"\nweights = [1, 1, 1, 1000000]\n";
    for section in ["queue_defaults", "queues.mail"] {
        let site = Site::new(&format!("[{section}]\n{drawn}"));
        for priority in ["critical", "low"] {
            site.server.submit(json!({"type": "a", "queue": "mail", "priority": priority}));
        }
        site.eventually("it is configured", |site| {
            site.get("/admin/queues/mail")["order"] == "weighted"
        });
        assert_eq!(site.claim()["priority"], "low", "{section}");
    }
    let site = Site::new("[queues.heavy]\nweight = 1000\n");
    for queue in ["heavy", "light"] {
        (0..20).for_each(|_| drop(site.server.submit(json!({"type": "a", "queue": queue}))));
    }
    let claimed = site.poll(&json!({"available_capacity": 20}));
    let heavy = claimed.iter().filter(|task| task["queue"] == "heavy").count();
    assert!(heavy >= 18, "{heavy} of 20");
}
