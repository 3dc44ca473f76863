//! Scripted scenarios with their expected traces, in `tests/scenarios`.
//!
//! After an intended change of behaviour `SCENARIOS=write cargo test -p headrace-vsr --test it scenarios` writes the
//! new traces: review the difference before committing it.

use std::path::Path;

fn check(name: &str) {
    // Cargo runs tests in the directory of their crate; a path compiled in would be that of the checkout that built
    // them.
    let path = Path::new("tests/scenarios").join(format!("{name}.txt"));
    let expected = std::fs::read_to_string(&path).unwrap();
    let actual = crate::world::script::run(&expected);
    if std::env::var("SCENARIOS").is_ok_and(|mode| mode == "write") {
        std::fs::write(&path, actual).unwrap();
        return;
    }
    for (number, (expected, actual)) in expected.lines().zip(actual.lines()).enumerate() {
        assert_eq!(expected, actual, "{name}.txt, line {}", number + 1);
    }
    assert_eq!(
        expected.lines().count(),
        actual.lines().count(),
        "{name}.txt"
    );
}

macro_rules! scenarios {
    ($($test:ident: $name:literal,)*) => {$(
        #[test]
        fn $test() {
            check($name);
        }
    )*};
}

scenarios! {
    ctl_1_one_command_on_three_replicas: "normal",
    ctl_1_alone_a_replica_commits_by_itself: "alone",
    ctl_1_the_primary_dies: "fail_over",
    ctl_1_vsr_1_a_committed_prepare_survives_its_primary: "committed_survives",
    ctl_1_vsr_2_an_answer_cuts_a_lost_entry: "lost_entry",
    ctl_1_a_primary_that_was_cut_off_redirects_its_callers: "cut_off_primary",
    ctl_1_vsr_3_a_head_without_its_body: "head_without_body",
    ctl_5_vsr_5_a_damaged_copy_is_waited_for: "damaged_copy",
    ctl_5_vsr_6_nothing_is_acknowledged_before_it_is_durable: "durable_first",
    ctl_4_vsr_20_a_primary_that_cannot_hear: "deaf_primary",
    ctl_4_vsr_22_all_start_at_once: "all_start",
    ctl_1_vsr_26_a_stray_below_the_suffix: "stray",
    ctl_1_vsr_28_an_empty_log_is_remembered: "empty_log",
    ctl_1_vsr_29_an_old_start_view: "old_start_view",
    ctl_5_a_backup_with_a_full_disk: "full_disk",
    ctl_6_vsr_36_the_last_copy_of_a_body_rots: "last_copy",
    ctl_5_a_checkpoint_that_falls_due_during_another: "slow_checkpoint",
    ctl_6_a_replica_that_was_away_takes_a_checkpoint: "state_transfer",
    ctl_1_sessions_execute_a_request_once: "sessions",
    ctl_1_a_read_index_waits_for_a_quorum: "read_index",
}
