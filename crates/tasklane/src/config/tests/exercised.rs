//! That each setting changes what a running server does is shown by a test, named here. A setting
//! without a row has no such test yet.

use std::collections::HashMap;
use std::path::Path;

use super::super::table::settings;

const PROCESS: &str = "crates/tasklane/tests/process";
const HTTP: &str = "crates/tasklane-server/tests/http";

/// A file, a test in it, and the settings that it shows at work.
type Row = (&'static str, &'static str, &'static str, &'static [&'static str]);

const TESTS: &[Row] = &[
    (
        PROCESS,
        "signal.rs",
        "a_signal_ends_it_with_success_and_waiting_polls_are_answered",
        &["listen", "log.format"],
    ),
    (PROCESS, "signal.rs", "a_second_server_on_the_same_store_says_so_and_ends", &["store"]),
    (PROCESS, "setting/mod.rs", "only_lines_of_the_level_that_is_set_are_logged", &["log.level"]),
    (
        PROCESS,
        "slow.rs",
        "a_slow_call_is_a_line_with_its_ids_and_without_its_body",
        &["log.slow_call_seconds"],
    ),
    (PROCESS, "config.rs", "the_durability_that_is_set_is_the_one_that_counts", &["durability"]),
    (
        "crates/tasklane-sqlite/src/writer",
        "sync.rs",
        "what_was_written_is_synced_within_the_interval_that_is_set",
        &["sync_interval_ms"],
    ),
    (
        PROCESS,
        "setting/policy.rs",
        "leases_are_as_long_as_they_are_set",
        &[
            "lease_ms",
            "heartbeat_ms",
            "assignment_ms",
            "lease_losses_max",
            "maintenance.look_every_ms",
        ],
    ),
    (
        PROCESS,
        "setting/policy.rs",
        "a_worker_is_given_back_what_it_released_when_it_is_set",
        &["withhold_ms"],
    ),
    (
        PROCESS,
        "setting/policy.rs",
        "timeouts_grow_as_it_is_set",
        &["timeout_growth", "timeout_growth_max_seconds"],
    ),
    (
        PROCESS,
        "setting/policy.rs",
        "what_kinds_of_failures_allow_and_which_kind_one_is_can_be_set",
        &["retries.*", "classify.*"],
    ),
    (
        PROCESS,
        "setting/policy.rs",
        "breakers_and_strain_count_as_they_are_set",
        &["breaker.*", "health.*"],
    ),
    (
        PROCESS,
        "setting/policy.rs",
        "policies_of_priorities_queues_and_types_count_for_their_tasks",
        &[
            "*.*.max_retries",
            "*.*.timeout_seconds",
            "*.*.dead_letter",
            "*.*.priority",
            "*.*.retry.*",
        ],
    ),
    (PROCESS, "setting/policy.rs", "a_retry_comes_when_the_policy_says", &["types.*.retry.*"]),
    (
        PROCESS,
        "setting/queue.rs",
        "depths_count_for_all_queues_or_for_one",
        &["queue_defaults.depth_limits.*", "queues.*.depth_limits.*"],
    ),
    (
        PROCESS,
        "setting/queue.rs",
        "waiting_raises_tasks_as_it_is_set_for_all_queues_or_for_one",
        &["queue_defaults.aging.*", "queues.*.aging.*"],
    ),
    (
        PROCESS,
        "setting/queue.rs",
        "queues_draw_and_take_turns_as_it_is_set",
        &[
            "queue_defaults.order",
            "queue_defaults.weights",
            "queues.*.order",
            "queues.*.weights",
            "queues.*.weight",
        ],
    ),
    (
        PROCESS,
        "setting/retention.rs",
        "what_has_ended_is_kept_as_long_as_it_is_set",
        &[
            "retention.completed_seconds",
            "retention.cancelled_seconds",
            "retention.failed_seconds",
            "retention.dead_letter_seconds",
            "queues.*.retention.*",
            "maintenance.prune_every_ms",
        ],
    ),
    (
        PROCESS,
        "setting/retention.rs",
        "events_keys_and_workers_are_kept_as_long_as_it_is_set",
        &[
            "retention.events_seconds",
            "retention.events_max",
            "retention.idempotency_seconds",
            "retention.workers_seconds",
        ],
    ),
    (
        PROCESS,
        "setting/mod.rs",
        "a_call_that_does_not_end_holds_up_the_end_as_long_as_it_is_set",
        &["limits.shutdown_ms"],
    ),
    (HTTP, "key.rs", "a_server_that_asks_for_keys_lets_nobody_in_without_a_good_one", &["auth"]),
    (HTTP, "key.rs", "metrics_can_be_guarded", &["guard_metrics"]),
    (
        HTTP,
        "key.rs",
        "pages_of_other_origins_change_nothing_and_read_nothing",
        &["allowed_origins"],
    ),
    (
        HTTP,
        "rate.rs",
        "an_address_is_the_peers_unless_a_trusted_proxy_says_otherwise",
        &["trusted_proxies", "rate_limits.address_per_second", "rate_limits.address_burst"],
    ),
    (
        HTTP,
        "rate.rs",
        "a_key_gets_its_burst_then_its_rate_and_another_key_its_own",
        &["rate_limits.key_per_second", "rate_limits.key_burst"],
    ),
    (
        HTTP,
        "rate.rs",
        "who_tries_keys_is_slowed_and_nobody_else_at_that_address",
        &["rate_limits.failures_per_second", "rate_limits.failures_burst"],
    ),
    (
        HTTP,
        "configuration.rs",
        "connections_beyond_the_bound_are_closed",
        &["limits.connections_max"],
    ),
    (
        HTTP,
        "configuration.rs",
        "settings_that_change_count_from_the_next_call_on",
        &["limits.body_bytes_max", "limits.payload_bytes_max"],
    ),
    (
        HTTP,
        "connection.rs",
        "bodies_that_are_being_sent_are_bounded_together",
        &["limits.reading_bytes_max"],
    ),
    (HTTP, "connection.rs", "a_connection_that_says_nothing_is_closed", &["limits.headers_ms"]),
    (
        HTTP,
        "bad_input.rs",
        "a_body_that_comes_too_slowly_is_refused_on_every_route",
        &["limits.body_ms"],
    ),
    (
        HTTP,
        "connection.rs",
        "a_client_that_takes_nothing_of_its_answer_is_closed",
        &["limits.stall_ms"],
    ),
    (HTTP, "events.rs", "who_takes_nothing_any_more_is_cut_off", &["limits.slow_reader_ms"]),
    (
        HTTP,
        "events.rs",
        "who_falls_too_far_behind_is_told_and_dropped",
        &["limits.slow_reader_events"],
    ),
    (
        "crates/tasklane-server/src/engine",
        "tests/batcher.rs",
        "what_comes_while_others_are_under_way_is_one_batch",
        &["limits.batches_in_flight"],
    ),
    (
        HTTP,
        "bulletin.rs",
        "depths_and_figures_are_told_to_those_who_are_live",
        &["maintenance.metrics_every_ms"],
    ),
    (
        HTTP,
        "token.rs",
        "each_algorithm_lets_in_who_has_the_right_signature",
        &["jwt.key_file", "jwt.algorithm"],
    ),
    (
        HTTP,
        "token.rs",
        "what_a_token_must_say_is_as_it_is_set",
        &["jwt.issuer", "jwt.audience", "jwt.leeway_seconds", "jwt.scopes_claim"],
    ),
    (
        PROCESS,
        "tls.rs",
        "a_server_speaks_tls_and_takes_a_new_certificate_by_signal",
        &["tls.certificate", "tls.key"],
    ),
    (
        PROCESS,
        "tls.rs",
        "who_shows_a_certificate_that_the_file_names_needs_no_key",
        &["tls.client_ca", "client_certificates.*.name", "client_certificates.*.scopes"],
    ),
    (
        HTTP,
        "client_certificate.rs",
        "a_certificate_reaches_as_far_as_its_entry_says",
        &["client_certificates.*.queues", "client_certificates.*.types"],
    ),
    (
        HTTP,
        "client_certificate.rs",
        "without_a_certificate_there_is_no_connection_where_it_is_required",
        &["tls.client_certificates"],
    ),
    (
        HTTP,
        "tls.rs",
        "a_new_certificate_is_used_from_the_next_connection_on",
        &["tls.look_every_ms"],
    ),
    (HTTP, "tls.rs", "a_client_that_does_not_shake_hands_is_let_go", &["tls.handshake_ms"]),
    (HTTP, "tls.rs", "handshakes_beyond_their_bound_wait_for_a_turn", &["tls.handshakes_max"]),
    (
        HTTP,
        "trace.rs",
        "who_brings_a_trace_decides_whether_it_is_told",
        &["traces.endpoint", "traces.sample_ratio"],
    ),
    (HTTP, "trace.rs", "headers_come_from_a_file", &["traces.headers_file"]),
    (HTTP, "trace.rs", "a_collector_is_spoken_to_over_tls_if_it_is_trusted", &["traces.ca"]),
    (
        HTTP,
        "trace.rs",
        "what_is_left_is_sent_at_the_end",
        &["traces.service_name", "traces.export_every_ms"],
    ),
];

/// Whether a row's words mean a setting; a `*` of theirs is any name, at the end any names.
fn means(words: &str, path: &str) -> bool {
    let (mut words, mut path) = (words.split('.').peekable(), path.split('.'));
    while let Some(word) = words.next() {
        let Some(part) = path.next() else { return false };
        if word == "*" && words.peek().is_none() {
            return true;
        }
        if word != "*" && word != part {
            return false;
        }
    }
    path.next().is_none()
}

#[test]
fn every_setting_is_shown_at_work_by_a_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = HashMap::new();
    for (folder, file, test, shown) in TESTS {
        let path = root.join(folder).join(file);
        let text = files.entry(path.clone()).or_insert_with(|| {
            std::fs::read_to_string(&path).unwrap_or_else(|_| panic!("{} is gone", path.display()))
        });
        let is_there = text.contains(&format!("#[test]\nfn {test}("))
            || text.contains(&format!("async fn {test}("))
            || text.contains(&format!("    fn {test}("));
        assert!(is_there, "{folder}/{file} has no test {test}");
        for words in *shown {
            let known = settings().any(|setting| means(words, setting.path));
            assert!(known, "{test} shows {words}, which is no setting");
        }
    }
    let rows = |path: &str| TESTS.iter().any(|row| row.3.iter().any(|words| means(words, path)));
    let missing: Vec<_> =
        settings().map(|setting| setting.path).filter(|path| !rows(path)).collect();
    assert!(missing.is_empty(), "no test shows what these do: {missing:?}");
}

#[test]
fn a_row_means_what_it_says() {
    assert!(means("retries.*", "retries.timeout") && !means("retries.*", "retries"));
    assert!(means("*.*.retry.*", "types.*.retry.jitter"));
    assert!(!means("*.*.priority", "queues.*.depth_limits.normal"));
    assert!(means("lease_ms", "lease_ms") && !means("lease_ms", "lease_ms.more"));
}
