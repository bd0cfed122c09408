//! The list of cases, and what makes tests of it.

/// Makes one `#[test]` of each case. `$make` makes a fixture from rules:
/// `fn make(rules: tasklane_core::lifecycle::Rules) -> impl Fixture`.
#[macro_export]
macro_rules! conformance_suite {
    ($make:expr) => {
        $crate::conformance_cases! { conformance_tests ($make) }
    };
}

/// What [`conformance_suite!`] makes of the list.
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_tests {
    (($make:expr) $($topic:ident { $($case:ident)* })*) => {
        fn conformance_fixture() -> impl $crate::conformance::Fixture {
            $make($crate::conformance::Rules::default())
        }

        $(mod $topic {
            $(#[test]
            fn $case() {
                $crate::conformance::run_case(
                    super::conformance_fixture(),
                    $crate::conformance::cases::$topic::$case,
                );
            })*
        })*
    };
}

/// The names in the list with the text they should come from.
#[cfg(test)]
#[macro_export]
macro_rules! conformance_names {
    ($($topic:ident { $($case:ident)* })*) => {
        [$((
            include_str!(concat!("cases/", stringify!($topic), ".rs")),
            vec![$(stringify!($case)),*],
        )),*]
    };
}

/// Every case, by topic; handed to the macro `$then`.
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_cases {
    ($then:ident $($arguments:tt)*) => {
        $crate::$then! {
            $($arguments)*
            submit {
                a_submitted_task_is_pending_with_every_member_as_sent
                the_place_of_a_new_task_is_its_admission a_submission_is_answered_in_its_order
                submissions_of_one_call_are_taken_in_their_order
                an_empty_submission_is_taken_as_nothing a_chosen_id_is_kept
                chosen_ids_that_agree_in_time_and_counter_are_different_tasks
                ids_made_by_the_store_rise_whatever_the_clock_does payloads_are_kept_byte_for_byte
                large_payloads_are_kept a_refused_submission_leaves_nothing_behind
                a_refused_submission_does_not_fail_the_others_of_its_call
                a_schedule_in_the_past_means_at_once_and_gains_no_place
                the_answer_holds_what_rebuilds_a_new_task a_large_submission_is_taken_whole
            }
            idempotency {
                the_same_key_and_body_give_the_same_task a_replay_writes_nothing
                a_replay_shows_the_state_the_task_is_in the_same_key_with_another_body_is_a_mismatch
                a_key_counts_in_its_own_queue_only one_mismatch_refuses_the_whole_submission
                duplicates_inside_one_submission_are_replays
                one_key_with_two_bodies_inside_one_submission_is_a_mismatch
                the_same_key_in_two_submissions_of_one_call_is_one_task
                the_same_id_and_body_give_the_same_task the_same_id_with_another_body_is_a_mismatch
                the_same_id_twice_in_one_submission_is_a_replay
                the_same_key_with_another_id_gives_the_first_task another_trace_is_no_other_body
                a_key_is_kept_while_its_task_lives a_key_outlives_its_task_within_its_day
                after_its_day_the_key_of_an_ended_task_makes_a_new_one
                a_key_may_be_used_anew_beside_the_dead_letter_it_made a_revived_task_keeps_its_key
                an_id_never_names_two_tasks a_replay_is_answered_though_its_times_have_passed
            }
            claim_order {
                higher_priorities_go_first equal_priorities_go_by_the_time_they_became_ready
                equal_times_go_by_sequence one_submission_is_claimed_in_its_order
                chosen_ids_do_not_decide_the_order many_small_claims_give_the_order_of_one_large_one
                a_task_goes_only_to_a_worker_with_its_capabilities
                capabilities_do_not_disturb_the_order a_worker_gets_the_types_it_takes
                a_worker_gets_from_the_queues_it_takes
                a_worker_that_names_no_queue_at_all_gets_nothing
                tasks_that_do_not_fit_never_hide_one_that_does many_lanes_are_merged_by_place
                a_lane_that_was_empty_is_found_again
                a_narrowed_claim_uses_only_the_capabilities_it_names
                large_payloads_are_handed_out_within_a_bound a_task_is_given_out_once
                a_retry_keeps_its_place a_release_keeps_its_place a_delayed_release_keeps_its_place
                a_lost_lease_keeps_its_place a_requeue_keeps_its_place
                an_operators_retry_gets_a_new_place a_scheduled_task_has_the_place_of_its_time
                another_priority_counts_at_once_and_keeps_the_place
                a_released_task_comes_back_to_its_worker_after_a_second
                a_released_task_goes_to_another_worker_at_once every_claim_takes_the_best_that_fits
            }
            aging {
                a_low_task_counts_as_normal_from_600_seconds
                a_low_task_counts_as_high_from_1200_seconds
                a_low_task_counts_as_critical_from_3600_seconds
                every_base_reaches_a_level_after_the_same_wait equals_by_age_go_by_place
                a_claim_above_the_base_is_told_before_it a_claim_at_its_base_is_no_promotion
                waiting_counts_through_retries waiting_starts_at_the_scheduled_time
                an_operators_retry_waits_anew a_queue_may_age_in_its_own_time
                aging_that_is_off_never_promotes another_order_counts_for_tasks_that_wait_already
                a_clock_that_steps_back_makes_nothing_older
                a_weighted_queue_serves_every_priority_by_place
                a_weighted_queue_serves_what_there_is_and_promotes_nothing
            }
            ordering_key {
                tasks_behind_their_key_are_blocked tasks_of_one_submission_queue_up_behind_their_key
                one_key_runs_in_order_whatever_the_priorities
                other_keys_queues_and_tasks_without_a_key_are_free
                the_end_of_a_task_frees_the_next_in_the_same_write every_way_to_end_frees_the_key
                an_expired_task_met_by_a_claim_frees_its_key a_scheduled_task_holds_its_key
                a_retrying_task_holds_its_key a_release_and_a_lost_lease_hold_the_key
                a_cancelled_task_in_the_middle_is_passed_over
                a_blocked_task_expires_and_the_line_goes_on
                a_freed_task_still_waits_for_its_schedule
                an_operators_retry_joins_the_end_of_the_line
                an_operators_retry_takes_a_free_key_and_holds_it
                a_cancelled_task_that_never_held_the_key_frees_nobody
                a_long_line_behind_a_key_never_hides_other_tasks
            }
            lease {
                a_claim_makes_a_lease_of_thirty_seconds
                a_claim_without_auto_start_waits_for_its_start starting_again_is_harmless
                every_claim_has_another_token fences_follow_the_clock_and_only_rise
                a_forged_token_does_nothing a_token_opens_its_own_task_only
                a_token_of_an_earlier_claim_does_nothing
                renewing_all_renews_every_lease_of_the_worker renewing_some_lets_the_others_run_out
                a_renewal_tells_which_leases_are_lost a_renewal_writes_no_event_and_no_change
                a_lease_that_ended_but_was_not_reclaimed_can_be_renewed
                a_settle_after_the_end_but_before_the_reclaim_is_accepted progress_renews_the_lease
                the_end_of_a_lease_is_told_until_it_is_reclaimed
                each_lease_ends_by_its_own_last_renewal
                a_worker_never_holds_more_than_its_capacity
                two_claims_of_one_call_share_the_capacity every_end_of_a_lease_frees_capacity
                stepping_the_wall_clock_does_not_end_a_steady_lease
                the_answer_to_a_command_tells_the_state_after_it
            }
            settle {
                a_completed_task_keeps_its_result repeating_a_completion_answers_the_same_success
                another_result_after_a_completion_is_refused
                repeating_a_failure_answers_as_it_did_then
                repeating_a_release_answers_as_it_did_then
                repeating_the_last_failure_answers_as_it_did_then
                a_task_that_ended_is_never_claimed_again
                a_task_that_ended_refuses_everything_but_its_revival
                a_completed_task_cannot_be_revived an_unstarted_task_cannot_be_completed_or_failed
                an_unstarted_task_can_be_released_or_cancelled a_release_costs_no_attempt
                a_delayed_release_is_scheduled each_command_has_its_own_verdict
                commands_of_one_call_see_what_those_before_them_did
                progress_is_shown_with_the_time_it_was_said the_next_attempt_starts_without_progress
                a_result_beyond_its_bound_is_refused
            }
            recovery {
                a_lost_lease_is_reclaimed_when_it_ends_and_not_before
                losing_a_lease_costs_no_attempt five_leases_lost_in_a_row_make_a_dead_letter
                poison_without_a_dead_letter_is_failed a_settle_starts_the_count_of_lost_leases_anew
                a_release_starts_the_count_of_lost_leases_anew
                a_task_not_started_within_thirty_seconds_is_released
                a_started_task_is_not_released_for_a_late_start
                a_zombie_changes_nothing_after_the_reclaim
                a_reclaim_never_touches_what_was_settled_in_time
                a_lease_renewed_before_the_reclaim_is_kept a_lease_cannot_be_taken_before_its_end
                a_busy_worker_keeps_its_task_for_hours the_death_of_a_worker_never_shortens_a_lease
                what_a_worker_was_running_when_it_left_keeps_its_lease
                every_lost_lease_is_found_however_many_there_are maintenance_may_run_twice
                no_live_task_is_ever_stuck
            }
            cancel {
                a_task_that_nobody_holds_is_cancelled_at_once the_worker_of_a_leased_task_is_asked
                asking_twice_is_asking_once the_worker_learns_it_from_every_answer
                a_worker_that_stops_as_asked_cancels_the_task
                a_failure_or_release_after_the_request_cancels a_completion_that_comes_first_wins
                the_end_of_the_lease_cancels an_execution_timeout_after_the_request_cancels
                a_start_that_never_comes_after_the_request_cancels
                a_requeue_after_the_request_cancels a_worker_may_cancel_of_its_own_accord
                a_cancelled_task_can_be_revived
            }
            schedule {
                a_delay_counts_from_the_stores_own_clock
                a_scheduled_task_comes_due_at_its_time_and_not_before time_alone_changes_nothing
                a_task_cannot_come_due_early a_clock_that_steps_back_fires_nothing_again
                a_clock_that_steps_back_postpones_what_is_scheduled
                a_clock_that_steps_forward_fires_what_is_due_at_once
                a_task_scheduled_far_ahead_is_delivered_once
                more_than_a_slice_comes_due_in_one_round a_scheduled_task_can_be_moved
                a_task_moved_into_the_past_is_due_at_once_and_gains_no_place
                only_a_scheduled_task_can_be_moved
                every_waiting_task_expires_at_its_time_and_not_before
                an_expired_task_is_never_handed_out a_queue_full_of_expired_tasks_hides_nothing
                a_leased_task_does_not_expire a_task_given_back_after_its_time_expires
                a_revived_task_does_not_expire_again
            }
            retry {
                delays_double_by_default delays_grow_by_their_strategy_up_to_their_bound
                rate_limited_failures_wait_twice_as_long
                a_task_fails_once_more_than_it_may_be_retried
                each_kind_allows_its_own_number_of_retries what_allows_no_retry_is_dead_at_once
                the_workers_own_wish_for_the_delay_wins jitter_blurs_a_delay_by_a_tenth
                a_retrying_task_waits_for_its_backoff
                attempts_deliveries_and_losses_are_counted_apart
                the_last_error_is_shown_in_short_and_kept_in_full an_operator_may_end_a_backoff
                an_operator_may_take_a_task_from_its_worker
                only_a_held_or_retrying_task_can_be_requeued
                a_revived_task_keeps_its_attempts_unless_told_otherwise
                a_live_task_cannot_be_revived
            }
            timeout {
                an_attempt_fails_when_its_time_is_over_and_not_before
                the_time_starts_when_the_task_does heartbeats_do_not_prolong_the_time
                what_comes_after_the_timeout_is_refused
                a_completion_before_maintenance_notices_is_accepted
                the_next_attempt_gets_half_as_much_again
                the_growth_stops_at_one_hour_and_never_shrinks
                other_failures_leave_the_time_as_it_is
                a_task_that_times_out_every_time_is_dead_after_three_retries
                a_revived_task_has_its_first_time_again
                stepping_the_wall_clock_does_not_time_out_on_a_steady_clock
            }
            dead_letter {
                a_dead_letter_keeps_its_payload_and_every_error
                a_task_that_wants_no_dead_letter_is_failed
                a_task_that_is_refused_is_a_dead_letter_without_an_attempt
                the_feed_tells_why_a_task_died
                dead_letters_are_found_by_their_error a_dead_letter_can_be_revived_and_completed
                many_dead_letters_are_revived_by_filter a_discarded_task_is_gone
                every_ended_task_can_be_discarded a_live_task_cannot_be_discarded
                an_unknown_task_is_not_found
            }
            worker {
                a_registered_worker_is_shown_as_it_said every_registration_is_another_worker
                a_worker_nobody_knows_is_gone a_worker_that_takes_no_more_gets_nothing
                an_unhealthy_worker_that_recovers_gets_tasks_again
                health_does_not_undo_what_an_operator_said
                a_worker_that_takes_no_more_finishes_what_it_has
                leaving_gives_unstarted_tasks_back_at_once
                leaving_cancels_an_unstarted_task_that_should_stop
                a_worker_that_left_is_gone_but_may_settle
                a_worker_that_left_keeps_its_renewed_leases_to_their_end
                a_worker_that_was_heard_of_is_not_dead
                a_worker_silent_for_thirty_seconds_is_declared_dead
                claims_and_heartbeats_are_signs_of_life
                a_dead_worker_may_still_settle_while_its_lease_is_current
                every_change_of_a_worker_is_told a_heartbeat_carries_health
                the_leases_of_a_worker_are_counted one_workers_refusal_does_not_fail_another
                stepping_the_wall_clock_kills_no_worker_on_a_steady_clock
            }
            queue {
                a_queue_is_known_from_its_first_task settings_are_kept_and_make_a_queue_known
                nothing_is_claimed_from_a_paused_queue what_is_running_in_a_paused_queue_goes_on
                changes_of_a_queue_are_told
                a_purge_is_told_of_the_queues_that_are_known equal_queues_take_turns heavier_queues_get_their_share
                an_empty_or_paused_queue_takes_no_turn
                a_queue_with_nothing_for_this_worker_takes_no_turn
                priorities_of_one_queue_do_not_pass_over_another_queue
                from_its_first_limit_a_queue_refuses_low_and_normal
                tasks_of_one_submission_count_towards_the_limit
                only_waiting_tasks_count_towards_the_limit limits_are_each_queues_own
                a_replay_is_answered_by_a_full_queue a_full_queue_still_takes_back_what_was_claimed
            }
            list {
                a_list_is_newest_first chosen_ids_are_listed_by_the_time_in_them
                pages_of_any_size_make_the_same_list tasks_that_come_while_paging_disturb_nothing
                a_page_cursor_survives_as_text a_list_of_ended_tasks_is_latest_end_first
                every_filter_finds_exactly_what_it_means bodies_come_only_when_asked_for
                a_page_of_large_bodies_ends_early_with_a_cursor
                a_list_shows_tasks_as_they_are_one_by_one
                tasks_are_given_in_the_order_they_are_asked_for an_empty_store_has_an_empty_list
            }
            trail {
                a_plain_life_leaves_a_plain_trail an_eventful_life_is_told_whole
                a_scheduled_life_begins_with_its_schedule a_trail_shows_the_task_as_it_was_admitted
                progress_is_not_kept_in_the_trail an_update_keeps_the_lease_and_is_told
                replaying_a_trail_gives_the_task_at_every_point an_endless_trail_is_cut_and_says_so
            }
            feed {
                every_change_is_one_event an_event_tells_the_states_around_it
                a_batch_is_told_task_by_task
                numbers_rise_and_times_are_the_stores pages_of_any_size_make_the_same_feed
                a_cursor_in_the_middle_of_a_write_misses_nothing nothing_follows_the_head
                a_follower_gets_each_event_once a_cursor_survives_as_text
                a_claim_tells_who_and_with_which_fence
                a_claim_tells_how_long_its_task_was_ready an_end_tells_how_long_it_took_and_why
                a_pause_until_later_tells_until_when what_is_refused_is_not_told
                workers_and_queues_share_the_order_of_tasks
                a_reader_behind_what_is_kept_is_told_of_the_gap
                the_oldest_cursor_never_reports_a_gap events_are_kept_by_number_too
                a_cursor_of_another_life_is_a_gap
            }
            hint {
                the_hint_rises_when_something_becomes_claimable
                where_tasks_became_claimable_is_told_or_not_known
                the_hint_rises_by_as_many_as_became_claimable
            }
            stats {
                tasks_are_counted_by_state lanes_and_priorities_are_counted_apart
                another_priority_is_counted_where_it_belongs the_oldest_pending_place_is_shown
                what_has_waited_most_of_its_bound_is_starving stats_tell_the_stores_time
                a_lane_that_is_emptied_counts_nothing
            }
            prune {
                completed_tasks_are_kept_a_day cancelled_tasks_are_kept_a_day
                failed_tasks_are_kept_seven_days dead_letters_are_kept_thirty_days
                retention_counts_from_the_end a_live_task_is_never_pruned a_pruned_task_is_gone
                what_is_kept_for_ever_is_kept a_queues_own_retention_comes_first
                an_emergency_removes_everything_that_has_ended pruning_goes_in_slices
                a_revived_task_is_not_pruned_for_its_former_end
                a_pruned_task_leaves_its_ordering_key_to_others dead_workers_are_shown_for_an_hour
                pruning_a_clean_store_removes_nothing
                more_than_a_slice_of_events_and_keys_goes_in_the_end
            }
            reopen {
                everything_visible_is_as_before the_order_of_claims_is_as_before
                a_lease_is_still_good leases_start_anew_where_their_clock_does
                execution_timeouts_start_anew_where_their_clock_does
                a_lost_lease_is_found_after_a_restart what_came_due_meanwhile_comes_due
                keys_are_still_known a_repeated_settle_is_still_known a_reader_of_the_feed_goes_on
                settings_are_kept workers_are_still_known a_restart_gives_workers_time_to_be_heard
                a_line_behind_a_key_goes_on fences_and_ids_still_rise counters_and_depths_are_kept
                a_task_withheld_from_its_worker_still_is
            }
            call {
                calls_are_carried_out_in_the_order_they_are_made
                the_time_shown_is_the_stores_own
                a_call_that_nobody_waits_for_is_carried_out
                a_settle_makes_room_for_the_claim_of_the_same_call
                claims_under_way_together_never_share_a_task
                one_key_under_way_many_times_makes_one_task
                one_task_settled_many_times_at_once_ends_once a_healthy_store_says_how_durable_it_is
            }
            bad_input {
                a_schedule_beyond_five_years_is_refused an_expiry_in_the_past_or_too_far_is_refused
                an_expiry_before_the_schedule_is_refused
                a_delay_beyond_five_years_is_refused an_update_of_nothing_is_refused
                a_claim_of_none_gets_none a_claim_for_more_than_there_is_gets_what_there_is
                calls_without_units_answer_nothing odd_queues_and_types_are_each_their_own
                odd_keys_are_each_their_own odd_labels_are_kept_and_found
                odd_errors_are_kept_and_found
            }
            api_key {
                a_key_is_kept_as_it_was_made a_key_ends_by_the_stores_clock
                a_key_that_would_have_ended_is_refused an_id_belongs_to_one_key
                a_revoked_key_says_since_when revoking_again_changes_nothing
                an_unknown_key_cannot_be_revoked keys_that_ended_are_shown_for_thirty_days
                the_last_key_is_never_pruned
                a_key_that_is_good_is_never_pruned keys_and_revocations_survive_a_restart
                there_may_be_only_so_many_keys
            }
            audit {
                records_are_numbered_timed_and_chained records_of_one_call_follow_each_other
                appends_under_way_together_make_one_chain
                the_log_is_read_in_both_directions_a_page_at_a_time
                the_chain_goes_on_after_a_restart records_are_kept_for_a_year
                records_are_kept_by_number_too the_chain_survives_a_cut
                the_newest_record_stays_so_that_the_chain_goes_on
                an_emergency_leaves_the_log_alone a_clock_that_steps_back_breaks_nothing
                odd_texts_are_kept_as_they_are
            }
            overdue {
                nothing_is_overdue_in_a_quiet_store everything_that_time_does_is_listed
                at_most_so_many_commands_are_listed what_is_not_carried_out_hides_nothing
                two_rounds_at_once_do_everything_once
                what_was_done_meanwhile_is_refused_and_the_rest_is_not the_next_deadline_is_told
                sleeping_until_the_next_deadline_misses_none
            }
        }
    };
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_case_is_in_the_list() {
        for (text, listed) in crate::conformance_cases! { conformance_names } {
            let written = text.lines().filter_map(|line| line.strip_prefix("pub fn "));
            let names = written.filter_map(|line| line.split_once('(')).map(|(name, _)| name);
            assert_eq!(listed, names.collect::<Vec<_>>());
        }
    }
}
