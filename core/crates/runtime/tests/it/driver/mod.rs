//! The contract of `Driver`, tested on both drivers with real sockets, files and threads.
#![allow(
    clippy::cast_possible_truncation,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests: patterns of bytes, clocks to test waiting with, and whatever fails may panic"
)]

mod chaos;
mod closing;
mod connecting;
mod files;
mod harness;
mod sockets;
mod tasks;

/// Define one test per driver for each function, which takes the driver to test.
macro_rules! on_both_drivers {
    ($module:ident: $($name:ident),+ $(,)?) => {
        mod $module {
            mod uring {
                $(#[test] fn $name() { crate::driver::$module::$name(headrace_runtime::driver::DriverChoice::Uring); })+
            }
            mod poll {
                $(#[test] fn $name() { crate::driver::$module::$name(headrace_runtime::driver::DriverChoice::Poll); })+
            }
        }
    };
}

mod contract {
    on_both_drivers!(sockets:
        accepts_receives_and_sends,
        receives_exactly_what_a_large_frame_needs,
        receives_at_least_the_minimum,
        reports_the_end_of_the_stream,
        sends_many_slices_to_a_slow_reader,
        survives_a_peer_that_resets,
        a_thousand_connections_at_once,
        moves_a_socket_to_another_driver,
        takes_sockets_that_do_not_block,
        acknowledges_a_lone_header_at_once,
        refuses_a_receive_without_room,
        skips_connections_that_died_while_waiting,
        sends_in_the_order_of_submission,
    );
    on_both_drivers!(chaos: everything_ends_once_whatever_happens);
    on_both_drivers!(closing:
        cancels_what_waits,
        cancels_a_receive_in_the_middle,
        cancels_a_send_that_is_stuck,
        closes_under_a_receive,
        a_number_used_again_is_another_connection,
        what_precedes_a_close_stays_with_its_socket,
        half_a_frame_ends_with_its_socket,
        gives_everything_back_when_dropped,
        finishes_work_begun_before_it_is_gone,
    );
    on_both_drivers!(connecting:
        connects_and_serves_the_connection,
        resolves_a_name,
        reports_why_there_is_no_connection,
        waits_no_longer_for_a_silent_peer,
    );
    on_both_drivers!(files:
        writes_reads_and_syncs,
        reads_end_with_the_file,
        reports_errors_with_the_buffer,
        many_reads_at_once,
    );
    on_both_drivers!(tasks:
        runs_work_elsewhere,
        a_panic_is_an_error,
        takes_back_what_has_not_begun,
        wakes_from_another_thread,
        coalesces_wake_ups,
        waits_no_longer_than_asked,
        never_misses_a_wake_up,
    );
}
