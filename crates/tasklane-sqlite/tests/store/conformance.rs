//! The suite, in memory and on disk.

mod memory {
    tasklane_store::conformance_suite!(crate::fixture::Embedded::in_memory);
}

mod disk {
    tasklane_store::conformance_suite!(crate::fixture::Embedded::on_disk);
}
