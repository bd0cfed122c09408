//! The suite.

tasklane_store::conformance_suite!(crate::fixture::OnPostgres::new);
